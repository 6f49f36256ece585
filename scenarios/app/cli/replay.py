"""The command `netsim replay`: train on a recorded trace and measure leakage."""

import re
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fl.data.hold_out import BLOCK_LOTS, find_blocks
from fl.data.measured import Measured
from fl.learners import PUBLIC_LEVEL
from fl.tracking.place_grid import cross_axes
from netsim.clock import DAY_S
from netsim.errors import BadInput, format_count
from netsim.mobility.replay import Replay
from netsim.notice import sort_by_severity
from netsim.radio.shadowing import Correlated
from netsim.rng import Streams
from netsim.safe import describe_file_kind
from netsim.trace_files.inspect import choose_round
from netsim.traces.trace import Trace
from netsim.units import FloatArray
from netsim.world.base_stations import choose_default_layout
from scenarios.app.cli.options import (
    choose_out,
    collect_overrides,
    emit,
    format_text_table,
    read_resources,
    say,
    say_fitted,
    shorten_name,
)
from scenarios.app.cli.outcome import (
    describe_folders,
    emit_outcome,
    open_page,
    parse_origin_deg,
    print_outcome,
)
from scenarios.app.cli.play import play_study, play_sweep
from scenarios.app.report.plot import render_template
from scenarios.app.report.report import write_report
from scenarios.app.results.folder import PAGE, refuse_foreign_names
from scenarios.app.results.owner import (
    HEADS,
    TRUTH,
    describe_owner,
    describe_truth,
    find_truth_deg,
    find_worst_row,
    measure_nearest_fix_m,
    tabulate_owner,
)
from scenarios.app.results.read import list_finished_runs, open_finished_run
from scenarios.app.results.statistics import format_figure
from scenarios.app.run.notices import find_trace_notices
from scenarios.app.run.runner import build_run_job
from scenarios.app.study import Fields
from scenarios.app.study.load import Scenario, parse_value
from scenarios.app.study.study import Study

REPLAY = "replay"
PUBLISHED = "replays/published"
LONGEST_HOURLY_S = 21_600.0
"""longest round that has a time of day"""
MAX_TARGETS = 100  # that a replay attacks by default
_BY_BLOCK = {"guard": 0.3, "memory": "all"}
_TARGETS = "learning.threat.n_targets"
_LEVELS = {"public_rsrp_mean_dbm", "public_rsrp_std_db"}
_PLACES = 40  # on a side of the area
_MAX_TRACKED_M2 = 2.4e9  # of the area in which trackers compare places
_TICKS_S = (1, 10, 30, 60, 300, 600)  # of a trace of less than two days
_MIN_TICKS = 200  # of such a trace
_SITES = 33  # of a default layout
_FIELD_VALUES = 5e7  # of the shadowing of all sites
BOXES = {"city-25-km": (0.2, 50), "district-6-km": (0.05, 40), "region-65-km": (0.5, 100)}
"""public boxes: the side in degrees, and of the cells in which `replay` looks for places, m; the
first is that of `--defend`"""
UNSHOWN = {"learning.references.central": False, "learning.leakage.every_rounds": 1_000_000}
"""settings that spare what the table of boxes does not show"""
_MOST_AWAY_M = 1000.0  # from a stated home to the nearest fix
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400, "w": 604_800}
_READING = (
    "cell",
    "users",
    "timezone",
    "format",
    "crs",
    "since",
    "until",
    "survey",
    "columns",
    "dates",
)
"""options that are keys of the replay"""
_NAMED = (
    "users",
    "sample",
    "timezone",
    "columns",
    "base_stations",
    "format",
    "crs",
    "area_deg",
    "area_m",
    "since",
    "until",
    "adapt",
    "aim",
)
"""options that are named in the name of the folder"""


