"""A replay of many users attacks a bounded number of them, says so, and does what it is told."""

import numpy as np
from conftest import ROOT
from pytest import approx, fixture, mark
from refused import catch_line

from fl.data.hold_out import BLOCK_M, hold_out_blocks
from fl.types import Public
from netsim.rng import Streams
from scenarios.app.cli.commands import build_parser, main
from scenarios.app.cli.replay import (
    MAX_TARGETS,
    collect_trace_overrides,
    list_trace_facts,
    override_decorrelation,
    override_hold_out,
    override_max_targets,
    override_round_and_tick,
    override_slow_attacks,
    parse_seconds,
)
from scenarios.app.study.load import Scenario, load, parse_value

TARGETS = "learning.threat.n_targets"
EXAMPLES = ROOT / "scenarios/examples"


@fixture
def write_users(tmp_path):
    def write(n, rest=()):
        rows = [
            f"{1_699_920_000 + 60 * t},u{u},{10 * u + t},{5 * u}"
            for u in range(n)
            for t in range(3)
        ]
        path = tmp_path / f"{n}.csv"
        path.write_text("\n".join(["time_s,user,x_m,y_m", *rows]))
        args = build_parser().parse_args(f"replay {path} --users id --round 1min".split())
        return collect_trace_overrides(args) | dict(rest)

    return write


@mark.parametrize(
    "n, bound",
    [(MAX_TARGETS - 1, {}), (MAX_TARGETS, {}), (MAX_TARGETS + 1, {TARGETS: MAX_TARGETS})],
)
def test_a_bound_where_there_are_more(write_users, n, bound):
    overrides = write_users(n)
    assert override_max_targets(Scenario.from_source("replay", overrides)) == bound


@mark.parametrize("wish", [None, 7, 3000])
def test_what_somebody_wishes_stands(write_users, wish):
    overrides = write_users(MAX_TARGETS + 20, {TARGETS: wish})
    scenario = Scenario.from_source("replay", overrides)
    assert override_max_targets(scenario) == {}
    assert scenario.study.learning.threat.n_targets == wish


def test_the_bound_is_told_with_the_way_to_lift_it(write_users):
    overrides = write_users(MAX_TARGETS + 20)
    printed = [
        line
        for line in list_trace_facts(load("replay", overrides | {TARGETS: MAX_TARGETS}))
        if line.startswith("attacks")
    ]
    assert printed == [
        "attacks: 100 targets of 120, evenly taken, are attacked and their leakage measured; all "
        "of them train (--set learning.threat.n_targets=null attacks all)"
    ]
    assert not [
        line for line in list_trace_facts(load("replay", overrides)) if line.startswith("attacks")
    ]


@mark.parametrize("seed", range(8))
def test_of_two_blocks_one_is_held_out_and_one_is_learnt(tmp_path, seed):
    path = tmp_path / "t.csv"
    path.write_text("time_s,x_m,y_m,rsrp_dbm\n" + "".join(f"{k},{k},0,-80\n" for k in (5, 540)))
    study = load("replay", {"world.ues.mobility.trace": str(path), "seed": seed})
    changes = override_hold_out(study)
    places_m = study.world.ues.mobility.load(study.round_s).position_m
    share = changes["learning.data.hold_out"]
    out = hold_out_blocks(places_m, BLOCK_M, share, Streams(seed).derive_rng("data"))
    assert sorted(out) == [False, True]


def test_a_survey_is_learnt_from_whole_and_scored_by_blocks(tmp_path):
    (tmp_path / "s.csv").write_text(
        "x_m,y_m,cell,rsrp\n0,0,a,-80\n0,7000,a,-90\n0,7000,b,-70\n0,0,a,-81\n"
    )
    survey = f"replay --survey {tmp_path}/s.csv --users all".split()
    study = load("replay", collect_trace_overrides(build_parser().parse_args(survey)))
    data = study.learning.data
    trace = study.world.ues.mobility.load(study.round_s)
    assert (study.learning.round_s, data.hold_out_by, data.memory) == (3600, "block", "all")
    assert trace.time_s.tolist() == approx([0, 5000, 10_000])
    assert (
        collect_trace_overrides(build_parser().parse_args([*survey, "--round", "5min"]))[
            "learning.round_s"
        ]
        == 300
    )
    second = collect_trace_overrides(build_parser().parse_args([*survey, "--scenario", "campus"]))
    assert second["world.ues.mobility.survey"] is True
    assert not any("hold_out" in key for key in second)


@mark.parametrize(
    "text, length_s",
    [
        ("24h", 86_400),
        ("1.5 d", 129_600),
        ("2w", 1_209_600),
        ("90m", 5400),
        ("90min", 5400),
        ("0.5s", 0.5),
    ],
)
def test_lengths_have_units(text, length_s):
    assert parse_seconds(text) == length_s


