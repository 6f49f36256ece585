"""Base stations, handover, and the channel card."""

import gzip
import json
import re

import shapely
from noticed import lines
from numpy import (
    arange,
    argmax,
    array,
    clip,
    column_stack,
    corrcoef,
    cumsum,
    fill_diagonal,
    floor,
    full,
    hypot,
    inf,
    isnan,
    linspace,
    log10,
    nan,
    pi,
    searchsorted,
    sin,
)
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, mark, raises
from refused import catch_line
from rows import read_yaml
from tabled import cases

from netsim.city.buildings import Buildings
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.notice import Built
from netsim.radio.antenna import ColumnAntenna, Sector
from netsim.radio.downlink import Handover
from netsim.rng import Streams
from netsim.world.base_stations import BaseStation, CellFile, Hexagonal, Scattered, Site
from netsim.world.build import build_world
from netsim.world.setting import WorldSetting

AREA = Area(0.0, 0.0, 2000.0, 1500.0)
THREE = Built(("a", "b", "c"), None)


class TestHexagonal:
    def test_every_site_has_its_neighbours_at_the_inter_site_distance(self):
        place = array([b.position_m for b in Hexagonal(inter_site_m=300).stations(AREA, None)])
        assert AREA.contains(place).all()
        assert (abs(place - AREA.centre_m).max(axis=1) < 1e-9).any()
        distance = norm(place[:, None] - place[None], axis=-1)
        fill_diagonal(distance, inf)
        assert_allclose(distance.min(), 300.0)
        middle = norm(place - AREA.centre_m, axis=1).argmin()
        assert (abs(distance[middle] - 300.0) < 1e-6).sum() == 6


