"""Who lives somewhere, of the recorded traces: the walker does, as published, and taxis, drives and
visitors do not."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from netsim.trace_files.read import read_trace
from netsim.traces.home_work import find_user_places


def all_lived(path, zone, **settings):
    """Of every user of a trace."""
    trace = read_trace(path, timezone=zone, cell="all" if "rsrp" in path.name else None, **settings)
    clock = trace.local.build_clock(float(trace.time_s.max()))
    edges = np.searchsorted(trace.user, np.arange(len(trace.users) + 1))
    return [
        find_user_places(trace.position_m[a:b], trace.time_s[a:b], clock)
        for a, b in pairwise(edges)
    ]


def test_the_walker_lives_where_he_did(data_folder):
    """The rows of the densest 100 m square between 0 and 6 h had their mean at (-1264.9,
    1919.7)."""
    box = (39.95, 116.28, 40.03, 116.37)
    path = data_folder / "mobility_geolife_beijing.csv.gz"
    (homes,) = all_lived(path, "Asia/Shanghai", users="id", area_deg=box, resample_s=30)
    assert_allclose(homes.home_m, (-1264.85, 1919.72), atol=1.0)
    assert homes.nights == 3
    assert np.isfinite(homes.work_m).all()
    (cut,) = all_lived(
        path, "Asia/Shanghai", users="id", area_deg=box, resample_s=30, until="2008-12-05"
    )
    assert cut.nights == 2
    assert np.isnan(cut.home_m).all()


@pytest.mark.parametrize(
    "name, zone, users",
    [
        ("mobility_cabspotting_sf.csv.gz", "America/Los_Angeles", "id"),
        ("mobility_santamonica_att.csv.gz", "America/Los_Angeles", "id"),
        ("rsrp_cork_ucc5g_2019.csv.gz", "Europe/Dublin", "all"),
        ("checkins_foursquare_la.csv.gz", "America/Los_Angeles", "id"),
    ],
)
def test_vehicles_and_visitors_live_nowhere(name, zone, users, data_folder):
    homes = all_lived(data_folder / name, zone, users=users)
    assert not np.isfinite([home.home_m for home in homes]).any()
    assert np.isfinite([home.densest_m for home in homes]).all()
