"""From the setting of a world to the world: city, base stations, UEs, radio laws, one SimPy
environment.
"""

from dataclasses import replace
from functools import lru_cache
from itertools import chain
from math import floor

import numpy as np

from netsim.city.base import City
from netsim.city.buildings import Buildings
from netsim.errors import BadInput
from netsim.geometry import Area, check_near
from netsim.maps import SAME_ORIGIN_M, measure_distance_m
from netsim.mobility.base import Ground
from netsim.notice import Built, Notices, notice
from netsim.part import collect_parts
from netsim.rng import Streams
from netsim.streets.doors import Premises, find_doors, report_doorless
from netsim.streets.graph import StreetGraph
from netsim.traces.trace import Trace
from netsim.ues import STOREY_M, Indoors
from netsim.units import FloatArray
from netsim.world.base_stations import (
    CellFile,
    Layout,
    Site,
    Stations,
    choose_default_layout,
    collect_positions_m,
)
from netsim.world.setting import WorldSetting
from netsim.world.world import World


# worlds that are built one after another often have one city, and doors take longest to find
@lru_cache(maxsize=1)
def _find_premises(buildings: Buildings, graph: StreetGraph) -> Premises:
    return find_doors(buildings.footprint, buildings.height_m, graph)


def build_world(setting: WorldSetting, streams: Streams, round_s: float) -> World:
    """A world at time 0, ready to run. Raises BadInput when a trace cannot be used as asked."""
    ues = setting.ues
    city = setting.city
    layout = setting.layout
    mobility = ues.mobility
    trace = place_trace(mobility.load(round_s, ues.without), city)
    if ues.position_error_m == "recorded" and (trace is None or trace.accuracy_m is None):
        raise BadInput(
            "world.ues.position_error_m: recorded: there is no trace with rows of accuracy_m "
            "(columns: accuracy_m=HEADER, and no resample_s); give metres"
        )
    area = city.area(None if trace is None else trace.area)
    duration_s = _find_duration_s(setting, trace)
    clock = setting.stated_clock if trace is None else trace.local.build_clock(duration_s)
    buildings = city.buildings(area, streams)
    graph = None
    premises = Premises.none()
    if "streets" in mobility.needs:
        graph = city.street_graph(area, streams)
    if graph is not None:
        premises = _find_premises(buildings, graph)
    stations = place_stations(setting, area, trace, Site(buildings, streams.derive_rng("stations")))
    source = f" of {layout.file}" if isinstance(layout, CellFile) else ""
    heights_m = {f"{b.name}{source}": b.height_m for b in stations}
    law = setting.radio.path_loss
    try:
        law.check(setting.radio.carrier_hz, ues.height_m, heights_m)
    except ValueError as error:
        raise BadInput(f"world.{error}") from None
    at_m = np.array(sorted({b.position_m for b in stations}), float).reshape(-1, 2)
    if layout is not None:
        at_m = np.concatenate([at_m + shift_m for shift_m in layout.shifts_m])
    ground = Ground(
        area, clock, streams, buildings, city.street_grid(), trace, graph, premises, at_m
    )
    station_names = tuple(b.name for b in stations)
    cells = station_names
    if trace is None:
        names = tuple(f"ue{i}" for i in range(ues.count))
        unknown = [name for name in ues.without if name not in names]
        if unknown:
            raise BadInput(
                f"world.ues.without: no UE is called {unknown[0]!r}; give names of ues.csv"
            )
    else:
        names = trace.users
        if trace.rsrp_dbm is not None:
            cells = trace.cells or ("all",)
    ue = np.arange(len(names))
    state = mobility.start(ue, ground)
    indoors = None
    if ues.indoor is not None:
        if state.indoors() is not None:
            raise BadInput(
                f"world.ues.indoor: mobility {mobility.kind_name()} decides which UEs are indoors; "
                f"leave it out"
            )
        indoors = ues.indoor.draw_indoors(ue, law, streams.derive_rng("ues.indoor"))
    training_s = np.full(len(names), ues.training_s_per_sample)
    spread = ues.compute_heterogeneity
    if spread is not None:
        training_s *= spread.draw_time_factor(ue, streams.derive_rng("ues.compute"))
    parts = chain(collect_parts(setting), collect_parts(setting.radio), collect_parts(ues))
    floor_m = find_highest_floor_m(setting, ground, indoors or state.indoors())
    built = Built(station_names, floor_m, len(buildings))
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
        silent=np.isin(np.array(names), ues.without),
        drawn_indoors=indoors,
        notices=(
            *(of_part for part in parts for of_part in part.notices(built)),
            *(() if graph is None else report_doorless(len(buildings), premises)),
            *(() if trace is None else trace.notices),
            *report_tiny_area(area),
            *report_trace_outside(setting, area, trace),
            *(report_ues_outside(area, state.position_m) if trace is None else ()),
            *report_doubtful_stations(layout if trace is None else None, stations, buildings, area),
            *report_long_links(setting, stations, area),
        ),
    )


def _find_duration_s(setting: WorldSetting, trace: Trace | None) -> float:
    """The stated duration, or else the time from 0 to the end of the trace."""
    if setting.duration_s is not None:
        return setting.duration_s
    if trace is None:
        raise ValueError("a world without a trace needs a duration")
    if trace.ends_s is not None:
        return trace.ends_s
    return float(floor(trace.time_s.max()) + 1)


def place_stations(setting: WorldSetting, area: Area, trace: Trace | None, site: Site) -> Stations:
    """The base stations of a list or a layout."""
    if setting.layout is None:
        if trace is not None and trace.rsrp_dbm is None and not setting.listed_stations:
            return choose_default_layout(area, trace.notices).stations(area, None)
        return setting.listed_stations
    at_deg = setting.city.origin() if trace is None else trace.origin_deg or setting.city.origin()
    return setting.layout.stations(area, at_deg, site)


