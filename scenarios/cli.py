"""The command `netsim`. It imports what a command needs only when that command runs."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import shutil
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from netsim import __version__
from netsim.errors import BadInput, Interrupted
from scenarios import signals

DONE, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130


MOST_LINES, LONGEST = 50, 2000  # of complaints; a longer one loses its middle


def say(text: str, end: str = "\n", errors: bool = False) -> None:
    """Print lines; what files say is shown without the codes by which it could steer a terminal."""
    from scenarios.document import one_line

    lines = "\n".join(one_line(line) for line in text.split("\n"))
    print(lines, end=end, file=sys.stderr if errors else sys.stdout, flush=errors)


def _complain(lines: Sequence[str], who: str = "netsim") -> None:
    """Complaints, each on a line of a length that can be read: whole at both ends, where place and remedy stand."""
    for line in lines[:MOST_LINES]:
        cut = len(line) > LONGEST
        said = f"{line[: LONGEST - 300]} [... {len(line) - LONGEST:,} characters ...] {line[-300:]}" if cut else line
        say(" ".join(f"{who}: {said}".splitlines()), errors=True)
    if len(lines) > MOST_LINES:
        say(f"{who}: and {len(lines) - MOST_LINES:,} more", errors=True)


class _Parser(argparse.ArgumentParser):
    """Errors on one line, exit code 2."""

    def error(self, message: str) -> NoReturn:
        _complain([f"{message} (see {self.prog} --help)"], self.prog)
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


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns its exit code and never lets a traceback through."""
    args = parser().parse_args(arguments)
    try:
        signals.listen()
        _COMMANDS[args.command](args)
        sys.stdout.flush()
    except BadInput as error:
        _complain(error.lines)
        return BAD_INPUT
    except KeyboardInterrupt:
        signals.ignore()
        say("netsim: interrupted; the same command goes on where it stopped", errors=True)
        return INTERRUPTED
    except Interrupted as error:
        say(f"netsim: {error}", errors=True)
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except Exception as error:
        with tempfile.NamedTemporaryFile("w", prefix="netsim-", suffix=".log", delete=False) as log:
            log.write(traceback.format_exc())
        text = " ".join(str(error).split())[:200]
        say(f"netsim: unexpected failure ({type(error).__name__}: {text}); details in {log.name}", errors=True)
        return FAILED
    return DONE


def _overrides(args: argparse.Namespace) -> dict[str, Any]:
    from scenarios.study import parse_value

    found: dict[str, Any] = {}
    for text in args.sets:
        path, equals, value = text.partition("=")
        if not equals or not path:
            raise BadInput(f"--set {text}: write PATH=VALUE, for example learning.every_s=3600")
        found[path] = parse_value(value)
    if getattr(args, "seed", None) is not None:
        found["seed"] = args.seed
    return found


def _columns(text: str) -> dict[str, str]:
    pairs = [piece.partition("=") for piece in text.split(",") if piece.strip()]
    for name, equals, header in pairs:
        if not equals or not header.strip():
            raise BadInput(f"--columns {name}: write OURS=HEADER, for example time_s=timestamp")
    found = {name.strip(): header.strip() for name, _, header in pairs}
    if len(found) < len(pairs) or len(set(found.values())) < len(found):
        raise BadInput(f"--columns {text}: each of our names and each header may stand only once")
    return found


def _out(args: argparse.Namespace, default: Path) -> Path:
    """Where results go."""
    if args.out == "":
        raise BadInput("--out: give the name of a folder")
    return default if args.out is None else Path(args.out)


def _command_line() -> str:
    return shlex.join(["netsim", *sys.argv[1:]])


def _play(source: str, overrides: dict[str, Any], out: Path, args: argparse.Namespace, title: str) -> dict[str, Any]:
    """Load, run with progress, print what a person reads first."""
    from netsim.card import card_lines
    from scenarios.document import one_line
    from scenarios.folder import MANIFEST, read_json, read_table
    from scenarios.headline import headline
    from scenarios.progress import Meter
    from scenarios.runner import run
    from scenarios.study import Scenario

    scenario = Scenario(source)
    study = scenario.study(overrides)
    meter = Meter(title, args.quiet)
    try:
        with scenario.placed(overrides):
            summary = run(study, out, meter, _command_line(), args.replace)
    finally:
        meter.end()
    say(f"{title} (seed {study.seed}): {one_line(study.title)}")
    for warning in read_json(out / MANIFEST)["warnings"]:
        say(f"  warning: {warning}")
    for line in card_lines(read_json(out / MANIFEST)["channel_card"]):
        say(f"  {line}")
    for line in headline(summary, read_table(out, "privacy")):
        say(f"  {line}")
    return summary


