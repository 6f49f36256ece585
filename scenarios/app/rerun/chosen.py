"""What of a folder is repeated: its run, or the runs and trainings that lie in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from netsim.errors import BadInput
from netsim.safe import what_is
from scenarios.app.results.folder import MANIFEST, SUMMARY
from scenarios.app.results.marker import marked
from scenarios.app.results.read import RUNS, SWEEP, listed
from scenarios.app.results.training_folder import TRAINING
from scenarios.app.results.tuning_folder import is_tuning, read_tuning
from scenarios.app.study.yaml_document import one_line


@dataclass(frozen=True)
class Chosen:
    """What is repeated.

    runs : labels and folders of runs and trainings. tables : folders whose runs.csv is compared with them. skipped :
    what lies there besides, and why it is left out.
    """

    runs: Sequence[tuple[str, Path]]
    tables: Sequence[Path] = field(default_factory=list)
    skipped: Sequence[str] = field(default_factory=list)


def chosen(folder: Path, only: str | None) -> Chosen:
    """All runs of a folder, or those of the label `only`. BadInput: there is none."""
    every = _single(folder) or _several(folder) or _inside(folder)
    if only is None:
        return every
    runs = [(label, path) for label, path in every.runs if label == only]
    if not runs:
        known = ", ".join(dict.fromkeys(label for label, _ in every.runs if label)) or "none"
        raise BadInput(one_line(f"--only {only}: {folder} has no run of this label; it has: {known[:400]}"))
    tables = [table for table in every.tables if any(path.is_relative_to(table) for _, path in runs)]
    return Chosen(runs, tables)


def _single(folder: Path) -> Chosen | None:
    """Of a run or a training."""
    if what_is(folder / TRAINING) or (what_is(folder / MANIFEST) and not what_is(folder / RUNS)):
        return Chosen([("", folder)])
    return None


def _several(folder: Path) -> Chosen | None:
    """Of trainings of several seeds, a tuning with its fresh seeds, or a sweep; None: it is none of them."""
    if seeds := [path.parent for path in sorted(folder.glob(f"seed-*/{TRAINING}"))]:
        return Chosen([(path.name, path) for path in seeds])
    if is_tuning(folder):
        read_tuning(folder)  # says of an unfinished one that it is
        fresh = [path.parent for path in sorted(folder.glob(f"verify/trial-*/seed-*/{SUMMARY}"))]
        verified = [(f"verify/{path.parent.name}", path) for path in fresh]
        return Chosen(
            [*((label, path) for label, path in listed(folder) if what_is(path / SUMMARY)), *verified], [folder]
        )
    if what_is(folder / RUNS) or what_is(folder / SWEEP) or marked(folder) == "sweep":
        return Chosen(listed(folder), [folder])
    return None


def _inside(folder: Path) -> Chosen:
    """Of a folder in which runs, sweeps, tunings and trainings lie side by side."""
    runs, tables, skipped = list[tuple[str, Path]](), list[Path](), list[str]()
    for path in sorted(p for p in folder.iterdir() if what_is(p) == "folder" and not p.is_symlink()):
        try:
            alone, several = _single(path), _several(path)
        except BadInput as error:
            skipped += error.lines
            continue
        if alone is not None and not what_is(path / SUMMARY):
            skipped.append(f"{path}: is not finished")
        elif alone is not None:
            runs.append((path.name, path))
        elif several is not None:
            done = [(f"{path.name}: {label}", run) for label, run in several.runs if what_is(run / SUMMARY)]
            skipped += [f"{run}: is not finished" for _, run in several.runs if not what_is(run / SUMMARY)]
            runs, tables = [*runs, *done], [*tables, *several.tables]
    if not runs:
        why = f" ({skipped[0]})" if skipped else ""
        raise BadInput(
            one_line(
                f"{folder}: no finished run, sweep, tuning or training in it{why}; give a folder that netsim wrote"
            )
        )
    return Chosen(runs, tables, [one_line(line) for line in skipped])
