"""Where a replayed trace and a file of cells lie in the plane of a city."""

import json

import numpy as np
import pytest

from netsim.build import build_world
from netsim.errors import BadInput
from netsim.mobility.replay import Replay
from netsim.rng import Streams


@pytest.fixture
def town(tmp_path):
    """Footprints in degrees around 48.14, 11.58."""
    ring = [[11.579, 48.139], [11.581, 48.139], [11.581, 48.141], [11.579, 48.141], [11.579, 48.139]]
    house = {"type": "Feature", "properties": {"height": 9}, "geometry": {"type": "Polygon", "coordinates": [ring]}}
    (tmp_path / "town.geojson").write_text(json.dumps({"type": "FeatureCollection", "features": [house]}))
    return {"kind": "footprints", "file": str(tmp_path / "town.geojson"), "margin_m": 500.0}


def trace(folder, text):
    (folder / "trace.csv").write_text(text)
    return {"kind": "replay", "trace": str(folder / "trace.csv")}


def walk(lat, lon, n=40):
    rows = [f"{30 * k},{'ab'[k % 2]},{lat + 1e-5 * k},{lon}" for k in range(n)]
    return "time_s,user,lat,lon\n" + "\n".join(rows) + "\n"


def built(tiny, changes):
    study = tiny({"learning": None, "world.duration_s": None, "world.radio": {}, **changes})
    return build_world(study.world, Streams(1), study.round_s)


def replayed(mobility):
    return {"world.ues": {"mobility": mobility}}


def test_a_trace_with_another_origin_is_refused_with_the_value_to_set(tiny, tmp_path, town):
    mobility = trace(tmp_path, walk(48.16, 11.58))
    with pytest.raises(BadInput, match=r"world\.city\.origin_deg: .* set it to \[48\.16\d*, 11\.58\]"):
        built(tiny, {**replayed(mobility), "world.city": town})
    own = list(Replay(**mobility).load(60.0).origin_deg)
    world = built(tiny, {**replayed(mobility), "world.city": {**town, "origin_deg": own, "margin_m": 5000.0}})
    assert not [w for w in world.warnings if "lies outside" in w]


def test_a_trace_outside_of_the_city_is_refused_and_one_partly_outside_is_told(tiny, tmp_path):
    rows = [f"{60 * k},{'ab'[k % 2]},{x},50" for k, x in enumerate(np.linspace(-300, 100, 41))]
    mobility = trace(tmp_path, "time_s,user,x_m,y_m\n" + "\n".join(rows) + "\n")
    field = {"kind": "open-field", "width_m": 400.0, "height_m": 300.0}
    told = [w for w in built(tiny, {**replayed(mobility), "world.city": field}).warnings if "of the trace lies" in w]
    assert told == ["73.2 % of the trace lies outside of the area x 0 to 400 m, y 0 to 300 m"]
    away = trace(tmp_path, "time_s,user,x_m,y_m\n" + "\n".join(f"{60 * k},a,{-9 - k},5" for k in range(20)) + "\n")
    with pytest.raises(BadInput, match=r"world\.city: the whole trace lies outside of the area x 0 to 400 m"):
        built(tiny, {**replayed(away), "world.city": field})
