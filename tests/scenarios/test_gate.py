"""The gate of a power study: its verdict by hand, equal noise, runs that go on, and what is
refused."""

import json
import math
import re
import shutil

import numpy as np
import pandas
from pytest import approx, mark
from refused import catch_line

from netsim.errors import BadInput
from scenarios.app.results.folder import read_record_table
from scenarios.app.run.events import ignore_event
from scenarios.app.run.sweep import Sweep
from scenarios.app.study.load import Scenario, parse_value
from scenarios.app.training.gate import (
    EQUAL,
    FULL,
    RULES,
    build_gate_rule,
    find_least_level,
    judge_gate,
    measure_noise_lost_leak,
    play_gate,
    record_at_full_power,
)

AIR = parse_value("{kind: noma, interference: none, rate: {kind: shannon}}")
SHORT = {
    "world.duration_s": 180,
    "world.radio.uplink": AIR,
    "learning.defenses": [{"kind": "clip", "norm": 2.0}],
    "learning.references": {"central": False, "kriging_samples": 0},
    "learning.leakage.random_baseline_draws": 20,
    "train.task.limits.each_min_w": 1e-12,
    "train.task.reward.leak_half_at": 0.03,
}


def build_sweep(out, **changes):
    overrides = SHORT | changes
    return Sweep(Scenario.from_source("power/city", overrides), out, 1, ignore_event)


def rows(**part):
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
            for label, (count, n, db, noise, lost) in part.items()
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
    policies = {
        EQUAL: (13, 80, 11.5, 10.0, 0.0),
        "constant": (46, 80, 11.7, 10.1, 0.01),
        FULL: (70, 80, 11.0, 1.0, 0.0),
    }
    result = judge_gate(rows(**policies))
    assert (result["verdict"], result["best"], result["worst"]) == ("moves", EQUAL, "constant")
    assert result["rmse_db_difference"] == approx(0.2)
    assert result["rank_correlation"] == approx(1.0)
    part = {item["label"]: item for item in result["policies"]}
    for label, (hits, n, *_) in policies.items():
        assert (part[label]["low"], part[label]["high"]) == approx(wilson(hits, n)), label
    assert [item["compared"] for item in result["policies"]] == [True, True, False]
    for changes in (
        {"constant": (46, 80, 12.0, 10.0, 0.0)},
        {"constant": (20, 80, 11.7, 10.0, 0.0)},
    ):
        assert judge_gate(rows(**policies | changes))["verdict"] == "radio only"
    for changes in (
        {"constant": (46, 80, 11.7, 10.3, 0.0)},
        {"constant": (46, 80, 11.7, 10.0, 0.03)},
    ):
        # more noise, or more lost updates, is no fair comparison
        second = judge_gate(rows(**policies | changes))
        assert (second["verdict"], second["worst"]) == ("radio only", EQUAL)
    aucs = rows(**{EQUAL: (0, 1, 90, 10.0, 0.0), "constant": (0, 1, 90, 10.0, 0.0)}).assign(
        of=0.0, auc=[0.5, 0.52, 0.7, 0.74]
    )
    result = judge_gate(aucs)
    # Student's t of one degree of freedom, times 1 % over the root of two values
    half = 12.706204736 * 1.0
    assert result["policies"][0]["high"] == approx(51 + half)
    assert result["verdict"] == "radio only"


def test_noise_is_equal_by_a_slow_calculation(tmp_path):
    """Without interference: equal SNR of p has n = 10^(-p/10); a constant has the mean of 1 / (P
    snr), one by one."""
    policies = record_at_full_power(build_sweep(tmp_path), [1, 2])
    n_0 = 6.0
    assert find_least_level(policies, EQUAL, (), n_0).parameters[0] == approx(
        -10 * math.log10(n_0), abs=0.011
    )
    constant = find_least_level(policies, "constant", (), n_0)
    snr_db = [
        [policies.look.snr_db[s, k] for k in policies.rounds.rows.ue[s] if k >= 0]
        for s in range(len(policies))
    ]
    slow = np.mean(
        [np.mean([10 ** (-(constant.parameters[0] + x) / 10) for x in part]) for part in snr_db]
    )
    noise, lost, leak = measure_noise_lost_leak(policies, constant)
    assert noise == approx(slow, rel=1e-6)
    assert 0.997 * n_0 <= slow <= n_0
    assert lost == 0
    heard = [
        10 ** ((constant.parameters[0] + policies.look.eavesdropper_snr_db[s, k]) / 10)
        for s in range(len(policies))
        for k in policies.rounds.rows.ue[s]
        if k >= 0
    ]
    assert leak == approx(np.mean([z / (z + 0.03) for z in heard]), rel=0.02)
    assert measure_noise_lost_leak(policies, build_gate_rule(EQUAL, -10 * math.log10(n_0)))[
        0
    ] == approx(n_0)


