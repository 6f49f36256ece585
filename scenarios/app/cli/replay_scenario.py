"""A stranger's trace as a study: what `netsim replay` sets in a scenario, and what it tells about the trace."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from netsim.base_stations import default_layout
from netsim.errors import BadInput
from netsim.mobility.replay import Replay
from netsim.safe import what_is
from netsim.traces.trace import Trace
from scenarios.app.results.notes import hold_out_notes
from scenarios.app.results.statistics import counted
from scenarios.app.study.study import Study

MOST_TARGETS = 100  # that a replay attacks where nobody says how many
_TARGETS = "learning.threat.targets"
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}


def replay_overrides(
    trace: str,
    cell: str | None,
    users: str | None,
    round_: str | None,
    timezone: str | None,
    columns: dict[str, str],
    base_stations: str | None = None,
    format_: str | None = None,
    crs: str | None = None,
) -> dict[str, Any]:
    """Scenario values, by dotted path, from the options of the command line."""
    if not what_is(trace):
        raise BadInput(f"{trace}: no such file; give the path of a trace")
    at = "world.ues.mobility"
    overrides: dict[str, Any] = {f"{at}.kind": "replay", f"{at}.trace": str(Path(trace).resolve())}
    options = {
        "cell": cell, "users": users, "timezone": timezone, "columns": columns or None, "format": format_, "crs": crs,
    }  # fmt: skip
    overrides |= {f"{at}.{key}": value for key, value in options.items() if value is not None}
    if base_stations is not None:
        overrides["world.base_stations"] = {"kind": "cell-file", "file": str(Path(base_stations).resolve())}
    if round_ is not None:
        overrides["learning.round_s"] = seconds(round_)
    return overrides


def scope_overrides(
    area_deg: str | None, area_m: str | None, since: str | None, until: str | None
) -> dict[str, Any]:  # fmt: skip
    """Scenario values, by dotted path, of the box and the times that rows are taken from; all of them: the extent."""
    given = {
        "area_deg": _box("--area-deg", area_deg),
        "area_m": _box("--area-m", area_m),
        "since": since,
        "until": until,
    }
    stated = {f"world.ues.mobility.{key}": value for key, value in given.items() if value is not None}
    whole = (area_deg or area_m) and since and until
    return stated | ({"world.ues.mobility.extent": "stated"} if whole else {})


def _box(option: str, text: str | None) -> list[float] | None:
    """The four numbers of a box."""
    if text is None:
        return None
    try:
        box = [float(part) for part in text.split(",")]
    except ValueError:
        box = []
    if len(box) != 4 or not np.isfinite(box).all():
        raise BadInput(f"{option} {text[:40]}: give four numbers, low, low, high, high: 39.95,116.28,40.03,116.37")
    return box


def some_targets(study: Study, overrides: dict[str, Any]) -> dict[str, Any]:
    """A bound on the attacked targets of a trace with more, as an override; nothing where somebody has set one.

    Attacks take far longer than training, and their figures are medians over targets.
    """
    mobility = study.world.ues.mobility
    if _TARGETS in overrides or study.learned.threat.targets is not None or not isinstance(mobility, Replay):
        return {}
    few = len(mobility.load(study.round_s).users) <= MOST_TARGETS
    return {} if few else {_TARGETS: MOST_TARGETS}


def seconds(text: str) -> float:
    """`24h`, `7d`, `2w`, `90min`, `90m` or `3600s`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)", text.strip())
    if match is None or float(match[1]) <= 0:
        units = "s, m or min (minutes), h, d, w"
        raise BadInput(f"--round {text[:40]}: write a length with its unit ({units}), such as 24h, 7d, 90min or 3600s")
    return float(match[1]) * _SECONDS[match[2]]


def trace_lines(study: Study) -> list[str]:
    """What was read from the trace, what was left out, and what was chosen for the person."""
    mobility = study.world.ues.mobility
    if not isinstance(mobility, Replay):
        raise BadInput("this scenario does not replay a trace: world.ues.mobility.kind must be replay")
    trace = mobility.load(study.round_s)
    left_out = {k: v for k, v in trace.counts.items() if v and k not in ("rows_read", "rows_used")}
    width, height = trace.area.side_m
    lines = [
        f"{trace.counts.get('rows_used', len(trace.user)):,} of {trace.counts.get('rows_read', 0):,} rows used"
        + (f" (left out: {', '.join(f'{k} {v:,}' for k, v in left_out.items())})" if left_out else ""),
        f"{counted(len(trace.users), 'target')}, area {width:.0f} m x {height:.0f} m, first day {trace.first_day} "
        f"({trace.timezone})",
    ]
    if trace.rsrp_dbm is None and study.world.base_stations == ():
        area = study.world.city.area(trace.area)
        layout = default_layout(area)
        lines.append(
            f"base stations: the trace has no RSRP; {counted(len(layout.stations(area, None)), 'site')} placed on a "
            f"hexagonal layout, inter-site distance {layout.inter_site_m:g} m (--base-stations FILE overrides)"
        )
    targets = None if study.learning is None else study.learning.threat.targets
    if targets is not None and targets < len(trace.users):
        lines.append(
            f"attacks: {counted(targets, 'target')} of {len(trace.users):,}, evenly taken, are attacked and their "
            f"leakage measured; all of them train (--set {_TARGETS}=null attacks all)"
        )
    return [*lines, *_short(trace, study.round_s), *trace.notes, *hold_out_notes(study)]


def _short(trace: Trace, round_s: float) -> list[str]:
    """A warning for a trace that lasts less than two rounds."""
    span_s = float(np.ptp(trace.time_s))
    if span_s >= 2 * round_s:
        return []
    return [
        f"warning: the trace lasts {span_s:,.0f} s, less than two rounds of {round_s:,.0f} s: leakage over time needs "
        "more rounds; give --round LENGTH (netsim inspect suggests one)"
    ]
