"""What a finished folder says, and the commands on one: `show`, `report`, `compare`, `export`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from netsim.errors import BadInput, RunsFailed, one_line
from netsim.safe import OURS_MOST_BYTES, opened, replacing, what_is
from scenarios.app.browser import show_page
from scenarios.app.cli.options import command_line
from scenarios.app.cli.output import emit, say, say_fitted
from scenarios.app.results.export import BEGINNINGS, FORMATS, Globe
from scenarios.app.results.failures import FAILURES, failure_lines, read_failures
from scenarios.app.results.folder import (
    EXPORTS,
    MANIFEST,
    PAGE,
    RADIO_STUDY,
    TRAINING,
    finished_manifest,
    read_json,
    read_summary,
)
from scenarios.app.results.marker import marked
from scenarios.app.results.read import RUNS, SWEEP, finished, listed, load
from scenarios.app.results.shown import adapted_lines, checked_manifest, fitted, read_adapted, run_lines, sweep_lines
from scenarios.app.results.statistics import counted
from scenarios.app.results.tuning_folder import TRIALS_CSV, failed_lines, is_tuning, read_tuning, tuning_lines
from scenarios.app.study import Fields


@dataclass(frozen=True)
class FolderResult:
    """What a folder says. kind : as events call it. lines : the first goes on a heading. values : of its event."""

    kind: str
    lines: Sequence[str]
    values: Fields


def show(args: argparse.Namespace) -> None:
    """Print what a finished folder says; where it is not finished, how to go on."""
    tell_outcome(Path(args.folder), args)
    open_page(Path(args.folder), args)


def report(args: argparse.Namespace) -> None:
    """Draw the page."""
    from scenarios.app.report.report import report as draw

    page = draw(Path(args.folder), args.pages)
    if args.json:
        emit({"event": "result", "kind": "page", "folder": args.folder, "page": str(page)})
    else:
        say(f"page in {page}")
    open_page(Path(args.folder), args)


def compare(args: argparse.Namespace) -> None:
    """Draw the page of several folders; print the answer and the table of main figures."""
    from scenarios.app.report.report import compare as draw
    from scenarios.app.results.gathered import gathered
    from scenarios.app.results.shown import answers, by_label

    if not args.out:
        raise BadInput("--out: give the name of a file")
    folders = [Path(name) for name in args.folders]
    page = draw(folders, Path(args.out), command_line(), args.pages, args.reach)
    of = gathered(folders)
    if args.json:
        runs = [{"label": label, "folder": str(folder)} for label, folder in of.runs]
        answer = [{"asked": asked, "text": text} for asked, text in answers(by_label(of.summaries))]
        more = {"answer": answer, "runs": runs, "left_out": of.missing, "notes": of.said}
        emit({"event": "result", "kind": "comparison", "page": str(page), **more})
    else:
        say_fitted(of.said)
        for line in [*sweep_lines(of.summaries), f"page in {page}"]:
            say(f"  {line}")
    _show(page, args)


def export(args: argparse.Namespace) -> None:
    """Write the tracks of a run for maps elsewhere."""
    folder = Path(args.folder)
    out = _out(folder / EXPORTS[args.format] if args.out is None else Path(args.out))
    run = load(folder)
    globe = Globe.of(folder, run, origin_of(args.origin))
    text = FORMATS[args.format](run, globe)
    try:
        with replacing(out) as file:
            file.write(text.encode())
    except OSError as error:
        raise BadInput(f"{out}: cannot be written ({error.strerror}); give --out another file") from None
    say(f"tracks in {out}")
    if not globe.known:
        lat, lon = globe.origin_deg
        say(
            f"  this run has no geographic origin; its south-west corner was put at {lat:g}, {lon:g} (--origin=LAT,LON)"
        )


def _out(out: Path) -> Path:
    """The file to write: new, or an earlier export."""
    try:
        with opened(out, OURS_MOST_BYTES, own=True) as file:
            if not file.read(max(map(len, BEGINNINGS))).startswith(BEGINNINGS):
                raise BadInput(f"{out}: exists and is no export of netsim; give --out another file, or move it away")
    except FileNotFoundError:
        pass
    except OSError as error:
        raise BadInput(f"{out}: cannot be written ({error.strerror}); give --out another file") from None
    return out


def origin_of(text: str | None) -> tuple[float, float] | None:
    """Latitude and longitude, of --origin."""
    if text is None:
        return None
    try:
        lat, lon = map(float, text.split(","))
    except ValueError:
        raise BadInput(f"--origin {text}: write LAT,LON in degrees, for example --origin=48.8566,2.3522") from None
    if not (abs(lat) <= 90 and abs(lon) <= 180):
        raise BadInput(f"--origin {text}: latitude is -90 to 90 and longitude -180 to 180 degrees")
    return lat, lon


def open_page(folder: Path, args: argparse.Namespace) -> None:
    """With --open: show the page of a folder, drawn first if need be."""
    from scenarios.app.report.report import report as draw

    if args.open:
        _show(folder / PAGE if what_is(folder / PAGE) else draw(folder), args)


def _show(page: Path, args: argparse.Namespace) -> None:
    """With --open: show a page; without a browser a line tells its path."""
    if args.open and not show_page(page) and not args.json:
        say(f"  no browser here; open {page}")


def tell_outcome(folder: Path, args: argparse.Namespace, title: str = "") -> None:
    """Print what a finished folder says, by the options --json and --verbose. BadInput: it is not finished."""
    found = outcome_of(folder, getattr(args, "verbose", False))
    if args.json:
        emit_outcome(folder, found)
        return
    heading, *lines = found.lines
    for line in (f"{title or folder}{heading}", *(f"  {line}" for line in lines)):
        say(one_line(line))


def emit_outcome(folder: Path, found: FolderResult) -> None:
    """The last line of `--json`: what the folder is, where its page lies (null: it is not drawn), all values."""
    page = str(folder / PAGE) if what_is(folder / PAGE) else None
    emit({"event": "result", "kind": found.kind, "folder": str(folder), "page": page, **found.values})


def tell_failures(*folders: Path) -> None:
    """Raise RunsFailed where runs of these folders failed."""
    failed = {folder: len(read_failures(folder)) for folder in folders}
    if any(failed.values()):
        tables = ", ".join(str(folder / FAILURES) for folder, n in failed.items() if n)
        total = counted(sum(failed.values()), "run")
        raise RunsFailed(f"{total} failed, see {tables}; the same command plays what is missing")


def tell_failed_trials(folder: Path) -> None:
    """Raise RunsFailed where trials of a tuning failed, or a winner on fresh seeds."""
    if failed := failed_lines(read_tuning(folder)):
        raise RunsFailed(f"{failed[0].removesuffix(':')}, see {folder / TRIALS_CSV}; the search went on without them")


def outcome_of(folder: Path, verbose: bool = False) -> FolderResult:
    """What a folder says. BadInput: nothing of ours lies there, or something that is not finished, and how to go on."""
    if what_is(folder) != "folder":
        raise BadInput(f"{folder}: no such folder; give the folder of a run, a sweep, a replay or a training")
    if any(what_is(f / TRAINING) or marked(f) == "training" for f in (folder, *folder.glob("seed-*"))):
        return _training(folder)
    if is_tuning(folder):
        found = read_tuning(folder)
        where = f"all trials in {folder / TRIALS_CSV}, page: {_page(folder)}"
        lines = [f": {found['title']}", *tuning_lines(found), *failed_lines(found), where]
        return FolderResult("tuning", lines, found)
    if what_is(folder / RUNS) or what_is(folder / SWEEP) or marked(folder) == "sweep":
        return _sweep(folder)
    if what_is(folder / MANIFEST) or marked(folder) == "run":
        kind = "radio" if finished_manifest(folder).get("kind") == RADIO_STUDY else "run"
        manifest = checked_manifest(folder)
        values = {name: manifest[name] for name in ("title", "seed", "warnings")} | {"summary": read_summary(folder)}
        return FolderResult(kind, run_lines(folder, _page(folder), verbose), values)
    return several(folder, verbose)


def several(folder: Path, verbose: bool = False) -> FolderResult:
    """What a folder of runs says: each by itself, below the name of its folder."""
    lines = [""]
    for name, run in listed(folder):
        heading, *rest = outcome_of(run, verbose).lines
        lines += [f"{name}{heading}", *(f"  {line}" for line in rest)]
    return FolderResult("runs", [*lines, f"records in {folder}, page: {_page(folder)}"], {"runs": _runs(folder)})


def _runs(folder: Path) -> list[Fields]:
    """The finished runs of a folder."""
    return [
        {
            "label": label,
            "seed": read_json(run / MANIFEST).get("seed"),
            "folder": str(run),
            "summary": read_summary(run),
        }
        for label, run in finished(folder)
    ]


def _sweep(folder: Path) -> FolderResult:
    from scenarios.app.results.gathered import one_kind

    one_kind(finished(folder))
    runs, failures = _runs(folder), read_failures(folder)
    title = read_json(folder / SWEEP).get("title") if what_is(folder / SWEEP) else None
    rows = sweep_lines([(run["label"], run["summary"]) for run in runs]) if runs else []
    where = f"all runs in {folder / RUNS}, page: {_page(folder)}"
    heading = f": {title}" if title else ""
    lines = [heading, *rows, *adapted_lines(folder), *failure_lines(failures), where]
    values = {"table": str(folder / RUNS), "runs": runs, "adapted": read_adapted(folder)[0]}
    return FolderResult("sweep", lines, values | {"failures": [asdict(one) for one in failures]})


def _training(folder: Path) -> FolderResult:
    from scenarios.app.report.training_page import train_lines
    from scenarios.app.results.trainings import trainings

    done, failures = trainings(folder), read_failures(folder)
    each = [{"seed": one.manifest.get("seed"), "summary": one.summary} for one in done]
    results = train_lines(folder) if done else []
    title = f": {done[0].manifest.get('title')}" if done else ""
    where = [f"policy and figures in {folder}, page: {_page(folder)}"] if done else []
    lines = [title, *failure_lines(failures), *fitted([*results, *where])]
    values = {"trainings": each, "lines": results, "failures": [asdict(one) for one in failures]}
    return FolderResult("training", lines, values)


def _page(folder: Path) -> str:
    """The page, or how to have one."""
    return str(folder / PAGE) if what_is(folder / PAGE) else f"not drawn yet: netsim report {folder}"
