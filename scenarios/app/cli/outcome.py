"""Progress of a command, what a folder says, and the commands on one: `show`, `report`, `compare`,
`export`.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from datetime import timedelta
from math import isfinite
from pathlib import Path
from threading import Timer
from typing import TextIO, cast

import numpy as np
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from netsim import compiled
from netsim.errors import BadInput, RunsFailed, counted, one_line
from netsim.safe import OURS_MOST_BYTES, opened, replacing, what_is
from scenarios.app.cli.options import Lenient, command_line, emit, say, write
from scenarios.app.result import show_page
from scenarios.app.results.export import BEGINNING, Globe, geojson_text
from scenarios.app.results.folder import (
    EXPORT,
    FAILURES,
    PAGE,
    RUNS,
    read_failures,
    read_json,
    read_summary,
    record_of,
)
from scenarios.app.results.gathered import of_sweep
from scenarios.app.results.goals import read_tuned
from scenarios.app.results.kinds import kind_of
from scenarios.app.results.outcome import Outcome, run_outcome, runs_outcome
from scenarios.app.results.read import Run, load, open_finished
from scenarios.app.results.screen import run_screen, screen
from scenarios.app.results.shown import read_adapted
from scenarios.app.results.statistics import figure_text
from scenarios.app.run.events import Event, Watch
from scenarios.app.study import Fields, Record, Value

DRAW_EVERY_S = 0.1
LOG_EVERY_S = 2.0
FIRST_S = 10.0  # a log has a line by then; what is refused is refused before, with one line alone
LOG_SHARE = 30.0  # a log of a long run has a line for every thirtieth of the time so far
PACE_S = 86_400.0  # the pace is averaged over a day: a round may take an hour
ROWS = ("time", "model", "radio", "leakage", "updates", "privacy", "cost", "last", "found")


@contextmanager
def teller(args: argparse.Namespace, title: str) -> Generator[Watch, None, None]:
    """Yield the function that shows events, by the options --json and --quiet."""
    with Meter(title, args.quiet, args.json) as block:
        yield block.tell


class Meter(Progress):
    """Counts steps, knows the time left, and shows both with what was found so far."""

    def __init__(
        self,
        title: str,
        quiet: bool = False,
        as_json: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title = title
        self.quiet = quiet
        self.as_json = as_json
        self.stream = stream or sys.stderr
        dumb = os.environ.get("TERM", "") in (
            "",
            "dumb",
            "unknown",
        )  # whose lines cannot be written over
        self.on_screen = not (quiet or as_json or dumb) and self.stream.isatty()
        self.counted = ""
        self.rows = dict[str, str]()
        self.began_s = clock()
        self.shown_s = -float("inf")
        super().__init__(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[far]}", markup=False),
            TimeRemainingColumn(),
            console=Console(
                file=cast(TextIO, Lenient(self.stream)),
                force_terminal=self.on_screen,
                highlight=False,
                markup=False,
            ),
            auto_refresh=False,
            transient=True,
            speed_estimate_period=PACE_S,
            get_time=clock,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not self.on_screen,
        )
        self.task = self.add_task(one_line(title), total=None, far="preparing")
        self.first = Timer(FIRST_S, write, (f"{one_line(title)}: preparing\n", self.stream))

    def start(self) -> None:
        """Show the block, or a first line; the cursor stays visible: nothing has to be restored
        however work ends.
        """
        super().start()
        if self.on_screen:
            self.console.show_cursor(True)
            compiled.tell = self.console.print  # above the block
        elif not (self.quiet or self.as_json):
            self.first.start()

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, and rows of a name and a text."""
        yield self.make_tasks_table(self.tasks)
        rows = Table.grid(padding=(0, 2))
        for name in ROWS:
            if name in self.rows:
                rows.add_row(Text(f"  {name}", style="dim"), Text(self.rows[name]))
        yield rows

    def tell(self, now: Event) -> None:
        """Show an event. Raises KeyboardInterrupt where the reader of JSON lines has gone."""
        self.first.cancel()
        event = now.line(self.title)
        unit = unit_of(event)
        now_s = self.get_time()
        rows = rows_of(event)
        if (
            counted := f"{event['event']} {event.get('label') if event['event'] == 'world' else ''}"
        ) != self.counted:
            self.counted = counted
            self.rows = {}
            self.reset(self.task)
        self.rows |= rows  # what a round leaves out stays
        done = event["done"]
        of = event["of"]
        far = f"{unit} {done} of {of}, {100 * done // max(of, 1)} %"
        self.update(
            self.task, completed=done, total=of, description=one_line(event["title"]), far=far
        )
        left_s = self.tasks[0].time_remaining
        left_s = None if left_s is None else max(left_s, 0.0)
        if self.quiet:
            return
        if self.as_json:
            if not emit({**event, "left_s": left_s}):
                raise KeyboardInterrupt
            return
        if self.on_screen:
            every_s = DRAW_EVERY_S
        else:
            every_s = max(LOG_EVERY_S, (now_s - self.began_s) / LOG_SHARE)
        if event["last"] or now_s - self.shown_s >= every_s:
            self.shown_s = now_s
            if self.on_screen:
                self.refresh()
            else:
                if left_s is None or event["last"]:
                    left = ""
                else:
                    left = f"; {timedelta(seconds=left_s)} left"
                texts = ", ".join(filter(None, [f"{unit} {done}/{of}", *rows.values()]))
                write(f"{self.tasks[0].description}: {texts}{left}\n", self.stream)

    def __exit__(self, kind: type[BaseException] | None, *error: Value) -> None:
        """Leave a line of work that is done, and the last state of work that was ended."""
        self.first.cancel()
        self.live.transient = kind is None or not self.counted
        if not self.on_screen:  # Rich before 14.3 ends also what it never showed by an empty line
            return
        super().__exit__(kind, *error)
        if kind is None and self.counted:
            took = timedelta(seconds=round(self.get_time() - self.began_s))
            text = f"{self.tasks[0].description}: {self.tasks[0].fields['far']} in {took}"
            self.console.print(Text(text, style="dim", no_wrap=True, overflow="ellipsis"))


