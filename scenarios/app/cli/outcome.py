"""Show progress, say what a folder holds; commands `show_from_options`, `report`, `compare`,
`export_from_options`.
"""

import os
import sys
import time
from argparse import Namespace
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
from netsim.errors import BadInput, to_one_line
from netsim.safe import describe_file_kind
from netsim.units import FloatPair
from scenarios.app.cli.options import Lenient, emit, join_command_line, say, write_stream
from scenarios.app.result import show_page
from scenarios.app.results.export import BEGINNING, Globe, to_geojson
from scenarios.app.results.folder import (
    EXPORT,
    PAGE,
    RUNS,
    find_record_file,
    read_failures,
    read_json,
    read_summary,
)
from scenarios.app.results.gathered import gather_sweep
from scenarios.app.results.goals import read_search_result
from scenarios.app.results.kinds import detect_kind
from scenarios.app.results.outcome import Outcome, build_comparison_outcome, build_run_outcome
from scenarios.app.results.read import Run, load_finished_run, open_finished_run
from scenarios.app.results.screen import lay_out_run, lay_out_screen
from scenarios.app.results.shown import read_adapted_rows
from scenarios.app.results.statistics import format_figure
from scenarios.app.run.events import Event, Watch, under_way
from scenarios.app.study import Fields, Record, Value

DRAW_EVERY_S = 0.1
LOG_EVERY_S = 2.0
FIRST_S = 10.0  # a log has a line by then; what is refused is refused before, with one line alone
AGAIN_S = 7.0  # after so long without a line a log says again what is done
LOG_SHARE = 30.0  # a log of a long run has a line for every thirtieth of the time so far
PACE_S = 86_400.0  # the pace is averaged over a day: a round may take an hour
ROWS = ("time", "model", "radio", "leakage", "updates", "privacy", "cost", "last", "found")


@contextmanager
def show_progress(args: Namespace, title: str) -> Generator[Watch, None, None]:
    """Yield the function that shows events, by the options --json and --quiet."""
    with Meter(title, args.quiet, args.json) as block:
        yield block.show_event


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
        self.task = self.add_task(to_one_line(title), total=None, far="preparing")
        self.first = self.again = Timer(FIRST_S, self.tell_again)

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

    def tell_again(self) -> None:
        """Say in a log what is done, where no line was written for a while."""
        if self.get_time() - self.shown_s >= AGAIN_S:
            task = self.tasks[0]
            shares = [f"{job.label} {job.measure_share():.0%}" for job, _ in under_way]
            text = ", ".join([task.fields["far"], *shares])
            write_stream(f"{task.description}: {text}\n", self.stream)
        self.again = Timer(AGAIN_S, self.tell_again)
        self.again.start()

    def get_renderables(self) -> Iterable[RenderableType]:
        """Return the bar, and rows of a name and a text."""
        yield self.make_tasks_table(self.tasks)
        rows = Table.grid(padding=(0, 2))
        for name in ROWS:
            if name in self.rows:
                rows.add_row(Text(f"  {name}", style="dim"), Text(self.rows[name]))
        yield rows

    def show_event(self, step: Event) -> None:
        """Show an event. Raises KeyboardInterrupt where the reader of JSON lines has gone."""
        event = step.to_json(self.title)
        unit = name_unit(event)
        now_s = self.get_time()
        rows = describe_event(event)
        if (
            counted := f"{event['event']} {event.get('label') if event['event'] == 'world' else ''}"
        ) != self.counted:
            self.counted = counted
            self.rows = {}
            self.reset(self.task)
        self.rows |= rows  # what a round leaves out stays
        done = event["done"]
        total = event["of"]
        far = f"{unit} {done} of {total}, {100 * done // max(total, 1)} %"
        self.update(
            self.task, completed=done, total=total, description=to_one_line(event["title"]), far=far
        )
        left_s = self.tasks[0].time_remaining
        left_s = None if left_s is None else max(left_s, 0.0)
        if self.quiet:
            return
        if self.as_json:
            if not emit({**event, "left_s": left_s}):
                raise KeyboardInterrupt
            return
        every_s = (
            DRAW_EVERY_S if self.on_screen else max(LOG_EVERY_S, (now_s - self.began_s) / LOG_SHARE)
        )
        if event["last"] or "summary" in event or now_s - self.shown_s >= every_s:
            self.shown_s = now_s
            if self.on_screen:
                self.refresh()
            else:
                left = (
                    "" if left_s is None or event["last"] else f"; {timedelta(seconds=left_s)} left"
                )
                texts = ", ".join(filter(None, [f"{unit} {done}/{total}", *rows.values()]))
                write_stream(f"{self.tasks[0].description}: {texts}{left}\n", self.stream)

    def __exit__(self, kind: type[BaseException] | None, *error: Value) -> None:
        """Leave a line of work that is done, and the last state of work that was ended."""
        self.first.cancel()
        self.again.cancel()
        self.live.transient = kind is None or not self.counted
        if not self.on_screen:  # Rich before 14.3 ends also what it never showed by an empty line
            return
        super().__exit__(kind, *error)
        if kind is None and self.counted:
            took = timedelta(seconds=round(self.get_time() - self.began_s))
            text = f"{self.tasks[0].description}: {self.tasks[0].fields['far']} in {took}"
            self.console.print(Text(text, style="dim", no_wrap=True, overflow="ellipsis"))


