"""Studies without learning: what UEs receive, in tables, summaries and pages; resumed to the same
bytes."""

import copy
import csv
import gzip
import json
import os
from pathlib import Path

import numpy as np
from conftest import ROOT, TINY, build_study_world
from interrupted import run_in_two
from noticed import by_key, of_run
from noticed import lines as lines_of
from pages import figures
from pytest import approx, fixture, mark, raises
from refused import catch_line, read_cases

from netsim.errors import BadInput
from netsim.mobility.base import State
from netsim.radio.downlink import Downlink, receive_broadcast
from netsim.rng import Streams
from netsim.ues import Indoors
from netsim.world.build import build_world
from scenarios.app.cli.commands import main
from scenarios.app.report.report import write_report
from scenarios.app.result import run
from scenarios.app.results.folder import QUANTITIES, read_csv_rows, read_json, read_record_table
from scenarios.app.run import simulate
from scenarios.app.run.measured import read_measured
from scenarios.app.run.play import lay_coverage_grid
from scenarios.app.run.setup import build_radio_world, check_study
from scenarios.app.run.simulate import RadioSamples
from scenarios.app.study.load import load, parse_value
from scenarios.app.study.study import to_study_yaml

pytestmark = mark.usefixtures("fine_maps")
RADIO = parse_value(
    "{learning: null, world.radio: {shadowing: {kind: correlated}, "
    "handover: {hysteresis_db: 1, time_to_trigger_s: 10}}, world.duration_s: 400, "
    "world.ues.mobility: {kind: random-waypoint, speed_m_s: [5, 15]}}"
)
WALK = ROOT / "scenarios/examples/walk.gpx"


@fixture(scope="module")
def tiny(tiny):
    """As everywhere, with changes that stay as they are."""
    return lambda changes=None: tiny(copy.deepcopy(changes))


def raw_samples(study):
    """All samples of a study, an instant at a time: values (m, q)."""
    world = build_study_world(study)
    all_rows = study.world.ues.measurement_period_s
    values = []
    for k in range(round(study.world.duration_s / all_rows)):
        if k:
            world.env.run(until=k * all_rows)
        links = world.compute_links()
        serving = links.serving if k == 0 else world.find_serving(links)
        got = receive_broadcast(links, serving, study.world.radio.downlink)
        values.append(np.column_stack([getattr(got, name) for name in QUANTITIES]))
    return np.concatenate(values)


@fixture(scope="module")
def radio_run(tiny, tmp_path_factory):
    """A study, its folder and its summary."""
    study = tiny(RADIO)
    folder = tmp_path_factory.mktemp("radio") / "r"
    return study, folder, run(study, folder)


@mark.parametrize("tick_s, a_little_less", [(0.1, 0.0999999), (0.3, 0.2999999), (0.7, 2.0999999)])
def test_a_time_to_trigger_of_whole_ticks_is_never_a_tick_late(
    tick_s, a_little_less, play_tiny, tmp_path
):
    """A little less than so many ticks is up with the same tick: all results are equal."""
    tables = []
    for name, trigger_s in (("less", a_little_less), ("whole", round(a_little_less, 1))):
        handover = {"hysteresis_db": 1, "time_to_trigger_s": trigger_s}
        changes = {
            "world.tick_s": tick_s,
            "world.duration_s": 120 * tick_s + 20,
            "world.radio.handover": handover,
        }
        summary = play_tiny(RADIO | changes | {"world.ues.count": 40}, tmp_path / name)
        files = ("handovers.csv", "radio_cdf.csv", "tracks.csv", "summary.json")
        tables.append([(tmp_path / name / file).read_bytes() for file in files])
        assert summary["handover.count"] > 20
    assert tables[0] == tables[1]


def test_quantiles_are_those_of_numpy_on_all_samples(radio_run):
    study, folder, summary = radio_run
    raw = raw_samples(study)
    cdf = read_record_table(folder, "radio_cdf")
    assert summary["radio.samples"] == len(raw) == 4 * 80
    for k, name in enumerate(QUANTITIES):
        is_own = cdf["quantity"] == name
        assert cdf["percent"][is_own].tolist() == list(range(101))
        assert cdf["value"][is_own] == approx(
            np.quantile(raw[:, k], np.linspace(0, 1, 101)), rel=1e-8
        )
        for statistic, share in (("q05", 0.05), ("median", 0.5), ("q95", 0.95)):
            key = f"radio.{name}.{statistic}"
            assert summary[key] == approx(np.quantile(raw[:, k], share), rel=1e-8), key


