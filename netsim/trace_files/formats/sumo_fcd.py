"""SUMO floating car data: ``<timestep time><vehicle id x y/></timestep>``, streamed."""

import math
from array import array

import numpy as np

from netsim.errors import BadInput
from netsim.notice import notice
from netsim.trace_files.formats.base import TraceFormat
from netsim.traces.source import Attributes, XmlFile
from netsim.traces.table import AUTO, GLOBE, FixBuilder, look_like_degrees
from netsim.traces.values import Column, quote_text, to_number
from netsim.units import FloatArray, TextPair

_MOVERS = frozenset(("vehicle", "person", "container"))
_OPTIONS = "<fcd-output value="  # SUMO copies its options into a comment on top
_GEO = '<fcd-output.geo value="true"'  # one of them
_MAX_SIDE_DEG = 10.0  # of a simulated area
_GEO_DECIMALS = 4  # SUMO writes degrees with 6 decimals and metres with 2, by default


class SumoFcd(TraceFormat, kind="sumo-fcd"):
    """SUMO floating car data, XML.

    Vehicles, persons and containers are users, which SUMO numbers apart: with equal numbers they
    are called with their kind, as "person 0".

    Only SUMO's comment distinguishes degrees (``--fcd-output.geo``) from metres. Without it, with
    crs `auto`, x and y are metres unless all of them may be longitude and latitude and the first
    has four decimals or more; then they are degrees, or refused where that would be wider than any
    simulation.
    """

    endings = (".fcd.xml",)
    content = r"\A\s*(?=<)(?s:.*?)<fcd-export\b"
    reference = "sumo.dlr.de, FCDOutput"

    def read(self, fixes: FixBuilder) -> None:
        xml = XmlFile(fixes.path, "SUMO FCD XML")
        rows = array("d")
        movers: dict[TextPair, int] = {}
        now_s = -1.0
        decimals = 0

        def begin(name: str, attributes: Attributes) -> None:
            nonlocal now_s, decimals
            if name in _MOVERS:
                try:
                    place = float(attributes["x"]), float(attributes["y"])
                    number = movers.setdefault((name, attributes["id"]), len(movers))
                except KeyError:
                    xml.refuse(
                        f"a {name} without id, x or y; write them with SUMO's "
                        f"--fcd-output.attributes"
                    )
                except ValueError:
                    x, y = (quote_text(attributes.get(axis, "")) for axis in "xy")
                    xml.refuse(f"x {x}, y {y} are no numbers; correct or remove it")
                if not rows:
                    decimals = len(attributes["x"].partition(".")[2])
                if now_s < 0:
                    xml.refuse(f"a {name} outside a timestep; give SUMO's --fcd-output")
                rows.extend((now_s, *place, number, xml.parser.CurrentLineNumber))
            elif name == "timestep":
                before_s = now_s
                now_s = _parse_time_s(xml, attributes.get("time", ""))
                if now_s < before_s:
                    xml.refuse(
                        f"timestep {now_s:g} s comes after timestep {before_s:g} s; sort the "
                        f"timesteps (were two outputs joined?)"
                    )

        xml.read(begin)
        numbers = [fixes.number_user(id_, f"{kind} {id_}") for kind, id_ in movers]
        times_s, first, second, *codes = np.reshape(rows, (-1, 5)).T
        mover, line = np.array(codes, int)
        columns: dict[str, Column] = {
            "user": np.array(numbers, np.int32)[mover],
            "time_s": times_s,
        }
        if _is_in_degrees(fixes, xml.source.read_head(), decimals, first, second):
            columns |= {"lat": second, "lon": first}
        else:
            columns |= {"x_m": first, "y_m": second}
        fixes.add_rows(fixes.path, line, columns)


def _parse_time_s(xml: XmlFile, text: str) -> float:
    """Seconds, or ``[days:]hours:minutes:seconds`` as SUMO's --human-readable-time has it."""
    parts = [to_number(part) for part in text.split(":")]
    scale = (1.0, 60.0, 3600.0, 86_400.0)
    pairs = zip(reversed(parts), scale, strict=False)
    time_s = sum(value * unit for value, unit in pairs)
    if len(parts) > len(scale) or not 0.0 <= time_s < math.inf:
        xml.refuse(f"time {quote_text(text)} is not a time from 0 s on; correct it")
    return time_s


def _is_in_degrees(
    fixes: FixBuilder, head: str, decimals: int, x: FloatArray, y: FloatArray
) -> bool:
    """Whether x and y are longitude and latitude. Raises `BadInput` where they may be both."""
    geo = _GEO in head
    likely = geo or (decimals >= _GEO_DECIMALS and _OPTIONS not in head)
    if fixes.crs != AUTO or not (likely and look_like_degrees(x, y)):
        return fixes.crs == GLOBE
    if geo:
        return True
    width = max(np.ptp(x), np.ptp(y))
    if width > _MAX_SIDE_DEG:
        problem = (
            f"x and y could be longitude and latitude ({width:.3g} degrees wide) or metres "
            f"({width:.3g} m wide)"
        )
        raise BadInput(
            f"{fixes.path}: {problem}; name which with --crs EPSG:4326 or --crs local (in a "
            f"scenario: crs)"
        )
    fixes.notices.append(notice("trace-degrees"))
    return True
