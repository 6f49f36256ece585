"""Sweeps: every point of a study's `vary` section, one run folder each, and one table of all of them."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping, Sequence
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

from netsim.errors import BadInput
from netsim.record import cell_text, guarded, write_json, write_text
from netsim.safe import what_is
from scenarios.app.results.failures import Failed
from scenarios.app.results.folder import STUDY, no_links, ours, read_json, remove_run
from scenarios.app.results.marker import check_files, held
from scenarios.app.results.read import RUNS, SWEEP
from scenarios.app.results.statistics import counted
from scenarios.app.run.check import check_prepared
from scenarios.app.run.events import Watch
from scenarios.app.run.executor import Engine, do_all
from scenarios.app.run.how import USUAL, How
from scenarios.app.run.play import run_job
from scenarios.app.run.points import SweepPoint, checked_points, points
from scenarios.app.run.processes import ON_PROCESSES
from scenarios.app.study.describe import flow
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import one_line


def sweep(
    source: str | Path,
    study: Study,
    out: Path,
    at_once: int,
    overrides: dict[str, Any],
    watch: Watch,
    replace: bool = False,
    only: Collection[str] = (),
    command: str = "netsim sweep",
    engine: Engine = ON_PROCESSES,
    how: How = USUAL,
    every: Sequence[tuple[SweepPoint, Study]] = (),
    says: Mapping[str, Any] = MappingProxyType({}),
) -> Path:
    """Run every point (`at_once` at a time), skipping those already there; returns the path of runs.csv.

    A run that fails stays open, and is listed in failures.csv; all others are played. replace : whether runs of other
    studies, inputs or versions may be played anew, and those removed that are no points of this scenario. only : labels
    to play and to list; none: all of them. All points are checked before the first one runs. A sweep that was
    interrupted, or in which runs failed, goes on when it is started again. command : as it was typed, for the page.
    engine : where runs are played; at_once 0: as many as it has room for. how : of each run, settings that change no
    result. every : checked points that are played in place of the scenario's; says : what sweep.json says besides.
    """
    how.check()
    every = every or checked_points(source, study, overrides, only)
    own = [point.folder for point in (points(study, overrides) if only else (point for point, _ in every))]
    jobs = [run_job(one, out / point.folder, point.label, "netsim sweep", replace) for point, one in every]

    def admit() -> None:
        admit_sweep(out, study, own, replace)
        for job in jobs:
            job.admit()

    admit()  # before files are read, and again under the lock
    todo = [one for one, job in zip(every, jobs, strict=True) if job.done() is None]
    shared = how.among(min(engine.here(at_once), len(todo)))
    check_prepared(source, todo, how=shared)
    if todo:
        engine.check()
    with held(out, "sweep", admit):
        for folder in others(out, own):
            remove_run(folder)
        if replace and todo:
            (out / RUNS).unlink(missing_ok=True)  # it lists runs that are replaced
        drawn = {"drawn": list(study.vary.drawn)} if study.vary and study.vary.drawn else {}
        write_json(out / SWEEP, {"kind": "sweep", "title": study.title, "command": command, **drawn, **says})
        found = do_all([job.played(how=shared) for job in jobs], engine, at_once, out, watch)
        summaries = {i: end for i, end in enumerate(found) if not isinstance(end, Failed)}
        write_runs(out, [point for point, _ in every], summaries)
    return out / RUNS


def admit_sweep(out: Path, study: Study, own: Sequence[str], replace: bool) -> None:
    """Refuse a folder that is not a sweep's, or, unless asked to replace it, the sweep of another study.

    own : folders of this sweep's runs; one that holds others is another sweep.
    """
    if not ours(out, "sweep", lambda of: bool(what_is(of / RUNS) or what_is(of / SWEEP))):
        return
    check_files(out, lambda name: name.endswith((".csv", ".json", ".html")))
    title = read_json(out / SWEEP).get("title", study.title) if what_is(out / SWEEP) else study.title
    if title != study.title and not replace:
        raise BadInput(
            one_line(f"{out}: holds the sweep of another study ({title}); add --replace, or give --out another folder")
        )
    found = others(out, own)
    no_links(out, [*own, *(str(folder.relative_to(out)) for folder in found)])
    if found and not replace:
        what = f"{counted(len(found), 'run')} that this sweep does not have, first {found[0].relative_to(out)}"
        raise BadInput(
            one_line(f"{out}: holds {what}; add --replace, which removes them, or give --out another folder")
        )


def others(out: Path, own: Sequence[str] = (), of: Sequence[str] = ("*",)) -> list[Path]:
    """Folders of runs in that of a sweep, or in those of the names `of`, which are not its own."""
    found = {study.parent for name in of for study in out.glob(f"{name}/seed-*/{STUDY}")}
    return sorted(found - {out / folder for folder in own})


def write_runs(out: Path, todo: Sequence[SweepPoint], summaries: dict[int, dict[str, Any]]) -> None:
    """runs.csv: folder, label, seed, curve and strength where there are curves, the varied values, every key.

    Runs that failed have no figures. It hangs on the points and their summaries alone, not on who ended first.
    """
    varied = list(dict.fromkeys(k for p in todo for k in p.overrides if k not in ("seed", "vary")))
    keys = list(dict.fromkeys(k for s in summaries.values() for k in s))
    curved = any(p.curve for p in todo)
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["folder", "label", "seed", *(["curve", "strength"] if curved else []), *varied, *keys])
    for i, point in enumerate(todo):
        values = [guarded(flow(point.overrides[k])) if k in point.overrides else "" for k in varied]
        figures = [cell_text(summaries.get(i, {}).get(k)) for k in keys]
        placed = [guarded(point.curve), cell_text(point.strength)] if curved else []
        writer.writerow([point.folder, guarded(point.label), point.seed, *placed, *values, *figures])
    write_text(out / RUNS, text.getvalue())
