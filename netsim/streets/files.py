"""Streets from a file: OpenStreetMap lines in GeoJSON, or a SUMO network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.streets.assembly import SNAP_M, assemble
from netsim.streets.graph import StreetGraph
from netsim.streets.osm import read_osm
from netsim.streets.sumo import read_sumo

_NETWORKS = (".xml", ".xml.gz")


@dataclass(frozen=True, eq=False)
class Streets:
    """The street graph of a file, and notes for the user on what is not in it."""

    graph: StreetGraph
    notes: tuple[str, ...]


def read_streets(file: str, crs: str, origin_deg: tuple[float, float] | None, area: Area) -> Streets:
    """The streets of a file on the plane of the buildings, cut at the border of the area.

    Files named .xml or .xml.gz are SUMO networks, others GeoJSON. Raises BadInput with one line.
    """
    is_network = file.lower().endswith(_NETWORKS)
    lines, notes = read_sumo(file, origin_deg) if is_network else read_osm(file, crs, origin_deg)
    inside = lines.clipped(area)
    if not len(inside):
        away_m = np.linalg.norm(np.median(lines.vertex_m, axis=0) - area.centre_m)
        raise BadInput(
            f"{file}: none of its streets lies in the area of the buildings, their middles are {away_m:,.0f} m apart; "
            f"{_remedy(origin_deg)}"
        )
    made = assemble(inside, 0.0 if is_network else SNAP_M)  # edges of a network meet at junctions only
    if not (made.graph.speed_m_s[:, 0] > 0).any():
        raise BadInput(f"{file}: no street in the area is open to pedestrians; give one with footways or side streets")
    return Streets(made.graph, (*notes, *made.notes(f"city: {file}")))


def _remedy(origin_deg: tuple[float, float] | None) -> str:
    """The remedy for streets that lie elsewhere."""
    them = "give those of the same place" if origin_deg else "give both in the same local metres"
    return f"{them}, or set margin_m if they are near"
