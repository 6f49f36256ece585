"""Write scenarios/examples/commuter.csv.gz: two weeks of the commuter model, as if recorded by a phone.

    python -m benchmarks.make_example_trace

Nothing in it was measured. The place (52.0 N, 4.0 E) is open sea.
"""

import gzip
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path

from pyproj import CRS, Transformer

from netsim.rng import Streams
from netsim.world import build_world
from scenarios.study import load

DAYS = 14
TARGET = Path(__file__).parent.parent / "scenarios" / "examples" / "commuter.csv.gz"


def main() -> None:
    """Simulate, project to longitude and latitude, write."""
    study = load("campus", {"world.duration_s": DAYS * 86_400})
    world = build_world(study.world, Streams(2026), 86_400.0)
    world.env.run(until=world.duration_s)
    seen = world.observations()
    plane = CRS.from_proj4("+proj=aeqd +lat_0=52 +lon_0=4 +datum=WGS84")
    lon, lat = Transformer.from_crs(plane, "EPSG:4326", always_xy=True).transform(*seen.position_m.T)
    start_s = datetime(2026, 1, 5, tzinfo=UTC).timestamp()
    # no time stamp in the gzip header: the same bytes at every call
    with gzip.GzipFile(TARGET, "wb", mtime=0) as packed, TextIOWrapper(packed, encoding="ascii") as text:
        text.write("time_s,user,lat,lon,rsrp_dbm,cell\n")
        for t, y, x, rsrp in zip(start_s + seen.time_s, lat, lon, seen.rsrp_dbm, strict=True):
            text.write(f"{t:.0f},phone,{y:.6f},{x:.6f},{rsrp:.0f},campus\n")


if __name__ == "__main__":
    main()
