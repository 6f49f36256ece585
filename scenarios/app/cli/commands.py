"""The command `netsim`: all commands with their options. The function of a command is imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from netsim import __version__
from netsim.errors import BadInput, RunsFailed
from scenarios.app.cli.options import (
    BAD_INPUT,
    DONE,
    FAILED,
    INTERRUPTED,
    Command,
    Option,
    Parser,
    Unwritable,
    complain,
    emit,
    number,
    write,
)
from scenarios.app.run import events
from scenarios.app.run.events import RETRIES

SCENARIO = Option("scenario", "a scenario file, or the name of a bundled one (see netsim list)")
FOLDER = Option("folder DIR", "the folder of a run, a sweep, a replay or a training")
SET = Option(
    "--set PATH=VALUE",
    "replace a value of the scenario, e.g. learning.learner.labels=centred (may be repeated)",
    action="append",
    default=[],
    dest="sets",
)
OUT = Option("--out DIR", "folder for the results (default: runs/...)")
SEED = Option("--seed N", "replace the scenario's seed", type=int)
REPLACE = Option("--replace", "replace runs of other studies or versions in DIR")
QUIET = Option("--quiet", "no progress")
VERBOSE = Option("--verbose", "print all results, not only the main ones")
RECORDS = Option(
    "--records",
    "format of the record tables of finished runs; parquet needs pyarrow (default: %(default)s)",
    choices=["csv", "parquet"],
    default="csv",
)
MEMORY = Option(
    "--memory-gb X",
    "stop a run whose process holds more memory; runs at once on this machine share it equally "
    "(default: NETSIM_MEMORY_GB, else what is free here)",
    type=float,
)
JSON = Option("--json", "progress and result as JSON, one object per line on stdout")
OPEN = Option("--open", "show the page in a browser")
PAGES = Option("--pages", "draw the page of every run too, and link to it")
CACHE = Option("--cache DIR", "where reference runs are kept (default: the user's cache)", type=Path)
TRACE = (
    Option(
        "trace", "CSV with time_s,user,lat,lon and optional rsrp_dbm,cell; or PLT, GPX, SUMO FCD, ns-2, Cabspotting"
    ),
    Option("--columns OURS=HEADER,...", "names of the columns of a CSV: time_s=timestamp,lat=Latitude", default=""),
    Option("--timezone ZONE", "IANA name for local midnight, and for times without a zone (default: by longitude)"),
    Option("--format FORMAT", "format of the trace, of `netsim list trace-format` (default: recognised)"),
    Option("--crs CRS", "coordinates: local, or EPSG:CODE (default: the format's)"),
)
PLAY = (OUT, SET, REPLACE, QUIET, RECORDS, MEMORY, JSON, OPEN)
"""options of every command that plays runs"""


def jobs(usual: str) -> Option:
    """--jobs; usual : the default, in words."""
    return Option("--jobs N", f"runs at a time (default: {usual})", type=number(int, 1, 100_000))


def engine(usual: str = "one per core; of a cluster all it has") -> tuple[Option, ...]:
    """Options that say where many runs are played."""
    return (
        Option(
            "--on",
            "where runs are played: processes of this machine, a Ray cluster, jobs of Slurm (default: %(default)s)",
            choices=["processes", "ray", "slurm"],
            default="processes",
        ),
        jobs(usual),
        Option(
            "--retries N",
            "further attempts at a run whose process is lost or that meets an error of files (default: %(default)s)",
            type=number(int, 0, 1000),
            default=RETRIES,
        ),
        Option(
            "--address auto|HOST:PORT",
            "with --on ray: a running cluster (default: one on this machine while the command works)",
        ),
        Option(
            "--slurm KEY=VALUE",
            "with --on slurm: a parameter of submitit, as timeout_min=60, mem_gb=4, slurm_partition=short (may "
            "be repeated)",
            action="append",
            default=[],
        ),
    )


COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command("run", "run a scenario (netsim run campus)", "play:run", SCENARIO, SEED, VERBOSE, *PLAY),
        Command(
            "replay",
            "train on a recorded trace and measure leakage",
            "replay:main",
            *TRACE,
            Option(
                "--scenario SCENARIO",
                "scenario that says what is learnt and attacked (default: %(default)s)",
                default="replay",
            ),
            Option("--cell CELL", "cell to learn, or all (default: the busiest)"),
            Option("--users", "what a target is", choices=["auto", "all", "id", "day", "chain"]),
            Option(
                "--round LENGTH",
                "round length with its unit, s, m or min, h, d or w: 24h, 7d, 90min (default: the scenario's)",
            ),
            Option("--area-deg S,W,N,E", "only rows in this box, in degrees"),
            Option("--area-m X0,Y0,X1,Y1", "the same, in metres of the file"),
            Option("--since TIME", "only rows from this time on: 2021-04-21, with --timezone"),
            Option(
                "--until TIME",
                "only rows before this time; with a box and --since these are also the area and the days that "
                "are public, whatever the rows are",
            ),
            Option("--base-stations FILE", "CSV with OpenCelliD's columns, for a trace without RSRP"),
            SEED,
            VERBOSE,
            *PLAY,
        ),
        Command(
            "sweep",
            "run every point of a scenario's `vary:` section",
            "play:sweep",
            SCENARIO,
            Option(
                "--adapt N",
                "tune the attacker of each variant first: the best of N attacks on a seed that the sweep does "
                "not print",
                type=number(int, 1, 1000),
            ),
            *engine(),
            *PLAY,
        ),
        Command(
            "train",
            "train an agent on the `train:` section of a scenario",
            "play:train",
            SCENARIO,
            Option("--steps N", "replace the scenario's number of steps", type=int),
            Option(
                "--seed N",
                "of the training, not of the world; several: one training each (default: 0)",
                type=number(int, 0, 2**31 - 1),
                nargs="+",
                default=[0],
                dest="seeds",
            ),
            CACHE,
            Option("--tensorboard DIR", "also write events for TensorBoard"),
            *engine("1: one seed after another, which share the rounds that they record"),
            OUT,
            SET,
            REPLACE,
            QUIET,
            MEMORY,
            JSON,
            OPEN,
        ),
        Command(
            "tune",
            "search the space of `vary.random` for a figure of the summary",
            "play:tune",
            SCENARIO,
            Option(
                "--objective KEY",
                "key of summary.json; several: trials that no other one beats",
                action="append",
                required=True,
                dest="objectives",
            ),
            Option(
                "--direction",
                "whether it should be small or large: once, or for each objective in order",
                action="append",
                choices=["min", "max"],
                required=True,
                dest="directions",
            ),
            Option(
                "--constraint 'KEY<=X'",
                "bound that the winner keeps, also KEY>=X (may be repeated)",
                action="append",
                default=[],
                dest="constraints",
            ),
            Option("--trials N", "trials in all (default: %(default)s)", type=number(int, 1, 100_000), default=50),
            Option(
                "--verify N",
                "fresh seeds on which winners are played again (default: %(default)s)",
                type=number(int, 0, 100_000),
                default=3,
            ),
            jobs("one per core"),
            *PLAY,
        ),
        Command("show", "print the result of a finished folder again", "outcome:show", FOLDER, VERBOSE, JSON, OPEN),
        Command("report", "draw report.html from a folder of results", "outcome:report", FOLDER, JSON, OPEN, PAGES),
        Command(
            "compare",
            "draw a page that compares runs and sweeps",
            "outcome:compare",
            Option("folders DIR", "folders of runs and of sweeps, or folders that hold runs", nargs="+"),
            Option("--out FILE", "the page (default: %(default)s)", default="compare.html"),
            Option(
                "--reach VALUE",
                "say when models reach this RMSE (dB) or accuracy (%%)",
                type=number(float, 1e-6, 1e6),
            ),
            PAGES,
            JSON,
            OPEN,
        ),
        Command(
            "rerun",
            "repeat finished runs and compare every number (exit code 1: one differs)",
            "play:rerun",
            FOLDER,
            Option("--out DIR", "keep the repetition in this folder (default: it is not kept)"),
            Option("--only LABEL", "only the runs of this label, or in a folder of this name"),
            REPLACE,
            QUIET,
            JSON,
        ),
        Command(
            "export",
            "write the tracks of a run for maps elsewhere",
            "outcome:export",
            Option("folder DIR", "the folder of a run"),
            Option(
                "--format",
                "geojson: tracks, homes, base stations and inferred places; kepler: trips of kepler.gl; csv: a "
                "flat table of tracks (default: %(default)s)",
                choices=["geojson", "kepler", "csv"],
                default="geojson",
            ),
            Option("--out FILE", "the file to write (default: DIR/tracks.geojson, ...)"),
            Option(
                "--origin LAT,LON",
                "where the south-west corner of a generated town lies, written --origin=LAT,LON (default: 0,0)",
            ),
        ),
        Command(
            "new",
            "write a scenario file with comments, to begin with",
            "ask:new",
            Option("name NAME", "name of the scenario; the file is NAME.yaml"),
            Option("--from SCENARIO", "copy this scenario with its comments instead", dest="source"),
        ),
        Command(
            "validate",
            "check a scenario and the files it names, without running it",
            "ask:validate",
            SCENARIO,
            Option("--all", "prepare every run up to its first round"),
            SET,
        ),
        Command(
            "list",
            "list slots, parts and bundled scenarios, or what fits together",
            "ask:list_parts",
            Option(
                "slot NAME",
                "a slot, whose parts are shown with their parameters, or a kind of part of any slot (default: all "
                "slots)",
                nargs="?",
            ),
            Option("--matrix", "which combinations are legal, and why not"),
        ),
        Command(
            "inspect",
            "summarise a trace, or its mobility or that of a scenario",
            "ask:inspect",
            *TRACE,
            Option(
                "--mobility",
                "statistics of mobility instead: places, regularity, predictability; also of a scenario, whose "
                "movement is played without radio and learning",
            ),
            Option(
                "--cell-m M",
                "side of a place, m; 0: a place is a building, or a distinct position of a trace (default: 250)",
                type=number(float, 0, 1e6),
                default=250.0,
            ),
            Option(
                "--fill-h H",
                "hours for which a place is kept until the next row (default: 12)",
                type=number(float, 0, 1e4),
                default=12.0,
            ),
            Option("--seed N", "of a scenario: replace its seed", type=int),
            SET,
        ),
        Command(
            "claims",
            "test published claims against runs",
            "claims:main",
            Option(
                "--run [SCENARIO=]DIR",
                "decide by this folder of a run or a sweep (may be repeated)",
                action="append",
                default=[],
            ),
            Option("--paper WORD", "only publications with this word in their name", default=""),
            Option("--out DIR", "play the scenarios that are missing in DIR, decide, keep a table"),
            *engine(),
            Option(
                "--minutes M",
                "play only scenarios that together take one core M minutes, the cheapest first (with --out)",
                type=float,
            ),
            Option("--file FILE", "a file of claims of your own"),
            Option("--page FILE", "a page of the verdicts (default: claims.html in --out)"),
            QUIET,
            REPLACE,
            RECORDS,
            MEMORY,
            PAGES,
            JSON,
        ),
        Command(
            "import-policy",
            "convert a stable-baselines3 model (DDPG, TD3)",
            "play:import_policy",
            SCENARIO,
            Option("file FILE", "ZIP file of model.save(); only its weights are read"),
            Option("--out DIR", "new folder for the policy", required=True),
            CACHE,
            SET,
        ),
        Command(
            "epsilon",
            "convert between noise multiplier and epsilon",
            "ask:epsilon",
            Option("--noise-multiplier Z", "std of noise / sensitivity", type=number(float, 1e-300, 1e300), nargs="+"),
            Option(
                "--target-epsilon E", "find the smallest noise multiplier instead", type=number(float, 1e-300, 1e300)
            ),
            Option(
                "--rounds T",
                "rounds that are composed; or several numbers",
                type=number(int, 1, 1_000_000_000),
                nargs="+",
                required=True,
            ),
            Option(
                "--delta D", "delta at which epsilon is stated", type=number(float, 1e-300, 1 - 1e-16), required=True
            ),
            Option(
                "--sampling-rate Q",
                "probability of taking part, by a secret coin of each user (default: 1; not for silence by channel)",
                type=number(float, 1e-300, 1),
                default=1.0,
            ),
            Option(
                "--people N", "users in all: warns of a delta that is too large for them", type=number(int, 1, 10**12)
            ),
            Option(
                "--draws N",
                "noise draws of a round that a user is in, on one coin: models x phases (default: 1)",
                type=number(int, 1, 1_000_000),
                default=1,
            ),
        ),
        Command("schema", "print the JSON schema of scenario files, for editors", "ask:schema"),
    )
}


def parser() -> Parser:
    """All commands and their options."""
    top = Parser(
        prog="netsim",
        description="Measure how much location data federated learning leaks over a mobile network, and what defenses "
        "cost.",
        epilog="Exit codes: 0 done, 2 bad input, 1 unexpected failure, failed runs or a rerun that differs, 130 "
        "interrupted (repeat the command to resume).",
    )
    top.add_argument("--version", action="version", version=f"netsim {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for command in COMMANDS.values():
        one = commands.add_parser(command.name, help=command.help)
        for option in command.options:
            one.add_argument(option.name, **option.settings)
    return top


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns its exit code and never lets a traceback through."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        events.listen()
        _check_words(words)
        try:
            args = parser().parse_args(words)
            module, _, function = COMMANDS[args.command].main.partition(":")
            code = getattr(import_module(f"scenarios.app.cli.{module}"), function)(args)
        finally:  # also where the parser leaves, which has printed its help
            write("", sys.stdout, flush=True)
        return DONE if code is None else int(code)
    except Unwritable as error:
        complain(error.lines)
        return BAD_INPUT
    except BadInput as error:
        return _ended(error.lines, BAD_INPUT, words)
    except KeyboardInterrupt:
        return _interrupted(words)
    except RunsFailed as error:
        return _ended([str(error)], FAILED, words)
    except Exception as error:
        if events.interrupted():  # foreign code that was interrupted, and gave the interruption another name
            return _interrupted(words)
        text = " ".join(str(error).split())[:200]
        details = _details(error)
        return _ended([f"unexpected failure ({type(error).__name__}: {text}); {details}"], FAILED, words)


def _check_words(words: Sequence[str]) -> None:
    """Refuse words that are no text: results carry the command and its names, which could not be written down."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise BadInput(f"{word}: is not valid UTF-8; give the file or folder another name") from None


def _details(failure: Exception) -> str:
    """Where the details of a failure lie now."""
    try:
        import tempfile  # a failure needs these two, no command does; no file may be left to open for them either
        import traceback

        with tempfile.NamedTemporaryFile("w", prefix="netsim-", suffix=".log", delete=False) as log:
            log.writelines(traceback.format_exception(failure))
    except OSError as error:
        return f"its details cannot be written ({error.strerror})"
    return f"details in {log.name}"


def _interrupted(words: Sequence[str]) -> int:
    """Leave as one is asked to by a signal."""
    events.ignore_signals()
    return _ended(["interrupted; the same command goes on where it stopped"], INTERRUPTED, words)


def _ended(lines: Sequence[str], code: int, words: Sequence[str]) -> int:
    """Say why a command ended before it was done: with `--json` as its last event on stdout, else on stderr."""
    try:
        if "--json" in words:
            emit({"event": "error", "lines": list(lines), "exit_code": code})
        else:
            complain(lines)
    except Unwritable:
        complain(lines)
    return code


if __name__ == "__main__":
    sys.exit(main())
