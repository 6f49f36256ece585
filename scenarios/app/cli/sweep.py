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
    """Play all points, draw the page that compares them, print their main figures."""
    from scenarios.app.report.report import report
    from scenarios.app.results.folder import read_summary
    from scenarios.app.results.read import listed
    from scenarios.app.results.summary_keys import ACCURACY
    from scenarios.app.results.summary_text import attacks
    from scenarios.app.results.sweep_table import sweep_lines
    from scenarios.app.run.sweep import SweepPoint, sweep
    from scenarios.app.study.load import load

    jobs, overrides = jobs_of(args), overrides_of(args)
    study = load(args.scenario, overrides)
    out = out_of(args, Path("runs") / f"{name_of(args.scenario)}-sweep")
    if "seed" in overrides and study.vary is not None and study.vary.seed:
        raise BadInput("--set seed: the scenario's vary.seed decides; set vary.seed=[...] instead")

    def tell(done: int, of: int, point: SweepPoint, summary: dict[str, Any]) -> None:
        if not args.quiet:
            errors = [text for name in attacks(summary) if (text := _found(summary, name))]
            accuracy = summary.get(ACCURACY.of())
            errors += [] if accuracy is None else [f"accuracy {accuracy:.1f} %"]
            sinr_db = summary.get("radio.sinr_db.median")
            errors += [] if sinr_db is None else [f"median SINR {sinr_db:.1f} dB"]
            say(f"{done}/{of} {point.label}, seed {point.seed}: {', '.join(errors)}", errors=True)

    table = sweep(args.scenario, study, out, jobs, overrides, tell, args.replace)
    page = report(out)
    for line in sweep_lines([(label, read_summary(folder)) for label, folder in listed(out)]):
        say(f"  {line}")
    say(f"  all runs in {table}, page in {page}")


def _found(summary: dict[str, Any], name: str) -> str:
    """What an attack found, in a few words; empty where it found nothing."""
    from scenarios.app.results.summary_keys import ERROR_MEDIAN, HOME_NAMED_PERCENT

    error_m, homes = (summary.get(key.of(name)) for key in (ERROR_MEDIAN, HOME_NAMED_PERCENT))
    texts = [] if error_m is None else [f"{error_m:.0f} m"]
    texts += [] if homes is None else [f"{homes:.0f} % of homes"]
    return f"{name} {', '.join(texts)}" if texts else ""
