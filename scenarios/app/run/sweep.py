"""Sweeps: the points of a study's `vary` section, one run folder each, and one table of all of
them.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from math import exp, floor, log, prod
from pathlib import Path
from types import MappingProxyType

import numpy as np

from netsim.errors import BadInput, counted
from netsim.notice import Notice
from netsim.record import write_json, write_text
from netsim.rng import Rng, Streams
from scenarios.app.results.folder import (
    RUNS,
    STUDY,
    SWEEP,
    Failed,
    check_files,
    csv_text,
    held,
    no_links,
    ours,
    remove_run,
)
from scenarios.app.run.events import Watch
from scenarios.app.run.executor import ON_PROCESSES, Engine, do_all
from scenarios.app.run.how import USUAL, How
from scenarios.app.run.job import Job
from scenarios.app.run.setup import check
from scenarios.app.study import Fields, Record, Value
from scenarios.app.study.describe import flow
from scenarios.app.study.load import AskedStudy
from scenarios.app.study.study import Distribution, Study, Variant
from scenarios.app.study.yaml_document import Place, dotted, place_of

MOST_RUNS = 100_000
_LONGEST_NAME = 200  # bytes; file systems take 255
_AS_WRITTEN = Variant.model_construct(label="")


@dataclass(frozen=True)
class SweepPoint:
    """One run of a sweep: its label, seed, folder name and what it changes in the scenario.

    curve : the line that it belongs to where privacy is set against utility; empty for none.
    strength : where on it. origins : where in the file a change stands, for those of the section
    `vary`.
    """

    label: str
    seed: int
    folder: str
    overrides: Fields
    curve: str = ""
    strength: float | None = None
    origins: dict[str, Place] = field(default_factory=dict)


@dataclass(frozen=True)
class _Choice:
    """Values of some keys that go together, and what labels call them.

    section, item : each key stands at (*section, key, *item) in the file; no section: it is not in
    the file.
    """

    values: Fields
    label: str = ""
    section: Place = ()
    item: Place = ()


def points(study: Study, overrides: Record) -> list[SweepPoint]:
    """All combinations of variants, rows of `zip`, value lists, random points and seeds, in that
    order.
    """
    vary = study.vary
    if vary is None:
        raise BadInput(
            "this scenario has nothing to vary; give it a `vary:` section, or use netsim run"
        )
    variants = vary.variants or (_AS_WRITTEN,)
    varied = [
        *vary.values,
        *vary.zip,
        *vary.drawn,
        *(key for variant in variants for key in variant.set),
    ]
    if of_training := [key for key in varied if key.startswith("train.")]:
        raise BadInput(
            f"vary: {of_training[0]}: changes a training and no run; leave it out, or search it "
            "by netsim tune with --objective cost.best"
        )
    axes = [_listed("zip", vary.zip, vary.together)]
    for key, values in vary.values.items():
        axes.append(_listed("values", {key: values}, len(values)))
    if vary.random is not None:
        draws = vary.random.draws
        rng = Streams(study.seed).at("vary")
        columns = {key: drawn(rng, key, one, draws) for key, one in vary.drawn.items()}
        section = ("vary", "random", "space")
        axes.append([_Choice(_row(columns, i), f"draw {i + 1}", section) for i in range(draws)])
    section_of_seeds = ("vary",) if vary.seed else ()
    axes.append(
        [_Choice({"seed": seed}, section=section_of_seeds) for seed in vary.seed or (study.seed,)]
    )
    runs = len(variants) * prod(map(len, axes))
    if runs > MOST_RUNS:
        raise BadInput(
            f"vary: {runs:,} combinations, at most {MOST_RUNS:,} are possible; take "
            f"fewer values or seeds"
        )
    planned = []
    for i, variant in enumerate(variants):
        first = _Choice(variant.set, variant.label, ("vary", "variants", i, "set"))
        planned += [_point(variant, [first, *chosen], overrides) for chosen in product(*axes)]
    folders = Counter(point.folder for point in planned)
    for point in planned:
        if folders[point.folder] > 1:
            what = "rename a variant, or leave a repeated value out"
            raise BadInput(
                f"vary: the label {point.label!r} is not unique as a folder name; {what}"
            )
    return planned


def _row(columns: Mapping[str, Sequence[Value]], i: int) -> Fields:
    return {key: column[i] for key, column in columns.items()}


def _listed(section: str, columns: Mapping[str, Sequence[Value]], n: int) -> list[_Choice]:
    choices = []
    for i in range(n):
        row = _row(columns, i)
        parts = [
            f"{dotted(place_of(key)).rsplit('.', 1)[-1]}={flow(value)}"
            for key, value in row.items()
        ]
        choices.append(_Choice(row, ", ".join(parts), ("vary", section), (i,)))
    return choices


def _point(variant: Variant, chosen: Sequence[_Choice], overrides: Record) -> SweepPoint:
    changed = dict(overrides)
    origins = dict[str, Place]()
    for choice in chosen:
        changed |= choice.values
        if choice.section:
            origins |= {key: (*choice.section, key, *choice.item) for key in choice.values}
    labels = [choice.label for choice in chosen if choice.label]
    label = ", ".join(labels) or "as written"
    if variant.mechanism:
        curve = ", ".join([variant.mechanism, *labels[1:]])
    else:
        curve = ""
    seed = changed["seed"]
    changed["vary"] = None
    return SweepPoint(
        label, seed, f"{folder_name(label)}/seed-{seed}", changed, curve, variant.strength, origins
    )


def drawn(rng: Rng, key: str, of: Distribution, n: int) -> list[Value]:
    """`n` independent values of a key; value i depends on the seed, the key and i alone."""
    return [at(of, u) for u in rng.uniform(key, np.arange(n))]


def at(of: Distribution, u: float) -> Value:
    r"""The value at the quantile u, 0 < u < 1, of a distribution.

    A range: low + u (high - low), or with `log` low (high / low)^u; of integers the floor of the
    same up to high + 1. Numbers that are not integers keep six significant digits, so that they can
    be copied, and stay within the range.
    """
    if of.choices is not None:
        return of.choices[floor(u * len(of.choices))]
    low = of.low or 0.0
    high = of.high or 0.0
    end = high + 1.0 if of.integer else high
    if of.log:
        value = low * exp(u * log(end / low))
    else:
        value = low + u * (end - low)
    if of.integer:
        return int(min(max(floor(value), low), high))
    return rounded(value, low, high)


def rounded(value: float, low: float, high: float) -> float:
    """Six significant digits, within the range."""
    return min(max(float(f"{value:.6g}"), low), high)


def checked_points(asked: AskedStudy, only: Collection[str] = ()) -> list[tuple[SweepPoint, Study]]:
    """The points and their studies; a mistake names its point. Of a setting, seeds change nothing
    but the seed.

    only : their labels; none: all of them.
    """
    settings = {}
    checked = []
    for point in points(asked.study, asked.overrides):
        setting = point.folder.rpartition("/")[0]
        if only and point.label not in only:
            continue
        if setting not in settings:
            with named(point.label):
                settings[setting] = asked.changed(point.overrides, point.origins).study
        checked.append((point, settings[setting].model_copy(update={"seed": point.seed})))
    return checked


def check_prepared(
    asked: AskedStudy,
    todo: Iterable[tuple[SweepPoint, Study]],
    every: bool = False,
    how: How = USUAL,
) -> list[Notice]:
    """Refuse what a run of one of the points would refuse before its first round: its files are
    read, its world built.

    Of a setting the first seed is looked at, and its movement is not played beforehand; `every`:
    each run, wholly. Returns what is known of them before they are played.
    """
    seen = set[str]()
    notices = list[Notice]()
    for point, study in todo:
        setting = point.folder if every else point.folder.rpartition("/")[0]
        if setting not in seen:
            seen.add(setting)
            with named(point.label), asked.changed(point.overrides, point.origins).placed():
                notices.extend(check(study, every, how))
    return notices


@contextmanager
def named(label: str) -> Generator[None, None, None]:
    """A mistake names its point."""
    try:
        yield
    except BadInput as error:
        raise BadInput(*(f"vary, {label!r}: {line}" for line in error.lines)) from None


def folder_name(text: str) -> str:
    """A folder name: letters and digits of any script, and a few signs; of a long text the
    beginning and a digest.
    """
    name = re.sub(r"(?:[^\w.=+-]|_)+", "-", text).strip("-.").lstrip("-.=+") or "run"
    if len(name.encode()) <= _LONGEST_NAME:
        return name
    return f"{name[:40]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


@dataclass(frozen=True)
class Sweep:
    """A sweep as it is asked for: a scenario with its changes, the folder, and how runs are played.

    at_once : runs at a time; 0: as many as the engine has room for. replace : whether runs of other
    studies, inputs or versions may be played again, and those removed that are no points of this
    scenario. only : labels to play and to list; none: all of them. command : as it was typed, for
    the page. how : of each run, settings that change no result.
    """

    asked: AskedStudy
    out: Path
    at_once: int
    watch: Watch
    replace: bool = False
    only: Collection[str] = ()
    command: str = "netsim sweep"
    engine: Engine = ON_PROCESSES
    how: How = USUAL

    def play(
        self, every: Sequence[tuple[SweepPoint, Study]] = (), says: Record = MappingProxyType({})
    ) -> Path:
        """Run every point, skipping those already there; returns the path of runs.csv.

        A run that fails stays open, and is listed in failures.csv; all others are played. All
        points are checked before the first one runs. A sweep that was interrupted, or in which runs
        failed, goes on when it is started again. every : checked points that are played in place of
        the scenario's; says : what sweep.json says besides.
        """
        from scenarios.app.run.runner import (
            run_job,
        )  # heavy: nothing is played where a scenario is checked

        out = self.out
        self.how.check()
        every = every or checked_points(self.asked, self.only)
        chosen = [point for point, _ in every]
        own = [
            point.folder
            for point in (points(self.asked.study, self.asked.overrides) if self.only else chosen)
        ]
        jobs = [
            run_job(one, out / point.folder, point.label, "netsim sweep", self.replace)
            for point, one in every
        ]
        self.admit(own, jobs)  # before files are read, and again under the lock
        todo = [one for one, job in zip(every, jobs, strict=True) if job.done() is None]
        shared = self.how.among(min(self.engine.here(self.at_once), len(todo)))
        check_prepared(self.asked, todo, how=shared)
        if todo:
            self.engine.check()
        with self.opened(own, jobs):
            if self.replace and any(job.done() is None for job in jobs):
                (out / RUNS).unlink(missing_ok=True)  # it lists runs that are replaced
            self.describe(says)
            found = do_all(
                [job.played(how=shared) for job in jobs], self.engine, self.at_once, out, self.watch
            )
            write_runs(out, chosen, [{} if isinstance(end, Failed) else end for end in found])
        return out / RUNS

    def admit(self, own: Sequence[str], jobs: Sequence[Job] = ()) -> None:
        """Refuse a folder that is not a sweep's, or, unless asked to replace it, holds runs of
        another sweep.

        own : folders of this sweep's runs; one that holds others is another sweep. jobs : runs that
        are known.
        """
        out = self.out
        if ours(out, "sweep"):
            check_files(out, lambda name: name.endswith((".csv", ".json", ".html")))
            found = others(out, own)
            no_links(out, [*own, *(str(folder.relative_to(out)) for folder in found)])
            if found and not self.replace:
                what = (
                    f"{counted(len(found), 'run')} that this sweep does not have, first "
                    f"{found[0].relative_to(out)}"
                )
                raise BadInput(
                    f"{out}: holds {what}; add --replace, which removes them, or give "
                    f"--out another folder"
                )
        for job in jobs:
            job.admit()

    @contextmanager
    def opened(
        self,
        own: Sequence[str],
        jobs: Sequence[Job] = (),
        remove: Callable[[Path], None] = remove_run,
    ) -> Generator[None, None, None]:
        """The folder, locked and admitted, without runs of other points."""
        with held(
            self.out, "sweep", lambda: self.admit(own, jobs), lambda: not others(self.out, own)
        ):
            for folder in others(self.out, own):
                remove(folder)
            yield

    def describe(self, says: Record) -> None:
        """Write sweep.json."""
        study = self.asked.study
        if study.vary and study.vary.drawn:
            drawn = {"drawn": list(study.vary.drawn)}
        else:
            drawn = {}
        said = {"kind": "sweep", "title": study.title, "command": self.command, **drawn, **says}
        write_json(self.out / SWEEP, said)


def others(out: Path, own: Sequence[str]) -> list[Path]:
    """Folders of runs in that of a sweep, which are not its own."""
    found = {study.parent for study in out.glob(f"*/seed-*/{STUDY}")}
    return sorted(found - {out / folder for folder in own})


def write_runs(out: Path, todo: Sequence[SweepPoint], summaries: Sequence[Fields]) -> None:
    """runs.csv: folder, label, seed, curve and strength where there are curves, the varied values,
    every key.

    summaries : empty of runs that failed. It depends on the points and their summaries alone, not
    on which ended first.
    """
    varied = list(dict.fromkeys(k for p in todo for k in p.overrides if k not in ("seed", "vary")))
    keys = list(dict.fromkeys(k for s in summaries for k in s))
    curve = ["curve", "strength"] if any(point.curve for point in todo) else []
    columns = ["folder", "label", "seed", *curve, *varied, *keys]
    rows: list[list[Value]] = [columns]
    for point, summary in zip(todo, summaries, strict=True):
        row: Fields = {
            name: getattr(point, name) for name in ("folder", "label", "seed", "curve", "strength")
        }
        row |= {key: flow(value) for key, value in point.overrides.items() if key in varied}
        row |= summary
        rows.append([row.get(column) for column in columns])
    write_text(out / RUNS, csv_text(rows))
