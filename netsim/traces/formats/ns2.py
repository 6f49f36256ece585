"""ns-2 movement files (setdest, BonnMotion, VANET traces): events integrated exactly, then sampled.

A node stands at its ``set X_``, ``set Y_`` (at (0, 0) without) until ``$ns_ at t "$node_(i) setdest x y v"`` sends it
in a straight line at v m/s; there it stands. An event that comes earlier turns it where it is at that time. A node
that the file switches OFF is absent, and so is one whose first switch is ON, until then. All others are there from 0 s
to the end, for the format does not say when a node is present. Only plain statements are read, not those of loops,
conditions and procedures. All else in the file is passed over.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from netsim.columns import no_places
from netsim.errors import BadInput
from netsim.traces.crs import in_metres
from netsim.traces.source import Source
from netsim.traces.table import Table, moves
from netsim.traces.values import Codes, number, shown
from netsim.units import BoolArray, FloatArray, IntArray

MOST_ROWS = 10**8
_EVENT = re.compile(
    r"""\s*(?:\$\w+\s+at\s+(?P<time>\S+)\s+")?\$\w+\((?P<node>\w+)\)\s+(?P<verb>set|setdest|switch)\s+(?P<rest>[^";#]*)"?\s*"""
)
_STATEMENTS = re.compile(r"""(?:[^;"]|"[^"]*"?)+""")  # of a line; a semicolon in quotes ends none
_OF_NODES = re.compile(r"\bsetdest\b|\)\s+(set\s+[XY]_|switch\s+O(N|FF))\b")
_SET_X, _SET_Y, _SETDEST, _ON, _OFF = range(5)
_BEFORE_ALL_S = -1.0  # of an initial position: sorts before the events at 0 s


def read_ns2(path: str, crs: str, sample_s: float) -> Table:
    """Rows at the multiples of `sample_s` from 0 s until the last event is over and all nodes have arrived."""
    if not 0.0 < sample_s < math.inf:
        raise BadInput(f"{path}: sample_s: {sample_s!r} is not above 0 and finite; use 1")
    source = Source(path, "ns-2 movement")
    events = _read(source)
    nodes = [_node(events, rows) for rows in _by_node(events)]
    end_s = max((node.end_s for node in nodes), default=0.0)
    n_rows = (math.floor(end_s / sample_s + 1e-9) + 1) * len(nodes)
    if n_rows > MOST_ROWS:
        raise BadInput(
            f"{path}: sample_s: {sample_s:g} makes {n_rows:.3g} rows in {end_s:g} s, at most {MOST_ROWS:.0e} are read; "
            "take a larger sample_s"
        )
    all_s: FloatArray = np.arange(math.floor(end_s / sample_s + 1e-9) + 1, dtype=np.float64) * sample_s
    on_s = [all_s[node.on(all_s)] for node in nodes]
    at_m = [node.position_m(times) for node, times in zip(nodes, on_s, strict=True)]
    xy_m = np.concatenate([no_places(), *at_m])
    user = np.repeat(np.arange(len(nodes), dtype=np.int32), [len(times) for times in on_s])
    points = in_metres(path, crs, xy_m[:, 0].copy(), xy_m[:, 1].copy())
    time_s = np.concatenate([np.zeros(0), *on_s])
    n_switched = sum(len(node.switch_s) > 0 for node in nodes)
    note = (
        f"{len(nodes) - n_switched:,} of {len(nodes):,} nodes are taken to be there from 0 s to the end: an ns-2 file"
    )
    notes = (
        (f"{note} does not say when a node is present, but for switches ON and OFF",) if n_switched < len(nodes) else ()
    )
    return moves(path, source.n_bytes, "ns2", time_s, user, tuple(events.nodes), points, notes)


@dataclass(frozen=True)
class _Events:
    """Columns in the order of the file: x and y are a position or a destination, `speed` in m/s."""

    nodes: dict[str, int] = field(default_factory=dict)
    node: array[int] = field(default_factory=lambda: array("i"))
    verb: array[int] = field(default_factory=lambda: array("b"))
    time_s: array[float] = field(default_factory=lambda: array("d"))
    x: array[float] = field(default_factory=lambda: array("d"))
    y: array[float] = field(default_factory=lambda: array("d"))
    speed: array[float] = field(default_factory=lambda: array("d"))

    def add(self, node: str, verb: int, time_s: float, x: float = 0.0, y: float = 0.0, speed: float = 0.0) -> None:
        self.node.append(self.nodes.setdefault(node, len(self.nodes)))
        self.verb.append(verb)
        for column, value in zip((self.time_s, self.x, self.y, self.speed), (time_s, x, y, speed), strict=True):
            column.append(value)


@dataclass(frozen=True, eq=False)
class _Node:
    """Legs by their start: from start (n, 2) by `way` (n, 2) within `duration_s`; then it stands. Switches by time."""

    start_s: FloatArray
    start_m: FloatArray
    way_m: FloatArray
    duration_s: FloatArray
    switch_s: FloatArray
    switched_on: BoolArray
    end_s: float

    def position_m(self, time_s: FloatArray) -> FloatArray:
        """Positions (n, 2) at times (n,)."""
        leg = np.searchsorted(self.start_s, time_s, side="right") - 1
        share = np.minimum((time_s - self.start_s[leg]) / self.duration_s[leg], 1.0)
        return self.start_m[leg] + share[:, None] * self.way_m[leg]

    def on(self, time_s: FloatArray) -> BoolArray:
        """Whether it is there at times (n,)."""
        first = not (len(self.switched_on) and self.switched_on[0])
        return np.append(first, self.switched_on)[np.searchsorted(self.switch_s, time_s, side="right")]


