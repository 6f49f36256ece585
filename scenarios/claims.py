"""What a publication says, as data, set against our own runs: holds, does not hold, or cannot be judged.

A claim holds where the interval over seeds of every median that its rule looks at lies within the rule's bounds, and
does not hold where one lies outside; otherwise the seeds do not settle it. One seed settles nothing. Little leakage
proves nothing where most models are useless, and much leakage is real there too.
"""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from io import StringIO
from itertools import zip_longest
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.errors import BadInput
from netsim.part import Part
from netsim.record import guarded, write_text
from netsim.safe import what_is
from scenarios.document import one_line, read
from scenarios.folder import MANIFEST, SUMMARY, admit_several, read_json
from scenarios.keys import cell_text, over_seeds
from scenarios.loaded import RUNS, listed
from scenarios.messages import build, nearest
from scenarios.rules import RULES, AtMost, Rule, Statement, Within, settled
from scenarios.study import bundled, find, load
from scenarios.sweep import Point, points, sweep

CLAIMS = "claims.csv"
HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be judged"

Labelled = Mapping[str, Mapping[int, Mapping[str, Any]]]
"""label -> seed -> summary of its run; a run outside of a sweep has the label ''."""


# -- claims


class Claim(Part):
    """One statement of a publication, and how to judge it."""

    id: str = Field(min_length=1, max_length=40, pattern=r"^[a-z0-9-]+$")
    """name of the claim"""
    paper: str = Field(min_length=1, max_length=200)
    """the publication"""
    where: str = Field(min_length=1, max_length=60)
    """its table or figure"""
    says: str = Field(min_length=1, max_length=300)
    """what it says, in our own words"""
    value: float | tuple[float, ...] | None = None
    """the printed value; a list has one per label of the rule"""
    scenario: str = Field(min_length=1, max_length=100)
    """name of the bundled scenario, or sweep, that plays it; or a scenario file, relative to the file of claims"""
    rule: Annotated[Rule, RULES]
    """what must be seen for the claim to hold"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if isinstance(self.value, tuple) and len(self.value) != len(self.rule.labels):
            raise ValueError(f"value: {len(self.value)} values for {len(self.rule.labels)} labels; give one for each")
        if isinstance(self.rule, Within) and not isinstance(self.value, float):
            raise ValueError("value: a rule of kind within needs the one printed value that it compares with")
        return self

    @property
    def printed(self) -> str:
        """The paper's value."""
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        return ", ".join("-" if v is None else f"{v:g}" for v in values)


