"""The gate of a power study: its verdict by hand, equal noise, runs that go on, and what is
refused."""

import json
import math
import shutil

import numpy as np
import pandas
import pytest

from netsim.errors import BadInput
from scenarios.app.results.folder import read_table
from scenarios.app.run.events import ignore
from scenarios.app.run.sweep import Sweep
from scenarios.app.study.load import AskedStudy
from scenarios.app.training.gate import (
    EQUAL,
    FULL,
    RULES,
    at_level,
    figures,
    least_level,
    play_gate,
    recorded_at_full,
    verdict,
)

AIR = {"kind": "noma", "interference": "none", "rate": {"kind": "shannon"}}
SHORT = {
    "world.duration_s": 180,
    "world.radio.uplink": AIR,
    "learning.defenses": [{"kind": "clip", "norm": 2.0}],
    "train.task.limits.each_min_w": 1e-12,
    "train.task.reward.leak_half_at": 0.03,
}


def asked(out, **changes):
    overrides = SHORT | changes
    return Sweep(AskedStudy.of("power/city", overrides), out, 1, ignore)


def rows(**of):
    """Two seeds of each policy: (hits, of, map in dB, noise, lost) of both together, in equal
    parts."""
    return pandas.DataFrame(
        [
            {
                "label": label,
                "seed": seed,
                "count": count / 2,
                "of": n / 2,
                "rmse_db": db,
                "accuracy_percent": np.nan,
                "noise": noise,
                "wanted": 10.0,
                "lost": lost,
                "leak": count / n,
                "auc": np.nan,
                "homes": n,
                "named": 0.0,
            }
            for label, (count, n, db, noise, lost) in of.items()
            for seed in (1, 2)
        ]
    )


def wilson(hits, n, z=1.959963984540054):
    middle = (hits + z * z / 2) / (n + z * z)
    half = z / (n + z * z) * math.sqrt(hits * (n - hits) / n + z * z / 4)
    return 100 * (middle - half), 100 * (middle + half)


def test_the_verdict_by_hand():
    """46 of 80 against 13 of 80: disjoint. With maps 0.5 dB apart, or intervals that meet, power
    moves nothing."""
    known = {
        EQUAL: (13, 80, 11.5, 10.0, 0.0),
        "constant": (46, 80, 11.7, 10.1, 0.01),
        FULL: (70, 80, 11.0, 1.0, 0.0),
    }
    found = verdict(rows(**known))
    assert (found["verdict"], found["best"], found["worst"]) == ("moves", EQUAL, "constant")
    assert found["rmse_db_difference"] == pytest.approx(0.2)
    assert found["rank_correlation"] == pytest.approx(1.0)
    of = {one["label"]: one for one in found["policies"]}
    for label, (hits, n, *_) in known.items():
        assert (of[label]["low"], of[label]["high"]) == pytest.approx(wilson(hits, n)), label
    assert [one["compared"] for one in found["policies"]] == [True, True, False]
    for changes in (
        {"constant": (46, 80, 12.0, 10.0, 0.0)},
        {"constant": (20, 80, 11.7, 10.0, 0.0)},
    ):
        assert verdict(rows(**known | changes))["verdict"] == "radio only"
    for changes in (
        {"constant": (46, 80, 11.7, 10.3, 0.0)},
        {"constant": (46, 80, 11.7, 10.0, 0.03)},
    ):
        other = verdict(
            rows(**known | changes)
        )  # more noise, or more lost updates, is no fair comparison
        assert (other["verdict"], other["worst"]) == ("radio only", EQUAL)
    aucs = rows(**{EQUAL: (0, 1, 90, 10.0, 0.0), "constant": (0, 1, 90, 10.0, 0.0)}).assign(
        of=0.0, auc=[0.5, 0.52, 0.7, 0.74]
    )
    found = verdict(aucs)
    half = (
        12.706204736 * 1.0
    )  # Student's t of one degree of freedom, times 1 % over the root of two values
    assert found["policies"][0]["high"] == pytest.approx(51 + half)
    assert found["verdict"] == "radio only"


