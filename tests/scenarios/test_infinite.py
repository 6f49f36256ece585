"""A null of a summary that means infinity or never counts as such over seeds; one that is missing
does not."""

import re
from math import inf

import numpy as np
import pytest
from rows import read_cells, read_yaml
from screens import sweep_lines

from scenarios.app.claims.claim import OPEN, read_claims
from scenarios.app.claims.evaluate import evaluate_claim, read_labelled_summaries
from scenarios.app.cli.commands import main
from scenarios.app.report.report import write_report
from scenarios.app.results.shown import build_headline, compute_seed_quartiles, format_seed_values
from scenarios.app.results.summary_keys import KEYS, find_measure, read_value
from scenarios.app.results.table import FOUND, INCONCLUSIVE, build_lines

RMSE = "utility.rmse_db"
DAY = "attack.closed-form.home_located.day.median"
ERROR = "attack.x.centroid_error_m.median"
RADIO = "{shadowing: {kind: correlated, std_db: 6, decorrelation_m: 50}, measurement_noise_db: 2.5}"
DAYS = f"""
title: From which day half of the homes are named, over seeds
seed: 1
world:
  first_day: "2026-01-05"
  duration_s: 345600
  tick_s: 3600
  city: {{kind: open-field, width_m: 2400, height_m: 1800}}
  base_stations: [{{name: town, position_m: [1150, 950], height_m: 26.5}}]
  ues: {{count: 4, mobility: {{kind: commuter}}}}
  radio: {RADIO}
learning:
  round_s: 86400
  learner: {{kind: rsrp-net, hidden: [64, 64], activation: relu, labels: centred, learning_rate: 1e-3, local_epochs: 2,
    batch_size: 50}}
  references: {{central: false, kriging_samples: 0}}
  attacks: [{{kind: closed-form}}]
vary: {{seed: [1, 2, 3, 4, 5, 6], variants: [{{label: as written, set: {{}}}}]}}
"""
DIVERGES = """
title: Five seeds, one of which diverges
seed: 1
world:
  first_day: "2026-01-05"
  duration_s: 900
  tick_s: 10
  city: {kind: open-field, width_m: 1000, height_m: 800}
  base_stations: [{name: west, position_m: [250, 400]}, {name: east, position_m: [750, 400]}]
  ues: {count: 6, mobility: {kind: random-waypoint}, measurement_period_s: 30}
  radio: {shadowing: {kind: correlated}}
learning:
  round_s: 150
  data: {kind: measured, cell: strongest}
  learner: {kind: rsrp-net, hidden: [16], labels: raw, learning_rate: 0.01, local_epochs: 5,
    public_rsrp_mean_dbm: -80, public_rsrp_std_db: 10}
  attacks: [{kind: closed-form}]
vary: {seed: [1, 3, 4, 6, 8], values: {learning.learner.learning_rate: [0.011]}}
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """The folders of both sweeps."""
    place = tmp_path_factory.mktemp("swept")
    for name, text in (("days", DAYS), ("diverges", DIVERGES)):
        (place / f"{name}.yaml").write_text(text)
        command = f"sweep {place / name}.yaml --out {place / name} --jobs 1 --quiet"
        assert main(command.split()) == 0
    return place


def verdict(place, folder, key, bound):
    rule = f"{{kind: at-most, key: {key}, bound: {bound}}}"
    text = (
        f"claims:\n- {{id: a, paper: P, where: F, says: x, scenario: {folder}.yaml, rule: "
        f"{rule}}}\n"
    )
    (place / "claims.yaml").write_text(text)
    (claim,) = read_claims(place / "claims.yaml").claims
    return evaluate_claim(claim, read_labelled_summaries(place / folder))


def find_line(runs, key):
    """Find the line of a key."""
    return next(item for item in build_lines(runs) if item.key == key)


def test_homes_that_are_never_named_count_over_seeds(swept):
    (group,) = read_labelled_summaries(swept / "days").values()
    runs = [*group.values()]
    assert [run[DAY] for run in runs].count(None) == 4
    assert compute_seed_quartiles(runs, DAY)[1] == inf
    assert "(∞ in 4 of 6)" in format_seed_values(runs, DAY)
    line = find_line(runs, DAY)
    assert line.figure == line.amount == "never in 4 of 6"
    assert line.high == inf
    assert find_line(runs[:1], DAY).figure == "never"
    assert "never in 4 of 6" in write_report(swept / "days").read_text(encoding="utf-8")
    assert verdict(swept, "days", DAY, 4).verdict == OPEN


def test_a_run_that_diverges_leaves_a_claim_undecided(swept):
    (group,) = read_labelled_summaries(swept / "diverges").values()
    assert [run[RMSE] for run in group.values()].count(None) == 1
    result = verdict(swept, "diverges", RMSE, 14)
    assert result.verdict == OPEN
    assert re.search("median between 7.3.* and inf", result.reason)
    assert "∞ in 1 of 5" in result.ours
    assert "∞ in 1 of 5" in "\n".join(sweep_lines([("a", run) for run in group.values()]))
    del group[next(seed for seed, run in group.items() if run[RMSE] is None)]
    assert verdict(swept, "diverges", RMSE, 14).verdict == OPEN  # it is read from the folders
    assert max(run[RMSE] for run in group.values()) < 14


NULLS = """
RMSE                                         CONSTANT: 9               inf
RMSE                                         CONSTANT: null            nan
utility.central_rmse_db                      CONSTANT: 9               inf
utility.path_loss_rmse_db                    CONSTANT: 9               nan
utility.useful_round                         CONSTANT: 9               inf
utility.useful_round                         -                         nan
utility.mape_percent                         RMSE: null, CONSTANT: 9   inf
utility.mape_percent                         RMSE: 3, CONSTANT: 9      nan
utility.federated_over_central               RMSE: 3, CONSTANT: 9      nan
metric.learner.rmse_db.last20.mean           RMSE: null, CONSTANT: 9   inf
metric.learner.rmse_db.last                  RMSE: 3, CONSTANT: 9      nan
ERROR                                        attack.x.diverged.percent: 60      inf
ERROR                                        attack.x.diverged.percent: 0       nan
ERROR                                        attack.other.diverged.percent: 60  nan
attack.x.selected_error_m.median             attack.x.diverged.percent: 60      inf
attack.x.sw1_m.mean                          attack.x.diverged.percent: 100     inf
attack.x.centroid_error_m.less_baseline.low  attack.x.diverged.percent: 60      nan
attack.x.densest_located.day.median          attack.x.densest.count: 2          inf
attack.x.home_located.day.median             attack.x.homes.count: 0            nan
linking.x.time_to_confusion_s                linking.x.right.percent: 100       inf
linking.x.time_to_confusion_s                linking.x.right.percent: null      nan
reached.80.time_s                            -                                  inf
reached.80.uploads                           -                                  inf
privacy.all.epsilon.max                      -                                  inf
privacy.geo.epsilon_per_m.max                -                                  inf
privacy.all.with_channel.max                 privacy.all.epsilon.max: null      inf
privacy.all.with_channel.max                 privacy.all.epsilon.max: 3         nan
updates.decoded.percent                      -                                  nan
membership.x.auc.last                        -                                  nan
"""
"""a key, other keys, and what its null is worth; NaN too for several cells at unknown places, where
central training has failed, and for the interval of a single UE"""
NULLS = NULLS.replace("RMSE", RMSE).replace("ERROR", ERROR)
NULLS = NULLS.replace("CONSTANT", "utility.constant_rmse_db")


@pytest.mark.parametrize("key, rest, worth", read_cells(NULLS))
def test_what_a_null_is_worth(key, rest, worth):
    rest = {} if rest == "-" else read_yaml(rest)
    worth = float(worth)
    run = {key: None, **rest}
    assert read_value(run, key) == pytest.approx(worth, nan_ok=True)
    assert np.isnan(read_value(rest, key)) or key in rest  # a key that is not there is missing
    assert read_value({key: 2}, key) == 2.0
    assert compute_seed_quartiles([run, {**rest, key: 1.0}, {**rest, key: 3.0}], key)[1] == (
        3.0 if np.isinf(worth) else 2.0
    )


def test_each_declared_null_names_keys_that_are_declared():
    named = [item for item in KEYS if item.infinite not in ("", "always")]
    for item in named:
        assert find_measure(item.infinite.removeprefix("as ").replace("NAME", "x")) is not None
    assert len(named) > 10


def test_an_error_that_is_infinite_is_never_found():
    stem = ERROR.removesuffix(".median")
    run = read_yaml(f"""
        baseline.area_centre.error_m.median: 200.0, attack.x.diverged.percent: 60.0, {ERROR}: null,
        {stem}.less_baseline.mean: -90.0, {stem}.less_baseline.low: -99.0,
        {stem}.less_baseline.high: -80.0
    """)
    finite = run | {ERROR: 20.0}
    for runs in ([run], [run, finite]):
        line = find_line(runs, ERROR)
        assert (line.value, line.verdict) == (inf, INCONCLUSIVE)
        headline = build_headline(build_lines(runs), {"attacks": [{}]}, run)
        message = " ".join(text for _, text in headline)
        assert "Found" not in message
        assert "∞ m" not in message
    assert find_line([finite], ERROR).verdict == FOUND
