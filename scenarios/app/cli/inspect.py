"""The command `netsim inspect`: a look at a trace before anything runs, and statistics of mobility."""

from __future__ import annotations

import argparse

from netsim.errors import BadInput
from scenarios.app.cli.options import Commands, add_sets, add_trace, columns_of
from scenarios.app.cli.output import say


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("inspect", help="look at a trace, or at how people move in a trace or a scenario")
    add_trace(command)
    command.add_argument(
        "--mobility", action="store_true",
        help="statistics of mobility instead: places, regularity, predictability; also of a scenario, whose movement "
        "is then played without radio and learning",
    )  # fmt: skip
    command.add_argument(
        "--cell-m", type=float, metavar="M",
        help="side of a place, m; 0: a place is a building, or a distinct position of a trace (default: 250)",
    )  # fmt: skip
    command.add_argument(
        "--fill-h", type=float, metavar="H", help="hours for which a place is kept until the next row (default: 12)"
    )
    command.add_argument("--seed", type=int, metavar="N", help="of a scenario: replace its seed")
    add_sets(command)


def main(args: argparse.Namespace) -> None:
    """Print what the trace holds, or how people move."""
    told = {k: v for k in ("format", "crs", "timezone") if (v := getattr(args, k))}
    if args.mobility:
        from scenarios.app.cli.mobility_text import mobility_text

        say(mobility_text(args, told))
        return
    _refuse_what_is_for_mobility(args)
    from netsim.traces.inspect import inspect_trace

    say(inspect_trace(args.trace, columns_of(args.columns), **told))


def _refuse_what_is_for_mobility(args: argparse.Namespace) -> None:
    from scenarios.app.cli.mobility_text import is_scenario

    given = {"--cell-m": args.cell_m, "--fill-h": args.fill_h, "--seed": args.seed, "--set": args.sets or None}
    if used := [name for name, value in given.items() if value is not None]:
        raise BadInput(f"{used[0]}: only with --mobility; add --mobility")
    if is_scenario(args.trace):
        raise BadInput(f"{args.trace}: a scenario, and no trace; add --mobility to see how its people move")
