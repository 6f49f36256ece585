"""Claims checked against runs: folders are given or played, and each claim gets its verdict."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.record import guarded, write_text
from netsim.safe import what_is
from scenarios.app.claims.claim import Claim, ClaimRule, median_interval
from scenarios.app.results.failures import FAILURES, Failed, failure_lines, read_failures
from scenarios.app.results.folder import MANIFEST, SUMMARY, admit_several, inside, read_json, read_summary
from scenarios.app.results.gathered import one_kind
from scenarios.app.results.read import RUNS, SWEEP, listed
from scenarios.app.results.shown import cell_text, over_seeds
from scenarios.app.results.statistics import counted
from scenarios.app.results.summary_keys import USEFUL, declaration
from scenarios.app.run.clusters import HIDDEN
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.executor import ON_PROCESSES, Engine, do_all
from scenarios.app.run.how import USUAL, How
from scenarios.app.run.job import Job
from scenarios.app.run.play import run_job
from scenarios.app.run.setup import check
from scenarios.app.run.sweep import Sweep
from scenarios.app.study.error_messages import nearest
from scenarios.app.study.load import bundled, find, load
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import one_line, read

HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"
CLAIMS, CLAIMS_PAGE = "claims.csv", "claims.html"
Labelled = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""label -> seed -> summary of its run; a run outside of a sweep has the label ''"""


@dataclass(frozen=True)
class Verdict:
    """The result of a claim: holds, does not hold, or undecided, and why."""

    claim: Claim
    verdict: str
    reason: str = ""
    ours: str = "-"

    @property
    def text(self) -> str:
        """The verdict, and why it is undecided."""
        return f"{self.verdict} ({self.reason})" if self.reason else self.verdict

    @property
    def row(self) -> dict[str, str]:
        """The verdict and its claim as a row of the table."""
        stated = self.claim.model_dump(include={"id", "paper", "where", "says", "scenario"}) | {
            "key": self.claim.rule.key
        }
        value = "" if self.claim.value is None else self.claim.printed
        return {**stated, "value": value, "ours": self.ours, "verdict": self.verdict, "reason": self.reason}


# -- folders


def labelled(folder: Path) -> Labelled:
    """Summaries of the finished runs in the folder of a run or of a sweep."""
    if what_is(folder) != "folder":
        raise BadInput(one_line(f"{folder}: no such folder; give the folder of a run or of a sweep"))
    alone = bool(what_is(folder / MANIFEST)) and not what_is(folder / RUNS)
    by_label: dict[str, dict[int, Mapping[str, Any]]] = {}
    one_kind(runs := [one for one in ([("", folder)] if alone else listed(folder)) if what_is(one[1] / SUMMARY)])
    for label, path in runs:
        seed = read_json(path / MANIFEST).get("seed")
        if not isinstance(seed, int):
            raise BadInput(one_line(f"{path / MANIFEST}: seed is missing or damaged; run the study again"))
        by_label.setdefault(label, {})[seed] = read_summary(path)
    return by_label


def folders_of(runs: Sequence[str], claims: Sequence[Claim]) -> dict[str, Path]:
    """Scenario -> folder, as several `[SCENARIO=]DIR` say."""
    folders: dict[str, Path] = {}
    for run in runs:
        name, folder = scenario_of(run, claims)
        if name in folders:
            raise BadInput(one_line(f"--run {run}: {name} already has the folder {folders[name]}; give one"))
        folders[name] = folder
    return folders


def scenario_of(run: str, claims: Sequence[Claim]) -> tuple[str, Path]:
    """Scenario and folder that `[SCENARIO=]DIR` means; without a name, by the title that its runs carry.

    Raises BadInput where the folder holds no runs, or those of another scenario.
    """
    titles = {name: read(find(name)).data.get("title") for name in dict.fromkeys(c.scenario for c in claims)}
    name, equals, rest = run.partition("=")
    if equals and name not in titles and not what_is(run):
        near = nearest(name, list(titles))
        raise BadInput(one_line(f"--run {run}: no claim is about {name!r}{near}; netsim claims lists them"))
    folder, asked = (Path(rest), {name: titles[name]}) if name in titles else (Path(run), titles)
    if what_is(folder) != "folder":
        raise BadInput(one_line(f"--run {run}: no such folder; give the folder of a run or of a sweep"))
    swept, single = folder / SWEEP, folder / MANIFEST
    title = read_json(swept if what_is(swept) else single if what_is(single) else listed(folder)[0][1] / MANIFEST).get(
        "title"
    )
    found = [scenario for scenario, own in asked.items() if own == title]
    if not found:
        about = (
            f"but {name} is {titles[name]!r}" if name in titles else "and no claim is about a scenario of that title"
        )
        raise BadInput(one_line(f"--run {run}: holds runs of {title!r}, {about}; netsim claims lists them"))
    return found[0], folder


