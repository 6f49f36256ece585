"""Commands that play, such as `run_from_options`, `sweep_from_options`, `train`, `tune`, `rerun`
and `check_claims_from_options`.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Collection
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from netsim.errors import BadInput
from netsim.part import add_plugin_file, split_code_name
from netsim.safe import describe_file_kind
from netsim.workers import count_workers, use_workers
from scenarios.app.cli.options import (
    DONE,
    FAILED,
    choose_engine,
    choose_out,
    collect_overrides,
    emit,
    format_text_table,
    join_command_line,
    name_scenario,
    read_jobs_at_once,
    read_resources,
    read_scenario,
    say,
    say_fitted,
)
from scenarios.app.cli.outcome import open_page, print_outcome, show_progress
from scenarios.app.report.report import write_report, write_run_page
from scenarios.app.results.folder import PAGE, STUDY, SUMMARY, read_json, refuse_failures
from scenarios.app.results.read import list_finished_runs
from scenarios.app.results.statistics import format_figure, group_by_label
from scenarios.app.study import Fields, Value
from scenarios.app.study.load import Scenario, parse_value

if TYPE_CHECKING:
    from scenarios.app.claims.claim import Verdict
    from scenarios.app.results.read import Run
    from scenarios.app.run.executor import Engine

MAX_DIFFERENCES = 10  # of differences of a run that are printed


def play_study(scenario: Scenario, out: Path, args: Namespace, title: str) -> Run:
    """Run a study in the folder `out`; returns the run that is in that folder then."""
    from scenarios.app.result import run as run_study
    from scenarios.app.run.runner import build_run_job

    study = scenario.study
    views = getattr(args, "views", False)
    job = build_run_job(study, out, views=views)
    done = not args.replace and job.find_summary() is not None
    if done and not args.json:
        say(
            f"netsim: {out}: this run is finished, and this is its result; --replace "
            f"plays it again",
            errors=True,
        )
    workers = args.workers or count_workers(os.cpu_count() or 1)
    with show_progress(args, title) as tell, scenario.locate_errors(), use_workers(workers):
        run = run_study(
            study, out, tell, join_command_line(), args.replace, read_resources(args), views
        ).run
        if not done or not describe_file_kind(out / PAGE):
            write_run_page(run)
    return run


def run_from_options(args: Namespace) -> int:
    """Run, draw the page, print the result; 1 where canaries prove more than the ledger states."""
    name, scenario = read_scenario(args)
    out = choose_out(
        args,
        name,
        str(scenario.study.seed),
        changes={path: value for path, value in scenario.overrides.items() if path != "seed"},
    )
    played = play_study(scenario, out, args, name)
    print_outcome(out, args, name, played)
    open_page(out, args)
    if any(n for key, n in played.summary.items() if key.endswith(".violated")):
        return FAILED
    return DONE


def attack_from_options(args: Namespace) -> None:
    """Attack the views of a run, draw the page, print the result."""
    from scenarios.app.run.attacked import attack_run
    from scenarios.app.run.runner import build_run_job

    attacks = [_read_attack(text) for text in args.attacks]  # before a study is read
    folder = Path(args.folder)
    scenario = Scenario.from_source(folder / STUDY, {"learning.attacks": attacks})
    job = build_run_job(scenario.study, args.out, command=join_command_line(), replace=args.replace)
    with show_progress(args, folder.name) as tell, scenario.locate_errors():
        played = attack_run(folder, job, tell)
    write_run_page(played)
    print_outcome(job.folder, args, folder.name, played)
    open_page(job.folder, args)


def _read_attack(text: str) -> Value:
    """Return an attack as a scenario has it: of its kind, its settings, or a class of a file."""
    file, name = split_code_name(text)
    if file:
        return {"kind": add_plugin_file("attack", Path(file), name)}
    value = parse_value(text, "--attack")
    return {"kind": value} if isinstance(value, str) else value


def audit_from_options(args: Namespace) -> int:
    """Run without attacks, play neighbours, draw the page, print what moved most and the
    verdict.
    """
    from scenarios.app.results.shown import select_worst_audits
    from scenarios.app.run.audit import write_audit as play_neighbours

    unseen: Fields = {
        "learning.attacks": [],
        "learning.membership": None,
    }  # they change nothing that is sent
    canaries = {"learning.audit": {"canaries": args.canaries}} if args.canaries is not None else {}
    name, scenario = read_scenario(args, unseen | canaries)
    study = scenario.study
    if not any("spend" in defense.offers for defense in study.learned.defenses):
        raise BadInput(
            f"{args.scenario}: no defense draws noise that has an epsilon, so there is nothing to "
            "audit; give it one, say by --set learning.defenses=..."
        )
    out = choose_out(args, f"{name}-audit", changes=collect_overrides(args) | canaries)
    played = play_study(scenario, out, args, name)
    with show_progress(args, name) as tell, scenario.locate_errors():
        play_neighbours(study, played, args.ues, tell)
    write_run_page(played)
    worst = select_worst_audits(played.tables["audit"])
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
        say(format_text_table([*worst], rows, left=5))
        say(f"{name}: {verdict}; all rows in {out / 'audit.csv'}, page: {out / PAGE}")
    open_page(out, args)
    return FAILED if verdict == "violated" else DONE


def sweep_from_options(args: Namespace) -> None:
    """Play all points, draw the page that compares them, print their main figures."""
    engine = choose_engine(args)
    name, scenario = read_scenario(args)
    overrides = scenario.overrides
    vary = scenario.study.vary
    if "seed" in overrides and vary is not None and vary.seed:
        raise BadInput("--set seed: the scenario's vary.seed decides; set vary.seed=[...] instead")
    out = choose_out(
        args,
        f"{name}-adapt-{args.adapt}-sweep" if args.adapt else f"{name}-sweep",
        changes={**overrides, **({"for": args.aim} if args.aim else {})},
    )
    play_sweep(args, name, scenario, out, engine)


def play_sweep(
    args: Namespace,
    name: str,
    scenario: Scenario,
    out: Path,
    engine: Engine | None = None,
    only: Collection[str] = (),
) -> None:
    """Play the points of these labels (none: all), by --jobs, --replace, --adapt and --for, and
    print what was found.
    """
    from scenarios.app.run.executor import ON_PROCESSES
    from scenarios.app.run.sweep import Sweep

    jobs = read_jobs_at_once(args)
    resources = read_resources(args)
    with show_progress(args, name) as tell:
        sweep = Sweep(
            scenario,
            out,
            jobs,
            tell,
            args.replace,
            only,
            command=join_command_line(),
            engine=engine or ON_PROCESSES,
            resources=resources,
        )
        if getattr(args, "adapt", None):
            from scenarios.app.results.goals import parse_aims
            from scenarios.app.run.adapt import play_adapted_sweep

            play_adapted_sweep(args.adapt, sweep, parse_aims(args.aim or "homes"))
        elif getattr(args, "aim", None):
            raise BadInput("--for: says what attackers are tuned for; give --adapt N too")
        elif getattr(args, "gate", False):
            from scenarios.app.training.gate import play_gate

            play_gate(sweep, args.seeds)
        else:
            sweep.play()
    _report_results(args, out, name, bool(list_finished_runs(out)))


def train_from_options(args: Namespace) -> None:
    """Train, compare with the baselines, draw the page."""
    from scenarios.app.results.trainings import read_trainings
    from scenarios.app.training.train import train_agents as train_agents

    overrides = collect_overrides(args)
    seeds = args.seeds or ([1, 2, 3, 4, 5] if args.gate else [0])
    engine = choose_engine(args)
    jobs = read_jobs_at_once(args, usual=1)
    if args.on != "processes" and len(seeds) == 1:
        raise BadInput(f"--on {args.on}: plays trainings of several seeds; give them by --seed")
    if len(set(seeds)) < len(seeds):
        raise BadInput(f"--seed {' '.join(map(str, seeds))}: give different ones")
    scenario = Scenario.from_source(args.scenario)
    if "train" not in overrides and not scenario.document.data.get("train"):
        raise BadInput(
            f"{args.scenario}: has no `train:` section, so there is nothing to learn; "
            f"see power/paper"
        )
    if args.gate and args.steps is not None:
        raise BadInput("--gate: plays rules and trains nothing; leave --steps out")
    if args.steps is not None:
        overrides |= {"train.steps": args.steps}
    if args.quick:
        overrides = {"train.task.eval_worlds": 1, "train.task.held_out": 2} | overrides
    scenario = scenario.with_changes(overrides)
    name = name_scenario(args.scenario)
    if args.gate:
        out = choose_out(args, f"{name}-gate", changes=overrides)
        args.seeds = seeds
        play_sweep(args, name, scenario, out, engine)
        _print_gate(read_json(out / SUMMARY)["gate"], args.json)
        return
    of_seeds = {} if list(seeds) == [0] else {"seed": "+".join(map(str, seeds))}
    out = choose_out(args, "train", name, changes=overrides | of_seeds)
    shared = read_resources(args).split_memory_among(
        min(engine.count_jobs_sharing_memory(jobs), len(seeds))
    )
    with show_progress(args, name) as tell:
        train_agents(
            scenario.study, seeds, out, tell, args.cache, args.replace, engine, jobs, shared
        )
    _report_results(args, out, name, bool(read_trainings(out)))


def _print_gate(report: Fields, as_json: bool) -> None:
    """Print what an attacker finds under each policy, and the verdict."""
    if as_json:
        emit({"event": "gate", **report})
        return
    columns = [
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
    ]
    rows = [
        [
            policy[k] if k == "label" else "–" if policy[k] is None else format_figure(policy[k])
            for k in columns
        ]
        for policy in report.pop("policies")
    ]
    say(format_text_table(columns, rows))
    moves = "power moves what an attacker finds"
    if report["verdict"] != "moves":
        moves = "an agent learns the radio here, not protection"
    say_fitted(
        [
            f"{report['verdict']}: {moves} (best {report.get('best')}, worst "
            f"{report.get('worst')} of those compared)"
        ]
    )
    say_fitted([f"{key}: {format_figure(x)}" for key, x in report.items() if isinstance(x, float)])


def tune_from_options(args: Namespace) -> None:
    """Search, verify, draw the page, print the winner."""
    from scenarios.app.results.goals import parse_goals
    from scenarios.app.run.sweep import Sweep
    from scenarios.app.training.tune import Search
    from scenarios.app.training.tune import tune_settings as search

    objectives = parse_goals(args.objectives, args.directions, args.constraints)
    name, scenario = read_scenario(args)
    out = choose_out(args, f"{name}-tune", changes=scenario.overrides)
    jobs = read_jobs_at_once(args)
    with show_progress(args, name) as tell:
        sweep = Sweep(
            scenario,
            out,
            jobs,
            tell,
            args.replace,
            command=join_command_line(),
            resources=read_resources(args).split_memory_among(jobs),
        )
        search(Search(sweep, objectives, args.trials, args.verify))
    _report_results(args, out, name)


def _report_results(args: Namespace, out: Path, name: str, has_results: bool = True) -> None:
    """Draw the page of a folder, and say what it holds and what failed."""
    if has_results:
        write_report(out)
    print_outcome(out, args, name)
    if has_results:
        open_page(out, args)
    refuse_failures(out)


def import_policy_from_options(args: Namespace) -> None:
    """Read the weights, fit them to the scenario, write the policy."""
    from rl.policy import save_policy, save_shared
    from scenarios.app.training.sb3_model import import_allocation_policy, import_ue_policy

    out = Path(args.out)
    if describe_file_kind(out) and not (
        describe_file_kind(out) == "folder" and not any(out.iterdir())
    ):
        raise BadInput(f"--out {out}: something is there; give a new or an empty folder")
    study = read_scenario(args)[1].study
    if study.train is None:
        raise BadInput(
            f"{args.scenario}: has no `train:` section, so no policy is for it; see power/paper"
        )
    file = Path(args.file)
    statistics = None if args.normalisation is None else Path(args.normalisation)
    kind = "shared" if study.train.task.kind == "online" else "ddpg"
    if kind == "shared":
        save_shared(*import_ue_policy(study, file, statistics, args.passes), out)
    elif statistics is not None or args.passes != 1:
        raise BadInput(
            "import-policy: --normalisation and --passes are of models of a UE (task "
            "online); leave them out"
        )
    else:
        save_policy(import_allocation_policy(study, file, args.cache), out)
    if statistics is None:
        say(
            "observations are played as they are: give --normalisation for a model that "
            "was trained under VecNormalize"
        )
    say(f"{out}: play it with --set 'power={{kind: {kind}, policy: {out}}}'")


def rerun_from_options(args: Namespace) -> int:
    """Play again, compare, print; 1 where something differs."""
    from scenarios.app.rerun import rerun_folder as repeat
    from scenarios.app.run.how import create_scratch_folder

    if not args.folder or args.out == "":
        raise BadInput(
            "rerun: the name of a folder is empty; give the folder of a run, a sweep or a training"
        )
    kept = (
        create_scratch_folder("netsim-rerun-") if args.out is None else nullcontext(Path(args.out))
    )
    with kept as out, show_progress(args, "rerun") as tell:
        differences = repeat(Path(args.folder), out, args.only, tell, args.replace)
    if args.json:
        runs = [
            {"folder": str(path), "same": not lines, "differences": lines}
            for path, lines in differences.items()
        ]
        emit({"event": "result", "kind": "rerun", "folder": args.folder, "runs": runs})
    else:
        for path, lines in differences.items():
            say(f"{path}: {'differs' if lines else 'the same, byte by byte'}")
            rest = f"and {len(lines) - MAX_DIFFERENCES:,} more"
            say_fitted(lines if len(lines) <= MAX_DIFFERENCES else [*lines[:MAX_DIFFERENCES], rest])
    if any(differences.values()):
        return FAILED
    return DONE


def check_claims_from_options(args: Namespace) -> None:
    """List published claims with their verdicts: of runs that are played now, else of those that
    are kept.
    """
    from scenarios.app.claims.claim import (
        BUNDLED_CLAIMS,
        BUNDLED_VERDICTS,
        read_claims,
        select_claims,
    )
    from scenarios.app.claims.evaluate import (
        CLAIMS,
        assign_folders,
        evaluate_claims,
        merge_kept_verdicts,
        select_quick_claims,
        write_verdicts,
    )
    from scenarios.app.claims.evaluate import play_claims as play_scenarios
    from scenarios.app.claims.pages import build_papers_page, describe_counts, format_claims
    from scenarios.app.report.printed_figures import collect_figures, draw_figures
    from scenarios.app.report.report import refuse_foreign_page, write_page

    engine = choose_engine(args)
    jobs = read_jobs_at_once(args)
    resources = read_resources(args)
    if args.page == "":
        raise BadInput("--page: give the name of a file, such as papers.md")
    page = Path(args.page) if args.page else None
    source = Path(args.file or BUNDLED_CLAIMS)
    published = read_claims(source)
    claims = select_claims(published.claims, args.paper)
    kept = None if args.file or args.out else BUNDLED_VERDICTS
    if args.keep:
        kept = Path(args.keep)
    if args.minutes:
        known, _ = merge_kept_verdicts(kept or BUNDLED_VERDICTS, claims, [], writes=False)
        minutes = 0.9 * args.minutes * max(jobs, 1)  # the rest for starting
        claims = select_quick_claims(known, minutes)
    judged: list[Verdict] = []
    out = None if args.out is None else Path(args.out)
    all_places = assign_folders(out, published.claims) if out else {}
    places = {claim.scenario: all_places[claim.scenario] for claim in claims if out}
    if out:
        if page:
            refuse_foreign_page(page)  # before hours are played for it
        with show_progress(args, "claims") as tell:
            failures = play_scenarios(claims, places, jobs, tell, engine, resources, args.replace)
        judged = evaluate_claims(claims, places, failures)
        write_verdicts(out / CLAIMS, judged)
    verdicts, old = merge_kept_verdicts(kept, published.claims, judged, writes=out is not None)
    points = collect_figures(source, out, all_places) if page or out else ()
    if page:
        drawn = draw_figures(points, page.with_suffix(""))
        write_page(page, build_papers_page(verdicts, published.unplayed, drawn))
    verdicts = [verdict for verdict in verdicts if verdict.claim in claims]
    if args.json:
        rows_and_page = {"verdicts": [verdict.row for verdict in verdicts]} | (
            {"page": str(page)} if page else {}
        )
        emit({"event": "result", "kind": "verdicts"} | rows_and_page)
    else:
        by_paper = group_by_label((verdict.claim.paper, verdict) for verdict in verdicts)
        for paper, rows in by_paper.items():
            say("\n".join([f"{paper}:", *format_claims(rows), ""]))
        say_fitted([f"{paper}: {describe_counts(rows)}" for paper, rows in by_paper.items()])
        if old:
            say_fitted(
                [f"{kept}: left out, as their claims state something else now: {', '.join(old)}"]
            )
        say(f"page in {page}" if page else "")
    refuse_failures(*places.values())
