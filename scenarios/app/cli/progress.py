"""Progress of a command: a block on a terminal, a few plain lines in a log, or lines of JSON.

It goes to stderr, so that results can be piped; with `--json` progress and results are both lines on stdout.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import timedelta
from math import isfinite
from typing import Any, TextIO, cast

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from netsim.errors import one_line
from scenarios.app.cli.output import Lenient, emit, write
from scenarios.app.results.statistics import figure_text
from scenarios.app.study import Record

DRAW_EVERY_S = 0.1
LOG_EVERY_S = 2.0
LOG_SHARE = 30.0  # a log of a long run has a line for every thirtieth of the time so far
PACE_S = 86_400.0  # the pace is averaged over a day: a round may take an hour
ROWS = ("time", "model", "radio", "leakage", "updates", "privacy", "cost", "last", "found")

Event = Any
Tell = Callable[[Event], None]


@contextmanager
def teller(args: argparse.Namespace, title: str) -> Generator[Tell, None, None]:
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
        self.title, self.quiet, self.as_json, self.stream = title, quiet, as_json, stream or sys.stderr
        self.on_screen = not (quiet or as_json) and can_rewrite(self.stream, os.environ)
        self.counted, self.rows, self.began_s, self.shown_s = "", dict[str, str](), clock(), -float("inf")
        super().__init__(
            TextColumn("{task.description}", style="bold", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[far]}", markup=False),
            TimeRemainingColumn(),
            console=Console(file=cast(TextIO, Lenient(self.stream)), force_terminal=self.on_screen, highlight=False),
            auto_refresh=False, transient=True, speed_estimate_period=PACE_S, get_time=clock,
            redirect_stdout=False, redirect_stderr=False, disable=not self.on_screen,
        )  # fmt: skip
        self.task = self.add_task(one_line(title), total=None, far="preparing")

    def start(self) -> None:
        """Show the block; the cursor stays visible, so that nothing has to be restored however a command ends."""
        super().start()
        if self.on_screen:
            self.console.show_cursor(True)

    def get_renderables(self) -> Iterable[RenderableType]:
        """The bar, and rows of a name and a text."""
        yield self.make_tasks_table(self.tasks)
        rows = Table.grid(padding=(0, 2))
        for name in ROWS:
            if name in self.rows:
                rows.add_row(Text(f"  {name}", style="dim"), Text(self.rows[name]))
        yield rows

    def tell(self, event: Event) -> None:
        """Show an event. Raises KeyboardInterrupt where the reader of JSON lines has gone."""
        event = event if isinstance(event, Mapping) else event.line(self.title)
        unit, now_s = unit_of(event), self.get_time()
        rows = rows_of(event)
        if (counted := f"{event['event']} {event.get('label') if event['event'] == 'world' else ''}") != self.counted:
            self.counted, self.rows = counted, {}
            self.reset(self.task)
        self.rows |= rows  # what a round leaves out stays
        done, of = event["done"], event["of"]
        far = f"{unit} {done} of {of}, {100 * done // max(of, 1)} %"
        self.update(self.task, completed=done, total=of, description=one_line(event["title"]), far=far)
        left_s = self.tasks[0].time_remaining
        left_s = None if left_s is None else max(left_s, 0.0)
        if self.quiet:
            return
        if self.as_json:
            if not emit({**event, "left_s": left_s}):
                raise KeyboardInterrupt
        elif event["last"] or self._due(now_s):
            self.shown_s = now_s
            if self.on_screen:
                self.refresh()
            else:
                left = "" if left_s is None or event["last"] else f"; {timedelta(seconds=left_s)} left"
                texts = ", ".join(filter(None, [f"{unit} {done}/{of}", *rows.values()]))
                write(f"{self.tasks[0].description}: {texts}{left}\n", self.stream)

    def _due(self, now_s: float) -> bool:
        """Whether it is time to show something again."""
        every_s = DRAW_EVERY_S if self.on_screen else max(LOG_EVERY_S, (now_s - self.began_s) / LOG_SHARE)
        return now_s - self.shown_s >= every_s

    def __exit__(self, kind: type[BaseException] | None, *error: Any) -> None:
        """Leave a line of work that is done, and the last state of work that was ended."""
        self.live.transient = kind is None or not self.counted
        super().__exit__(kind, *error)
        if self.on_screen and kind is None and self.counted:
            took = timedelta(seconds=round(self.get_time() - self.began_s))
            text = f"{self.tasks[0].description}: {self.tasks[0].fields['far']} in {took}"
            self.console.print(Text(text, style="dim", no_wrap=True, overflow="ellipsis"))


def can_rewrite(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether lines can be written over: on a terminal that says that it is more than dumb."""
    return stream.isatty() and environment.get("TERM", "") not in ("", "dumb", "unknown")


# -- an event in words


def unit_of(event: Record) -> str:
    """What an event counts."""
    if "merge" in event:
        return "window"
    return "run" if event["event"] in ("played", "failed") else str(event["event"])


def rows_of(event: Record) -> dict[str, str]:
    """What an event says: name -> text, in the order in which rows stand; without those that are empty."""
    label = str(event.get("label", ""))
    rows = {
        "time": str(event.get("clock", "")),
        "model": _model(event),
        "radio": _radio(event),
        "leakage": _leakage(event),
        "updates": _updates(event),
        "privacy": f"epsilon {event['epsilon']:.3g}" if "epsilon" in event else "",
        "cost": f"cost {figure_text(event['cost'])}" if "cost" in event else "",
        "last": f"{label}, seed {event['seed']}" if "seed" in event else label,
        "found": _found(event),
    }
    return {name: one_line(text) for name, text in rows.items() if text}


def _model(event: Record) -> str:
    """The score of the model, by whichever measure it has."""
    scores = [form.format(figure_text(event[key])) for key, form in _SCORES.items() if _known(event, key)]
    if _known(event, "rmse_db") and _known(event, "constant_rmse_db"):
        scores.append(f"(constant {figure_text(event['constant_rmse_db'])} dB)")
    return " ".join(scores)


def _radio(event: Record) -> str:
    if "sinr_db" not in event:
        return ""
    median = f"median SINR {event['sinr_db']:.1f} dB" if _known(event, "sinr_db") else "no UE is present"
    return median if event.get("handovers") is None else f"{median}, {event['handovers']:,} handovers"


def _leakage(event: Record) -> str:
    """Homes that each attack names now; of those that can name none, the centroid error."""
    homes, errors = [], []
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
    text = f"{event['decoded']} of {event['updates']} updates decoded" if event["updates"] else "no updates"
    if event.get("stopped"):
        text = "not played: it would exceed learning.privacy_budget"
    return f"merge {event['merge']:,}: {text}" if "merge" in event else text


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


_SCORES = {"accuracy_percent": "accuracy {} %", "rank_correlation": "rank correlation {}", "rmse_db": "RMSE {} dB"}