def place_of(scenario: str) -> str:
    """Where `claims --out` keeps the runs of a scenario: its name, or that of its file."""
    return scenario if scenario in bundled() else Path(scenario).stem


def admit_out(out: Path, claims: Sequence[Claim]) -> None:
    """Refuse a folder with what does not belong there, or in which two scenarios would have one place."""
    places: dict[str, str] = {}
    for scenario in dict.fromkeys(c.scenario for c in claims):
        other = places.setdefault(place_of(scenario), scenario)
        if other != scenario:
            line = f"{out / place_of(scenario)}: both {other} and {scenario} would be played there; rename one"
            raise BadInput(one_line(line))
    left = [name for name in inside(out) if name.startswith(HIDDEN)]
    known = [CLAIMS, CLAIMS_PAGE, FAILURES, *(Path(place).parts[0] for place in places), *left]
    admit_several(out, known, "these claims")


# -- playing


def play(
    claims: Sequence[Claim], out: Path, at_once: int, watch: Watch, engine: Engine, how: How, overwrite: bool
) -> dict[str, str]:
    """Play the scenarios of claims into folders below `out`: runs that are no sweep side by side, then each sweep.

    Returns why some of them have no runs, by name. Of a sweep the labels are played that the rules look at. What is
    finished stays if it is of the same study, inputs and version of netsim, and is refused else, unless `overwrite`.
    """
    why, alone, sweeps = dict[str, str](), dict[str, tuple[Study, Job]](), dict[str, Study]()
    for name in dict.fromkeys(c.scenario for c in claims):
        with _noted(why, name):
            study = load(name)
            if study.vary is not None:
                sweeps[name] = study
                continue
            job = run_job(study, out / place_of(name), place_of(name), "netsim claims", overwrite, how)
            job.admit()
            if job.done() is None:
                alone[name] = study, job
    shared = how.among(min(engine.here(at_once), len(alone)))
    jobs = dict[str, Job]()
    for name, (study, job) in alone.items():
        with _noted(why, name):
            check(study, how=shared)
            jobs[name] = job.played(how=shared)
    if jobs or any(not what_is(out / place_of(name) / RUNS) for name in sweeps):
        engine.check()
    names = {job.label: name for name, job in jobs.items()}

    def alone_of(now: Event) -> None:
        watch(replace(now, done=1, of=1, last=True, part=names[now.values["label"]]))

    ended = do_all(list(jobs.values()), engine, at_once, out, alone_of)
    why |= {n: " ".join(failure_lines([end])) for n, end in zip(jobs, ended, strict=True) if isinstance(end, Failed)}
    for name, study in sweeps.items():
        rules = [c.rule for c in claims if c.scenario == name]
        labels = {label for rule in rules for label in rule.labels} if all(r.labels for r in rules) else set()
        folder = out / place_of(name)
        with _noted(why, name):
            own = partial(_of_part, watch, name)
            Sweep(name, study, folder, at_once, {}, own, overwrite, labels, engine=engine, how=how).play()
            if failed := read_failures(folder):
                why[name] = " ".join(failure_lines(failed))
    return why


def _of_part(watch: Watch, name: str, now: Event) -> None:
    """Watch an event as one of a scenario."""
    watch(replace(now, part=name))


@contextmanager
def _noted(why: dict[str, str], name: str) -> Iterator[None]:
    """Bad input is why a scenario has no runs."""
    try:
        yield
    except BadInput as error:
        why[name] = error.lines[0]


# -- verdicts


