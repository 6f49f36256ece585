"""From the setting of a world to the world: city, base stations, UEs, radio laws, one SimPy
environment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from math import floor

import numpy as np

from netsim.city.base import City
from netsim.city.buildings import Buildings
from netsim.errors import BadInput
from netsim.geometry import Area, check_near
from netsim.maps import SAME_ORIGIN_M, apart_m
from netsim.mobility.base import Ground
from netsim.notice import Built, Notice, notice
from netsim.part import parts_of
from netsim.rng import Streams
from netsim.streets.doors import Premises, doors, without_door
from netsim.streets.graph import StreetGraph
from netsim.traces.trace import Trace
from netsim.ues import STOREY_M, Indoors
from netsim.units import FloatArray
from netsim.world.base_stations import (
    BaseStation,
    CellFile,
    Layout,
    Site,
    default_layout,
    positions_m,
)
from netsim.world.setting import WorldSetting
from netsim.world.world import World


@lru_cache(
    maxsize=1
)  # worlds that are built one after another often have one city, and doors take longest to find
def _premises(buildings: Buildings, graph: StreetGraph) -> Premises:
    return doors(buildings.footprint, buildings.height_m, graph)


def build_world(setting: WorldSetting, streams: Streams, round_s: float) -> World:
    """A world at time 0, ready to run. Raises BadInput when a trace cannot be used as asked."""
    mobility = setting.ues.mobility
    trace = placed(mobility.load(round_s, setting.ues.without), setting.city)
    if setting.ues.position_error_m == "recorded" and (trace is None or trace.accuracy_m is None):
        raise BadInput(
            "world.ues.position_error_m: recorded: there is no trace with rows of accuracy_m "
            "(columns: accuracy_m=HEADER, and no resample_s); give metres"
        )
    area = setting.city.area(None if trace is None else trace.area)
    duration_s = setting.duration_s
    if duration_s is None:
        if trace is None:
            raise ValueError("a world without a trace needs a duration")
        duration_s = float(floor(trace.time_s.max()) + 1) if trace.ends_s is None else trace.ends_s
    clock = setting.clock if trace is None else trace.local.clock(duration_s)
    buildings = setting.city.buildings(area, streams)
    graph = setting.city.street_graph(area, streams) if "streets" in mobility.needs else None
    premises = Premises.none() if graph is None else _premises(buildings, graph)
    stations = stations_of(setting, area, trace, Site(buildings, streams.at("stations")))
    source = f" of {setting.layout.file}" if isinstance(setting.layout, CellFile) else ""
    heights_m = {f"{b.name}{source}": b.height_m for b in stations}
    try:
        setting.radio.path_loss.check(setting.radio.carrier_hz, setting.ues.height_m, heights_m)
    except ValueError as error:
        raise BadInput(f"world.{error}") from None
    at_m = np.array(sorted({b.position_m for b in stations}), dtype=np.float64).reshape(-1, 2)
    if setting.layout is not None and (shifts_m := setting.layout.shifts_m) is not None:
        at_m = np.concatenate([at_m + shift_m for shift_m in shifts_m])
    ground = Ground(
        area, clock, streams, buildings, setting.city.street_grid(), trace, graph, premises, at_m
    )
    names = tuple(f"ue{i}" for i in range(setting.ues.count)) if trace is None else trace.users
    if trace is None and (unknown := [name for name in setting.ues.without if name not in names]):
        raise BadInput(f"world.ues.without: no UE is called {unknown[0]!r}; give names of ues.csv")
    state = mobility.start(np.arange(len(names)), ground)
    indoors = None
    if setting.ues.indoor is not None:
        if state.indoors() is not None:
            said = f"mobility {mobility.kind_name()} decides which UEs are indoors"
            raise BadInput(f"world.ues.indoor: {said}; leave it out")
        indoors = setting.ues.indoor.drawn(
            np.arange(len(names)), setting.radio.path_loss, streams.at("ues.indoor")
        )
    training_s = np.full(len(names), setting.ues.training_s_per_sample)
    spread = setting.ues.compute_heterogeneity
    if spread is not None:
        training_s *= spread.factor(np.arange(len(names)), streams.at("ues.compute"))
    cells = (
        tuple(b.name for b in stations)
        if trace is None or trace.rsrp_dbm is None
        else trace.cells or ("all",)
    )
    parts = chain(parts_of(setting), parts_of(setting.radio), parts_of(setting.ues))
    built = Built(
        tuple(b.name for b in stations),
        highest_floor_m(setting, ground, indoors or state.indoors()),
    )
    return World(
        setting=setting,
        ues=names,
        cells=cells,
        stations=stations,
        duration_s=duration_s,
        places=mobility.places(state, ground),
        ground=ground,
        state=state,
        training_s_per_sample=training_s,
        silent=np.isin(np.array(names), setting.ues.without),
        drawn_indoors=indoors,
        notices=(
            *(of_part for part in parts for of_part in part.notices(built)),
            *(() if graph is None else without_door(len(buildings), premises)),
            *(() if trace is None else trace.notices),
            *tiny_area(area),
            *trace_outside(setting, area, trace),
            *(ues_outside(area, state.position_m) if trace is None else ()),
            *low_stations(stations, buildings),
            *doubtful_stations(setting.layout if trace is None else None, stations, area),
            *long_links(setting, stations, area),
        ),
    )


def stations_of(
    setting: WorldSetting, area: Area, trace: Trace | None, site: Site
) -> tuple[BaseStation, ...]:
    """The base stations of a list or a layout."""
    if setting.layout is None:
        if trace is not None and trace.rsrp_dbm is None and not setting.listed_stations:
            return default_layout(area, trace.notices).stations(area, None)
        return setting.listed_stations
    if trace is None:
        at_deg = setting.city.origin()
    else:
        at_deg = trace.origin_deg or setting.city.origin()
    return setting.layout.stations(area, at_deg, site)


_MAX_OUTSIDE = (
    0.1  # of UEs that start outside of the area, or of rows of a trace, without a warning
)
SUMO = "sumo-fcd"  # the format of traces that SUMO writes
_MIN_SIDE_M = 10.0  # of an area in which places differ


def placed(trace: Trace | None, city: City) -> Trace | None:
    """The trace on the plane of the city: what SUMO wrote in metres is in the coordinates of the
    city's network. Raises BadInput where they share no origin.
    """
    if trace is None or not city.has_size:
        return trace
    origin_deg = city.origin()
    network = city.network()
    if trace.origin_deg is None and trace.format == SUMO and network is not None:
        position_m = network.plane_m(trace.position_m)
        return replace(
            trace, position_m=position_m, area=Area.around(position_m), origin_deg=origin_deg
        )
    if (trace.origin_deg is None) != (origin_deg is None) and not city.is_made_up:
        raise BadInput(
            f"world.city: the {'city' if origin_deg is None else 'trace'} is in local metres, the "
            "other on the globe, so they share no origin; state its system, such as EPSG:32632 "
            "(world.city.crs, world.ues.mobility.crs; SUMO: netconvert --proj.utm, "
            "--fcd-output.geo)"
        )
    if trace.origin_deg is None or origin_deg is None:
        return trace
    away_m = apart_m(trace.origin_deg, origin_deg)
    if away_m > SAME_ORIGIN_M:
        raise BadInput(
            f"world.city.origin_deg: the (0, 0) of the trace is {away_m:,.0f} m from "
            f"that of the city; set it to "
            f"[{trace.origin_deg[0]:.7g}, {trace.origin_deg[1]:.7g}], which is the trace's"
        )
    return trace


def trace_outside(setting: WorldSetting, area: Area, trace: Trace | None) -> Iterator[Notice]:
    """Rows of a trace outside of the city, or in other coordinates; raises BadInput where all are
    outside.
    """
    if trace is None or not setting.city.has_size:
        return
    outside = np.mean(~area.contains(trace.position_m))
    if outside == 1.0:
        raise BadInput(
            f"world.city: the whole trace lies outside of the area {area}; take the city "
            f"that it was recorded in"
        )
    if outside > _MAX_OUTSIDE:
        yield notice("trace-outside", percent=100 * outside, area=area)
    network = setting.city.network()
    if trace.origin_deg is not None and setting.city.origin() is None:
        yield notice("city-nowhere")
    if (
        trace.origin_deg is None
        and trace.format != SUMO
        and network is not None
        and any(network.offset_m)
    ):
        yield notice("trace-moved", east_m=network.offset_m[0], north_m=network.offset_m[1])


def highest_floor_m(setting: WorldSetting, ground: Ground, indoors: Indoors | None) -> float | None:
    """Height of UEs on the highest floor that has some; None where none are in buildings."""
    if indoors is None:
        return None
    floors = int(max(ground.premises.floors.max(initial=1) - 1, indoors.floor.max(initial=0)))
    return setting.ues.height_m + STOREY_M * floors


def long_links(
    setting: WorldSetting, stations: tuple[BaseStation, ...], area: Area
) -> Iterator[Notice]:
    """Base stations far outside of the area, and links longer than the path loss law was published
    for; raises BadInput where that must be an error.
    """
    if not stations:
        return
    away_m = area.farthest_m(positions_m(stations))
    far = np.argmax(away_m)
    check_near(
        area,
        stations[far].position_m,
        f"world.base_stations[{far}].position_m: {stations[far].name}",
    )
    law = setting.radio.path_loss
    yield from _far_stations(setting, area)
    if away_m[far] > law.max_distance_m:
        name = stations[far].name
        longest_m = law.max_distance_m
        yield notice(
            "path-loss-too-long",
            law=law.kind_name(),
            longest_m=longest_m,
            name=name,
            away_m=away_m[far],
        )


def _far_stations(setting: WorldSetting, area: Area) -> Iterator[Notice]:
    """Listed base stations that stand farther outside of the area than its longer side is long."""
    stations = setting.listed_stations
    at_m = positions_m(stations)
    away_m = np.linalg.norm(at_m - np.clip(at_m, area.low_m, area.high_m), axis=1)
    far = np.flatnonzero(away_m > area.side_m.max())
    width_m, height_m = area.side_m
    if len(far):
        farthest = np.argmax(away_m)
        if len(far) > 1:
            more = f", and {len(far) - 1} more do as well"
        else:
            more = ""
        name = stations[farthest].name
        yield notice(
            "station-far",
            name=name,
            away_m=away_m[farthest],
            width_m=width_m,
            height_m=height_m,
            more=more,
        )


def tiny_area(area: Area) -> Iterator[Notice]:
    """An area too small for places to differ."""
    width_m, height_m = area.side_m
    if min(width_m, height_m) < _MIN_SIDE_M:
        yield notice("area-tiny", width_m=width_m, height_m=height_m)


def ues_outside(area: Area, position_m: FloatArray) -> Iterator[Notice]:
    """Many UEs that start outside of the area."""
    there = np.isfinite(position_m).all(axis=1)
    share = np.mean(~area.contains(position_m[there])) if there.any() else 0.0
    if share > _MAX_OUTSIDE:
        yield notice("ues-outside", percent=100 * share)


def low_stations(stations: tuple[BaseStation, ...], buildings: Buildings) -> Iterator[Notice]:
    """Base stations below the roof of a building."""
    roofs_m = buildings.height_at(positions_m(stations))
    for station, roof_m in zip(stations, roofs_m, strict=True):
        if roof_m > station.height_m:
            yield notice(
                "station-in-building", name=station.name, roof_m=roof_m, height_m=station.height_m
            )


_MAX_DBM = 30.0  # of one resource element: 1 kW over the 1,200 of 20 MHz is 29.2 dBm


def doubtful_stations(
    layout: Layout | None, stations: tuple[BaseStation, ...], area: Area
) -> Iterator[Notice]:
    """Half of the cells of a file outside of the area, and a power that is rather that of a
    carrier.

    layout : None for a list, and where a trace brings the origin.
    """
    outside = (~area.contains(positions_m(stations))).sum()
    if isinstance(layout, CellFile) and 2 * outside >= len(stations):
        yield notice(
            "cells-outside", file=layout.file, number=outside, total=len(stations), area=area
        )
    strongest_dbm = max((b.power_dbm for b in stations), default=0.0)
    if strongest_dbm > _MAX_DBM:
        yield notice("station-power", power_dbm=strongest_dbm)
