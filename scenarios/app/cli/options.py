"""Options that several commands share, and what they mean."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from netsim.errors import BadInput
from netsim.safe import what_is
from scenarios.app.cli.output import write

if TYPE_CHECKING:
    from scenarios.app.run.how import How

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


class Parser(argparse.ArgumentParser):
    """Errors are bad input like any other: one line, exit code 2. Options are written in full."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **more})
        self._negative_number_matcher = re.compile(r"-\.?\d")  # also of a list that begins with one: south, or west

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: Any = None) -> None:
        write(message, file or sys.stderr)


Commands = argparse._SubParsersAction  # argparse has no public name for what add_subparsers returns


def add_scenario(command: argparse.ArgumentParser) -> None:
    """The scenario that a command is about."""
    command.add_argument("scenario", help="a scenario file, or the name of a bundled one (see netsim list)")


def add_sets(command: argparse.ArgumentParser) -> None:
    """--set."""
    command.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", dest="sets",
        help="replace a value of the scenario, e.g. learning.learner.labels=centred (may be repeated)",
    )  # fmt: skip


def add_run_options(command: argparse.ArgumentParser, seed: bool = True) -> None:
    """--out, --set, --replace, --quiet, --records, --memory-gb, --json, --open; of a single run --seed, --verbose."""
    command.add_argument("--out", metavar="DIR", help="folder for the results (default: runs/...)")
    if seed:
        command.add_argument("--seed", type=int, metavar="N", help="replace the scenario's seed")
        command.add_argument("--verbose", action="store_true", help="print the whole result, not only its main lines")
    add_sets(command)
    command.add_argument("--replace", action="store_true", help="replace runs of other studies or versions in DIR")
    command.add_argument("--quiet", action="store_true", help="no progress")
    add_how(command)
    add_json(command)
    add_open(command)


def add_how(command: argparse.ArgumentParser) -> None:
    """--records and --memory-gb."""
    command.add_argument(
        "--records", choices=["csv", "parquet"], default="csv",
        help="format of the record tables of finished runs; parquet needs pyarrow (default: %(default)s)",
    )  # fmt: skip
    add_memory(command)


def add_memory(command: argparse.ArgumentParser) -> None:
    """--memory-gb."""
    command.add_argument(
        "--memory-gb", type=float, metavar="X",
        help="stop a run whose process holds more memory; runs at once on this machine share it equally "
        "(default: NETSIM_MEMORY_GB, else what is free here)",
    )  # fmt: skip


def how_of(args: argparse.Namespace) -> How:
    """How runs are kept, of --records and --memory-gb; what this machine cannot do is refused."""
    from scenarios.app.run.how import How

    how = How(getattr(args, "records", "csv"), args.memory_gb)
    how.check()
    return how


def add_json(command: argparse.ArgumentParser) -> None:
    """--json."""
    command.add_argument(
        "--json", action="store_true", help="progress and result as JSON, one object a line on stdout, nothing else"
    )


def add_open(command: argparse.ArgumentParser) -> None:
    """--open."""
    command.add_argument("--open", action="store_true", help="show the page in a browser")


def add_trace(command: argparse.ArgumentParser) -> None:
    """The trace that a command reads, and how."""
    command.add_argument(
        "trace",
        help="CSV with time_s,user,lat,lon and optional rsrp_dbm,cell; or PLT, GPX, SUMO FCD, ns-2, Cabspotting",
    )
    command.add_argument(
        "--columns", default="", metavar="OURS=HEADER,...",
        help="names of the columns of a CSV: time_s=timestamp,lat=Latitude",
    )  # fmt: skip
    command.add_argument(
        "--timezone", metavar="ZONE",
        help="IANA name for local midnight, and for times without a zone (default: by longitude)",
    )  # fmt: skip
    kinds = ["csv", "plt", "gpx", "sumo-fcd", "ns2", "cabspotting"]
    command.add_argument("--format", choices=kinds, help="format of the trace (default: recognised)")
    command.add_argument("--crs", metavar="CRS", help="coordinates: local, or EPSG:CODE (default: the format's)")


def overrides_of(args: argparse.Namespace) -> dict[str, Any]:
    """Dotted path -> value, of --set and --seed."""
    from scenarios.app.study.load import parse_value

    overrides: dict[str, Any] = {}
    for text in args.sets:
        path, equals, value = text.partition("=")
        if not equals or not path:
            raise BadInput(f"--set {text}: write PATH=VALUE, for example learning.round_s=3600")
        overrides[path] = parse_value(value)
    if getattr(args, "seed", None) is not None:
        overrides["seed"] = args.seed
    return overrides


def columns_of(text: str) -> dict[str, str]:
    """Our name -> header, of --columns."""
    pairs = [piece.partition("=") for piece in text.split(",") if piece.strip()]
    for name, equals, header in pairs:
        if not equals or not header.strip():
            raise BadInput(f"--columns {name}: write OURS=HEADER, for example time_s=timestamp")
    columns = {name.strip(): header.strip() for name, _, header in pairs}
    if len(columns) < len(pairs) or len(set(columns.values())) < len(columns):
        raise BadInput(f"--columns {text}: each of our names and each header may stand only once")
    return columns


def out_of(args: argparse.Namespace, default: Path) -> Path:
    """Where results go."""
    if args.out == "":
        raise BadInput("--out: give the name of a folder")
    return default if args.out is None else Path(args.out)


def name_of(scenario: str) -> str:
    """What progress and folders call a scenario: its bundled name, or the name of its file."""
    path = Path(scenario)
    return path.with_suffix("").name if path.suffix or what_is(path) == "file" else scenario


def command_line() -> str:
    """The command as it was typed, for the manifest."""
    return shlex.join(["netsim", *sys.argv[1:]])
