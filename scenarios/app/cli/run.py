"""The command `netsim run`: a scenario, played into a run folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from scenarios.app.cli.options import Commands, add_run_options, add_scenario, name_of, out_of, overrides_of


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("run", help="run a scenario (netsim run campus)")
    add_scenario(command)
    add_run_options(command)


def main(args: argparse.Namespace) -> None:
    """Run, write the page, print the result."""
    from scenarios.app.cli.play import play
    from scenarios.app.study.load import load

    overrides, name = overrides_of(args), name_of(args.scenario)
    seed = load(args.scenario, overrides).seed
    out = out_of(args, Path("runs") / name / str(seed))
    play(args.scenario, overrides, out, args, name)
