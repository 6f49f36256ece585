"""Claims checked against runs: folders are given or played, and each claim gets its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from netsim.errors import BadInput, counted
from netsim.record import write_text
from netsim.safe import what_is
from scenarios.app.claims.claim import DECIDED, FAILS, HOLDS, OPEN, Claim, ClaimRule, Verdict, median_interval
from scenarios.app.results.folder import (
    MANIFEST,
    RUNS,
    SUMMARY,
    LabelledRuns,
    admit_several,
    csv_text,
    failure_lines,
    read_failures,
    read_json,
    read_rows,
    read_summary,
    version_of,
)
from scenarios.app.results.gathered import distinct
from scenarios.app.results.read import listed, part
from scenarios.app.results.shown import cell_text
from scenarios.app.results.summary_keys import declaration, value_in
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.executor import Engine
from scenarios.app.run.how import How
from scenarios.app.run.sweep import Sweep
from scenarios.app.study import Record
from scenarios.app.study.describe import nearest
from scenarios.app.study.load import AskedStudy, bundled, find
from scenarios.app.study.yaml_document import read

CLAIMS, CLAIMS_PAGE = "claims.csv", "claims.html"
Labelled = Mapping[str, Mapping[int, Record]]
"""label -> seed -> summary of its run; a run outside of a sweep has the label ''"""


# -- folders


def finished_runs(folder: Path) -> LabelledRuns:
    """Label and folder of the finished runs in the folder of a run or of a sweep."""
    if what_is(folder) != "folder":
        raise BadInput(f"{folder}: no such folder; give the folder of a run or of a sweep")
    alone = what_is(folder / MANIFEST) and not what_is(folder / RUNS)
    runs = [run for run in ([("", folder)] if alone else listed(folder)) if what_is(run[1] / SUMMARY)]
    kept, copies = distinct(runs)
    if copies:
        raise BadInput(f"{folder}: {copies.removesuffix('.')}; remove the copies")
    return kept


def labelled(folder: Path) -> Labelled:
    """Summaries of the finished runs in the folder of a run or of a sweep."""
    by_label: dict[str, dict[int, Record]] = {}
    for label, path in finished_runs(folder):
        seed = read_json(path / MANIFEST).get("seed")
        if not isinstance(seed, int):
            raise BadInput(f"{path / MANIFEST}: seed is missing or damaged; run the study again")
        by_label.setdefault(label, {})[seed] = read_summary(path)
    return by_label


def folders_of(runs: Sequence[str], claims: Sequence[Claim]) -> dict[str, Path]:
    """Scenario -> folder, as several `[SCENARIO=]DIR` say; without a name, by the title that its runs carry."""
    titles = {name: read(find(name)).data.get("title") for name in dict.fromkeys(c.scenario for c in claims)}
    folders: dict[str, Path] = {}
    for run in runs:
        name, equals, rest = run.partition("=")
        if equals and name not in titles and not what_is(run):
            near = nearest(name, titles)
            raise BadInput(f"--run {run}: no claim is about {name!r}{near}; netsim claims lists them")
        folder = Path(rest if name in titles else run)
        title = next((read_json(path / MANIFEST).get("title") for _, path in finished_runs(folder)), None)
        asked = [name] if name in titles else titles
        found = [scenario for scenario in asked if titles[scenario] == title]
        if not found:
            raise BadInput(f"--run {run}: no claim is about its runs, {title!r}; netsim claims lists them")
        if found[0] in folders:
            raise BadInput(f"--run {run}: {found[0]} already has the folder {folders[found[0]]}; give one")
        folders[found[0]] = folder
    return folders


def places_in(out: Path, claims: Sequence[Claim]) -> dict[str, Path]:
    """Scenario -> where `claims --out` keeps its runs: below its name, or that of its file.

    Raises BadInput for a folder with what does not belong there, or in which two scenarios would have one place.
    """
    places: dict[str, Path] = {}
    for scenario in dict.fromkeys(c.scenario for c in claims):
        place = out / (scenario if scenario in bundled() else Path(scenario).stem)
        if place in places.values():
            raise BadInput(f"{place}: both {scenario} and another scenario would be played there; rename one")
        places[scenario] = place
    admit_several(out, [CLAIMS, CLAIMS_PAGE, *(p.relative_to(out).parts[0] for p in places.values())], "these claims")
    return places


# -- playing


def play(
    claims: Sequence[Claim],
    places: Mapping[str, Path],
    at_once: int,
    watch: Watch,
    engine: Engine,
    how: How,
    overwrite: bool,
) -> dict[str, str]:
    """Play the scenarios of claims, each as a sweep; returns why some of them have no runs, by name.

    Only the labels are played that the rules look at. What is finished stays if it is of the same study, inputs and
    version of netsim, and is refused else, unless `overwrite`.
    """
    why = {}
    names = dict.fromkeys(c.scenario for c in claims)
    if any(not what_is(places[name] / RUNS) for name in names):
        engine.check()
    for name in names:
        rules = [c.rule for c in claims if c.scenario == name]
        labels = {label for rule in rules for label in rule.labels} if all(rule.labels for rule in rules) else set()
        try:
            asked = AskedStudy.of(name)
            if asked.study.vary is None:
                asked = asked.changed({"vary": {"seed": [asked.study.seed]}})
            own = partial(_of_part, watch, name)
            Sweep(asked, places[name], at_once, own, overwrite, labels, engine=engine, how=how).play()
            if failed := read_failures(places[name]):
                why[name] = " ".join(failure_lines(failed))
        except BadInput as error:
            why[name] = error.lines[0]
    return why


def _of_part(watch: Watch, name: str, now: Event) -> None:
    """Watch an event as one of a scenario."""
    watch(now._replace(part=name))


def write_verdicts(path: Path, verdicts: Sequence[Verdict]) -> None:
    """Write the table of verdicts, a row per claim."""
    rows = [list(verdicts[0].row), *(list(one.row.values()) for one in verdicts)]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, csv_text(rows))
    except OSError as error:
        raise BadInput(f"{path}: cannot be written ({error.strerror})") from None


# -- verdicts


def evaluate_all(claims: Sequence[Claim], folders: Mapping[str, Path], why: Mapping[str, str]) -> list[Verdict]:
    """Verdicts by folders of runs; why: of scenarios without runs, whose claims stay undecided."""
    there = {name: folder for name, folder in folders.items() if name not in why}
    runs = {name: labelled(folder) for name, folder in there.items()}
    cost = {name: _cost(folder) for name, folder in there.items()}
    verdicts = []
    for claim in claims:
        one = evaluate(claim, runs.get(claim.scenario, {}), why.get(claim.scenario, ""))
        minutes, version = cost.get(claim.scenario, ("", ""))
        verdicts.append(replace(one, minutes=minutes, version=version))
    return verdicts


def _cost(folder: Path) -> tuple[str, str]:
    """Minutes by the clock, summed over the finished runs of a folder, and the version that played them."""
    manifests = [read_json(path / MANIFEST) for _, path in finished_runs(folder)]
    spent = [part(of, "timing").get("wall_s") for of in manifests]
    minutes = sum(s for s in spent if isinstance(s, int | float)) / 60
    return f"{minutes:.2g}", version_of(manifests[0]) if manifests else ""


def evaluate(claim: Claim, runs: Labelled, why_none: str = "") -> Verdict:
    """The verdict; `why_none`: why there are no runs.

    A claim holds where the interval over seeds of every median that its rule looks at lies within the rule's bounds,
    and does not hold where one lies outside; otherwise it is undecided, as it is with one seed. Low leakage proves
    nothing where at least half of the models are not useful; high leakage is real there too.
    """
    labels = claim.rule.labels or tuple(runs)
    absent = [label for label in labels if label not in runs]
    if not runs or absent:
        what = f"no label “{absent[0]}” in {claim.scenario}" if runs else why_none or claim.scenario
        return Verdict(claim, OPEN, f"no run: {what}")
    ours = []
    for label in labels:
        text = " against ".join(cell_text([*runs[label].values()], key) for key in claim.rule.keys)
        ours.append(f"{label}: {text}" if label else text)
    of = {label: runs[label] for label in labels}
    word, reason = _decided(claim, of)
    known = [f"{label}: {cell_text([*of[label].values()], claim.adapted)}" for label in labels if claim.adapted]
    seeds = len(set.intersection(*map(set, of.values())))
    return Verdict(claim, OPEN if reason else word, reason, "; ".join(ours), "; ".join(known), str(seeds))


# -- a table of verdicts that is kept


def keep(path: Path, claims: Sequence[Claim], now: Sequence[Verdict], writes: bool) -> tuple[list[Verdict], list[str]]:
    """A verdict of each claim, by runs if there are some, else by the table in `path`; and the ids of its rows that
    state what no claim does any more. writes : the table is written again.
    """
    lines = read_rows(path, "move it") if what_is(path) else []
    if any(not {"id", *DECIDED} <= set(row) for row in lines):
        raise BadInput(f"{path}: is no table of verdicts; move it, and give the command again")
    rows = {row["id"]: row for row in lines}
    decided = {one.claim.id: one for one in now if one.seeds}
    stale = set(rows) - set(decided)
    for claim in claims:
        row = rows.get(claim.id, {})
        if (
            claim.id not in decided
            and claim.stated.items() <= row.items()
            and row.get("verdict") in (HOLDS, FAILS, OPEN)
        ):
            decided[claim.id] = Verdict(claim, **{name: row.get(name, "") for name in DECIDED})
    if writes and decided:
        write_verdicts(path, [decided[claim.id] for claim in claims if claim.id in decided])
    every = [decided.get(claim.id, Verdict(claim, OPEN, "not played")) for claim in claims]
    return every, sorted(stale - set(decided))


def _decided(claim: Claim, runs: Labelled) -> tuple[str, str]:
    """What the runs of the labels of a claim say, and why it stays undecided."""
    rule = claim.rule
    for label, of in runs.items():
        for key in rule.keys:
            lacking = [run for run in of.values() if np.isnan(value_in(run, key))]
            if 2 * len(lacking) >= len(of):
                return OPEN, f"{key} is null in {_share(lacking, label, of)}"
    seeds = sorted(set.intersection(*map(set, runs.values())))
    if not seeds:
        return OPEN, "no seed has runs of every label"
    values = np.array([[rule.value(of[seed]) for seed in seeds] for of in runs.values()])
    statements = rule.statements(values, claim.value if isinstance(claim.value, float) else np.nan)
    if any(2 * np.isnan(s.values).sum() > len(seeds) for s in statements):
        return OPEN, "with more than half of the seeds the estimates of both labels diverged"
    each = [s.holds() for s in statements]
    word = FAILS if False in each else OPEN if None in each else HOLDS
    if len(seeds) == 1:
        return word, f"one seed gives no interval; with this seed it {word}"
    for label, of in runs.items() if _hides(rule) else ():
        useless = [run for run in of.values() if not run.get("utility.useful")]
        if 2 * len(useless) >= len(of):
            alone = "stays undecided" if word == OPEN else word
            return word, f"the model is not useful in {_share(useless, label, of)}; with all models it {alone}"
    if word == OPEN:
        low, high, coverage = median_interval(statements[each.index(None)].values)
        return word, f"too few seeds: median between {low:.4g} and {high:.4g} ({100 * coverage:.0f} % interval)"
    return word, ""


def _share(some: Sequence[object], label: str, of: Mapping[int, object]) -> str:
    return f"{len(some)} of {counted(len(of), 'run')}" + (f" of “{label}”" if label else "")


def _hides(rule: ClaimRule) -> bool:
    """Whether the rule takes low leakage for privacy.

    That an error is at most some metres, that few estimates diverge, that two attacks agree, or that at least some
    share of homes is found, is real with any model.
    """
    known = declaration(rule.key)
    if known is None or known.group != "attack":
        return False
    found = "_located." in known.key and known.unit == "%"
    lost = known.key.endswith(".diverged.percent")
    near = rule.kind == "alike" or (rule.kind == "at-most" and (lost or known.unit in ("m", "m^0.5")))
    return not (near or (found and rule.kind in ("at-least", "exceeds")))