def set_beside(tiny, tmp_path, text, **changes):
    (tmp_path / "drive.csv").write_text(text)
    return tiny({**RADIO, "measured": str(tmp_path / "drive.csv"), **changes})


def test_measurements_stand_beside_the_distribution(tiny, tmp_path, out, radio_run, run_command):
    """Kolmogorov-Smirnov by counting: at every value, the shares of both samples up to it and below
    it."""
    rng = np.random.default_rng(3)
    drive = np.round(rng.normal(-70, 9, 700))
    sinr = rng.normal(5, 6, 700)
    rows = [f"{a},{b:.3f}" for a, b in zip(drive, sinr, strict=True)]
    rows[10] = f",{sinr[10]:.3f}"  # no RSRP in this row
    drive = np.delete(drive, 10)
    study = set_beside(tiny, tmp_path, "rsrp_dbm,sinr_db\n" + "\n".join(rows) + "\n")
    summary = run(study, out)
    raw = raw_samples(study)
    for name, measured in (("rsrp_dbm", drive), ("sinr_db", np.round(sinr, 3))):
        expected = raw[:, QUANTITIES.index(name)]
        index = np.concatenate([expected, measured])
        gaps = [abs((expected <= x).mean() - (measured <= x).mean()) for x in index]
        assert summary[f"radio.{name}.measured.ks"] == approx(max(gaps), abs=1e-8)
        difference = summary[f"radio.{name}.measured.difference_db"]
        assert difference == approx(np.median(expected) - np.median(measured), abs=1e-6)
        assert summary[f"radio.{name}.measured.count"] == len(measured)
    cdf = read_record_table(out, "radio_cdf")
    is_own = (cdf["selection"] == "measured") & (cdf["quantity"] == "rsrp_dbm")
    np.testing.assert_allclose(
        cdf["value"][is_own], np.quantile(drive, np.linspace(0, 1, 101)), rtol=1e-8
    )
    write_report(out)
    names = [
        trace.get("name")
        for trace in figures((out / "report.html").read_text())["distributions"]["data"]
    ]
    assert names.count("measured") == 2
    printed = run_command(f"show {out}")
    assert "measured samples 699" in printed
    plain = radio_run[2]
    assert {key: value for key, value in summary.items() if "measured" not in key} == plain


def test_a_drive_stands_beside_outdoor_samples(tiny, tmp_path, out):
    changes = parse_value(
        "{world.city: {kind: grid, width_m: 620, height_m: 520}, world.radio: {}}"
    )
    changes |= parse_value(
        "{world.ues.mobility: {kind: resident}, world.begins: '08:00', world.duration_s: 3600}"
    )
    study = set_beside(tiny, tmp_path, "rsrp_dbm\n-90\n-80\n-70\n", **changes)
    summary = run(study, out)
    samples, cdf = (read_record_table(out, name) for name in ("radio_samples", "radio_cdf"))
    assert min(samples["count"]) > 0
    median = (
        (cdf["selection"] == "outdoor") & (cdf["quantity"] == "rsrp_dbm") & (cdf["percent"] == 50)
    )
    difference = summary["radio.rsrp_dbm.measured.difference_db"]
    assert difference == approx(cdf["value"][median][0] + 80, abs=1e-6)
    message = by_key(of_run(out))["measured-outdoors"]
    assert message.startswith("measured: beside outdoor samples alone")


def test_a_stated_distribution_is_a_line_between_its_pairs(tiny, tmp_path):
    study = set_beside(tiny, tmp_path, "sinr_db,cdf\n-5,0\n0,0.3\n20,1\n")
    summary = run(study, tmp_path / "r")
    expected = np.sort(raw_samples(study)[:, QUANTITIES.index("sinr_db")])
    stated = np.interp(expected, [-5, 0, 20], [0, 0.3, 1])
    steps = np.arange(len(expected) + 1) / len(expected)
    gap = max(np.abs(steps[1:] - stated).max(), np.abs(steps[:-1] - stated).max())
    assert summary["radio.sinr_db.measured.ks"] == approx(gap, abs=2e-4)
    assert summary["radio.sinr_db.measured.difference_db"] == approx(
        np.median(expected) - 40 / 7, abs=1e-6
    )
    assert summary["radio.sinr_db.measured.count"] is None
    assert "radio.rsrp_dbm.measured.ks" not in summary


