"""The command `netsim tune`: the space of `vary.random`, searched for a figure of the summary."""

from __future__ import annotations

import argparse

from netsim.errors import BadInput
from scenarios.app.cli.engine_options import add_jobs, jobs_of
from scenarios.app.cli.options import (
    Commands,
    add_run_options,
    add_scenario,
    command_line,
    how_of,
    name_of,
    out_of,
    overrides_of,
)


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("tune", help="search the space of `vary.random` for a figure of the summary")
    add_scenario(command)
    command.add_argument(
        "--objective", action="append", required=True, metavar="KEY", dest="objectives",
        help="key of summary.json; several: trials that no other one beats",
    )  # fmt: skip
    command.add_argument(
        "--direction", action="append", choices=["min", "max"], required=True, dest="directions",
        help="whether it should be small or large: once, or for each objective in order",
    )  # fmt: skip
    command.add_argument(
        "--constraint", action="append", default=[], metavar="'KEY<=X'", dest="constraints",
        help="bound that the winner keeps, also KEY>=X (may be repeated)",
    )  # fmt: skip
    command.add_argument(
        "--end-early", choices=["auto", "on", "off"], default="auto",
        help="whether trials that are worse than others after a round end there; auto: where rounds have the objective "
        "(default: %(default)s)",
    )  # fmt: skip
    command.add_argument("--trials", type=int, default=50, metavar="N", help="trials in all (default: %(default)s)")
    command.add_argument(
        "--verify", type=int, default=3, metavar="N",
        help="fresh seeds on which winners are played again (default: %(default)s)",
    )  # fmt: skip
    add_jobs(command, "one for each core")
    add_run_options(command, seed=False)


def main(args: argparse.Namespace) -> None:
    """Search, verify, draw the page, print the winner."""
    from scenarios.app.cli.browser import open_page
    from scenarios.app.cli.outcome import tell_failed_trials, tell_outcome
    from scenarios.app.cli.progress import teller
    from scenarios.app.cli.run_folder import tuning_folder
    from scenarios.app.report.report import report
    from scenarios.app.study.load import load
    from scenarios.app.tuning.goals import goals
    from scenarios.app.tuning.tune import Tuning, tune

    for option, least in (("trials", 1), ("verify", 0)):
        if not least <= getattr(args, option) <= 100_000:
            raise BadInput(f"--{option} {getattr(args, option)}: must be from {least} to 100,000")
    jobs, overrides, name = jobs_of(args), overrides_of(args), name_of(args.scenario)
    of = goals(args.objectives, args.directions, args.constraints, args.end_early)
    study = load(args.scenario, overrides)
    out = out_of(args, tuning_folder(name, study, overrides))
    tuning = Tuning(
        args.scenario, study, overrides, of, out, args.trials, jobs, args.verify, command_line(), how_of(args)
    )
    with teller(args, name, prepares=False) as tell:

        def told(done: int, total: int, label: str) -> None:
            tell({"event": "played", "title": name, "done": done, "of": total, "label": label, "last": done == total})

        tune(tuning, told, args.replace)
        report(out)
    tell_outcome(out, args, name)
    open_page(out, args)
    tell_failed_trials(out)