def test_a_gate_goes_on_and_its_figures_are_those_of_runs(out):
    message = play_gate(build_sweep(out), [1])
    first = (out / "gate.csv").read_bytes()
    summary = json.loads((out / "summary.json").read_text())
    assert summary["gate"]["verdict"] == message["verdict"] == "radio only"
    table = pandas.read_csv(out / "gate.csv").set_index("label")
    assert list(table.index) == [FULL, *RULES, "log-linear, least leak"]
    assert (table["of"] > 0).all()
    compared = {item["label"] for item in message["policies"] if item["compared"]}
    assert compared == {*table.index} - {FULL}
    links, updates, leakage = (
        pandas.DataFrame(read_record_table(out / "constant/seed-1", name))
        for name in ("links", "updates", "leakage")
    )
    # a UE sends a row for each cell
    sent = updates[["round", "ue"]].merge(links[["round", "ue", "sinr_db"]])
    slow = (10 ** (-sent["sinr_db"] / 10)).groupby(sent["round"]).mean().mean()
    assert table.loc["constant", "noise"] == approx(slow, rel=1e-6)
    error_m = leakage["error_m"][np.isfinite(leakage["error_m"])]
    assert (table.loc["constant", ["count", "of"]] == [(error_m <= 50).sum(), len(error_m)]).all()
    kept = (out / "full/seed-1/manifest.json").stat().st_mtime_ns
    shutil.rmtree(out / "constant")
    play_gate(build_sweep(out), [1])
    assert (out / "gate.csv").read_bytes() == first
    assert (out / "full/seed-1/manifest.json").stat().st_mtime_ns == kept


@mark.parametrize(
    "changes, reason",
    [
        ({"world.radio.uplink": {"kind": "ideal"}, "learning.threat": {}}, "power changes nothing"),
        (
            {"world.radio.uplink": {"kind": "noma", "decoding": "error-free"}},
            r"take decoding: noisy",
        ),
        ({"learning.attacks": []}, r"learning\.attacks: nobody attacks"),
    ],
)
def test_what_has_no_gate_is_refused(changes, reason, out):
    assert re.search(
        reason, catch_line(play_gate, build_sweep(out, **changes, power={"kind": "full"}), [1])
    )
    assert not out.exists()


def test_what_a_study_has_not_is_a_dash_on_the_terminal(capsys):
    from scenarios.app.cli.play import _print_gate

    row = dict.fromkeys(
        ("compared", "noise", "lost", "leak", "count", "of", "share", "low", "high", "rmse_db"), 1.0
    )
    _print_gate(
        {"policies": [{"label": "full", **row, "t_th": None}], "verdict": "radio only", "n": 1},
        as_json=False,
    )
    printed = capsys.readouterr().out
    assert "–" in printed
    assert "radio only: an agent learns the radio here" in printed


def test_a_gate_trains_nothing(out, refuse_command):

    assert "--gate: plays rules and trains nothing" in refuse_command(
        f"train power/pedestrians --gate --steps 5 --out {out}"
    )
    assert not out.exists()


def test_a_quick_training_is_judged_in_fewer_worlds_unless_it_is_said(
    monkeypatch, refuse_command, out
):
    judged = []

    def refuse(study, *rest):
        judged.append((study.train.task.eval_worlds, study.train.task.held_out))
        raise BadInput("enough")

    monkeypatch.setattr("scenarios.app.training.train.train_agents", refuse)
    for more in ("", "--set train.task.held_out=5"):
        refuse_command(f"train power/pedestrians --quick --out {out} {more}")
    assert judged == [(1, 2), (1, 5)]
