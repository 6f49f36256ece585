"""The command `netsim show`: what a finished folder says, as the command that made it said it."""

from __future__ import annotations

import argparse
from pathlib import Path

from scenarios.app.cli.options import Commands, add_json, add_open


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("show", help="print the result of a finished run, sweep, replay or training again")
    command.add_argument("folder", metavar="DIR", help="the folder of a run, a sweep, a replay or a training")
    command.add_argument("--verbose", action="store_true", help="print the whole result, not only its main lines")
    add_json(command)
    add_open(command)


def main(args: argparse.Namespace) -> None:
    """Print it; where it is not finished, how to go on."""
    from scenarios.app.cli.browser import open_page
    from scenarios.app.cli.outcome import tell_outcome

    tell_outcome(Path(args.folder), args)
    open_page(Path(args.folder), args)