class TestCellFile:
    def test_reads_projects_and_leaves_out_what_is_far(self, tmp_path):
        (tmp_path / "cells.csv").write_text("""radio,mcc,net,area,cell,unit,lon,lat,range,samples
LTE,262,1,77,1001,0,11.58,48.14,500,9
LTE,262,1,77,1001,0,11.58,48.14,500,9
GSM,262,1,77,1002,0,11.585,48.142,500,9
LTE,262,1,77,1003,0,13.40,52.52,500,9
""")  # the same cell twice, and another city
        layout = CellFile(file=str(tmp_path / "cells.csv"))
        area = Area(-1000.0, -1000.0, 1000.0, 1000.0)
        result = layout.stations(area, (48.14, 11.58))
        assert [b.name for b in result] == ["LTE-262-1-77-1001", "GSM-262-1-77-1002"]
        assert_allclose(result[0].position_m, (0.0, 0.0), atol=1e-6)
        assert_allclose(result[1].position_m, (372.0, 222.4), rtol=0.01)
        # 628 and 972 m outside: still heard, unless told otherwise
        neighbour = Area(1000.0, 1000.0, 2000.0, 2000.0)
        actual = len(
            layout.model_copy(update={"margin_m": 1100.0}).stations(neighbour, (48.14, 11.58))
        )
        assert actual == 2
        with raises(BadInput, match="of the area"):
            layout.model_copy(update={"margin_m": 0.0}).stations(neighbour, (48.14, 11.58))
        only = layout.model_copy(update={"radio": "GSM"}).stations(area, (48.14, 11.58))
        assert [b.name for b in only] == ["GSM-262-1-77-1002"]

    PLAIN = """radio,mcc,net,area,cell,unit,lon,lat,range,samples,changeable,created,updated,averageSignal
UMTS,262,2,801,86355,0,13.285512,52.522202,1000,7,1,1282569574,1300155341,0
LTE,262,1,77,1001,0,13.29,52.52,500,9,1,1282569574,1300155341,0
"""
    API = """lat,lon,mcc,mnc,lac,cellid,averageSignalStrength,range,samples,changeable,radio,rnc,cid,tac,sid,nid,bid
52.522202,13.285512,262,2,801,86355,-1,1000,7,1,UMTS,,,,,,
52.52,13.29,262,1,77,1001,-1,500,9,1,LTE,,,77,,,
"""

    @mark.parametrize(
        "name, head, changes",
        cases(r"""
    "header.csv", "", {}
    "262.csv", "", {r"\Aradio.*\n": ""}
    "262.csv.gz", "", {r"\Aradio.*\n": ""}
    "packed.csv", "", {}
    "api.csv", "", {}
    "semicolon.csv", "", {",": ";"}
    "german.csv", "", {",": ";", r"\.": ","}
    "quoted.csv", "", {"(?m)^(?=.)|(?<=.)$": '"', ",": '","'}
    "bom.csv", "\ufeff", {"\n": "\r\n"}
    "spreadsheet.csv", "\ufeffsep=;\r\n", {",": ";", "\n": "\r\n"}
    "tabs.csv", "SEP=\t\n# from, a, server\n", {",": "\t"}
    "comments.csv", "# cells of Berlin; 2024\n\n#", {r"\A(.*\n)": r"\1\1"}
    "commented.csv", "#", {}
"""),
    )
    def test_files_as_they_are_downloaded(self, tmp_path, name, head, changes):
        text = self.API if name == "api.csv" else self.PLAIN
        for old, new in changes.items():
            text = re.sub(old, new, text)
        raw = (head + text).encode()
        if name in ("262.csv.gz", "packed.csv"):
            raw = gzip.compress(raw, mtime=0)
        (tmp_path / name).write_bytes(raw)
        layout = CellFile(file=str(tmp_path / name))
        result = layout.stations(AREA, (52.52, 13.28))
        assert [b.name for b in result] == ["UMTS-262-2-801-86355", "LTE-262-1-77-1001"]
        plain = tmp_path / "plain.csv"
        plain.write_text(self.PLAIN)
        expected = CellFile(file=str(plain)).stations(AREA, (52.52, 13.28))
        assert [b.position_m for b in result] == [b.position_m for b in expected]
        (note,) = lines(layout.notices(Built(("a", "b"), None)))
        assert note.startswith(
            f"base stations: {layout.file}: 2 positions are centres of where phones measured"
        )
        only = layout.model_copy(update={"radio": "lte"}).stations(AREA, (52.52, 13.28))
        assert [b.name[:3] for b in only] == ["LTE"]
        with raises(BadInput, match=r"no cell of 'NR'; the file has UMTS, LTE"):
            layout.model_copy(update={"radio": "NR"}).stations(AREA, (52.52, 13.28))

    @mark.parametrize(
        "first, second, n",
        cases("""
    "LTE,262,1,77,1024267", "LTE,262,1,78,1024267", 1
    "lte,262,01,77,1024267", "LTE,262,1,,0xFA10B", 1
    "NR,262,1,77,68000000001", "NR,262,1,-1,68 000 000 001", 1
    "NBIOT,262,1,77,1024267.0", "NBIOT,262,1,0,1024267", 1
    "LTE,262,1,77,1024267", "LTE,262,2,77,1024267", 2
    "LTE,262,1,77,1024267", "NR,262,1,77,1024267", 2
    "GSM,262,1,77,1002", "GSM,262,1,78,1002", 2
    "UMTS,262,1,77,1002", "UMTS,262,1,78,1002", 2
    "GSM,262,1,77,1002", "GSM,262,1,077,1002", 1
    "LTE,262,1,77,0", "LTE,262,1,77,1024267", 1
    "LTE,262,1,77,2147483647", "LTE,262,1,77,268435455", 0
"""),
    )
    def test_a_cell_is_told_by_what_its_technology_numbers(self, tmp_path, first, second, n):
        """Of GSM and UMTS in an area, of LTE and NR in the whole network; unknown numbers are
        none."""
        path = tmp_path / "cells.csv"
        path.write_text(
            f"radio,mcc,net,area,cell,unit,lon,lat\n{first},0,11.58,48.14\n{second},0,11.581,48.141\n"
        )
        layout = CellFile(file=str(path))
        if n:
            assert len(layout.stations(AREA, (48.14, 11.58))) == n
        notes = " ".join(lines(layout.notices(Built(("a",) * n, None))))
        assert (f"{2 - n} row" in notes) == (n < 2)
        assert f"{n} positions are centres of where phones measured" in notes

    @mark.parametrize("column", ["samples", "Samples"])
    def test_positions_of_a_list_with_samples_are_centres(self, tmp_path, column):
        (tmp_path / "l.csv").write_text(f"name,lon,lat,{column}\na,11.58,48.14,9\n")
        assert "1 positions are centres of where" in " ".join(
            lines(CellFile(file=str(tmp_path / "l.csv")).notices(Built(("a",), None)))
        )

    @mark.parametrize(
        "raw, words",
        [
            (b"radio,mcc,net,area,cell,unit,lon,lat\n", "0 of its 0 cells"),
            (b"\0" * 99, "NUL byte"),
            (gzip.compress(b"radio,mcc", mtime=0)[:-9], "cut short"),
            (b'{"count": 1, "cells": [{"lat": 1}]}', "no column 'radio'"),
            (b"LTE,262,1,77,1,0,11.58,48.14\nLTE,262,1,77,2,0,x,48.14\n", "lon 'x'"),
            (
                b"sep=,\n# a\nLTE,262,1,77,1,0,999,48.14\n",
                "line 3: lon '999' must be a number from -180 to 180",
            ),
            (b"sep=,\n#\n", "the file is empty"),
            (b'sep="\n' + PLAIN.encode(), "line 1: no column 'radio'"),
            (
                b"radio,mcc,net,area,cell,unit,lon,lat\n" + b'LTE,1,1,1,"' + b"x\n" * 200_000,
                "not CSV",
            ),
        ],
    )
    def test_what_is_no_file_of_cells_gets_one_line(self, tmp_path, raw, words):
        path = tmp_path / "cells.csv"
        path.write_bytes(raw)
        assert words in catch_line(CellFile(file=str(path)).stations, AREA, (48.14, 11.58))