def _run(args: argparse.Namespace) -> None:
    from scenarios.report import report
    from scenarios.study import load

    overrides = _overrides(args)
    name = Path(args.scenario).with_suffix("").name if Path(args.scenario).suffix else args.scenario
    seed = load(args.scenario, overrides).seed
    out = _out(args, Path("runs") / name / str(seed))
    _play(args.scenario, overrides, out, args, name)
    say(f"  records in {out}, page in {report(out)}")


def _replay(args: argparse.Namespace) -> None:
    from scenarios.folder import PAGE, admit, admit_several
    from scenarios.replay import replay_overrides, trace_lines
    from scenarios.report import report
    from scenarios.resolved import study_yaml
    from scenarios.study import load

    overrides = replay_overrides(
        args.trace,
        args.cell,
        args.users,
        args.round,
        args.timezone,
        _columns(args.columns),
        args.base_stations,
        args.format,
        args.crs,
    )
    overrides |= _overrides(args)
    for line in trace_lines(load(args.scenario, overrides)):
        say(f"  {line}")
    parts = [Path(args.trace).name.split(".")[0], args.cell, args.round]
    out = _out(args, Path("runs") / "replay" / "-".join(p for p in parts if p))
    ways = {f"features-{way}": {**overrides, "learning.learner.features": way} for way in ("dataset", "public")}
    admit_several(out, [*ways, PAGE], "a replay")
    for name, way in ways.items():
        admit(out / name, study_yaml(load(args.scenario, way)), args.replace)
    for name, way in ways.items():
        _play(args.scenario, way, out / name, args, name.replace("-", " "))
        report(out / name)
    say(f"  records in {out}, page in {report(out)}")


def _sweep(args: argparse.Namespace) -> None:
    from scenarios.report import report
    from scenarios.study import load
    from scenarios.sweep import Point, sweep

    if args.jobs < 1:
        raise BadInput(f"--jobs {args.jobs}: must be 1 or more")
    overrides = _overrides(args)
    study = load(args.scenario, overrides)
    name = Path(args.scenario).with_suffix("").name if Path(args.scenario).suffix else args.scenario
    out = _out(args, Path("runs") / f"{name}-sweep")
    if "seed" in overrides and study.vary is not None and study.vary.seed:
        raise BadInput("--set seed: the scenario's vary.seed decides; set vary.seed=[...] instead")

    def tell(done: int, of: int, point: Point, summary: dict[str, Any]) -> None:
        if not args.quiet:
            errors = [f"{k.split('.')[1]} {v:.0f} m" for k, v in summary.items() if _is_error(k) and v is not None]
            right = summary.get("utility.accuracy_percent")
            errors += [] if right is None else [f"accuracy {right:.1f} %"]
            say(f"{done}/{of} {point.label}, seed {point.seed}: {', '.join(errors)}", errors=True)

    table = sweep(args.scenario, study, out, args.jobs, overrides, tell, args.replace)
    say(f"  all runs in {table}, page in {report(out)}")


def _train(args: argparse.Namespace) -> None:
    from scenarios.document import one_line
    from scenarios.report import report
    from scenarios.study import load
    from scenarios.train import Seen, train
    from scenarios.train_page import train_lines

    overrides = _overrides(argparse.Namespace(sets=args.sets))
    if args.steps is not None:
        overrides["train.steps"] = args.steps
    if any(not 0 <= seed < 2**31 for seed in args.seed) or len(set(args.seed)) < len(args.seed):
        raise BadInput(f"--seed {' '.join(map(str, args.seed))}: give different whole numbers from 0 to {2**31 - 1}")
    study = load(args.scenario, overrides)
    if study.train is None:
        raise BadInput(f"{args.scenario}: has no `train:` section, so there is nothing to learn; see power/paper")
    if args.tensorboard is not None and importlib.util.find_spec("tensorboard") is None:
        raise BadInput("--tensorboard: tensorboard is not installed; pip install tensorboard, or leave it out")
    name = Path(args.scenario).with_suffix("").name if Path(args.scenario).suffix else args.scenario
    out = _out(args, Path("runs") / "train" / name)

    def tell(now: Seen) -> None:
        if not args.quiet:
            p = now.point
            say(f"{name}, seed {now.seed}: step {p.step}/{now.steps}, cost {p.score:.4g}", errors=True)

    cache = None if args.cache is None else Path(args.cache)
    train(study, args.seed, out, tell, cache, args.tensorboard, args.replace)
    say(f"{name}: {one_line(study.title)}")
    for line in train_lines(out):
        say(f"  {line}")
    say(f"  policy and figures in {out}, page in {report(out)}")


