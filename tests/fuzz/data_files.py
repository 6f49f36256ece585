"""Data files of every format that is read: traces, maps, networks, cells, images, homes and
places."""

import io
import math
import struct

import numpy as np

T0 = 1_767_600_000  # 2026-01-05T08:00:00Z
TRACK = [(T0 + 600.0 * i, 52.0 + 1e-3 * (i % 7), 4.0 - 2e-3 * (i % 5)) for i in range(40)]


def csv_trace():
    rows = "".join(
        f"{t:.0f},u{i % 2},{lat:.5f},{lon:.5f},{-80 - i % 9},c{i % 2}\n"
        for i, (t, lat, lon) in enumerate(TRACK)
    )
    return "time_s,user,lat,lon,rsrp_dbm,cell\n" + rows


def metres_trace():
    return "time_s,user,x_m,y_m\n" + "".join(
        f"{60 * t},{user},{100 + t * k},{50 + t}\n"
        for t in range(30)
        for k, user in enumerate("ab")
    )


def _deg(x_m, y_m):
    return [11.575 + x_m / 111_320 / math.cos(math.radians(48.137)), 48.137 + y_m / 111_320]


def _feature(kind, coordinates, **properties):
    return {
        "type": "Feature",
        "properties": properties,
        "geometry": {"type": kind, "coordinates": coordinates},
    }


def _ring(x_m, y_m, side_m):
    corners = [(0, 0), (side_m, 0), (side_m, side_m), (0, side_m), (0, 0)]
    return [_deg(x_m + a, y_m + b) for a, b in corners]


def buildings():
    houses = [
        _feature("Polygon", [_ring(x, y, 30)], building="yes", height=f"{9 + x / 50}")
        for x in (0, 100, 200)
        for y in (0, 90)
    ]
    court = _feature(
        "MultiPolygon",
        [[_ring(300, 0, 60), _ring(310, 10, 20)]],
        **{"building": "house", "building:levels": 3},
    )
    return {"type": "FeatureCollection", "features": [*houses, court]}


def streets():
    ways = [
        _feature(
            "LineString",
            [_deg(x, -20), _deg(x, 60), _deg(x, 150)],
            highway="residential",
            maxspeed="30",
            oneway="no",
        )
        for x in (-20, 60, 160, 260)
    ]
    across = [
        _feature(
            "LineString", [_deg(x, y) for x in (-20, 60, 160, 260)], highway="primary", name="a"
        )
        for y in (-20, 60, 150)
    ]
    return {"type": "FeatureCollection", "features": ways + across}


def net():
    edges = ""
    for a, b, y in (("a", "b", 0), ("b", "a", 3), ("b", "c", 6), ("c", "b", 9)):
        x = {"a": 0.0, "b": 150.0, "c": 300.0}
        edges += (
            f'<edge id="{a}{b}" from="{a}" to="{b}" type="highway.primary"><lane '
            f'id="{a}{b}_0" index="0" speed="13.9" '
            f'length="150" shape="{x[a]},{y} {x[b]},{y}"/></edge>\n'
        )
    nodes = "".join(
        f'<junction id="{n}" type="priority" x="{x}" y="0.0" shape="0,0"/>\n'
        for n, x in (("a", 0.0), ("b", 150.0), ("c", 300.0))
    )
    location = (
        '<location netOffset="-691567.33,-5334734.33" convBoundary="0,0,300,9" '
        'origBoundary="11,48,12,49" '
        'projParameter="+proj=utm +zone=32 +ellps=WGS84 +datum=WGS84 +units=m +no_defs"/>'
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<net '
        f'version="1.20">\n{location}\n{edges}{nodes}</net>'
    )


def cells():
    rows = "".join(
        f"LTE,262,2,{i},{1000 + i},,{11.575 + i * 1e-3:.5f},{48.137 + i * 1e-3:.5f},1000,9,1,1,1,0\n"
        for i in range(6)
    )
    return (
        "radio,mcc,net,area,cell,unit,lon,lat,range,samples,changeable,created,updated,averageSignal\n"
        + rows
    )


def sites():
    return "name,x_m,y_m,azimuth_deg,tilt_deg,height_m,power_dbm,band\na,100,100,30,6,25,15,n78\nb,300,200,,,8,,n78\n"


def gains():
    rows = "".join(
        f"{cell},{x},{y},-{90 + x / 10 + y / 9:.2f}\n"
        for cell in "ab"
        for x in (0, 200, 400)
        for y in (0, 300)
    )
    return "cell,x_m,y_m,path_gain_db\n" + rows


def gain_arrays():
    x_m, y_m = np.meshgrid([0.0, 200.0, 400.0], [0.0, 300.0])
    file = io.BytesIO()
    centers = np.stack([x_m, y_m, np.full_like(x_m, 1.5)], axis=-1)
    np.savez(file, path_gain=np.full((2, 2, 3), 1e-9), cell_centers=centers, cells=["a", "b"])
    return file.getvalue()


def drive():
    return "rsrp_dbm,sinr_db\n" + "".join(f"{-90 - k % 9},{k % 7}.5\n" for k in range(20))


def idx(values):
    values = np.asarray(values, dtype=np.uint8)
    return (
        struct.pack(f">{1 + values.ndim}I", 0x0800 + values.ndim, *values.shape) + values.tobytes()
    )


def images():
    rng = np.random.default_rng(0)
    files = {}
    for name, count in (("train", 60), ("t10k", 30)):
        files[f"images/{name}-images-idx3-ubyte"] = idx(rng.integers(0, 256, (count, 8, 8)))
        files[f"images/{name}-labels-idx1-ubyte"] = idx(np.arange(count) % 3)
    return files


def homes():
    return "user,x_m,y_m\n" + "".join(f"p{i},{20 * i + 10},{15 * i + 5}\n" for i in range(9))


def places():
    return "x_m,y_m\n" + "".join(f"{13 * i % 400},{7 * i % 300}\n" for i in range(40))
