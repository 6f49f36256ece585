"""What numbers of a run folder must be, so that its page does not draw what cannot have happened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from netsim.clock import DAY_S
from netsim.errors import BadInput
from netsim.units import BoolArray, FloatArray
from scenarios.app.results.folder import table_path
from scenarios.app.results.run import Table, clock_of, part
from scenarios.app.results.tables import RADIO_STUDY
from scenarios.app.study.yaml_document import one_line

_FARTHEST_M = 4.1e7  # a corner of an area: once around the Earth
_LONGEST_S = 400 * 365.25 * DAY_S  # an interval
_ROUNDING_S = 1e-6
_OF_ONE = ("ues", "tracks", "handovers", "links", "transmissions", "tracking", "beliefs")  # elsewhere -1: several UEs
_UPLOAD = ("requested_s", "ready_s", "granted_s", "ended_s")  # times of a transmission, in order
_TIMES = ("time_s", *_UPLOAD)
_SHARES = {
    "tracking": ("disc_probability", "near", "in50", "in90", "plain_near", "prior_near"),
    "beliefs": ("probability",),
    "named": ("probability",),
    "linking": ("right_share", "chance_share"),
    "identities": ("right_share", "chance_share", "probability", "given_right_share", "others_given_share"),
}
_LENGTHS = {
    "tracking": (
        "stated_error_m", "area50_m2", "area90_m2", "error_m", "expected_distance_m", "plain_error_m", "prior_error_m",
        "prior_expected_distance_m",
    ),
    "linking": ("seen", "linked", "anonymity_set", "time_to_confusion_s", "chance_time_to_confusion_s"),
    "identities": ("people", "names", "others", "told", "given", "anonymity_set"),
}  # fmt: skip
_SMALLEST_CELL_M = 1e-3
_ONE = 1.0 + 1e-6  # probabilities in single precision may add up to a little more than 1


def check_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Refuse a manifest without what a page is built on."""
    for key, must in ((key, must) for key, good, must in _wanted(manifest) if not good):
        raise BadInput(one_line(f"{path}: {key} is missing or damaged: it must be {must}; run the study again"))


def _wanted(manifest: Mapping[str, Any]) -> list[tuple[str, bool, str]]:
    """Each key that a page needs, whether it is good, and what it must be."""
    learns, origin = manifest.get("kind") != RADIO_STUDY, manifest.get("origin_deg")
    last_s, every_s = calendar_s(manifest.get("first_day")), part(manifest, "tracks").get("every_s")
    return [
        ("title", isinstance(manifest.get("title"), str), "a text"),
        ("first_day", last_s > 0, "a day, YYYY-MM-DD"),
        ("duration_s", _seconds(manifest.get("duration_s"), last_s), "seconds above 0, within the calendar"),
        ("area_m", _ordered(manifest.get("area_m")), f"[west, south, east, north] within {_FARTHEST_M:.2g} m of 0"),
        ("origin_deg", origin is None or _within(origin, 2, 360.0), "null or [latitude, longitude]"),
        ("tracks.every_s", _seconds(every_s, _LONGEST_S), "seconds above 0"),
        ("round_s", not learns or _seconds(manifest.get("round_s"), _LONGEST_S), "seconds above 0"),
        ("clock_changes", last_s == 0 or _has_clock(manifest), "a list of [time_s, shift_s]"),
    ]


def calendar_s(first_day: Any) -> float:
    """From the first day to the end of the calendar, seconds; 0 for what is no day."""
    try:
        return (date.max - date.fromisoformat(first_day)).days * DAY_S
    except (TypeError, ValueError):
        return 0.0


def _has_clock(manifest: Mapping[str, Any]) -> bool:
    try:
        clock_of(manifest)
    except ValueError:
        return False
    return True


def _seconds(value: Any, most_s: float) -> bool:
    return _within([value], 1, most_s) and value > 0


def _ordered(area_m: Any) -> bool:
    return _within(area_m, 4, _FARTHEST_M) and area_m[0] <= area_m[2] and area_m[1] <= area_m[3]


def _within(values: Any, n: int, most: float) -> bool:
    """Whether values are a list of n numbers of at most this magnitude."""
    return (
        isinstance(values, list)
        and len(values) == n
        and all(isinstance(v, int | float) and not isinstance(v, bool) and -most <= v <= most for v in values)
    )


def check_rows(folder: Path, manifest: Mapping[str, Any], tables: Mapping[str, Table]) -> None:
    """Refuse tables with times outside of the calendar, rounds that the run did not have, or UEs that it has not."""
    last_s, n_ue = calendar_s(manifest["first_day"]), len(tables["ues"]["ue"])
    rounds = ceil(manifest["duration_s"] / manifest["round_s"]) + 2 if "rounds" in tables else 0  # clocks may go back
    uploads = tables.get("transmissions", {})
    rounds += len(uploads.get("ue", ()))  # a server may merge each update by itself
    for name, columns in tables.items():
        least = 0 if name in _OF_ONE else -1
        for column, limit in (
            *((c, _Limit("time of the calendar", 0, last_s)) for c in _TIMES),
            ("round", _Limit("whole number of the run", 0, rounds, whole=True)),
            ("ue", _Limit("whole number of ues.csv", least, n_ue - 1, whole=True)),
            ("hindsight", _Limit("flag", 0, 1, whole=True)),
            *((c, _Limit("share", 0, _ONE)) for c in _SHARES.get(name, ())),
            *((c, _Limit("size", 0, np.inf)) for c in _LENGTHS.get(name, ())),
            ("cell_m", _Limit("side of a cell", _SMALLEST_CELL_M, _FARTHEST_M)),
        ):
            if column in columns:
                _check(folder, name, column, columns[column], limit)
    if uploads:
        _check_order(table_path(folder, "transmissions"), uploads)


def _check_order(path: Path, uploads: Table) -> None:
    """Refuse uploads of which something ends before it begins."""
    latest_s = uploads[_UPLOAD[0]]
    for column in _UPLOAD[1:]:
        wrong = uploads[column] < latest_s - _ROUNDING_S
        if wrong.any():
            row = int(np.argmax(wrong))
            raise BadInput(
                one_line(f"{path}: row {row + 1}: {column} {uploads[column][row]:g} lies before what comes before it, "
                         f"{latest_s[row]:g}; run the study again")
            )  # fmt: skip
        latest_s = np.fmax(latest_s, uploads[column])


@dataclass(frozen=True)
class _Limit:
    """What the numbers of a column are, from what to what, and whether they are whole."""

    what: str
    low: float
    high: float
    whole: bool = False


def _check(folder: Path, table: str, column: str, values: FloatArray, limit: _Limit) -> None:
    """Refuse a column with a value outside of its bounds, or that is not whole; empty cells may be."""
    wrong: BoolArray = ~np.isnan(values) & ~((values >= limit.low) & (values <= limit.high))
    if limit.whole:
        wrong |= np.isfinite(values) & (values != np.round(values))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise BadInput(
            one_line(f"{table_path(folder, table)}: row {row + 1}: {column} {values[row]:g} is not a {limit.what}, "
                     f"{limit.low:g} to {limit.high:g}; run the study again")
        )  # fmt: skip
