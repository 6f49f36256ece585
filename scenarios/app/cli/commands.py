"""The command `netsim`: all commands with their options. The function of a command is imported when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from netsim import __version__
from netsim.errors import BadInput, RunsFailed
from scenarios.app.cli.options import BAD_INPUT, DONE, FAILED, INTERRUPTED, Command, Option, Parser, number
from scenarios.app.cli.output import Unwritable, complain, emit, write
from scenarios.app.run import events
from scenarios.app.run.events import RETRIES

SCENARIO = Option("scenario", help="a scenario file, or the name of a bundled one (see netsim list)")
FOLDER = Option("folder", metavar="DIR", help="the folder of a run, a sweep, a replay or a training")
SET = Option(
    "--set", action="append", default=[], metavar="PATH=VALUE", dest="sets",
    help="replace a value of the scenario, e.g. learning.learner.labels=centred (may be repeated)",
)  # fmt: skip
OUT = Option("--out", metavar="DIR", help="folder for the results (default: runs/...)")
SEED = Option("--seed", type=int, metavar="N", help="replace the scenario's seed")
REPLACE = Option("--replace", action="store_true", help="replace runs of other studies or versions in DIR")
QUIET = Option("--quiet", action="store_true", help="no progress")
VERBOSE = Option("--verbose", action="store_true", help="print all results, not only the main ones")
RECORDS = Option(
    "--records", choices=["csv", "parquet"], default="csv",
    help="format of the record tables of finished runs; parquet needs pyarrow (default: %(default)s)",
)  # fmt: skip
MEMORY = Option(
    "--memory-gb", type=float, metavar="X",
    help="stop a run whose process holds more memory; runs at once on this machine share it equally "
    "(default: NETSIM_MEMORY_GB, else what is free here)",
)  # fmt: skip
JSON = Option("--json", action="store_true", help="progress and result as JSON, one object per line on stdout")
OPEN = Option("--open", action="store_true", help="show the page in a browser")
PAGES = Option("--pages", action="store_true", help="draw the page of every run too, and link to it")
CACHE = Option("--cache", metavar="DIR", help="where reference runs are kept (default: the user's cache)")
TRACE = (
    Option("trace", help="CSV with time_s,user,lat,lon and optional rsrp_dbm,cell; or PLT, GPX, SUMO FCD, ns-2, "
        "Cabspotting"),
    Option("--columns", default="", metavar="OURS=HEADER,...",
        help="names of the columns of a CSV: time_s=timestamp,lat=Latitude"),
    Option("--timezone", metavar="ZONE",
        help="IANA name for local midnight, and for times without a zone (default: by longitude)"),
    Option("--format", choices=["csv", "plt", "gpx", "sumo-fcd", "ns2", "cabspotting"],
        help="format of the trace (default: recognised)"),
    Option("--crs", metavar="CRS", help="coordinates: local, or EPSG:CODE (default: the format's)"),
)  # fmt: skip
PLAY = (OUT, SET, REPLACE, QUIET, RECORDS, MEMORY, JSON, OPEN)
"""options of every command that plays runs"""


def jobs(usual: str) -> Option:
    """--jobs; usual : the default, in words."""
    return Option("--jobs", type=number(int, 1, 100_000), metavar="N", help=f"runs at a time (default: {usual})")


def engine(usual: str = "one per core; of a cluster all it has") -> tuple[Option, ...]:
    """Options that say where many runs are played."""
    return (
        Option("--on", choices=["processes", "ray", "slurm"], default="processes",
            help="where runs are played: processes of this machine, a Ray cluster, jobs of Slurm (default: "
            "%(default)s)"),
        jobs(usual),
        Option("--retries", type=number(int, 0, 1000), default=RETRIES, metavar="N",
            help="further attempts at a run whose process is lost or that meets an error of files (default: "
            "%(default)s)"),
        Option("--address", metavar="auto|HOST:PORT",
            help="with --on ray: a running cluster (default: one on this machine while the command works)"),
        Option("--slurm", action="append", default=[], metavar="KEY=VALUE",
            help="with --on slurm: a parameter of submitit, as timeout_min=60, mem_gb=4, slurm_partition=short (may "
            "be repeated)"),
    )  # fmt: skip


COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command("run", "run a scenario (netsim run campus)", "run:main", SCENARIO, SEED, VERBOSE, *PLAY),
        Command(
            "replay", "train on a recorded trace and measure leakage", "replay:main", *TRACE,
            Option("--scenario", default="replay",
                help="scenario that says what is learnt and attacked (default: %(default)s)"),
            Option("--cell", help="cell to learn, or all (default: the busiest)"),
            Option("--users", choices=["auto", "all", "id", "day", "chain"], help="what a target is"),
            Option("--round", metavar="LENGTH",
                help="round length with its unit, s, m or min, h, d or w: 24h, 7d, 90min (default: the scenario's)"),
            Option("--area-deg", metavar="S,W,N,E", help="only rows in this box, in degrees"),
            Option("--area-m", metavar="X0,Y0,X1,Y1", help="the same, in metres of the file"),
            Option("--since", metavar="TIME", help="only rows from this time on: 2021-04-21, with --timezone"),
            Option("--until", metavar="TIME",
                help="only rows before this time; with a box and --since these are also the area and the days that "
                "are public, whatever the rows are"),
            Option("--base-stations", metavar="FILE", help="CSV with OpenCelliD's columns, for a trace without RSRP"),
            SEED, VERBOSE, *PLAY,
        ),
        Command(
            "sweep", "run every point of a scenario's `vary:` section", "sweep:main", SCENARIO,
            Option("--adapt", type=int, metavar="N",
                help="tune the attacker of each variant first: the best of N attacks on a seed that the sweep does "
                "not print"),
            *engine(), *PLAY,
        ),
        Command(
            "train", "train an agent on the `train:` section of a scenario", "train:main", SCENARIO,
            Option("--steps", type=int, metavar="N", help="replace the scenario's number of steps"),
            Option("--seed", type=int, nargs="+", default=[0], metavar="N", dest="seeds",
                help="of the training, not of the world; several: one training each (default: 0)"),
            CACHE,
            Option("--tensorboard", metavar="DIR", help="also write events for TensorBoard"),
            *engine("1: one seed after another, which share the rounds that they record"),
            OUT, SET, REPLACE, QUIET, MEMORY, JSON, OPEN,
        ),
        Command(
            "tune", "search the space of `vary.random` for a figure of the summary", "tune:main", SCENARIO,
            Option("--objective", action="append", required=True, metavar="KEY", dest="objectives",
                help="key of summary.json; several: trials that no other one beats"),
            Option("--direction", action="append", choices=["min", "max"], required=True, dest="directions",
                help="whether it should be small or large: once, or for each objective in order"),
            Option("--constraint", action="append", default=[], metavar="'KEY<=X'", dest="constraints",
                help="bound that the winner keeps, also KEY>=X (may be repeated)"),
            Option("--trials", type=number(int, 1, 100_000), default=50, metavar="N",
                help="trials in all (default: %(default)s)"),
            Option("--verify", type=number(int, 0, 100_000), default=3, metavar="N",
                help="fresh seeds on which winners are played again (default: %(default)s)"),
            jobs("one per core"), *PLAY,
        ),
        Command("show", "print the result of a finished folder again", "show:main", FOLDER, VERBOSE, JSON, OPEN),
        Command("report", "draw report.html from a folder of results", "report:main", FOLDER, JSON, OPEN, PAGES),
        Command(
            "compare", "draw a page that compares runs and sweeps", "compare:main",
            Option("folders", nargs="+", metavar="DIR",
                help="folders of runs and of sweeps, or folders that hold runs"),
            Option("--out", metavar="FILE", default="compare.html", help="the page (default: %(default)s)"),
            Option("--reach", metavar="VALUE", type=float,
                help="say when models reach this RMSE (dB) or accuracy (%%); default: what the worst run ends with, "
                "where uploads take their time"),
            PAGES, JSON, OPEN,
        ),
        Command(
            "rerun", "repeat finished runs and compare every number (exit code 1: one differs)", "rerun:main", FOLDER,
            Option("--out", metavar="DIR", help="keep the repetition in this folder (default: it is not kept)"),
            Option("--only", metavar="LABEL", help="only the runs of this label, or in a folder of this name"),
            REPLACE, QUIET, JSON,
        ),
        Command(
            "export", "write the tracks of a run for maps elsewhere", "export:main",
            Option("folder", metavar="DIR", help="the folder of a run"),
            Option("--format", choices=["geojson", "kepler", "csv"], default="geojson",
                help="geojson: tracks, homes, base stations and inferred places; kepler: trips of kepler.gl; csv: a "
                "flat table of tracks (default: %(default)s)"),
            Option("--out", metavar="FILE", help="the file to write (default: DIR/tracks.geojson, ...)"),
            Option("--origin", metavar="LAT,LON",
                help="where the south-west corner of a generated town lies, written --origin=LAT,LON (default: 0,0)"),
        ),
        Command(
            "new", "write a scenario file with comments, to begin with", "ask:new",
            Option("name", metavar="NAME", help="name of the scenario; the file is NAME.yaml"),
            Option("--from", dest="source", metavar="SCENARIO", help="copy this scenario with its comments instead"),
        ),
        Command(
            "validate", "check a scenario and the files it names, without running it", "ask:validate", SCENARIO,
            Option("--all", action="store_true", help="prepare every run up to its first round"), SET,
        ),
        Command(
            "list", "list slots, parts and bundled scenarios, or what fits together", "ask:list_parts",
            Option("slot", nargs="?", metavar="NAME",
                help="a slot, whose parts are shown with their parameters, or a kind of part of any slot (default: all "
                "slots)"),
            Option("--matrix", action="store_true", help="which combinations are legal, and why not"),
            Option("--records", action="store_true", help="every column and key of a run folder"),
            Option("--csv", action="store_true", help="with --matrix: every combination, one per line"),
        ),
        Command(
            "inspect", "summarise a trace, or its mobility or that of a scenario", "inspect:main", *TRACE,
            Option("--mobility", action="store_true",
                help="statistics of mobility instead: places, regularity, predictability; also of a scenario, whose "
                "movement is played without radio and learning"),
            Option("--cell-m", type=number(float, 0, 1e6), metavar="M",
                help="side of a place, m; 0: a place is a building, or a distinct position of a trace (default: 250)"),
            Option("--fill-h", type=number(float, 0, 1e4), metavar="H",
                help="hours for which a place is kept until the next row (default: 12)"),
            Option("--seed", type=int, metavar="N", help="of a scenario: replace its seed"), SET,
        ),
        Command(
            "claims", "test published claims against runs", "claims:main",
            Option("--run", action="append", default=[], metavar="[SCENARIO=]DIR",
                help="decide by this folder of a run or a sweep (may be repeated)"),
            Option("--paper", default="", metavar="WORD", help="only publications with this word in their name"),
            Option("--out", metavar="DIR", help="play the scenarios that are missing in DIR, decide, keep a table"),
            *engine(),
            Option("--minutes", type=float, metavar="M",
                help="play only scenarios that together take one core M minutes, the cheapest first (with --out)"),
            Option("--file", metavar="FILE", help="a file of claims of your own"),
            Option("--page", metavar="FILE", help="a page of the verdicts (default: claims.html in --out)"),
            QUIET, REPLACE, RECORDS, MEMORY, PAGES, JSON,
        ),
        Command(
            "import-policy", "convert a stable-baselines3 model (DDPG, TD3)", "import_policy:main", SCENARIO,
            Option("file", metavar="FILE", help="ZIP file of model.save(); only its weights are read"),
            Option("--out", metavar="DIR", required=True, help="new folder for the policy"), CACHE, SET,
        ),
        Command(
            "epsilon", "convert between noise multiplier and epsilon", "epsilon:main",
            Option("--noise-multiplier", type=number(float, 1e-300, 1e300), nargs="+", metavar="Z",
                help="std of noise / sensitivity"),
            Option("--target-epsilon", type=number(float, 1e-300, 1e300), metavar="E",
                help="find the smallest noise multiplier instead"),
            Option("--rounds", type=number(int, 1, 1_000_000_000), nargs="+", required=True, metavar="T",
                help="rounds that are composed; or several numbers"),
            Option("--delta", type=number(float, 1e-300, 1 - 1e-16), required=True, metavar="D",
                help="delta at which epsilon is stated"),
            Option("--sampling-rate", type=number(float, 1e-300, 1), default=1.0, metavar="Q",
                help="probability of taking part, by a secret coin of each user (default: 1; not for silence by "
                "channel)"),
            Option("--people", type=number(int, 1, 10**12), metavar="N",
                help="users in all: warns of a delta that is too large for them"),
            Option("--draws", type=number(int, 1, 1_000_000), default=1, metavar="N",
                help="noise draws of a round that a user is in, on one coin: models x phases (default: 1)"),
        ),
        Command("schema", "print the JSON schema of scenario files, for editors", "ask:schema"),
    )
}  # fmt: skip


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
            one.add_argument(*option.names, **option.settings)
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
        if events.told():  # foreign code that was interrupted, and gave the interruption another name
            return _interrupted(words)
        text, details = " ".join(str(error).split())[:200], _details(error)
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