LIST = """name,lat,lon,azimuth_deg,tilt_deg,height_m,power_dbm,band,vendor
north-a,48.1400,11.5800,30,6,31.5,18,n78,x
north-b,48.1400,11.5800,-90,,31.5,18,n78,x
lamp,48.1420,11.5850,,,8,,n78,y
old,48.1400,11.5800,30,6,31.5,18,n28,x
far,52.5200,13.4000,,,8,,n78,y
"""


class TestListOfBaseStations:
    ORIGIN = (48.14, 11.58)
    WITHIN = Area(-1000.0, -1000.0, 1000.0, 1000.0)

    def layout(self, tmp_path, text=LIST, **keys):
        (tmp_path / "sites.csv").write_text(text)
        return CellFile(file=str(tmp_path / "sites.csv"), **keys)

    def test_a_list_without_positions_and_near_names_of_columns_are_said(self, tmp_path):
        text = LIST.replace("lon,", "x,").replace("tilt_deg", "tilt")
        message = catch_line(
            self.layout(tmp_path, text, band="n78").stations, self.WITHIN, self.ORIGIN
        )
        assert "no columns lon and lat, or x_m and y_m; the file has name, lat, x" in message
        near = lines(
            self.layout(tmp_path, LIST.replace("tilt_deg", "tilt"), band="n78").notices(THREE)
        )
        assert near[1].endswith("columns that are not read: tilt (is it tilt_deg?), vendor")
        both = lines(
            self.layout(tmp_path, LIST.replace("vendor", "power_w"), band="n78").notices(THREE)
        )
        assert both[1].endswith("columns that are not read: power_w")

    def test_every_column_reaches_its_cell_and_the_rest_is_counted(self, tmp_path):
        layout = self.layout(tmp_path, band="n78", power_dbm=12.0)
        north, west, lamp = layout.stations(self.WITHIN, self.ORIGIN)
        actual = (north.name, north.azimuth_deg, north.height_m, north.power_dbm)
        assert actual == (
            "north-a",
            30.0,
            31.5,
            18.0,
        )
        assert north.antenna == Sector(tilt_deg=6.0)
        assert west.antenna == Sector()
        assert west.azimuth_deg == 270.0
        actual = (lamp.name, lamp.azimuth_deg, lamp.height_m, lamp.power_dbm)
        assert actual == (
            "lamp",
            None,
            8.0,
            12.0,
        )
        assert_allclose(lamp.position_m, (372.0, 222.4), rtol=0.01)
        file = layout.file
        expected = [
            f"base stations: {file}: 1 cells of other bands are left out",
            f"base stations: {file}: columns that are not read: vendor",
            f"base stations: {file}: 1 cells further than 1000 m outside of the area are left out",
        ]
        assert lines(layout.notices(THREE)) == expected
        column = self.layout(tmp_path, band="n78", antenna=ColumnAntenna(elements=4))
        actual = column.stations(self.WITHIN, self.ORIGIN)[0].antenna
        assert actual == ColumnAntenna(elements=4, tilt_deg=6.0)

    def test_sectors_of_a_file_are_those_of_a_layout(self, tmp_path):
        """Of a site with three sectors, written as a file in metres under other headers: the same
        world to the bit."""
        area = Area(0.0, 0.0, 800.0, 800.0)
        cells = Hexagonal(inter_site_m=300, sectors=3).stations(area, None)
        rows = "".join(
            f"{b.name};{b.position_m[0]!r};{b.position_m[1]!r};{b.azimuth_deg}\n" for b in cells
        )
        layout = self.layout(tmp_path, "id;east;north;azimuth_deg\n" + rows).model_copy(
            update=read_yaml("columns: {name: id, x_m: east, y_m: north}")
        )
        assert layout.stations(area, None) == cells
        place = default_rng(0).uniform(0, 800, (50, 2))
        single, second = (
            build_sectored(item.model_dump(), shadowing={"kind": "correlated"})
            for item in (layout, Hexagonal(inter_site_m=300, sectors=3))
        )
        assert_array_equal(single.budget.rsrp_dbm(place), second.budget.rsrp_dbm(place))

    @mark.parametrize(
        "text, keys, words",
        cases(
            r"""
    "$list", {}, "base_stations.band: a radio has one carrier, and the file has cells of n28, n78"
    "$list", {"band": "n1"}, "n28, n78; take one of these (--set world.base_stations.band=n78)"
    "$list", {"radio": "NR"}, "base_stations.radio: the file has none"
    "$twins", {}, "line 5: its name is that of a cell above"
    "x_m,y_m,tilt_deg\n1,2,3\n", {}, "line 2: a tilt_deg needs an azimuth_deg"
    "x_m,y_m,height_m\n1,2,8 km\n", {}, "line 2, column height_m: '8 km' is not a number in [0, 1000]"
    "lat,lon\n48.14,\n", {}, "line 2, column lon: '' is not a number in [-180, 180]"
    "x,y\n1,2\n", {"columns": {"x_m": "x", "y_m": "northing"}},
     "y_m=northing: the file has no such column"
    "x_m,y_m,power_w\n1,2,20\n", {},
     "column 'power_w': is in w, but power_dbm is not; convert the column"
    "x_m,y_m\n9000,2\n", {}, "0 of its 1 cells lie within 1000 m"
""",
            list=LIST,
            twins=LIST.replace("old", "lamp").replace("n28", "n78"),
        ),
    )
    def test_what_is_no_list_gets_one_line(self, tmp_path, text, keys, words):
        assert words in catch_line(
            self.layout(tmp_path, text, **keys).stations, self.WITHIN, self.ORIGIN
        )

    def test_cells_outside_and_powers_of_a_carrier_are_said(self, tmp_path, tiny):
        """One of two outside is half; a source of the name stands in the refusal of a height."""
        rows = "x_m,y_m,height_m,power_dbm\n-1,-1,25,48\n9,9,25,15\n"
        file = {"kind": "cell-file", "file": self.layout(tmp_path, rows).file}
        result = lines(
            build_world(tiny({"world.base_stations": file}).world, Streams(1), 60.0).notices
        )
        assert "1 of 2 cells lie outside of the area" in result[0]
        assert "resource element, 48 at" in result[1]
        self.layout(tmp_path, rows.replace("-1,-1", "1,1").replace("48", "30"))
        study = tiny({"world.base_stations": file})
        assert build_world(study.world, Streams(1), 60.0).notices == ()
        changes = {
            "world.base_stations": file | {"height_m": 8},
            "world.radio": {"path_loss": {"kind": "uma"}},
        }
        self.layout(tmp_path, "x_m,y_m\n9,9\n")
        refused = catch_line(build_world, tiny(changes).world, Streams(1), 60.0)
        assert f"got 8 m of cell1 of {file['file']}" in refused

    def test_a_position_is_enough(self, tmp_path):
        first, second = self.layout(tmp_path, "x_m,y_m\n1,2\n3,4\n").stations(self.WITHIN, None)
        assert first == BaseStation(name="cell1", position_m=(1.0, 2.0))
        assert second.name == "cell2"