def replay_from_options(args: Namespace) -> None:
    """Play the trace with the recipe and the attacks of a useful map, beside defenses, or as
    published; of one person say what is learnt of him.
    """
    _check_options(args)
    read_resources(args)
    scenario = settle_scenario(args)
    trace = _load_trace(scenario.study)
    is_one = trace.origin_deg is not None and len(trace.users) == 1
    stated_deg = read_stated_deg(args, _get_replay(scenario.study), trace if is_one else None)
    # a log with levels is a drive, whose places are no homes unless they are stated
    is_simulated = trace.rsrp_dbm is None
    truth_deg = {}
    if is_one and (is_simulated or stated_deg):
        truth_deg = find_truth_deg(trace) | stated_deg
    has_area = args.area_deg or args.area_m or scenario.study.world.city.has_size
    boxes = {}
    if is_one and is_simulated and not has_area and trace.time_s[-1] >= 2 * DAY_S:
        boxes = build_boxes(args, trace, truth_deg["home"][0])
    if boxes and args.defend:
        scenario = settle_scenario(args, next(iter(boxes.values())))
    facts = list_trace_facts(scenario.study)
    if args.json:
        emit({"event": "trace", "lines": facts})
    else:
        say_fitted([*facts, *describe_truth(truth_deg, stated_deg)])
    out = choose_replay_folder(args)
    if args.published:
        _play_both_ways(args, scenario, out)
        return
    if args.defend:
        play_sweep(args, REPLAY, scenario, out, only=list_defence_labels(scenario.study))
        runs = {label: open_finished_run(path) for label, path in list_finished_runs(out)}
    else:
        run = play_study(scenario, out, args, REPLAY)
        runs = {
            box: play_study(
                settle_scenario(args, UNSHOWN | of_box),
                find_box_folder(out, box, of_box),
                args,
                box,
            )
            for box, of_box in boxes.items()
        }
        runs["the stated area" if has_area else "its own box: follows from the log"] = run
    if truth_deg and not (args.json and args.defend):  # whose last line is the result
        _tell_owner(args, tabulate_owner(runs, truth_deg))
    if not args.defend:
        print_outcome(out, args, REPLAY + ", simulated signals" * is_simulated, run)
        open_page(out, args)
        if not args.json and scenario.study.vary is not None:
            say("  what helps: the same command with --defend plays this beside defenses")


def _check_options(args: Namespace) -> None:
    """Refuse options that do not go together, and settle which scenario is played."""
    if args.published and args.defend:
        raise BadInput("--published: plays no defense; leave --defend out")
    if (args.adapt or args.aim) and not args.defend:
        raise BadInput("--adapt, --for: tune the attackers of --defend; give that too")
    args.scenario = args.scenario or (PUBLISHED if args.published else REPLAY)
    if not Scenario.from_source(args.scenario).document.data.get("learning"):
        raise BadInput(
            f"{args.scenario}: has no `learning:` section, so a replay has nothing to "
            f"attack; play it by netsim run"
        )


def read_stated_deg(args: Namespace, replay: Replay, trace: Trace | None) -> dict[str, FloatArray]:
    """Return home and work of options and of the labels of the phone. BadInput: there are none, a
    stated one is far from the log, or several users (no trace).
    """
    labels = replay.read_fixes().labels if args.truth else ()
    if args.truth and not labels:
        raise BadInput(f"--truth labels: {args.trace} names no home and no workplace; give --home")
    stated_deg = {label.what: np.array([[label.lon, label.lat]]) for label in labels}
    for what in TRUTH:
        if place_deg := parse_origin_deg(getattr(args, what), f"--{what}"):
            stated_deg[what] = np.array([place_deg[::-1]])
            if trace and measure_nearest_fix_m(trace, stated_deg[what]) > _MOST_AWAY_M:
                raise BadInput(
                    f"--{what}: no fix of {args.trace} lies within {_MOST_AWAY_M:g} m of it; give "
                    f"LAT,LON of this log, or leave it out"
                )
    if stated_deg and not trace:
        raise BadInput(
            f"--home, --work, --truth: {args.trace} has several users, or no latitude and "
            "longitude; leave them out, or give the log of one user"
        )
    return stated_deg


def _tell_owner(args: Namespace, rows: Sequence[Fields]) -> None:
    """Say what is learnt of one person where most is, above a table of all runs."""
    row = find_worst_row(rows)
    lines = describe_owner(row)
    if args.json:
        emit({"event": "owner", "lines": lines, "rows": rows})
        return
    say_fitted([f"what is learnt of you, most in {row['label']}:", *lines])
    cells = [[x if isinstance(x, str) else format_figure(x) for x in row.values()] for row in rows]
    say(format_text_table(HEADS, cells, left=6))