WRONG = {
    "serving,rsrp_dbm\n0,-70\n": "drive.csv: measured: no row has serving 1",
    "time_s,x\n1,2\n": "rsrp_dbm or sinr_db of samples, or one of them and cdf; the file has ",
    "rsrp_dbm,sinr_db,cdf\n-90,3,0.5\n": "or one of them and cdf",
    "rsrp_dbm\n-90\n90\n": "line 3, column rsrp_dbm: '90' is not a number in [-160, -20]",
    "rsrp_dbm,cdf\n-90,0.1\n-80,0.9\n-70,0.8\n": "cdf must grow with rsrp_dbm",
    "rsrp_dbm,cdf\n-90,10\n-80,90\n": "column cdf: '10' is not a number in [0, 1]",
    "rsrp_dbm\n\n": "has a header but no rows",
}


@mark.parametrize("text", WRONG)
def test_what_is_no_measurement_is_refused_before_a_run(tiny, tmp_path, text):
    assert WRONG[text] in catch_line(check_study, set_beside(tiny, tmp_path, text))
    assert "measured: stands beside a radio study" in catch_line(tiny, {"measured": "drive.csv"})


@mark.skipif("NETSIM_DATA" not in os.environ, reason="real measurements are not here")
def test_a_drive_of_a_city_stands_beside_a_study(tiny, play_tiny):
    drive = Path(os.environ["NETSIM_DATA"]) / "rsrp_cork_ucc5g_2019.csv.gz"
    summary = play_tiny({**RADIO, "measured": str(drive)})
    with gzip.open(drive, "rt") as file:
        rsrp_dbm = [float(row["rsrp_dbm"]) for row in csv.DictReader(file) if row["rsrp_dbm"]]
    expected = raw_samples(tiny(RADIO))[:, 0]
    assert summary["radio.rsrp_dbm.measured.count"] == len(rsrp_dbm) > 10_000
    difference = summary["radio.rsrp_dbm.measured.difference_db"]
    assert difference == approx(np.median(expected) - np.median(rsrp_dbm), abs=1e-6)


@mark.parametrize(
    "text",
    [
        "time_s,cell,serving,rsrp_dbm\n1,a,0,-70\n1,b,1,-80\n2,a,1,-75\n2,b,0,-95\n3,a,,-60\n",
        "user,time_s,cell,rsrp_dbm\nu,1,b,-80\nu,1,a,-90\nv,1,a,-75\nv,1,b,\n",
    ],
)
def test_of_samples_of_several_cells_those_of_the_serving_cell_count(tmp_path, text):
    (tmp_path / "drive.csv").write_text(text)
    read = read_measured(str(tmp_path / "drive.csv"))
    assert sorted(read.samples["rsrp_dbm"].tolist()) == [-80, -75]
    assert read.is_measured
    left = text.count("\n") - 1 - 2
    assert lines_of(read.notices) == [f"measured: {left} rows of cells that do not serve left out"]


def test_samples_without_service_are_counted_and_said(tiny, out):
    station = parse_value("{name: a, position_m: [0, 0], height_m: 10, power_dbm: -30}")
    study = tiny(
        {
            **RADIO,
            "world.base_stations": [station],
            "world.radio": {"path_loss": {"kind": "log-distance", "exponent": 4.5}},
        }
    )
    run(study, out)
    message = by_key(of_run(out))["samples-without-service"]
    share = 100 * np.mean(raw_samples(study)[:, QUANTITIES.index("rsrp_dbm")] < -140)
    assert 0 < share < 100
    assert message.startswith(f"{share:.3g} % of samples are received below -140 dBm")


def test_handovers_are_counted_and_divided_by_the_hours_of_all_ues(radio_run):
    _, folder, summary = radio_run
    moves = read_record_table(folder, "handovers")
    assert summary["handover.count"] == len(moves["ue"]) > 0
    assert summary["handover.per_ue_hour"] == approx(len(moves["ue"]) / (4 * 400 / 3600), rel=1e-7)
    assert (moves["source"] != moves["target"]).all()


def test_tracks_are_where_ues_were_and_who_served_them(radio_run):
    study, folder, _ = radio_run
    rows = read_record_table(folder, "tracks")
    assert set(rows["ue"]) == {0, 1, 2, 3}
    assert not rows["indoor"].any()
    world = build_study_world(study)
    for time_s in (100.0, 300.0):
        world.env.run(until=time_s)
        at_m = world.locate_ues()
        serving = world.find_serving(world.compute_links())
        for ue in range(4):
            last = np.flatnonzero((rows["ue"] == ue) & (rows["time_s"] <= time_s))[-1]
            assert [rows["x_m"][last], rows["y_m"][last]] == approx(at_m[ue], rel=1e-8)
            assert rows["cell"][last] == world.stations[serving[ue]].name


