"""Progress of a command: a block on a terminal, plain lines in a log (not too many), or lines of JSON.

It goes to stderr, so that results can be piped; with `--json` progress and results are both lines on stdout.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from itertools import zip_longest
from types import TracebackType
from typing import Protocol, Self, TextIO

from scenarios.app.cli.events import Event
from scenarios.app.cli.output import emit, write
from scenarios.app.cli.screen import Line, Screen, bar, can_rewrite, cells
from scenarios.app.cli.time_left import TimeLeft, rounded_text, span_text
from scenarios.app.cli.views import ROWS, View, view_of
from scenarios.app.study.yaml_document import one_line

DRAW_EVERY_S = 0.1
LOG_EVERY_S = 2.0
LOG_SHARE = 30.0  # a log of a long run has a line for every thirtieth of the time so far
_NAMES, _BAR, _SHORTEST_BAR, _READABLE = 9, 30, 6, 24  # columns


class Teller(Protocol):
    """Whoever is told of events while a command works."""

    def __call__(self, event: Event) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def teller(args: argparse.Namespace, title: str, prepares: bool = True) -> Teller:
    """Who tells of the progress of a command, by its options `--json` and `--quiet`.

    prepares : whether time passes before the first event that says nothing of the pace of the others.
    """
    if args.json:
        return JsonLines(args.quiet, prepares)
    return Meter(title, args.quiet, prepares=prepares)


class JsonLines:
    """Each event as a line of JSON, with the seconds that are left by the pace so far."""

    def __init__(self, quiet: bool, prepares: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self.quiet, self.clock = quiet, clock
        self.left = TimeLeft(clock(), prepares)

    def __enter__(self) -> Self:
        return self

    def __call__(self, event: Event) -> None:
        left_s = self.left.after(event["done"], event["of"], self.clock(), _counted(event))
        if not self.quiet and not emit({**event, "left_s": left_s}):
            raise KeyboardInterrupt  # whoever listened has gone: to the work that is a signal to end

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


class Meter:
    """Shows how far the work is, what it found so far, and the time left."""

    def __init__(
        self,
        title: str,
        quiet: bool = False,
        stream: TextIO | None = None,
        prepares: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.title, self.quiet, self.stream, self.clock = one_line(title), quiet, stream or sys.stderr, clock
        self.screen = Screen(self.stream, os.environ) if can_rewrite(self.stream, os.environ) else None
        self.began_s = clock()
        self.left = TimeLeft(self.began_s, prepares)
        self.written_s: float | None = None
        self.rows: dict[str, str] = {}
        self.counted = ""
        self.last: View | None = None

    def __enter__(self) -> Self:
        if self.screen is not None and not self.quiet:
            self.screen.draw([[(self.title, "bold"), ("  preparing", "dim")]])
        return self

    def __call__(self, event: Event) -> None:
        now_s, view = self.clock(), view_of(event)
        left_s = self.left.after(view.done, view.of, now_s, _counted(event))
        if (counted := _counted(event)) != self.counted:  # rows of other steps say nothing any more
            self.rows, self.counted = {}, counted
        self.title, self.last = one_line(event["title"]), view
        self.rows |= {name: one_line(text) for name, text in view.rows.items()}  # what a round leaves out stays
        if self.quiet or not (event["last"] or self._due(now_s)):
            return
        self.written_s = now_s
        if self.screen is not None:
            self.screen.draw(self._block(view, left_s, self.screen.size()[0]))
        else:
            left = f"; {_left_text(left_s)}" if left_s and not event["last"] else ""
            texts = [f"{view.unit} {view.done}/{view.of}", *(one_line(text) for text in view.rows.values())]
            write(f"{self.title}: {', '.join(texts)}{left}\n", self.stream)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Work that is done leaves a line; of work that was ended the last state stays to be read."""
        if self.screen is None or self.quiet or (kind is not None and self.last is not None):
            return
        self.screen.clear()
        if kind is None and self.last is not None:
            took = span_text(self.clock() - self.began_s)
            self.screen.draw(
                [[(f"{self.title}: {self.last.done} of {self.last.of} {self.last.unit}s in {took}", "dim")]]
            )

    def _due(self, now_s: float) -> bool:
        """Whether it is time to show something again."""
        if self.written_s is None:
            return True
        every_s = DRAW_EVERY_S if self.screen else max(LOG_EVERY_S, (now_s - self.began_s) / LOG_SHARE)
        return now_s - self.written_s >= every_s

    def _block(self, view: View, left_s: float | None, columns: int) -> list[Line]:
        """Title, bar and time left on a line, or on two where they do not fit; then the rows."""
        share = view.done / view.of if view.of else 1.0
        left = (
            ("done" if view.unit == "world" else "finishing")  # more follows after worlds
            if view.done >= view.of
            else _left_text(left_s)
            if left_s is not None
            else "how long is not known yet"
        )
        far = f"{view.unit} {view.done} of {view.of}, {int(100 * share)} %  {left}"
        title: Line = [(self.title, "bold")]
        room = columns - 1 - cells(self.title) - cells(far) - 4
        if room >= _SHORTEST_BAR:
            head: list[Line] = [[*title, ("  ", ""), *bar(share, min(room, _BAR), self.stream), (f"  {far}", "")]]
        else:
            head = [title, [(far, "")]]
        return [*head, *(line for row in self._ordered() for line in _row(*row, columns - 1))]

    def _ordered(self) -> list[tuple[str, str]]:
        """The rows that are known, each where it always stands."""
        return sorted(self.rows.items(), key=lambda row: ROWS.index(row[0]))


def _counted(event: Event) -> str:
    """What is counted: steps of one kind, or worlds for one purpose."""
    return f"{event['event']} {event['label']}" if event["event"] == "world" else str(event["event"])


def _row(name: str, text: str, columns: int) -> Iterator[Line]:
    """A name and its text, on as many lines as it needs; where there is hardly room, on one that is cut."""
    room = columns - _NAMES - 2
    pieces = textwrap.wrap(text, room) if room >= _READABLE else [text]
    for head, piece in zip_longest([name], pieces, fillvalue=""):
        yield [(f"  {head:<{_NAMES}}", "dim"), (piece, "")]


def _left_text(left_s: float) -> str:
    return f"about {rounded_text(left_s)} left"
