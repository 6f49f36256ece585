"""The command `netsim compare`: runs and sweeps side by side, as a page and as a table."""

from __future__ import annotations

import argparse
from math import inf
from pathlib import Path

from netsim.errors import BadInput
from scenarios.app.cli.options import command_line
from scenarios.app.cli.output import emit, say, say_fitted


def main(args: argparse.Namespace) -> None:
    """Draw the page; print the answer and the table of main figures."""
    from scenarios.app.browser import show_page
    from scenarios.app.report.report import compare
    from scenarios.app.results.gathered import gathered
    from scenarios.app.results.shown import answers, by_label, sweep_lines

    if not args.out:
        raise BadInput("--out: give the name of a file")
    folders = [Path(name) for name in args.folders]
    if args.reach is not None and not 0 < args.reach < inf:
        raise BadInput(f"--reach {args.reach:g}: give an RMSE in dB or an accuracy in %, above 0")
    page = compare(folders, Path(args.out), command_line(), args.pages, args.reach)
    of = gathered(folders)
    if args.json:
        runs = [{"label": label, "folder": str(folder)} for label, folder in of.runs]
        answer = [{"asked": asked, "text": text} for asked, text in answers(by_label(of.summaries))]
        told = {"answer": answer, "runs": runs, "left_out": of.missing, "notes": of.said}
        emit({"event": "result", "kind": "comparison", "page": str(page), **told})
    else:
        say_fitted(of.said)
        for line in sweep_lines(of.summaries):
            say(f"  {line}")
        say(f"  page in {page}")
    if args.open and not show_page(page) and not args.json:
        say(f"  no browser here; open {page}")
