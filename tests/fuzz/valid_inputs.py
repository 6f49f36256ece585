"""Valid inputs of every kind, made here by the program's own writers, and by hand where it only reads."""

import copy
import gzip
import io
import json
import math
import struct
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from conftest import TINY

T0 = 1_767_600_000  # 2026-01-05T08:00:00Z
TRACK = [(T0 + 600.0 * i, 52.0 + 1e-3 * (i % 7), 4.0 - 2e-3 * (i % 5)) for i in range(40)]


def tiny(**changes):
    """The tiny study as a tree, with other top-level entries."""
    return {**copy.deepcopy(TINY), **changes}


def with_attack(**attack):
    study = tiny()
    study["learning"]["attacks"] = [attack]
    return study


def rich():
    """A study of many parts."""
    study = tiny(vary={"seed": [1, 2], "values": {"learning.learner.learning_rate": [0.1, 0.01]}})
    study["world"]["radio"] |= {
        "uplink": {"kind": "noma"},
        "fading": {"kind": "rayleigh"},
        "line_of_sight": {"kind": "probability"},
        "path_loss": {"kind": "uma"},
    }
    study["learning"] |= {
        "data": {"kind": "measured", "hold_out": 0.2},
        "curation": [{"kind": "random", "num": 3}],
        "defenses": [{"kind": "clip", "norm": 1.0}, {"kind": "gaussian", "noise_multiplier": 0.1}],
        "attacks": [{"kind": "closed-form"}, {"kind": "dlg", "starts": 2, "iterations": 3}, {"kind": "link-rounds"}],
        "server_optimiser": {"kind": "fedadam"},
        "availability": {"kind": "always"},
        "threat": {"targets": 2},
    }
    return study


def radio_only():
    study = tiny()
    del study["learning"]
    study["world"]["city"] = {"kind": "grid", "width_m": 400, "height_m": 300, "block_m": 80, "street_m": 20}
    study["world"]["ues"]["mobility"] = {"kind": "manhattan"}
    del study["world"]["radio"]["measurement_noise_db"]
    study["world"]["radio"]["handover"] = {}
    return study


def live():
    """A live world for an agent of power."""
    from power_problems import ONLINE

    study = tiny()
    for path, value in ONLINE.items():
        *way, last = path.split(".")
        node = study
        for step in way:
            node = node.setdefault(step, {})
        node[last] = copy.deepcopy(value)
    return study


def csv_trace():
    rows = "".join(
        f"{t:.0f},u{i % 2},{lat:.5f},{lon:.5f},{-80 - i % 9},c{i % 2}\n" for i, (t, lat, lon) in enumerate(TRACK)
    )
    return "time_s,user,lat,lon,rsrp_dbm,cell\n" + rows


def plt_trace():
    head = "Geolife trajectory\nWGS 84\nAltitude is in Feet\nReserved 3\n0,2,255,My Track,0,0,2,8421376\n0\n"
    rows = ""
    for t, lat, lon in TRACK:
        rows += (
            f"{lat:.6f},{lon:.6f},0,492,{t / 86400 + 25569:.10f},{datetime.fromtimestamp(t, UTC):%Y-%m-%d,%H:%M:%S}\n"
        )
    return head + rows


def gpx_trace():
    points = "".join(
        f'<trkpt lat="{lat:.5f}" lon="{lon:.5f}">'
        f"<time>{datetime.fromtimestamp(t, UTC):%Y-%m-%dT%H:%M:%SZ}</time></trkpt>\n"
        for t, lat, lon in TRACK
    )
    head = '<?xml version="1.0"?>\n<gpx version="1.1" creator="t" xmlns="http://www.topografix.com/GPX/1/1">'
    return f"{head}<trk><name>Anna</name><trkseg>{points}</trkseg></trk></gpx>"