# -- an event in words


def name_unit(event: Record) -> str:
    """Return what an event counts."""
    if "merge" in event:
        return "window"
    if event["event"] in ("played", "failed"):
        return "run"
    return str(event["event"])


def describe_event(event: Record) -> dict[str, str]:
    """Return what an event says: name -> text, in the order in which rows stand; without those that
    are empty.
    """
    from scenarios.app.report.plot import render_template
    from scenarios.app.results.table import build_lines

    text = render_template(
        "event.txt",
        event=event,
        known=lambda value: isinstance(value, int | float) and isfinite(value),
        figure=format_figure,
        plain=to_one_line,
        build_lines=build_lines,
    )
    rows = (line.partition("=") for line in str(text).splitlines())
    return {name: row.strip() for name, _, row in rows if row}


OutcomeLines = tuple[Outcome, Sequence[str]]
"""what a folder says, and the same as lines: the first goes on a heading"""


def show_from_options(args: Namespace) -> None:
    """Print what a finished folder says, or each folder in it; where it is not finished, how to go
    on.
    """
    print_outcome(Path(args.folder), args)
    open_page(Path(args.folder), args)


def report_from_options(args: Namespace) -> None:
    """Draw the page."""
    from scenarios.app.report.report import write_report as draw

    page = draw(Path(args.folder), args.pages)
    if args.json:
        emit({"event": "result", "kind": "page", "folder": args.folder, "page": str(page)})
    else:
        say(f"page in {page}")
    open_page(Path(args.folder), args)


def compare_from_options(args: Namespace) -> None:
    """Draw the page of several folders, and print the answer and the table of main figures, or one
    for a paper.
    """
    from scenarios.app.report.report import write_comparison as draw
    from scenarios.app.results.gathered import gather_runs

    if args.table or args.figure or args.x or args.y:
        _write_for_paper(args)
        return
    if not args.out.endswith((".html", ".htm")):
        raise BadInput(f"--out {args.out}: give the name of a page, such as compare.html")
    folders = [Path(name) for name in args.folders]
    path = Path(args.out)
    page = draw(folders, path, join_command_line(), args.pages, args.reach)
    gathering = gather_runs(folders)
    runs = [{"label": label, "folder": str(folder)} for label, folder in gathering.runs]
    outcome = build_comparison_outcome(
        gathering,
        path.parent,
        values={"runs": runs, "left_out": gathering.missing, "notes": gathering.remarks},
    )
    if args.json:
        emit_outcome(outcome, page=str(page))
    else:
        goal = ""
        if args.reach:
            goal = f"when models reach {args.reach:g}, and what is named by then: on the page"
        for line in lay_out_screen(outcome, {"reach": goal, "page": str(page)})[1:]:
            say(f"  {line}")
    _show_page(page, args)


