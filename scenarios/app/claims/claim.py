"""Claims of publications as data, and the rules that decide them by the values of several seeds.

A rule turns values into statements of one form: the median over seeds of a quantity lies between
two bounds. Each is decided by the distribution-free interval of that median (David and Nagaraja,
Order Statistics, 3rd ed., Sec. 7.1), which assumes no normal distribution and takes infinities.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import inf, nan
from pathlib import Path
from typing import Literal, Self, TypeVar

import numpy as np
from pydantic import Field, model_validator

from netsim.columns import frozen
from netsim.errors import BadInput, suggest_nearest
from netsim.fit import read_toml
from netsim.part import Part
from netsim.safe import describe_file_kind
from netsim.units import FloatArray
from scenarios.app.results.summary_keys import BY_KEY, find_measure, read_value
from scenarios.app.study import Record
from scenarios.app.study.describe import build_model
from scenarios.app.study.load import list_bundled
from scenarios.app.study.yaml_document import read_document

CONFIDENCE = 0.95
DECIDED = ("ours", "adapted", "seeds", "minutes", "version", "verdict", "reason")
"""columns of a table of verdicts, beside what the claim states"""
HOLDS = "holds"
FAILS = "does not hold"
OPEN = "undecided"
_ABOVE_ZERO = np.nextafter(0.0, 1.0)
_KINDS = read_toml(__package__, "kinds.toml")


@frozen
class MedianBounds:
    """The median over seeds of `values` (n,) lies in [low, high]; NaN where a seed cannot say."""

    values: FloatArray
    low: float
    high: float = inf

    def holds(self) -> bool | None:
        """Whether it is true: the interval of the median lies inside (True) or outside (False);
        None where neither.
        """
        low, high, _ = compute_median_bounds_and_coverage(self.values)
        if self.low <= low and high <= self.high:
            return True
        if high < self.low or low > self.high:
            return False
        return None


def compute_median_bounds_and_coverage(values: FloatArray) -> tuple[float, float, float]:
    """Compute lower end, upper end and coverage of the interval of a median, from order statistics.

    With x_(1) <= ... <= x_(n) it is [x_(k), x_(n+1-k)], which covers the median with probability 1
    - 2 P(Bin(n, 1/2) < k) at least; k is the largest with a coverage of 95 %. Fewer than six values
    do not reach it: then it is their range, which covers 1 - 2^(1-n). NaN is left out; (NaN, NaN,
    0) of nothing.
    """
    from scipy.stats import binom

    ordered = np.sort(values[~np.isnan(values)])
    n = len(ordered)
    if not n:
        return nan, nan, 0.0
    k = max(int(binom.ppf((1 - CONFIDENCE) / 2, n, 0.5)), 1)
    return ordered[k - 1], ordered[n - k], max(1 - 2 * binom.cdf(k - 1, n, 0.5), 0.0)


class ClaimRule(Part):
    """How a key of the summary, over seeds, decides a claim.

    at-most, at-least : no label's median is above, or below, the bound. within : every label's
    median is the printed value, give or take the tolerance. exceeds, no-more-than : with every
    label the value is at least, or at most, `margin` above that of the other key of the same run.
    order : values increase from label to label. ratio : the first label's value is at least `bound`
    times the second's. alike : neither is more than `bound` times the other. diminishing : from the
    second label to the third there is at most `share` of the gain from the first to the second.
    Labels are compared seed by seed.
    """

    kind: Literal[
        "at-most",
        "at-least",
        "within",
        "exceeds",
        "no-more-than",
        "order",
        "ratio",
        "alike",
        "diminishing",
    ]
    """what must be true"""
    key: str
    """key of the summary"""
    labels: tuple[str, ...] = ()
    """labels of the sweep; none: all of them, or the single run"""
    bound: float = 0.0
    """bound of the median, or of a ratio"""
    tolerance: float = Field(0.0, ge=0)
    """largest difference from the printed value"""
    other: str = ""
    """key of the summary that it is compared with"""
    margin: float = 0.0
    """difference that counts, in the unit of the keys"""
    share: float = Field(0.5, gt=0, lt=1)
    """of the first gain"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        needs = set(_KINDS[self.kind]["needs"])
        n_min, n_max = _KINDS[self.kind]["labels"]
        settings = self.model_fields_set - {"kind", "key", "labels"}
        takes = needs | ({"margin"} if "other" in needs else set())
        for name in [*sorted(needs - settings), *sorted(settings - takes)]:
            mistake = "needs one" if name in needs else "does not take it"
            raise ValueError(f"{name}: a rule of kind {self.kind} {mistake}")
        if not n_min <= len(self.labels) <= n_max:
            raise ValueError(
                f"labels: a rule of kind {self.kind} needs {n_min}{' or more' * (n_max > n_min)}"
            )
        if self.kind in ("ratio", "alike") and self.bound <= (self.kind == "alike"):
            raise ValueError(f"bound: must be above {int(self.kind == 'alike')}")
        units = [_get_unit(key) for key in self.keys]
        if len(set(units)) > 1:
            first, second = (unit or "no unit" for unit in units)
            raise ValueError(f"other: {self.other} is in {second}, and {self.key} in {first}")
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of a run's summary that it reads."""
        if self.other:
            return (self.key, self.other)
        return (self.key,)

    @property
    def words(self) -> str:
        """What must be true, in one line."""
        kind = _KINDS[self.kind]
        condition = kind["words"].format(self, *self.labels, increasing=" < ".join(self.labels))
        if self.labels and not kind["labels"][0]:
            condition += f" ({', '.join(self.labels)})"
        return f"{self.key}: {condition}"

    def compute_value(self, run: Record) -> float:
        """Compute what it looks at in a run, NaN where that is missing, infinite where a null means
        so.
        """
        return reduce(_subtract, (read_value(run, key) for key in self.keys))

    def build_median_bounds(self, values: FloatArray, printed: float) -> list[MedianBounds]:
        """Build what must be true of the values (label, seed), seeds paired; `printed` is the
        publication's value.
        """
        low, high = {
            "at-most": (-inf, self.bound),
            "at-least": (self.bound, inf),
            "exceeds": (self.margin, inf),
            "no-more-than": (-inf, self.margin),
            "within": (printed - self.tolerance, printed + self.tolerance),
        }.get(self.kind, (0.0, inf))
        gains = [*map(_subtract, values[1:], values)]
        if self.kind == "order":
            return [MedianBounds(gain, _ABOVE_ZERO) for gain in gains]
        if self.kind == "diminishing":
            first, later = gains
            return [
                MedianBounds(first, _ABOVE_ZERO),
                MedianBounds(_subtract(self.share * first, later), 0.0),
            ]
        if self.kind == "ratio":
            values = _subtract(values[0], self.bound * values[1])[None]
        elif self.kind == "alike":
            values = _subtract(self.bound * values, values[::-1])
        return [MedianBounds(row, low, high) for row in values]


