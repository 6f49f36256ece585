"""Repeat a finished run, sweep or training from what its folder says, and compare every number."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from netsim.errors import BadInput
from netsim.record import cell_text
from netsim.safe import what_is
from scenarios.app.rerun.chosen import chosen
from scenarios.app.rerun.original import OF_RUN, OF_TRAINING, Original, original
from scenarios.app.results.folder import SUMMARY, admit, is_parquet, no_links, read_json
from scenarios.app.results.read import RUNS
from scenarios.app.results.same import Difference, differences_in, values_in
from scenarios.app.run.how import How
from scenarios.app.run.runner import run
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.yaml_document import one_line

Tell = Callable[[int, int, str], None]
"""told of each repetition: which, of how many, its label"""


@dataclass(frozen=True)
class Repeated:
    """A repeated run: its label and folder, the folder of the repetition, what differs, and what must be known.

    The table of a sweep, which is compared with the summaries of the runs that were repeated, has its name as label.
    """

    label: str
    folder: Path
    again: Path
    differences: list[Difference]
    note: str = ""


@dataclass(frozen=True)
class Rerun:
    """What was repeated, and what of the folder was not, with the reason."""

    repeated: Sequence[Repeated]
    skipped: Sequence[str]


def rerun(folder: Path, out: Path, only: str | None, tell: Tell, replace: bool = False) -> Rerun:
    """Repeat all runs of a folder below `out`, or those of the label `only`; everything is checked before the first.

    replace : whether finished runs in `out`, and runs of other studies, may be replaced.

    Raises
    ------
    BadInput : one line: nothing finished, another format, no such label, a damaged table, a study or a file of data
        that is gone or changed, an `out` that holds something else.
    """
    if what_is(folder) != "folder":
        raise BadInput(one_line(f"{folder}: no such folder; give the folder of a run, a sweep or a training"))
    if out.resolve() == folder.resolve() or out.resolve().is_relative_to(folder.resolve()):
        raise BadInput(one_line(f"--out {out}: lies in {folder}, which stays as it is; give another folder"))
    of = chosen(folder, only)
    originals = [original(path) for _, path in of.runs]
    tables = {table: rows_that_differ(table, [path for _, path in of.runs]) for table in of.tables}
    places = [out / path.relative_to(folder) for _, path in of.runs]
    no_links(out, [str(place.relative_to(out)) for place in places])
    for one, place in zip(originals, places, strict=True):
        _admit(one, place, replace)
    repeated = []
    for k, ((label, path), one, place) in enumerate(zip(of.runs, originals, places, strict=True)):
        tell(k, len(of.runs), label)
        (place / SUMMARY).unlink(missing_ok=True)  # else a training would be taken for repeated
        _repeat(one, place, replace)
        found = differences_in(path, place, OF_RUN if one.seed is None else OF_TRAINING)
        repeated.append(Repeated(label, path, place, found, one.note))
    repeated += [Repeated(RUNS, table, out, differences) for table, differences in tables.items()]
    return Rerun(repeated, of.skipped)


def rows_that_differ(folder: Path, runs: Collection[Path]) -> list[Difference]:
    """Where the table of a sweep says something else of these runs than their summaries do."""
    columns = values_in(folder / RUNS)
    row_of = {folder / name: i for i, name in enumerate(columns.get("folder", []))}
    found = []
    for path in (path for path in runs if path in row_of):
        summary = read_json(path / SUMMARY)
        for key in [key for key in summary if key in columns]:
            wanted, cell = cell_text(summary[key]), columns[key][row_of[path]]
            if cell != wanted:
                how = f"row {row_of[path] + 1}: {cell[:40]!r}, and {wanted!r} in {path / SUMMARY}"
                found.append(Difference(RUNS, f"column {key}", how, np.inf))
    return found


def _admit(one: Original, place: Path, replace: bool) -> None:
    """Refuse a place that the repetition may not have; nothing is written."""
    if one.seed is None:
        admit(place, study_yaml(one.study), replace)
    else:
        from scenarios.app.training.train import admitted

        admitted(one.study, [one.seed], [place], replace)
    if what_is(place / SUMMARY) and not replace:
        what = "run" if one.seed is None else "training"
        raise BadInput(one_line(f"{place}: holds a finished {what}; add --replace, or give --out another folder"))


def _repeat(one: Original, place: Path, replace: bool) -> None:
    if one.seed is None:
        how = How(records="parquet" if is_parquet(one.folder) else "csv")
        run(one.study, place, command=f"netsim rerun {one.folder}", replace=replace, how=how)
        return
    from scenarios.app.training.train import train

    train(one.study, [one.seed], place, lambda _: None, replace=replace)
