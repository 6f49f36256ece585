"""What a training found, in sentences: how good the agent is beside rules, an optimiser and an oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from netsim.units import FloatArray
from rl.settings import ONE_STEP, OPTIMUM, ORACLE, RANDOM, VISITED
from scenarios.app.report.training_bounds import bounds_line, breaks_none
from scenarios.app.results.failures import read_failures
from scenarios.app.results.improvement import probability_of_improvement
from scenarios.app.results.statistics import counted, figure_text, half_width, interquartile_mean
from scenarios.app.results.trainings import Training, means_of, paired, percent_gaps, summaries_of, trainings

_TINY = 0.01  # of the cost of the best rule: a share of a smaller gap says nothing


def train_lines(folder: Path) -> list[str]:
    """The result of a training in sentences, for the terminal."""
    trained, failed = trainings(folder), len(read_failures(folder))
    return [*untrained(trained), *(text for _, text in answer(trained, failed))]


def over_seeds(trained: int, failed: int) -> str:
    """On how many seeds figures stand: `3 seeds`; where some failed, `2 of 3 seeds (1 failed)`."""
    return f"{trained} of {trained + failed} seeds ({failed} failed)" if failed else counted(trained, "seed")


def _many(trained: int, failed: int) -> str:
    """The end of a sentence with a mean over seeds; empty for one seed that is all there is."""
    if trained == 1:
        return f", with {over_seeds(trained, failed)}, so without an interval" if failed else ""
    return f", mean over {over_seeds(trained, failed)} with a 95 % interval"


def untrained(trained: list[Training]) -> list[str]:
    """What must be known of a training in which no gradient step was made, or none that helped."""
    first = trained[0].manifest
    steps, starts = first.get("steps", 0), first.get("learning_starts", 0)
    if steps <= starts:
        return [
            f"The policy is untrained: all {steps:,} steps were random, since learning starts after {starts:,} "
            "(train.agent.learning_starts). Take more steps."
        ]
    if all(t.summary.get("steps.best") == 0 for t in trained) and first.get("residual"):
        return ["The policy is the rule that training began with: nothing that it found is better."]
    if all(t.summary.get("steps.best") == 0 for t in trained):
        return ["The policy is untrained: no evaluation after the first was better. Take more steps."]
    return []


def answer(trained: list[Training], failed: int = 0) -> list[tuple[str, str]]:
    """How good the policy is, beside what it is compared with: what is asked, and a sentence. failed : seeds."""
    names, lines = list(means_of(trained)), list[tuple[str, str]]()
    many = _many(len(trained), failed)
    if OPTIMUM in names:
        gap = percent_gaps(trained, trained[0].agent, OPTIMUM)
        most = figure_text(float(gap.max()))
        text = f"The policy is {between(gap)} % above the best known optimum (max {most}){many}."
        lines.append(("How good it is", text))
        if VISITED in names:
            seen = percent_gaps(trained, VISITED, OPTIMUM)
            tried = percent_gaps(trained, "random", OPTIMUM)
            text = (
                f"The best power vector of the training is {between(seen)} % above the optimum, "
                f"random search with the same number of evaluations {between(tried)} %."
            )
            lines.append(("Beside random search", text))
        change = percent_gaps(trained, trained[0].agent, "average")
        lines.append(("Beside average power", f"Against average power the bound changes by {between(change)} %."))
    if ORACLE in names:
        lines.append(("How good it is", _closed(trained, failed)))
    lines += bounds_line(summaries_of(trained), trained[0].agent)
    return [*lines, *(_beside(trained, failed, name) for name in _told(trained))]


def _told(trained: list[Training]) -> list[str]:
    """Policies that stand in the answer; all others stand in the table only."""
    names = [name for name in means_of(trained) if name != trained[0].agent]
    if not trained[0].online or ORACLE not in names:
        return names if trained[0].online else []
    return [name for name in (_best_rule(trained), ONE_STEP, ORACLE) if name in names]


def _best_rule(trained: list[Training]) -> str:
    """The rule of least cost, of those that break no bound."""
    means = {name: figures["cost"] for name, figures in means_of(trained).items()}
    others = [name for name in means if name not in (ORACLE, RANDOM, ONE_STEP, trained[0].agent)]
    rules = [name for name in others if breaks_none(summaries_of(trained), name)] or others
    return min(rules, key=lambda name: float(means[name].mean()))


def _closed(trained: list[Training], failed: int) -> str:
    """How much of what the best rule leaves to the oracle the agent gets."""
    means = {name: figures["cost"] for name, figures in means_of(trained).items()}
    best = _best_rule(trained)
    gap = means[best] - means[ORACLE]
    if not (gap > _TINY * np.abs(means[best])).all():
        return (
            f"There is no gap between the best rule ({best}) and the oracle, at most {100 * _TINY:g} % of its cost: a "
            "rule is the optimum here."
        )
    share = 100 * (means[best] - means[trained[0].agent]) / gap
    many = _many(len(trained), failed)
    if len(share) > 1 and abs(share.mean()) <= half_width(share):
        return (
            f"No difference can be told between the agent and the best rule ({best}): of the gap between it and the "
            f"oracle the agent closes {between(share)} %{many}."
        )
    if share.mean() < 0:
        by = f"{between(-share)} % of" if share.mean() >= -100 else f"{between(-share / 100)} times"
        return f"The best rule ({best}) is better than the agent, by {by} the gap between it and the oracle{many}."
    return f"The agent closes {between(share)} % of the gap between the best rule ({best}) and the oracle{many}."


def _beside(trained: list[Training], failed: int, name: str) -> tuple[str, str]:
    """The agent's cost against that of a baseline policy in the same worlds; intervals over worlds and seeds apart."""
    costs, others = paired(trained, name)
    gaps = costs - others
    over = [f"± {figure_text(half_width(gaps.mean(axis=0)))} over worlds"] if gaps.shape[1] > 1 else []
    if len(gaps) > 1:
        over.append(f"± {figure_text(half_width(gaps.mean(axis=1)))} over {over_seeds(len(gaps), failed)}")
    said = f" ({', '.join(over)}; 95 %)" if over else ""
    middle = figure_text(interquartile_mean(gaps))
    chance, low, high = (f"{value:.2f}" for value in probability_of_improvement(costs, others))
    among = f" (95 % {low} to {high})" if gaps.size > 1 else ""
    worlds = "1 unseen world" if gaps.shape[1] == 1 else f"{gaps.shape[1]} unseen worlds"
    return f"Beside {name} power", (
        f"In {worlds} the agent's cost differs from that of {name} power by "
        f"{figure_text(float(gaps.mean()))}{said}, interquartile mean {middle}; it is lower in "
        f"{int((gaps < 0).sum())} of {gaps.size}, with probability {chance}{among}."
    )


def between(values: FloatArray) -> str:
    """A mean, with its 95 % interval where there are several values, and they differ."""
    mean = figure_text(float(values.mean()))
    same = len(values) < 2 or not np.isfinite(values).all() or not np.ptp(values)
    return mean if same else f"{mean} ± {figure_text(half_width(values))}"
