"""Runs that failed: the table of a folder of several runs, and the lines that tell of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path

from netsim.errors import BadInput, one_line
from netsim.record import write_text
from netsim.safe import what_is
from scenarios.app.results.folder import ERROR, csv_text, read_rows
from scenarios.app.results.statistics import counted
from scenarios.app.study import Fields

FAILURES = "failures.csv"
MOST_TOLD = 10
"""failures that a list for people has; the table has all of them"""


@dataclass(frozen=True)
class Failed:
    """A run that failed. folder : in that of all runs. attempts : how often it was tried. error : its line."""

    folder: str
    label: str
    seed: int
    attempts: int
    kind: str
    error: str


def write_failures(folder: Path, failed: Sequence[Failed]) -> None:
    """Keep the table of failures; where nothing failed there is none."""
    if not failed:
        (folder / FAILURES).unlink(missing_ok=True)
        return
    rows = [[field.name for field in fields(Failed)], *map(astuple, failed)]
    write_text(folder / FAILURES, csv_text(rows))


def read_failures(folder: Path) -> list[Failed]:
    """What failed when the runs of a folder were played last. BadInput: the table is damaged."""
    path = folder / FAILURES
    if not what_is(path):
        return []
    rows: list[Fields] = read_rows(path)
    try:
        return [Failed(**row | {name: int(row[name]) for name in ("seed", "attempts")}) for row in rows]
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{path}: not a table of failures ({error!r}); start the sweep again") from None


def failure_lines(failed: Sequence[Failed]) -> list[str]:
    """For people: how many failed, then each with its error and where its traceback lies; nothing where none did."""
    if not failed:
        return []
    told = [
        one_line(f"{one.label}, seed {one.seed}: {one.kind}: {one.error} ({one.folder}/{ERROR})")
        for one in failed[:MOST_TOLD]
    ]
    more = [f"and {len(failed) - MOST_TOLD:,} more, see {FAILURES}"] if len(failed) > MOST_TOLD else []
    return [f"{counted(len(failed), 'run')} failed:", *told, *more]
