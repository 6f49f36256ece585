"""Claims against our runs: folders are given or played, and each claim gets its verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.record import write_text
from netsim.safe import what_is
from scenarios.app.claims.claim import FAILS, HOLDS, OPEN, Claim, Verdict
from scenarios.app.claims.play import Tell, check_title, play, title_in, title_of
from scenarios.app.claims.rules import AtLeast, AtMost, Exceeds, Rule, Statement, decided
from scenarios.app.claims.text import claims_csv
from scenarios.app.results.failures import FAILURES
from scenarios.app.results.folder import MANIFEST, SUMMARY, admit_several, inside, read_json, read_summary
from scenarios.app.results.gathered import one_kind
from scenarios.app.results.over_seeds import cell_text, over_seeds
from scenarios.app.results.read import RUNS, listed
from scenarios.app.results.statistics import counted
from scenarios.app.results.summary_keys import USEFUL, declaration
from scenarios.app.run.executors.executor import HIDDEN, SHARED, Engine
from scenarios.app.run.executors.processes import ON_PROCESSES
from scenarios.app.run.how import USUAL, How
from scenarios.app.study.error_messages import nearest
from scenarios.app.study.load import bundled
from scenarios.app.study.yaml_document import one_line

CLAIMS, CLAIMS_PAGE = "claims.csv", "claims.html"
Labelled = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""label -> seed -> summary of its run; a run outside of a sweep has the label ''."""


def labelled(folder: Path) -> Labelled:
    """Summaries of the finished runs in the folder of a run or of a sweep."""
    if what_is(folder) != "folder":
        raise BadInput(one_line(f"{folder}: no such folder; give the folder of a run or of a sweep"))
    alone = bool(what_is(folder / MANIFEST)) and not what_is(folder / RUNS)
    by_label: dict[str, dict[int, Mapping[str, Any]]] = {}
    one_kind(runs := [one for one in ([("", folder)] if alone else listed(folder)) if what_is(one[1] / SUMMARY)])
    for label, path in runs:
        by_label.setdefault(label, {})[_seed(path / MANIFEST)] = read_summary(path)
    return by_label


def _seed(path: Path) -> int:
    seed = read_json(path).get("seed")
    if not isinstance(seed, int):
        raise BadInput(one_line(f"{path}: seed is missing or damaged; run the study again"))
    return seed


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
    wanted = list(dict.fromkeys(c.scenario for c in claims))
    name, equals, rest = run.partition("=")
    if equals and name in wanted:
        check_title(Path(rest), name, f"--run {run}: ")
        return name, Path(rest)
    if equals and not what_is(run):
        raise BadInput(one_line(f"--run {run}: no claim is about {name!r}{nearest(name, wanted)}{_listed(wanted)}"))
    title = title_in(Path(run), f"--run {run}: ")
    for scenario in wanted:
        if title_of(scenario) == title:
            return scenario, Path(run)
    raise BadInput(
        one_line(
            f"--run {run}: holds runs of {title!r}, and no claim is about a scenario of that title{_listed(wanted)}"
        )
    )


def _listed(names: Sequence[str]) -> str:
    """The names, where they fit on a line."""
    text = ", ".join(names)
    return f"; they are about: {text}" if len(text) <= 400 else "; netsim claims lists them"


def place_of(scenario: str) -> str:
    """Where `claims --out` keeps the runs of a scenario: its name, or that of its file."""
    return scenario if scenario in bundled() else Path(scenario).stem


def admit_out(out: Path, claims: Sequence[Claim]) -> None:
    """Refuse a folder with what does not belong there, or in which two scenarios would have one place."""
    places: dict[str, str] = {}
    for scenario in dict.fromkeys(c.scenario for c in claims):
        other = places.setdefault(place_of(scenario), scenario)
        if other != scenario:
            raise BadInput(
                one_line(f"{out / place_of(scenario)}: both {other} and {scenario} would be played there; rename one")
            )
    left = [name for name in inside(out) if name.startswith((HIDDEN, SHARED))]
    known = [CLAIMS, CLAIMS_PAGE, FAILURES, *(Path(place).parts[0] for place in places), *left]
    admit_several(out, known, "these claims")


def places_of(claims: Iterable[Claim], folders: Mapping[str, Path], out: Path | None) -> dict[str, Path]:
    """Scenario -> the folder of its runs: the one that was given, or its place in `out`."""
    played = {} if out is None else {c.scenario: out / place_of(c.scenario) for c in claims}
    return {**played, **folders}


def labels_of(claims: Iterable[Claim], scenario: str) -> set[str]:
    """The labels of a scenario that the rules of these claims look at; none where one of them looks at all."""
    rules = [c.rule for c in claims if c.scenario == scenario]
    return set().union(*(r.labels for r in rules)) if all(r.labels for r in rules) else set()