def test_a_slow_look_at_handover_is_told(tiny):
    slow = {"world.tick_s": 60, "world.ues.measurement_period_s": 60}
    (message,) = lines_of(build_radio_world(tiny({**RADIO, **slow}))[0].notices)
    assert "handover is looked at every 60 s" in message
    assert not build_radio_world(tiny(RADIO))[0].notices


def test_coverage_is_the_strongest_cell_at_each_place(radio_run):
    study, folder, _ = radio_run
    table = read_record_table(folder, "coverage")
    world = build_study_world(study)
    place = np.column_stack([table["x_m"], table["y_m"]])
    assert len(place) == 100 * 75
    assert np.unique(np.round(np.diff(np.unique(table["x_m"])), 6)).tolist() == [4.0]
    got = world.budget.compute_links(0.0, place[::97])
    assert table["rsrp_dbm"][::97] == approx(got.rsrp_dbm.max(axis=1), rel=1e-8)
    assert set(table["los"]) <= {0.0, 1.0}
    assert np.isfinite(table["sinr_db"]).all()
    strongest = [world.stations[c].name for c in got.rsrp_dbm.argmax(axis=1)]
    assert table["cell"][::97].tolist() == strongest


def test_no_place_of_the_grid_is_in_a_building():
    study = load("radio/coverage")
    world = build_world(study.world, Streams(1), 60.0)
    grid = lay_coverage_grid(world)
    assert not world.buildings.is_indoors(grid).any()
    footprint = sum(shape.area for shape in world.buildings.footprint)
    share = len(grid) / (100 * round(100 * 520 / 620))
    assert share == approx(1 - footprint / (620 * 520), abs=0.03)


@mark.parametrize("stop_after", [1, 20])
def test_an_interrupted_study_ends_in_the_same_bytes(stop_after, radio_run, cut, table_bytes):
    study, folder, _ = radio_run
    run_in_two(study, cut, lambda event: event.done == stop_after)
    assert table_bytes(cut) == table_bytes(folder)
    assert not (cut / "checkpoint.npz").exists()


def test_an_interruption_within_a_window_goes_back_to_its_beginning(
    radio_run, cut, monkeypatch, table_bytes
):
    study, folder, _ = radio_run
    calls = []

    def interrupt(*arguments):
        calls.append(1)
        if len(calls) == 30:  # of 80, four in a window
            raise KeyboardInterrupt
        return receive_broadcast(*arguments)

    monkeypatch.setattr(simulate, "receive_broadcast", interrupt)
    with raises(KeyboardInterrupt):
        run(study, cut)
    again = []
    run(study, cut, lambda p: again.append(p.done))
    assert again[0] == 8
    assert table_bytes(cut) == table_bytes(folder)


def test_a_random_part_of_the_samples_is_resumed_as_well(
    radio_run, whole, monkeypatch, check_resumed
):
    monkeypatch.setattr(simulate, "MAX_KEPT_SAMPLES", 100)
    check_resumed(radio_run[0], 12)
    assert "1 in 4" in read_json(whole / "manifest.json")["quantiles"]


# -- distributions


def draw_samples(n, seed=1):
    rng = np.random.Generator(np.random.Philox(seed))
    values = np.column_stack([rng.normal(-80, 10, n), rng.uniform(0, 1e6, n)])
    return values, rng.uniform(size=n) < 0.3, rng.uniform(size=n) < 0.5


def collect_samples(values, inside, los, piece=37):
    samples = RadioSamples(np.zeros(2, np.int64), np.zeros((0, 5)))
    rows = np.column_stack([values, los, inside])
    for first in range(0, len(values), piece):
        part = slice(first, first + piece)
        samples = samples.add(rows[part], Streams(1).derive_rng("radio", first))
    return samples


