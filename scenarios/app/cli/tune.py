"""The command `netsim tune`: the space of `vary.random`, searched for a figure of the summary."""

from __future__ import annotations

import argparse

from netsim.errors import BadInput
from scenarios.app.cli.engine_options import jobs_of
from scenarios.app.cli.options import (
    command_line,
    how_of,
    name_of,
    out_of,
    overrides_of,
)


def main(args: argparse.Namespace) -> None:
    """Search, verify, draw the page, print the winner."""
    from scenarios.app.cli.outcome import tell_failed_trials, tell_outcome
    from scenarios.app.cli.progress import teller
    from scenarios.app.cli.report import open_page
    from scenarios.app.cli.run_folder import tuning_folder
    from scenarios.app.report.report import report
    from scenarios.app.study.load import load
    from scenarios.app.tuning.goals import goals
    from scenarios.app.tuning.tune import Tuning, tune

    for option, least in (("trials", 1), ("verify", 0)):
        if not least <= getattr(args, option) <= 100_000:
            raise BadInput(f"--{option} {getattr(args, option)}: must be from {least} to 100,000")
    jobs, overrides, name = jobs_of(args), overrides_of(args), name_of(args.scenario)
    of = goals(args.objectives, args.directions, args.constraints)
    study = load(args.scenario, overrides)
    out = out_of(args, tuning_folder(name, study, overrides))
    tuning = Tuning(
        args.scenario, study, overrides, of, out, args.trials, jobs, args.verify, command_line(), how_of(args)
    )
    with teller(args, name) as tell:

        def told(done: int, total: int, label: str) -> None:
            tell({"event": "played", "title": name, "done": done, "of": total, "label": label, "last": done == total})

        tune(tuning, told, args.replace)
        report(out)
    tell_outcome(out, args, name)
    open_page(out, args)
    tell_failed_trials(out)