class TestHandover:
    def test_the_rule_is_that_of_a_slow_one(self):
        rng = default_rng(6)
        rsrp = -90 + cumsum(rng.normal(0, 1.5, (400, 12, 4)), axis=0)
        rsrp[rng.uniform(size=(400, 12)) < 0.02] = nan
        rule = Handover(hysteresis_db=2.0, time_to_trigger_s=0.4)
        state = Handover.start(12, 4)
        cell = [-1] * 12
        clock = [{} for _ in range(12)]
        count = 0
        for k, values in enumerate(rsrp):
            state, moved = rule.step(state, values, 0.1 * k)
            for ue, heard in enumerate(values):
                if isnan(heard).any():
                    cell[ue] = -1
                    clock[ue] = {}
                elif cell[ue] < 0:
                    cell[ue] = int(argmax(heard))
                    clock[ue] = {}
                else:
                    entered = [b for b in range(4) if heard[b] > heard[cell[ue]] + 2.0]
                    clock[ue] = {b: clock[ue].get(b, k) for b in entered}
                    due = [b for b in entered if k - clock[ue][b] >= 4]
                    assert moved[ue] == bool(due)
                    if due:
                        cell[ue] = max(due, key=lambda b: heard[b])
                        clock[ue] = {}
                        count = count + 1
            assert state.serving.tolist() == cell
        assert count > 30

    @mark.parametrize("own_fixes", [True, False])
    def test_a_ue_measures_its_serving_cell_until_it_is_handed_over(
        self, own_fixes, tiny, tmp_path
    ):
        trace = tmp_path / "t.csv"
        x = 200.0 + 190.0 * sin(arange(1200) / 40.0)
        trace.write_text(
            "time_s,user,x_m,y_m\n" + "".join(f"{t},a,{v:.2f},150\n" for t, v in enumerate(x))
        )
        replay = {
            "world.ues": {
                "mobility": {"kind": "replay", "trace": str(trace), "outlier_sigmas": None}
            },
            "world.duration_s": 1300,
        }
        waypoints = {"world.ues.count": 8, "world.duration_s": 1300}

        def cells(hysteresis_db):
            change = {
                "world.radio.handover": {"hysteresis_db": hysteresis_db, "time_to_trigger_s": 0}
            }
            world = build_world(
                tiny(change | (replay if own_fixes else waypoints)).world, Streams(1), 60.0
            )
            world.env.run(until=1290.0)
            seen = world.drain_observations()
            moves = world.drain_handovers()
            for ue in range(len(world.ues)):
                selected = seen.select(seen.ue == ue)
                time_s = [0.0, *(h.time_s for h in moves if h.ue == ue), inf]
                served = [int(selected.cell[0]), *(h.target for h in moves if h.ue == ue)]
                values = array(served)[searchsorted(time_s, selected.time_s, side="right") - 1]
                assert_array_equal(selected.cell, values)
            return len(moves)

        assert cells(30.0) < cells(1.0)
        assert cells(1.0) > 0

    def test_attaching_and_leaving_are_no_handovers(self):
        rule = Handover(time_to_trigger_s=0)
        state = Handover.start(1, 2)
        is_gone = [nan, nan]
        for k, (rsrp_dbm, serving) in enumerate(
            [(is_gone, -1), ([-80, -90], 0), (is_gone, -1), ([-90, -80], 1)]
        ):
            state, moved = rule.step(state, array([rsrp_dbm]), 0.1 * k)
            assert_array_equal(state.serving, [serving])
            assert not moved.any()


