"""The option `--open`."""

from __future__ import annotations

import argparse
from pathlib import Path

from netsim.safe import what_is
from scenarios.app.browser import show_page
from scenarios.app.cli.output import say
from scenarios.app.report.report import report
from scenarios.app.results.folder import PAGE


def open_page(folder: Path, args: argparse.Namespace) -> None:
    """With --open: show the page of a folder, drawn first if need be; without a browser a line tells its path."""
    if not args.open:
        return
    page = folder / PAGE if what_is(folder / PAGE) else report(folder)
    if not show_page(page) and not args.json:
        say(f"  no browser here; open {page}")
