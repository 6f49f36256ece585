"""The arguments of the command, and its exit codes."""

from __future__ import annotations

import argparse
import os
from typing import NoReturn

from netsim import __version__
from scenarios.app.cli.output import complain

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


class _Parser(argparse.ArgumentParser):
    """Errors on one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        complain([f"{message} (see {self.prog} --help)"], self.prog)
        self.exit(BAD_INPUT)


def parser() -> argparse.ArgumentParser:
    """All commands and their options."""
    top = _Parser(
        prog="netsim",
        description="What does federated training over a mobile network give away about where its users are, "
        "what does hiding it cost, and how does the radio change the answer?",
        epilog="Exit codes: 0 done, 2 bad input, 1 unexpected failure, 130 interrupted (start again to go on).",
    )
    top.add_argument("--version", action="version", version=f"netsim {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Parser)

    run = commands.add_parser("run", help="run a scenario: a file, or the name of a bundled one (netsim run campus)")
    run.add_argument("scenario")
    _run_options(run)

    replay = commands.add_parser("replay", help="replay a mobility or measurement trace and see it leak over time")
    replay.add_argument(
        "trace",
        help="CSV with time_s,user,lat,lon and optional rsrp_dbm,cell; or PLT, GPX, SUMO FCD, ns-2, Cabspotting",
    )
    replay.add_argument("--scenario", default="replay", help="what is learnt and attacked (default: %(default)s)")
    replay.add_argument("--cell", help="cell to learn, or all (default: the busiest)")
    replay.add_argument("--users", choices=["auto", "all", "id", "day", "chain"], help="what a target is")
    replay.add_argument(
        "--round",
        default=None,
        help="round length with its unit, s, m or min, h, d or w: 24h, 7d, 90min (default: the scenario's)",
    )
    replay.add_argument(
        "--timezone", help="IANA name for local midnight, and of times that say no zone (default: by longitude)"
    )
    replay.add_argument("--columns", default="", help="our name=header, comma separated: time_s=timestamp,lat=Latitude")
    replay.add_argument(
        "--base-stations", metavar="FILE", help="CSV with OpenCelliD's columns, for a trace without RSRP"
    )
    _format(replay)
    _run_options(replay)

    sweep = commands.add_parser("sweep", help="run every point of a scenario's `vary:` section")
    sweep.add_argument("scenario")
    sweep.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    _run_options(sweep, seed=False)

    train = commands.add_parser("train", help="let an agent learn transmit power in a scenario with a `train:` section")
    train.add_argument("scenario")
    train.add_argument("--steps", type=int, help="replace the scenario's number of steps")
    train.add_argument("--seed", type=int, nargs="+", default=[0], help="of the training, not of the world; or several")
    train.add_argument("--out", metavar="DIR", help="folder for policy and figures (default: runs/train/...)")
    train.add_argument("--cache", metavar="DIR", help="where reference runs are kept (default: the user's cache)")
    train.add_argument("--tensorboard", metavar="DIR", help="also write events for TensorBoard")
    _sets(train)
    train.add_argument("--replace", action="store_true", help="replace the finished training of another study in DIR")
    train.add_argument("--quiet", action="store_true", help="no progress")

    validate = commands.add_parser("validate", help="check a scenario and the files it names, without running it")
    validate.add_argument("scenario")
    validate.add_argument(
        "--all", action="store_true", help="go through all that a run does before its first round, for every run"
    )
    _sets(validate)

    listing = commands.add_parser("list", help="list slots, parts, their parameters; or what fits together")
    listing.add_argument("slot", nargs="?")
    listing.add_argument("--matrix", action="store_true", help="which combinations are legal, and why not")
    listing.add_argument("--records", action="store_true", help="every column and key of a run folder")
    listing.add_argument("--csv", action="store_true", help="with --matrix: every combination, one a line")

    inspect = commands.add_parser("inspect", help="look at a trace before running anything")
    inspect.add_argument("trace")
    inspect.add_argument("--columns", default="", help="our name=header, comma separated")
    inspect.add_argument("--timezone", help="IANA name for local times, and of times that say no zone")
    _format(inspect)

    report = commands.add_parser("report", help="draw report.html from a folder of results")
    report.add_argument("folder")

    claims = commands.add_parser("claims", help="what publications say, and whether our runs agree")
    claims.add_argument(
        "--run", action="append", default=[], metavar="[SCENARIO=]DIR",
        help="judge by this folder of a run or a sweep (may be repeated)",
    )  # fmt: skip
    claims.add_argument("--paper", default="", metavar="WORD", help="only publications with this word in their name")
    claims.add_argument("--out", metavar="DIR", help="play the scenarios that are missing in DIR, judge, keep a table")
    claims.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: %(default)s)")
    claims.add_argument(
        "--minutes", type=float, metavar="M",
        help="play only scenarios that together take one core M minutes, the cheapest first (with --out)",
    )  # fmt: skip
    claims.add_argument("--file", metavar="FILE", help="a file of claims of your own")
    claims.add_argument("--quiet", action="store_true", help="no progress")

    epsilon = commands.add_parser("epsilon", help="what noise costs in epsilon, or how much noise an epsilon takes")
    epsilon.add_argument("--noise-multiplier", type=float, nargs="+", metavar="Z", help="std of noise / sensitivity")
    epsilon.add_argument("--target-epsilon", type=float, metavar="E", help="find the smallest noise multiplier instead")
    epsilon.add_argument("--rounds", type=int, nargs="+", required=True, metavar="T")
    epsilon.add_argument("--delta", type=float, required=True, metavar="D")
    epsilon.add_argument(
        "--q", type=float, default=1.0, metavar="Q",
        help="probability of taking part, by a secret coin of each user (default: 1; not for silence by channel)",
    )  # fmt: skip

    epsilon.add_argument(
        "--draws", type=int, default=1, metavar="N",
        help="noise draws of a round that a user is in, on one coin: models x phases (default: 1)",
    )  # fmt: skip

    commands.add_parser("schema", help="print the JSON schema of scenario files, for editors")
    return top


def _format(command: argparse.ArgumentParser) -> None:
    kinds = ["csv", "plt", "gpx", "sumo-fcd", "ns2", "cabspotting"]
    command.add_argument("--format", choices=kinds, help="format of the trace (default: recognised)")
    command.add_argument("--crs", help="coordinates: local, or EPSG:CODE (default: as the format has it)")


def _sets(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", dest="sets",
        help="replace a value of the scenario, e.g. learning.learner.labels=centred (may be repeated)",
    )  # fmt: skip


def _run_options(command: argparse.ArgumentParser, seed: bool = True) -> None:
    command.add_argument("--out", metavar="DIR", help="folder for the results (default: runs/...)")
    if seed:
        command.add_argument("--seed", type=int, help="replace the scenario's seed")
    _sets(command)
    command.add_argument("--replace", action="store_true", help="replace the run of another study in DIR")
    command.add_argument("--quiet", action="store_true", help="no progress")