def test_every_cell_is_measured(tiny):
    single, both = (
        build_world(tiny({"world.ues.measure": m}).world, Streams(0), 60.0)
        for m in ("serving", "all")
    )
    for world in (single, both):
        world.env.run(until=60)
    of_both = both.drain_observations()
    assert len(of_both) == 2 * len(single.drain_observations())
    assert set(of_both.cell) == {0, 1}


@mark.parametrize(
    "exponent, far_m, power_dbm",
    cases("""
    6, 3600.0, 30.0
    7.5, 800.0, 30.0
    2, 300.0, 60.0
"""),
)
def test_exact_reports_have_no_range_and_quantised_ones_that_of_their_standard(
    exponent, far_m, power_dbm, tiny
):
    """10, 300 and far_m from an antenna: RSRP = power - 50 - 10 n log10(d / 10 m), whatever a
    report could say."""
    at_m = [[310.0, 300.0], [600.0, 300.0], [300.0 + far_m, 300.0]]
    changes = read_yaml("""
        world.city: {kind: open-field, width_m: 4000, height_m: 600},
        world.base_stations: [{name: a, position_m: [300, 300], height_m: 25}],
        world.ues: {count: 3, mobility: {kind: static}, measurement_period_s: 30}
    """)
    changes["world.base_stations"][0]["power_dbm"] = power_dbm
    changes["world.ues"]["mobility"]["positions_m"] = at_m
    path_loss = {"kind": "log-distance", "exponent": exponent}  # 50 dB at 10 m
    slant_m = hypot(array([10.0, 300.0, far_m]), 25 - 1.5)
    link_dbm = power_dbm - 50 - 10 * exponent * log10(slant_m / 10)
    for report, expected in {
        "exact": link_dbm,
        "quantised": floor(clip(link_dbm, -140, -44)),
        "quantised-nr": floor(clip(link_dbm, -156, -31)),
    }.items():
        world = build_world(
            tiny(changes | {"world.radio": {"path_loss": path_loss, "rsrp_report": report}}).world,
            Streams(0),
            60.0,
        )
        world.env.run(until=30)
        assert_allclose(world.drain_observations().rsrp_dbm, expected, atol=1e-9)
    assert exponent != 6 or link_dbm[2] == approx(-173.379, abs=5e-4)
    with raises(BadInput, match=r"world\.radio\.rsrp_report='quantised-lte': .*'quantised-nr'"):
        tiny({"world.radio.rsrp_report": "quantised-lte"})


