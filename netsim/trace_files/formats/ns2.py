"""ns-2 movement files (setdest, BonnMotion, VANET traces): events integrated exactly, then sampled."""

import math
import re
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.errors import BadInput
from netsim.notice import notice
from netsim.trace_files.formats.base import TraceFormat
from netsim.traces.source import Source
from netsim.traces.table import FixBuilder
from netsim.traces.values import number, shown
from netsim.units import BoolArray, FloatArray

MOST_ROWS = 10**8
_EVENT = re.compile(
    r"""\s*(?:\$\w+\s+at\s+(?P<time>\S+)\s+")?\$\w+\((?P<node>\w+)\)\s+(?P<verb>set|setdest|switch)\s+(?P<rest>[^";#]*)"?\s*"""
)
_STATEMENTS = re.compile(r"""(?:[^;"]|"[^"]*"?)+""")  # of a line; a semicolon in quotes ends none
_OF_NODES = re.compile(r"\bsetdest\b|\)\s+(set\s+[XY]_|switch\s+O(N|FF))\b")
_BEFORE_ALL_S = -1.0  # of an initial position: sorts before the events at 0 s
_Event = tuple[float, str, tuple[float, ...]]
"""Time, X_, Y_, setdest, ON or OFF, and numbers."""


class Ns2(TraceFormat):
    """ns-2 movement file (setdest).

    A node stands at its ``set X_``, ``set Y_`` (at (0, 0) without) until ``$ns_ at t "$node_(i) setdest x y v"`` sends
    it in a straight line at v m/s; there it stands. An event that comes earlier turns it where it is at that time. A
    node that the file switches OFF is absent, and so is one whose first switch is ON, until then. All others are there
    from 0 s to the end, for the format does not say when a node is present. Only plain statements are read, not those
    of loops, conditions and procedures. All else in the file is passed over.
    """

    kind: Literal["ns2"] = "ns2"
    sample_s: float = Field(1.0, gt=0)
    """time between rows, from 0 s until the last event is over and all nodes have arrived, s"""
    endings: ClassVar[tuple[str, ...]] = (".mob", ".ns_movements", ".ns2")
    content: ClassVar[str] = r"(?m)^[ \t]*\$(ns_ at |node_\()"  # below comments of any length
    reference = "The ns Manual, chapter 16"

    def read(self, fixes: FixBuilder) -> None:
        nodes = {name: _Movement(events) for name, events in _events(Source(fixes.path, "ns-2 movement")).items()}
        end_s = max((node.end_s for node in nodes.values()), default=0.0)
        n_ticks = end_s / self.sample_s + 1 + 1e-9
        if not n_ticks * len(nodes) <= MOST_ROWS:
            raise BadInput(
                f"{fixes.path}: sample_s: {self.sample_s:g} makes {n_ticks * len(nodes):.3g} rows in {end_s:,.10g} s, "
                f"at most {MOST_ROWS:,} are read; take a larger sample_s"
            )
        tick_s = np.arange(math.floor(n_ticks), dtype=float) * self.sample_s
        for name, node in nodes.items():
            time_s = tick_s[node.is_on(tick_s)]
            x_m, y_m = node.position_m(time_s)
            user = np.full(len(time_s), fixes.user(name))
            fixes.add(fixes.path, np.zeros(len(time_s)), {"user": user, "time_s": time_s, "x_m": x_m, "y_m": y_m})
        n_always = sum(not node.switches for node in nodes.values())
        if n_always:
            fixes.notices.append(notice("trace-nodes-present", number=n_always, total=len(nodes)))


