"""The gate of a power study: whether power moves what an attacker finds, at equal noise and losses
at the server.

Rules of power control are played in full runs. Each has one free level p, by which all its powers
are multiplied. The rounds of all seeds are recorded once at full power; there p is the least level
at which

    n(p) = mean over rounds of the noise that decoding leaves on an update, over n_required or
    rho^2,    <= n_0,

and at most 2 % of updates more are lost than at the level that loses least. Where budgets top noise
up, artificial noise counts as well, n is over what they require, and n_0 is the least that every
rule can reach, 1 without interference. Elsewhere it is no less than half the number of updates of a
round: then their mean has an SNR of 3 dB, where each is as large as its norm bound. A lost update
adds no noise.

What counts are homes that an attack names where UEs have homes, else its estimates within
`leakage_within_m`, pooled over seeds, with Wilson's 95 % interval; else the AUC of a membership
test, with Student's interval over seeds. Of several attacks it is the one that finds most in a run.
Power `moves` it where the intervals of the best and the worst rule are disjoint, and their models
alike: 0.4 dB, one point of accuracy. Else the study is `radio only`. Rules whose noise is off n_0
by more than 2 %, or whose share of lost updates is more than 2 points off that of `equal SNR`, are
not compared; full power is shown as it is.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas

from fl.defenses.lapa import NoiseSwitch
from netsim.fit import refuse_broken
from netsim.record import write_json
from netsim.units import FloatArray, FloatPair, Floats
from rl.env import OnlinePower
from rl.look import Look
from rl.radio_records import Rounds, build_air
from rl.recording import record_world
from rl.rules import KnownRounds, TunedRule, build_rule
from rl.settings import Online, Train
from scenarios.app.results.folder import SUMMARY, read_record_table, refuse_failures
from scenarios.app.results.statistics import (
    compute_ci95_half_width,
    compute_percent_and_wilson_interval,
)
from scenarios.app.run.events import Event
from scenarios.app.run.how import use_one_thread
from scenarios.app.run.runner import cap_limits
from scenarios.app.run.sweep import Sweep
from scenarios.app.study import Fields
from scenarios.app.training.environments import Stages, count_ues

FULL = "full"
EQUAL = "equal SNR"
RULES: dict[str, Floats] = {
    "constant": (),
    "fractional": (0.75,),
    "inverse amplitude": (),
    EQUAL: (),
    "rank ladder": (3.0,),
    "log-linear, half": (-0.5, 0.0, 0.0, -0.5, 0.0),
    "log-linear, fifth": (-0.8, 0.0, 0.0, -0.2, 0.0),
}
"""rules that are compared, with their parameters after p, besides the log-linear one of least
`leak`"""
_GAINS = (-1.2, -0.9, -0.6, -0.3, 0.0, 0.3, 0.6)  # a and d that are tried for that one
_LEVELS_DBW = np.arange(-120.0, 61.0, 2.0)
_OFF = 0.02
_ALIKE = {"rmse_db": 0.4, "accuracy_percent": 1.0}
_KEYS = {
    "homes": r"attack\..*\.homes\.count",
    "named": r"attack\..*\.home_located\.percent",
    "auc": r"membership\..*\.auc\.last",
    "rmse_db": r"utility\.rmse_db",
    "accuracy_percent": r"utility\.accuracy_percent",
    "t_th": r"metric\..*switch_round\.last",
    "with_channel": r"privacy\..*\.with_channel\.max",
}


def play_gate(sweep: Sweep, seeds: Sequence[int]) -> Fields:
    """Play all policies with each seed, write gate.csv and `gate` of summary.json; returns the
    latter.

    sweep : whose study, changes, folder and engine are meant; its own points are not played. A gate
    that was interrupted goes on where it was. Raises BadInput: there is no attacker, or no noise of
    the receiver to keep equal.
    """
    study = sweep.scenario.study
    refuse_broken(study, "gate")
    refuse_broken(
        study.model_copy(update={"train": study.train or Train()}), "powers of a training"
    )
    recording = record_at_full_power(sweep, seeds)
    n_0, policies = equalise_noise(recording)
    limits = recording.look.limits.model_dump()
    powers = {
        label: {
            "kind": "rule",
            "rule": rule.law.name,
            "parameters": rule.parameters.tolist(),
            "limits": limits,
        }
        for label, rule in policies.items()
    }
    variants = [{"label": label, "set": {"power": power}} for label, power in powers.items()]
    varied = sweep.scenario.with_changes({"vary": {"seed": list(seeds), "variants": variants}})
    runs = pandas.read_csv(replace(sweep, scenario=varied).play())
    refuse_failures(sweep.out)
    table = runs[["label", "seed", "power"]].assign(
        wanted=n_0, lost=1 - runs["updates.decoded.percent"] / 100
    )
    table["noise"], _, table["leak"] = np.transpose(
        [measure_noise_lost_leak(recording, policies[label]) for label in runs["label"]]
    )
    for name, key in _KEYS.items():
        table[name] = runs.filter(regex=rf"^{key}$").max(axis=1)
    within_m = recording.reward.leakage_within_m
    hits = [_count_near_estimates(sweep.out / folder, within_m) for folder in runs["folder"]]
    table["count"], table["of"] = np.transpose(hits)
    if table["homes"].any():
        table["count"] = (table["homes"] * table["named"] / 100).round()
        table["of"] = table["homes"]
    table.to_csv(sweep.out / "gate.csv", index=False)
    report = judge_gate(table)
    write_json(sweep.out / SUMMARY, {"gate": report})
    return report


def record_at_full_power(sweep: Sweep, seeds: Sequence[int]) -> KnownRounds:
    """Return rounds of all seeds at full power, in which all updates count alike; nothing is
    required without a top-up.
    """
    study = sweep.scenario.study
    task = (study.train or Train()).task
    online = task if isinstance(task, Online) else Online(limits=task.limits, bound=task.bound)
    env = OnlinePower(Stages(study, watched=False), count_ues(study), online)
    played = []
    for i, seed in enumerate(seeds, 1):
        with use_one_thread():
            played.append(
                record_world(env, build_gate_rule("constant", _LEVELS_DBW[-1]).power_w, seed)
            )
        sweep.watch(
            Event("world", i, len(seeds), i == len(seeds), {"label": "recorded at full power"})
        )
    rounds = Rounds.stack([rounds_of_seed for rounds_of_seed, _ in played])
    look = replace(Look.join([look for _, look in played]), limits=cap_limits(task.limits, study))
    rows_at_full = rounds.rows
    tops_up = any(isinstance(d, NoiseSwitch) and d.mode == "top-up" for d in study.learned.defenses)
    rows = replace(
        rows_at_full,
        weight=np.ones_like(rows_at_full.weight),
        required_std=rows_at_full.required_std * tops_up,
        factor=np.ones_like(rows_at_full.rho),
        lost_noise=np.zeros_like(rows_at_full.rho),
    )
    return KnownRounds(
        replace(rounds, rows=rows),
        look,
        build_air(study.world.radio.uplink, study.round_s),
        online.reward,
    )


def build_gate_rule(rule: str, *parameters: float) -> TunedRule:
    """Return a rule with these parameters, p first."""
    return build_rule(rule.partition(",")[0], parameters)


def measure_noise_lost_leak(recording: KnownRounds, rule: TunedRule) -> FloatArray:
    """Return noise n, the share of lost updates, and `leak`, mean over rounds (3,)."""
    means = recording.compute_figures(rule.power_w(recording.look))
    return np.array([np.exp(means["noise"]).mean(), means["lost"].mean(), means["leak"].mean()])


def find_least_level(
    recording: KnownRounds, rule: str, rest: Sequence[float], n_0: float = 0.0
) -> TunedRule:
    """Return a rule at the least level with at most this noise, or else with its least noise, and
    at most 2 % of updates more lost than at the level that loses least.
    """
    noise, lost, _ = np.transpose(
        [measure_noise_lost_leak(recording, build_gate_rule(rule, p, *rest)) for p in _LEVELS_DBW]
    )
    usable = lost <= lost.min() + _OFF
    max_noise = max(n_0, noise[usable].min()) * (1 + 1e-6)
    fine = _LEVELS_DBW[np.argmax(usable & (noise <= max_noise))] + np.arange(-199, 1) / 100
    k = bisect_left(
        fine,
        True,
        hi=199,
        key=lambda p: (
            measure_noise_lost_leak(recording, build_gate_rule(rule, p, *rest))[0] <= max_noise
        ),
    )
    return build_gate_rule(rule, fine[k].round(2), *rest)


def equalise_noise(recording: KnownRounds) -> tuple[float, dict[str, TunedRule]]:
    """Return n_0, and all policies by label: at levels with that noise, and full power."""
    sent = recording.rounds.rows.ue >= 0
    n_0 = max(
        measure_noise_lost_leak(recording, find_least_level(recording, label, rest))[0]
        for label, rest in RULES.items()
    )
    if not recording.rounds.rows.required_std.any():
        n_0 = max(n_0, sent.sum() / len(recording) / 2)
    policies = {FULL: build_gate_rule("constant", 10 * np.log10(recording.look.limits.each_max_w))}
    policies |= {
        label: find_least_level(recording, label, rest, n_0) for label, rest in RULES.items()
    }
    tried = [
        find_least_level(recording, "log-linear", (a, 0.0, 0.0, d, 0.0), n_0)
        for a, d in product(_GAINS, _GAINS)
    ]
    judged = [measure_noise_lost_leak(recording, rule) for rule in tried]
    best = np.argmin([leak + 10 * (abs(noise / n_0 - 1) > _OFF) for noise, _, leak in judged])
    return n_0, policies | {"log-linear, least leak": tried[best]}


def _count_near_estimates(folder: Path, within_m: float) -> FloatPair:
    """Return how many estimates come near enough, of how many, of the attack that does best."""
    estimates = pandas.DataFrame(read_record_table(folder, "leakage")).dropna(subset="error_m")
    attacks = (
        (estimates["error_m"] <= within_m).groupby(estimates["attack"]).agg(["mean", "sum", "size"])
    )
    if len(attacks):
        return tuple(attacks.sort_values("mean")[["sum", "size"]].iloc[-1])
    return (0.0, 0.0)


def judge_gate(rows: pandas.DataFrame) -> Fields:
    """Return whether power moves what an attacker finds: of rows a policy and seed, the object
    `gate` of summary.json.
    """
    groups = rows.groupby("label", sort=False)
    table = groups.mean(numeric_only=True).drop(columns=["seed", "homes", "named"])
    table[["count", "of"]] = groups[["count", "of"]].sum()
    half = groups["auc"].agg(compute_ci95_half_width)
    bands = 100 * np.transpose([table["auc"], table["auc"] - half, table["auc"] + half])
    if table["of"].any():
        bands = np.array(
            [
                compute_percent_and_wilson_interval(int(count), int(n))
                for count, n in zip(table["count"], table["of"], strict=True)
            ]
        )
    table[["share", "low", "high"]] = bands
    lost = abs(table["lost"] - table["lost"][EQUAL])
    table["compared"] = (abs(table["noise"] / table["wanted"] - 1) <= _OFF) & (lost <= _OFF)
    calm = table.loc[table["lost"] < _OFF, ["leak", "share"]]
    report = {"verdict": "radio only", "policies": table.reset_index().to_dict("records")}
    report |= {"rank_correlation": calm.rank().corr().iloc[0, 1], "n": len(calm)}
    same = table[table["compared"]].sort_values("share")
    if len(same):
        best = same.iloc[0]
        worst = same.iloc[-1]
        apart = {f"{name}_difference": abs(best[name] - worst[name]) for name in _ALIKE}
        alike = not any(
            gap > bound for gap, bound in zip(apart.values(), _ALIKE.values(), strict=True)
        )
        moves = best["high"] < worst["low"] and alike
        report |= {
            "verdict": "moves" if moves else "radio only",
            "best": best.name,
            "worst": worst.name,
            **apart,
        }
    return report
