"""Claims of publications as data, and the rules that decide them by the values of several seeds.

A rule turns values into statements of one form: the median over seeds of a quantity lies between
two bounds. Each is decided by the distribution-free interval of that median (David and Nagaraja,
Order Statistics, 3rd ed., Sec. 7.1), which assumes no normal distribution and takes infinities.

A claim holds where each of its statements does, at the level of one (an intersection-union test:
Berger, Technometrics 24, 1982). It does not hold where one of m statements is false at a level
divided by m (Bonferroni). So either verdict is wrong in 5 % of the cases at most.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, inf, log2, nan
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.columns import frozen
from netsim.errors import BadInput, suggest_nearest
from netsim.fit import read_toml
from netsim.part import Part
from netsim.safe import describe_file_kind
from netsim.units import FloatArray
from scenarios.app.results.statistics import compute_median_interval
from scenarios.app.results.summary_keys import BY_KEY, find_measure
from scenarios.app.study.describe import build_model
from scenarios.app.study.load import list_bundled
from scenarios.app.study.yaml_document import read_document

ERROR = 0.05
"""share of wrong verdicts, at most"""
DECIDED = ("ours", "adapted", "seeds", "minutes", "version", "verdict", "reason")
"""columns of a table of verdicts, beside what the claim states"""
HOLDS = "holds"
FAILS = "does not hold"
UNLIKE = "not comparable"
OPEN = "undecided"
VERDICTS = (HOLDS, FAILS, UNLIKE, OPEN)
_MOST_SEEDS = 200
_ABOVE_ZERO = np.nextafter(0.0, 1.0)
_KINDS = read_toml(__package__, "kinds.toml")
_MARGINS = read_toml(__package__, "margins.toml")


def count_seeds_needed(n_statements: int) -> int:
    """Count the seeds with which each of so many statements can be refuted: the least n with
    2^(1-n) <= ERROR / n_statements, as 6, 7, 7, 8 of 1 to 4.
    """
    return 1 + ceil(log2(n_statements / ERROR))


@frozen
class MedianBounds:
    """The median over seeds of `values` (n,) lies in [low, high]; NaN where a seed cannot say."""

    values: FloatArray
    low: float
    high: float = inf

    def decide(self, n_statements: int = 1) -> str:
        """Decide it, as one of `n_statements`: HOLDS where the interval of the median lies inside,
        FAILS where a wider one lies outside; else OPEN, as with too few seeds.
        """
        inner = compute_median_interval(self.values)
        if inner.coverage >= 1 - ERROR and self.low <= inner.low and inner.high <= self.high:
            return HOLDS
        error = ERROR / n_statements
        outer = compute_median_interval(self.values, error)
        if outer.coverage >= 1 - error and (outer.high < self.low or outer.low > self.high):
            return FAILS
        return OPEN

    def compute_detectable_effect(self) -> float:
        """Compute the least distance of a median from its bound at which 19 of 20 plays would end
        with HOLDS, if seeds differ by a normal law with the standard deviation of ours.

        It is s Phi^-1(1 - q) with P(Bin(n, q) < k) = 0.95. NaN of fewer than two finite values.
        """
        from scipy.special import bdtri, ndtri

        finite = self.values[np.isfinite(self.values)]
        if len(finite) < 2:
            return nan
        k = compute_median_interval(finite).k
        return float(np.std(finite, ddof=1) * ndtri(1 - bdtri(k - 1, len(finite), 1 - ERROR)))

    def estimate_seeds(self, n_statements: int) -> int:
        """Estimate how many seeds would decide it, if they go on to differ as now; 0: over 200."""
        from scipy.stats import binom

        values = self.values[~np.isnan(self.values)]
        sides = np.array([values < self.low, values > self.high])
        counts = [*sides.sum(axis=1), (~sides.any(axis=0)).sum()]
        for n in range(count_seeds_needed(n_statements), _MOST_SEEDS + 1):
            k = binom.ppf(ERROR / n_statements / 2, n, 0.5)
            if n * (1 - max(counts) / max(len(values), 1)) < k and n > len(values):
                return n
        return 0


class ClaimRule(Part):
    """How a key of the summary, over seeds, decides a claim.

    at-most, at-least : no label's median is above, or below, the bound. between : each lies between
    `bound` and `upper`. within : each is the printed value, up to the factor of its unit. exceeds,
    no-more-than : with every label the value is at least, or at most, `margin` above that of the
    other key of the same run. order : values increase from label to label. curve : labels are
    pairs, a pair a point, and the first of each is below the second. ratio : the first label's
    value is at least `bound` times the second's. alike : the first is the second, up to the factor
    of its unit (two one-sided tests). diminishing : from the second label to the third there is at
    most `share` of the gain from the first to the second; with `other`, of the gain per unit that
    this key loses. Labels are compared seed by seed. margins.toml has the factors.
    """

    kind: Literal[
        "at-most",
        "at-least",
        "between",
        "within",
        "exceeds",
        "no-more-than",
        "order",
        "curve",
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
    upper: float = inf
    """upper bound of the median"""
    other: str = ""
    """key of the summary that it is compared with, or whose loss a gain costs"""
    given: str = ""
    """key of the summary that the first and the last label must share, up to the factor of its
    unit, where it would favour the verdict"""
    margin: float = 0.0
    """difference that counts, in the unit of the keys"""
    share: float = Field(0.5, gt=0, le=1)
    """of the first gain"""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        needs, optional = (set(_KINDS[self.kind][name]) for name in ("needs", "takes"))
        n_min, n_max = _KINDS[self.kind]["labels"]
        settings = self.model_fields_set - {"kind", "key", "labels"}
        for name in [*sorted(needs - settings), *sorted(settings - needs - optional)]:
            mistake = "needs one" if name in needs else "does not take it"
            raise ValueError(f"{name}: a rule of kind {self.kind} {mistake}")
        if not n_min <= len(self.labels) <= n_max:
            raise ValueError(
                f"labels: a rule of kind {self.kind} needs {n_min}{' or more' * (n_max > n_min)}"
            )
        if self.kind == "curve" and len(self.labels) % 2:
            raise ValueError("labels: a rule of kind curve needs pairs")
        if self.kind != "curve" and len(set(self.labels)) < len(self.labels):
            raise ValueError("labels: one stands twice; leave it out")
        if self.upper <= self.bound:
            raise ValueError(f"upper: must be above the bound of {self.bound:g}")
        if self.kind == "ratio" and self.bound <= 0:
            raise ValueError("bound: must be above 0")
        units = [_get_unit(key) for key in (*self.keys, *filter(None, [self.given]))]
        if "margin" in optional and units[0] != units[1]:
            first, second = (unit or "no unit" for unit in units[:2])
            raise ValueError(f"other: {self.other} is in {second}, and {self.key} in {first}")
        return self

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of a run's summary that it reads."""
        if self.other:
            return (self.key, self.other)
        return (self.key,)

    @property
    def factor(self) -> float:
        """Factor up to which two of its values are equal."""
        return get_margin(self.key)

    @property
    def words(self) -> str:
        """What must be true, in one line."""
        kind = _KINDS[self.kind]
        condition = kind["words"].format(
            self,
            *self.labels,
            increasing=" < ".join(self.labels),
            pairs=", ".join(map(" < ".join, self.pairs)),
            per=f" per {self.other}" * bool(self.other),
        )
        if self.labels and not kind["labels"][0]:
            condition += f" ({', '.join(self.labels)})"
        return f"{self.key}: {condition}" + f", given {self.given}" * bool(self.given)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Pairs of labels of which the first is said to be below the second; alike ones too."""
        if self.kind == "curve":
            return [*zip(self.labels[::2], self.labels[1::2], strict=True)]
        if self.kind == "order":
            return [*pairwise(self.labels)]
        return [(self.labels[1], self.labels[0])] if self.kind in ("ratio", "alike") else []

    @property
    def n_seeds(self) -> int:
        """Seeds that it needs."""
        n_statements = 2 if self.kind == "diminishing" else len(self.pairs) or len(self.labels)
        return count_seeds_needed(max(n_statements, 1))

    def build_median_bounds(self, values: FloatArray, printed: float) -> list[MedianBounds]:
        """Build what must be true of the values (key, label, seed), each label once and seeds
        paired; `printed` is the publication's value.
        """
        rows = values[0]
        if "margin" in _KINDS[self.kind]["takes"]:
            rows = subtract(*values)
        elif self.kind == "within":
            rows = divide(rows, np.array(printed))
        elif self.pairs and self.kind in ("order", "curve"):
            by_label = dict(zip(dict.fromkeys(self.labels), rows, strict=True))
            rows = np.array([subtract(by_label[high], by_label[low]) for low, high in self.pairs])
        elif self.pairs:
            rows = divide(rows[:1], rows[1:])
        elif self.kind == "diminishing":
            first, later = subtract(rows[1:], rows[:-1])
            if self.other:
                first, later = divide(
                    np.array([first, later]), subtract(values[1][:-1], values[1][1:])
                )
            rows = np.array([first, subtract(self.share * first, later)])
        low, high = {
            "at-most": (-inf, self.bound),
            "no-more-than": (-inf, self.margin),
            "exceeds": (self.margin, inf),
            "order": (_ABOVE_ZERO, inf),
            "curve": (_ABOVE_ZERO, inf),
            "within": (1 / self.factor, self.factor),
            "alike": (1 / self.factor, self.factor),
            "diminishing": (_ABOVE_ZERO, inf),
        }.get(self.kind, (self.bound, self.upper))
        return [MedianBounds(row, low, high) for row in rows]


def get_margin(key: str) -> float:
    """Get the factor up to which two values of a key are equal, that of its unit."""
    return _MARGINS.get(_get_unit(key), _MARGINS["others"])["factor"]


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


def subtract(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a - b, NaN where both are infinite."""
    with np.errstate(invalid="ignore"):
        return a - b


