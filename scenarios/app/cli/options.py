"""What commands share: their options, and lines on stdout and stderr."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TextIO

from netsim.errors import BadInput, suggest_nearest, to_one_line
from netsim.safe import describe_file_kind
from scenarios.app.study import Fields, Record, Value

if TYPE_CHECKING:
    from scenarios.app.run.executor import Engine
    from scenarios.app.run.how import Resources
    from scenarios.app.study.load import Scenario


WIDTH = 100  # columns of tables
MAX_COMPLAINTS = 50  # of complaints
LONGEST = 2000  # characters of a complaint; a longer one loses its middle


class Lenient:
    """A stream for libraries that write: no error without a reader, no character that its encoding
    lacks.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def __getattr__(self, name: str) -> object:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        """Write text as `write_stream` does."""
        write_stream(text, self.stream)
        return len(text)

    def flush(self) -> None:
        """Do nothing: `write_stream` flushes."""


class Unwritable(BadInput):
    """Stdout cannot be written, so this is said on stderr, whatever a command says elsewhere."""


def say(text: str, end: str = "\n", errors: bool = False) -> None:
    """Print lines; what files say is shown without the codes by which it could steer a terminal."""
    write_stream(
        "\n".join(to_one_line(line) for line in text.split("\n")) + end,
        sys.stderr if errors else sys.stdout,
    )


def write_stream(text: str, stream: TextIO, flush: bool = False) -> bool:
    """Write text; returns whether anybody reads it. Characters that the encoding of the stream
    lacks become escapes.

    Text without a reader is dropped, as `head` leaves it, and so is what cannot be written on
    stderr. Raises Unwritable where stdout cannot be written.
    """
    try:
        if text:
            encoding = stream.encoding or "utf-8"
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        if flush or stream is not sys.stdout:
            stream.flush()
    except OSError as error:
        silence_stream(stream)
        if stream is sys.stdout and not isinstance(error, BrokenPipeError):
            raise Unwritable(
                f"stdout: cannot be written ({error.strerror}); make room, or send it elsewhere; "
                "what was written into folders stays"
            ) from None
        return False
    return True


def silence_stream(stream: TextIO) -> None:
    """Send what is still to be written nowhere, so that the interpreter does not complain of it
    when it ends.
    """
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)