def test_a_base_station_far_outside_is_refused_and_a_long_link_is_named(tiny):
    def built(at_m, **radio):
        single = [{"name": "a", "position_m": at_m, "height_m": 25}]
        changes = {"world.base_stations": single} | {
            f"world.radio.{k}": v for k, v in radio.items()
        }
        return build_world(tiny(changes).world, Streams(0), 60.0)

    with raises(BadInput, match=r"base_stations\[0\].position_m: a stands"):
        built([-1e9, 1.0])
    uma = {"path_loss": {"kind": "uma"}}
    assert built([0.0, 0.0], **uma).notices == ()
    outside, warning = lines(built([-6000.0, 0.0], **uma).notices)
    assert "5000 m" in warning
    assert "extrapolated" in warning
    assert "a stands 6,000 m outside of the area" in outside
    assert lines(built([-6000.0, 0.0]).notices) == [outside]  # log-distance holds anywhere


class TestUniform:
    def site(self, east_m, height_m):
        """A building over the west of the area."""
        walls = array([shapely.box(-1.0, -1.0, east_m, AREA.y_max_m + 1)], object)
        return Site(Buildings(walls, array([height_m])), Streams(0).derive_rng("stations"))

    def test_nobody_hovers_inside_a_building(self):
        middle = float(AREA.centre_m[0])
        stations = Scattered(count=50, height_m=20).stations(AREA, None, self.site(middle, 20.0))
        low = array([b.position_m for b in stations])
        above = Scattered(count=50, height_m=21).stations(AREA, None, self.site(middle, 20.0))
        high = array([b.position_m for b in above])
        assert (low[:, 0] >= middle).all()
        assert AREA.contains(low).all()
        assert (high[:, 0] < middle).any()

    def test_one_station_more_moves_no_other(self):
        few, many = (Scattered(count=n).stations(AREA, None) for n in (3, 5))
        assert many[:3] == few


