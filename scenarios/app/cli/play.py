"""Load and run a scenario with progress, then print what a person reads first."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from scenarios.app.cli.options import command_line
from scenarios.app.cli.output import say


def play(source: str, overrides: dict[str, Any], out: Path, args: argparse.Namespace, title: str) -> dict[str, Any]:
    """The summary of a run of `source` in the folder `out`."""
    from netsim.channel_card import card_lines
    from scenarios.app.cli.progress import Meter
    from scenarios.app.results.folder import MANIFEST, read_json, read_table
    from scenarios.app.results.summary_text import headline
    from scenarios.app.run.runner import run
    from scenarios.app.study.load import Scenario
    from scenarios.app.study.yaml_document import one_line

    scenario = Scenario(source)
    study = scenario.study(overrides)
    meter = Meter(title, args.quiet)
    try:
        with scenario.placed(overrides):
            summary = run(study, out, meter, command_line(), args.replace)
    finally:
        meter.end()
    say(f"{title} (seed {study.seed}): {one_line(study.title)}")
    for warning in read_json(out / MANIFEST)["warnings"]:
        say(f"  warning: {warning}")
    for line in card_lines(read_json(out / MANIFEST)["channel_card"]):
        say(f"  {line}")
    for line in headline(summary, read_table(out, "privacy")):
        say(f"  {line}")
    return summary
