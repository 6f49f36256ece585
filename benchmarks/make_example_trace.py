"""Write the traces of scenarios/examples, one a format.

    python -m benchmarks.make_example_trace

Nothing in them was measured. commuter.csv.gz holds two weeks of the commuter model, as if recorded
by a phone; the others hold random walks, and positions only. The place (52.0 N, 4.0 E) is open sea.
The same bytes come at every call.
"""

import gzip
from datetime import UTC, datetime, timedelta
from io import BytesIO, TextIOWrapper
from pathlib import Path

import numpy as np
from pyproj import CRS, Transformer

from netsim.rng import Streams
from netsim.units import FloatArray
from netsim.world.build import build_world
from scenarios.app.study.load import load

EXAMPLES = Path(__file__).parent.parent / "scenarios" / "examples"
MONDAY = datetime(2026, 1, 5, tzinfo=UTC)
MONDAY_S = MONDAY.timestamp()
DAY_S = 86_400


def main() -> None:
    """Make and write all."""
    for name, make in EXAMPLE_OF.items():
        (EXAMPLES / name).write_bytes(make())


def commuter() -> bytes:
    """CSV.gz: time, user, place, RSRP and cell."""
    study = load("campus", {"world.duration_s": 14 * DAY_S})
    world = build_world(study.world, Streams(2026), float(DAY_S))
    world.env.run(until=world.duration_s)
    seen = world.drain_observations()
    lat, lon = _degrees(seen.position_m)
    packed = BytesIO()
    # no time stamp in the gzip header
    with (
        gzip.GzipFile("commuter.csv", "wb", mtime=0, fileobj=packed) as file,
        TextIOWrapper(file, encoding="ascii") as text,
    ):
        text.write("time_s,user,lat,lon,rsrp_dbm,cell\n")
        for t, y, x, rsrp in zip(MONDAY_S + seen.time_s, lat, lon, seen.rsrp_dbm, strict=True):
            text.write(f"{t:.0f},phone,{y:.6f},{x:.6f},{rsrp:.0f},campus\n")
    return packed.getvalue()


def walk_plt() -> bytes:
    """GeoLife PLT: half an hour on foot on three days, every 10 s."""
    lines = ["Geolife trajectory", "WGS 84", "Altitude is in Feet", "Reserved 3"]
    lines += ["0,2,255,My Track,0,0,2,8421376", "0"]
    for day in range(3):
        time_s = np.arange(0.0, 1801.0, 10.0)
        lat, lon = _degrees(_wander(1, day, time_s, side_m=(900.0, 700.0), speed_m_s=(1.0, 1.8)))
        for t, y, x in zip(time_s, lat, lon, strict=True):
            moment = MONDAY + timedelta(days=day, hours=8 + day, seconds=float(t))
            days = 25_569 + moment.timestamp() / DAY_S
            lines.append(f"{y:.6f},{x:.6f},0,0,{days:.10f},{moment:%Y-%m-%d,%H:%M:%S}")
    return ("\r\n".join(lines) + "\r\n").encode("ascii")


def walk_gpx() -> bytes:
    """GPX 1.1: a track a day, of two segments with a pause of an hour between them."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>']
    lines += ['<gpx version="1.1" creator="netsim" xmlns="http://www.topografix.com/GPX/1/1">']
    for day in range(3):
        lines.append("<trk><name>walker</name>")
        for segment in range(2):
            time_s = np.arange(0.0, 601.0, 10.0)
            lat, lon = _degrees(
                _wander(2, 2 * day + segment, time_s, side_m=(800.0, 800.0), speed_m_s=(1.0, 1.8))
            )
            lines.append("<trkseg>")
            for t, y, x in zip(time_s, lat, lon, strict=True):
                moment = MONDAY + timedelta(days=day, hours=9 + segment, seconds=float(t))
                lines.append(
                    f'<trkpt lat="{y:.6f}" '
                    f'lon="{x:.6f}"><time>{moment:%Y-%m-%dT%H:%M:%SZ}</time></trkpt>'
                )
            lines.append("</trkseg>")
        lines.append("</trk>")
    return ("\n".join([*lines, "</gpx>"]) + "\n").encode("ascii")


def cars_fcd() -> bytes:
    """SUMO FCD: ten minutes of eight cars, every 12 s; a car more enters every half minute."""
    time_s = np.arange(0.0, 600.0, 12.0)
    cars = [
        _wander(3, car, time_s, side_m=(1200.0, 1000.0), speed_m_s=(6.0, 14.0)) for car in range(8)
    ]
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<fcd-export>"]
    for at, t in enumerate(time_s):
        lines.append(f'    <timestep time="{t:.2f}">')
        for car, xy_m in enumerate(cars):
            if t >= 30.0 * car:
                x, y = xy_m[at] + 600.0
                lines.append(f'        <vehicle id="car{car}" x="{x:.2f}" y="{y:.2f}" type="car"/>')
        lines.append("    </timestep>")
    return ("\n".join([*lines, "</fcd-export>"]) + "\n").encode("ascii")


def new_taxi() -> bytes:
    """Cabspotting: five hours on three days, every minute; the newest first."""
    lines = []
    for day in range(3):
        time_s = np.arange(0.0, 18_000.0, 60.0)
        lat, lon = _degrees(_wander(5, day, time_s, side_m=(4000.0, 3000.0), speed_m_s=(5.0, 12.0)))
        start_s = MONDAY_S + day * DAY_S + 8 * 3600
        for t, y, x in zip(time_s, lat, lon, strict=True):
            lines.append(f"{y:.5f} {x:.5f} {int(t // 900) % 2} {start_s + t:.0f}")
    return ("\n".join(reversed(lines)) + "\n").encode("ascii")


EXAMPLE_OF = {
    "commuter.csv.gz": commuter,
    "walk.plt": walk_plt,
    "walk.gpx": walk_gpx,
    "cars.fcd.xml": cars_fcd,
    "new_taxi.txt": new_taxi,
}


def _wander(
    file: int,
    walk: int,
    time_s: FloatArray,
    side_m: tuple[float, float],
    speed_m_s: tuple[float, float],
) -> FloatArray:
    """Places (n, 2) on straight legs between random points of a box around (0, 0)."""
    rng = np.random.default_rng([2026, file, walk])
    half_m = np.array(side_m) / 2
    points = [rng.uniform(-half_m, half_m)]
    arrivals_s = [0.0]
    while arrivals_s[-1] < time_s[-1]:
        points.append(rng.uniform(-half_m, half_m))
        length_m = float(np.hypot(*(points[-1] - points[-2])))
        arrivals_s.append(arrivals_s[-1] + length_m / rng.uniform(*speed_m_s))
    return np.column_stack([np.interp(time_s, arrivals_s, axis) for axis in np.array(points).T])


def _degrees(xy_m: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Latitude and longitude of points around the place."""
    plane = CRS.from_proj4("+proj=aeqd +lat_0=52 +lon_0=4 +datum=WGS84")
    lon, lat = Transformer.from_crs(plane, "EPSG:4326", always_xy=True).transform(*xy_m.T)
    return lat, lon


if __name__ == "__main__":
    main()
