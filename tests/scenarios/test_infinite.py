"""A null of a summary that means infinity or never counts as such over seeds; one that is missing
does not."""

import numpy as np
import pytest
from screens import sweep_lines

from scenarios.app.claims.claim import OPEN, read_claims
from scenarios.app.claims.evaluate import evaluate, labelled
from scenarios.app.cli.commands import main
from scenarios.app.report.report import report
from scenarios.app.results.shown import cell_text, headline, over_seeds
from scenarios.app.results.summary_keys import KEYS, declaration, value_in
from scenarios.app.results.table import FOUND, INCONCLUSIVE, lines

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
  references: {{central: false}}
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
        words = [str(place / f"{name}.yaml"), "--out", str(place / name), "--jobs", "1", "--quiet"]
        assert main(["sweep", *words]) == 0
    return place


def verdict(place, folder, key, bound):
    rule = f"{{kind: at-most, key: {key}, bound: {bound}}}"
    text = (
        f"claims:\n- {{id: a, paper: P, where: F, says: x, scenario: {folder}.yaml, rule: "
        f"{rule}}}\n"
    )
    (place / "claims.yaml").write_text(text)
    (claim,) = read_claims(place / "claims.yaml").claims
    return evaluate(claim, labelled(place / folder))


def test_homes_that_are_never_named_count_over_seeds(swept):
    (of,) = labelled(swept / "days").values()
    runs = [*of.values()]
    assert [run[DAY] for run in runs].count(None) == 4
    assert over_seeds(runs, DAY)[1] == np.inf
    assert "(∞ in 4 of 6)" in cell_text(runs, DAY)
    line = next(one for one in lines(runs) if one.key == DAY)
    assert line.figure == line.amount == "never in 4 of 6"
    assert line.high == np.inf
    assert next(one for one in lines(runs[:1]) if one.key == DAY).figure == "never"
    assert "never in 4 of 6" in report(swept / "days").read_text(encoding="utf-8")
    assert verdict(swept, "days", DAY, 4).verdict == OPEN


def test_a_run_that_diverges_leaves_a_claim_undecided(swept):
    (of,) = labelled(swept / "diverges").values()
    assert [run[RMSE] for run in of.values()].count(None) == 1
    found = verdict(swept, "diverges", RMSE, 14)
    assert found.verdict == OPEN
    assert "median between 7.3" in found.reason
    assert "and inf" in found.reason
    assert "∞ in 1 of 5" in found.ours
    assert "∞ in 1 of 5" in "\n".join(sweep_lines([("a", run) for run in of.values()]))
    del of[next(seed for seed, run in of.items() if run[RMSE] is None)]
    assert verdict(swept, "diverges", RMSE, 14).verdict == OPEN  # it is read from the folders
    assert max(run[RMSE] for run in of.values()) < 14


NULLS = [  # key, other keys, and what its null is worth
    (RMSE, {"utility.constant_rmse_db": 9.0}, np.inf),
    (RMSE, {"utility.constant_rmse_db": None}, np.nan),
    ("utility.central_rmse_db", {"utility.constant_rmse_db": 9.0}, np.inf),
    (
        "utility.path_loss_rmse_db",
        {"utility.constant_rmse_db": 9.0},
        np.nan,
    ),  # several cells at unknown places
    ("utility.useful_round", {"utility.constant_rmse_db": 9.0}, np.inf),
    ("utility.useful_round", {}, np.nan),
    ("utility.mape_percent", {RMSE: None, "utility.constant_rmse_db": 9.0}, np.inf),
    ("utility.mape_percent", {RMSE: 3.0, "utility.constant_rmse_db": 9.0}, np.nan),
    (
        "utility.federated_over_central",
        {RMSE: 3.0, "utility.constant_rmse_db": 9.0},
        np.nan,
    ),  # central has failed
    ("metric.learner.rmse_db.last20.mean", {RMSE: None, "utility.constant_rmse_db": 9.0}, np.inf),
    ("metric.learner.rmse_db.last", {RMSE: 3.0, "utility.constant_rmse_db": 9.0}, np.nan),
    (ERROR, {"attack.x.diverged.percent": 60.0}, np.inf),
    (ERROR, {"attack.x.diverged.percent": 0.0}, np.nan),
    (ERROR, {"attack.other.diverged.percent": 60.0}, np.nan),
    ("attack.x.selected_error_m.median", {"attack.x.diverged.percent": 60.0}, np.inf),
    ("attack.x.sw1_m.mean", {"attack.x.diverged.percent": 100.0}, np.inf),
    (
        "attack.x.centroid_error_m.less_baseline.low",
        {"attack.x.diverged.percent": 60.0},
        np.nan,
    ),  # of a single UE
    ("attack.x.densest_located.day.median", {"attack.x.densest.count": 2}, np.inf),
    ("attack.x.home_located.day.median", {"attack.x.homes.count": 0}, np.nan),
    ("linking.x.time_to_confusion_s", {"linking.x.right.percent": 100.0}, np.inf),
    ("linking.x.time_to_confusion_s", {"linking.x.right.percent": None}, np.nan),
    ("reached.80.time_s", {}, np.inf),
    ("reached.80.uploads", {}, np.inf),
    ("privacy.all.epsilon.max", {}, np.inf),
    ("privacy.geo.epsilon_per_m.max", {}, np.inf),
    ("privacy.all.with_channel.max", {"privacy.all.epsilon.max": None}, np.inf),
    ("privacy.all.with_channel.max", {"privacy.all.epsilon.max": 3.0}, np.nan),
    ("updates.decoded.percent", {}, np.nan),
    ("membership.x.auc.last", {}, np.nan),
]


@pytest.mark.parametrize(("key", "others", "worth"), NULLS)
def test_what_a_null_is_worth(key, others, worth):
    run = {key: None, **others}
    assert value_in(run, key) == pytest.approx(worth, nan_ok=True)
    assert np.isnan(value_in(others, key)) or key in others  # a key that is not there is missing
    assert value_in({key: 2}, key) == 2.0
    three = [run, {**others, key: 1.0}, {**others, key: 3.0}]
    assert over_seeds(three, key)[1] == (3.0 if np.isinf(worth) else 2.0)


def test_each_declared_null_names_keys_that_are_declared():
    named = [one for one in KEYS if one.infinite not in ("", "always")]
    for one in named:
        assert declaration(one.infinite.removeprefix("as ").replace("NAME", "x")) is not None, (
            one.key
        )
    assert len(named) > 10


def test_an_error_that_is_infinite_is_never_found():
    stem = ERROR.removesuffix(".median")
    less = {
        f"{stem}.less_baseline.{end}": value
        for end, value in (("mean", -90.0), ("low", -99.0), ("high", -80.0))
    }
    run = {
        "baseline.area_centre.error_m.median": 200.0,
        "attack.x.diverged.percent": 60.0,
        ERROR: None,
        **less,
    }
    for runs in ([run], [run, {**run, ERROR: 20.0}]):
        line = next(one for one in lines(runs) if one.key == ERROR)
        assert (line.value, line.verdict) == (np.inf, INCONCLUSIVE)
        said = " ".join(text for _, text in headline(lines(runs), {"attacks": [{}]}, run))
        assert "Found" not in said
        assert "∞ m" not in said
    assert next(one for one in lines([{**run, ERROR: 20.0}]) if one.key == ERROR).verdict == FOUND