def evaluate_all(
    claims: Sequence[Claim],
    folders: Mapping[str, Path],
    out: Path | None,
    at_once: int,
    watch: Watch,
    engine: Engine = ON_PROCESSES,
    how: How = USUAL,
    overwrite: bool = False,
) -> list[Verdict]:
    """Verdicts by the given folders (scenario -> folder); with `out` the other scenarios are played there first.

    The claims of a scenario that cannot be played, or of which a run failed, stay undecided; claims.csv goes into
    `out`.
    """
    runs, why = {name: labelled(folder) for name, folder in folders.items()}, dict[str, str]()
    if out is not None:
        missing = [c for c in claims if c.scenario not in folders]
        why = play(missing, out, at_once, watch, engine, how, overwrite)
        for name in {c.scenario for c in missing} - set(why):
            with _noted(why, name):
                runs[name] = labelled(out / place_of(name))
    verdicts = [evaluate(c, runs.get(c.scenario, {}), why.get(c.scenario, "")) for c in claims]
    if out is not None:
        text = StringIO()
        writer = csv.DictWriter(text, list(verdicts[0].row), lineterminator="\n")
        writer.writeheader()
        writer.writerows({name: guarded(cell) for name, cell in one.row.items()} for one in verdicts)
        try:
            out.mkdir(parents=True, exist_ok=True)
            write_text(out / CLAIMS, text.getvalue())
        except OSError as error:
            raise BadInput(one_line(f"{out / CLAIMS}: cannot be written ({error.strerror})")) from None
    return verdicts


def evaluate(claim: Claim, runs: Labelled, why_none: str = "") -> Verdict:
    """The verdict; `why_none`: why there are no runs.

    A claim holds where the interval over seeds of every median that its rule looks at lies within the rule's bounds,
    and does not hold where one lies outside; otherwise it is undecided, as it is with one seed. Low leakage proves
    nothing where at least half of the models are not useful; high leakage is real there too.
    """
    rule = claim.rule
    labels = rule.labels or tuple(runs)
    absent = [label for label in labels if label not in runs]
    if not runs or absent:
        what = f"no label “{absent[0]}” in {claim.scenario}" if runs else why_none or claim.scenario
        return Verdict(claim, OPEN, f"no run: {what}")
    ours = "; ".join(
        f"{label}: {text}" if label else text
        for label in labels
        if (text := " against ".join(cell_text([*runs[label].values()], key) for key in rule.keys))
    )
    holds, reason = _decided(claim, labels, runs)
    return Verdict(claim, OPEN if reason else HOLDS if holds else FAILS, reason, ours)


def _decided(claim: Claim, labels: Sequence[str], runs: Labelled) -> tuple[bool | None, str]:
    """Whether a claim holds, and why it stays undecided."""
    rule = claim.rule
    for label in labels:
        for key in rule.keys:
            lacking = sum(bool(np.isnan(over_seeds([run], key)[1])) for run in runs[label].values())
            if 2 * lacking >= len(runs[label]):
                return None, f"{key} is null in {_of(lacking, label, runs)}"
    seeds = sorted(set.intersection(*(set(runs[label]) for label in labels)))
    if not seeds:
        return None, "no seed has runs of every label"
    values = np.array([[rule.value(runs[label][seed]) for seed in seeds] for label in labels])
    statements = rule.statements(values, claim.value if isinstance(claim.value, float) else np.nan)
    if any(2 * np.isnan(s.values).sum() > len(seeds) for s in statements):
        return None, "with more than half of the seeds the estimates of both labels diverged"
    each = [s.holds() for s in statements]
    holds = False if False in each else None if None in each else True
    if len(seeds) == 1:
        return holds, f"one seed gives no interval; with this seed it {HOLDS if holds else FAILS}"
    for label in labels if _hides(rule) else ():
        useless = sum(not run.get(USEFUL.of()) for run in runs[label].values())
        if 2 * useless >= len(runs[label]):
            alone = {True: HOLDS, False: FAILS, None: "stays undecided"}[holds]
            return holds, f"the model is not useful in {_of(useless, label, runs)}; with all models it {alone}"
    if holds is None:
        low, high, coverage = median_interval(statements[each.index(None)].values)
        return None, f"too few seeds: median between {low:.4g} and {high:.4g} ({100 * coverage:.0f} % interval)"
    return holds, ""


def _hides(rule: ClaimRule) -> bool:
    """Whether the rule takes low leakage for privacy.

    That an error is at most some metres, or that at least some share of homes is found, is real with any model.
    """
    known = declaration(rule.key)
    if known is None or known.group != "attack":
        return False
    found = "_within_near." in known.key and known.unit == "%"
    near = rule.kind == "at-most" and known.unit in ("m", "m^0.5")
    return not (near or (found and rule.kind in ("at-least", "exceeds")))


def _of(k: int, label: str, runs: Labelled) -> str:
    return f"{k} of {counted(len(runs[label]), 'run')}" + (f" of “{label}”" if label else "")
