"""What trackers know of UEs, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.statistics import figure_text

_WORDS = (
    ("plain", "the tracked attack alone, where it has an estimate"),
    ("filter", "filter"),
    ("smoother", "smoother"),
    ("prior", "prior only"),
)


def trackers(summary: Mapping[str, Any]) -> list[str]:
    """Names of the attacks that track, in order."""
    key = keys.TRACKING["filter", "error_m"]
    return [name for one in summary if (name := key.name_in(one)) is not None]


def best_tracking_text(summary: Mapping[str, Any]) -> str:
    """What the best tracker knows; empty where none tracks."""
    name, several = best_tracker(summary), len(trackers(summary))
    return tracking_text(summary, name) + (f" (best of {several})" if several > 1 else "") if name else ""


def best_tracker(summary: Mapping[str, Any]) -> str:
    """The tracker that knows UEs within leakage.near_m most of the time; empty where none tracks."""
    near = keys.TRACKING["filter", "near"]
    return max(trackers(summary), key=lambda one: summary.get(near.of(one)) or 0.0, default="")


def tracking_text(summary: Mapping[str, Any], name: str) -> str:
    """Errors, time within leakage.near_m, and whether its probabilities can be trusted, beside attack and prior."""

    def of(who: str, what: str) -> Any:
        return summary.get(keys.TRACKING[who, what].of(name))

    known = [(who, words) for who, words in _WORDS if of(who, "error_m") is not None]
    errors = ", ".join(f"{figure_text(of(who, 'error_m'), 'm')} m ({words})" for who, words in known)
    near = ", ".join(figure_text(of(who, "near")) for who, _ in known)
    text = (
        f"{name}: median error {errors}{_paired(summary, name)}; within {summary[keys.NEAR.of()]:g} m in {near} % of "
        "all rounds of UEs"
    )
    stated, gap = of("filter", "disc_probability"), of("filter", "reliability_error")
    if stated is None or gap is None:
        return text
    return f"{text}; the filter states {figure_text(stated)} %, {figure_text(100.0 * gap)} points off, mean over bins"


def _paired(summary: Mapping[str, Any], name: str) -> str:
    """The filter beside the tracked attack in the same rounds; empty where they have none in common."""
    mean, low, high = (
        summary.get(keys.TRACKING["filter", what].of(name)) for what in ("less_m", "less_low_m", "less_high_m")
    )
    if mean is None:
        return ""
    span = "" if low is None or high is None else f" ({low:+.0f} to {high:+.0f})"
    return f"; filter less attack alone, in the same rounds, {mean:+.0f} m{span} on average"
