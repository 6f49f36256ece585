"""The command `netsim report`: the page of a folder of results."""

from __future__ import annotations

import argparse
from pathlib import Path

from netsim.safe import what_is
from scenarios.app.browser import show_page
from scenarios.app.cli.output import emit, say
from scenarios.app.report.report import report
from scenarios.app.results.folder import PAGE


def main(args: argparse.Namespace) -> None:
    """Draw the page."""
    page = report(Path(args.folder), args.pages)
    if args.json:
        emit({"event": "result", "kind": "page", "folder": args.folder, "page": str(page)})
    else:
        say(f"page in {page}")
    open_page(Path(args.folder), args)


def open_page(folder: Path, args: argparse.Namespace) -> None:
    """With --open: show the page of a folder, drawn first if need be; without a browser a line tells its path."""
    if not args.open:
        return
    page = folder / PAGE if what_is(folder / PAGE) else report(folder)
    if not show_page(page) and not args.json:
        say(f"  no browser here; open {page}")