def _write_for_paper(args: Namespace) -> None:
    from scenarios.app.report.paper_figure import write_figure
    from scenarios.app.report.plot import render_template
    from scenarios.app.report.report import write_page
    from scenarios.app.result import open_sweep

    if args.pages or args.reach or args.open or args.json:
        raise BadInput("--table, --figure: leave --pages, --reach, --open and --json out")
    tables = open_sweep(*args.folders).tables
    if args.figure or args.x or args.y:
        left_out = write_figure(tables, args.x, args.y, Path(args.figure))
        say(f"figure in {args.figure}; labels left out, without finite numbers: {left_out}")
    if args.table:
        text = render_template(
            "table.txt",
            form=args.table,
            tables=tables,
            tuned=map(read_adapted_rows, map(Path, args.folders)),
            format_figure=format_figure,
        )
        if args.out == "compare.html":
            say(text, end="")
        else:
            write_page(Path(args.out), text, text.partition("\n")[0])


def cite_from_options(args: Namespace) -> None:
    """Print BibTeX of what a scenario, or the studies in a folder, use."""
    from scenarios.app.results.cite import cite

    say(cite(args.study), end="")


def _export_updates(args: Namespace) -> None:
    """Play a run again, and write the updates of its UEs into a folder."""
    from scenarios.app.updates import export_updates

    if not args.out:
        raise BadInput("export --updates: give --out, a new folder")
    with Meter("export", args.quiet) as block:
        n_files = export_updates(Path(args.folder), Path(args.out), block.show_event)
    say(f"{n_files:,} files of updates in {args.out}, a folder of learner recorded")


def export_from_options(args: Namespace) -> None:
    """Write the tracks of a run for maps elsewhere, or its updates."""
    from scenarios.app.report.report import write_page

    if args.updates:
        _export_updates(args)
        return
    folder = Path(args.folder)
    run = load_finished_run(folder)
    globe = Globe.from_run(folder, run, parse_origin_deg(args.origin))
    out = Path(args.out or folder / EXPORT)
    write_page(out, to_geojson(run, globe), BEGINNING)
    if np.isfinite(run.get_rows("tracks")["x_m"]).any():
        say(f"tracks in {out}")
    else:
        say(
            f"no track: they are taken every {run.manifest.tracks.every_s:,g} s, and no UE was "
            "there then; play it with a shorter world.tick_s. What else there is stands in "
            f"{out}"
        )
    if not globe.is_known:
        lat, lon = globe.origin_deg
        say(
            f"  this run has no geographic origin; its south-west corner was put at "
            f"{lat:g}, {lon:g} (--origin=LAT,LON)"
        )


def parse_origin_deg(text: str | None, option: str = "--origin") -> FloatPair | None:
    """Return latitude and longitude, of an option."""
    if text is None:
        return None
    try:
        lat, lon = map(float, text.split(","))
    except ValueError:
        raise BadInput(
            f"{option} {text}: write LAT,LON in degrees, for example {option}=48.8566,2.3522"
        ) from None
    if not (abs(lat) <= 90 and abs(lon) <= 180):
        raise BadInput(f"{option} {text}: latitude is -90 to 90 and longitude -180 to 180 degrees")
    return lat, lon


def open_page(folder: Path, args: Namespace) -> None:
    """With --open: show the page of a folder, drawn first if need be."""
    from scenarios.app.report.report import write_report as draw

    if args.open:
        _show_page(folder / PAGE if describe_file_kind(folder / PAGE) else draw(folder), args)


def _show_page(page: Path, args: Namespace) -> None:
    """With --open: show a page; without a browser a line tells its path."""
    if args.open and not show_page(page) and not args.json:
        say(f"  no browser here; open {page}")


def print_outcome(folder: Path, args: Namespace, title: str = "", run: Run | None = None) -> None:
    """Print what a finished folder says, by the options --json and --verbose. BadInput: it is not
    finished.

    run : that of the folder, where it is at hand.
    """
    verbose = getattr(args, "verbose", False)
    outcome, lines = (
        describe_folder(folder, verbose) if run is None else _describe_run(run, verbose)
    )
    if args.json:
        emit_outcome(outcome, folder)
        return
    heading, *rest = lines
    for line in (f"{title or folder}{heading}", *(f"  {line}" for line in rest)):
        say(to_one_line(line))


def emit_outcome(outcome: Outcome, folder: Path | None = None, page: str | None = None) -> None:
    """The last line of `--json`: what was found, in which folder, where its page lies (null: it is
    not drawn).
    """
    places = {"page": page}
    if folder is not None:
        places = {"folder": str(folder), "page": _find_page(folder)}
    answer = [{"asked": question, "text": text} for question, text in outcome.answers]
    emit(
        {
            "event": "result",
            "kind": outcome.kind,
            **places,
            "title": outcome.title,
            "answer": answer,
            "notices": [*map(asdict, outcome.notices)],
            **outcome.values,
        }
    )