@mark.parametrize("max_n", [10**9, 5000])
def test_quantiles_of_all_indoor_and_outdoor_samples(max_n, monkeypatch):
    monkeypatch.setattr(simulate, "MAX_KEPT_SAMPLES", max_n)
    values, inside, los = draw_samples(20_000)
    samples = collect_samples(values, inside, los)
    share = np.linspace(0.05, 0.95, 99)
    for selection, is_own in (("all", slice(None)), ("indoor", inside), ("outdoor", ~inside)):
        expected = np.quantile(values[is_own], share, axis=0)
        got = samples.compute_quantiles(selection, share)
        error = np.array([1e-9, 1e-3] if samples.share == 1.0 else [1.5, 6e4])
        assert (np.abs(got - expected).max(axis=0) < error).all(), selection
    assert samples.share == (1.0 if max_n > 20_000 else 0.125 if len(samples.kept) < 2500 else 0.25)
    assert len(samples.kept) <= max_n
    assert samples.count.tolist() == [(~inside).sum(), inside.sum()]


def test_values_that_are_not_finite_are_left_out():
    values = np.array([[np.inf, 0.0], [np.nan, 1e6], [-80.0, 2e6], [-90.0, -1.0]])
    flags = np.zeros(4, dtype=bool)
    samples = collect_samples(values, flags, flags)
    assert samples.compute_quantiles("all", np.array([0.0, 1.0]))[:, 0].tolist() == [-90.0, -80.0]
    assert np.isnan(samples.compute_quantiles("indoor", np.array([0.5]))).all()


def test_indoor_samples_have_distributions_of_their_own(play_tiny, out, monkeypatch):
    def indoors(self):
        ue = np.arange(len(self.position_m))
        outside = Indoors.outdoors(ue)
        return Indoors(
            ue,
            np.where(ue % 2 == 0, 3, -1),
            *(getattr(outside, name) for name in ("floor", "depth_m", "stay", "in_vehicle")),
        )

    monkeypatch.setattr(State, "indoors", indoors)
    summary = play_tiny(RADIO)
    assert summary["radio.indoor.percent"] == 50.0
    table = read_record_table(out, "radio_samples")
    rows = read_record_table(out, "tracks")
    assert table["count"].tolist() == [320, 160, 160]
    assert (rows["indoor"] == (rows["ue"] % 2 == 0)).all()
    page = write_report(out).read_text()
    assert '"name": "indoors"' in page


# -- settings


IDLE = """
power: {kind: average}
    power: without a `learning:` section no update is sent
plan: {}
    plan: without a `learning:` section
train: {task: {kind: online}}
    train: without a `learning:` section
world.radio.uplink: {kind: oma}
    world.radio.uplink: without a `learning:` section
world.radio.fading: {kind: rayleigh}
    uplinks
world.radio.measurement_noise_db: 1.0
    without error
world.radio.rsrp_report: quantised
    without error
world.ues.measure: all
    serving cell
"""


@mark.parametrize("changes, message", read_cases(IDLE))
def test_what_would_change_nothing_is_refused_in_one_line(changes, message, tiny):
    line = catch_line(tiny, RADIO | parse_value(f"{{{changes}}}"))
    assert changes.partition(":")[0] in line
    assert message in line


def test_rates_of_the_downlink_are_of_radio_studies_only(tiny):
    with raises(BadInput, match=r"world\.radio\.downlink: .*without `learning:` only"):
        tiny({"world.radio.downlink": {"bandwidth_hz": 1e6}})
    assert (
        tiny({"world.radio.downlink": {"noise_figure_db": 7}}).world.radio.downlink.noise_dbm
        == -125.2
    )


def test_learning_is_asked_for_where_it_is_needed(tiny):
    study = tiny(RADIO)
    with raises(BadInput, match="needs a `learning:` section"):
        _ = study.learned
    assert study.round_s == study.world.tick_s
    assert tiny().round_s == 60.0


def test_a_resolved_study_without_learning_repeats_it(tiny, tmp_path):
    (tmp_path / "s.yaml").write_text(to_study_yaml(tiny(RADIO)))
    assert load(tmp_path / "s.yaml") == tiny(RADIO)


def test_too_many_samples_are_refused_before_anything_is_written(tiny, out):
    study = tiny({**RADIO, "world.duration_s": 1e7, "world.ues.measurement_period_s": 0.01})
    assert "measurement_period_s: 0.01 s makes 1e+09 samples" in catch_line(run, study, out)
    assert not out.exists()


def test_a_trace_with_its_own_rsrp_needs_base_stations(tiny):
    example = ROOT / "scenarios/examples/commuter.csv.gz"
    replayed = {
        "learning": None,
        "world.ues": {"mobility": {"kind": "replay", "trace": str(example)}},
        "world.city": {"kind": "open-field"},
        "world.base_stations": [],
        "world.duration_s": 86_400,
        "world.radio": {},
    }
    study = tiny(replayed)
    with raises(BadInput, match=r"world\.base_stations: .* there is none"):
        check_study(study)