def settle_scenario(args: Namespace, chosen: Fields | None = None) -> Scenario:
    """Return the scenario with what options say of the trace, and with what the trace decides.

    chosen : settings that --set overrides.
    """
    scenario = Scenario.from_source(
        args.scenario, collect_trace_overrides(args) | (chosen or {}) | collect_overrides(args)
    )
    for choose in (
        (override_round_and_tick, override_decorrelation, override_by_trace, override_slow_attacks)
        if args.scenario == REPLAY
        else (override_by_trace,)
    ):
        scenario = scenario.with_changes(choose(scenario))
    sample_s = _get_replay(scenario.study).sample_s or 0.0
    round_s = scenario.study.round_s
    if sample_s > round_s:
        raise BadInput(
            f"a fix every {sample_s:,g} s is less than one per round of {round_s:,g} s; "
            "give a shorter --sample, or a longer --round"
        )
    return scenario


def build_boxes(args: Namespace, trace: Trace, home_deg: FloatArray) -> dict[str, Fields]:
    """Return the settings of each public box that holds a home, longitude and latitude.

    They begin at multiples of half their side, a quarter of it or more from the home.
    """
    first_s = trace.local.midnight_s
    states = {
        "extent": "stated",
        "since": f"{first_s}",
        "until": f"{first_s + trace.time_s[-1] + 1}",
    }
    boxes = dict[str, Fields]()
    for box, (side_deg, cell_m) in BOXES.items():
        low_deg = side_deg / 2 * np.floor(2 * home_deg[::-1] / side_deg - 0.5)
        states["area_deg"] = np.concatenate([low_deg, low_deg + side_deg]).round(3).tolist()
        boxes[box] = {f"world.ues.mobility.{key}": value for key, value in states.items()}
        if args.scenario == REPLAY:  # span and neuron-votes stand first
            boxes[box] |= {f"learning.attacks[{k}].cell_m": cell_m for k in (0, 1)}
    return boxes


def find_box_folder(out: Path, box: str, of_box: Fields) -> Path:
    """Find the folder of a public box, named by its corner, which another home changes."""
    south, west, _, _ = of_box["world.ues.mobility.area_deg"]
    return out / "boxes" / f"{box}_{south:g}_{west:g}"


def list_defence_labels(study: Study) -> list[str]:
    """Return labels of the variants that are compared: nothing hidden, and the defenses for one
    user or for several; none that moves positions where blocks are held out by true ones.
    """
    if study.vary is None or not study.vary.variants:
        raise BadInput("--defend: the scenario has no `vary.variants:`; give some, or leave it out")
    idle = ["learning.threat"] * (len(_load_trace(study).users) == 1)
    if "block" in getattr(study.learned.data, "held_out_by", ()):
        idle.append("geo-indistinguishable")
        say("not played: positions off, for true places decide on held-out blocks", errors=True)
    return [v.label for v in study.vary.variants if not any(word in str(v.set) for word in idle)]


def _play_both_ways(args: Namespace, scenario: Scenario, out: Path) -> None:
    """Play the trace with positions standardised by the data and by what is public; draw the
    pages.
    """
    key = "learning.learner.standardise_by"
    ways = {
        f"standardised-by-{way}": scenario.with_changes({key: way}) for way in ("dataset", "public")
    }
    refuse_foreign_names(out, [*ways, PAGE], "a replay")
    for name, way in ways.items():
        build_run_job(way.study, out / name, replace=args.replace).admit()
    for name, way in ways.items():
        run = play_study(way, out / name, args, name)
        if not args.json:
            print_outcome(out / name, args, name, run)
    page = write_report(out)
    if args.json:
        emit_outcome(describe_folders(out)[0], out)
    else:
        say(f"  records in {out}, page in {page}")
    open_page(out, args)


def collect_trace_overrides(args: Namespace) -> Fields:
    """Return what the options set in the scenario, by dotted path."""
    if not describe_file_kind(args.trace):
        raise BadInput(f"{args.trace}: no such file; give the path of a trace")
    keys: Fields = {
        "kind": "replay",
        "trace": str(Path(args.trace).resolve()),
    }
    keys |= {name: getattr(args, name) for name in _READING}
    keys |= {
        name: parse_value(f"[{text}]", f"--{name}".replace("_", "-"))
        for name in ("area_deg", "area_m")
        if (text := getattr(args, name))
    }
    if (args.area_deg or args.area_m) and args.since and args.until:
        keys["extent"] = "stated"
    overrides: Fields = {f"world.ues.mobility.{key}": value for key, value in keys.items() if value}
    if args.base_stations is not None:
        overrides["world.base_stations"] = {
            "kind": "cell-file",
            "file": str(Path(args.base_stations).resolve()),
        }
    if args.round is not None or args.survey:
        overrides["learning.round_s"] = parse_seconds(args.round or "1h")
    if args.survey and args.scenario in (None, REPLAY, PUBLISHED):
        overrides |= {"learning.data.hold_out_by": "block", "learning.data.memory": "all"}
    if args.sample is not None:
        overrides["world.ues.mobility.sample_s"] = parse_seconds(args.sample, "--sample")
    return overrides


