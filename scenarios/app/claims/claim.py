"""Claims of publications as data, compared with our own runs: a claim holds, does not hold, or is undecided.

A claim holds where the interval over seeds of every median that its rule looks at lies within the rule's bounds, and
does not hold where one lies outside; otherwise it is undecided, as it is with one seed. Low leakage proves nothing
where at least half of the models are not useful; high leakage is real there too.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from netsim.errors import BadInput
from netsim.part import Part
from netsim.safe import what_is
from scenarios.app.claims.rules import RULES, Rule, Within
from scenarios.app.run.points import points
from scenarios.app.study.error_messages import build, nearest
from scenarios.app.study.load import bundled, load
from scenarios.app.study.yaml_document import one_line, read

# -- claims


class Claim(Part):
    """One statement of a publication, and the rule that decides it."""

    id: str = Field(min_length=1, max_length=40, pattern=r"^[a-z0-9-]+$")
    """name of the claim"""
    paper: str = Field(min_length=1, max_length=200)
    """the publication"""
    where: str = Field(min_length=1, max_length=60)
    """its table or figure"""
    says: str = Field(min_length=1, max_length=300)
    """the statement, in our own words"""
    value: float | tuple[float, ...] | None = None
    """the printed value; a list has one per label of the rule"""
    scenario: str = Field(min_length=1, max_length=100)
    """name of the bundled scenario, or sweep, that tests it; or a scenario file, relative to the file of claims"""
    rule: Annotated[Rule, RULES]
    """condition under which the claim holds"""

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
    return Path(str(resources.files("scenarios.app.claims"))) / "claims.yaml"


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
    chosen = [c for c in every if paper.lower() in c.paper.lower()]
    if not chosen:
        known = ", ".join(dict.fromkeys(c.paper for c in every))
        raise BadInput(one_line(f"--paper {paper}: no claim of such a publication; there are: {known}"))
    return chosen


def playing_minutes(path: Path) -> Mapping[str, float]:
    """Scenario -> minutes of one core that playing its claims takes, as a file of claims states them."""
    return build(Claims, read(path)).minutes


def _placed(claim: Claim, folder: Path) -> Claim:
    """With the path of a scenario file of its own seen from here, and no more from the file of claims."""
    if claim.scenario in bundled():
        return claim
    return claim.model_copy(update={"scenario": str(folder / claim.scenario)})


def _unknown(scenario: str, folder: Path) -> str:
    """Why it cannot be run; empty if it is bundled, or a file."""
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


def affordable(claims: Sequence[Claim], minutes: Mapping[str, float], most: float) -> list[Claim]:
    """The claims of those scenarios that together take `most` minutes of one core, the cheapest ones first."""
    chosen, spent = set(), 0.0
    for cost, name in sorted((minutes[n], n) for n in {c.scenario for c in claims} if n in minutes):
        spent += cost
        if spent <= most:
            chosen.add(name)
    return [c for c in claims if c.scenario in chosen]


# -- verdicts

HOLDS, FAILS, OPEN = "holds", "does not hold", "undecided"


@dataclass(frozen=True)
class Verdict:
    """The result of a claim: holds, does not hold, or undecided, and why."""

    claim: Claim
    verdict: str
    reason: str = ""
    ours: str = "-"
