"""The outcome of a training and its page: the agent beside baselines, and its curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import nan
from pathlib import Path

import numpy as np

from netsim.errors import counted
from netsim.units import FloatArray
from rl.settings import BEST_RESPONSES, OPTIMUM, ORACLE, RANDOM
from scenarios.app.report.charts import median_line
from scenarios.app.report.plot import (
    DARK,
    PALETTE,
    Axes,
    Chapter,
    CurveStyle,
    Panel,
    configuration,
    line,
    mosaic,
    outcome_page,
    rendered,
    table_block,
)
from scenarios.app.results.folder import Failed, failure_lines, read_failures
from scenarios.app.results.outcome import Cell, Cells, Mark, Outcome, TableOf
from scenarios.app.results.statistics import figure_text, half_width, mean_text
from scenarios.app.results.trainings import (
    METRICS,
    FinishedTraining,
    means_of,
    paired,
    probability_of_improvement,
    trainings,
)
from scenarios.app.study.notice import notice

_TINY = 0.01  # of the cost of the best rule: a share of a smaller gap says nothing
_DECISION = "decision, ms"
_HEADS = {
    "t_th": "T_th, rounds",
    "loss": "final loss",
    "lost": "lost updates",
    "energy_j": "energy, J",
}


@dataclass(frozen=True, eq=False)
class Seeds:
    """Trainings that differ in their seed. failed : seeds that have none."""

    trained: list[FinishedTraining]
    failed: Sequence[Failed]

    @staticmethod
    def of(folder: Path) -> Seeds:
        """Those of a folder."""
        return Seeds(trainings(folder), read_failures(folder))

    @property
    def first(self) -> FinishedTraining:
        """The first training."""
        return self.trained[0]

    @cached_property
    def costs(self) -> dict[str, FloatArray]:
        """Policy -> its mean cost in each training."""
        return {name: figures["cost"] for name, figures in means_of(self.trained).items()}

    @property
    def over(self) -> str:
        """What figures are means of: `, mean over 2 of 3 seeds (1 failed) with a 95 % interval`;
        empty of one seed.
        """
        n = len(self.trained)
        failed = len(self.failed)
        if n + failed == 1:
            return ""
        if failed:
            of = f"{n} of {n + failed} seeds ({failed} failed)"
        else:
            of = counted(n, "seed")
        return f", mean over {of}" + " with a 95 % interval" * (n > 1)


def train_outcome(seeds: Seeds) -> Outcome:
    """Of trainings that differ in their seed: the agent beside the best rule, and every policy."""
    notices = [notice("trainings-failed", text=text) for text in failure_lines(seeds.failed)]
    values = {
        "trainings": [{"seed": one.manifest.seed, "summary": one.summary} for one in seeds.trained],
        "failures": [asdict(one) for one in seeds.failed],
    }
    if not seeds.trained:
        return Outcome("training", "", notices=notices, values=values)
    heads, rows = policy_rows(seeds)
    title = f"Comparison with baseline policies{seeds.over}"
    tables = [
        TableOf("Beside the best rule", *beside_rule(seeds)),
        TableOf(title, heads, rows, "policies", 4 + (_DECISION in heads)),
    ]
    notices += [notice("policy-untrained", text=text) for text in untrained(seeds.trained)]
    return Outcome(
        "training", seeds.first.manifest.title, answer(seeds), notices, tables, values=values
    )


def train_page(seeds: Seeds) -> str:
    """The page of one training, or of several that differ in their seed."""
    first = seeds.first.manifest
    facts = {
        "task": first.task,
        "steps": f"{first.steps:,}",
        "seeds": ", ".join(str(t.manifest.seed) for t in seeds.trained),
        "training, mean": f"{np.mean([t.manifest.trained_s for t in seeds.trained]):.0f} s",
    }
    of = train_outcome(seeds)
    rule, policies = of.tables
    does = rendered("policies.html", names=[row[0] for row in policies.rows])
    chapters = [
        Chapter("training", "Training", [_curve(seeds)]),
        Chapter("policies-all", "Policies", [table_block(policies), does]),
        configuration(facts),
    ]
    return outcome_page(of, chapters, [first.paper or ""], results=table_block(rule))


# -- the answer


def untrained(trained: list[FinishedTraining]) -> list[str]:
    """A warning of a training in which no gradient step was made, or none that helped."""
    first = trained[0].manifest
    if first.steps <= first.learning_starts:
        return [
            f"The policy is untrained: all {first.steps:,} steps were random, since learning "
            f"starts after {first.learning_starts:,} (train.agent.learning_starts). Take more "
            "steps."
        ]
    if any(t.summary.get("steps.best") != 0 for t in trained):
        return []
    return ["The policy is untrained: no evaluation after the first was better. Take more steps."]


def answer(seeds: Seeds) -> list[tuple[str, str]]:
    """How good a policy for a whole training is: what is asked, and a sentence."""
    if OPTIMUM not in seeds.costs or untrained(seeds.trained):
        return []  # a figure would be of the beginning
    costs, optima = paired(seeds.trained, seeds.first.agent, OPTIMUM)
    gap = (100 * (costs / optima - 1)).mean(axis=1)
    text = f"{mean_text(gap)} % above the best known optimum (max {figure_text(gap.max())})"
    return [("How good it is", f"The policy is {text}{seeds.over}.")]


def beside_rule(seeds: Seeds) -> tuple[list[str], Cells]:
    """Heads and rows: the oracle, the agent and best responses beside the best rule; none without
    an oracle.

    The difference of costs in the same worlds, mean over seeds, with its 95 % interval over worlds.
    Where that excludes 0 the verdict is `better` or `worse`, and a policy has a share of the gap to
    the oracle, if the oracle is better by more than 1 % of the rule's cost.
    """
    costs = seeds.costs
    if ORACLE not in costs:
        return [], []
    searches = (ORACLE, seeds.first.agent, *BEST_RESPONSES)
    best = min(
        (name for name in costs if name not in (*searches, RANDOM)),
        key=lambda name: costs[name].mean(),
    )
    rule = costs[best].mean()
    gaps = {
        n: np.subtract(*paired(seeds.trained, n, best)).mean(axis=0) for n in searches if n in costs
    }
    left = gaps[ORACLE]
    closes = left.mean() < -max(half_width(left), _TINY * abs(rule))  # not so for NaN, of one world
    rows: Cells = []
    for name, less in gaps.items():
        if rule:
            percent = f"{figure_text(100 * less.mean() / abs(rule))} %"
        else:
            percent = "– %"
        verdict = "not distinguishable"
        share = ""
        if abs(less.mean()) > half_width(less):
            verdict = "worse" if less.mean() > 0 else "better"
            if closes:
                share = mean_text(100 * (costs[best] - costs[name]) / (costs[best] - costs[ORACLE]))
            else:
                share = ""
        rows.append([name, f"{mean_text(less)} ({percent})", verdict, share])
    return [
        f"beside {best}",
        f"difference, {counted(len(left), 'world')}",
        "verdict",
        "of the gap, %",
    ], rows


# -- tables and the curve


def policy_rows(seeds: Seeds) -> tuple[list[str], Cells]:
    """Heads and rows of all policies, the cheapest first: mean cost, the agent beside it, the time
    of a decision, other figures.
    """
    means = means_of(seeds.trained)
    columns = [f for f in METRICS[1:] if any(np.isfinite(m[f]).any() for m in means.values())]
    spent = [t.manifest.decision_ms for t in seeds.trained]
    timed = [_DECISION] if any(spent) else []
    heads = ["policy", "cost", "agent less this", "lower in (probability)", *timed]
    heads += [_HEADS.get(f, f) for f in columns]
    rows: Cells = []
    for name in sorted(means, key=lambda name: means[name]["cost"].mean()):
        of = means[name]
        of["t_th"] = np.where(of["t_th"] < 0, nan, of["t_th"])  # below zero: has none
        figures = [Mark(mean_text(of[f]), of[f].mean()) for f in ("cost", *columns)]
        mean_ms = float(np.mean([of_seed.get(name, nan) for of_seed in spent]))
        took = [Mark(figure_text(mean_ms), mean_ms) for _ in timed]
        rows.append([name, figures[0], *_beside(seeds, name), *took, *figures[1:]])
    return heads, rows


def _beside(seeds: Seeds, name: str) -> list[Cell]:
    """Cost of the agent less that of a policy, with its interval over worlds, and in how many pairs
    it is lower.
    """
    if not seeds.first.online or name == seeds.first.agent:
        return ["", ""]
    costs, others = paired(seeds.trained, seeds.first.agent, name)
    gaps = costs - others
    chance, low, high = probability_of_improvement(costs, others)
    wins = (gaps < 0).sum()
    if gaps.size > 1:
        among = f", {low:.2f} to {high:.2f}"
    else:
        among = ""
    less = Mark(mean_text(gaps.mean(axis=0)), gaps.mean())
    return [less, Mark(f"{wins} of {gaps.size} ({chance:.2f}{among})", wins)]


def _curve(seeds: Seeds) -> Panel:
    """Cost of the policy over the steps of its training: the median over seeds and their
    quartiles.
    """
    import pandas

    scores = pandas.concat(
        [t.curve.set_index("step")["score"] for t in seeds.trained], axis=1
    ).sort_index()
    step = scores.index.to_numpy()
    name = f"seed {seeds.first.manifest.seed}"
    caption = "Lower is better: "
    if len(seeds.trained) > 1:
        name = "median over seeds"
        caption = "The line is the median over seeds, the band their quartiles. " + caption
    lines = median_line(CurveStyle(name, PALETTE[0]), step.tolist(), scores.to_numpy(), "")
    if seeds.first.online:
        caption += (
            "cost of an episode (minus its rewards) of the policy without exploration, in "
            "the evaluation worlds."
        )
    else:
        caption += (
            "bound L at the power of the policy without exploration over that at average power."
        )
        level = np.full(2, seeds.costs[OPTIMUM].mean())
        look = CurveStyle(f"baseline: {OPTIMUM}", DARK, dash="dot")
        lines.append(line(look, step[[0, -1]].tolist(), level, mode="lines"))
    return Panel(
        "curve",
        "Learning curve",
        caption,
        mosaic([Axes("cost", lines, near=True)], {"title": "steps"}),
    )
