"""SUMO floating car data: ``<timestep time><vehicle id x y/></timestep>``, streamed."""

from __future__ import annotations

import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.traces.crs import AUTO, GLOBE, in_degrees, in_metres, look_like_degrees
from netsim.traces.points import Points
from netsim.traces.source import Source
from netsim.traces.table import Table, moves
from netsim.traces.values import number, shown
from netsim.traces.xml import Elements, stream
from netsim.units import FloatArray

_MOVERS = frozenset(("vehicle", "person", "container"))
_OPTIONS, _GEO = (
    "<fcd-output value=",
    '<fcd-output.geo value="true"',
)  # SUMO copies its options into a comment at the top
_ID = ' id="'  # between the kind of a mover and its name
_WIDEST_DEG = 10.0  # of a simulated area
_BY_PARSER = (
    2  # pieces of a file, of 1 MiB, before rows are read by compiled code: loading it takes longer than they do
)
_PROBE = "netsim"  # an element that stands for rows which the parser is not given
_MOVER = re.compile(rb"<(?:vehicle|person|container) ")
_GEO_DECIMALS = 4  # SUMO writes degrees with 6 decimals and metres with 2, if not told otherwise


def read_sumo_fcd(path: str, crs: str) -> Table:
    """Vehicles, persons and containers are users, which SUMO numbers apart: with equal numbers they are called with
    their kind, as "person 0".

    Nothing but SUMO's own comment tells degrees (``--fcd-output.geo``) from metres. Without it, with crs `auto`,
    x and y are metres unless all of them may be longitude and latitude and the first has four decimals or more; then
    they are degrees, or refused where that would be wider than any simulation.
    """
    source = Source(path, "SUMO FCD XML")
    movers = _Movers(path)
    stream(source, movers)
    time_s, x, y = (np.array(column) for column in (movers.time_s, movers.x, movers.y))
    if (back := np.flatnonzero(np.diff(time_s) < 0)).size:
        problem = f"timestep {time_s[back[0] + 1]:g} s comes after timestep {time_s[back[0]]:g} s"
        raise BadInput(f"{path}: {problem}; sort the timesteps (were two outputs joined?)")
    user = np.array(movers.user, dtype=np.int32)
    points, notes = _points(path, crs, x, y, source.head(), movers.decimals)
    users, apart = _users(tuple(movers.names))
    return moves(path, source.n_bytes, "sumo-fcd", time_s, user, users, points, (*notes, *apart))


def _users(names: Sequence[str]) -> tuple[list[str], tuple[str, ...]]:
    """Names of users from ``kind id="name``, with the kind where several kinds have the name."""
    parts = [name.partition(_ID)[::2] for name in names]
    n_kinds = Counter(name for _, name in parts)
    n = sum(n > 1 for n in n_kinds.values())
    note = f"names that a vehicle, a person or a container share: {n:,}; their users have the kind before"
    return [f"{kind} {name}" if n_kinds[name] > 1 else name for kind, name in parts], (note,) if n else ()


class _Movers(Elements):
    """Collects rows, 28 bytes each."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.time_s, self.x, self.y, self.user = array("d"), array("d"), array("d"), array("i")
        self.names: dict[str, int] = {}
        self.decimals = 0
        self._now_s = math.nan
        self._step_depth = 0  # of the timestep whose tag came last, 0 where another tag came
        self._pieces, self._heard = 0, False

    def begin(self, name: str, attributes: Any) -> None:
        if name in _MOVERS:
            self._row(name, attributes)
        elif name == _PROBE:
            self._heard = True
        else:
            self._step_depth = self.depth if name == "timestep" else 0
        if name == "timestep":
            self._now_s = self._time_s(attributes.get("time", ""))

    def feed(self, feed: Callable[[bytes], None], tags: bytes) -> None:
        """Rows written as SUMO does are read here, others by the parser, and all tags around them.

        The parser is given an element in their place. It tells whether rows can stand there, and not in a comment.
        """
        first = _MOVER.search(tags)
        self._pieces += 1
        if self._pieces <= _BY_PARSER or not self.names or first is None:
            feed(tags)
            return
        begin = first.start()
        feed(tags[:begin])
        self._heard = False
        feed(f"<{_PROBE}/>".encode())
        end = begin
        if self._heard and self._step_depth == self.depth:
            end = self._rows(tags, begin)
            feed(b"\n" * tags.count(b"\n", begin, end))  # lines are counted on
        feed(tags[end:])

    def _rows(self, tags: bytes, begin: int) -> int:
        """Take rows from a byte on; the byte after them."""
        from netsim.traces.formats.fcd_rows import read

        found = read(np.frombuffer(tags, dtype=np.uint8), begin, self._now_s)
        user = [self.names.setdefault(tags[i:j].decode("ascii"), len(self.names)) for i, j in found.name.tolist()]
        of_row = np.array(user, dtype=np.int32)[found.user]
        for column, values in ((self.time_s, found.time_s), (self.x, found.x), (self.y, found.y), (self.user, of_row)):
            column.frombytes(values.tobytes())
        self._now_s = found.now_s
        return found.end

    def _row(self, name: str, attributes: Any) -> None:
        try:
            who, x_text, y_text = attributes["id"], attributes["x"], attributes["y"]
        except KeyError:
            self.refuse(f"a {name} without id, x or y; write them with SUMO's --fcd-output.attributes")
        x, y = number(x_text), number(y_text)
        if not (math.isfinite(x) and math.isfinite(y)):
            self.refuse(f"x {shown(x_text)}, y {shown(y_text)} are no numbers; correct or remove it")
        if math.isnan(self._now_s):
            self.refuse(f"a {name} outside a timestep; give SUMO's --fcd-output")
        if not self.names:
            self.decimals = len(x_text.partition(".")[2])
        self.user.append(self.names.setdefault(f"{name}{_ID}{who}", len(self.names)))
        self.time_s.append(self._now_s)
        self.x.append(x)
        self.y.append(y)

    def _time_s(self, text: str) -> float:
        """Seconds, or ``[days:]hours:minutes:seconds`` as SUMO's --human-readable-time has it."""
        parts = [number(part) for part in text.split(":")]
        scale = (1.0, 60.0, 3600.0, 86_400.0)
        time_s = sum(value * unit for value, unit in zip(reversed(parts), scale, strict=False))
        if len(parts) > len(scale) or not 0.0 <= time_s < math.inf:
            self.refuse(f"time {shown(text)} is not a time from 0 s on; correct it")
        return time_s


def _points(
    path: str, crs: str, x: FloatArray, y: FloatArray, head: str, decimals: int
) -> tuple[Points, tuple[str, ...]]:
    geo = _GEO in head
    likely = geo or (decimals >= _GEO_DECIMALS and _OPTIONS not in head)
    if crs not in (AUTO, GLOBE) or (crs == AUTO and not (likely and look_like_degrees(x, y))):
        return in_metres(path, crs, x, y), ()
    if geo or crs == GLOBE:
        return in_degrees(path, crs, y, x), ()
    if (width := max(np.ptp(x), np.ptp(y))) > _WIDEST_DEG:
        problem = f"x and y could be longitude and latitude ({width:.3g} degrees wide) or metres ({width:.3g} m wide)"
        raise BadInput(f"{path}: {problem}; name which with --crs EPSG:4326 or --crs local (in a scenario: crs)")
    return in_degrees(path, crs, y, x), ("x and y taken as longitude and latitude; crs: local reads them as metres",)
