"""Claims checked against runs: scenarios are played, and each claim gets its verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from netsim import __version__
from netsim.errors import BadInput, counted
from netsim.record import write_text
from netsim.safe import what_is
from scenarios.app.claims.claim import (
    DECIDED,
    FAILS,
    HOLDS,
    OPEN,
    Claim,
    ClaimRule,
    Verdict,
    median_interval,
)
from scenarios.app.results.folder import (
    RUNS,
    admit_several,
    csv_text,
    failure_lines,
    read_failures,
    read_rows,
    read_summary,
)
from scenarios.app.results.read import Manifest, finished
from scenarios.app.results.shown import cell_text
from scenarios.app.results.summary_keys import declaration, value_in
from scenarios.app.run.events import Event, Watch
from scenarios.app.run.executor import Engine
from scenarios.app.run.how import How
from scenarios.app.run.sweep import Sweep
from scenarios.app.study import Record
from scenarios.app.study.load import AskedStudy, bundled

CLAIMS = "claims.csv"
Labelled = Mapping[str, Mapping[int, Record]]
"""label -> seed -> summary of its run"""


# -- folders


def labelled(folder: Path) -> Labelled:
    """Summaries of the finished runs of a sweep."""
    by_label: dict[str, dict[int, Record]] = {}
    for label, path in finished(folder):
        by_label.setdefault(label, {})[Manifest.of(path).seed] = read_summary(path)
    return by_label


def places_in(out: Path, claims: Sequence[Claim]) -> dict[str, Path]:
    """Scenario -> where `claims --out` keeps its runs: below its name, or that of its file.

    Raises BadInput for a folder with what does not belong there, or in which two scenarios would
    have one place.
    """
    places: dict[str, Path] = {}
    for scenario in dict.fromkeys(c.scenario for c in claims):
        place = out / (scenario if scenario in bundled() else Path(scenario).stem)
        if place in places.values():
            raise BadInput(
                f"{place}: both {scenario} and another scenario would be played there; rename one"
            )
        places[scenario] = place
    admit_several(
        out, [CLAIMS, *(p.relative_to(out).parts[0] for p in places.values())], "these claims"
    )
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
    """Play the scenarios of claims, each as a sweep; returns why some of them have no runs, by
    name.

    Only the labels are played that the rules look at. What is finished stays if it is of the same
    study, inputs and version of netsim, and is refused else, unless `overwrite`.
    """
    why = {}
    names = dict.fromkeys(c.scenario for c in claims)
    if any(not what_is(places[name] / RUNS) for name in names):
        engine.check()
    for name in names:
        rules = [c.rule for c in claims if c.scenario == name]
        if all(rule.labels for rule in rules):
            labels = {label for rule in rules for label in rule.labels}
        else:
            labels = set()
        try:
            asked = AskedStudy.of(name)
            if asked.study.vary is None:
                asked = asked.changed({"vary": {"seed": [asked.study.seed]}})
            own = partial(_of_part, watch, name)
            Sweep(
                asked, places[name], at_once, own, overwrite, labels, engine=engine, how=how
            ).play()
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


def evaluate_all(
    claims: Sequence[Claim], places: Mapping[str, Path], why: Mapping[str, str]
) -> list[Verdict]:
    """Verdicts by folders of runs; why: of scenarios without runs, whose claims stay undecided."""
    there = {name: place for name, place in places.items() if name not in why}
    runs = {name: labelled(place) for name, place in there.items()}
    minutes = {name: _minutes(place) for name, place in there.items()}
    verdicts = []
    for claim in claims:
        one = evaluate(claim, runs.get(claim.scenario, {}), why.get(claim.scenario, ""))
        version = __version__ if claim.scenario in there else ""
        verdicts.append(replace(one, minutes=minutes.get(claim.scenario, ""), version=version))
    return verdicts


def _minutes(folder: Path) -> str:
    """Minutes by the clock, summed over the finished runs of a sweep."""
    wall_s = sum(Manifest.of(path).timing.get("wall_s", 0.0) for _, path in finished(folder))
    return f"{wall_s / 60:.2g}"


def evaluate(claim: Claim, runs: Labelled, why_none: str = "") -> Verdict:
    """The verdict; `why_none`: why there are no runs.

    A claim holds where the interval over seeds of every median that its rule looks at lies within
    the rule's bounds, and does not hold where one lies outside; otherwise it is undecided, as it is
    with one seed. Low leakage proves nothing where at least half of the models are not useful; high
    leakage is real there too.
    """
    labels = claim.rule.labels or tuple(runs)
    absent = [label for label in labels if label not in runs]
    if not runs or absent:
        if runs:
            what = f"no label “{absent[0]}” in {claim.scenario}"
        else:
            what = why_none or claim.scenario
        return Verdict(claim, OPEN, f"no run: {what}")
    ours = []
    for label in labels:
        text = " against ".join(cell_text([*runs[label].values()], key) for key in claim.rule.keys)
        ours.append(f"{label}: {text}")
    of = {label: runs[label] for label in labels}
    word, reason = _decided(claim, of)
    known = [
        f"{label}: {cell_text([*of[label].values()], claim.adapted)}"
        for label in labels
        if claim.adapted
    ]
    seeds = len(set.intersection(*map(set, of.values())))
    return Verdict(
        claim, OPEN if reason else word, reason, "; ".join(ours), "; ".join(known), str(seeds)
    )


# -- a table of verdicts that is kept


def keep(
    path: Path | None, claims: Sequence[Claim], now: Sequence[Verdict], writes: bool
) -> tuple[list[Verdict], list[str]]:
    """A verdict of each claim, by runs if there are some, else by the table in `path`; and the ids
    of its rows that state what no claim does any more. writes : the table is written again.
    """
    lines = read_rows(path, "move it") if path and what_is(path) else []
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
    if path and writes and decided:
        write_verdicts(path, [decided[claim.id] for claim in claims if claim.id in decided])
    open_ones = {claim.id: Verdict(claim, OPEN, "not played") for claim in claims} | {
        of.claim.id: of for of in now
    }
    return [*(open_ones | decided).values()], sorted(stale - set(decided))


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
            return (
                word,
                f"the model is not useful in {_share(useless, label, of)}; with all "
                f"models it {alone}",
            )
    if word == OPEN:
        low, high, coverage = median_interval(statements[each.index(None)].values)
        return (
            word,
            f"too few seeds: median between {low:.4g} and {high:.4g} "
            f"({100 * coverage:.0f} % interval)",
        )
    return word, ""


def _share(some: Sequence[object], label: str, of: Mapping[int, object]) -> str:
    return f"{len(some)} of {counted(len(of), 'run')} of “{label}”"


def _hides(rule: ClaimRule) -> bool:
    """Whether the rule takes low leakage for privacy.

    That an error is at most some metres, that few estimates diverge, that two attacks agree, or
    that at least some share of homes is found, is real with any model.
    """
    known = declaration(rule.key)
    if known is None or known.group != "attack":
        return False
    found = "_located." in known.key and known.unit == "%"
    lost = known.key.endswith(".diverged.percent")
    near = rule.kind == "alike" or (
        rule.kind == "at-most" and (lost or known.unit in ("m", "m^0.5"))
    )
    return not (near or (found and rule.kind in ("at-least", "exceeds")))
