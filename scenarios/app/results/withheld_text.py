"""What UEs refused, and what rules on the device held back, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.statistics import counted
from scenarios.app.results.summary_values import by_name, number_text, text_of, value_of


def refusal_lines(summary: Mapping[str, Any]) -> list[str]:
    """How many requests the UEs' own policies refused, and why; nothing where only all UEs refused, or none."""
    rounds, by_all = value_of(summary, keys.REFUSED_ROUNDS) or 0, value_of(summary, keys.REFUSED_BY_ALL) or 0
    if rounds <= by_all:
        return []
    share = number_text(100.0 * summary[keys.REFUSED_COUNT.of()] / summary[keys.REFUSED_REQUESTED.of()])
    played = counted(summary[keys.ROUNDS_PLAYED.of()], "round")
    return [f"refused: {share} % of all requests, in {rounds} of {played}{reasons_text(summary)}"]


def withheld_lines(summary: Mapping[str, Any]) -> list[str]:
    """What rules on the device held back, each by itself, what is lost in sums not opened, and sums of one."""
    said = [f"withheld: {text}"] if (text := withheld_text(summary)) else []
    if value_of(summary, keys.SUMS_UNOPENED):
        lost = value_of(summary, keys.SUMS_LOST)
        also = "" if lost is None else f", and {number_text(lost)} % of the UEs that were decoded are lost in them"
        said.append(f"sums: {text_of(summary, keys.SUMS_UNOPENED)} % of groups not opened{also}")
    if value_of(summary, keys.SUMS_SINGLE):
        said.append(f"sums: {text_of(summary, keys.SUMS_SINGLE)} % of those opened are the update of one UE, in clear")
    return said


def withheld_text(summary: Mapping[str, Any]) -> str:
    """Shares that each rule on the device held back; empty without rules."""
    samples = dict(by_name(summary, keys.WITHHELD_SAMPLES))
    return "; ".join(
        f"{name} {number_text(value)} % of updates and {number_text(samples[name])} % of samples"
        for name, value in by_name(summary, keys.WITHHELD_UPDATES)
    )


def reasons_text(summary: Mapping[str, Any]) -> str:
    """Why requests were refused, in brackets; empty where no reason is known."""
    names = ", ".join(name for name, _ in by_name(summary, keys.REFUSED_REASON))
    return f" ({names})" if names else ""
