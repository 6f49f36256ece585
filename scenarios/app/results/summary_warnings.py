"""Warnings of results that mean little."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.model_text import admits_no_round
from scenarios.app.results.statistics import counted
from scenarios.app.results.summary_values import by_name, value_of
from scenarios.app.results.withheld_text import reasons_text


def _nothing_learnt(summary: Mapping[str, Any]) -> Iterator[str]:
    """Why nothing was learnt, where there is nothing to learn from, no round, or no update."""
    played, all_held_out = value_of(summary, keys.ROUNDS_PLAYED), value_of(summary, keys.ROUNDS_HELD_OUT)
    if admits_no_round(summary):
        yield (
            "learning.privacy_budget admits no round: the first would have exceeded it, so nothing was learned and "
            "nothing can leak; take a larger epsilon, or more noise"
        )
    elif value_of(summary, keys.SAMPLES_COUNT) == 0:
        yield (
            "no UE measured anything that a model learns from, so nothing was learned and nothing can leak; let the "
            "world last longer, measure more often, or learn other cells"
        )
    elif value_of(summary, keys.SAMPLES_SELECTED) == 0 and value_of(summary, keys.REFUSED_BY_ALL) != played:
        held = f": in {all_held_out} of them all data were held out" if all_held_out else ""
        yield (
            f"no UE sent an update in {counted(played, 'round')}{held}, so nothing was learned; hold out or withhold "
            "less, or let more UEs be available"
        )


def warnings(summary: Mapping[str, Any]) -> list[str]:
    """Warnings of results that mean little."""
    lines = [f"WARNING: {why}" for why in _nothing_learnt(summary)]
    for step, value in by_name(summary, keys.FALLBACK):
        if value == 100:
            lines.append(
                f"WARNING: curation {step} never found a cluster and kept one random sample instead; raise eps_m, "
                "lower min_samples, or give rounds more samples"
            )
    if value_of(summary, keys.UPDATES_NON_FINITE):
        lines.append(
            f"WARNING: {value_of(summary, keys.UPDATES_NON_FINITE)} of "
            f"{counted(value_of(summary, keys.UPDATES_SENT), 'update')} overflowed while UEs trained, and count for "
            "nothing; take a smaller learning_rate of learning.learner, or fewer local steps"
        )
    if value_of(summary, keys.REFUSED_BY_ALL):
        most, played = value_of(summary, keys.REFUSED_MAX), value_of(summary, keys.ROUNDS_PLAYED)
        lines.append(
            f"WARNING: all {counted(most, 'UE')} refused in {value_of(summary, keys.REFUSED_BY_ALL)} of "
            f"{counted(played, 'round')}{reasons_text(summary)}"
        )
    if value_of(summary, keys.UPDATES_SENT) and value_of(summary, keys.UPDATES_DECODED) == 0:
        lines.append("WARNING: no update was decoded: the model was not trained, and no attack received anything")
    return lines
