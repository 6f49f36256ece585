"""The command `netsim inspect`: a look at a trace before anything runs."""

from __future__ import annotations

import argparse

from scenarios.app.cli.options import Commands, add_trace, columns_of
from scenarios.app.cli.output import say


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    add_trace(commands.add_parser("inspect", help="look at a trace before running anything"))


def main(args: argparse.Namespace) -> None:
    """Print what the trace holds."""
    from netsim.traces.inspect import inspect_trace

    told = {"format": args.format, "crs": args.crs, "timezone": args.timezone}
    say(inspect_trace(args.trace, columns_of(args.columns), **{k: v for k, v in told.items() if v}))