def evaluate_all(
    claims: Sequence[Claim],
    folders: Mapping[str, Path],
    out: Path | None,
    jobs: int,
    tell: Tell,
    engine: Engine = ON_PROCESSES,
    how: How = USUAL,
    replace: bool = False,
) -> list[Verdict]:
    """Verdicts by the given folders (scenario -> folder); with `out` the other scenarios are played there first.

    The claims of a scenario that cannot be played, or of which a run failed, stay undecided; claims.csv goes into
    `out`.
    """
    wanted = list(dict.fromkeys(c.scenario for c in claims))
    runs = {name: labelled(folders[name]) for name in wanted if name in folders}
    why: dict[str, str] = {}
    if out is not None:
        missing = {name: (out / place_of(name), labels_of(claims, name)) for name in wanted if name not in folders}
        why = play(missing, out, jobs, tell, engine, how, replace)
        for name in (name for name in missing if name not in why):
            try:
                runs[name] = labelled(missing[name][0])
            except BadInput as error:
                why[name] = error.lines[0]
    verdicts = [evaluate(c, runs.get(c.scenario, {}), why.get(c.scenario, "")) for c in claims]
    if out is not None:
        _keep(out, claims_csv(verdicts))
    return verdicts


def _keep(out: Path, text: str) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / CLAIMS, text)
    except OSError as error:
        raise BadInput(one_line(f"{out / CLAIMS}: cannot be written ({error.strerror})")) from None


def evaluate(claim: Claim, runs: Labelled, why_none: str = "") -> Verdict:
    """The verdict; `why_none`: why there are no runs."""
    rule = claim.rule
    if not runs:
        return Verdict(claim, OPEN, f"no run: {why_none or claim.scenario}")
    labels = rule.labels or tuple(runs)
    missing = [label for label in labels if label not in runs]
    if missing:
        return Verdict(claim, OPEN, f"no run: no label “{missing[0]}” in {claim.scenario}")
    ours = "; ".join(
        f"{label}: {text}" if label else text
        for label in labels
        if (text := " against ".join(cell_text([*runs[label].values()], key) for key in rule.keys))
    )
    unknown = [_missing(label, runs, rule) for label in labels]
    if any(unknown):
        return Verdict(claim, OPEN, next(filter(None, unknown)), ours)
    seeds = sorted(set.intersection(*(set(runs[label]) for label in labels)))
    if not seeds:
        return Verdict(claim, OPEN, "no seed has runs of every label", ours)
    values = np.array([[rule.value(runs[label][seed]) for seed in seeds] for label in labels])
    statements = rule.statements(values, claim.value if isinstance(claim.value, float) else np.nan)
    if any(2 * np.isnan(s.values).sum() > len(seeds) for s in statements):
        return Verdict(claim, OPEN, "with more than half of the seeds the estimates of both labels diverged", ours)
    holds = decided(statements)
    if len(seeds) == 1:
        return Verdict(claim, OPEN, f"one seed gives no interval; with this seed it {HOLDS if holds else FAILS}", ours)
    useless = [_useless(label, runs) for label in labels] if _hides(rule) else []
    if any(useless):
        alone = {True: HOLDS, False: FAILS, None: "stays undecided"}[holds]
        return Verdict(claim, OPEN, f"{next(filter(None, useless))}; with all models it {alone}", ours)
    if holds is None:
        return Verdict(claim, OPEN, f"too few seeds: {_undecided(statements)}", ours)
    return Verdict(claim, HOLDS if holds else FAILS, "", ours)


def _undecided(statements: Sequence[Statement]) -> str:
    """The first statement that the seeds leave undecided."""
    return next(s.text() for s in statements if s.holds() is None)


def _hides(rule: Rule) -> bool:
    """Whether the rule takes low leakage for privacy.

    That an error is at most some metres, or that at least some share of homes is found, is real with any model.
    """
    known = declaration(rule.key)
    if known is None or known.group != "attack":
        return False
    found = "_within_near." in known.key and known.unit == "%"
    near = isinstance(rule, AtMost) and known.unit in ("m", "m^0.5")
    return not (near or (found and isinstance(rule, AtLeast | Exceeds)))


def _missing(label: str, runs: Labelled, rule: Rule) -> str:
    """Why a label has no median: half of its runs or more have no value."""
    for key in rule.keys:
        lacking = sum(bool(np.isnan(over_seeds([run], key)[1])) for run in runs[label].values())
        if 2 * lacking >= len(runs[label]):
            return f"{key} is null in {_of(lacking, label, runs)}"
    return ""


def _useless(label: str, runs: Labelled) -> str:
    """Why low leakage of a label proves nothing: half of its models or more are not useful."""
    useless = sum(not run.get(USEFUL.of()) for run in runs[label].values())
    return f"the model is not useful in {_of(useless, label, runs)}" if 2 * useless >= len(runs[label]) else ""


def _of(k: int, label: str, runs: Labelled) -> str:
    return f"{k} of {counted(len(runs[label]), 'run')}" + (f" of “{label}”" if label else "")