def fcd_trace():
    steps = "".join(
        f'<timestep time="{t}.00"><vehicle id="v" x="{100 + 3 * t}.5" y="{50 + t}.2" speed="1"/>'
        f'<person id="p" x="{t}.0" y="9.0"/></timestep>\n'
        for t in range(40)
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<fcd-export>{steps}</fcd-export>'


def ns2_trace():
    text = ""
    for k in range(3):
        text += f"$node_({k}) set X_ {100 + k}.0\n$node_({k}) set Y_ 50.0\n"
        text += f'$ns_ at {5 * k}.0 "$node_({k}) setdest {200 + k}.5 80.25 {1.5 + k}"\n'
        text += f'$ns_ at 20.0 "$node_({k}) switch OFF"\n'
    return text


def cab_trace():
    return "".join(f"{lat:.5f} {lon:.5f} {i % 2} {t:.0f}\n" for i, (t, lat, lon) in reversed(list(enumerate(TRACK))))


def metres_trace():
    return "time_s,user,x_m,y_m\n" + "".join(
        f"{60 * t},{who},{100 + t * k},{50 + t}\n" for t in range(30) for k, who in enumerate("ab")
    )


def _deg(x_m, y_m):
    return [11.575 + x_m / 111_320 / math.cos(math.radians(48.137)), 48.137 + y_m / 111_320]


def _feature(kind, coordinates, **properties):
    return {"type": "Feature", "properties": properties, "geometry": {"type": kind, "coordinates": coordinates}}


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
        "MultiPolygon", [[_ring(300, 0, 60), _ring(310, 10, 20)]], **{"building": "house", "building:levels": 3}
    )
    return {"type": "FeatureCollection", "features": [*houses, court]}


def streets():
    ways = [
        _feature(
            "LineString", [_deg(x, -20), _deg(x, 60), _deg(x, 150)], highway="residential", maxspeed="30", oneway="no"
        )
        for x in (-20, 60, 160, 260)
    ]
    across = [
        _feature("LineString", [_deg(x, y) for x in (-20, 60, 160, 260)], highway="primary", name="a")
        for y in (-20, 60, 150)
    ]
    return {"type": "FeatureCollection", "features": ways + across}


def net():
    edges = ""
    for a, b, y in (("a", "b", 0), ("b", "a", 3), ("b", "c", 6), ("c", "b", 9)):
        x = {"a": 0.0, "b": 150.0, "c": 300.0}
        edges += (
            f'<edge id="{a}{b}" from="{a}" to="{b}" type="highway.primary"><lane id="{a}{b}_0" index="0" speed="13.9" '
            f'length="150" shape="{x[a]},{y} {x[b]},{y}"/></edge>\n'
        )
    nodes = "".join(
        f'<junction id="{n}" type="priority" x="{x}" y="0.0" shape="0,0"/>\n'
        for n, x in (("a", 0.0), ("b", 150.0), ("c", 300.0))
    )
    location = (
        '<location netOffset="-691567.33,-5334734.33" convBoundary="0,0,300,9" origBoundary="11,48,12,49" '
        'projParameter="+proj=utm +zone=32 +ellps=WGS84 +datum=WGS84 +units=m +no_defs"/>'
    )
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<net version="1.20">\n{location}\n{edges}{nodes}</net>'


def cells():
    rows = "".join(
        f"LTE,262,2,{i},{1000 + i},,{11.575 + i * 1e-3:.5f},{48.137 + i * 1e-3:.5f},1000,9,1,1,1,0\n" for i in range(6)
    )
    return "radio,mcc,net,area,cell,unit,lon,lat,range,samples,changeable,created,updated,averageSignal\n" + rows


def idx(values):
    values = np.asarray(values, dtype=np.uint8)
    return struct.pack(f">{1 + values.ndim}I", 0x0800 + values.ndim, *values.shape) + values.tobytes()


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


def claims():
    rules = [
        {"kind": "order", "key": "attack.closed-form.sqrt_sw1.mean", "labels": ["1 h", "24 h", "7 d"]},
        {"kind": "within", "key": "attack.closed-form.sqrt_sw1.mean", "labels": ["1 h"], "tolerance": 1.5},
    ]
    return {
        "minutes": {"signal-maps/interval": 6.2},
        "claims": [
            {
                "id": f"c{i}",
                "paper": "A paper",
                "where": "Fig. 1",
                "says": "Less.",
                "scenario": "signal-maps/interval",
                "rule": rule,
            }
            | ({"value": 5.3} if i else {})
            for i, rule in enumerate(rules)
        ],
    }


