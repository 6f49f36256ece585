"""Options that say where many runs are played."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from netsim.errors import BadInput
from scenarios.app.run.executors.limits import RETRIES

if TYPE_CHECKING:
    from scenarios.app.run.executors.executor import Engine


def add_engine(command: argparse.ArgumentParser, jobs: int | None = None) -> None:
    """--on, --jobs and --retries. jobs : processes where nobody says how many; None: one for each core."""
    command.add_argument(
        "--on", choices=["processes"], default="processes", help="where runs are played (default: %(default)s)"
    )
    usual = "one for each core" if jobs is None else jobs
    command.add_argument("--jobs", type=int, metavar="N", default=jobs, help=f"runs at a time (default: {usual})")
    command.add_argument(
        "--retries", type=int, default=RETRIES, metavar="N",
        help="attempts after the first one, of a run whose process is lost or that meets an error of files "
        "(default: %(default)s)",
    )  # fmt: skip


def engine_of(args: argparse.Namespace) -> Engine:
    """The engine, of --on and its options."""
    from scenarios.app.run.executors.processes import OnProcesses

    if args.retries < 0:
        raise BadInput(f"--retries {args.retries}: must be 0 or more")
    return OnProcesses(args.retries)


def jobs_of(args: argparse.Namespace) -> int:
    """Runs at a time, of --jobs."""
    if args.jobs is not None and args.jobs < 1:
        raise BadInput(f"--jobs {args.jobs}: must be 1 or more")
    return int(args.jobs or os.cpu_count() or 1)
