"""Sweeps: the points of a study's `vary` section, one run folder each, and one table of all of
them.
"""

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

from netsim.errors import BadInput, format_count
from netsim.notice import Notice
from netsim.record import write_json, write_text
from netsim.rng import Rng, Streams
from scenarios.app.results.folder import (
    RUNS,
    STUDY,
    SWEEP,
    Failed,
    has_our_marker,
    lock_folder,
    refuse_irregular_files,
    refuse_links,
    remove_run,
    to_csv_text,
)
from scenarios.app.run.events import Watch
from scenarios.app.run.executor import ON_PROCESSES, Engine, do_jobs
from scenarios.app.run.how import DEFAULT_RESOURCES, Resources
from scenarios.app.run.job import Job
from scenarios.app.run.setup import check_study
from scenarios.app.study import Fields, Record, Value
from scenarios.app.study.describe import to_flow_yaml
from scenarios.app.study.load import Scenario
from scenarios.app.study.study import Distribution, Study, Variant
from scenarios.app.study.yaml_document import Place, format_dotted, parse_place

MAX_RUNS = 100_000
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


def plan_points(study: Study, overrides: Record) -> list[SweepPoint]:
    """Return all combinations of variants, rows of `zip`, value lists, random points and seeds, in
    that order.
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
    axes = [_list_choices("zip", vary.zip)]
    axes += [_list_choices("values", {key: values}) for key, values in vary.values.items()]
    if vary.random is not None:
        draws = vary.random.draws
        rng = Streams(study.seed).derive_rng("vary")
        columns = {
            key: draw_values(rng, key, distribution, draws)
            for key, distribution in vary.drawn.items()
        }
        section = ("vary", "random", "space")
        rows = enumerate(_list_rows(columns), 1)
        axes.append([_Choice(row, f"draw {i}", section) for i, row in rows])
    section_of_seeds = ("vary",) if vary.seed else ()
    seeds = vary.seed or (study.seed,)
    axes.append([_Choice({"seed": seed}, section=section_of_seeds) for seed in seeds])
    runs = len(variants) * prod(map(len, axes))
    if runs > MAX_RUNS:
        raise BadInput(
            f"vary: {runs:,} combinations, at most {MAX_RUNS:,} are possible; take "
            f"fewer values or seeds"
        )
    planned = []
    for i, variant in enumerate(variants):
        first = _Choice(variant.set, variant.label, ("vary", "variants", i, "set"))
        planned += [_build_point(variant, [first, *chosen], overrides) for chosen in product(*axes)]
    folders = Counter(point.folder for point in planned)
    for point in planned:
        if folders[point.folder] > 1:
            raise BadInput(
                f"vary: the label {point.label!r} is not unique as a folder name; "
                "rename a variant, or leave a repeated value out"
            )
    return planned


def _list_rows(columns: Mapping[str, Sequence[Value]]) -> list[Fields]:
    """Return the first values of all columns, then the second ones; an empty row without any."""
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows] or [{}]


def _list_choices(section: str, columns: Mapping[str, Sequence[Value]]) -> list[_Choice]:
    choices = []
    for i, row in enumerate(_list_rows(columns)):
        parts = [
            f"{format_dotted(parse_place(key)).rsplit('.', 1)[-1]}={to_flow_yaml(value)}"
            for key, value in row.items()
        ]
        choices.append(_Choice(row, ", ".join(parts), ("vary", section), (i,)))
    return choices


def _build_point(variant: Variant, chosen: Sequence[_Choice], overrides: Record) -> SweepPoint:
    changed = dict(overrides)
    origins = dict[str, Place]()
    for choice in chosen:
        changed |= choice.values
        if choice.section:
            origins |= {key: (*choice.section, key, *choice.item) for key in choice.values}
    labels = [choice.label for choice in chosen if choice.label]
    label = ", ".join(labels) or "as written"
    curve = ", ".join([variant.mechanism, *labels[1:]]) if variant.mechanism else ""
    seed = changed["seed"]
    changed["vary"] = None
    return SweepPoint(
        label,
        seed,
        f"{make_folder_name(label)}/seed-{seed}",
        changed,
        curve,
        variant.strength,
        origins,
    )


def draw_values(rng: Rng, key: str, distribution: Distribution, n: int) -> list[Value]:
    """Return `n` independent values of a key; value i depends on the seed, the key and i alone."""
    return [find_quantile(distribution, u) for u in rng.uniform(key, np.arange(n))]


def find_quantile(distribution: Distribution, u: float) -> Value:
    r"""The value at the quantile u, 0 < u < 1, of a distribution.

    A range: low + u (high - low), or with `log` low (high / low)^u; of integers the floor of the
    same up to high + 1. Numbers that are not integers keep six significant digits, so that they can
    be copied, and stay within the range.
    """
    if distribution.choices is not None:
        return distribution.choices[floor(u * len(distribution.choices))]
    low = distribution.low or 0.0
    high = distribution.high or 0.0
    end = high + 1.0 if distribution.integer else high
    value = low * exp(u * log(end / low)) if distribution.log else low + u * (end - low)
    if distribution.integer:
        return int(min(max(floor(value), low), high))
    return round_within(value, low, high)


def round_within(value: float, low: float, high: float) -> float:
    """Return six significant digits, within the range."""
    return min(max(float(f"{value:.6g}"), low), high)


def resolve_points(
    scenario: Scenario, only: Collection[str] = ()
) -> list[tuple[SweepPoint, Study]]:
    """Return the points and their studies; a mistake names its point. Of a setting, seeds change
    nothing but the seed.

    only : their labels; none: all of them.
    """
    settings = {}
    checked = []
    for point in plan_points(scenario.study, scenario.overrides):
        setting = point.folder.rpartition("/")[0]
        if only and point.label not in only:
            continue
        if setting not in settings:
            with prefix_errors(point.label):
                settings[setting] = scenario.with_changes(point.overrides, point.origins).study
        checked.append((point, settings[setting].change("seed", point.seed)))
    return checked


def check_prepared(
    scenario: Scenario,
    todo: Iterable[tuple[SweepPoint, Study]],
    is_thorough: bool = False,
    resources: Resources = DEFAULT_RESOURCES,
) -> list[Notice]:
    """Refuse what a run of one of the points would refuse before its first round: its files are
    read, its world built.

    Of a setting the first seed is looked at, its movement not played beforehand; is_thorough:
    each run, wholly. Returns what is known of them before they are played.
    """
    seen = set[str]()
    notices = list[Notice]()
    for point, study in todo:
        setting = point.folder if is_thorough else point.folder.rpartition("/")[0]
        if setting not in seen:
            seen.add(setting)
            with (
                prefix_errors(point.label),
                scenario.with_changes(point.overrides, point.origins).locate_errors(),
            ):
                notices.extend(check_study(study, is_thorough, resources))
    return notices


@contextmanager
def prefix_errors(label: str) -> Generator[None]:
    """A mistake names its point."""
    try:
        yield
    except BadInput as error:
        raise BadInput(*(f"vary, {label!r}: {line}" for line in error.lines)) from None


def make_folder_name(text: str) -> str:
    """Return a folder name: letters and digits of any script, and a few signs; of a long text the
    beginning and a digest.
    """
    name = re.sub(r"(?:[^\w.=+-]|_)+", "-", text).strip("-.").lstrip("-.=+") or "run"
    if len(name.encode()) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{name[:40]}-{digest[:8]}"


@dataclass(frozen=True)
class Sweep:
    """A sweep as it is asked for: a scenario with its changes, the folder, and how runs are played.

    at_once : runs at a time; 0: as many as the engine has room for. replace : whether runs of other
    studies, inputs or versions may be played again, and those removed that are no points of this
    scenario. only : labels to play and to list; none: all of them. command : as it was typed, for
    the page. resources : of each run, settings that change no result.
    """

    scenario: Scenario
    out: Path
    at_once: int
    watch: Watch
    replace: bool = False
    only: Collection[str] = ()
    command: str = "netsim sweep"
    engine: Engine = ON_PROCESSES
    resources: Resources = DEFAULT_RESOURCES

    def play(
        self, checked: Sequence[tuple[SweepPoint, Study]] = (), says: Record = MappingProxyType({})
    ) -> Path:
        """Run every point, skipping those already there; returns the path of runs.csv.

        A run that fails stays open, and is listed in failures.csv; all others are played. All
        points are checked before the first one runs. A sweep that was interrupted, or in which runs
        failed, goes on when it is started again. checked : points that are played in place of
        the scenario's; says : what sweep.json says besides.
        """
        from scenarios.app.run.runner import (
            build_run_job,
        )  # heavy: nothing is played where a scenario is checked

        out = self.out
        self.resources.check_limit()
        checked = checked or resolve_points(self.scenario, self.only)
        chosen = [point for point, _ in checked]
        scenario = self.scenario
        points = plan_points(scenario.study, scenario.overrides) if self.only else chosen
        folders = [point.folder for point in points]
        jobs = [
            build_run_job(study, out / point.folder, point.label, "netsim sweep", self.replace)
            for point, study in checked
        ]
        self.admit(folders, jobs)  # before files are read, and again under the lock
        todo = [run for run, job in zip(checked, jobs, strict=True) if job.find_summary() is None]
        shared = self.resources.split_memory_among(
            min(self.engine.count_jobs_sharing_memory(self.at_once), len(todo))
        )
        check_prepared(self.scenario, todo, resources=shared)
        if todo:
            self.engine.check()
        with self.open_folder(folders, jobs):
            if self.replace and any(job.find_summary() is None for job in jobs):
                (out / RUNS).unlink(missing_ok=True)  # it lists runs that are replaced
            self.write_description(says)
            results = do_jobs(
                [job.with_options(resources=shared) for job in jobs],
                self.engine,
                self.at_once,
                out,
                self.watch,
            )
            write_runs(out, chosen, [{} if isinstance(end, Failed) else end for end in results])
        return out / RUNS

    def admit(self, folders: Sequence[str], jobs: Sequence[Job] = ()) -> None:
        """Refuse a folder that is not a sweep's, or, unless asked to replace it, holds runs of
        another sweep.

        folders : those of runs of this sweep; others make another sweep. jobs : runs that
        are known.
        """
        out = self.out
        if has_our_marker(out, "sweep"):
            refuse_irregular_files(out, lambda name: name.endswith((".csv", ".json", ".html")))
            others = find_other_runs(out, folders)
            refuse_links(out, [*folders, *[str(folder.relative_to(out)) for folder in others]])
            if others and not self.replace:
                first = others[0].relative_to(out)
                raise BadInput(
                    f"{out}: holds {format_count(len(others), 'run')} that this sweep does not "
                    f"have, first {first}; add --replace, which removes them, or give --out "
                    "another folder"
                )
        for job in jobs:
            job.admit()

    @contextmanager
    def open_folder(
        self,
        folders: Sequence[str],
        jobs: Sequence[Job] = (),
        remove: Callable[[Path], None] = remove_run,
    ) -> Generator[None]:
        """The folder, locked and admitted, without runs of other points."""
        with lock_folder(
            self.out,
            "sweep",
            lambda: self.admit(folders, jobs),
            lambda: not find_other_runs(self.out, folders),
        ):
            for folder in find_other_runs(self.out, folders):
                remove(folder)
            yield

    def write_description(self, says: Record) -> None:
        """Write sweep.json."""
        study = self.scenario.study
        drawn = {"drawn": list(study.vary.drawn)} if study.vary and study.vary.drawn else {}
        write_json(
            self.out / SWEEP,
            {"kind": "sweep", "title": study.title, "command": self.command, **drawn, **says},
        )


def find_other_runs(out: Path, folders: Sequence[str]) -> list[Path]:
    """Return folders of runs in that of a sweep, which are not its own."""
    present = {study.parent for study in out.glob(f"*/seed-*/{STUDY}")}
    return sorted(present - {out / folder for folder in folders})


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
        changed = {key: to_flow_yaml(value) for key, value in point.overrides.items()}
        row = changed | vars(point) | summary
        rows.append([row.get(column) for column in columns])
    write_text(out / RUNS, to_csv_text(rows))