def parse_seconds(text: str, option: str = "--round") -> float:
    """Return the seconds of `24h`, `7d`, `2w`, `90min`, `90m` or `3600s`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h|d|w)", text.strip())
    if match is None or float(match[1]) <= 0:
        raise BadInput(
            f"{option} {text[:40]}: write a length with its unit (s, m or min (minutes), h, d, w), "
            "such as 24h, 7d, 90min or 3600s"
        )
    return float(match[1]) * _SECONDS[match[2]]


def override_round_and_tick(scenario: Scenario) -> Fields:
    """Return the round that `netsim inspect` suggests, of a trace that lasts less than two rounds
    of the scenario; and a tick that shows where UEs were within a trace of less than two days.
    """
    study = scenario.study
    trace = _load_trace(study)
    changes = Fields()
    span_s = float(np.ptp(trace.time_s))
    if "world.tick_s" not in scenario.overrides and span_s < 2 * DAY_S:
        changes["world.tick_s"] = max(
            tick_s for tick_s in _TICKS_S if tick_s <= max(span_s / _MIN_TICKS, _TICKS_S[0])
        )
    if "learning.round_s" not in scenario.overrides and span_s < 2 * study.round_s:
        user, time_s = np.unique(np.stack([trace.user, trace.time_s]), axis=1)
        changes["learning.round_s"] = parse_seconds(choose_round(user.astype(int), time_s))
    return changes


def override_decorrelation(scenario: Scenario) -> Fields:
    """Return a decorrelation distance whose fields of shadowing fit into memory, of a wide area."""
    study = scenario.study
    trace = _load_trace(study)
    shadowing = study.world.radio.shadowing
    if any(key.startswith("world.radio.shadowing") for key in scenario.overrides) or not isinstance(
        shadowing, Correlated
    ):
        return {}
    min_m = (
        _SITES * np.prod(10 * trace.area.side_m) / _FIELD_VALUES
    ) ** 0.5  # a grid of a tenth of it
    if min_m <= shadowing.decorrelation_m:
        return {}
    return {"world.radio.shadowing.decorrelation_m": float(np.ceil(min_m / 10) * 10)}


def override_by_trace(scenario: Scenario) -> Fields:
    """Return what the trace decides, as overrides, where neither the scenario nor the user states
    it.
    """
    return (
        override_max_targets(scenario)
        | override_hold_out(scenario.study)
        | override_public_rsrp(scenario.study)
    )


def override_max_targets(scenario: Scenario) -> Fields:
    """Return a bound on the attacked targets of a trace with more, as an override; nothing where
    one is set.

    Attacks take far longer than training, and their figures are medians over targets.
    """
    study = scenario.study
    is_set = _TARGETS in scenario.overrides or study.learned.threat.n_targets is not None
    if is_set or len(_load_trace(study).users) <= MAX_TARGETS:
        return {}
    return {_TARGETS: MAX_TARGETS}


def override_hold_out(study: Study) -> Fields:
    """Return as overrides that blocks of ground with a margin are held out and all rows so far are
    learnt from, where a trace has too few days to hold out one of 1 / share.

    A single row would be scored beside those of the same drive, metres away. Of two blocks with
    rows or more one is held out, and one is not: the share is moved for that, up to 0.9.
    """
    data = study.learned.data
    if not isinstance(data, Measured) or data.hold_out_by != "day":
        return {}
    trace = _load_trace(study)
    if len(np.unique(trace.time_s // DAY_S)) * data.hold_out >= 1:
        return {}
    column, row = find_blocks(trace.position_m, data.new_block_m).T
    lots = Streams(study.seed).derive_rng("data").uniform(BLOCK_LOTS, column, item=row)
    return {
        "learning.data.hold_out_by": "block",
        "learning.data.hold_out": float(
            np.clip(data.hold_out, lots.min() + 1e-6, min(lots.max(), 0.9))
        ),
    } | {
        f"learning.data.{key}": value
        for key, value in _BY_BLOCK.items()
        if key not in data.model_fields_set
    }


def override_public_rsrp(study: Study) -> Fields:
    """Return the mean and standard deviation of RSRP that scale labels, in whole dB: of the rows of
    the trace, or of the strongest base station at places spread evenly over the area.
    """
    learner = study.learned.learner
    if PUBLIC_LEVEL not in learner.offers or _LEVELS & learner.model_fields_set:
        return {}
    rsrp_dbm = _load_trace(study).rsrp_dbm
    if rsrp_dbm is None:
        world = study.build_world()
        side = (np.arange(_PLACES) + 0.5) / _PLACES
        rsrp_dbm = world.budget.rsrp_dbm(world.area.sample(cross_axes(side, side)), None).max(
            axis=1
        )
    level = round(rsrp_dbm.mean())
    spread = max(round(rsrp_dbm.std()), 1)
    return {
        "learning.learner.public_rsrp_mean_dbm": min(max(level, -160), 0),
        "learning.learner.public_rsrp_std_db": min(spread, 60),
    }


def override_slow_attacks(scenario: Scenario) -> Fields:
    """Return the attacks of the scenario without those that follow UEs over the hours, of one user,
    in longer rounds or in an area with too many places, and without `dwell` in a trace of less than
    two days.
    """
    study = scenario.study
    trace = _load_trace(study)
    wide = np.prod(study.world.city.area(trace.area).side_m) > _MAX_TRACKED_M2
    idle = ["tracker"] if wide or len(trace.users) == 1 or study.round_s > LONGEST_HOURLY_S else []
    if idle or np.ptp(trace.time_s) < 2 * DAY_S:
        idle += ["dwell"]
    if "learning.attacks" in scenario.overrides or not idle:
        return {}
    return {
        "learning.attacks": [
            attack
            for attack in scenario.document.data["learning"]["attacks"]
            if attack["kind"] not in idle
        ]
    }


def _get_replay(study: Study) -> Replay:
    mobility = study.world.ues.mobility
    if not isinstance(mobility, Replay):
        raise BadInput(
            "this scenario does not replay a trace: world.ues.mobility.kind must be replay"
        )
    return mobility


def _load_trace(study: Study) -> Trace:
    return _get_replay(study).load(study.round_s)


def list_trace_facts(study: Study) -> list[str]:
    """Return what was read from the trace, what was left out, and what was chosen."""
    trace = _load_trace(study)
    area = study.world.city.area(trace.area)
    layout = None
    if trace.rsrp_dbm is None and study.world.base_stations == ():
        layout = choose_default_layout(area, trace.notices)
    learner = study.learned.learner
    level = dict(learner) if PUBLIC_LEVEL in learner.offers else {}
    text = render_template(
        "trace_facts.txt",
        level=[value for key, value in level.items() if key.startswith("public_rsrp")],
        study=study,
        trace=trace,
        counts=dict(trace.counts),
        area=area,
        layout=layout,
        span_s=np.ptp(trace.time_s),
        format_count=format_count,
    )
    notices = sort_by_severity([*trace.notices, *find_trace_notices(study, trace)])
    return [*str(text).splitlines(), *(notice.text for notice in notices)]


def choose_replay_folder(args: Namespace) -> Path:
    """Return the folder of a replay; one whose trace lies elsewhere has a digest of its path."""
    path = Path(args.trace).resolve()
    stem = re.sub(r"\.csv(\.gz)?$", "", path.name)
    name = (
        stem
        if path.parent == Path.cwd()
        else shorten_name(f"{stem} {path}", 20 + min(len(stem), 20))
    )
    words = [name, args.cell, args.round]
    words += [word for word in ("published", "defend") if getattr(args, word)]
    options = {name: value for name in _NAMED if (value := getattr(args, name))}
    if args.scenario not in (None, REPLAY, PUBLISHED):
        options |= {"scenario": args.scenario}
    name = "-".join(shorten_name(word, 40) for word in words if word)
    return choose_out(args, "replay", name, changes=options | collect_overrides(args))