def _get_unit(key: str) -> str:
    """Get the unit of a key. Raises ValueError if no summary has it."""
    measure = find_measure(key)
    if (
        measure is None
        or measure.key == "utility.NAME"
        or (measure.is_pattern and key == measure.key)
    ):
        hint = suggest_nearest(key, BY_KEY) or "; see netsim show DIR --verbose"
        raise ValueError(f"no summary has a key {key[:60]!r}{hint}")
    return measure.unit


_Numbers = TypeVar("_Numbers", float, FloatArray)


def _subtract(a: _Numbers, b: _Numbers) -> _Numbers:
    """Return a - b, NaN where both are infinite."""
    with np.errstate(invalid="ignore"):
        return a - b


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
    """name of the bundled scenario, or sweep, that tests it; or a scenario file, relative to the
    file of claims"""
    rule: ClaimRule
    """condition under which the claim holds"""
    adapted: str = ""
    """key of the summary with what an attacker that knows the defense reaches in the same runs"""
    differs: str = Field("", max_length=600)
    """why ours differ from what is printed, or what was tried"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.rule.kind == "within" and not isinstance(self.value, float):
            raise ValueError(
                "value: a rule of kind within needs the one printed value that it compares with"
            )
        if self.adapted:
            _get_unit(self.adapted)
        return self

    @property
    def stated(self) -> dict[str, str]:
        """What a table of verdicts has of it; a verdict is of this claim only while none of it
        changes.
        """
        return self.model_dump(include={"id", "paper", "where", "says", "scenario"}) | {
            "key": self.rule.key,
            "rule": self.rule.words,
            "value": self.printed.removeprefix("-"),
        }

    @property
    def printed(self) -> str:
        """The paper's value."""
        if self.value is None:
            return "-"
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        return ", ".join(f"{value:g}" for value in values)