def format_text_table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Return rows below their heads, if any, as text; `left`: how many columns are words, and not
    numbers.
    """
    from scenarios.app.results.shown import draw_text_table

    lines = draw_text_table(head, rows, right=range(left, len(head)))
    return "\n".join(lines if any(head) else lines[1:])


def say_fitted(lines: Sequence[str]) -> None:
    """Print result lines, indented and wrapped at 100 columns."""
    from scenarios.app.results.shown import wrap_lines

    for line in wrap_lines(lines):
        say(f"  {line}")


def emit(event: Record) -> bool:
    """Print an event as a line of JSON; what is not finite is null, as JSON knows no such numbers.
    As `write_stream`.
    """
    from pydantic_core import to_jsonable_python

    # numbers of numpy as those of Python; of anything else its text
    plain = to_jsonable_python(
        event,
        inf_nan_mode="null",
        fallback=lambda x: x.tolist() if hasattr(x, "tolist") else str(x),
    )
    return write_stream(json.dumps(plain, allow_nan=False) + "\n", sys.stdout, flush=True)


def complain(lines: Sequence[str]) -> None:
    """Complaints, each on a line of a length that can be read: whole at both ends, where place and
    remedy stand.
    """
    for line in lines[:MAX_COMPLAINTS]:
        if len(line) > LONGEST:
            left_out = f"[... {len(line) - LONGEST:,} characters ...]"
            text = f"{line[: LONGEST - 300]} {left_out} {line[-300:]}"
        else:
            text = line
        say(" ".join(f"netsim: {text}".splitlines()), errors=True)
    if len(lines) > MAX_COMPLAINTS:
        say(f"netsim: and {len(lines) - MAX_COMPLAINTS:,} more", errors=True)


DONE = 0
FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130


class Command(NamedTuple):
    """A command: its name, its line of help, `module:function` in this folder that runs it, and its
    options.
    """

    name: str
    help: str
    main: str
    options: Sequence[str | Fields] = ()


class Parser(ArgumentParser):
    """Raise errors as bad input, in one line; options are written in full."""

    def __init__(self, *args: Value, **settings: Value) -> None:
        super().__init__(*args, **{"allow_abbrev": False, **settings})
        # also of a list that begins with one: south, or west
        self._negative_number_matcher = re.compile(r"-\.?\d")

    def error(self, message: str) -> NoReturn:
        problem = re.sub(r"^(--\S+): (\S+: must be)", r"\1 \2", message.removeprefix("argument "))
        raise BadInput(f"{problem} (see {self.prog} --help)")

    def _print_message(self, message: str, file: Any = None) -> None:
        write_stream(message, file or sys.stderr)


KINDS: dict[str, Callable[[str], Value]] = {"int": int, "float": float, "Path": Path}


def add_option(
    parser: Parser,
    usage: str,
    type: str = "",
    within: Sequence[float] = (),
    also: Sequence[str] = (),
    **settings: Value,
) -> None:
    """Add an option as a row of commands.toml states it; also: other names."""
    name, _, metavar = usage.partition(" ")
    if metavar:
        settings["metavar"] = metavar
    elif name.startswith("--") and "choices" not in settings:
        settings["action"] = "store_true"
    if type:
        settings["type"] = build_number_parser(KINDS[type], *within) if within else KINDS[type]
    parser.add_argument(name, *also, **settings)


def build_number_parser(
    kind: Callable[[str], float], low: float, high: float
) -> Callable[[str], float]:
    """Return the type of an option that takes a number within bounds."""

    def read(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = float("nan")
        if not low <= value <= high:
            kind_text, form = ("a whole number", ",") if kind is int else ("a number", "g")
            within = "above 0 and below 1" if high < 1 else f"from {low:{form}} to {high:{form}}"
            raise ArgumentTypeError(f"{text[:20]}: must be {kind_text} {within}")
        return value

    return read


def read_resources(args: Namespace) -> Resources:
    """Return how runs are played, of --memory-gb."""
    from scenarios.app.run.how import Resources

    resources = Resources(args.memory_gb)
    resources.check_limit()
    return resources


def collect_overrides(args: Namespace) -> Fields:
    """Return dotted path -> value, of --set and --seed."""
    from scenarios.app.study.load import parse_value

    overrides: Fields = {}
    for text in args.sets:
        path, equals, value = text.partition("=")
        if not equals or not path:
            raise BadInput(f"--set {text}: write PATH=VALUE, for example learning.round_s=3600")
        overrides[path] = parse_value(value, f"--set {path}")
    if getattr(args, "seed", None) is not None:
        overrides["seed"] = args.seed
    if getattr(args, "against", None) is not None:
        overrides["measured"] = args.against
    return overrides


def read_scenario(args: Namespace, more: Record | None = None) -> tuple[str, Scenario]:
    """Return the name of a scenario, and the scenario with what options change, and more."""
    from scenarios.app.study.load import Scenario

    changes = {**collect_overrides(args), **(more or {})}
    return name_scenario(args.scenario), Scenario.from_source(args.scenario, changes)


def name_scenario(scenario: str) -> str:
    """Return the name of a scenario for progress and folders: bundled, or that of its file."""
    path = Path(scenario)
    if path.suffix or describe_file_kind(path) == "file":
        return path.with_suffix("").name
    return scenario


def join_command_line() -> str:
    """Return the command as it was typed, for the manifest, without the places of its owner."""
    words = "\0".join(["netsim", *sys.argv[1:]])
    return shlex.join(re.sub(r"(--(?:home|work)[=\0])[^\0]*", r"\1...", words).split("\0"))


# -- folders


def choose_out(args: Namespace, *names: str, changes: Record) -> Path:
    """Return where results go: --out, else a folder below `runs` with what was changed in its name,
    as `-rounds-3`.

    changes : dotted path of the scenario, or another word -> value. The same command has the same
    folder.
    """
    if args.out == "":
        raise BadInput("--out: give the name of a folder")
    words = "-".join(
        f"{path.removesuffix('.kind').split('.')[-1].replace('_', '-')}-{_to_word(value)}"
        for path, value in sorted(changes.items())
    )
    default = Path("runs", *names)
    if words:
        default = default.with_name(f"{default.name}-{shorten_name(words, 60)}")
    if args.out is None:
        return default
    return Path(args.out)


def shorten_name(text: str, longest: int) -> str:
    """Return a text as part of the name of a folder: itself, or where it has other characters its
    beginning and a digest.
    """
    if re.fullmatch(rf"[A-Za-z0-9][A-Za-z0-9.+-]{{0,{longest - 1}}}", text) and ".." not in text:
        return text
    import hashlib

    beginning = re.sub(r"([^A-Za-z0-9.+]|\.\.)+", "-", text)[: longest - 20].strip("-.+")
    return f"{beginning}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _to_word(value: Value) -> str:
    """Return a value as the command line has it; `none` for an empty list."""
    from scenarios.app.study.describe import to_flow_yaml

    if isinstance(value, str):
        return value
    if value in ([], {}):
        return "none"
    return to_flow_yaml(value)


# -- where many runs are played


def choose_engine(args: Namespace) -> Engine:
    """Return the engine, of --on and its options."""
    if args.address is not None and args.on != "ray":
        raise BadInput("--address: needs --on ray")
    if args.slurm and args.on != "slurm":
        raise BadInput("--slurm: needs --on slurm")
    if args.on == "ray":
        from scenarios.app.run.clusters import OnRay

        if args.address is not None and not re.fullmatch(r"auto|.+:\d+", args.address):
            raise BadInput(
                f"--address {args.address}: write auto, or HOST:PORT of the head of a Ray cluster"
            )
        return OnRay(args.address or "", args.retries)
    if args.on == "slurm":
        from scenarios.app.run.clusters import OnSlurm

        return OnSlurm(dict(map(parse_slurm_option, args.slurm)), args.retries)
    from scenarios.app.run.executor import OnProcesses

    return OnProcesses(args.retries)


def parse_slurm_option(text: str) -> tuple[str, Value]:
    """Return a parameter of submitit, of KEY=VALUE."""
    from scenarios.app.run.clusters import SLURM_OPTIONS
    from scenarios.app.study.load import parse_value

    key, _, word = text.partition("=")
    if key not in SLURM_OPTIONS:
        raise BadInput(
            f"--slurm {text}: no such key{suggest_nearest(key, SLURM_OPTIONS)}; there are "
            f"{', '.join(SLURM_OPTIONS)}"
        )
    kind = SLURM_OPTIONS[key]
    value = word if kind is str else parse_value(word)
    if type(value) not in (kind, int if kind is float else kind) or (
        not value and kind is not bool
    ):
        raise BadInput(f"--slurm {text}: the value must be {_MUST[kind]}")
    return key, kind(value)


_MUST = {
    bool: "true or false",
    str: "text",
    int: "a whole number above 0",
    float: "a number above 0",
}


def read_jobs_at_once(args: Namespace, usual: int | None = None) -> int:
    """Read how many runs to play at a time, of --jobs; 0: as many as the engine of --on has room
    for.
    """
    if args.jobs is not None or getattr(args, "on", "processes") != "processes":
        return int(args.jobs or 0)
    return usual or os.cpu_count() or 1