class _Movement:
    """Straight lines at constant speed between the points (time, x, y) of a node; after the last it stands."""

    def __init__(self, events: list[_Event]) -> None:
        self.points = [(0.0, 0.0, 0.0), (0.0, 0.0, 0.0)]
        self.switches: list[tuple[float, bool]] = []
        self.end_s = 0.0
        for time_s, verb, values in sorted(events, key=lambda event: event[0]):
            self._add(max(time_s, 0.0), verb, values)
        self.end_s = max(self.end_s, self.points[-1][0])

    def _add(self, time_s: float, verb: str, values: tuple[float, ...]) -> None:
        self.end_s = max(self.end_s, time_s)
        if verb in ("ON", "OFF"):
            self.switches.append((time_s, verb == "ON"))
            return
        (start_s, x0, y0), (stop_s, x, y) = self.points[-2:]
        if time_s < stop_s:  # it turns on its way
            share = (time_s - start_s) / (stop_s - start_s)
            x = x0 + share * (x - x0)
            y = y0 + share * (y - y0)
            self.points.pop()
        to_x, to_y, speed = {"X_": (values[0], y, math.inf), "Y_": (x, values[0], math.inf)}.get(verb, values)
        self.points.append((time_s, x, y))
        if speed:
            self.points.append((time_s + math.hypot(to_x - x, to_y - y) / speed, to_x, to_y))

    def position_m(self, time_s: FloatArray) -> list[FloatArray]:
        at_s, *axes_m = np.array(self.points).T
        return [np.interp(time_s, at_s, axis_m) for axis_m in axes_m]

    def is_on(self, time_s: FloatArray) -> BoolArray:
        first = not self.switches or not self.switches[0][1]
        switched_s, on = np.array([(-math.inf, first), *self.switches]).T
        return on[np.searchsorted(switched_s, time_s, side="right") - 1] > 0


def _events(source: Source) -> dict[str, list[_Event]]:
    nodes = dict[str, list[_Event]]()
    opened = list[int]()  # the lines on which blocks of Tcl begin that are open
    for line, text in enumerate(source.lines(), 1):
        for statement in _statements(text):
            match = _EVENT.fullmatch(statement) or _EVENT.fullmatch(statement.partition("#")[0])
            plain = match is not None and not opened
            if not plain and (match is not None or _OF_NODES.search(statement.partition("#")[0])):
                inside = f" in the block that begins at line {opened[0]}" if opened else ""
                problem = f"{shown(statement.strip())}{inside} is no plain statement such as"
                example = '$ns_ at TIME "$node_(ID) setdest X Y SPEED"'
                source.refuse(line, f"{problem} {example}; write it out, only such are read")
            if match is not None and (event := _event(source, line, match)):
                nodes.setdefault(match["node"], []).append(event)
            opened += [line] * statement.count("{")
            del opened[len(opened) - min(statement.count("}"), len(opened)) :]
    return nodes


def _statements(text: str) -> Iterator[str]:
    """The statements of a line, up to a comment."""
    for statement in _STATEMENTS.findall(text.rstrip("\n")):
        if statement.lstrip().startswith("#"):
            return
        yield statement


def _event(source: Source, line: int, match: re.Match[str]) -> _Event | None:
    """An event, None for a statement that moves no node."""

    def read(name: str, text: str) -> float:
        value = number(text)
        above = name in ("time", "speed")
        if not math.isfinite(value) or (above and value < 0):
            bound = "a number from 0 on" if above else "a number"
            source.refuse(line, f"{name} {shown(text)} is not {bound}; correct or remove the line")
        return value

    verb = match["verb"]
    rest = match["rest"].split()
    time_s = _BEFORE_ALL_S if match["time"] is None else read("time", match["time"])
    if verb == "setdest":
        if len(rest) != 3:
            problem = f"setdest with {len(rest)} numbers; it takes x, y and speed"
            source.refuse(line, f"{problem}; correct or remove the line")
        return time_s, verb, tuple(map(read, ("x", "y", "speed"), rest))
    if verb == "switch":
        return (time_s, rest[0], ()) if rest and rest[0] in ("ON", "OFF") else None
    if len(rest) == 2 and rest[0] in ("X_", "Y_"):
        return time_s, rest[0], (read(*rest),)
    return None
