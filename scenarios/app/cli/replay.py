"""The command `netsim replay`: a trace of one's own, and how it leaks over time."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from netsim.errors import BadInput
from scenarios.app.cli.options import Commands, add_run_options, add_trace, columns_of, how_of, out_of, overrides_of
from scenarios.app.cli.output import emit, say, say_fitted

if TYPE_CHECKING:
    from scenarios.app.study.study import Study


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("replay", help="replay a mobility or measurement trace and see it leak over time")
    add_trace(command)
    command.add_argument(
        "--scenario", default="replay", help="scenario that says what is learnt and attacked (default: %(default)s)"
    )
    command.add_argument("--cell", help="cell to learn, or all (default: the busiest)")
    command.add_argument("--users", choices=["auto", "all", "id", "day", "chain"], help="what a target is")
    command.add_argument(
        "--round", default=None, metavar="LENGTH",
        help="round length with its unit, s, m or min, h, d or w: 24h, 7d, 90min (default: the scenario's)",
    )  # fmt: skip
    command.add_argument("--area-deg", metavar="S,W,N,E", help="only rows in this box, in degrees")
    command.add_argument("--area-m", metavar="X0,Y0,X1,Y1", help="the same, in metres of the file")
    command.add_argument("--since", metavar="TIME", help="only rows from this time on: 2021-04-21, with --timezone")
    command.add_argument(
        "--until", metavar="TIME",
        help="only rows before this time; with a box and --since these also are the area and the days that everybody "
        "knows, whatever the rows are",
    )  # fmt: skip
    command.add_argument(
        "--base-stations", metavar="FILE", help="CSV with OpenCelliD's columns, for a trace without RSRP"
    )
    add_run_options(command)


def main(args: argparse.Namespace) -> None:
    """Play the trace with positions standardised by the data and by what is public; draw the pages."""
    from scenarios.app.cli.browser import open_page
    from scenarios.app.cli.outcome import SEVERAL, event_of, tell_outcome
    from scenarios.app.cli.replay_scenario import some_targets, trace_lines
    from scenarios.app.cli.run import play
    from scenarios.app.report.report import report
    from scenarios.app.results.folder import PAGE, admit_several
    from scenarios.app.run.runner import run_job
    from scenarios.app.study.load import Scenario, load

    if not Scenario(args.scenario).document().data.get("learning"):
        raise BadInput(
            f"{args.scenario}: has no `learning:` section, so a replay has nothing to attack; play it by netsim run"
        )
    how_of(args)
    overrides = _overrides(args)
    overrides |= some_targets(load(args.scenario, overrides), overrides)
    study = load(args.scenario, overrides)
    if args.json:
        emit({"event": "trace", "lines": trace_lines(study)})
    else:
        say_fitted(trace_lines(study))
    out = out_of(args, _folder(args, study))
    key = "learning.learner.standardise_by"
    ways = {f"standardised-by-{way}": {**overrides, key: way} for way in ("dataset", "public")}
    admit_several(out, [*ways, PAGE], "a replay")
    for name, way in ways.items():
        run_job(load(args.scenario, way), out / name, replace=args.replace).admit()
    for name, way in ways.items():
        play(args.scenario, way, out / name, args, name)
        if not args.json:
            tell_outcome(out / name, args, name)
    page = report(out)
    if args.json:
        emit(event_of(out, SEVERAL))
    else:
        say(f"  records in {out}, page in {page}")
    open_page(out, args)


def _overrides(args: argparse.Namespace) -> dict[str, Any]:
    """What the options say about the scenario, by dotted path."""
    from scenarios.app.cli.replay_scenario import replay_overrides, scope_overrides

    columns = columns_of(args.columns)
    return (
        replay_overrides(
            args.trace, args.cell, args.users, args.round, args.timezone, columns, args.base_stations, args.format,
            args.crs,
        )
        | scope_overrides(args.area_deg, args.area_m, args.since, args.until)
        | overrides_of(args)
    )  # fmt: skip


def _folder(args: argparse.Namespace, study: Study) -> Path:
    """The folder of a replay for which none is named."""
    from scenarios.app.cli.run_folder import replay_folder

    shown = {name: value for name in ("cell", "round") if (value := getattr(args, name))}
    names = (
        "users", "timezone", "columns", "base_stations", "format", "crs", "area_deg", "area_m", "since", "until",
    )  # fmt: skip
    options = {name: value for name in names if (value := getattr(args, name))}
    options |= {} if args.scenario == "replay" else {"scenario": args.scenario}
    return replay_folder(args.trace, study, shown, options, overrides_of(args))
