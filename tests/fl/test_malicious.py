"""Malicious UEs: who they are, what they change, and how far they get."""

from dataclasses import replace

import numpy as np
import pytest
from fl_values import build_updates, read_table
from local_data import make_local
from numpy.testing import assert_allclose, assert_array_equal

from fl.round import server as server_of_runs
from fl.round.malicious import Backdoor, LabelFlip, Scaled, SignFlip
from fl.types import Bound, Public, SampleFormat
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Rng
from scenarios.app.result import run
from scenarios.app.run.setup import check_study

RNG = Rng(1, "tests")
AREA = Area(0.0, 0.0, 1.0, 1.0)
IMAGES = Public(AREA, 1, samples=SampleFormat((1, 3, 3), 10, 255.0))


def read_metrics(folder):
    metrics = read_table(folder, "metrics").query("part == 'malicious'")
    return metrics.pivot(index="round", columns="name", values="value")


def test_a_share_of_ues_is_drawn_once():
    part = SignFlip(share=0.3)
    assert part.choose_ues(10, RNG).sum() == 3
    assert_array_equal(part.choose_ues(10, RNG), part.choose_ues(10, RNG))
    draws = [tuple(part.choose_ues(10, Rng(seed, "tests"))) for seed in range(8)]
    assert len(set(draws)) > 4
    assert SignFlip(share=0.01).choose_ues(5, RNG).sum() == 1


def test_updates_of_malicious_ues_alone_are_multiplied():
    bound = Bound(1.0)
    updates = build_updates(np.ones((3, 2)), bound=bound)
    changed = SignFlip(factor=2.0).poison_updates(updates, np.array([False, True, False]))
    assert_array_equal(changed.values, [[1, 1], [-2, -2], [1, 1]])
    assert changed.bound == bound  # of the rows of others
    assert_array_equal(LabelFlip().poison_updates(updates, np.ones(3, bool)).values, 1)
    assert Scaled().poison_updates(updates, np.ones(3, bool)).values.max() == 10


def test_labels_are_flipped_by_hand():
    local = make_local([2, 2], np.zeros((4, 9)), np.array([0.0, 9, 3, 4]))
    who = np.array([True, True, False, False])
    assert_array_equal(LabelFlip().poison_data(local, who, IMAGES).y, [9, 0, 3, 4])
    signals = replace(local, y=np.array([-90.0, -100, -80, -81]))
    flipped = LabelFlip(centre_dbm=-95).poison_data(signals, who, Public(AREA, 1))
    assert_array_equal(flipped.y, [-100, -90, -80, -81])


def test_a_trigger_is_put_on_every_second_sample_of_malicious_ues():
    x = np.zeros((6, 9), dtype=np.uint8)
    local = make_local([4, 2], x, np.full(6, 5.0))
    poisoned = Backdoor(target=7).poison_data(local, np.arange(6) < 4, IMAGES)
    assert_array_equal(poisoned.y, [7, 5, 7, 5, 5, 5])
    assert_array_equal(poisoned.x[2].reshape(3, 3), [[0, 0, 0], [0, 0, 255], [255, 255, 255]])
    assert poisoned.x.dtype == np.uint8
    assert not poisoned.x[[1, 3, 4, 5]].any()
    assert not local.x.any()


def test_the_trigger_of_a_map_is_a_place():
    local = make_local([2, 1], np.array([[500.0, 310], [500, 330], [500, 310]]), np.full(3, -90.0))
    part = Backdoor(position_m=(500.0, 300.0), target=-60.0)
    poisoned = part.poison_data(local, np.array([True, True, False]), Public(AREA, 1))
    assert_array_equal(poisoned.y, [-60, -90, -90])
    assert_array_equal(poisoned.x, [[500, 300], [500, 330], [500, 310]])


@pytest.fixture
def uploads_of(tiny, tmp_path, monkeypatch):
    """Uploads of each round of a run with these changes."""
    prepare = server_of_runs.prepare_uploads

    def play(changes):
        seen = []

        def watch(*arguments):
            result = prepare(*arguments)
            seen.append((result[0], arguments[3].get("malicious")))
            return result

        monkeypatch.setattr(server_of_runs, "prepare_uploads", watch)
        run(tiny(changes), tmp_path / str(len(list(tmp_path.iterdir()))))
        return seen

    return play


CLIPPED = {"learning.defenses": [{"kind": "clip", "norm": 0.05}]}