def test_noise_is_equal_by_a_slow_calculation(tmp_path):
    """Without interference: equal SNR of p has n = 10^(-p/10); a constant has the mean of 1 / (P
    snr), one by one."""
    known = recorded_at_full(asked(tmp_path), [1, 2])
    n_0 = 6.0
    assert least_level(known, EQUAL, (), n_0).parameters[0] == pytest.approx(
        -10 * math.log10(n_0), abs=0.011
    )
    constant = least_level(known, "constant", (), n_0)
    snr_db = [
        [known.look.snr_db[s, k] for k in known.rounds.rows.of[s] if k >= 0]
        for s in range(len(known))
    ]
    slow = np.mean(
        [np.mean([10 ** (-(constant.parameters[0] + x) / 10) for x in of]) for of in snr_db]
    )
    noise, lost, leak = figures(known, constant)
    assert noise == pytest.approx(slow, rel=1e-6)
    assert 0.997 * n_0 <= slow <= n_0
    assert lost == 0
    heard = [
        10 ** ((constant.parameters[0] + known.look.heard_db[s, k]) / 10)
        for s in range(len(known))
        for k in known.rounds.rows.of[s]
        if k >= 0
    ]
    assert leak == pytest.approx(np.mean([z / (z + 0.03) for z in heard]), rel=0.02)
    assert figures(known, at_level(EQUAL, -10 * math.log10(n_0)))[0] == pytest.approx(n_0)


def test_a_gate_goes_on_and_its_figures_are_those_of_runs(tmp_path):
    said = play_gate(asked(tmp_path / "g"), [1])
    first = (tmp_path / "g" / "gate.csv").read_bytes()
    assert (
        json.loads((tmp_path / "g" / "summary.json").read_text())["gate"]["verdict"]
        == said["verdict"]
        == "radio only"
    )
    table = pandas.read_csv(tmp_path / "g" / "gate.csv").set_index("label")
    assert list(table.index) == [FULL, *RULES, "log-linear, least leak"]
    assert (table["of"] > 0).all()
    compared = {one["label"] for one in said["policies"] if one["compared"]}
    assert compared == {*table.index} - {FULL}
    links, updates, leakage = (
        pandas.DataFrame(read_table(tmp_path / "g" / "constant" / "seed-1", name))
        for name in ("links", "updates", "leakage")
    )
    sent = updates[["round", "ue"]].merge(
        links[["round", "ue", "sinr_db"]]
    )  # a UE sends a row for each cell
    slow = (10 ** (-sent["sinr_db"] / 10)).groupby(sent["round"]).mean().mean()
    assert table.loc["constant", "noise"] == pytest.approx(slow, rel=1e-6)
    error_m = leakage["error_m"][np.isfinite(leakage["error_m"])]
    assert (table.loc["constant", ["count", "of"]] == [(error_m <= 50).sum(), len(error_m)]).all()
    kept = (tmp_path / "g" / "full" / "seed-1" / "manifest.json").stat().st_mtime_ns
    shutil.rmtree(tmp_path / "g" / "constant")
    play_gate(asked(tmp_path / "g"), [1])
    assert (tmp_path / "g" / "gate.csv").read_bytes() == first
    assert (tmp_path / "g" / "full" / "seed-1" / "manifest.json").stat().st_mtime_ns == kept


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"world.radio.uplink": {"kind": "ideal"}, "learning.threat": {}}, "power changes nothing"),
        (
            {"world.radio.uplink": {"kind": "noma", "decoding": "error-free"}},
            r"take decoding: noisy",
        ),
        ({"learning.attacks": []}, r"learning\.attacks: nobody attacks"),
    ],
)
def test_what_has_no_gate_is_refused(changes, why, tmp_path):
    with pytest.raises(BadInput, match=why) as refused:
        play_gate(asked(tmp_path / "g", **changes, power={"kind": "full"}), [1])
    assert len(refused.value.lines) == 1
    assert not (tmp_path / "g").exists()


def test_what_a_study_has_not_is_a_dash_on_the_terminal(capsys):
    from scenarios.app.cli.play import _tell_gate

    row = dict.fromkeys(
        ("compared", "noise", "lost", "leak", "count", "of", "share", "low", "high", "rmse_db"), 1.0
    )
    _tell_gate(
        {"policies": [{"label": "full", **row, "t_th": None}], "verdict": "radio only", "n": 1},
        as_json=False,
    )
    said = capsys.readouterr().out
    assert "full" in said
    assert "–" in said
    assert "radio only: an agent learns the radio here" in said


def test_a_gate_trains_nothing(tmp_path, capsys):
    from scenarios.app.cli.commands import main

    assert (
        main(["train", "power/pedestrians", "--gate", "--steps", "5", "--out", str(tmp_path / "g")])
        == 2
    )
    assert "--gate: plays rules and trains nothing" in capsys.readouterr().err
    assert not (tmp_path / "g").exists()
