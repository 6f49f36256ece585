"""SUMO floating car data: ``<timestep time><vehicle id x y/></timestep>``, streamed."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Iterable
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
_OPTIONS, _GEO = "<fcd-output value=", '<fcd-output.geo value="true"'  # SUMO copies its options into a comment on top
_MAX_SIDE_DEG = 10.0  # of a simulated area
_GEO_DECIMALS = 4  # SUMO writes degrees with 6 decimals and metres with 2, by default


def read_sumo_fcd(path: str, crs: str) -> Table:
    """Vehicles, persons and containers are users, which SUMO numbers apart: with equal numbers they are called with
    their kind, as "person 0".

    Only SUMO's comment distinguishes degrees (``--fcd-output.geo``) from metres. Without it, with crs `auto`,
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
    users, apart = _users(movers.names)
    return moves(path, source.n_bytes, "sumo-fcd", time_s, user, users, points, (*notes, *apart))


def _users(movers: Iterable[tuple[str, str]]) -> tuple[list[str], tuple[str, ...]]:
    """Names of users from the kinds and names of movers, with the kind where several kinds have the name; a note."""
    n_kinds = Counter(name for _, name in movers)
    n = sum(n > 1 for n in n_kinds.values())
    note = f"names that a vehicle, a person or a container share: {n:,}; their users have the kind before"
    return [f"{kind} {name}" if n_kinds[name] > 1 else name for kind, name in movers], (note,) if n else ()


class _Movers(Elements):
    """Collects rows, 28 bytes each."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.time_s, self.x, self.y, self.user = array("d"), array("d"), array("d"), array("i")
        self.names: dict[tuple[str, str], int] = {}
        self.decimals = 0
        self._now_s = math.nan

    def begin(self, name: str, attributes: Any) -> None:
        if name in _MOVERS:
            self._row(name, attributes)
        elif name == "timestep":
            self._now_s = self._time_s(attributes.get("time", ""))

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
        self.user.append(self.names.setdefault((name, who), len(self.names)))
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
    if (width := max(np.ptp(x), np.ptp(y))) > _MAX_SIDE_DEG:
        problem = f"x and y could be longitude and latitude ({width:.3g} degrees wide) or metres ({width:.3g} m wide)"
        raise BadInput(f"{path}: {problem}; name which with --crs EPSG:4326 or --crs local (in a scenario: crs)")
    return in_degrees(path, crs, y, x), ("x and y taken as longitude and latitude; crs: local reads them as metres",)