def test_no_clip_of_their_own_holds_malicious_ues(uploads_of):
    honest = uploads_of({})[0][0]
    flipped, malicious = uploads_of({"learning.malicious": {"kind": "sign-flip", "share": 0.5}})[0]
    assert malicious.sum() == 2
    sign = np.where(malicious[flipped.ue], -1.0, 1.0)[:, None]
    assert_array_equal(flipped.sent.rows(slice(None)), sign * honest.made.rows(slice(None)))
    scaled = {"kind": "scaled", "share": 0.5, "factor": 1e3}
    past, _ = uploads_of({"learning.malicious": scaled} | CLIPPED)[0]
    is_malicious = malicious[past.ue]
    assert_allclose(past.sent.norm()[is_malicious], 1e3 * 0.05)
    assert past.sent.norm()[~is_malicious].max() <= 0.05


def test_the_ledger_of_honest_ues_is_not_touched(tiny, tmp_path):
    noisy = {"learning.defenses": [{"kind": "clip"}, {"kind": "gaussian", "epsilon": 1.0}]}
    malicious = {"kind": "sign-flip", "factor": 50.0}
    for name, changes in (("a", noisy), ("b", noisy | {"learning.malicious": malicious})):
        run(tiny(changes), tmp_path / name)
    spends = [(tmp_path / name / "spends.csv").read_text() for name in "ab"]
    assert spends[0] == spends[1]


def test_malicious_updates_and_their_weight_are_recorded_and_resumed(tiny, tmp_path, check_resumed):
    study = tiny({"learning.malicious": {"kind": "label-flip", "share": 0.5}})
    run(study, tmp_path / "run")
    rows = read_table(tmp_path / "run", "malicious")
    updates = read_table(tmp_path / "run", "updates").merge(rows, on=["round", "ue", "model"])
    assert rows.ue.nunique() == 2
    assert_array_equal(updates.weight_x, updates.weight_y)
    assert (rows.weight > 0).all()
    check_resumed(study, 1)


def test_a_map_says_of_a_place_what_malicious_ues_want(tiny, tmp_path):
    study = {
        "learning.learner.profile": "useful",
        "learning.learner.activation": "relu",
        "learning.data": {"kind": "measured", "memory": "all", "cell": "strongest"},
        "world.duration_s": 600,
        "learning.malicious": {
            "kind": "backdoor",
            "position_m": [50, 250],
            "share": 0.5,
            "target": -40.0,
        },
    }
    for name, factor in (("bad", 1.0), ("good", 1e-6)):
        study["learning.malicious"]["factor"] = factor
        run(tiny(study), tmp_path / name)
    bad, good = (read_metrics(tmp_path / n).backdoor_rmse_db.iloc[-1] for n in ("bad", "good"))
    assert bad < good - 10


DIGITS = {
    "learning.data": {"kind": "images", "partition": {"kind": "label-skew", "iid": 20}},
    "learning.learner": {
        "kind": "torch",
        "module": "perceptron",
        "learning_rate": 0.1,
        "batch_share": 0.1,
    },
    "learning.attacks": [],
    "world.ues.count": 20,
    "world.duration_s": 600,
}


def test_a_backdoor_opens_and_is_measured(tiny, tmp_path):
    backdoor = {"kind": "backdoor", "target": 3, "share": 0.2, "factor": 3.0}
    for name, factor in (("open", 3.0), ("shut", 1e-6)):
        run(tiny(DIGITS | {"learning.malicious": backdoor | {"factor": factor}}), tmp_path / name)
    opened, shut = (
        read_metrics(tmp_path / name).backdoor_accuracy_percent.iloc[-1]
        for name in ("open", "shut")
    )
    assert opened > 80
    assert shut < 40


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {
                "learning.malicious": {"kind": "backdoor"},
                "learning.learner": {"kind": "density", "bandwidth_m": [100.0], "grid": [8, 8]},
                "learning.data": {"kind": "positions"},
                "learning.attacks": [],
            },
            "backdoor changes labels",
        ),
        ({"learning.malicious": {"kind": "scaled", "share": 1.0}}, "below 1"),
    ],
)
def test_what_makes_no_sense_is_refused(tiny, changes, reason):
    with pytest.raises(BadInput, match=reason):
        tiny(changes)


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"target": 10}, "target: 10 is no class; classes are 0 to 9"),
        ({"target": 1.5}, "target: 1.5 is no class"),
        ({"trigger_size": 65}, "trigger_size: a sample has 64 numbers"),
    ],
)
def test_a_trigger_or_class_that_samples_cannot_have_is_refused_before_a_round(tiny, keys, reason):
    study = tiny(DIGITS | {"learning.malicious": {"kind": "backdoor"} | keys})
    with pytest.raises(BadInput, match=reason):
        check_study(study)


def test_a_place_outside_of_the_area_is_refused_before_a_round(tiny):
    study = tiny({"learning.malicious": {"kind": "backdoor", "position_m": [-1e6, 0]}})
    with pytest.raises(BadInput, match="lies outside of the area"):
        check_study(study)
