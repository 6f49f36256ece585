"""Load and run a scenario with progress, write its page, and print the result."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from scenarios.app.cli.options import command_line
from scenarios.app.cli.output import say, say_fitted


def play(source: str, overrides: dict[str, Any], out: Path, args: argparse.Namespace, title: str) -> None:
    """Run `source` in the folder `out`."""
    from scenarios.app.cli.progress import Meter
    from scenarios.app.report.report import report
    from scenarios.app.run.runner import run
    from scenarios.app.study.load import Scenario
    from scenarios.app.study.yaml_document import one_line

    scenario = Scenario(source)
    study = scenario.study(overrides)
    meter = Meter(title, args.quiet)
    try:
        with scenario.placed(overrides):
            run(study, out, meter, command_line(), args.replace)
    finally:
        meter.end()
    say(f"{title} (seed {study.seed}): {one_line(study.title)}")
    say_fitted(result_lines(out, report(out), args.verbose))


def result_lines(folder: Path, page: Path, verbose: bool) -> list[str]:
    """The result of a run for the terminal: its main lines, or all of them."""
    from netsim.channel_card import card_lines
    from scenarios.app.results.folder import MANIFEST, read_json, read_summary, read_table
    from scenarios.app.results.radio_text import radio_lines
    from scenarios.app.results.summary_text import full_text, short_text
    from scenarios.app.results.tables import RADIO_STUDY

    manifest, summary = read_json(folder / MANIFEST), read_summary(folder)
    lines = [f"warning: {text}" for text in manifest["warnings"]]
    if manifest.get("kind") == RADIO_STUDY:
        return [*lines, *(card_lines(manifest["channel_card"]) if verbose else []), *radio_lines(summary, str(page))]
    account = read_table(folder, "privacy")
    if verbose:
        lines += [*card_lines(manifest["channel_card"]), *full_text(summary, account)]
        lines += [f"records in {folder}, page in {page}"]
    else:
        lines += short_text(summary, account, str(page))
    return lines