@mark.parametrize("text", ["0h", "0.0s", "-1h", "24", "h", "1y", "1e3s", "inf s"])
def test_what_is_no_length_is_refused(text):
    assert catch_line(parse_seconds, text, "--sample").startswith(
        f"--sample {text}: write a length with its unit"
    )


def test_a_brief_trace_gets_brief_rounds_and_no_attack_on_days():
    brief = {"world.ues.mobility.trace": str(EXAMPLES / "cars.fcd.xml")}
    scenario = Scenario.from_source("replay", brief)
    rounds = override_round_and_tick(scenario)
    assert rounds == {"world.tick_s": 1, "learning.round_s": 60.0}
    assert override_round_and_tick(scenario.with_changes({"learning.round_s": 300})) == {
        "world.tick_s": 1
    }
    assert override_round_and_tick(scenario.with_changes({"world.tick_s": 60})) == {
        "learning.round_s": 60.0
    }
    assert override_round_and_tick(Scenario.from_source("replay")) == {}
    kinds = [
        item["kind"]
        for item in override_slow_attacks(scenario.with_changes(rounds))["learning.attacks"]
    ]
    assert kinds == ["span", "neuron-votes", "closed-form", "tracker"]


def test_a_phone_that_measures_less_than_once_a_round_is_refused(capsys):
    refused = main(f"replay {EXAMPLES}/walk.gpx --sample 3d --quiet".split())
    assert refused == 2
    assert "259,200 s is less than one per round of 86,400 s" in capsys.readouterr().err


def test_a_wide_area_gets_wider_shadowing_that_is_said_and_never_against_a_stated_one(tmp_path):
    path = tmp_path / "wide.csv"
    path.write_text(
        "time_s,user,x_m,y_m\n" + "".join(f"{9e4 * t},u,{3e4 * t},{2e4 * t}\n" for t in range(4))
    )
    overrides = {"world.ues.mobility.trace": str(path)}
    [(key, decorrelation_m)] = override_decorrelation(
        Scenario.from_source("replay", overrides)
    ).items()
    assert key.endswith("decorrelation_m")
    assert decorrelation_m == np.ceil(10 * (33 * 9e4 * 6e4 / 5e7) ** 0.5 / 10) * 10
    lines = list_trace_facts(load("replay", {**overrides, key: decorrelation_m}))
    assert f"decorrelation distance {decorrelation_m:g} m" in "".join(lines)
    stated = {**overrides, key: 60}
    assert (
        override_decorrelation(Scenario.from_source("replay", stated))
        == {}
        == override_decorrelation(Scenario.from_source("replay"))
    )


def test_signals_of_the_rows_stand_beside_stated_base_stations(tmp_path):
    path = tmp_path / "t.csv"
    for column, message in ((",rsrp_dbm", True), ("", False)):
        rows = [f"{9e4 * t},u,{100 * t},0" + ",-90" * message for t in range(4)]
        path.write_text("\n".join([f"time_s,user,x_m,y_m{column}", *rows]))
        overrides = {"world.ues.mobility.trace": str(path)}
        expected = overrides | parse_value(
            "{world.base_stations: [{name: mast, position_m: [0, 0], height_m: 25}]}"
        )
        lines = [list_trace_facts(load("replay", part)) for part in (expected, overrides)]
        assert ["do not change it" in " ".join(part) for part in lines] == [message, False]


@mark.parametrize("side_m, follows", [(30_000, True), (90_000, False)])
def test_beyond_a_million_cells_nobody_is_followed_and_the_attacks_that_are_left_can_run(
    tmp_path, side_m, follows
):
    rows = [
        f"{40_000 * t},u{u},{side_m / 5 * t},{side_m / 5 * t}\n" for u in range(2) for t in range(6)
    ]
    (tmp_path / "wide.csv").write_text("time_s,user,x_m,y_m\n" + "".join(rows))
    trace = {
        "world.ues.mobility.trace": str(tmp_path / "wide.csv"),
        "world.ues.mobility.users": "id",
    }
    overrides = trace | {"learning.round_s": 20_000}
    scenario = Scenario.from_source("replay", overrides)
    study = scenario.with_changes(override_slow_attacks(scenario)).study
    kinds = [attack.kind for attack in study.learning.attacks]
    assert kinds == ["span", "neuron-votes", "closed-form"] + follows * ["dwell", "tracker"]
    area = study.world.city.area(study.world.ues.mobility.load(study.round_s).area)
    for attack in study.learning.attacks:
        attack.check(Public(area, 1), 2)
