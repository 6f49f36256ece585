"""What became of uploads that took their time, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenarios.app.results import summary_keys as keys
from scenarios.app.results.statistics import figure_text


def uploads_text(summary: Mapping[str, Any]) -> str:
    """How many uploads arrived, why others did not, and how long they took; empty where they take no time."""
    count = summary.get(keys.UPLOADS_COUNT.of())
    if count is None:
        return ""
    lost = [(fate, summary.get(key.of()) or 0) for fate, key in keys.UPLOADS_LOST.items()]
    lost.append(("under way at the end", summary.get(keys.UPLOADS_UNDER_WAY.of()) or 0))
    why = ", ".join(f"{n:,} {fate}" for fate, n in lost if n)
    text = f"{summary[keys.UPLOADS_ARRIVED.of()]:,} of {count:,} arrived" + (f" ({why})" if why else "")
    whole, high = (summary.get(key.of()) for key in keys.UPLOADS_TIME["whole"])
    if whole is not None:
        parts = [
            f"{what} {_figure(summary.get(keys.UPLOADS_TIME[part][0].of()))} s"
            for part, what in (("preparing", "preparing"), ("waiting", "waiting"), ("sending", "on the air"))
        ]
        text += f"; {_figure(whole)} s from request to arrival (mean; 95 %: {_figure(high)} s): {', '.join(parts)}"
    vain = summary.get(keys.UPLOADS_VAIN.of())
    return text if vain is None else f"{text}; {_figure(vain)} % of the bits in vain"


def merges_text(summary: Mapping[str, Any]) -> str:
    """How often the server merged stale updates, and how stale they were; empty where none was stale."""
    mean, most = (summary.get(key.of()) for key in (keys.STALENESS_MEAN, keys.STALENESS_MAX))
    if not most:
        return ""
    rate = summary.get(keys.MERGE_RATE.of())
    return f"{_figure(rate)} an hour, of updates {_figure(mean)} versions old (mean; at most {most})"


def sending_text(summary: Mapping[str, Any]) -> list[str]:
    """Both as sentences for a page."""
    merges = merges_text(summary)
    return [f"Of all uploads {uploads_text(summary)}.", *([f"The server merged {merges}."] if merges else [])]


def _figure(value: float | None) -> str:
    return "-" if value is None else figure_text(value)