def _read(source: Source) -> _Events:
    events, opened = _Events(), list[int]()  # the lines on which blocks of Tcl begin that are open
    for first, text in source.blocks():
        for line, words in enumerate(text.split("\n"), first):
            for statement in _STATEMENTS.findall(words):
                if statement.lstrip().startswith("#"):  # to the end of the line
                    break
                match = _EVENT.fullmatch(statement) or _EVENT.fullmatch(statement.partition("#")[0])
                if _OF_NODES.search(statement.partition("#")[0]) if match is None else opened:
                    inside = f" in the block that begins at line {opened[0]}" if opened else ""
                    problem = f"{shown(statement.strip())}{inside} is no plain statement such as"
                    example = '$ns_ at TIME "$node_(ID) setdest X Y SPEED"'
                    raise BadInput(f"{source.path}: line {line}: {problem} {example}; write it out, only such are read")
                if match is not None:
                    _add(events, f"{source.path}: line {line}", match)
                opened += [line] * statement.count("{")
                del opened[len(opened) - min(statement.count("}"), len(opened)) :]
    return events


def _add(events: _Events, where: str, match: re.Match[str]) -> None:
    node, verb, rest = match["node"], match["verb"], match["rest"].split()
    time_s = _BEFORE_ALL_S if match["time"] is None else _number(where, "time", match["time"], low=0.0)
    if verb == "switch" and rest and rest[0] in ("ON", "OFF"):
        events.add(node, _ON if rest[0] == "ON" else _OFF, time_s)
    elif verb == "set" and len(rest) == 2 and rest[0] in ("X_", "Y_"):
        value = _number(where, rest[0], rest[1])
        events.add(node, _SET_X if rest[0] == "X_" else _SET_Y, time_s, value, value)
    elif verb == "setdest":
        if len(rest) != 3:
            problem = f"setdest with {len(rest)} numbers; it takes x, y and speed"
            raise BadInput(f"{where}: {problem}; correct or remove the line")
        x, y = _number(where, "x", rest[0]), _number(where, "y", rest[1])
        events.add(node, _SETDEST, time_s, x, y, _number(where, "speed", rest[2], low=0.0))


def _number(where: str, name: str, text: str, low: float = -math.inf) -> float:
    value = number(text)
    if not (math.isfinite(value) and value >= low):
        bound = "a number" if low < 0 else f"a number from {low:g} on"
        raise BadInput(f"{where}: {name} {shown(text)} is not {bound}; correct or remove the line")
    return value


def _by_node(events: _Events) -> Iterator[IntArray]:
    """The events of each node, by time and then as in the file."""
    node: Codes = np.array(events.node, dtype=np.int32)
    order = np.lexsort((np.array(events.time_s), node))
    edges = np.searchsorted(node[order], np.arange(len(events.nodes) + 1))
    return (order[first:end] for first, end in pairwise(edges))


def _node(events: _Events, rows: IntArray) -> _Node:
    """Exact: between two events the motion is a straight line at constant speed, or none."""
    legs = [(0.0, 0.0, 0.0, 0.0, 0.0, 1.0)]
    switches: list[tuple[float, bool]] = []
    end_s = 0.0
    for row in rows.tolist():
        verb, time_s = events.verb[row], max(events.time_s[row], 0.0)
        end_s = max(end_s, time_s)
        if verb in (_ON, _OFF):
            switches.append((time_s, verb == _ON))
            continue
        leg = _turned(legs[-1], verb, time_s, events.x[row], events.y[row], events.speed[row])
        legs.append(leg)
    last = legs[-1]
    if last[3] or last[4]:
        end_s = max(end_s, last[0] + last[5])
    leg_columns, switch_columns = np.array(legs).T, np.array(switches, dtype=np.float64).reshape(-1, 2).T
    return _Node(
        start_s=leg_columns[0],
        start_m=leg_columns[1:3].T,
        way_m=leg_columns[3:5].T,
        duration_s=leg_columns[5],
        switch_s=switch_columns[0],
        switched_on=switch_columns[1] > 0,
        end_s=end_s,
    )


_Leg = tuple[float, float, float, float, float, float]  # start time, start x, y, way x, y, duration


def _turned(leg: _Leg, verb: int, time_s: float, x: float, y: float, speed: float) -> _Leg:
    """The leg that begins at an event."""
    start_s, x0, y0, way_x, way_y, duration_s = leg
    share = min((time_s - start_s) / duration_s, 1.0)
    x0, y0 = x0 + share * way_x, y0 + share * way_y
    if verb == _SET_X:
        return time_s, x, y0, 0.0, 0.0, 1.0
    if verb == _SET_Y:
        return time_s, x0, y, 0.0, 0.0, 1.0
    length_m = math.hypot(x - x0, y - y0)
    if length_m == 0.0 or speed == 0.0:
        return time_s, x0, y0, 0.0, 0.0, 1.0
    return time_s, x0, y0, x - x0, y - y0, length_m / speed
