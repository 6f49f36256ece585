"""Sweeps: every point of a study's `vary` section, one run folder each, and one table of all of them."""

from __future__ import annotations

import csv
import os
import signal
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from io import StringIO
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import Any

from netsim.errors import BadInput, Interrupted
from netsim.record import cell_text, guarded, write_json, write_text
from netsim.safe import PART, what_is
from scenarios.app.results.folder import MANIFEST, STUDY, SUMMARY, admit, is_text, no_links, ours, read_json
from scenarios.app.results.marker import check_files, held
from scenarios.app.results.read import RUNS, SWEEP
from scenarios.app.run.inputs import admit_inputs, input_digests, same_inputs
from scenarios.app.run.points import SweepPoint, checked_points, named
from scenarios.app.run.runner import check, run
from scenarios.app.run.signals import hearing, work_for_parent
from scenarios.app.study.describe import flow
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.load import Scenario, load
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import one_line


def check_prepared(source: str | Path, todo: Sequence[tuple[SweepPoint, Study]], every: bool = False) -> None:
    """Refuse what a run of one of the points would refuse before its first round: its files are read, its world built.

    Of a setting the first seed is looked at, and its movement is not played beforehand; `every`: each run, wholly.
    """
    scenario, seen = Scenario(source), set[str]()
    for point, study in todo:
        setting = point.folder if every else point.folder.rpartition("/")[0]
        if setting not in seen:
            seen.add(setting)
            with named(point), scenario.placed(point.overrides, point.origins):
                check(study, every)


def sweep(
    source: str | Path,
    study: Study,
    out: Path,
    jobs: int,
    overrides: dict[str, Any],
    tell: Callable[[int, int, SweepPoint, dict[str, Any]], None],
    replace: bool = False,
    only: Collection[str] = (),
    command: str = "netsim sweep",
) -> Path:
    """Run every point (`jobs` processes), skipping those already there; returns the path of runs.csv.

    only : labels to play and to list; none: all of them. All points are checked before the first one runs. An
    interrupted sweep goes on when it is started again. command : as it was typed, for the page.
    """
    every = checked_points(source, study, overrides, only)

    def admitted() -> None:
        _admit(out, study, replace)
        no_links(out, [point.folder for point, _ in every])
        for point, one in every:
            admit(out / point.folder, study_yaml(one), replace)
            admit_inputs(out / point.folder, input_digests(one), replace)

    admitted()  # before files are read, and again under the lock
    check_prepared(source, [(point, one) for point, one in every if finished(out / point.folder, one) is None])
    with held(out, "sweep", admitted):
        return _all(source, study, out, every, jobs, tell, replace, command)


def _all(
    source: str | Path,
    study: Study,
    out: Path,
    every: Sequence[tuple[SweepPoint, Study]],
    jobs: int,
    tell: Callable[[int, int, SweepPoint, dict[str, Any]], None],
    replace: bool,
    command: str,
) -> Path:
    """The runs that are not there yet, and the table of all."""
    todo = [point for point, _ in every]
    drawn = {"drawn": list(study.vary.drawn)} if study.vary and study.vary.drawn else {}
    write_json(out / SWEEP, {"kind": "sweep", "title": study.title, "command": command} | drawn)
    summaries: dict[int, dict[str, Any]] = {}
    open_: list[int] = []
    for i, (point, one) in enumerate(every):
        done = finished(out / point.folder, one)
        if done is None:
            open_.append(i)
        else:
            summaries[i] = done
    for i, summary in _play(source, out, todo, open_, jobs, replace):
        summaries[i] = summary
        tell(len(summaries), len(todo), todo[i], summary)
    write_runs(out, todo, summaries)
    return out / RUNS


def _admit(out: Path, study: Study, replace: bool) -> None:
    """Refuse a folder that is not a sweep's, or, unless asked to replace it, the sweep of another study."""
    if not ours(out, "sweep", lambda of: bool(what_is(of / RUNS) or what_is(of / SWEEP))):
        return
    check_files(out, lambda name: name.endswith((".csv", ".json", ".html", PART)))
    title = read_json(out / SWEEP).get("title", study.title) if what_is(out / SWEEP) else study.title
    if title != study.title and not replace:
        raise BadInput(
            one_line(f"{out}: holds the sweep of another study ({title}); add --replace, or give --out another folder")
        )


def _play(source: str | Path, out: Path, todo: list[SweepPoint], open_: list[int], jobs: int, replace: bool) -> Any:
    """Index and summary of each open point as it finishes."""
    if jobs <= 1 or len(open_) <= 1:
        for i in open_:
            yield i, _one(str(source), todo[i].overrides, str(out / todo[i].folder), replace)
        return
    pool = ProcessPoolExecutor(min(jobs, len(open_)), mp_context=get_context("spawn"), initializer=work_for_parent)
    try:
        futures: dict[Future[dict[str, Any]], int] = {
            pool.submit(_worked, str(source), todo[i].overrides, str(out / todo[i].folder), replace): i for i in open_
        }
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenProcessPool:
        what = "one of its processes was killed (was there too little memory for --jobs of this number?)"
        raise Interrupted(f"{out}: {what}; what is finished stays, the same command goes on") from None
    except KeyboardInterrupt:  # a signal to us alone must reach the runs, which keep a checkpoint
        for child in active_children():
            if child.pid is not None:
                os.kill(child.pid, signal.SIGINT)
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _worked(source: str, overrides: dict[str, Any], folder: str, replace: bool) -> dict[str, Any]:
    """One run in a worker, which hears signals only while it plays."""
    with hearing():
        return _one(source, overrides, folder, replace)


def _one(source: str, overrides: dict[str, Any], folder: str, replace: bool) -> dict[str, Any]:
    """One run, in whichever process."""
    return run(load(source, overrides), folder, command="netsim sweep", replace=replace).summary


def finished(folder: Path, study: Study) -> dict[str, Any] | None:
    """The summary of a finished run of exactly this study, or None."""
    try:
        same = is_text(folder / STUDY, study_yaml(study)) and same_inputs(folder, input_digests(study))
        if same and read_json(folder / MANIFEST).get("finished"):
            return read_json(folder / SUMMARY)
    except BadInput:
        pass
    return None


def write_runs(out: Path, todo: Sequence[SweepPoint], summaries: dict[int, dict[str, Any]]) -> None:
    """runs.csv: folder, label, seed, curve and strength where there are curves, the varied values, every key."""
    varied = list(dict.fromkeys(k for p in todo for k in p.overrides if k not in ("seed", "vary")))
    keys = list(dict.fromkeys(k for s in summaries.values() for k in s))
    curved = any(p.curve for p in todo)
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["folder", "label", "seed", *(["curve", "strength"] if curved else []), *varied, *keys])
    for i, point in enumerate(todo):
        values = [guarded(flow(point.overrides[k])) if k in point.overrides else "" for k in varied]
        figures = [cell_text(summaries[i].get(k)) for k in keys]
        placed = [guarded(point.curve), cell_text(point.strength)] if curved else []
        writer.writerow([point.folder, guarded(point.label), point.seed, *placed, *values, *figures])
    write_text(out / RUNS, text.getvalue())