# of UEs that start outside of the area, or of rows of a trace, without a warning
_MAX_OUTSIDE = 0.1
SUMO = "sumo-fcd"  # the format of traces that SUMO writes
_MIN_SIDE_M = 10.0  # of an area in which places differ


def place_trace(trace: Trace | None, city: City) -> Trace | None:
    """The trace on the plane of the city: what SUMO wrote in metres is in the coordinates of the
    city's network. Raises BadInput where they share no origin.
    """
    if trace is None or not city.has_size:
        return trace
    origin_deg = city.origin()
    network = city.network()
    trace_deg = trace.origin_deg
    if trace_deg is None and trace.format == SUMO and network is not None:
        position_m = network.to_plane_m(trace.position_m)
        return replace(
            trace, position_m=position_m, area=Area.from_points(position_m), origin_deg=origin_deg
        )
    if (trace_deg is None) != (origin_deg is None) and not city.is_made_up:
        raise BadInput(
            f"world.city: the {'city' if origin_deg is None else 'trace'} is in local metres, the "
            "other on the globe, so they share no origin; state its system, such as EPSG:32632 "
            "(world.city.crs, world.ues.mobility.crs; SUMO: netconvert --proj.utm, "
            "--fcd-output.geo)"
        )
    if trace_deg is None or origin_deg is None:
        return trace
    away_m = measure_distance_m(trace_deg, origin_deg)
    if away_m > SAME_ORIGIN_M:
        raise BadInput(
            f"world.city.origin_deg: the (0, 0) of the trace is {away_m:,.0f} m from "
            f"that of the city; set it to "
            f"[{trace_deg[0]:.7g}, {trace_deg[1]:.7g}], which is the trace's"
        )
    return trace


def report_trace_outside(setting: WorldSetting, area: Area, trace: Trace | None) -> Notices:
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


def find_highest_floor_m(
    setting: WorldSetting, ground: Ground, indoors: Indoors | None
) -> float | None:
    """Height of UEs on the highest floor that has some; None where none are in buildings."""
    if indoors is None:
        return None
    floors = int(max(ground.premises.floors.max(initial=1) - 1, indoors.floor.max(initial=0)))
    return setting.ues.height_m + STOREY_M * floors


def report_long_links(setting: WorldSetting, stations: Stations, area: Area) -> Notices:
    """Base stations far outside of the area, and links longer than the path loss law was published
    for; raises BadInput where that must be an error.
    """
    if not stations:
        return
    away_m = area.measure_farthest_corner_m(collect_positions_m(stations))
    far = np.argmax(away_m)
    station = stations[far]
    check_near(
        area,
        station.position_m,
        f"world.base_stations[{far}].position_m: {station.name}",
    )
    law = setting.radio.path_loss
    yield from _report_far_stations(setting, area)
    if away_m[far] > law.max_distance_m:
        yield notice(
            "path-loss-too-long",
            law=law.kind_name(),
            longest_m=law.max_distance_m,
            name=station.name,
            away_m=away_m[far],
        )


def _report_far_stations(setting: WorldSetting, area: Area) -> Notices:
    """Listed base stations that stand farther outside of the area than its longer side is long."""
    stations = setting.listed_stations
    at_m = collect_positions_m(stations)
    away_m = np.linalg.norm(at_m - np.clip(at_m, area.low_m, area.high_m), axis=1)
    far = np.flatnonzero(away_m > area.side_m.max())
    width_m, height_m = area.side_m
    if len(far):
        farthest = np.argmax(away_m)
        rest = f", and {len(far) - 1} more do as well" if len(far) > 1 else ""
        yield notice(
            "station-far",
            name=stations[farthest].name,
            away_m=away_m[farthest],
            width_m=width_m,
            height_m=height_m,
            more=rest,
        )


def report_tiny_area(area: Area) -> Notices:
    """An area too small for places to differ."""
    width_m, height_m = area.side_m
    if min(width_m, height_m) < _MIN_SIDE_M:
        yield notice("area-tiny", width_m=width_m, height_m=height_m)


def report_ues_outside(area: Area, position_m: FloatArray) -> Notices:
    """Many UEs that start outside of the area."""
    present = np.isfinite(position_m).all(axis=1)
    if not present.any():
        return
    share = np.mean(~area.contains(position_m[present]))
    if share > _MAX_OUTSIDE:
        yield notice("ues-outside", percent=100 * share)


_MAX_DBM = 30.0  # of one resource element: 1 kW over the 1,200 of 20 MHz is 29.2 dBm


def report_doubtful_stations(
    layout: Layout | None, stations: Stations, buildings: Buildings, area: Area
) -> Notices:
    """Base stations below the roof of a building, half of the cells of a file outside of the area,
    and a power that is rather that of a carrier.

    layout : None for a list, and where a trace brings the origin.
    """
    at_m = collect_positions_m(stations)
    for station, roof_m in zip(stations, buildings.find_height_m(at_m), strict=True):
        if roof_m > station.height_m:
            yield notice(
                "station-in-building", name=station.name, roof_m=roof_m, height_m=station.height_m
            )
    outside = (~area.contains(at_m)).sum()
    if isinstance(layout, CellFile) and 2 * outside >= len(stations):
        yield notice(
            "cells-outside", file=layout.file, number=outside, total=len(stations), area=area
        )
    strongest_dbm = max((b.power_dbm for b in stations), default=0.0)
    if strongest_dbm > _MAX_DBM:
        yield notice("station-power", power_dbm=strongest_dbm)