# --- sectors of one mast
# ----------------------------------------------------------------------------------------


def build_sectored(stations, **radio):
    """A world of these base stations with UMa by the book."""
    document = read_yaml("""
        duration_s: 60.0, city: {kind: open-field, width_m: 800.0, height_m: 800.0},
        ues: {count: 2, mobility: {kind: static}, measurement_period_s: 10.0},
        radio: {path_loss: {kind: uma}}
    """)
    document["base_stations"] = stations
    document["radio"] |= radio
    return build_world(WorldSetting.model_validate_json(json.dumps(document)), Streams(4), 60.0)


LISTED = read_yaml("""
    all: [
        {name: alone, position_m: [100.0, 650.0]},
        {name: north-east, position_m: [400.0, 400.0], azimuth_deg: 30},
        {name: south-east, position_m: [400.0, 400.0], azimuth_deg: 150},
        {name: west, position_m: [400.0, 400.0], azimuth_deg: 270}]
""")["all"]


@mark.parametrize("shadowing", ["correlated", "iid"])
def test_sectors_of_a_mast_share_shadowing_and_sight(shadowing):
    world = build_sectored(LISTED, shadowing={"kind": shadowing})
    place = default_rng(0).uniform(0, 800, (2000, 2))
    links = world.budget.compute_links(0.0, place)
    shadow = world.budget.shadow.seen(place)
    for second in (2, 3):
        assert_array_equal(links.los[:, 1], links.los[:, second])
        assert_array_equal(shadow[:, 1], shadow[:, second])
    assert 0.1 < links.los[:, 1].mean() < 0.9  # sight is drawn
    assert abs(corrcoef(shadow[:, 0], shadow[:, 1])[0, 1]) < 0.3
    # between two sectors, 90 degrees from north, both antennas have the same gain: the powers are
    # one
    between = column_stack([linspace(410, 790, 50), full(50, 400.0)])
    result = world.budget.rsrp_dbm(between)
    assert_allclose(result[:, 1], result[:, 2], atol=1e-9)
    # a sector's shadowing is that of the mast with one antenna
    bare = [LISTED[0], {k: v for k, v in LISTED[1].items() if k != "azimuth_deg"}]
    expected = build_sectored(bare, shadowing={"kind": shadowing}).budget.shadow.seen(place)
    assert_array_equal(shadow[:, :2], expected)


# --- what a law of 3GPP means without further words
# ---------------------------------------------------------