@dataclass(frozen=True)
class Verdict:
    """The result of a claim: holds, does not hold, or undecided, and why; by how many seeds, the
    minutes that all runs of its scenario took by the clock, and the version of netsim that played
    them.
    """

    claim: Claim
    verdict: str
    reason: str = ""
    ours: str = "-"
    adapted: str = ""
    seeds: str = ""
    minutes: str = ""
    version: str = ""

    @property
    def text(self) -> str:
        """The verdict, and why it is undecided."""
        if self.reason:
            return f"{self.verdict} ({self.reason})"
        return self.verdict

    @property
    def row(self) -> dict[str, str]:
        """The verdict and its claim as a row of the table."""
        return self.claim.stated | {name: getattr(self, name) for name in DECIDED}


class Unplayed(Part):
    """A figure or table of a publication of which no scenario decides anything, and why."""

    paper: str = Field(min_length=1, max_length=200)
    """the publication"""
    where: str = Field(min_length=1, max_length=60)
    """the figure or table"""
    why: str = Field(min_length=1, max_length=300)
    """what it shows, and why it is not played"""


class Claims(Part):
    """A file of claims."""

    claims: tuple[Claim, ...] = Field(min_length=1)
    """all of them, in the order of the tables"""
    unplayed: tuple[Unplayed, ...] = ()
    """the other figures and tables of the same publications"""

    @model_validator(mode="after")
    def _unique(self) -> Self:
        ids = [c.id for c in self.claims]
        if twice := [name for name in ids if ids.count(name) > 1]:
            raise ValueError(
                f"claims: the id {twice[0]!r} stands {ids.count(twice[0])} times; rename one"
            )
        papers = {c.paper for c in self.claims}
        if other := [name.paper for name in self.unplayed if name.paper not in papers]:
            raise ValueError(
                f"unplayed: no claim is of {other[0]!r}; name a publication as its claims do"
            )
        return self


BUNDLED_CLAIMS = Path(__file__).with_name("claims.yaml")
"""the claims that come with the program"""
BUNDLED_VERDICTS = BUNDLED_CLAIMS.with_name("results.csv")
"""the verdicts on them that were kept when their scenarios were last played"""


def read_claims(path: Path) -> Claims:
    """Read a file of claims. Raises BadInput: one line for each mistake in it."""
    document = read_document(path)
    written = build_model(Claims, document)
    wrong = []
    claims = []
    for i, claim in enumerate(written.claims):
        try:
            claims.append(
                claim.model_copy(
                    update={"scenario": _resolve_scenario(claim.scenario, path.parent)}
                )
            )
        except ValueError as error:
            wrong.append(f"{document.format_place(('claims', i, 'scenario'))}: {error}")
    if wrong:
        raise BadInput(*wrong)
    return written.model_copy(update={"claims": tuple(claims)})


def select_claims(claims: Sequence[Claim], paper: str) -> list[Claim]:
    """Select claims of publications whose name contains `paper`. BadInput: there is none."""
    selected = [claim for claim in claims if paper.lower() in claim.paper.lower()]
    if not selected:
        papers = ", ".join(dict.fromkeys(claim.paper for claim in claims))
        raise BadInput(f"--paper {paper}: no claim of such a publication; there are: {papers}")
    return selected


def _resolve_scenario(scenario: str, folder: Path) -> str:
    """Resolve the name of a bundled scenario, or the path of a file. Raises ValueError for what is
    neither.
    """
    names = list_bundled()
    file = folder / scenario
    if scenario in names:
        return scenario
    if file.suffix in (".yaml", ".yml"):
        if describe_file_kind(file) == "file":
            return str(file)
        raise ValueError(
            f"there is no scenario file {file}; a path counts from the folder of this file"
        )
    near = (
        suggest_nearest(scenario, names)
        or "; netsim list names them, or give the path of a .yaml file"
    )
    raise ValueError(f"no bundled scenario {scenario!r}{near}")
