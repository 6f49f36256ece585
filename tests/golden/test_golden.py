"""Every built-in study is played briefly: it plays its rounds, scores its model, and its world is
the golden one.

Nothing else is compared here, since it hangs on the processor: `sketch.py` says why. What moves at
all, and on which machine, is what `python tests/golden/golden.py` tells developers.
"""

import json
import os
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
from brief import ROUNDS, TRAINED, brief, names, needs_data, play
from golden import (
    GOLDEN,
    explain_refusal,
    golden,
    make_key,
    play_briefly,
    read_kept,
    warn_of_processor,
)
from rows import read_cells
from sketch import TOLERANCE, column, compare_worlds, differences, sketch

from netsim.workers import use_workers

SLOW = set(
    """
assess/geolife
assess/santa-monica
city/asynchronous
cities/pedestrians
power/city (training)
radio/calibration
rsrp-dp/budget
rsrp-dp/noise
signal-maps/interval
signal-maps/santa-monica/batch-size
signal-maps/santa-monica/interval
signal-maps/santa-monica/ranking
signal-maps/santa-monica/users
tracking/names
useful/drives
useful/geolife
useful/santa-monica
city/sums
city/crowd
city/crowd-uplink
replay
campus-public
campus/settings
cities/town-radio-maps
cities/town-rsrp-dp
cities/town-signal-maps
density/midtown
lapa/mnist-privacy
radio-maps/etoile
radio-maps/leak
radio-maps/munich
radio-maps/noise
radio-maps/rho
radio-maps/theory
radio-maps/train
rsrp-dp/clip
rsrp-dp/cork
rsrp-dp/labels
rsrp-dp/santa-monica
tracking/check-ins
tracking/drives
tracking/people
tracking/taxis
useful/leakage
power/pedestrians (training)
city
tracking/city
radio-maps/moving
cities/town-density
power/paper (training)
rsrp-dp/membership
lapa/mnist
power/streets (training)
cities/munich
lapa/guarantee
lapa/heterogeneity
lapa/initial-noise
lapa/noise-control
signal-maps/diverse
signal-maps/epochs
signal-maps/farthest
signal-maps/santa-monica/defenses
signal-maps/users
signal-maps/batch-size
signal-maps/starts
density/cities
lapa/fashion
power/next-door
power/next-door (training)
power/next-door-all
power/next-door-all (training)
power/switch
signal-maps/santa-monica/diverse
signal-maps/santa-monica/epochs
signal-maps/santa-monica/farthest
assess/town
power/switch (training)
power/whole-images (training)
""".strip().splitlines()
)
"""what takes more than two seconds, or differs from another by a number alone"""
CHEAPER = {"assess/city": {"learning.attacks": [{"kind": "neuron-votes"}]}}
"""study -> changes of its quick test: its other attack learns on towns first"""
SMALL = "cities/sensors"


def skip_without_data(name):
    if needs_data(name) and "NETSIM_DATA" not in os.environ:
        pytest.skip("NETSIM_DATA is not set: no real data here")


def mark_slow(name):
    return pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())


@pytest.mark.parametrize("name", [mark_slow(name) for name in names()])
def test_a_short_run_plays_and_its_world_is_the_golden_one(name, tmp_path):
    skip_without_data(name)
    files = play(name, tmp_path / "run", CHEAPER.get(name))
    assert compare_worlds(name, golden()[name], sketch(tmp_path / "run", files)) == []
    if name.endswith(TRAINED):
        assert {"evaluations.csv", "curve.csv"} <= {
            path.name for path in (tmp_path / "run").iterdir() if path.stat().st_size
        }
        return
    study = brief(name)
    summary = json.loads((tmp_path / "run/summary.json").read_text())
    if study.learning is None:
        assert summary["radio.samples"] > 0
        return
    # a trace lasts as long as it does
    kind = study.learning.learner.kind_name()
    lasts_s = study.world.duration_s
    # people are asked once
    possible = lasts_s // study.round_s if lasts_s else 1 if kind == "density" else ROUNDS
    assert summary["rounds.played"] == min(ROUNDS, possible)
    text = {"density": "rank_correlation", "torch": "accuracy_percent"}.get(kind, "rmse_db")
    assert summary[f"utility.{text}"] is not None


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_a_short_run_has_the_same_bytes_with_two_workers(name, tmp_path):
    skip_without_data(name)
    written = []
    for workers in ("1", "2"):
        with use_workers(int(workers)):
            play(name, tmp_path / workers)
        written.append(
            {path.name: path.read_bytes() for path in (tmp_path / workers).glob("*.csv")}
        )
    assert written[0] == written[1] != {}


