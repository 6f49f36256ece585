"""A command and its options as data, and what the values of shared options mean."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from netsim.errors import BadInput
from netsim.safe import what_is
from scenarios.app.cli.output import write

if TYPE_CHECKING:
    from scenarios.app.run.how import How

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


class Option:
    """An argument of a command, as argparse takes it."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names, self.settings = names, settings


class Command:
    """A command: its name, its line of help, `module:function` in this folder that runs it, and its options."""

    def __init__(self, name: str, help: str, main: str, *options: Option) -> None:
        self.name, self.help, self.main, self.options = name, help, main, options


class Parser(argparse.ArgumentParser):
    """Raise errors as bad input, in one line; options are written in full."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **more})
        self._negative_number_matcher = re.compile(r"-\.?\d")  # also of a list that begins with one: south, or west

    def error(self, message: str) -> NoReturn:
        what = re.sub(r"^(--\S+): (\S+: must be)", r"\1 \2", message.removeprefix("argument "))
        raise BadInput(f"{what} (see {self.prog} --help)")

    def _print_message(self, message: str, file: Any = None) -> None:
        write(message, file or sys.stderr)


def number(kind: Callable[[str], float], low: float, high: float) -> Callable[[str], float]:
    """The type of an option that takes a number within bounds."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            what, form = ("a whole number", ",") if kind is int else ("a number", "g")
            raise argparse.ArgumentTypeError(f"{text[:20]}: must be {what} from {low:{form}} to {high:{form}}")
        return value

    return read


def how_of(args: argparse.Namespace) -> How:
    """How runs are kept, of --records and --memory-gb; what this machine cannot do is refused."""
    from scenarios.app.run.how import How

    how = How(getattr(args, "records", "csv"), args.memory_gb)
    how.check()
    return how


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
    pairs = [tuple(map(str.strip, piece.split("=", 1))) for piece in text.split(",") if piece.strip()]
    columns = {pair[0]: pair[-1] for pair in pairs}
    if any(len(pair) < 2 or not pair[1] for pair in pairs):
        raise BadInput(f"--columns {text}: write OURS=HEADER, for example time_s=timestamp")
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
