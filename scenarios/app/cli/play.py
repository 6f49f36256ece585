"""The commands that play: `run`, `sweep`, `train`, `tune`, `rerun`, `claims`, and `import-policy`."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.errors import BadInput
from netsim.safe import what_is
from scenarios.app.cli.options import (
    DONE,
    FAILED,
    command_line,
    emit,
    engine_of,
    how_of,
    jobs_of,
    name_of,
    out_of,
    overrides_of,
    say,
    say_fitted,
    table,
)
from scenarios.app.cli.outcome import open_page, tell_failures, tell_outcome, teller
from scenarios.app.report.report import report
from scenarios.app.results.folder import PAGE, SUMMARY, read_json, read_summary
from scenarios.app.results.read import finished
from scenarios.app.results.statistics import figure_text
from scenarios.app.study import Fields
from scenarios.app.study.load import AskedStudy, load

if TYPE_CHECKING:
    from scenarios.app.claims.claim import Verdict
    from scenarios.app.rerun import Repeated
    from scenarios.app.run.events import Event
    from scenarios.app.run.executor import Engine

MOST_LINES = 10  # of differences of a run that are printed


def play(asked: AskedStudy, out: Path, args: argparse.Namespace, title: str) -> None:
    """Run a study in the folder `out`; what it found is in that folder then."""
    from scenarios.app.run.runner import run as run_study
    from scenarios.app.run.runner import run_job

    study = asked.study
    done = not args.replace and run_job(study, out).done() is not None
    if done and not args.json:
        say(f"netsim: {out}: this run is finished, and this is its result; --replace plays it again", errors=True)
    with teller(args, title) as tell, asked.placed():
        run_study(study, out, tell, command_line(), args.replace, how_of(args))
        if not done or not what_is(out / PAGE):
            report(out)


def run(args: argparse.Namespace) -> int:
    """Run, draw the page, print the result; 1 where canaries prove more than the ledger states."""
    overrides = overrides_of(args)
    name = name_of(args.scenario)
    asked = AskedStudy.of(args.scenario, overrides)
    out = out_of(
        args, name, str(asked.study.seed), changes={path: value for path, value in overrides.items() if path != "seed"}
    )
    play(asked, out, args, name)
    tell_outcome(out, args, name)
    open_page(out, args)
    return FAILED if any(n for key, n in read_summary(out).items() if key.endswith(".violated")) else DONE


def audit(args: argparse.Namespace) -> int:
    """Run without attacks, play neighbours, draw the page, print what moved most and the verdict."""
    from scenarios.app.results.folder import read_table
    from scenarios.app.results.shown import worst_audits
    from scenarios.app.run.audit import audit as play_neighbours

    unseen: Fields = {"learning.attacks": [], "learning.membership": None}  # they change nothing that is sent
    canaries = {} if args.canaries is None else {"learning.audit": {"canaries": args.canaries}}
    overrides, name = overrides_of(args) | unseen | canaries, name_of(args.scenario)
    asked = AskedStudy.of(args.scenario, overrides)
    study = asked.study
    if not any("spend" in defense.offers for defense in study.learned.defenses):
        raise BadInput(
            f"{args.scenario}: no defense draws noise that has an epsilon, so there is nothing to audit; "
            "give it one, say by --set learning.defenses=..."
        )
    out = out_of(args, f"{name}-audit", changes=overrides_of(args) | canaries)
    play(asked, out, args, name)
    with teller(args, name) as tell, asked.placed():
        play_neighbours(study, out, args.ues, tell)
    report(out)
    worst = worst_audits(read_table(out, "audit"))
    verdict = "violated" if "violated" in worst["verdict"] else "nothing found"
    if args.json:
        emit({"event": "result", "kind": "audit", "folder": str(out), "verdict": verdict, "rows": worst})
    else:
        rows = [
            [f"{cell:.4g}" if isinstance(cell, float) else cell for cell in row]
            for row in zip(*worst.values(), strict=True)
        ]
        say(table([*worst], rows, left=5))
        say(f"{name}: {verdict}; all rows in {out / 'audit.csv'}, page: {out / PAGE}")
    open_page(out, args)
    return FAILED if verdict == "violated" else DONE


def sweep(args: argparse.Namespace) -> None:
    """Play all points, draw the page that compares them, print their main figures."""
    engine = engine_of(args)
    overrides = overrides_of(args)
    name = name_of(args.scenario)
    asked = AskedStudy.of(args.scenario, overrides)
    vary = asked.study.vary
    if "seed" in overrides and vary is not None and vary.seed:
        raise BadInput("--set seed: the scenario's vary.seed decides; set vary.seed=[...] instead")
    out = out_of(args, f"{name}-adapt-{args.adapt}-sweep" if args.adapt else f"{name}-sweep", changes=overrides)
    play_sweep(args, name, asked, out, engine)


def play_sweep(
    args: argparse.Namespace, name: str, asked: AskedStudy, out: Path, engine: Engine | None = None,
    only: Collection[str] = (),
) -> None:  # fmt: skip
    """Play the points of these labels (none: all), by --jobs, --replace and --adapt, and print what was found."""
    from scenarios.app.run.executor import ON_PROCESSES
    from scenarios.app.run.sweep import Sweep

    jobs = jobs_of(args)
    how = how_of(args)
    with teller(args, name) as tell:
        sweep = Sweep(
            asked, out, jobs, tell, args.replace, only,
            command=command_line(), engine=engine or ON_PROCESSES, how=how,
        )  # fmt: skip
        if getattr(args, "adapt", None):
            from scenarios.app.run.adapt import adapted_sweep

            adapted_sweep(args.adapt, sweep)
        elif getattr(args, "gate", False):
            from scenarios.app.training.gate import play_gate

            play_gate(sweep, args.seeds)
        else:
            sweep.play()
    _finish(args, out, name, bool(finished(out)))


def train(args: argparse.Namespace) -> None:
    """Train, compare with the baselines, draw the page."""
    from scenarios.app.results.trainings import trainings
    from scenarios.app.training.train import train as train_agents

    overrides = overrides_of(args)
    seeds = args.seeds or ([1, 2, 3, 4, 5] if args.gate else [0])
    engine = engine_of(args)
    jobs = jobs_of(args, usual=1)
    if args.on != "processes" and len(seeds) == 1:
        raise BadInput(f"--on {args.on}: plays trainings of several seeds; give them by --seed")
    if len(set(seeds)) < len(seeds):
        raise BadInput(f"--seed {' '.join(map(str, seeds))}: give different ones")
    asked = AskedStudy.of(args.scenario)
    if "train" not in overrides and not asked.document.data.get("train"):
        raise BadInput(f"{args.scenario}: has no `train:` section, so there is nothing to learn; see power/paper")
    if args.gate and (args.steps is not None or args.tensorboard is not None):
        raise BadInput("--gate: plays rules and trains nothing; leave --steps and --tensorboard out")
    overrides |= {} if args.steps is None else {"train.steps": args.steps}
    asked = asked.changed(overrides)
    name = name_of(args.scenario)
    if args.gate:
        out = out_of(args, f"{name}-gate", changes=overrides)
        args.seeds = seeds
        play_sweep(args, name, asked, out, engine)
        _tell_gate(read_json(out / SUMMARY)["gate"], args.json)
        return
    if args.tensorboard is not None and find_spec("tensorboard") is None:
        raise BadInput("--tensorboard: tensorboard is not installed; pip install tensorboard, or leave it out")
    if args.tensorboard is not None and len(seeds) > 1 and (jobs != 1 or args.on != "processes"):
        raise BadInput("--tensorboard: shows one training after another; leave out --jobs and --on")
    of_seeds = {} if list(seeds) == [0] else {"seed": "+".join(map(str, seeds))}
    out = out_of(args, "train", name, changes=overrides | of_seeds)
    shared = how_of(args).among(min(engine.here(jobs), len(seeds)))
    with teller(args, name) as tell:
        train_agents(asked.study, seeds, out, tell, args.cache, args.tensorboard, args.replace, engine, jobs, shared)
    _finish(args, out, name, bool(trainings(out)))


def _tell_gate(said: Fields, as_json: bool) -> None:
    """Print what an attacker finds under each policy, and the verdict."""
    if as_json:
        emit({"event": "gate", **said})
        return
    columns = ("label", "compared", "noise", "lost", "leak", "count", "of", "share", "low", "high", "rmse_db", "t_th")
    rows = [
        [of[k] if k == "label" else "–" if of[k] is None else figure_text(of[k]) for k in columns]
        for of in said.pop("policies")
    ]  # fmt: skip
    say(table(columns, rows))
    moves = "power moves what an attacker finds"
    if said["verdict"] != "moves":
        moves = "an agent learns the radio here, not protection"
    say_fitted([f"{said['verdict']}: {moves} (best {said.get('best')}, worst {said.get('worst')} of those compared)"])
    say_fitted([f"{key}: {figure_text(x)}" for key, x in said.items() if isinstance(x, float)])


def tune(args: argparse.Namespace) -> None:
    """Search, verify, draw the page, print the winner."""
    from scenarios.app.results.goals import goals
    from scenarios.app.run.sweep import Sweep
    from scenarios.app.training.tune import Search
    from scenarios.app.training.tune import tune as search

    overrides = overrides_of(args)
    name = name_of(args.scenario)
    of = goals(args.objectives, args.directions, args.constraints)
    asked = AskedStudy.of(args.scenario, overrides)
    out = out_of(args, f"{name}-tune", changes=overrides)
    jobs = jobs_of(args)
    with teller(args, name) as tell:
        sweep = Sweep(
            asked, out, jobs, tell, args.replace, command=command_line(), how=how_of(args).among(jobs)
        )  # fmt: skip
        search(Search(sweep, of, args.trials, args.verify))
    _finish(args, out, name)


def _finish(args: argparse.Namespace, out: Path, name: str, has_results: bool = True) -> None:
    """Draw the page of a folder, and say what it holds and what failed."""
    if has_results:
        report(out)
    tell_outcome(out, args, name)
    if has_results:
        open_page(out, args)
    tell_failures(out)


def import_policy(args: argparse.Namespace) -> None:
    """Read the weights, fit them to the scenario, write the policy."""
    from rl.policy import save_policy, save_shared
    from scenarios.app.training.sb3_model import imported, imported_for_ues

    out = Path(args.out)
    if what_is(out) and not (what_is(out) == "folder" and not any(out.iterdir())):
        raise BadInput(f"--out {out}: something is there; give a new or an empty folder")
    study = load(args.scenario, overrides_of(args))
    if study.train is None:
        raise BadInput(f"{args.scenario}: has no `train:` section, so no policy is for it; see power/paper")
    file = Path(args.file)
    statistics = None if args.normalisation is None else Path(args.normalisation)
    kind = "shared" if study.train.task.kind == "online" else "ddpg"
    if kind == "shared":
        save_shared(*imported_for_ues(study, file, statistics, args.passes), out)
    elif statistics is not None or args.passes != 1:
        raise BadInput(
            "import-policy: --normalisation and --passes are of models of a UE (task online); leave them out"
        )
    else:
        save_policy(imported(study, file, args.cache), out)
    if statistics is None:
        say("observations are played as they are: give --normalisation for a model that was trained under VecNormalize")
    say(f"{out}: play it with --set 'power={{kind: {kind}, policy: {out}}}'")


def rerun(args: argparse.Namespace) -> int:
    """Repeat, compare, print; 1 where something differs."""
    from scenarios.app.rerun import rerun as repeat
    from scenarios.app.run.how import scratch

    if not args.folder or args.out == "":
        raise BadInput("rerun: the name of a folder is empty; give the folder of a run, a sweep or a training")

    def watch(event: Event) -> None:
        if not args.quiet and not args.json:
            label = event.values["label"]
            say(f"netsim: repeating {event.done} of {event.of}{f': {label}' if label else ''}", errors=True)

    with scratch("netsim-rerun-") if args.out is None else nullcontext() as place:
        out = Path(args.out) if place is None else place / "again"
        repeated, skipped = repeat(Path(args.folder), out, args.only, watch, args.replace)
    if args.json:
        runs = [
            {
                "label": one.label, "folder": str(one.folder), "same": not one.differences, "note": one.note,
                "differences": [
                    {"file": d.file, "what": d.what, "how": d.how, "relative": d.size} for d in one.differences
                ],
            }
            for one in repeated
        ]  # fmt: skip
        emit({"event": "result", "kind": "rerun", "folder": args.folder, "runs": runs, "skipped": skipped})
    else:
        lines = [line for one in repeated for line in _lines(one)]
        say("\n".join([*lines, *(f"not repeated: {text}" for text in skipped)]))
    return FAILED if any(one.differences for one in repeated) else DONE


def _lines(one: Repeated) -> list[str]:
    name = f"{one.folder}{f' ({one.label})' if one.label else ''}"
    first, *others = [difference.text() for difference in one.differences] or [""]
    lines = [f"{name}: differs, first in {first}" if first else f"{name}: the same, byte by byte"]
    lines += [f"  {text}" for text in others[: MOST_LINES - 1]]
    if len(others) >= MOST_LINES:
        lines.append(f"  and {len(others) - MOST_LINES + 1:,} more")
    return [*lines, f"  note: {one.note}"] if one.note else lines


def _listed_claims(some: Sequence[Verdict], as_json: bool) -> None:
    """Print what is claimed, a table a publication with the verdicts that are kept, and how many there are of each."""
    from scenarios.app.report.papers_page import claim_lines, counts

    claims = [one.claim for one in some]
    if as_json:
        told = [c.model_dump(mode="json", exclude={"rule"}) | {"key": c.rule.key, "rule": c.rule.words} for c in claims]
        emit({"event": "result", "kind": "claims", "claims": told})
        return
    papers = dict.fromkeys(c.paper for c in claims)
    of_paper = {paper: [one for one in some if one.claim.paper == paper] for paper in papers}
    for paper, of in of_paper.items():
        say("\n".join([f"{paper}:", *claim_lines(of), ""]))
    say_fitted([f"{paper}: {counts(of)}" for paper, of in of_paper.items()])
    say("(all verdicts with figures: netsim claims --page papers.md; played anew: netsim claims --out DIR)")


def claims(args: argparse.Namespace) -> None:
    """List published claims, or test them against runs."""
    from scenarios.app.claims.claim import OPEN, Verdict, bundled_claims, bundled_verdicts, chosen, read_claims
    from scenarios.app.claims.evaluate import (
        CLAIMS,
        CLAIMS_PAGE,
        evaluate_all,
        folders_of,
        keep,
        places_in,
        play,
        write_verdicts,
    )
    from scenarios.app.report.papers_page import papers_page
    from scenarios.app.report.report import check_ours, claims_report, written

    engine = engine_of(args)
    jobs = jobs_of(args)
    how = how_of(args)
    kept = args.keep
    if args.page and not (args.run or args.out or args.keep or args.file):
        kept = bundled_verdicts()
    if args.page is not None and not (args.page and (args.run or args.out or kept)):
        raise BadInput("--page: give the name of a file, and what to decide by: --out DIR, --run DIR or --keep FILE")
    if args.minutes is not None and not (args.minutes > 0 and args.out):
        raise BadInput(f"--minutes {args.minutes:g}: must be above 0, and needs --out DIR")
    file = Path(args.file) if args.file else bundled_claims()
    every = read_claims(file)
    some = chosen(every, args.paper, inf if args.minutes is None else args.minutes)
    if not (args.run or args.out or kept):
        bundled = None if args.file else bundled_verdicts()
        listed = [Verdict(claim, OPEN) for claim in some] if bundled is None else keep(bundled, some, [], False)[0]
        _listed_claims(listed, args.json)
        return
    folders = folders_of(args.run, some)
    places = dict[str, Path]()
    why = dict[str, str]()
    page = Path(args.page) if args.page else None
    if args.out is not None:
        out = Path(args.out)
        missing = [c for c in some if c.scenario not in folders]
        all_places = places_in(out, every.claims)
        places = {c.scenario: all_places[c.scenario] for c in missing}
        page = page or out / CLAIMS_PAGE
        check_ours(page)  # before hours are played for it
        with teller(args, "claims") as tell:
            why = play(missing, places, jobs, tell, engine, how, args.replace)
    verdicts = evaluate_all(some, places | folders, why)
    if args.out is not None:
        write_verdicts(out / CLAIMS, verdicts)
    told = verdicts
    old = list[str]()
    if kept is not None:
        told, old = keep(Path(kept), every.claims, verdicts, bool(args.run or args.out))
        verdicts = [one for one in told if one.claim in some]
    if page is not None and page.suffix == ".md":
        written(page, papers_page(told, every.unplayed))
    elif page is not None:
        claims_report(verdicts, places | folders, page, command_line(), args.pages)
    if args.json:
        where = {} if page is None else {"page": str(page)}
        emit({"event": "result", "kind": "verdicts", "verdicts": [one.row for one in verdicts], **where})
    else:
        rows = [[*(v.row[k] for k in ("id", "where", "says")), v.claim.printed, v.ours, v.text] for v in verdicts]
        say(table(("id", "where", "says", "published", "ours, median [quartiles]", "verdict"), rows, left=6))
        say(f"{kept}: rows of claims that state something else now are left out: {', '.join(old)}" if old else "")
        say(f"page in {page}" if page else "")
    tell_failures(*places.values())