def _policy(folder):
    from rl.policy import Card, Policy, save_policy

    card = Card(
        program="0",
        task="online",
        observe="online",
        ues=3,
        hidden=(6,),
        limits={"each_min_w": 1e-9, "total_min_w": 0.0},
    )
    rng = np.random.default_rng(0)
    layers = tuple((rng.normal(size=shape).astype(np.float32), np.zeros(shape[0], np.float32)) for shape in card.shapes)
    save_policy(Policy(card, layers, None), folder)


def _model(file):
    """A model as stable-baselines3 saves it; of its entries two are read."""
    import zipfile

    import torch

    rng = np.random.default_rng(0)
    shapes = {0: (16, 17), 2: (8, 16), 4: (3, 8)}
    weights = {}
    for layer, shape in shapes.items():
        weights[f"actor.mu.{layer}.weight"] = torch.tensor(rng.normal(size=shape), dtype=torch.float32)
        weights[f"actor.mu.{layer}.bias"] = torch.zeros(shape[0])
    out = io.BytesIO()
    torch.save(weights, out)
    with zipfile.ZipFile(file, "w") as new:
        new.writestr("data", json.dumps({"policy_kwargs": {"net_arch": [16, 8]}}))
        new.writestr("policy.pth", out.getvalue())


def _stopped(study, folder):
    """The folder of a run that was interrupted after its first round."""
    from scenarios.app.run import radio, simulate
    from scenarios.app.run.runner import run
    from scenarios.app.study.load import load

    def stop(progress):
        raise KeyboardInterrupt

    file = folder.parent / f"{folder.name}.yaml"
    file.write_text(json.dumps(study))
    every = simulate.CHECKPOINT_EVERY_S, radio.CHECKPOINT_EVERY_S
    simulate.CHECKPOINT_EVERY_S = radio.CHECKPOINT_EVERY_S = 0.0
    try:
        run(load(str(file)), folder, stop)
    except KeyboardInterrupt:
        pass
    finally:
        simulate.CHECKPOINT_EVERY_S, radio.CHECKPOINT_EVERY_S = every


def made(root: Path) -> dict[str, bytes]:
    """Name -> bytes of every valid file, those of folders by their path."""
    from scenarios.app.report.report import report
    from scenarios.app.run.runner import run
    from scenarios.app.study.load import load

    root.mkdir(parents=True, exist_ok=True)
    files = {
        "tiny.yaml": tiny(),
        "rich.yaml": rich(),
        "radio.yaml": radio_only(),
        "live.yaml": live(),
        "homes.yaml": with_attack(kind="re-identify", homes="homes.csv"),
        "places.yaml": with_attack(kind="tracker", population={"kind": "places", "file": "places.csv"}),
        "houses.geojson": buildings(),
        "streets.geojson": streets(),
        "claims.yaml": claims(),
        "t.csv": csv_trace(),
        "t.plt": plt_trace(),
        "t.gpx": gpx_trace(),
        "t.fcd.xml": fcd_trace(),
        "t.ns2": ns2_trace(),
        "new_cab.txt": cab_trace(),
        "m.csv": metres_trace(),
        "net.net.xml": net(),
        "cells.csv": cells(),
        "homes.csv": homes(),
        "places.csv": places(),
        **images(),
    }
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        text = content if isinstance(content, str | bytes) else json.dumps(content, indent=1)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (root / "t.csv.gz").write_bytes(gzip.compress(csv_trace().encode()))
    _policy(root / "policy")
    _model(root / "model.zip")
    study = load(str(root / "tiny.yaml"))
    run(study, root / "done")
    report(root / "done")
    _stopped(tiny(), root / "half")
    _stopped(radio_only(), root / "heard")
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}
