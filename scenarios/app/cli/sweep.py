"""The command `netsim sweep`: every point of a scenario's `vary:` section."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from netsim.errors import BadInput
from scenarios.app.cli.options import (
    Commands,
    add_jobs,
    add_run_options,
    add_scenario,
    jobs_of,
    name_of,
    out_of,
    overrides_of,
)
from scenarios.app.cli.output import say


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("sweep", help="run every point of a scenario's `vary:` section")
    add_scenario(command)
    add_jobs(command)
    add_run_options(command, seed=False)


def main(args: argparse.Namespace) -> None:
    """Play all points, draw the page that compares them."""
    from scenarios.app.report.report import report
    from scenarios.app.results.summary_keys import ACCURACY, ERROR_MEDIAN
    from scenarios.app.run.sweep import SweepPoint, sweep
    from scenarios.app.study.load import load

    jobs, overrides = jobs_of(args), overrides_of(args)
    study = load(args.scenario, overrides)
    out = out_of(args, Path("runs") / f"{name_of(args.scenario)}-sweep")
    if "seed" in overrides and study.vary is not None and study.vary.seed:
        raise BadInput("--set seed: the scenario's vary.seed decides; set vary.seed=[...] instead")

    def tell(done: int, of: int, point: SweepPoint, summary: dict[str, Any]) -> None:
        if not args.quiet:
            errors = [
                f"{name} {v:.0f} m" for k, v in summary.items() if (name := ERROR_MEDIAN.name_in(k)) and v is not None
            ]
            accuracy = summary.get(ACCURACY.of())
            errors += [] if accuracy is None else [f"accuracy {accuracy:.1f} %"]
            sinr_db = summary.get("radio.sinr_db.median")
            errors += [] if sinr_db is None else [f"median SINR {sinr_db:.1f} dB"]
            say(f"{done}/{of} {point.label}, seed {point.seed}: {', '.join(errors)}", errors=True)

    table = sweep(args.scenario, study, out, jobs, overrides, tell, args.replace)
    say(f"  all runs in {table}, page in {report(out)}")