def describe_folder(folder: Path, verbose: bool = False) -> OutcomeLines:
    """Return what a folder says. BadInput: nothing of ours lies there, or something that is not
    finished, and how to go on.
    """
    if describe_file_kind(folder) != "folder":
        raise BadInput(
            f"{folder}: no such folder; give the folder of a run, a sweep, a replay or a training"
        )
    return OUTCOMES[detect_kind(folder)](folder, verbose)


def describe_folders(folder: Path, verbose: bool = False) -> OutcomeLines:
    """Return what a folder of folders says: each by itself, below its path; of one that is not
    finished how it goes on.
    """
    lines = [""]
    runs = []
    folders = []
    for path in _find_result_folders(folder):
        try:
            outcome, (heading, *rest) = describe_folder(path, verbose)
        except BadInput as error:
            outcome = Outcome("unfinished", "")
            heading = str(error).removeprefix(str(path))
            rest = []
        name = str(path.relative_to(folder))
        lines += [f"{name}{heading}", *(f"  {line}" for line in rest)]
        folders.append({"folder": str(path), "kind": outcome.kind})
        if outcome.kind in ("run", "radio"):
            runs += [_read_labelled_run(name, path)]
    if not folders:
        raise BadInput(
            f"{folder}: no result of netsim in it; give a folder that netsim wrote, or "
            f"one above such folders"
        )
    if page := _find_page(folder):
        lines.append(f"records in {folder}, page: {page}")
    return Outcome("runs", folder.resolve().name, values={"runs": runs, "folders": folders}), lines


def _find_result_folders(folder: Path) -> Iterator[Path]:
    """Yield folders of results in a folder, however deep."""
    for path in sorted(filter(Path.is_dir, folder.iterdir())):
        with suppress(BadInput, OSError):  # a marker of others, a folder that cannot be read
            if detect_kind(path):
                yield path
            elif not path.is_symlink():
                yield from _find_result_folders(path)


def _describe_run(run: Run, verbose: bool) -> OutcomeLines:
    return build_run_outcome(run), lay_out_run(run, _describe_page(run.folder), verbose)


def _read_labelled_run(label: str, run: Path) -> Fields:
    return {
        "label": label,
        "seed": read_json(find_record_file(run)).get("seed"),
        "folder": str(run),
        "summary": read_summary(run),
    }


def _describe_sweep(folder: Path, _: bool) -> OutcomeLines:
    gathering = gather_sweep(folder)
    tuned = read_search_result(folder)
    values = {
        "table": str(folder / RUNS),
        "runs": [_read_labelled_run(*failure) for failure in gathering.runs],
        "adapted": read_adapted_rows(folder)[0],
        "tuned": tuned and tuned.model_dump(),
        "failures": [*map(asdict, read_failures(folder))],
    }
    outcome = build_comparison_outcome(gathering, folder, "sweep", values)
    return outcome, lay_out_screen(
        outcome, {"runs": str(folder / RUNS), "page": _describe_page(folder)}
    )


def _describe_training(folder: Path, _: bool) -> OutcomeLines:
    from scenarios.app.report.training_page import Seeds, build_training_outcome

    outcome = build_training_outcome(Seeds.from_folder(folder))
    lines = lay_out_screen(outcome, {"policy": str(folder), "page": _describe_page(folder)})
    outcome.values["lines"] = lines[1:-2]
    return outcome, lines


OUTCOMES: dict[str, Callable[[Path, bool], OutcomeLines]] = {
    "training": _describe_training,
    "sweep": _describe_sweep,
    "run": lambda folder, verbose: _describe_run(open_finished_run(folder), verbose),
    "": describe_folders,
}
"""kind of a folder -> what it says, in all its keys or only the main ones"""


def _find_page(folder: Path) -> str | None:
    """Return the page of a folder; None where it is not drawn."""
    if describe_file_kind(folder / PAGE):
        return str(folder / PAGE)
    return None


def _describe_page(folder: Path) -> str:
    """Return the page, or how to have one."""
    return _find_page(folder) or f"not drawn yet: netsim report {folder}"
