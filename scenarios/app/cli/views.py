"""An event in words: how far the work is, and a few rows of a name and a text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from scenarios.app.results.statistics import counted, figure_text

ROWS = ("time", "model", "radio", "leakage", "updates", "privacy", "cost", "last", "found")
"""names of rows, in the order in which they stand"""
_NO_GUARANTEE = 1000.0  # epsilon above which its value says nothing


@dataclass(frozen=True)
class ProgressView:
    """So many of all rounds, windows, runs or steps, and rows in their order; each text can be read by itself."""

    unit: str
    done: int
    of: int
    rows: Mapping[str, str]


def view_of(event: Mapping[str, Any]) -> ProgressView:
    """What is shown of an event that tells progress; rows of which it knows nothing are left out."""
    rows = {name: text for name, text in _ROWS[event["event"]](event).items() if text}
    unit = "window" if "merge" in event else _UNITS.get(event["event"], event["event"])
    return ProgressView(unit, event["done"], event["of"], rows)


def _round(event: Mapping[str, Any]) -> dict[str, str]:
    updates = f"{event['decoded']} of {event['updates']} updates decoded" if event["updates"] else "no updates"
    if event.get("stopped"):
        updates = "not played: it would exceed learning.privacy_budget"
    return {
        "time": event["clock"],
        "model": _model(event),
        "leakage": _leakage(event.get("attacks", {})),
        "updates": _of_merge(event, updates) if "merge" in event else updates,
        "privacy": _epsilon(event["epsilon"]) if "epsilon" in event else "",
    }


def _of_merge(event: Mapping[str, Any], updates: str) -> str:
    """Which merge the updates went into; where nothing was merged how many merges there were."""
    return f"merge {event['merge']:,}: {updates}" if event["updates"] else counted(event["merge"], "merge")


def _model(event: Mapping[str, Any]) -> str:
    """The score of the model, by whichever measure it has."""
    if _known(event, "accuracy_percent"):
        return f"accuracy {event['accuracy_percent']:.1f} %"
    if _known(event, "rank_correlation"):
        return f"rank correlation {figure_text(event['rank_correlation'])}"
    if not _known(event, "rmse_db"):
        return ""
    constant = f" (constant {figure_text(event['constant_rmse_db'])} dB)" if _known(event, "constant_rmse_db") else ""
    return f"RMSE {figure_text(event['rmse_db'])} dB{constant}"


def _leakage(attacks: Mapping[str, Mapping[str, float]]) -> str:
    """Homes that each attack names now; of those that can name none, the centroid error."""
    homes = {name: f"{of['homes_named_percent']:.0f} %" for name, of in attacks.items() if _known(of, _HOMES)}
    errors = {
        name: f"{figure_text(of['centroid_error_m'], 'm')} m"
        for name, of in attacks.items()
        if name not in homes and _known(of, "centroid_error_m")
    }
    told = (("homes named", homes), ("centroid error", errors))
    return "; ".join(f"{what}: {', '.join(f'{n} {v}' for n, v in of.items())}" for what, of in told if of)


def _epsilon(value: float) -> str:
    if not isfinite(value):
        return "epsilon infinite"
    return f"epsilon {value:.3g}" if value <= _NO_GUARANTEE else f"epsilon > {_NO_GUARANTEE:.0f}"


def _window(event: Mapping[str, Any]) -> dict[str, str]:
    median = f"median SINR {event['sinr_db']:.1f} dB" if _known(event, "sinr_db") else "no UE is present"
    moves = event.get("handovers")
    return {"time": event["clock"], "radio": median + ("" if moves is None else f", {moves:,} handovers")}


def _run(event: Mapping[str, Any]) -> dict[str, str]:
    """The run of a sweep that was finished last: the main figures of its summary."""
    return {"last": f"{event['label']}, seed {event['seed']}", "found": ", ".join(_found(event["summary"]))}


def _found(summary: Mapping[str, Any]) -> list[str]:
    """The first lines of a summary, in a few words."""
    from scenarios.app.results.table import lines

    return [f"{line.title} {line.result}" for line in lines([summary])[:_FOUND]]


def _step(event: Mapping[str, Any]) -> dict[str, str]:
    return {"cost": f"cost {figure_text(event['cost'])}"}


def _failed(event: Mapping[str, Any]) -> dict[str, str]:
    return {"last": f"{event['label']}, seed {event['seed']}", "found": f"failed: {event['kind']}: {event['error']}"}


def _played(event: Mapping[str, Any]) -> dict[str, str]:
    return {"last": event["label"]}


def _known(of: Mapping[str, Any], name: str) -> bool:
    value = of.get(name)
    return value is not None and isfinite(value)


_FOUND = 3  # lines of a run that is finished
_UNITS = {"played": "run", "failed": "run"}
"""what is counted, where it has another name than the event"""
_HOMES = "homes_named_percent"
_ROWS: dict[str, Callable[[Mapping[str, Any]], dict[str, str]]] = {
    "round": _round, "window": _window, "run": _run, "step": _step, "played": _played,
    "failed": _failed,
    "world": _played,
}  # fmt: skip
