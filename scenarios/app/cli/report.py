"""The command `netsim report`: the page of a folder of results."""

from __future__ import annotations

import argparse
from pathlib import Path

from scenarios.app.cli.options import Commands
from scenarios.app.cli.output import say, say_fitted


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("report", help="draw report.html from a folder of results")
    command.add_argument("folder", metavar="DIR", help="the folder of a run, a sweep, a replay or a training")


def main(args: argparse.Namespace) -> None:
    """Draw the page; of a sweep with curves also print the trade-off."""
    from scenarios.app.report.report import report
    from scenarios.app.results.tradeoff import tradeoff_lines

    say(f"page in {report(Path(args.folder))}")
    say_fitted(tradeoff_lines(Path(args.folder)))
