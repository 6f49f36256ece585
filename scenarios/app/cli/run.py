"""The command `netsim run`: a scenario, played into a run folder."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from scenarios.app.cli.options import (
    command_line,
    how_of,
    name_of,
    out_of,
    overrides_of,
)


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


def main(args: argparse.Namespace) -> None:
    """Run, write the page, print the result."""
    from scenarios.app.cli.outcome import tell_outcome
    from scenarios.app.cli.report import open_page
    from scenarios.app.cli.run_folder import run_folder
    from scenarios.app.study.load import load

    overrides, name = overrides_of(args), name_of(args.scenario)
    out = out_of(args, run_folder(name, load(args.scenario, overrides), overrides))
    play(args.scenario, overrides, out, args, name)
    tell_outcome(out, args, name)
    open_page(out, args)
