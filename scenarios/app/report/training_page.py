"""The page of a training, and its lines on a terminal: the agent beside baseline policies, its curve, an episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from netsim.units import FloatArray
from rl.settings import ONE_STEP, OPTIMUM, ORACLE, RANDOM
from scenarios.app.report.charts import median_line
from scenarios.app.report.plot import (
    DARK,
    PALETTE,
    Axes,
    Cell,
    Chapter,
    CurveStyle,
    Mark,
    Panel,
    block,
    line,
    mosaic,
    packed,
    page,
    rendered,
    table,
)
from scenarios.app.results.folder import Failed, failure_lines, read_failures
from scenarios.app.results.shown import drawn
from scenarios.app.results.statistics import counted, figure_text, mean_text
from scenarios.app.results.trainings import (
    METRICS,
    TERMS,
    EpisodeRead,
    FinishedTraining,
    means_of,
    paired,
    percent_gaps,
    probability_of_improvement,
    trainings,
)
from scenarios.app.study import Fields

Bounds = dict[str, tuple[float, float, float]]
"""figure -> mean over rounds, half width of its interval over worlds, and bound"""
_TINY = 0.01  # of the cost of the best rule: a share of a smaller gap says nothing
_HEADS = {"t_th": "T_th, rounds", "loss": "final loss", "lost": "lost updates", "energy_j": "energy, J"}


@dataclass(frozen=True, eq=False)
class Seeds:
    """Trainings that differ in their seed. failed : seeds that have none."""

    trained: list[FinishedTraining]
    failed: Sequence[Failed] = ()

    @property
    def first(self) -> FinishedTraining:
        """The first training."""
        return self.trained[0]

    @cached_property
    def costs(self) -> dict[str, FloatArray]:
        """Policy -> its mean cost in each training."""
        return {name: figures["cost"] for name, figures in means_of(self.trained).items()}

    @property
    def text(self) -> str:
        """On how many seeds figures stand: `3 seeds`; where some failed, `2 of 3 seeds (1 failed)`."""
        n = len(self.trained)
        failed = len(self.failed)
        return f"{n} of {n + failed} seeds ({failed} failed)" if failed else counted(n, "seed")

    def bounds(self, policy: str) -> Bounds:
        """The bounds on means of a policy."""
        return bounds_of([t.summary for t in self.trained], policy)


def train_lines(folder: Path) -> list[str]:
    """The result of a training for the terminal: warnings, sentences, and a row for each policy."""
    seeds = Seeds(trainings(folder), read_failures(folder))
    heads, rows = policy_rows(seeds)
    cells = [[cell.text if isinstance(cell, Mark) else str(cell) for cell in row[:4]] for row in rows]
    printed = drawn(heads[:4], cells)
    return [*untrained(seeds.trained), *(text for _, text in answer(seeds)), *printed]


def train_page(trained: list[FinishedTraining], failed: Sequence[Failed] = ()) -> str:
    """The page of one training, or of several that differ in their seed. failed : seeds that have none."""
    seeds = Seeds(trained, failed)
    first = trained[0].manifest
    facts = {
        "task": first.task,
        "steps": f"{first.steps:,}",
        "seeds": ", ".join(str(t.manifest.seed) for t in trained),
        "training, mean": f"{np.mean([t.manifest.trained_s for t in trained]):.0f} s",
    }
    title = "Comparison with baseline policies"
    title += f", mean over {seeds.text}" if len(trained) + len(failed) > 1 else ""
    title += " with its 95 % interval" if len(trained) > 1 else ""
    heads, rows = policy_rows(seeds)
    policies = [table(title, heads, rows, "policies"), rendered("policies.html", names=[row[0] for row in rows])]
    chapters = [
        Chapter("training", "Training", [_curve(seeds)]),
        episode_chapter(trained[0].episode, first.seed),
        Chapter("policies-all", "Policies", policies),
        Chapter("configuration", "Configuration", [block("facts", facts)]),
    ]
    warns = [*untrained(trained), *([" ".join(failure_lines(failed))] if failed else [])]
    return page(first.title, chapters, below=first.paper, answers=answer(seeds), warns=warns)


# -- the answer


def untrained(trained: list[FinishedTraining]) -> list[str]:
    """A warning of a training in which no gradient step was made, or none that helped."""
    first = trained[0].manifest
    if first.steps <= first.learning_starts:
        return [
            f"The policy is untrained: all {first.steps:,} steps were random, since learning starts after "
            f"{first.learning_starts:,} "
            "(train.agent.learning_starts). Take more steps."
        ]
    if any(t.summary.get("steps.best") != 0 for t in trained):
        return []
    if first.residual:
        return ["The policy is the rule that training began with: nothing that it found is better."]
    return ["The policy is untrained: no evaluation after the first was better. Take more steps."]


def answer(seeds: Seeds) -> list[tuple[str, str]]:
    """How good the policy is: what is asked, and a sentence."""
    lines = list[tuple[str, str]]()
    agent = seeds.first.agent
    many = f", mean over {seeds.text} with a 95 % interval"
    if len(seeds.trained) == 1:
        many = f", with {seeds.text}, so without an interval" if seeds.failed else ""
    if any("is untrained" in text for text in untrained(seeds.trained)):
        return []  # a figure would be of the beginning
    if OPTIMUM in seeds.costs:
        gap = percent_gaps(seeds.trained, agent, OPTIMUM)
        text = f"{mean_text(gap)} % above the best known optimum (max {figure_text(gap.max())})"
        lines.append(("How good it is", f"The policy is {text}{many}."))
    if ORACLE in seeds.costs:
        lines.append(("How good it is", _closed(seeds, many)))
    if bounds := seeds.bounds(agent):
        said = "; ".join(f"{figure} {_bound_text(*of)}, at most {figure_text(of[2])}" for figure, of in bounds.items())
        lines.append(("Whether bounds are kept", f"Means of the agent over rounds: {said}."))
    return lines


def _closed(seeds: Seeds, many: str) -> str:
    """How much of what the best rule leaves to the oracle the agent gets."""
    agent = seeds.first.agent
    costs = seeds.costs
    rules = [name for name in costs if name not in (ORACLE, RANDOM, ONE_STEP, agent)]
    kept = [name for name in rules if all(verdict(*of) != "broken" for of in seeds.bounds(name).values())]
    best = min(kept or rules, key=lambda name: float(costs[name].mean()))
    gap = costs[best] - costs[ORACLE]
    if not (gap > _TINY * np.abs(costs[best])).all():
        return (
            f"There is no gap between the best rule ({best}) and the oracle, at most {100 * _TINY:g} % of its cost: a "
            "rule is the optimum here."
        )
    share = mean_text(100 * (costs[best] - costs[agent]) / gap)
    worse = " The rule is better." if share.startswith("-") else ""
    return f"The agent closes {share} % of the gap between the best rule ({best}) and the oracle{many}.{worse}"


def verdict(mean: float, half: float, at_most: float) -> str:
    """Of a mean over worlds with its 95 % interval."""
    return "kept" if mean + half <= at_most else "broken" if mean - half > at_most else "undecided"


def bounds_of(summaries: Sequence[Fields], policy: str) -> Bounds:
    """Figure -> mean over rounds, half width of its interval over worlds (the widest of all seeds), and bound."""
    found = Bounds()
    for key, at_most in summaries[0].items():
        stem = key.removesuffix(".at_most")
        head, _, figure = stem.rpartition(".")
        if stem != key and head == f"bound.{policy}":
            means, halves = ([s[f"{stem}.{end}"] or 0.0 for s in summaries] for end in ("mean", "half_width"))
            found[figure] = float(np.mean(means)), max(halves), at_most
    return found


def _bound_text(mean: float, half: float, at_most: float) -> str:
    return f"{figure_text(mean)} ± {figure_text(half)} ({verdict(mean, half, at_most)})"


# -- tables and the curve


def policy_rows(seeds: Seeds) -> tuple[list[str], list[list[Cell]]]:
    """Heads and rows of all policies, the cheapest first: mean cost, the agent beside it, other figures, bounds."""
    means = means_of(seeds.trained)
    bounds = seeds.bounds(seeds.first.agent)
    columns = [f for f in METRICS if f != "cost" and any(np.isfinite(m[f]).any() for m in means.values())]
    heads = ["policy", "cost", "agent less this", "lower in (probability)", *(_HEADS.get(f, f) for f in columns)]
    heads += [f"{f}, bound {figure_text(of[2])}" for f, of in bounds.items()]
    rows = list[list[Cell]]()
    for name in sorted(means, key=lambda name: float(means[name]["cost"].mean())):
        of = means[name]
        kept = seeds.bounds(name)
        of["t_th"] = np.where(of["t_th"] < 0, np.nan, of["t_th"])  # below zero: has none
        figures = [Mark(mean_text(of[f]), float(of[f].mean())) for f in ("cost", *columns)]
        bounded = [Mark(_bound_text(*kept[f]), kept[f][0]) if f in kept else np.nan for f in bounds]
        rows.append([name, figures[0], *_beside(seeds, name), *figures[1:], *bounded])
    return heads, rows


def _beside(seeds: Seeds, name: str) -> list[Cell]:
    """Cost of the agent less that of a policy, with its interval over worlds, and in how many pairs it is lower."""
    if not seeds.first.online or name == seeds.first.agent:
        return ["", ""]
    costs, others = paired(seeds.trained, name)
    gaps = costs - others
    (chance, low, high) = probability_of_improvement(costs, others)
    wins = int((gaps < 0).sum())
    among = f", {low:.2f} to {high:.2f}" if gaps.size > 1 else ""
    less = Mark(mean_text(gaps.mean(axis=0)), float(gaps.mean()))
    return [less, Mark(f"{wins} of {gaps.size} ({chance:.2f}{among})", wins)]


def _curve(seeds: Seeds) -> Panel:
    """Cost of the policy over the steps of its training: the median over seeds and their quartiles."""
    import pandas

    scores = pandas.concat([t.curve.set_index("step")["score"] for t in seeds.trained], axis=1).sort_index()
    step = scores.index.to_numpy()
    name = f"seed {seeds.first.manifest.seed}"
    caption = "Lower is better: "
    if len(seeds.trained) > 1:
        name = "median over seeds"
        caption = "The line is the median over seeds, the band their quartiles. " + caption
    lines = median_line(CurveStyle(name, PALETTE[0]), step.tolist(), scores.to_numpy(), "")
    if seeds.first.online:
        caption += "cost of an episode (minus its rewards) of the policy without exploration, in the evaluation worlds."
    else:
        caption += "bound L at the power of the policy without exploration over that at average power."
        level = np.full(2, seeds.costs[OPTIMUM].mean())
        look = CurveStyle(f"baseline: {OPTIMUM}", DARK, dash="dot")
        lines.append(line(look, step[[0, -1]].tolist(), level, mode="lines"))
    return Panel("curve", "Learning curve", caption, mosaic([Axes("cost", lines, near=True)], {"title": "steps"}))


def episode_chapter(episode: EpisodeRead | None, seed: int) -> Chapter:
    """An episode round by round: for each policy its rounds with the rows of UEs; empty without an episode."""
    if episode is None or not episode.numbers:
        return Chapter("episode", "Episode", [])
    scene = episode.scene
    numbers = episode.numbers
    policies = episode.policies
    rounds = {policy: [episode.rounds[policy, n] for n in numbers] for policy in policies}
    ues = {policy: [[_known(row) for row in episode.ues.get((policy, n), ())] for n in numbers] for policy in policies}
    costs = [
        line(CurveStyle(policy, color), numbers, np.array([of["cost"] for of in rounds[policy]]))
        for policy, color in zip(policies, PALETTE, strict=False)
    ]
    figure = mosaic([Axes("cost", costs)], {"title": "round"})
    shown = (len({row["ue"] for of in episode.ues.values() for row in of}), len(numbers))
    every = (int(scene["ues"]), int(scene["rounds"]))
    thinned = [(counted(n, what), k) for k, n, what in zip(shown, every, ("UE", "round"), strict=True) if k < n]
    meta = {
        "scene": scene, "policies": policies, "numbers": numbers, "terms": TERMS, "ues": [*ues.values()],
        "rounds": [[_known(of) for of in rounds[policy]] for policy in policies],
    }  # fmt: skip
    parts: list[str | Panel] = [
        rendered("episode.html", policies=policies, seed=seed, thinned=thinned),
        Panel("episode-costs", "Cost of the rounds", "Lower is better: weighted cost of each round.", figure),
    ]
    return Chapter("episode", "Episode", parts, {"episode-data": packed(meta, {})})


def _known(row: Fields) -> Fields:
    """What is known of a row: JSON has no NaN."""
    return {name: value for name, value in row.items() if value == value}
