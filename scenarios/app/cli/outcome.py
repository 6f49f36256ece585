"""What a finished folder says: the lines that a command prints at its end, and the event of `--json`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from netsim.errors import BadInput, RunsFailed
from netsim.safe import what_is
from scenarios.app.cli.output import emit, say
from scenarios.app.results.failures import FAILURES, failure_lines, read_failures
from scenarios.app.results.folder import (
    MANIFEST,
    PAGE,
    RADIO_STUDY,
    TRAINING,
    finished_manifest,
    read_json,
    read_summary,
)
from scenarios.app.results.marker import marked
from scenarios.app.results.read import RUNS, SWEEP, finished, listed
from scenarios.app.results.shown import adapted_lines, checked_manifest, fitted, read_adapted, run_lines, sweep_lines
from scenarios.app.results.statistics import counted
from scenarios.app.results.tuning_folder import TRIALS_CSV, failed_lines, is_tuning, read_tuning, tuning_lines
from scenarios.app.study.yaml_document import one_line

Event = dict[str, Any]
"""a line of JSON"""


@dataclass(frozen=True)
class Kind:
    """A kind of folder: what its event is called, its lines (the first goes on a heading), the rest of its event."""

    name: str
    lines: Callable[[Path, bool], Sequence[str]]
    values: Callable[[Path], Event]


def tell_outcome(folder: Path, args: argparse.Namespace, title: str = "") -> None:
    """Print what a finished folder says, by the options --json and --verbose. BadInput: it is not finished."""
    kind = kind_of(folder)
    if args.json:
        emit(event_of(folder, kind))
        return
    heading, *lines = kind.lines(folder, getattr(args, "verbose", False))
    say(f"{title or folder}{heading}")
    for line in lines:
        say(f"  {line}")


def tell_failures(*folders: Path) -> None:
    """Raise RunsFailed where runs of these folders failed."""
    failed = {folder: len(read_failures(folder)) for folder in folders}
    if any(failed.values()):
        tables = ", ".join(str(folder / FAILURES) for folder, n in failed.items() if n)
        total = counted(sum(failed.values()), "run")
        raise RunsFailed(one_line(f"{total} failed, see {tables}; the same command plays what is missing"))


def tell_failed_trials(folder: Path) -> None:
    """Raise RunsFailed where trials of a tuning failed, or a winner on fresh seeds."""
    if failed := failed_lines(read_tuning(folder)):
        line = f"{failed[0].removesuffix(':')}, see {folder / TRIALS_CSV}; the search went on without them"
        raise RunsFailed(one_line(line))


def event_of(folder: Path, kind: Kind) -> Event:
    """The last line of `--json`: what the folder is, where its page lies (null: nobody has drawn it), all values."""
    page = folder / PAGE
    where = {"folder": str(folder), "page": str(page) if what_is(page) else None}
    return {"event": "result", "kind": kind.name, **where, **kind.values(folder)}


def kind_of(folder: Path) -> Kind:
    """What lies in a folder. BadInput: nothing of ours, or something that is not finished, and how to go on."""
    if what_is(folder) != "folder":
        raise BadInput(one_line(f"{folder}: no such folder; give the folder of a run, a sweep, a replay or a training"))
    if what_is(folder / TRAINING) or any(map(_of_training, folder.glob("seed-*"))):
        return TRAINED
    if is_tuning(folder):
        return TUNED
    if what_is(folder / RUNS) or what_is(folder / SWEEP) or marked(folder) == "sweep":
        return SWEPT
    if what_is(folder / MANIFEST) or marked(folder) == "run":
        return RADIO if finished_manifest(folder).get("kind") == RADIO_STUDY else RUN
    return SEVERAL


def _of_training(folder: Path) -> bool:
    """Whether a training, finished or not, lies in a folder."""
    return bool(what_is(folder / TRAINING)) or marked(folder) == "training"


def _page(folder: Path) -> str:
    """The page, or how to have one."""
    return str(folder / PAGE) if what_is(folder / PAGE) else f"not drawn yet: netsim report {folder}"


def _run_values(folder: Path) -> Event:
    manifest = checked_manifest(folder)
    said = {name: manifest[name] for name in ("title", "seed", "warnings")}
    return {**said, "summary": read_summary(folder)}


def _sweep_lines(folder: Path, verbose: bool) -> list[str]:
    from scenarios.app.results.gathered import one_kind

    one_kind(finished(folder))
    done = [(label, read_summary(run)) for label, run in finished(folder)]
    rows = sweep_lines(done) if done else []
    failed = [*adapted_lines(folder), *failure_lines(read_failures(folder))]
    return [_sweep_heading(folder), *rows, *failed, f"all runs in {folder / RUNS}, page in {_page(folder)}"]


def _sweep_heading(folder: Path) -> str:
    title = read_json(folder / SWEEP).get("title") if what_is(folder / SWEEP) else None
    return f": {one_line(str(title))}" if title else ""


def _sweep_values(folder: Path) -> Event:
    failures = [asdict(one) for one in read_failures(folder)]
    adapted, _ = read_adapted(folder)
    return {"table": str(folder / RUNS), **_several_values(folder), "failures": failures, "adapted": adapted}


def _several_lines(folder: Path, verbose: bool) -> list[str]:
    """Each run by itself, below the name of its folder."""
    lines = [""]
    for name, run in listed(folder):
        heading, *rest = kind_of(run).lines(run, verbose)
        lines += [f"{name}{heading}", *(f"  {line}" for line in rest)]
    return [*lines, f"records in {folder}, page in {_page(folder)}"]


def _several_values(folder: Path) -> Event:
    runs = [(label, run, read_json(run / MANIFEST).get("seed")) for label, run in finished(folder)]
    return {
        "runs": [
            {"label": label, "seed": seed, "folder": str(run), "summary": read_summary(run)}
            for label, run, seed in runs
        ]
    }


def _training_lines(folder: Path, verbose: bool) -> list[str]:
    from scenarios.app.report.training_page import train_lines
    from scenarios.app.results.trainings import trainings

    done, failed = trainings(folder), failure_lines(read_failures(folder))
    if not done:
        return ["", *failed]
    where = f"policy and figures in {folder}, page in {_page(folder)}"
    title = one_line(str(done[0].manifest.get("title")))
    return [f": {title}", *failed, *fitted([*train_lines(folder), where])]


def _training_values(folder: Path) -> Event:
    from scenarios.app.report.training_page import train_lines
    from scenarios.app.results.trainings import trainings

    each = [{"seed": one.manifest.get("seed"), "summary": one.summary} for one in trainings(folder)]
    failures = [asdict(one) for one in read_failures(folder)]
    return {"trainings": each, "lines": train_lines(folder) if each else [], "failures": failures}


def _tuning_lines(folder: Path, verbose: bool) -> list[str]:
    found = read_tuning(folder)
    where = f"all trials in {folder / TRIALS_CSV}, page in {_page(folder)}"
    return [f": {one_line(found['title'])}", *tuning_lines(found), *failed_lines(found), where]


def _run_lines(folder: Path, verbose: bool) -> list[str]:
    return run_lines(folder, _page(folder), verbose)


RUN = Kind("run", _run_lines, _run_values)
RADIO = Kind("radio", _run_lines, _run_values)
SWEPT = Kind("sweep", _sweep_lines, _sweep_values)
SEVERAL = Kind("runs", _several_lines, _several_values)
TRAINED = Kind("training", _training_lines, _training_values)
TUNED = Kind("tuning", _tuning_lines, read_tuning)