def divide(a: FloatArray, b: FloatArray) -> FloatArray:
    """Return a / b, NaN where both are infinite, or 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return a / b


# -- claims


class Claim(Part):
    """One statement of a publication, and the rule that decides it."""

    id: str = Field(min_length=1, max_length=40, pattern=r"^[a-z0-9-]+$")
    """name of the claim"""
    paper: str = Field(min_length=1, max_length=200)
    """the publication"""
    where: str = Field(min_length=1, max_length=60)
    """its section, and table or figure"""
    says: str = Field(min_length=1, max_length=300)
    """the statement, in our own words"""
    value: float | tuple[float, ...] | None = None
    """the printed value; a list has one per label of the rule"""
    scenario: str = Field(min_length=1, max_length=100)
    """name of the bundled scenario, or sweep, that tests it; or a scenario file, relative to the
    file of claims"""
    rule: ClaimRule
    """condition under which the claim holds"""
    seeds: int = Field(0, ge=0, le=_MOST_SEEDS)
    """seeds that it is played with, counted up from the scenario's first, if more than it needs"""
    missing: str = Field("", max_length=300)
    """what is not printed or not at hand, so that ours cannot be compared"""
    unprinted: str = Field("", max_length=200)
    """a setting on which it hangs and that is not printed: where ours contradicts it, nobody can
    say that theirs would"""
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
        if isinstance(self.value, tuple) and len(self.value) != len(self.rule.labels):
            raise ValueError("value: give one number, or one for each label of the rule")
        if self.adapted:
            _get_unit(self.adapted)
        return self

    @property
    def stated(self) -> dict[str, str]:
        """What a table of verdicts has of it; a verdict is of this claim only while none of it
        changes.
        """
        return self.model_dump(
            include={"id", "paper", "where", "says", "scenario", "missing", "unprinted"}
        ) | {
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
    """The result of a claim: holds, does not hold, not comparable, or undecided, and why; by how
    many seeds, the minutes that all runs of its scenario took by the clock, and the version of
    netsim that played them.
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
        """The verdict, and what makes it so."""
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
