"""Whole runs under a budget, with odd input: defined and recorded, or refused; no NaN spreads."""

import numpy as np
from numpy.testing import assert_allclose
from pytest import mark

from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.study.load import load, parse_value

LAPA = parse_value("{kind: lapa, epsilon_system_total: 600.0, rounds: 12, sensitivity: mean-clip}")
CLIP = {"kind": "clip", "norm": 0.5}
SHORT = {
    "learning.rounds": 12,
    "learning.data.samples": 24,
    "vary": None,
    "learning.defenses": [CLIP, LAPA],
}


def play_short(changes, folder, scenario="lapa/aggregation"):
    """Summary and tables of a short run; every number that was written is one."""
    summary = run(load(scenario, SHORT | changes), folder)
    figures = read_record_table(folder, "metrics")
    assert np.isfinite(figures["value"]).all()
    assert summary["updates.non_finite"] == 0
    assert np.isfinite(read_record_table(folder, "spends")["std"]).all()
    assert summary["metric.lapa.budget_left.last"] >= -1e-9
    return summary, figures


def test_a_budget_too_small_to_train(out):
    """Noise a billion times the update: useless, and said so."""
    tiny = {"learning.defenses": [CLIP, LAPA | {"epsilon_system_total": 1e-6}]}
    summary, _ = play_short(tiny, out)
    assert summary["utility.accuracy_percent"] < 40
    assert summary["privacy.lapa-as-printed.epsilon.max"] < 1e-4


def test_a_device_total_is_kept_by_the_true_account(out):
    """One full-batch step on clipped gradients: what the ledger says of a record is within the
    filter's total."""
    noise = parse_value(
        "{kind: lapa, epsilon_system_total: 600.0, epsilon_device_total: 1.0, rounds: 12}"
    )
    changes = {
        "learning.defenses": [noise | {"sensitivity": "record-one-step"}],
        "world.radio.uplink": {"kind": "ideal"},
        "learning.learner.batch_share": 1.0,
        "learning.learner.sample_clip": 1.0,
    }
    summary, _ = play_short(changes, out)
    assert 0.5 < summary["privacy.lapa.epsilon.max"] <= 1.0
    assert summary["metric.lapa.epsilon_promised.last"] == 1.0
    assert set(read_record_table(out, "privacy")["unit"]) == {"record"}


@mark.slow
@mark.parametrize("noise_w", [1e-30, 1e-12])
@mark.parametrize("kind", ["noma", "oma"])
def test_a_loud_cell_disturbs_the_model_and_hides_nobody(kind, noise_w, play_tiny, tmp_path):
    """The account with the channel is the same whether or not others are heard; the decoder's error
    is not."""
    result = {}
    for interference in ("none", "all"):
        changes = {
            "world.radio.uplink": {"kind": kind, "noise_w": noise_w, "interference": interference},
            "learning.defenses": parse_value(
                "[{kind: clip, norm: 1.0}, {kind: gaussian, noise_multiplier: 0.001}]"
            ),
        }
        play_tiny(changes, tmp_path / interference)
        result[interference] = [
            read_record_table(tmp_path / interference, t) for t in ("spends", "privacy", "links")
        ]
    calm = result["none"]
    loud = result["all"]
    assert_allclose(loud[0]["channel_std"], calm[0]["channel_std"], rtol=1e-9)
    assert (loud[0]["channel_std"] > 0).all()
    assert_allclose(loud[1]["with_channel"], calm[1]["with_channel"], rtol=1e-9)
    assert (loud[2]["noise_std"] > 10 * calm[2]["noise_std"]).any()
    spends = calm[0]
    links = calm[2]
    alone = {
        (t, u): std
        for t, u, std in zip(links["round"], links["ue"], links["noise_std"], strict=True)
    }
    of_row = [alone[t, u] for t, u in zip(spends["round"], spends["ue"], strict=True)]
    assert_allclose(spends["channel_std"], of_row, rtol=1e-9)
