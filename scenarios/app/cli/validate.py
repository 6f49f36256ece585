"""The command `netsim validate`: what `run` would refuse or warn of, without running."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from scenarios.app.cli.options import Commands, add_scenario, add_sets, overrides_of
from scenarios.app.cli.output import say

if TYPE_CHECKING:
    from scenarios.app.run.points import SweepPoint
    from scenarios.app.study.study import Study


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("validate", help="check a scenario and the files it names, without running it")
    add_scenario(command)
    command.add_argument(
        "--all", action="store_true", help="go through all that a run does before its first round, for every run"
    )
    add_sets(command)


def main(args: argparse.Namespace) -> None:
    """Check the scenario, and every point of its sweep."""
    from scenarios.app.run.check import check, check_prepared
    from scenarios.app.study.load import Scenario
    from scenarios.app.study.yaml_document import one_line

    overrides = overrides_of(args)
    scenario = Scenario(args.scenario)
    study = scenario.study(overrides)
    points: list[tuple[SweepPoint, Study]] = []
    if study.vary is not None:
        from scenarios.app.run.points import checked_points

        points = checked_points(args.scenario, study, overrides)
    with scenario.placed(overrides):
        warnings = check(study, args.all)
    of_points = check_prepared(args.scenario, points, args.all)
    more = f"; a sweep of it has {len(points):,} runs" if len(points) > 1 else ""
    say(f"{args.scenario}: valid ({one_line(study.title)}){more}")
    for text in dict.fromkeys((*warnings, *of_points)):
        say(f"warning: {text}")
