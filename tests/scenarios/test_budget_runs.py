"""Whole runs under a budget, with odd input: defined and recorded, or refused; no NaN spreads."""

import json

import numpy as np
import pytest

from scenarios.app.results.folder import read_table
from scenarios.app.run.runner import run
from scenarios.app.study.load import load

LAPA = {"kind": "lapa", "epsilon_system_total": 600.0, "rounds": 12, "sensitivity": "mean-clip"}
CLIP = {"kind": "clip", "norm": 0.5}
SHORT = {"learning.rounds": 12, "learning.data.samples": 24, "vary": None, "learning.defenses": [CLIP, LAPA]}


def played(changes, folder, scenario="lapa/aggregation"):
    """Summary and tables of a short run; every number that was written is one."""
    summary = run(load(scenario, SHORT | changes), folder)
    figures = read_table(folder, "metrics")
    assert np.isfinite(figures["value"]).all() and summary["updates.non_finite"] == 0
    assert np.isfinite(read_table(folder, "spends")["std"]).all()
    assert summary["metric.lapa.budget_left.last"] >= -1e-9
    return summary, figures


@pytest.mark.parametrize("samples", [1, [1, 24, 24]], ids=["one sample each", "some with one"])
def test_devices_of_one_sample_and_one_label(samples, tmp_path):
    changes = {
        "learning.data.samples": samples,
        "learning.data.partition": {"kind": "label-skew", "iid": 0, "labels": 1},
    }
    summary, _ = played(changes, tmp_path / "r")
    assert summary["updates.sent"] == 12 * 15


def test_equal_label_distributions_leave_nothing_to_weigh_by(tmp_path):
    changes = {"learning.data.partition": {"kind": "label-skew", "iid": 15}, "learning.data.samples": 90}
    _, figures = played(changes, tmp_path / "r")
    alike = figures["value"][figures["name"] == "effective_devices"]
    assert alike.min() > 10  # all about as far from everybody, which is below the floor


def test_nobody_above_the_threshold(tmp_path):
    changes = {"world.radio.uplink.noise_w": 1e-10, "world.radio.uplink.max_ser": 0.01}
    summary, _ = played(changes, tmp_path / "r")
    assert summary["updates.decoded.percent"] == pytest.approx(100 / 15)


def test_a_budget_too_small_to_train(tmp_path):
    """Noise a billion times the update: useless, and said so."""
    tiny = {"learning.defenses": [CLIP, LAPA | {"epsilon_system_total": 1e-6}]}
    summary, _ = played(tiny, tmp_path / "r")
    assert summary["utility.accuracy_percent"] < 40
    assert summary["privacy.lapa-as-printed.epsilon.max"] < 1e-4


def test_a_device_total_is_kept_by_the_true_account(tmp_path):
    """One full-batch step on clipped gradients: what the ledger says of a record is within the filter's total."""
    noise = {"kind": "lapa", "epsilon_system_total": 600.0, "epsilon_device_total": 1.0, "rounds": 12}
    changes = {
        "learning.defenses": [noise | {"sensitivity": "record-one-step"}], "world.radio.uplink": {"kind": "ideal"},
        "learning.learner.batch_share": 1.0, "learning.learner.sample_clip": 1.0,
    }  # fmt: skip
    summary, _ = played(changes, tmp_path / "r")
    assert 0.5 < summary["privacy.lapa.epsilon.max"] <= 1.0
    assert summary["metric.lapa.epsilon_promised.last"] == 1.0
    assert set(read_table(tmp_path / "r", "privacy")["unit"]) == {"record"}


def test_a_device_that_disappears_for_ten_rounds(tmp_path):
    """It spends nothing while it is away, and its share goes on when it is back."""
    trace, times = tmp_path / "walk.csv", np.arange(0, 1200, 30)
    lines = ["time_s,user,lat,lon"]
    for user, here in (("a", times), ("b", times), ("c", times[(times < 240) | (times >= 840)])):
        lines += [f"{1.7e9 + t:.0f},{user},{33.0 + 1e-6 * t:.7f},-118.0" for t in here]
    trace.write_text("\n".join(lines) + "\n")
    study = tmp_path / "s.yaml"
    world = {
        "tick_s": 30,
        "city": {"kind": "open-field"},
        "ues": {"mobility": {"kind": "replay", "trace": str(trace), "users": "id"}},
        "base_stations": {"kind": "hexagonal", "inter_site_m": 500},
    }
    learning = {
        "round_s": 60,
        "data": {"kind": "images", "partition": {"kind": "label-skew", "iid": 1}, "samples": 30},
        "learner": {"kind": "image-net", "network": {"kind": "mlp", "hidden": [8]}},
        "defenses": [CLIP, LAPA | {"rounds": 20, "epsilon_system_total": 12.0}],
        "aggregation": {"kind": "wasserstein"},
    }
    study.write_text(json.dumps({"title": "away", "world": world, "learning": learning}))
    summary = run(load(study), tmp_path / "r")
    spends = read_table(tmp_path / "r", "spends")
    number = np.searchsorted(np.unique(spends["round"]), spends["round"]) + 1  # the trace begins within a day
    rounds = {u: set(number[spends["ue"] == u].tolist()) for u in (0, 1, 2)}
    assert rounds[0] == {*range(1, 21)} and rounds[2] == {*range(1, 5), *range(15, 21)}
    assert np.isfinite(read_table(tmp_path / "r", "metrics")["value"]).all()
    assert 0 <= summary["metric.lapa.budget_left.last"] < 12.0


@pytest.mark.slow
@pytest.mark.parametrize("noise_w", [1e-30, 1e-12])
@pytest.mark.parametrize("kind", ["noma", "oma"])
def test_a_loud_cell_disturbs_the_model_and_hides_nobody(kind, noise_w, tiny, tmp_path):
    """The account with the channel is the same whether or not others are heard; the decoder's error is not."""
    found = {}
    for interference in ("none", "all"):
        changes = {
            "world.radio.uplink": {"kind": kind, "noise_w": noise_w, "interference": interference},
            "learning.defenses": [{"kind": "clip", "norm": 1.0}, {"kind": "gaussian", "noise_multiplier": 1e-3}],
        }
        run(tiny(changes), tmp_path / interference)
        found[interference] = [read_table(tmp_path / interference, t) for t in ("spends", "privacy", "links")]
    calm, loud = found["none"], found["all"]
    np.testing.assert_allclose(loud[0]["channel_std"], calm[0]["channel_std"], rtol=1e-9)
    assert (loud[0]["channel_std"] > 0).all()
    np.testing.assert_allclose(loud[1]["with_channel"], calm[1]["with_channel"], rtol=1e-9)
    assert (loud[2]["noise_std"] > 10 * calm[2]["noise_std"]).any()
    spends, links = calm[0], calm[2]
    alone = {(t, u): std for t, u, std in zip(links["round"], links["ue"], links["noise_std"], strict=True)}
    of_row = [alone[t, u] for t, u in zip(spends["round"], spends["ue"], strict=True)]
    np.testing.assert_allclose(spends["channel_std"], of_row, rtol=1e-9)