# -- an event in words


def unit_of(event: Record) -> str:
    """What an event counts."""
    if "merge" in event:
        return "window"
    if event["event"] in ("played", "failed"):
        return "run"
    return str(event["event"])


def rows_of(event: Record) -> dict[str, str]:
    """What an event says: name -> text, in the order in which rows stand; without those that are
    empty.
    """
    label = str(event.get("label", ""))
    rows = {
        "time": str(event.get("clock", "")),
        "model": _model(event),
        "radio": _radio(event),
        "leakage": _leakage(event),
        "updates": _updates(event),
        "privacy": f"epsilon {event['epsilon']:.3g}" if "epsilon" in event else "",
        "cost": f"cost {figure_text(event['cost'])}" if "cost" in event else "",
        "last": ", ".join(
            filter(None, [label, f"seed {event['seed']}" if "seed" in event else ""])
        ),
        "found": _found(event),
    }
    return {name: one_line(text) for name, text in rows.items() if text}


def _model(event: Record) -> str:
    scores = [
        form.format(figure_text(event[key])) for key, form in _SCORES.items() if _known(event, key)
    ]
    if _known(event, "rmse_db") and _known(event, "constant_rmse_db"):
        scores.append(f"(constant {figure_text(event['constant_rmse_db'])} dB)")
    return " ".join(scores)


def _radio(event: Record) -> str:
    if "sinr_db" not in event:
        return ""
    median = (
        f"median SINR {event['sinr_db']:.1f} dB" if _known(event, "sinr_db") else "no UE is present"
    )
    if event.get("handovers") is None:
        return median
    return f"{median}, {event['handovers']:,} handovers"


def _leakage(event: Record) -> str:
    """Homes that each attack names now; of those that can name none, the centroid error."""
    homes = []
    errors = []
    for name, of in event.get("attacks", {}).items():
        if _known(of, "homes_named_percent"):
            homes.append(f"{name} {of['homes_named_percent']:.0f} %")
        elif _known(of, "centroid_error_m"):
            errors.append(f"{name} {figure_text(of['centroid_error_m'], 'm')} m")
    named = {"homes named": homes, "centroid error": errors}
    return "; ".join(f"{what}: {', '.join(texts)}" for what, texts in named.items() if texts)


def _updates(event: Record) -> str:
    if "updates" not in event:
        return ""
    if event["updates"]:
        text = f"{event['decoded']} of {event['updates']} updates decoded"
    else:
        text = "no updates"
    if event.get("stopped"):
        text = "not played: it would exceed learning.privacy_budget"
    if "merge" in event:
        return f"merge {event['merge']:,}: {text}"
    return text


