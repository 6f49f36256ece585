"""The page of a training, and its lines on a terminal: the agent beside baseline policies, its curve, an episode."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netsim.units import FloatArray
from rl.agents import AGENT
from rl.settings import ONE_STEP, OPTIMUM, ORACLE, RANDOM, VISITED
from scenarios.app.report.charts import median_line
from scenarios.app.report.html import (
    Cell,
    Chapter,
    Mark,
    answers,
    asset,
    facts,
    headings,
    packed,
    page,
    paragraphs,
    table,
)
from scenarios.app.report.plot import DARK, PALETTE, Axes, CurveStyle, Panel, line, mosaic
from scenarios.app.results.failures import Failed, failure_lines, read_failures
from scenarios.app.results.statistics import counted, figure_text, half_width
from scenarios.app.results.trainings import (
    METRICS,
    TERMS,
    EpisodeRead,
    FinishedTraining,
    means_of,
    paired,
    percent_gaps,
    probability_of_improvement,
    summaries_of,
    trainings,
)

SCRIPTS, STYLES, DATA = ("episode.js",), ("episode.css",), "episode-data"
_OF_UES = ("policy", "round", "ue", "x_m", "y_m", "base_station", "power_w", "arrived", "cost")
_OF_ROUNDS = ("policy", "round", "cost", "arrived", "sent")


def episode_chapter(episode: EpisodeRead | None, seed: Any) -> tuple[Chapter, dict[str, str]]:
    """The chapter, empty without an episode, and its data by id."""
    if episode is None or not episode.numbers:
        return Chapter("episode", "Episode", []), {}
    agent, rule = episode.policies
    shown = len({row["ue"] for of in episode.ues.values() for row in of})
    said = (
        f"One held-out world, as it was played with {agent} (seed {seed}) and, from the same beginning, with {rule}, "
        "the rule of least mean cost in these worlds. A UE is a circle, the larger and brighter the more power it "
        "sends with; a cross is an update that was lost, an empty circle a UE that sent nothing. Triangles are base "
        "stations, a diamond is the eavesdropper."
    )
    for drawn, all_of, what in (
        (shown, episode.scene["ues"], "UE"),
        (len(episode.numbers), episode.scene["rounds"], "round"),
    ):
        if drawn < all_of:
            said += f" Of {counted(int(all_of), what)} {drawn} are shown, evenly spaced."
    frames = {
        "ues": (
            _OF_UES,
            [{**row, "policy": p, "round": n} for (p, n), of in sorted(episode.ues.items()) for row in of],
        ),
        "rounds": (
            (*_OF_ROUNDS, *episode.scene["weights"]),
            [{**episode.rounds[p, n], "policy": p, "round": n} for p in episode.policies for n in episode.numbers],
        ),
    }
    stations = [str(station["name"]) for station in episode.scene["stations"]]
    names = {"policy": episode.policies, "base_station": stations}
    arrays = {
        f"{name}.{column}": np.array([_number(row[column], names.get(column)) for row in rows], dtype=np.float32)
        for name, (columns, rows) in frames.items() for column in columns
    }  # fmt: skip
    meta = {"scene": episode.scene, "policies": episode.policies, "rounds": episode.numbers, "terms": TERMS}
    parts: list[str | Panel] = [
        f'<p class="caption">{html.escape(said)}</p>',
        asset("episode.html"),
        _costs(episode),
    ]
    return Chapter("episode", "Episode", parts), {DATA: packed(meta, arrays)}


def _costs(episode: EpisodeRead) -> Panel:
    """Cost of every round under both."""
    drawn = [
        line(
            CurveStyle(name, color),
            episode.numbers,
            np.array([episode.rounds[name, n]["cost"] for n in episode.numbers]),
        )
        for name, color in zip(episode.policies, PALETTE, strict=False)
    ]
    figure = mosaic([Axes("cost", drawn)], {"title": {"text": "round"}})
    return Panel("episode-costs", "Cost of the rounds", "Lower is better: weighted cost of each round.", figure)


def _number(value: Any, names: Sequence[str] | None) -> float:
    """A number as it is, a text as its index in `names`, -1 for others."""
    if names is None:
        return float(value)
    return names.index(value) if value in names else -1


_TINY = 0.01  # of the cost of the best rule: a share of a smaller gap says nothing
_HEADS = {
    "t_th": "T_th, rounds", "loss": "final loss", "lost": "lost updates", "energy_j": "energy, J",
}  # fmt: skip
DESCRIPTIONS = {
    AGENT: "the learned policy, without exploration",
    "score-function": "the learned policy, without exploration: a network for each UE, added to the best rule",
    ORACLE: "the best powers that a search finds for each recorded round with everything known, played live",
    RANDOM: "the log-linear rule with the best of random parameters, as many as tuning tried",
    ONE_STEP: "a search in every round by gains and the requirement of the last round; evaluations: of an episode",
    "constant": "the same power for all", "equal SNR": "the same received power from all",
    "inverse amplitude": "falls with the amplitude of the channel",
    "required SNR": "a multiple of the SNR that budgets asked for last",
    "capped inversion": "the same received power, as far as a cap on power allows",
    "rank ladder": "received powers in steps, by rank in the cell", "log-linear": "a linear rule of six features",
    VISITED: "the best power vector of all training steps", OPTIMUM: "the better of plateaus and evolution",
    "amplitude": "the best s G / ||h||: the weight of a UE over the amplitude of its channel",
    "average": "equal split of the middle of the allowed total power",
    "full": "equal split of the largest allowed total power",
    "random": "the best of as many random vectors as training steps",
    "plateaus": "SLSQP on the smooth problem of every T_th", "evolution": "differential evolution over log power",
}  # fmt: skip


def train_lines(folder: Path) -> list[str]:
    """The result of a training for the terminal: warnings, sentences, and a row for each policy."""
    trained, failed = trainings(folder), len(read_failures(folder))
    heads, rows = policy_rows(trained)
    cells = [heads[:4], *([cell.text if isinstance(cell, Mark) else str(cell) for cell in row[:4]] for row in rows)]
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    printed = ["  ".join(map(str.ljust, row, wide)).rstrip() for row in cells]
    return [*untrained(trained), *(text for _, text in answer(trained, failed)), *printed]


def train_page(trained: list[FinishedTraining], failed: Sequence[Failed] = ()) -> str:
    """The page of one training, or of several that differ in their seed. failed : seeds that have none."""
    first = trained[0].manifest
    timing = {
        key: [float(s) for t in trained if (s := t.manifest.get("timing", {}).get(key)) is not None]
        for key in ("trained_s", "planned_round_s")
    }
    pairs = {
        "task": str(first.get("task")), "steps": f"{first.get('steps'):,}",
        "seeds": ", ".join(str(t.manifest.get("seed")) for t in trained),
        "training, mean": f"{np.mean(timing['trained_s'] or [0.0]):.0f} s",
    }  # fmt: skip
    if timing["planned_round_s"]:
        pairs[f"{ONE_STEP}, time per round"] = f"{1000 * np.mean(timing['planned_round_s']):.0f} ms"
    title, warns = str(first.get("title")), [*untrained(trained), " ".join(failure_lines(failed))]
    top = (
        headings(title, str(first.get("paper") or ""))
        + answers(answer(trained, len(failed)))
        + paragraphs(filter(None, warns), "warns")
    )
    over = f", mean over {over_seeds(len(trained), len(failed))}" if len(trained) + len(failed) > 1 else ""
    interval = " with its 95 % interval" if len(trained) > 1 else ""
    policies = table(f"Comparison with baseline policies{over}{interval}", *policy_rows(trained), "policies")
    episode, data = episode_chapter(trained[0].episode, first.get("seed"))
    chapters = [
        Chapter("training", "Training", [_curves(trained)]), episode,
        Chapter("policies-all", "Policies", [policies]),
        Chapter("configuration", "Configuration", [facts(pairs)]),
    ]  # fmt: skip
    return page(title, top, chapters, data, *((SCRIPTS, STYLES) if data else ()))


# -- the answer


def over_seeds(trained: int, failed: int) -> str:
    """On how many seeds figures stand: `3 seeds`; where some failed, `2 of 3 seeds (1 failed)`."""
    return f"{trained} of {trained + failed} seeds ({failed} failed)" if failed else counted(trained, "seed")


def untrained(trained: list[FinishedTraining]) -> list[str]:
    """A warning of a training in which no gradient step was made, or none that helped."""
    first = trained[0].manifest
    steps, starts = first.get("steps", 0), first.get("learning_starts", 0)
    if steps <= starts:
        return [
            f"The policy is untrained: all {steps:,} steps were random, since learning starts after {starts:,} "
            "(train.agent.learning_starts). Take more steps."
        ]
    if any(t.summary.get("steps.best") != 0 for t in trained):
        return []
    if first.get("residual"):
        return ["The policy is the rule that training began with: nothing that it found is better."]
    return ["The policy is untrained: no evaluation after the first was better. Take more steps."]


def answer(trained: list[FinishedTraining], failed: int = 0) -> list[tuple[str, str]]:
    """How good the policy is: what is asked, and a sentence. failed : seeds."""
    names, lines = list(means_of(trained)), list[tuple[str, str]]()
    many = f", mean over {over_seeds(len(trained), failed)} with a 95 % interval"
    if len(trained) == 1:
        many = f", with {over_seeds(1, failed)}, so without an interval" if failed else ""
    if OPTIMUM in names:
        gap = percent_gaps(trained, trained[0].agent, OPTIMUM)
        most = figure_text(float(gap.max()))
        text = f"The policy is {between(gap)} % above the best known optimum (max {most}){many}."
        lines.append(("How good it is", text))
    if ORACLE in names:
        lines.append(("How good it is", _closed(trained, many)))
    bounds = bounds_of(summaries_of(trained), trained[0].agent)
    if bounds:
        said = "; ".join(f"{figure} {_bound_text(*of)}, at most {figure_text(of[2])}" for figure, of in bounds.items())
        lines.append(("Whether bounds are kept", f"Means of the agent over rounds: {said}."))
    return lines


def _closed(trained: list[FinishedTraining], many: str) -> str:
    """How much of what the best rule leaves to the oracle the agent gets."""
    means = {name: figures["cost"] for name, figures in means_of(trained).items()}
    others = [name for name in means if name not in (ORACLE, RANDOM, ONE_STEP, trained[0].agent)]
    kept = [n for n in others if all(verdict(*b) != "broken" for b in bounds_of(summaries_of(trained), n).values())]
    best = min(kept or others, key=lambda name: float(means[name].mean()))
    gap = means[best] - means[ORACLE]
    if not (gap > _TINY * np.abs(means[best])).all():
        return (
            f"There is no gap between the best rule ({best}) and the oracle, at most {100 * _TINY:g} % of its cost: a "
            "rule is the optimum here."
        )
    share = between(100 * (means[best] - means[trained[0].agent]) / gap)
    worse = " The rule is better." if share.startswith("-") else ""
    return f"The agent closes {share} % of the gap between the best rule ({best}) and the oracle{many}.{worse}"


def between(values: FloatArray) -> str:
    """A mean, with its 95 % interval where there are several values, and they differ."""
    mean = figure_text(float(values.mean()))
    same = len(values) < 2 or not np.isfinite(values).all() or not np.ptp(values)
    return mean if same else f"{mean} ± {figure_text(half_width(values))}"


# -- bounds


def verdict(mean: float, half: float, at_most: float) -> str:
    """Of a mean over worlds with its 95 % interval."""
    return "kept" if mean + half <= at_most else "broken" if mean - half > at_most else "undecided"


def bounds_of(summaries: Sequence[dict[str, Any]], policy: str) -> dict[str, tuple[float, float, float]]:
    """Figure -> mean over rounds, half width of its interval over worlds (the widest of all seeds), and bound."""
    found = {}
    for key in summaries[0]:
        head, _, figure = key.removesuffix(".at_most").rpartition(".")
        if head == f"bound.{policy}" and key.endswith(".at_most"):
            means, halves = ([float(s[f"{head}.{figure}.{x}"] or 0) for s in summaries] for x in ("mean", "half_width"))
            found[figure] = float(np.mean(means)), max(halves), float(summaries[0][key])
    return found


def _bound_text(mean: float, half: float, at_most: float) -> str:
    return f"{figure_text(mean)} ± {figure_text(half)} ({verdict(mean, half, at_most)})"


# -- tables and the curve


def policy_rows(trained: list[FinishedTraining]) -> tuple[list[str], list[list[Cell]]]:
    """Heads and rows of all policies, the cheapest first: mean cost, the agent beside it, other figures, bounds."""
    means, bounds = means_of(trained), bounds_of(summaries_of(trained), trained[0].agent)
    columns = [f for f in METRICS if f != "cost" and any(np.isfinite(m[f]).any() for m in means.values())]
    heads = ["policy", "cost", "agent less this", "lower in (probability)", *(_HEADS.get(f, f) for f in columns)]
    heads += [*(f"{f}, bound {figure_text(of[2])}" for f, of in bounds.items()), "description"]
    rows = list[list[Cell]]()
    for name, of in sorted(means.items(), key=lambda m: float(m[1]["cost"].mean())):
        kept = bounds_of(summaries_of(trained), name)
        of["t_th"] = np.where(of["t_th"] < 0, np.nan, of["t_th"])  # below zero: has none
        cells: list[Cell] = [_mark(of["cost"]), *_beside(trained, name), *(_mark(of[f]) for f in columns)]
        cells += [Mark(_bound_text(*kept[f]), kept[f][0]) if f in kept else np.nan for f in bounds]
        rows.append([name, *cells, DESCRIPTIONS.get(name, "compensates a share of the path loss")])
    return heads, rows


def _mark(values: FloatArray) -> Mark:
    return Mark(between(values), float(values.mean()))


def _beside(trained: list[FinishedTraining], name: str) -> list[Cell]:
    """Cost of the agent less that of a policy, with its interval over worlds, and in how many pairs it is lower."""
    if not trained[0].online or name == trained[0].agent:
        return ["", ""]
    costs, others = paired(trained, name)
    gaps, (chance, low, high) = costs - others, probability_of_improvement(costs, others)
    wins, among = int((gaps < 0).sum()), f", {low:.2f} to {high:.2f}" if gaps.size > 1 else ""
    return [
        Mark(between(gaps.mean(axis=0)), float(gaps.mean())),
        Mark(f"{wins} of {gaps.size} ({chance:.2f}{among})", float(wins)),
    ]


def _curves(trained: list[FinishedTraining]) -> Panel:
    """Cost of the policy over the steps of its training: the median over seeds and their quartiles."""
    online, at = trained[0].online, np.unique(np.concatenate([t.curve["step"] for t in trained]))
    grid = np.full((len(at), len(trained)), np.nan)
    for k, t in enumerate(trained):
        grid[np.searchsorted(at, t.curve["step"]), k] = t.curve["score"]
    name = f"seed {trained[0].manifest.get('seed')}" if len(trained) == 1 else "median over seeds"
    drawn = median_line(CurveStyle(name, PALETTE[0]), at.tolist(), grid, "")
    if not online:
        level = np.full(2, means_of(trained)[OPTIMUM]["cost"].mean())
        drawn.append(line(CurveStyle(f"baseline: {OPTIMUM}", DARK, dash="dot"), [at[0], at[-1]], level, mode="lines"))
    caption = (
        "Lower is better: cost of an episode (minus the sum of its rewards) of the policy without exploration, in the "
        "evaluation worlds."
        if online
        else "Lower is better: bound L at the power of the policy without exploration over that at average power."
    )
    caption += "" if len(trained) == 1 else " The line is the median over seeds, the band their quartiles."
    figure = mosaic([Axes("cost", drawn, near=True)], {"title": {"text": "steps"}})
    return Panel("curve", "Learning curve", caption, figure)