class Claims(Part):
    """A file of claims."""

    minutes: dict[str, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    """scenario -> minutes that playing its claims takes one core"""
    claims: tuple[Claim, ...] = Field(min_length=1)
    """all of them, in the order of the tables"""

    @model_validator(mode="after")
    def _unique(self) -> Self:
        ids = [c.id for c in self.claims]
        for one in dict.fromkeys(ids):
            if ids.count(one) > 1:
                raise ValueError(f"claims: the id {one!r} stands {ids.count(one)} times; rename one")
        return self


def bundled_claims() -> Path:
    """The claims that come with the program (the underscore keeps them out of the list of scenarios)."""
    return Path(str(resources.files("scenarios"))) / "claims.yaml"


def read_claims(path: Path, paper: str = "") -> list[Claim]:
    """The claims of a file, of those publications whose name contains `paper`.

    Raises
    ------
    BadInput : one line for each mistake in the file, or for a word that fits no publication.
    """
    document = read(path)
    written = build(Claims, document).claims
    wrong = [(i, says) for i, claim in enumerate(written) if (says := _unknown(claim.scenario, path.parent))]
    if wrong:
        raise BadInput(*(one_line(f"{document.at(('claims', i, 'scenario'))}: {says}") for i, says in wrong))
    every = [_placed(claim, path.parent) for claim in written]
    found = [c for c in every if paper.lower() in c.paper.lower()]
    if not found:
        known = ", ".join(dict.fromkeys(c.paper for c in every))
        raise BadInput(one_line(f"--paper {paper}: no claim of such a publication; there are: {known}"))
    return found


def playing_minutes(path: Path) -> Mapping[str, float]:
    """Scenario -> minutes of one core that playing its claims takes, as a file of claims states them."""
    return build(Claims, read(path)).minutes


def _placed(claim: Claim, folder: Path) -> Claim:
    """With the path of a scenario file of its own seen from here, and no more from the file of claims."""
    if claim.scenario in bundled():
        return claim
    return claim.model_copy(update={"scenario": str(folder / claim.scenario)})


def _unknown(scenario: str, folder: Path) -> str:
    """Why nobody can play it; empty if it is bundled, or a file."""
    names, file = bundled(), folder / scenario
    if scenario in names or (file.suffix in (".yaml", ".yml") and what_is(file) == "file"):
        return ""
    if file.suffix in (".yaml", ".yml"):
        return f"there is no scenario file {file}; a path counts from the folder of this file"
    near = nearest(scenario, list(names)) or "; netsim list names them, or give the path of a .yaml file"
    return f"no bundled scenario {scenario!r}{near}"


def unplayable(claims: Iterable[Claim]) -> list[str]:
    """One line for each label of a claim that the sweep of its scenario does not have."""
    lines = []
    for claim in claims:
        study = load(claim.scenario)
        labels = [p.label for p in points(study, {})] if study.vary is not None else []
        missing = [label for label in claim.rule.labels if label not in labels]
        lines += [f"{claim.id}: {claim.scenario} has no label {x!r}{nearest(x, labels)}" for x in missing]
    return lines


# -- runs


def labelled(folder: Path) -> Labelled:
    """Summaries of the finished runs in the folder of a run or of a sweep."""
    if what_is(folder) != "folder":
        raise BadInput(one_line(f"{folder}: no such folder; give the folder of a run or of a sweep"))
    alone = bool(what_is(folder / MANIFEST)) and not what_is(folder / RUNS)
    found: dict[str, dict[int, Mapping[str, Any]]] = {}
    for label, path in [("", folder)] if alone else listed(folder):
        if what_is(path / SUMMARY):
            found.setdefault(label, {})[_seed(path / MANIFEST)] = _summary(path / SUMMARY)
    return found


def _seed(path: Path) -> int:
    seed = read_json(path).get("seed")
    if not isinstance(seed, int):
        raise BadInput(one_line(f"{path}: seed is missing or damaged; run the study again"))
    return seed


def _summary(path: Path) -> Mapping[str, Any]:
    summary = read_json(path)
    wrong = [key for key, value in summary.items() if not isinstance(value, int | float | None)]
    if wrong:
        raise BadInput(one_line(f"{path}: {wrong[0]} is not a figure; run the study again"))
    return summary


def folders_of(runs: Sequence[str], claims: Sequence[Claim]) -> dict[str, Path]:
    """Scenario -> folder, as several `[SCENARIO=]DIR` say."""
    found: dict[str, Path] = {}
    for run in runs:
        name, folder = scenario_of(run, claims)
        if name in found:
            raise BadInput(one_line(f"--run {run}: {name} is already judged by {found[name]}; give one folder for it"))
        found[name] = folder
    return found


def scenario_of(run: str, claims: Sequence[Claim]) -> tuple[str, Path]:
    """Scenario and folder that `[SCENARIO=]DIR` means; without a name, by the title that its runs carry.

    Raises BadInput where the folder holds no runs, or those of another scenario.
    """
    wanted = list(dict.fromkeys(c.scenario for c in claims))
    name, equals, rest = run.partition("=")
    if equals and name in wanted:
        _check_title(Path(rest), name, f"--run {run}: ")
        return name, Path(rest)
    if equals and not what_is(run):
        raise BadInput(one_line(f"--run {run}: no claim is about {name!r}{nearest(name, wanted)}{_listed(wanted)}"))
    title = _title(Path(run), f"--run {run}: ")
    for scenario in wanted:
        if _title_of(scenario) == title:
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


def _title_of(scenario: str) -> Any:
    return read(find(scenario)).data.get("title")


def _title(folder: Path, where: str) -> Any:
    """The title that the runs in a folder carry."""
    if what_is(folder) != "folder":
        raise BadInput(one_line(f"{where}no such folder; give the folder of a run or of a sweep"))
    first = folder if what_is(folder / MANIFEST) else listed(folder)[0][1]
    return read_json(first / MANIFEST).get("title")


def _check_title(folder: Path, scenario: str, where: str = "") -> None:
    """Refuse a folder whose runs are not of the scenario."""
    title, wanted = _title(folder, where), _title_of(scenario)
    if title != wanted:
        raise BadInput(
            one_line(
                f"{where}{folder} holds runs of {title!r}, but {scenario} is {wanted!r}; give the folder of its runs"
            )
        )


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
    admit_several(out, [CLAIMS, *(Path(place).parts[0] for place in places)], "these claims")


def play(name: str, labels: Collection[str], out: Path, jobs: int, tell: Callable[[str], None]) -> Path:
    """Run a scenario, or these labels of a sweep (none: all of them), into its folder in `out`, which is returned.

    What is finished stays, the rest goes on.
    """
    folder = out / place_of(name)
    study = load(name)
    if study.vary is not None:
        if what_is(folder / RUNS):
            _check_title(folder, name)

        def done(k: int, n: int, point: Point, _: Mapping[str, Any]) -> None:
            tell(f"{name} {k}/{n}: {point.label}, seed {point.seed}")

        sweep(name, study, folder, jobs, {}, done, only=labels)
        return folder
    if what_is(folder / MANIFEST) and what_is(folder / SUMMARY):
        _check_title(folder, name)
        return folder
    from scenarios.runner import run

    tell(f"{name}: one run")
    run(study, folder, command="netsim claims")
    return folder


def labels_of(claims: Iterable[Claim], scenario: str) -> set[str]:
    """The labels of a scenario that the rules of these claims look at; none where one of them looks at all."""
    rules = [c.rule for c in claims if c.scenario == scenario]
    return set().union(*(r.labels for r in rules)) if all(r.labels for r in rules) else set()


def affordable(claims: Sequence[Claim], minutes: Mapping[str, float], most: float) -> list[Claim]:
    """The claims of those scenarios that together take `most` minutes of one core, the cheapest ones first."""
    chosen, spent = set(), 0.0
    for cost, name in sorted((minutes[n], n) for n in {c.scenario for c in claims} if n in minutes):
        spent += cost
        if spent <= most:
            chosen.add(name)
    return [c for c in claims if c.scenario in chosen]


# -- judging


@dataclass(frozen=True)
class Judgement:
    """What our runs say of a claim."""

    claim: Claim
    verdict: str
    reason: str = ""
    ours: str = "-"


def judge_all(
    claims: Sequence[Claim], folders: Mapping[str, Path], out: Path | None, jobs: int, tell: Callable[[str], None]
) -> list[Judgement]:
    """Judge by the given folders (scenario -> folder); with `out` the other scenarios are played there first.

    A scenario that cannot be played leaves its claims open; claims.csv goes into `out`.
    """
    runs: dict[str, Labelled] = {}
    why: dict[str, str] = {}
    for name in dict.fromkeys(c.scenario for c in claims):
        try:
            if name in folders:
                runs[name] = labelled(folders[name])
            elif out is not None:
                runs[name] = labelled(play(name, labels_of(claims, name), out, jobs, tell))
        except BadInput as error:
            if name in folders:
                raise
            why[name] = error.lines[0]
    found = [judge(c, runs.get(c.scenario, {}), why.get(c.scenario, "")) for c in claims]
    if out is not None:
        _keep(out, claims_csv(found))
    return found


def _keep(out: Path, text: str) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        write_text(out / CLAIMS, text)
    except OSError as error:
        raise BadInput(one_line(f"{out / CLAIMS}: cannot be written ({error.strerror})")) from None


def judge(claim: Claim, runs: Labelled, why_none: str = "") -> Judgement:
    """The verdict; `why_none`: why there are no runs."""
    rule = claim.rule
    if not runs:
        return Judgement(claim, OPEN, f"run missing: {why_none or claim.scenario}")
    labels = rule.labels or tuple(runs)
    missing = [label for label in labels if label not in runs]
    if missing:
        return Judgement(claim, OPEN, f"run missing: no label “{missing[0]}” in {claim.scenario}")
    ours = "; ".join(
        f"{label}: {text}" if label else text
        for label in labels
        if (text := cell_text([*runs[label].values()], rule.key))
    )
    unknown = [_silent(label, runs, rule.key) for label in labels]
    if any(unknown):
        return Judgement(claim, OPEN, next(filter(None, unknown)), ours)
    seeds = sorted(set.intersection(*(set(runs[label]) for label in labels)))
    if not seeds:
        return Judgement(claim, OPEN, "no seed was played for every label", ours)
    figures = np.array([[over_seeds([runs[label][seed]], rule.key)[1] for seed in seeds] for label in labels])
    said = rule.statements(figures, claim.value if isinstance(claim.value, float) else np.nan)
    if any(2 * np.isnan(s.values).sum() > len(seeds) for s in said):
        return Judgement(claim, OPEN, "more than half of the estimates diverged on both sides", ours)
    holds = settled(said)
    if len(seeds) == 1:
        return Judgement(claim, OPEN, f"one seed has no interval; alone it {HOLDS if holds else FAILS}", ours)
    useless = [_useless(label, runs) for label in labels] if _hides(rule) else []
    if any(useless):
        alone = {True: HOLDS, False: FAILS, None: "is not settled"}[holds]
        return Judgement(claim, OPEN, f"{next(filter(None, useless))}; ungated it {alone}", ours)
    if holds is None:
        return Judgement(claim, OPEN, f"seeds do not settle it: {_unsettled(said)}", ours)
    return Judgement(claim, HOLDS if holds else FAILS, "", ours)


def _unsettled(said: Sequence[Statement]) -> str:
    """The first statement that the seeds leave open."""
    return next(s.text() for s in said if s.settled() is None)


def _hides(rule: Rule) -> bool:
    """Whether the rule takes little leakage for privacy; that an error is small at most is real with any model."""
    return rule.key.startswith("attack.") and not (isinstance(rule, AtMost) and "_m" in rule.key)


def _silent(label: str, runs: Labelled, key: str) -> str:
    """Why a label has no median: half of its runs or more lack the figure."""
    lacking = sum(bool(np.isnan(over_seeds([run], key)[1])) for run in runs[label].values())
    return f"{key} is null in {_of(lacking, label, runs)}" if 2 * lacking >= len(runs[label]) else ""


def _useless(label: str, runs: Labelled) -> str:
    """Why low leakage of a label proves nothing: half of its models or more are useless."""
    useless = sum(not run.get("utility.useful") for run in runs[label].values())
    return f"useless model in {_of(useless, label, runs)}" if 2 * useless >= len(runs[label]) else ""


def _of(k: int, label: str, runs: Labelled) -> str:
    return f"{k} of {len(runs[label])} runs" + (f" of “{label}”" if label else "")


# -- in print


def claims_text(claims: Sequence[Claim]) -> str:
    """The claims themselves, aligned."""
    lines = [(c.id, c.where, c.says, c.printed, c.scenario) for c in claims]
    return aligned(("id", "where", "says", "paper's", "scenario"), lines, (24, 18, 56, 14, 24))


def judgements_text(found: Sequence[Judgement]) -> str:
    """Claims with what our runs say, aligned."""
    lines = [
        (j.claim.id, j.claim.where, j.claim.says, j.claim.printed, j.ours, _verdict(j)) for j in found
    ]  # fmt: skip
    return aligned(("id", "where", "says", "paper's", "ours, median [quartiles]", "verdict"), lines, _WIDTHS)


_WIDTHS = (24, 14, 40, 12, 34, 30)


def _verdict(of: Judgement) -> str:
    return f"{of.verdict} ({of.reason})" if of.reason else of.verdict


def aligned(head: Sequence[str], lines: Iterable[Sequence[str]], widths: Sequence[int]) -> str:
    """Columns of plain text, each cell wrapped to its width; an empty line between rows."""
    table = [[textwrap.wrap(one_line(cell), w) for cell, w in zip(line, widths, strict=True)] for line in lines]
    room = [
        max([len(name), *(len(row) for line in table for row in line[i])]) for i, name in enumerate(head)
    ]  # fmt: skip

    def printed(cells: Sequence[str]) -> str:
        return "  ".join(f"{cell:<{w}}" for cell, w in zip(cells, room, strict=True)).rstrip()

    blocks: Iterator[str] = ("\n".join(printed(row) for row in zip_longest(*line, fillvalue="")) for line in table)
    return "\n\n".join(["\n".join([printed(head), printed(["-" * w for w in room])]), *blocks])


def claims_csv(found: Iterable[Judgement]) -> str:
    """A row for each claim."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["id", "paper", "where", "says", "scenario", "key", "value", "ours", "verdict", "reason"])
    for j in found:
        c = j.claim
        value = "" if c.value is None else c.printed
        cells = [c.id, c.paper, c.where, c.says, c.scenario, c.rule.key, value, j.ours, j.verdict, j.reason]
        writer.writerow([guarded(cell) for cell in cells])
    return text.getvalue()
