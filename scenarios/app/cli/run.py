"""The command `netsim run`: a scenario, played into a run folder."""

from __future__ import annotations

import argparse

from scenarios.app.cli.options import Commands, add_run_options, add_scenario, name_of, out_of, overrides_of


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("run", help="run a scenario (netsim run campus)")
    add_scenario(command)
    add_run_options(command)


def main(args: argparse.Namespace) -> None:
    """Run, write the page, print the result."""
    from scenarios.app.cli.browser import open_page
    from scenarios.app.cli.outcome import tell_outcome
    from scenarios.app.cli.play import play
    from scenarios.app.cli.run_folder import run_folder
    from scenarios.app.study.load import load

    overrides, name = overrides_of(args), name_of(args.scenario)
    out = out_of(args, run_folder(name, load(args.scenario, overrides), overrides))
    play(args.scenario, overrides, out, args, name)
    tell_outcome(out, args, name)
    open_page(out, args)