def build_row(n, height_m):
    """Masts a metre apart."""
    return [
        {"name": f"b{k}", "position_m": [400.0 + k, 400.0], "height_m": height_m} for k in range(n)
    ]


@mark.parametrize(
    "law, carrier_hz, height_m, los_db, nlos_db",
    cases("""
    "uma", 2.6e9, 25.0, 4.0, 6.0
    "umi", 2.6e9, 10.0, 4.0, 7.82
    "rma", 2.6e9, 35.0, 4.0, 8.0
"""),
)
def test_a_3gpp_law_brings_its_probability_of_sight_and_its_deviations(
    law, carrier_hz, height_m, los_db, nlos_db
):
    n = 40 if law == "rma" else 16
    stations = build_row(n, height_m)
    world = build_sectored(stations, path_loss={"kind": law}, carrier_hz=carrier_hz)
    place = default_rng(0).uniform(0, 800, (3000, 2))
    pairs = world.budget.compute_pairs(place)
    expected = world.budget.path_loss.los_probability(pairs).mean()
    assert 0.05 < expected < 0.95
    assert_allclose(pairs.los.mean(), expected, atol=0.03)
    obstacle_db = world.budget.gain_db(place, pairs) + world.budget.path_loss.loss_db(
        pairs, carrier_hz
    )
    assert_allclose(obstacle_db[pairs.los].std(), los_db, rtol=0.06)
    assert_allclose(obstacle_db[~pairs.los].std(), nlos_db, rtol=0.06)


def test_rma_spreads_more_beyond_its_breakpoint():
    # 2 pi 10 m 1.5 m 0.8 GHz / c = 251 m
    stations = build_row(40, 10.0)
    radio = {"path_loss": {"kind": "rma"}, "carrier_hz": 0.8e9}
    place = default_rng(0).uniform(0, 800, (3000, 2))
    for shadowing, far_db in (
        (None, 6.0),
        ({"kind": "correlated", "std_db": 4.0, "nlos_std_db": 8.0}, 4.0),
    ):
        budget = build_sectored(
            stations, **radio, **({} if shadowing is None else {"shadowing": shadowing})
        ).budget
        pairs = budget.compute_pairs(place)
        obstacle_db = budget.gain_db(place, pairs) + budget.path_loss.loss_db(pairs, 0.8e9)
        far = pairs.distance_2d_m > 2 * pi * 10.0 * 1.5 * 0.8e9 / 3e8
        assert_allclose(obstacle_db[pairs.los & far].std(), far_db, rtol=0.06)
        assert_allclose(obstacle_db[pairs.los & ~far].std(), 4.0, rtol=0.06)
        assert_allclose(obstacle_db[~pairs.los].std(), 8.0, rtol=0.06)


def test_what_is_stated_holds_beside_a_3gpp_law():
    place = default_rng(0).uniform(0, 800, (500, 2))
    stated = read_yaml("""
        kind: correlated, std_db: 4.0, nlos_std_db: 6.0, decorrelation_m: 37.0,
        nlos_decorrelation_m: 50.0
    """)
    same = build_sectored(LISTED, shadowing=stated).budget.rsrp_dbm(place)
    # UMa without further words
    assert_array_equal(build_sectored(LISTED).budget.rsrp_dbm(place), same)
    scaled = build_sectored(
        LISTED, shadowing={k: v for k, v in stated.items() if k != "nlos_decorrelation_m"}
    ).budget
    assert scaled.shadow.hidden is None
    assert scaled.shadow.stds == (4.0, 6.0, 4.0, None)
    seen = build_sectored(
        LISTED, line_of_sight={"kind": "always"}, shadowing={"kind": "none"}
    ).budget
    assert seen.compute_pairs(place).los.all()
    assert not seen.shadow.seen(place).any()
    single = build_sectored(LISTED, shadowing={"kind": "correlated", "std_db": 5.0}).budget
    assert single.shadow.stds == (5.0, 5.0, 5.0, None)
