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
from pathlib import Path
from typing import Any

from netsim.errors import BadInput, Interrupted
from scenarios.app.cli.output import complain, say
from scenarios.app.cli.parser import BAD_INPUT, DONE, FAILED, INTERRUPTED, parser
from scenarios.app.run import signals


def main(arguments: list[str] | None = None) -> int:
    """Run a command; returns its exit code and never lets a traceback through."""
    args = parser().parse_args(arguments)
    try:
        signals.listen()
        _COMMANDS[args.command](args)
        sys.stdout.flush()
    except BadInput as error:
        complain(error.lines)
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
    from scenarios.app.study.load import parse_value

    found: dict[str, Any] = {}
    for text in args.sets:
        path, equals, value = text.partition("=")
        if not equals or not path:
            raise BadInput(f"--set {text}: write PATH=VALUE, for example learning.round_s=3600")
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
    from netsim.channel_card import card_lines
    from scenarios.app.cli.progress import Meter
    from scenarios.app.results.folder import MANIFEST, read_json, read_table
    from scenarios.app.results.summary_text import headline
    from scenarios.app.run.runner import run
    from scenarios.app.study.load import Scenario
    from scenarios.app.study.yaml_document import one_line

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
    from scenarios.app.report.report import report
    from scenarios.app.study.load import load

    overrides = _overrides(args)
    name = Path(args.scenario).with_suffix("").name if Path(args.scenario).suffix else args.scenario
    seed = load(args.scenario, overrides).seed
    out = _out(args, Path("runs") / name / str(seed))
    _play(args.scenario, overrides, out, args, name)
    say(f"  records in {out}, page in {report(out)}")


def _replay(args: argparse.Namespace) -> None:
    from scenarios.app.cli.replay import replay_overrides, trace_lines
    from scenarios.app.report.report import report
    from scenarios.app.results.folder import PAGE, admit, admit_several
    from scenarios.app.study.dump import study_yaml
    from scenarios.app.study.load import load

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
    ways = {
        f"standardised-by-{way}": {**overrides, "learning.learner.standardise_by": way} for way in ("dataset", "public")
    }
    admit_several(out, [*ways, PAGE], "a replay")
    for name, way in ways.items():
        admit(out / name, study_yaml(load(args.scenario, way)), args.replace)
    for name, way in ways.items():
        _play(args.scenario, way, out / name, args, name.replace("-", " "))
        report(out / name)
    say(f"  records in {out}, page in {report(out)}")


def _sweep(args: argparse.Namespace) -> None:
    from scenarios.app.report.report import report
    from scenarios.app.run.sweep import Point, sweep
    from scenarios.app.study.load import load

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
    from scenarios.app.report.report import report
    from scenarios.app.report.training_page import train_lines
    from scenarios.app.study.load import load
    from scenarios.app.study.yaml_document import one_line
    from scenarios.app.training.train import Seen, train

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
    from scenarios.app.run.runner import check
    from scenarios.app.run.sweep import check_prepared, checked_points
    from scenarios.app.study.load import Scenario
    from scenarios.app.study.yaml_document import one_line

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
    from scenarios.app.study.describe import list_slot, list_slots, list_titles
    from scenarios.app.study.error_messages import nearest
    from scenarios.app.study.slots import SLOTS

    if args.matrix:
        from scenarios.app.study.compatibility import matrix_csv, matrix_text

        say(matrix_csv() if args.csv else matrix_text(shutil.get_terminal_size((110, 24)).columns))
    elif args.records:
        from scenarios.app.cli.records_page import records_page

        say(records_page(), end="")
    elif args.slot is None:
        from scenarios.app.study.load import bundled, title_of

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
    from scenarios.app.report.report import report
    from scenarios.app.results.tradeoff import exchange_lines

    say(f"page in {report(Path(args.folder))}")
    for line in exchange_lines(Path(args.folder)):
        say(f"  {line}")


def _claims(args: argparse.Namespace) -> None:
    from scenarios.app.claims.claim import affordable, bundled_claims, playing_minutes, read_claims
    from scenarios.app.claims.judge import admit_out, folders_of, judge_all
    from scenarios.app.claims.text import claims_text, judgements_text

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
    from scenarios.app.cli.epsilon import epsilon_text

    say(epsilon_text(args.noise_multiplier, args.target_epsilon, args.rounds, args.delta, args.q, args.draws))


def _schema(args: argparse.Namespace) -> None:
    import json

    from scenarios.app.study.describe import json_schema
    from scenarios.app.study.study import Study

    say(json.dumps(json_schema(Study), indent=1))


_COMMANDS = {
    "run": _run, "replay": _replay, "sweep": _sweep, "validate": _validate,
    "train": _train, "list": _list, "inspect": _inspect, "report": _report, "claims": _claims,
    "epsilon": _epsilon, "schema": _schema,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(main())
