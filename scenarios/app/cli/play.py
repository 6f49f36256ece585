"""The commands that play: `run`, `sweep`, `train`, `tune`, `rerun`, `claims`, and
`import-policy`.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection
from contextlib import nullcontext
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
from scenarios.app.report.report import draw_run, report
from scenarios.app.results.folder import PAGE, SUMMARY, read_json
from scenarios.app.results.read import finished
from scenarios.app.results.statistics import figure_text
from scenarios.app.study import Fields
from scenarios.app.study.load import AskedStudy, load

if TYPE_CHECKING:
    from scenarios.app.claims.claim import Verdict
    from scenarios.app.results.read import Run
    from scenarios.app.run.executor import Engine

MOST_LINES = 10  # of differences of a run that are printed


def play(asked: AskedStudy, out: Path, args: argparse.Namespace, title: str) -> Run:
    """Run a study in the folder `out`; returns the run that is in that folder then."""
    from scenarios.app.result import run as run_study
    from scenarios.app.run.runner import run_job

    study = asked.study
    done = not args.replace and run_job(study, out).done() is not None
    if done and not args.json:
        say(
            f"netsim: {out}: this run is finished, and this is its result; --replace "
            f"plays it again",
            errors=True,
        )
    with teller(args, title) as tell, asked.placed():
        found = run_study(study, out, tell, command_line(), args.replace, how_of(args)).run
        if not done or not what_is(out / PAGE):
            draw_run(found)
    return found


def run(args: argparse.Namespace) -> int:
    """Run, draw the page, print the result; 1 where canaries prove more than the ledger states."""
    overrides = overrides_of(args)
    name = name_of(args.scenario)
    asked = AskedStudy.of(args.scenario, overrides)
    out = out_of(
        args,
        name,
        str(asked.study.seed),
        changes={path: value for path, value in overrides.items() if path != "seed"},
    )
    found = play(asked, out, args, name)
    tell_outcome(out, args, name, found)
    open_page(out, args)
    if any(n for key, n in found.summary.items() if key.endswith(".violated")):
        return FAILED
    return DONE


def audit(args: argparse.Namespace) -> int:
    """Run without attacks, play neighbours, draw the page, print what moved most and the
    verdict.
    """
    from scenarios.app.results.shown import worst_audits
    from scenarios.app.run.audit import audit as play_neighbours

    unseen: Fields = {
        "learning.attacks": [],
        "learning.membership": None,
    }  # they change nothing that is sent
    canaries = {} if args.canaries is None else {"learning.audit": {"canaries": args.canaries}}
    overrides = overrides_of(args) | unseen | canaries
    name = name_of(args.scenario)
    asked = AskedStudy.of(args.scenario, overrides)
    study = asked.study
    if not any("spend" in defense.offers for defense in study.learned.defenses):
        raise BadInput(
            f"{args.scenario}: no defense draws noise that has an epsilon, so there is nothing to "
            "audit; give it one, say by --set learning.defenses=..."
        )
    out = out_of(args, f"{name}-audit", changes=overrides_of(args) | canaries)
    found = play(asked, out, args, name)
    with teller(args, name) as tell, asked.placed():
        play_neighbours(study, found, args.ues, tell)
    draw_run(found)
    worst = worst_audits(found.tables["audit"])
    verdict = "violated" if "violated" in worst["verdict"] else "nothing found"
    if args.json:
        emit(
            {
                "event": "result",
                "kind": "audit",
                "folder": str(out),
                "verdict": verdict,
                "rows": worst,
            }
        )
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
    out = out_of(
        args,
        f"{name}-adapt-{args.adapt}-sweep" if args.adapt else f"{name}-sweep",
        changes=overrides,
    )
    play_sweep(args, name, asked, out, engine)


def play_sweep(
    args: argparse.Namespace,
    name: str,
    asked: AskedStudy,
    out: Path,
    engine: Engine | None = None,
    only: Collection[str] = (),
) -> None:
    """Play the points of these labels (none: all), by --jobs, --replace and --adapt, and print what
    was found.
    """
    from scenarios.app.run.executor import ON_PROCESSES
    from scenarios.app.run.sweep import Sweep

    jobs = jobs_of(args)
    how = how_of(args)
    with teller(args, name) as tell:
        sweep = Sweep(
            asked,
            out,
            jobs,
            tell,
            args.replace,
            only,
            command=command_line(),
            engine=engine or ON_PROCESSES,
            how=how,
        )
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
        raise BadInput(
            f"{args.scenario}: has no `train:` section, so there is nothing to learn; "
            f"see power/paper"
        )
    if args.gate and args.steps is not None:
        raise BadInput("--gate: plays rules and trains nothing; leave --steps out")
    overrides |= {} if args.steps is None else {"train.steps": args.steps}
    asked = asked.changed(overrides)
    name = name_of(args.scenario)
    if args.gate:
        out = out_of(args, f"{name}-gate", changes=overrides)
        args.seeds = seeds
        play_sweep(args, name, asked, out, engine)
        _tell_gate(read_json(out / SUMMARY)["gate"], args.json)
        return
    if list(seeds) == [0]:
        of_seeds = {}
    else:
        of_seeds = {"seed": "+".join(map(str, seeds))}
    out = out_of(args, "train", name, changes=overrides | of_seeds)
    shared = how_of(args).among(min(engine.here(jobs), len(seeds)))
    with teller(args, name) as tell:
        train_agents(asked.study, seeds, out, tell, args.cache, args.replace, engine, jobs, shared)
    _finish(args, out, name, bool(trainings(out)))


def _tell_gate(said: Fields, as_json: bool) -> None:
    """Print what an attacker finds under each policy, and the verdict."""
    if as_json:
        emit({"event": "gate", **said})
        return
    columns = (
        "label",
        "compared",
        "noise",
        "lost",
        "leak",
        "count",
        "of",
        "share",
        "low",
        "high",
        "rmse_db",
        "t_th",
    )
    rows = [
        [of[k] if k == "label" else "–" if of[k] is None else figure_text(of[k]) for k in columns]
        for of in said.pop("policies")
    ]
    say(table(columns, rows))
    moves = "power moves what an attacker finds"
    if said["verdict"] != "moves":
        moves = "an agent learns the radio here, not protection"
    say_fitted(
        [
            f"{said['verdict']}: {moves} (best {said.get('best')}, worst "
            f"{said.get('worst')} of those compared)"
        ]
    )
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
            asked,
            out,
            jobs,
            tell,
            args.replace,
            command=command_line(),
            how=how_of(args).among(jobs),
        )
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
        raise BadInput(
            f"{args.scenario}: has no `train:` section, so no policy is for it; see power/paper"
        )
    file = Path(args.file)
    statistics = None if args.normalisation is None else Path(args.normalisation)
    kind = "shared" if study.train.task.kind == "online" else "ddpg"
    if kind == "shared":
        save_shared(*imported_for_ues(study, file, statistics, args.passes), out)
    elif statistics is not None or args.passes != 1:
        raise BadInput(
            "import-policy: --normalisation and --passes are of models of a UE (task "
            "online); leave them out"
        )
    else:
        save_policy(imported(study, file, args.cache), out)
    if statistics is None:
        say(
            "observations are played as they are: give --normalisation for a model that "
            "was trained under VecNormalize"
        )
    say(f"{out}: play it with --set 'power={{kind: {kind}, policy: {out}}}'")


def rerun(args: argparse.Namespace) -> int:
    """Play again, compare, print; 1 where something differs."""
    from scenarios.app.rerun import rerun as repeat
    from scenarios.app.run.how import scratch

    if not args.folder or args.out == "":
        raise BadInput(
            "rerun: the name of a folder is empty; give the folder of a run, a sweep or a training"
        )
    kept = scratch("netsim-rerun-") if args.out is None else nullcontext(Path(args.out))
    with kept as out, teller(args, "rerun") as tell:
        found = repeat(Path(args.folder), out, args.only, tell, args.replace)
    if args.json:
        runs = [
            {"folder": str(path), "same": not lines, "differences": lines}
            for path, lines in found.items()
        ]
        emit({"event": "result", "kind": "rerun", "folder": args.folder, "runs": runs})
    else:
        for path, lines in found.items():
            say(f"{path}: {'differs' if lines else 'the same, byte by byte'}")
            more = f"and {len(lines) - MOST_LINES:,} more"
            say_fitted(lines if len(lines) <= MOST_LINES else [*lines[:MOST_LINES], more])
    return FAILED if any(found.values()) else DONE


def claims(args: argparse.Namespace) -> None:
    """List published claims with their verdicts: of runs that are played now, else of those that
    are kept.
    """
    from scenarios.app.claims.claim import bundled_claims, bundled_verdicts, chosen, read_claims
    from scenarios.app.claims.evaluate import CLAIMS, evaluate_all, keep, places_in, write_verdicts
    from scenarios.app.claims.evaluate import play as play_scenarios
    from scenarios.app.claims.pages import claim_lines, counts, papers_page
    from scenarios.app.report.report import check_ours, written

    engine = engine_of(args)
    jobs = jobs_of(args)
    how = how_of(args)
    if args.page == "":
        raise BadInput("--page: give the name of a file, such as papers.md")
    page = Path(args.page) if args.page else None
    every = read_claims(Path(args.file) if args.file else bundled_claims())
    some = chosen(every.claims, args.paper)
    kept = None if args.file or args.out else bundled_verdicts()
    kept = Path(args.keep) if args.keep else kept
    places = dict[str, Path]()
    now: list[Verdict] = []
    if args.out is not None:
        all_places = places_in(Path(args.out), every.claims)
        places = {claim.scenario: all_places[claim.scenario] for claim in some}
        if page:
            check_ours(page)  # before hours are played for it
        with teller(args, "claims") as tell:
            why = play_scenarios(some, places, jobs, tell, engine, how, args.replace)
        now = evaluate_all(some, places, why)
        write_verdicts(Path(args.out) / CLAIMS, now)
    told, old = keep(kept, every.claims, now, writes=args.out is not None)
    if page:
        written(page, papers_page(told, every.unplayed))
    told = [one for one in told if one.claim in some]
    if args.json:
        where = {} if page is None else {"page": str(page)}
        emit(
            {"event": "result", "kind": "verdicts", "verdicts": [one.row for one in told], **where}
        )
    else:
        by_paper = {
            one.claim.paper: [of for of in told if of.claim.paper == one.claim.paper]
            for one in told
        }
        for paper, of in by_paper.items():
            say("\n".join([f"{paper}:", *claim_lines(of), ""]))
        say_fitted([f"{paper}: {counts(of)}" for paper, of in by_paper.items()])
        say(
            f"{kept}: rows of claims that state something else now are left out: {', '.join(old)}"
            if old
            else ""
        )
        say(f"page in {page}" if page else "")
    tell_failures(*places.values())
