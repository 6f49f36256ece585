"""The outcome of a training and its page: the agent beside baselines, and its curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from math import nan
from pathlib import Path

import numpy as np

from netsim.columns import frozen
from netsim.errors import format_count
from netsim.units import FloatArray, TextPair
from rl.settings import BEST_RESPONSES, OPTIMUM, ORACLE, RANDOM
from scenarios.app.report.charts import draw_median
from scenarios.app.report.plot import (
    DARK,
    PALETTE,
    Axes,
    Chapter,
    CurveStyle,
    Panel,
    build_configuration,
    draw_curve,
    lay_out_axes,
    render_outcome,
    render_outcome_table,
    render_template,
)
from scenarios.app.results.folder import Failed, format_failures, read_failures
from scenarios.app.results.outcome import Cell, Cells, Mark, Outcome, OutcomeTable
from scenarios.app.results.sentences import read_sentences
from scenarios.app.results.statistics import compute_ci95_half_width, format_figure, format_mean
from scenarios.app.results.trainings import (
    METRICS,
    FinishedTraining,
    average_over_cases,
    estimate_win_probability,
    read_trainings,
    stack_costs,
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


@frozen
class Seeds:
    """Trainings that differ in their seed. failed : seeds that have none."""

    trained: list[FinishedTraining]
    failed: Sequence[Failed]

    @staticmethod
    def from_folder(folder: Path) -> Seeds:
        """Those of a folder."""
        return Seeds(read_trainings(folder), read_failures(folder))

    @property
    def first(self) -> FinishedTraining:
        """The first training."""
        return self.trained[0]

    @cached_property
    def costs(self) -> dict[str, FloatArray]:
        """Policy -> its mean cost in each training."""
        return {name: figures["cost"] for name, figures in average_over_cases(self.trained).items()}

    @property
    def over(self) -> str:
        """What figures are means of: `, mean over 2 of 3 seeds (1 failed) with a 95 % interval`;
        empty of one seed.
        """
        return read_sentences().over_seeds(len(self.trained), len(self.failed))


def build_training_outcome(seeds: Seeds) -> Outcome:
    """Build the outcome of trainings that differ in their seed.

    The agent beside the best rule, and every policy.
    """
    trained = seeds.trained
    notices = [notice("trainings-failed", text=text) for text in format_failures(seeds.failed)]
    values = {
        "trainings": [
            {"seed": training.manifest.seed, "summary": training.summary} for training in trained
        ],
        "failures": [*map(asdict, seeds.failed)],
    }
    if not trained:
        return Outcome("training", "", notices=notices, values=values)
    if text := explain_untrained(trained):
        notices.append(notice("policy-untrained", text=text))
    heads, rows = tabulate_policies(seeds)
    title = f"Comparison with baseline policies{seeds.over}"
    tables = [
        OutcomeTable("Beside the best rule", *compare_with_rule(seeds)),
        OutcomeTable(title, heads, rows, "policies", 4 + (_DECISION in heads)),
    ]
    title = seeds.first.manifest.title
    return Outcome("training", title, answer_training(seeds), notices, tables, values=values)


def build_training_page(seeds: Seeds) -> str:
    """Build the page of one training, or of several that differ in their seed."""
    first = seeds.first.manifest
    manifests = [training.manifest for training in seeds.trained]
    mean_s = np.mean([manifest.trained_s for manifest in manifests])
    facts = {
        "task": first.task,
        "steps": f"{first.steps:,}",
        "seeds": ", ".join(str(manifest.seed) for manifest in manifests),
        "training, mean": f"{mean_s:.0f} s",
    }
    outcome = build_training_outcome(seeds)
    _, policies = outcome.tables
    explained = render_template("policies.html", names=[row[0] for row in policies.rows])
    chapters = [
        Chapter("training", "Training", [_draw_curve(seeds)]),
        Chapter("policies-all", "Policies", [render_outcome_table(policies), explained]),
        build_configuration(facts),
    ]
    return render_outcome(outcome, chapters, [first.paper or ""], n_tables=1)


# -- the answer


def explain_untrained(trained: list[FinishedTraining]) -> str:
    """Explain that no gradient step was made in a training, or none that helped; empty where one
    did.
    """
    first = trained[0].manifest
    best_steps = [training.summary.get("steps.best") for training in trained]
    return read_sentences().untrained(first.steps, first.learning_starts, best_steps)


def answer_training(seeds: Seeds) -> list[TextPair]:
    """Answer how good a policy for a whole training is: what is asked, and a sentence."""
    if OPTIMUM not in seeds.costs or explain_untrained(seeds.trained):
        return []  # a figure would be of the beginning
    costs, optima = stack_costs(seeds.trained, seeds.first.agent, OPTIMUM)
    gap = (100 * (costs / optima - 1)).mean(axis=1)
    text = f"{format_mean(gap)} % above the best known optimum (max {format_figure(gap.max())})"
    return [("How good it is", f"The policy is {text}{seeds.over}.")]


def compare_with_rule(seeds: Seeds) -> tuple[list[str], Cells]:
    """Compare the oracle, the agent and best responses with the best rule: heads and rows.

    None without an oracle. The difference of costs in the same worlds, mean over seeds, with its
    95 % interval over worlds. Where that excludes 0 the verdict is `better` or `worse`, and a
    policy has a share of the gap to the oracle, if the oracle is better by more than 1 % of the
    rule's cost.
    """
    costs = seeds.costs
    if ORACLE not in costs:
        return [], []
    searches = (ORACLE, seeds.first.agent, *BEST_RESPONSES)
    rules = [name for name in costs if name not in (*searches, RANDOM)]
    best = min(rules, key=lambda name: costs[name].mean())
    scale = abs(costs[best].mean())
    gaps = {}
    for name in searches:
        if name in costs:
            policy, rule = stack_costs(seeds.trained, name, best)
            gaps[name] = (policy - rule).mean(axis=0)
    left = gaps[ORACLE]
    # not so for NaN, of one world
    is_closed = left.mean() < -max(compute_ci95_half_width(left), _TINY * scale)
    rows: Cells = []
    for name, gap in gaps.items():
        percent = format_figure(100 * gap.mean() / scale) if scale else "–"
        verdict = "not distinguishable"
        share = ""
        if abs(gap.mean()) > compute_ci95_half_width(gap):
            verdict = "worse" if gap.mean() > 0 else "better"
            if is_closed:
                closed = 100 * (costs[best] - costs[name])
                share = format_mean(closed / (costs[best] - costs[ORACLE]))
        rows.append([name, f"{format_mean(gap)} ({percent} %)", verdict, share])
    return [
        f"beside {best}",
        f"difference, {format_count(len(left), 'world')}",
        "verdict",
        "of the gap, %",
    ], rows


# -- tables and the curve


def tabulate_policies(seeds: Seeds) -> tuple[list[str], Cells]:
    """Tabulate all policies, the cheapest first: heads and rows.

    Mean cost, the agent beside it, the time of a decision, other figures.
    """
    means = average_over_cases(seeds.trained)
    columns = [f for f in METRICS[1:] if any(np.isfinite(m[f]).any() for m in means.values())]
    decision_ms = [training.manifest.decision_ms for training in seeds.trained]
    is_timed = any(decision_ms)
    heads = ["policy", "cost", "agent less this", "lower in (probability)"]
    if is_timed:
        heads.append(_DECISION)
    heads += [_HEADS.get(name, name) for name in columns]
    rows: Cells = []
    for name in sorted(means, key=lambda name: means[name]["cost"].mean()):
        figures = means[name]
        figures["t_th"] = np.where(figures["t_th"] < 0, nan, figures["t_th"])  # below zero: none
        cost, *marks = (
            Mark(format_mean(figures[f]), figures[f].mean()) for f in ("cost", *columns)
        )
        row = [name, cost, *_compare_with_agent(seeds, name)]
        if is_timed:
            mean_ms = float(np.mean([times_ms.get(name, nan) for times_ms in decision_ms]))
            row.append(Mark(format_figure(mean_ms), mean_ms))
        rows.append([*row, *marks])
    return heads, rows


def _compare_with_agent(seeds: Seeds, name: str) -> list[Cell]:
    """Compare the cost of the agent with that of a policy, with its interval over worlds.

    And in how many pairs it is lower.
    """
    if not seeds.first.sets_power_per_round or name == seeds.first.agent:
        return ["", ""]
    costs, other_costs = stack_costs(seeds.trained, seeds.first.agent, name)
    gaps = costs - other_costs
    probability, low, high = estimate_win_probability(costs, other_costs)
    n_lower = (gaps < 0).sum()
    chance = f"{probability:.2f}"
    if gaps.size > 1:
        chance += f", {low:.2f} to {high:.2f}"
    less = Mark(format_mean(gaps.mean(axis=0)), gaps.mean())
    return [less, Mark(f"{n_lower} of {gaps.size} ({chance})", n_lower)]


def _draw_curve(seeds: Seeds) -> Panel:
    """Draw the cost of the policy over the steps of its training.

    The median over seeds and their quartiles.
    """
    import pandas

    curves = [training.curve.set_index("step")["score"] for training in seeds.trained]
    scores = pandas.concat(curves, axis=1).sort_index()
    step = scores.index.to_numpy()
    name = f"seed {seeds.first.manifest.seed}"
    caption = "Lower is better: "
    if len(seeds.trained) > 1:
        name = "median over seeds"
        caption = "The line is the median over seeds, the band their quartiles. " + caption
    lines = draw_median(CurveStyle(name, PALETTE[0]), step.tolist(), scores.to_numpy(), "")
    if seeds.first.sets_power_per_round:
        caption += (
            "cost of an episode (minus its rewards) of the policy without exploration, in "
            "the evaluation worlds."
        )
    else:
        caption += (
            "bound L at the power of the policy without exploration over that at average power."
        )
        level = np.full(2, seeds.costs[OPTIMUM].mean())
        lines.append(
            draw_curve(
                CurveStyle(f"baseline: {OPTIMUM}", DARK, dash="dot"),
                step[[0, -1]].tolist(),
                level,
                mode="lines",
            )
        )
    return Panel(
        "curve",
        "Learning curve",
        caption,
        lay_out_axes([Axes("cost", lines, near=True)], {"title": "steps"}),
    )