def _found(event: Record) -> str:
    """The first lines of the summary of that run, or why it failed."""
    from scenarios.app.results.table import lines

    if event["event"] == "failed":
        return f"failed: {event['kind']}: {event['error']}"
    if "summary" not in event:
        return ""
    return ", ".join(f"{line.title} {line.result}" for line in lines([event["summary"]])[:3])


def _known(of: Record, name: str) -> bool:
    return of.get(name) is not None and isfinite(of[name])


_SCORES = {
    "accuracy_percent": "accuracy {} %",
    "rank_correlation": "rank correlation {}",
    "rmse_db": "RMSE {} dB",
}


Told = tuple[Outcome, Sequence[str]]
"""what a folder says, and the same as lines: the first goes on a heading"""


def show(args: argparse.Namespace) -> None:
    """Print what a finished folder says, or each folder in it; where it is not finished, how to go
    on.
    """
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

    if not args.out.endswith((".html", ".htm")):
        raise BadInput(f"--out {args.out}: give the name of a page, such as compare.html")
    folders = [Path(name) for name in args.folders]
    path = Path(args.out)
    page = draw(folders, path, command_line(), args.pages, args.reach)
    found = gathered(folders)
    runs = [{"label": label, "folder": str(folder)} for label, folder in found.runs]
    of = runs_outcome(
        found, path.parent, values={"runs": runs, "left_out": found.missing, "notes": found.said}
    )
    if args.json:
        emit_outcome(of, page=str(page))
    else:
        goal = (
            f"when models reach {args.reach:g}, and what is named by then: on the page"
            if args.reach
            else ""
        )
        say("\n".join(f"  {line}" for line in screen(of, {"reach": goal, "page": str(page)})[1:]))
    _show(page, args)


def export(args: argparse.Namespace) -> None:
    """Write the tracks of a run for maps elsewhere."""
    folder = Path(args.folder)
    out = _out(folder / EXPORT if args.out is None else Path(args.out))
    run = load(folder)
    globe = Globe.of(folder, run, origin_of(args.origin))
    text = geojson_text(run, globe)
    try:
        with replacing(out) as file:
            file.write(text.encode())
    except OSError as error:
        raise BadInput(
            f"{out}: cannot be written ({error.strerror}); give --out another file"
        ) from None
    if np.isfinite(run.rows("tracks")["x_m"]).any():
        say(f"tracks in {out}")
    else:
        every = f"they are taken every {run.manifest.tracks.every_s:,g} s, and no UE was there then"
        say(
            f"no track: {every}; play it with a shorter world.tick_s. What else there is "
            f"stands in {out}"
        )
    if not globe.known:
        lat, lon = globe.origin_deg
        say(
            f"  this run has no geographic origin; its south-west corner was put at "
            f"{lat:g}, {lon:g} (--origin=LAT,LON)"
        )


def _out(out: Path) -> Path:
    """The file to write: new, or an earlier export."""
    try:
        with opened(out, OURS_MOST_BYTES, own=True) as file:
            if file.read(len(BEGINNING)) != BEGINNING:
                raise BadInput(
                    f"{out}: exists and is no export of netsim; give --out another file, "
                    f"or move it away"
                )
    except FileNotFoundError:
        pass
    except OSError as error:
        raise BadInput(
            f"{out}: cannot be written ({error.strerror}); give --out another file"
        ) from None
    return out


def origin_of(text: str | None) -> tuple[float, float] | None:
    """Latitude and longitude, of --origin."""
    if text is None:
        return None
    try:
        lat, lon = map(float, text.split(","))
    except ValueError:
        raise BadInput(
            f"--origin {text}: write LAT,LON in degrees, for example --origin=48.8566,2.3522"
        ) from None
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


def tell_outcome(
    folder: Path, args: argparse.Namespace, title: str = "", run: Run | None = None
) -> None:
    """Print what a finished folder says, by the options --json and --verbose. BadInput: it is not
    finished.

    run : that of the folder, where it is at hand.
    """
    verbose = getattr(args, "verbose", False)
    of, lines = outcome_of(folder, verbose) if run is None else _run(run, verbose)
    if args.json:
        emit_outcome(of, folder)
        return
    heading, *rest = lines
    for line in (f"{title or folder}{heading}", *(f"  {line}" for line in rest)):
        say(one_line(line))


