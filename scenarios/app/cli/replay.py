"""The command `netsim replay`: a trace of one's own, and how it leaks over time."""

from __future__ import annotations

import argparse
from pathlib import Path

from netsim.errors import BadInput
from scenarios.app.cli.options import Commands, add_run_options, add_trace, columns_of, out_of, overrides_of
from scenarios.app.cli.output import say, say_fitted


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
    command.add_argument(
        "--base-stations", metavar="FILE", help="CSV with OpenCelliD's columns, for a trace without RSRP"
    )
    add_run_options(command)


def main(args: argparse.Namespace) -> None:
    """Play the trace with positions standardised by the data and by what is public; draw the pages."""
    from scenarios.app.cli.play import play
    from scenarios.app.cli.replay_scenario import replay_overrides, trace_lines
    from scenarios.app.report.report import report
    from scenarios.app.results.folder import PAGE, admit, admit_several
    from scenarios.app.study.dump import study_yaml
    from scenarios.app.study.load import Scenario, load

    if not Scenario(args.scenario).document().data.get("learning"):
        raise BadInput(
            f"{args.scenario}: has no `learning:` section, so a replay has nothing to attack; play it by netsim run"
        )
    columns, stations = columns_of(args.columns), args.base_stations
    overrides = replay_overrides(
        args.trace, args.cell, args.users, args.round, args.timezone, columns, stations, args.format, args.crs
    )
    overrides |= overrides_of(args)
    say_fitted(trace_lines(load(args.scenario, overrides)))
    parts = [Path(args.trace).name.split(".")[0], args.cell, args.round]
    out = out_of(args, Path("runs") / "replay" / "-".join(p for p in parts if p))
    key = "learning.learner.standardise_by"
    ways = {f"standardised-by-{way}": {**overrides, key: way} for way in ("dataset", "public")}
    admit_several(out, [*ways, PAGE], "a replay")
    for name, way in ways.items():
        admit(out / name, study_yaml(load(args.scenario, way)), args.replace)
    for name, way in ways.items():
        play(args.scenario, way, out / name, args, name.replace("-", " "))
    say(f"  records in {out}, page in {report(out)}")
