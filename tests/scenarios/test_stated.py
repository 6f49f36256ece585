"""Places that are stated with a probability: in the summary, the tables and the terminal."""

import json
from math import nan

import numpy as np
import pytest
from pages import read_csv
from rows import read_yaml
from tabled import cases

from scenarios.app.result import run
from scenarios.app.results.attacks import Truth, collect_named_rows, measure_stated_reliability
from scenarios.app.results.summary_keys import compute_measures

PLACES = read_yaml("""
    m: [[[100, 100], [1500, 900]], [[500, 500], [.nan, .nan]], [[900, 300], [2500, 700]],
    [[2000, 1500], [.nan, .nan]]]
""")
TRUTH = Truth(np.array([0.0, 1.0, 2.0, 5.0]), np.array(PLACES["m"], dtype=float), 100.0)


def table(*rows):
    ue, rank, x, y, place, probability = zip(*rows, strict=True)
    numbers = {"ue": ue, "rank": rank, "x_m": x, "y_m": y, "probability": probability}
    columns = {k: np.array(v, dtype=float) for k, v in numbers.items()}
    return columns | {"place": np.array(place, dtype=object)}


STATED = table(
    *cases("""
0, 1, 120, 130, "home", 0.8
0, 2, 1500, 950, "work", 0.6
0, 3, 100, 100, "third 1", 0.99
1, 1, 900, 500, "home", 0.7
1, 2, 510, 500, "work", 0.9
2, 2, 2500, 700, "work", 0.55
7, 1, 1, 1, "home", 1.0
""")
)
"""those of UE 1, which has no workplace, are both wrong; UE 7 has no place"""


ROWS = {"ue": np.arange(3.0), "round": np.ones(3), "home_named_m": np.array([36.0, 400.0, nan])}
ROWS |= {"densest_named_m": np.full(3, nan)}


def name_places(values):
    return compute_measures(collect_named_rows(ROWS, values, TRUTH, TRUTH.ue, {1: 1.0}, {}), "a")


def test_by_hand():
    assert name_places(STATED)["attack.a.home_answer_rate.percent"] == 50
    bins = {5: 0.55 - 1, 6: 0.6 - 1, 7: 0.7, 8: 0.8 - 1, 9: 0.9}
    result = measure_stated_reliability(STATED, TRUTH)
    assert result.error == pytest.approx(sum(map(abs, bins.values())) / 5)
    assert result.count == 5


def test_who_is_silent_is_not_named():
    """UEs 2 and 5 have homes that nobody names; that of UE 1 is found by what is said to be work,
    as of any attack that names two places. Third places name no home, also where they are near it.
    """
    third = table((2, 3, 900, 300, "third 1", 0.9))
    for values, share in ((STATED, 50.0), (third, 0.0)):
        assert name_places(values)["attack.a.home_located.percent"] == share
    assert name_places(third)["attack.a.home_answer_rate.percent"] == 0


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """Two commuters, four days of rounds of two hours, and errors that are learnt."""
    out = tmp_path_factory.mktemp("stated") / "r"
    changes = read_yaml("""
        world.duration_s: 345600, world.tick_s: 1200, world.ues.measurement_period_s: null,
        world.ues.count: 2, world.ues.mobility: {kind: commuter, home_m: [[100, 100], [1000, 700]],
        work_m: [[900, 400], [150, 700]]}, world.city.width_m: 1200, world.city.height_m: 900,
        learning.round_s: 7200, learning.data: {kind: measured, cell: all},
        learning.learner.activation: relu, learning.attacks: [{kind: dwell, shadow_ues: 24,
        min_probability: 0.3, third_places: 1, home_hours: [17, 9]}],
        learning.leakage: {random_baseline_draws: 20, directions: 12}
    """)
    run(tiny(changes), out)
    return out


def test_a_run_names_homes_with_probabilities(folder):
    rows = read_csv(folder / "named.csv")
    homes = {r["ue"]: r for r in rows if r["place"] == "home"}
    assert set(homes) == {"0", "1"}
    for ue, (x, y) in {"0": (100, 100), "1": (1000, 700)}.items():
        assert 0.3 <= float(homes[ue]["probability"]) <= 1
        assert homes[ue]["rank"] == "1"
        assert np.hypot(float(homes[ue]["x_m"]) - x, float(homes[ue]["y_m"]) - y) <= 100
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["attack.dwell.home_located.percent"] == 100
    assert summary["attack.dwell.home_answer_rate.percent"] == 100
