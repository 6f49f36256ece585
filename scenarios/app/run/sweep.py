"""Sweeps: every point of a study's `vary` section, one run folder each, and one table of all of them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from io import StringIO
from pathlib import Path
from types import MappingProxyType
from typing import Any

from netsim import __version__
from netsim.errors import BadInput
from netsim.record import cell_text, guarded, write_json, write_text
from netsim.safe import what_is
from scenarios.app.results.failures import Failed
from scenarios.app.results.folder import (
    MANIFEST,
    STUDY,
    SUMMARY,
    admit,
    is_text,
    no_links,
    ours,
    read_json,
    remove_run,
    settle,
    version_of,
)
from scenarios.app.results.marker import check_files, held
from scenarios.app.results.read import RUNS, SWEEP
from scenarios.app.results.statistics import counted
from scenarios.app.run.check import check_prepared
from scenarios.app.run.executors.executor import Engine
from scenarios.app.run.executors.processes import ON_PROCESSES
from scenarios.app.run.executors.several import play_all
from scenarios.app.run.executors.work import Work
from scenarios.app.run.how import USUAL, How
from scenarios.app.run.inputs import admit_inputs, input_digests, same_inputs
from scenarios.app.run.points import SweepPoint, checked_points, points
from scenarios.app.run.runner import run
from scenarios.app.study.describe import flow
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.error_messages import build
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import one_line, read_text

Tell = Callable[[int, int, SweepPoint, dict[str, Any] | Failed], None]
"""told of a run that ended: how many did, of how many, which it was, and its summary, or why it has none"""


def sweep(
    source: str | Path,
    study: Study,
    out: Path,
    jobs: int,
    overrides: dict[str, Any],
    tell: Tell,
    replace: bool = False,
    only: Collection[str] = (),
    command: str = "netsim sweep",
    engine: Engine = ON_PROCESSES,
    how: How = USUAL,
    every: Sequence[tuple[SweepPoint, Study]] = (),
    says: Mapping[str, Any] = MappingProxyType({}),
) -> Path:
    """Run every point (`jobs` at a time), skipping those already there; returns the path of runs.csv.

    A run that fails stays open, and is listed in failures.csv; all others are played. replace : whether runs of other
    studies, inputs or versions may be played anew, and those removed that are no points of this scenario. only : labels
    to play and to list; none: all of them. All points are checked before the first one runs. A sweep that was
    interrupted, or in which runs failed, goes on when it is started again. command : as it was typed, for the page.
    engine : where runs are played; jobs 0: as many at a time as it has room for. how : of each run, settings that
    change no result. every : checked points that are played in place of the scenario's; says : what sweep.json says
    besides.
    """
    how.check()
    every = every or checked_points(source, study, overrides, only)
    own = [point.folder for point in (points(study, overrides) if only else (point for point, _ in every))]

    def admitted() -> None:
        admit_sweep(out, study, own, replace)
        for point, one in every:
            admit_run(out / point.folder, one, replace)

    admitted()  # before files are read, and again under the lock
    todo = [(point, one) for point, one in every if finished(out / point.folder, one, replace) is None]
    shared = how.among(min(engine.here(jobs), len(todo)))
    check_prepared(source, todo, how=shared)
    if todo:
        engine.check()
    with held(out, "sweep", admitted):
        for folder in others(out, own):
            remove_run(folder)
        if replace and todo:
            (out / RUNS).unlink(missing_ok=True)  # it lists runs that are replaced
        drawn = {"drawn": list(study.vary.drawn)} if study.vary and study.vary.drawn else {}
        write_json(out / SWEEP, {"kind": "sweep", "title": study.title, "command": command, **drawn, **says})
        return _all(out, every, jobs, tell, replace, engine, shared)


def _all(
    out: Path,
    every: Sequence[tuple[SweepPoint, Study]],
    jobs: int,
    tell: Tell,
    replace: bool,
    engine: Engine,
    how: How,
) -> Path:
    """The runs that are not there yet, and the table of all."""
    todo = [point for point, _ in every]
    found: dict[int, dict[str, Any] | Failed] = {
        i: done for i, (point, one) in enumerate(every) if (done := finished(out / point.folder, one)) is not None
    }
    for i in found:
        settle(out / every[i][0].folder)
    open_ = [i for i in range(len(every)) if i not in found]

    def ended(k: int, end: dict[str, Any] | Failed) -> None:
        found[open_[k]] = end
        tell(len(found), len(todo), todo[open_[k]], end)

    play_all(_Works(out, [every[i] for i in open_], replace, how), engine, jobs, out, ended)
    write_runs(out, todo, {i: end for i, end in sorted(found.items()) if not isinstance(end, Failed)})
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


def admit_run(folder: Path, study: Study, replace: bool) -> None:
    """Refuse a folder that a run of this study may not have, or which read other content, unless it may be replaced."""
    admit(folder, study_yaml(study), replace)
    admit_inputs(folder, input_digests(study), replace)


class _Works(Sequence[Work]):
    """Runs as pieces of work, written out when they are asked for: a sweep may have very many.

    Studies go as text: they may be played where the scenario's file is not.
    """

    def __init__(self, out: Path, runs: Sequence[tuple[SweepPoint, Study]], replace: bool, how: How) -> None:
        self._out, self._runs, self._replace, self._how = out, runs, replace, how

    def __len__(self) -> int:
        return len(self._runs)

    def __getitem__(self, k: Any) -> Any:
        point, study = self._runs[k]
        return work_of(study, self._out / point.folder, point.label, "netsim sweep", self._replace, self._how)


def work_of(study: Study, folder: Path, label: str, command: str, replace: bool = False, how: How = USUAL) -> Work:
    """A run as a piece of work; command : what its manifest says that made it."""
    return Work(_one, (study_yaml(study), command, replace, how), folder, label, study.seed)


def _one(folder: Path, text: str, command: str, replace: bool, how: How) -> dict[str, Any]:
    """One run, in whichever process."""
    study = build(Study, read_text(text, str(folder / STUDY)))
    return run(study, folder, command=command, replace=replace, how=how).summary


def finished(folder: Path, study: Study, replace: bool = True) -> dict[str, Any] | None:
    """The summary of a finished run of exactly this study, inputs and version of netsim, or None.

    Raises BadInput for one of another version, unless it may be replaced: its figures are of another program.
    """
    try:
        same = is_text(folder / STUDY, study_yaml(study)) and same_inputs(folder, input_digests(study))
        manifest = read_json(folder / MANIFEST) if same else {}
        summary = read_json(folder / SUMMARY) if manifest.get("finished") else None
    except BadInput:
        return None
    if summary is None or (version := version_of(manifest)) == __version__:
        return summary
    if not replace:
        raise BadInput(
            f"{folder}: holds a finished run of netsim {version}, and this is {__version__}; go on with that version, "
            "or add --replace to play what it played anew"
        )
    return None


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
