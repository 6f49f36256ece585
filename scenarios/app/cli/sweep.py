"""The command `netsim sweep`: every point of a scenario's `vary:` section."""

from __future__ import annotations

import argparse

from netsim.errors import BadInput
from scenarios.app.cli.engine_options import engine_of, jobs_of
from scenarios.app.cli.options import (
    command_line,
    how_of,
    name_of,
    out_of,
    overrides_of,
)


def main(args: argparse.Namespace) -> None:
    """Play all points, draw the page that compares them, print their main figures."""
    from scenarios.app.cli.outcome import tell_failures, tell_outcome
    from scenarios.app.cli.progress import teller
    from scenarios.app.cli.report import open_page
    from scenarios.app.cli.run_folder import sweep_folder
    from scenarios.app.report.report import report
    from scenarios.app.results.read import finished
    from scenarios.app.run.adapt import MOST_EVALUATIONS, adapted_sweep
    from scenarios.app.run.sweep import Sweep
    from scenarios.app.study.load import load

    engine, jobs, overrides, name = engine_of(args), jobs_of(args), overrides_of(args), name_of(args.scenario)
    how, study = how_of(args), load(args.scenario, overrides)
    if args.adapt is not None and not 1 <= args.adapt <= MOST_EVALUATIONS:
        raise BadInput(f"--adapt {args.adapt}: must be from 1 to {MOST_EVALUATIONS:,}; without it no attack is tuned")
    apart = f"-adapt-{args.adapt}" if args.adapt else ""
    out = out_of(args, sweep_folder(f"{name}{apart}", study, overrides))
    if "seed" in overrides and study.vary is not None and study.vary.seed:
        raise BadInput("--set seed: the scenario's vary.seed decides; set vary.seed=[...] instead")
    with teller(args, name) as tell:
        asked = Sweep(
            args.scenario, study, out, jobs, overrides, lambda now: tell(now.line(name)), args.replace,
            command=command_line(), engine=engine, how=how,
        )  # fmt: skip
        if args.adapt:
            adapted_sweep(args.adapt, asked)
        else:
            asked.play()
        if finished(out):
            report(out)
    tell_outcome(out, args, name)
    if finished(out):
        open_page(out, args)
    tell_failures(out)
