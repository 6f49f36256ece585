"""The command `netsim train`: an agent learns transmit power in a scenario with a `train:` section."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from netsim.errors import BadInput
from scenarios.app.cli.engine_options import engine_of, jobs_of
from scenarios.app.cli.options import (
    how_of,
    name_of,
    out_of,
    overrides_of,
)


def main(args: argparse.Namespace) -> None:
    """Train, compare with the baselines, draw the page."""
    from scenarios.app.cli.outcome import tell_failures, tell_outcome
    from scenarios.app.cli.progress import teller
    from scenarios.app.cli.report import open_page
    from scenarios.app.cli.run_folder import training_folder
    from scenarios.app.report.report import report
    from scenarios.app.results.trainings import trainings
    from scenarios.app.study.load import load
    from scenarios.app.training.train import train

    asked, seeds, engine, jobs = overrides_of(args), args.seeds, engine_of(args), jobs_of(args, usual=1)
    if args.on != "processes" and len(seeds) == 1:
        raise BadInput(f"--on {args.on}: plays trainings of several seeds; give them by --seed")
    if any(not 0 <= seed < 2**31 for seed in seeds) or len(set(seeds)) < len(seeds):
        raise BadInput(f"--seed {' '.join(map(str, seeds))}: give different whole numbers from 0 to {2**31 - 1}")
    written = {key: value for key, value in asked.items() if not key.startswith("train.")}
    if load(args.scenario, written).train is None:
        raise BadInput(f"{args.scenario}: has no `train:` section, so there is nothing to learn; see power/paper")
    overrides = asked | ({} if args.steps is None else {"train.steps": args.steps})
    study = load(args.scenario, overrides)
    if args.tensorboard is not None and importlib.util.find_spec("tensorboard") is None:
        raise BadInput("--tensorboard: tensorboard is not installed; pip install tensorboard, or leave it out")
    name = name_of(args.scenario)
    out = out_of(args, training_folder(name, study, seeds, overrides))
    if args.tensorboard is not None and len(seeds) > 1 and (jobs != 1 or args.on != "processes"):
        raise BadInput("--tensorboard: shows one training after another; leave out --jobs and --on")
    cache = None if args.cache is None else Path(args.cache)
    shared = how_of(args).among(min(engine.here(jobs), len(seeds)))
    with teller(args, name) as tell:
        train(
            study, seeds, out, lambda event: tell(event.line(name)), cache, args.tensorboard, args.replace, engine,
            jobs, shared,
        )  # fmt: skip
        if trainings(out):
            report(out)
    tell_outcome(out, args, name)
    if trainings(out):
        open_page(out, args)
    tell_failures(out)