def emit_outcome(of: Outcome, folder: Path | None = None, page: str | None = None) -> None:
    """The last line of `--json`: what was found, in which folder, where its page lies (null: it is
    not drawn).
    """
    if folder is None:
        where = {"page": page}
    else:
        where = {"folder": str(folder), "page": _drawn(folder)}
    answer = [{"asked": asked, "text": text} for asked, text in of.answers]
    said = {"title": of.title, "answer": answer, "notices": [asdict(each) for each in of.notices]}
    emit({"event": "result", "kind": of.kind, **where, **said, **of.values})


def tell_failures(*folders: Path) -> None:
    """Raise RunsFailed where runs of these folders failed."""
    failed = {folder: len(read_failures(folder)) for folder in folders}
    if any(failed.values()):
        tables = ", ".join(str(folder / FAILURES) for folder, n in failed.items() if n)
        total = counted(sum(failed.values()), "run")
        raise RunsFailed(f"{total} failed, see {tables}; the same command plays what is missing")


def outcome_of(folder: Path, verbose: bool = False) -> Told:
    """What a folder says. BadInput: nothing of ours lies there, or something that is not finished,
    and how to go on.
    """
    if what_is(folder) != "folder":
        raise BadInput(
            f"{folder}: no such folder; give the folder of a run, a sweep, a replay or a training"
        )
    return OUTCOMES[kind_of(folder)](folder, verbose)


def several(folder: Path, verbose: bool = False) -> Told:
    """What a folder of folders says: each by itself, below its path; of one that is not finished
    how it goes on.
    """
    lines = [""]
    runs = []
    folders = []
    for path in _below(folder):
        try:
            of, (heading, *rest) = outcome_of(path, verbose)
        except BadInput as error:
            of = Outcome("unfinished", "")
            heading = str(error).removeprefix(str(path))
            rest = []
        name = str(path.relative_to(folder))
        lines += [f"{name}{heading}", *(f"  {line}" for line in rest)]
        folders.append({"folder": str(path), "kind": of.kind})
        runs += [_labelled(name, path)] if of.kind in ("run", "radio") else []
    if not folders:
        raise BadInput(
            f"{folder}: no result of netsim in it; give a folder that netsim wrote, or "
            f"one above such folders"
        )
    if page := _drawn(folder):
        lines.append(f"records in {folder}, page: {page}")
    return Outcome("runs", folder.resolve().name, values={"runs": runs, "folders": folders}), lines


def _below(folder: Path) -> Iterator[Path]:
    """Folders of results in a folder, however deep."""
    for path in sorted(filter(Path.is_dir, folder.iterdir())):
        with suppress(BadInput, OSError):  # a marker of others, a folder that cannot be read
            if kind_of(path):
                yield path
            elif not path.is_symlink():
                yield from _below(path)


def _run(run: Run, verbose: bool) -> Told:
    return run_outcome(run), run_screen(run, _page(run.folder), verbose)


def _labelled(label: str, run: Path) -> Fields:
    seed = read_json(record_of(run)).get("seed")
    return {"label": label, "seed": seed, "folder": str(run), "summary": read_summary(run)}


def _sweep(folder: Path, _: bool) -> Told:
    found = of_sweep(folder)
    tuned = read_tuned(folder)
    values = {
        "table": str(folder / RUNS),
        "runs": [_labelled(*one) for one in found.runs],
        "adapted": read_adapted(folder)[0],
        "tuned": tuned and tuned.model_dump(),
        "failures": [asdict(one) for one in read_failures(folder)],
    }
    of = runs_outcome(found, folder, "sweep", values)
    return of, screen(of, {"runs": str(folder / RUNS), "page": _page(folder)})


def _training(folder: Path, _: bool) -> Told:
    from scenarios.app.report.training_page import Seeds, train_outcome

    of = train_outcome(Seeds.of(folder))
    lines = screen(of, {"policy": str(folder), "page": _page(folder)})
    of.values["lines"] = lines[1:-2]
    return of, lines


OUTCOMES: dict[str, Callable[[Path, bool], Told]] = {
    "training": _training,
    "sweep": _sweep,
    "run": lambda folder, verbose: _run(open_finished(folder), verbose),
    "": several,
}
"""kind of a folder -> what it says, in all its keys or only the main ones"""


def _drawn(folder: Path) -> str | None:
    """The page of a folder; None where it is not drawn."""
    if what_is(folder / PAGE):
        return str(folder / PAGE)
    return None


def _page(folder: Path) -> str:
    """The page, or how to have one."""
    return _drawn(folder) or f"not drawn yet: netsim report {folder}"