def test_ues_that_measure_at_times_of_their_own_are_sampled_once_a_tick(play_tiny):
    commuters = RADIO | parse_value(
        "{world.duration_s: 7200, world.tick_s: 600, "
        "world.ues.mobility: {kind: commuter}, "
        "world.ues.measurement_period_s: null, "
        "world.city: {kind: open-field, width_m: 2400, height_m: 1800}}"
    )
    assert play_tiny(commuters)["radio.samples"] == 4 * 12


def test_a_single_cell_has_no_geometry(play_tiny, out):
    item = RADIO | parse_value(
        "{world.base_stations: [{name: a, position_m: [100, 100]}], world.radio.handover: null}"
    )
    summary = play_tiny(item)
    assert summary["radio.geometry_db.median"] is None
    assert summary["radio.sinr_db.median"] > 20
    assert summary["handover.count"] is None
    assert "handover is not modelled" in write_report(out).read_text()


# -- commands and pages


def test_the_page_of_a_study_has_map_coverage_and_distributions(radio_run):
    _, folder, _ = radio_run
    drawn = figures(write_report(folder))
    assert set(drawn) == {"distributions", "radio"}  # coverage and handovers are on the map
    assert [t["name"] for t in drawn["distributions"]["data"]] == ["all samples"] * 5


def test_run_prints_quantiles_and_handovers(tmp_path, capsys):
    short = ["--set", "world.duration_s=60", "--set", "world.ues.count=5"]
    assert main(["run", "radio/coverage", "--out", str(tmp_path / "r"), *short]) == 0
    out, progress = capsys.readouterr()
    assert "60 samples of the radio" in out
    assert "window 12/12" in progress
    loud = ["--verbose", "--quiet", "--replace", *short]
    assert main(["run", "radio/coverage", "--out", str(tmp_path / "r"), *loud]) == 0
    out, progress = capsys.readouterr()
    assert "not modelled: small-scale fading" in out
    assert not progress.strip()


def test_a_sweep_compares_distributions_over_seeds(tmp_path, out, capsys):
    scenario = tmp_path / "s.yaml"
    changes = {"duration_s": 60, "ues": {**TINY["world"]["ues"], "count": 2}, "radio": {}}
    study = {k: v for k, v in TINY.items() if k != "learning"} | {
        "world": {**TINY["world"], **changes}
    }
    vary = parse_value(
        "{seed: [1, 2, 3], variants: [{label: low, set: {}}, {label: high, "
        "set: {world.ues.height_m: 10}}]}"
    )
    scenario.write_text(json.dumps(study | {"vary": vary}))
    assert main(f"sweep {scenario} --jobs 1 --out {out}".split()) == 0
    assert "geometry, dB" in capsys.readouterr().err
    rows = read_csv_rows(out / "runs.csv")
    assert all(float(row["radio.sinr_db.median"]) for row in rows)
    text = (out / "report.html").read_text()
    assert "radio.sinr_db.median" in text
    drawn = figures(write_report(out))["distributions"]["data"]
    assert {t["name"] for t in drawn} == {"low", "high"}
    sinr = [t for t in drawn if t["name"] == "low"][3]
    expected = sorted(float(row["radio.sinr_db.median"]) for row in rows if row["label"] == "low")
    assert sinr["x"][50] == approx(expected[1], rel=1e-4)


@mark.parametrize(
    "command, words",
    [
        (["train", "radio/coverage"], "has no `train:` section"),
        (["replay", str(WALK), "--scenario", "radio/coverage"], "has no `learning:` section"),
    ],
)
def test_commands_that_need_learning_refuse_in_one_line(command, words, refuse_command):
    (line,) = refuse_command(command).strip().splitlines()
    assert words in line


def test_the_default_downlink_says_what_its_rate_is(radio_run):
    _, folder, _ = radio_run
    card = read_json(folder / "manifest.json")["channel_card"]
    assert card["rate"] == "20 MHz x min(0.6 log2(1 + SINR), 4.4) bit/s/Hz, none below -10 dB"
    assert "uplink" not in card
    assert card["noise"].startswith("-123.2 dBm")
    assert Downlink().rate_bps(np.array([99.0])) == 88e6
