"""Load and run a scenario with progress, and write its page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from scenarios.app.cli.options import command_line, how_of


def play(source: str, overrides: dict[str, Any], out: Path, args: argparse.Namespace, title: str) -> None:
    """Run `source` in the folder `out`; what it found is in that folder then."""
    from scenarios.app.cli.progress import teller
    from scenarios.app.report.report import report
    from scenarios.app.run.runner import run
    from scenarios.app.study.load import Scenario

    scenario = Scenario(source)
    study = scenario.study(overrides)
    with teller(args, title) as tell, scenario.placed(overrides):
        run(study, out, lambda now: tell(now.line(title)), command_line(), args.replace, how_of(args))
        report(out)
