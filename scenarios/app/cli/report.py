"""The command `netsim report`: the page of a folder of results."""

from __future__ import annotations

import argparse
from pathlib import Path

from scenarios.app.cli.compare import add_pages
from scenarios.app.cli.options import Commands, add_json, add_open
from scenarios.app.cli.output import emit, say, say_fitted


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("report", help="draw report.html from a folder of results")
    command.add_argument("folder", metavar="DIR", help="the folder of a run, a sweep, a replay or a training")
    add_json(command)
    add_open(command)
    add_pages(command)


def main(args: argparse.Namespace) -> None:
    """Draw the page; of a sweep with curves also print the trade-off."""
    from scenarios.app.cli.browser import open_page
    from scenarios.app.report.report import report
    from scenarios.app.results.tradeoff import tradeoff_lines

    page = report(Path(args.folder), args.pages)
    if args.json:
        emit({"event": "result", "kind": "page", "folder": args.folder, "page": str(page)})
    else:
        say(f"page in {page}")
        say_fitted(tradeoff_lines(Path(args.folder)))
    open_page(Path(args.folder), args)
