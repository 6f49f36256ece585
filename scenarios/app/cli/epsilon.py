"""The command `netsim epsilon`: what noise costs in epsilon, or how much noise an epsilon takes."""

from __future__ import annotations

import argparse

from netsim.errors import BadInput
from scenarios.app.cli.options import Commands
from scenarios.app.cli.output import say


def add(commands: Commands[argparse.ArgumentParser]) -> None:
    """Its arguments."""
    command = commands.add_parser("epsilon", help="what noise costs in epsilon, or how much noise an epsilon takes")
    command.add_argument("--noise-multiplier", type=float, nargs="+", metavar="Z", help="std of noise / sensitivity")
    command.add_argument("--target-epsilon", type=float, metavar="E", help="find the smallest noise multiplier instead")
    command.add_argument(
        "--rounds", type=int, nargs="+", required=True, metavar="T", help="rounds that are composed; or several numbers"
    )
    command.add_argument("--delta", type=float, required=True, metavar="D", help="delta at which epsilon is stated")
    command.add_argument(
        "--sampling-rate", type=float, default=1.0, metavar="Q",
        help="probability of taking part, by a secret coin of each user (default: 1; not for silence by channel)",
    )  # fmt: skip
    command.add_argument("--people", type=int, metavar="N", help="users in all: says when delta is too large for them")
    command.add_argument("--q", help=argparse.SUPPRESS)
    command.add_argument(
        "--draws", type=int, default=1, metavar="N",
        help="noise draws of a round that a user is in, on one coin: models x phases (default: 1)",
    )  # fmt: skip


def main(args: argparse.Namespace) -> None:
    """Print a table of epsilons, and what each accountant does."""
    from scenarios.app.cli.epsilon_text import epsilon_text

    if args.q is not None:
        raise BadInput(f"--q is renamed to --sampling-rate; write --sampling-rate {args.q}")
    rate = args.sampling_rate
    say(
        epsilon_text(args.noise_multiplier, args.target_epsilon, args.rounds, args.delta, rate, args.draws, args.people)
    )