def test_every_study_has_golden_numbers_and_nothing_else_has():
    machines, studies = read_kept()
    assert list(studies) == names()
    assert set(names()) > SLOW
    assert {group["machine"] for group in studies.values()} == set(machines)
    assert all(key == make_key(group) for key, group in machines.items())
    assert GOLDEN.stat().st_size < 3e6


# -- what is found


def test_another_seed_is_another_world(tmp_path):
    result = play_briefly(SMALL, tmp_path / "run", {"seed": brief(SMALL).seed + 1})
    moved = {
        line.split(", column ")[1].split(":")[0]
        for line in compare_worlds(SMALL, golden()[SMALL], result)
    }
    assert moved == {"x_m", "y_m", "rsrp_dbm"}


def sketches(was, current, name="rsrp_dbm", file="links.csv"):
    """Two sketches of one column."""
    return tuple(
        {file: {"rows": len(cells), "columns": {name: column(cells)}}} for cells in (was, current)
    )


def test_rounding_is_found_by_the_command_and_allowed_in_a_world():
    values = [float(v) for v in np.random.default_rng(1).normal(-90, 10, 1000)]
    for by, is_other in (
        (1e-9, False),
        (0.9 * TOLERANCE * 90_000, False),
        (1.2 * TOLERANCE * 90_000, True),
    ):
        item, two = sketches(
            [repr(v) for v in values], [repr(values[0] + by), *map(repr, values[1:])]
        )
        assert bool(compare_worlds("study", item, two)) == is_other
        (line,) = differences("study", item, two)
        assert line.startswith("study: links.csv, column rsrp_dbm: ")


MOVES = """
1 2      1 3       mean was 1.5, is 2
1 2      2 1       other values
a b      a c       other values
1.5 -    - 1.5     other values
1.5 inf  1.5 -inf  other values
1.5 2    a 2       other kinds of values
2.5      2.50001   mean was 2.5, is 2.50001
"""


@pytest.mark.parametrize("was, current, text", read_cells(MOVES))
def test_the_command_compares_exactly(was, current, text):
    values = [[v.removesuffix("-") for v in cells.split()] for cells in (was, current)]
    item, two = sketches(*values, "k", "a.csv")
    assert differences("s", item, deepcopy(item)) == []
    (line,) = differences("s", item, two)
    assert line.startswith(f"s: a.csv, column k: {text}")


# -- other machines


def test_no_bits_of_other_kernels_or_versions_are_compared():
    """One line says what differs, and the remedy; of another processor with the same kernels a line
    warns."""
    local = {"processor": "A", "OpenBLAS": "Katmai", "numpy": "2.4.6"}

    def lines(made_on, chosen=("x",)):
        values = (
            Path("golden.json"),
            {"key": made_on},
            {"x": {"machine": "key"}},
            list(chosen),
            local,
        )
        return explain_refusal(*values), "" if len(chosen) > 1 else warn_of_processor(*values)

    assert lines(local) == ("", "")
    refusal, _ = lines(local | {"OpenBLAS": "Zen", "numpy": "2.3.0"})
    assert refusal.startswith(
        "golden.json: x was played on another machine, whose last digits are others (OpenBLAS: Zen "
    )
    assert "numpy: 2.3.0 there, 2.4.6 here" in refusal
    assert "--renew --file FILE" in refusal
    assert "\n" not in refusal
    refusal, warning = lines(local | {"processor": "B"})
    assert refusal == ""
    assert warning.startswith("golden.json: was played by B, with the same kernels; ")
    assert lines(local, ("x", "y"))[0].startswith("golden.json: has no numbers of y; ")
