"""The command `netsim report`: the page of a folder of results."""

from __future__ import annotations

import argparse
from pathlib import Path

from scenarios.app.cli.browser import open_page
from scenarios.app.cli.output import emit, say, say_fitted
from scenarios.app.report.report import report
from scenarios.app.results.tradeoff import tradeoff_lines


def main(args: argparse.Namespace) -> None:
    """Draw the page; of a sweep with curves also print the trade-off."""
    page = report(Path(args.folder), args.pages)
    if args.json:
        emit({"event": "result", "kind": "page", "folder": args.folder, "page": str(page)})
    else:
        say(f"page in {page}")
        say_fitted(tradeoff_lines(Path(args.folder)))
    open_page(Path(args.folder), args)