def _is_error(key: str) -> bool:
    return key.endswith(".centroid_error_m.median")


def _validate(args: argparse.Namespace) -> None:
    from scenarios.document import one_line
    from scenarios.runner import check
    from scenarios.study import Scenario
    from scenarios.sweep import check_prepared, checked_points

    overrides = _overrides(args)
    scenario = Scenario(args.scenario)
    study = scenario.study(overrides)
    points = checked_points(args.scenario, study, overrides) if study.vary is not None else []
    with scenario.placed(overrides):
        check(study, args.all)
    check_prepared(args.scenario, points, args.all)
    more = f"; a sweep of it has {len(points):,} runs" if len(points) > 1 else ""
    say(f"{args.scenario}: valid ({one_line(study.title)}){more}")


def _list(args: argparse.Namespace) -> None:
    from scenarios.listing import list_slot, list_slots, list_titles
    from scenarios.messages import nearest
    from scenarios.slots import SLOTS

    if args.matrix:
        from scenarios.matrix import matrix_csv, matrix_text

        say(matrix_csv() if args.csv else matrix_text(shutil.get_terminal_size((110, 24)).columns))
    elif args.records:
        from scenarios.records_page import records_page

        say(records_page(), end="")
    elif args.slot is None:
        from scenarios.study import bundled, title_of

        say(list_slots(SLOTS))
        say(f"\nbundled scenarios:\n{list_titles({name: title_of(path) for name, path in bundled().items()})}")
    elif args.slot in SLOTS:
        say(list_slot(args.slot, SLOTS[args.slot]))
    else:
        raise BadInput(f"list: no slot {args.slot!r}{nearest(args.slot, list(SLOTS))}; slots are: {', '.join(SLOTS)}")


def _inspect(args: argparse.Namespace) -> None:
    from netsim.traces.inspect import inspect_trace

    told = {"format": args.format, "crs": args.crs, "timezone": args.timezone}
    say(inspect_trace(args.trace, _columns(args.columns), **{k: v for k, v in told.items() if v}))


def _report(args: argparse.Namespace) -> None:
    from scenarios.exchange import exchange_lines
    from scenarios.report import report

    say(f"page in {report(Path(args.folder))}")
    for line in exchange_lines(Path(args.folder)):
        say(f"  {line}")


def _claims(args: argparse.Namespace) -> None:
    from scenarios.claims import (
        admit_out,
        affordable,
        bundled_claims,
        claims_text,
        folders_of,
        judge_all,
        judgements_text,
        playing_minutes,
        read_claims,
    )

    if args.jobs < 1:
        raise BadInput(f"--jobs {args.jobs}: must be 1 or more")
    if args.minutes is not None and not (args.minutes > 0 and args.out):
        raise BadInput(f"--minutes {args.minutes:g}: must be above 0, and needs --out DIR")
    file = Path(args.file) if args.file else bundled_claims()
    found = read_claims(file, args.paper)
    if args.minutes is not None:
        found = affordable(found, playing_minutes(file), args.minutes)
        if not found:
            raise BadInput(f"--minutes {args.minutes:g}: no scenario of these claims is known to take so little")
    if not args.run and args.out is None:
        say(claims_text(found))
        return

    def tell(text: str) -> None:
        if not args.quiet:
            say(text, errors=True)

    folders = folders_of(args.run, found)
    out = None if args.out is None else _out(args, Path())
    if out is not None:
        admit_out(out, read_claims(file))
    say(judgements_text(judge_all(found, folders, out, args.jobs, tell)))


def _epsilon(args: argparse.Namespace) -> None:
    from scenarios.epsilon import epsilon_text

    say(epsilon_text(args.noise_multiplier, args.target_epsilon, args.rounds, args.delta, args.q, args.draws))


def _schema(args: argparse.Namespace) -> None:
    import json

    from scenarios.listing import json_schema
    from scenarios.study import Study

    say(json.dumps(json_schema(Study), indent=1))


_COMMANDS = {
    "run": _run, "replay": _replay, "sweep": _sweep, "validate": _validate,
    "train": _train, "list": _list, "inspect": _inspect, "report": _report, "claims": _claims,
    "epsilon": _epsilon, "schema": _schema,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
