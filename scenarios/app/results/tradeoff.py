"""What privacy costs: a mechanism's curve through its strengths, and the error of the map at matched privacy.

All figures of privacy here are larger where the attacker knows less. Of a label with several seeds the median stands.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.record import cell_text, guarded, unguarded
from netsim.safe import what_is
from scenarios.app.results.folder import SUMMARY, read_json, text_of
from scenarios.app.results.read import RUNS, listed
from scenarios.app.results.statistics import figure_text, quantile
from scenarios.app.results.summary_text import attacks
from scenarios.app.study.yaml_document import one_line

EXCHANGE = "exchange.csv"

Quartiles = tuple[float, float, float]


@dataclass(frozen=True)
class Measure:
    """A figure of privacy: its key after `attack.NAME.`, and what the attacker gets without an attack."""

    what: str
    unit: str
    key: str
    reference: str
    reference_says: str

    def text(self, value: float) -> str:
        """A value with its unit."""
        return "diverged" if np.isinf(value) else f"{figure_text(value)} {self.unit}"


EMD = Measure(
    "EMD (square root of SW1)", "√m", "emd_sqrt_m", "baseline.random_guess.emd_sqrt_m", "random guesses"
)  # fmt: skip
DISTANCE = Measure(
    "Centroid distance", "m", "centroid_error_m.median", "baseline.area_centre.error_m", "naming the middle of the area"
)  # fmt: skip
SW1 = Measure("SW1", "m", "sw1_m", "baseline.random_guess.sw1_m", "random guesses")
MATCHED = (EMD, DISTANCE)


@dataclass(frozen=True)
class Trial:
    """One finished run of a sweep, and where it stands: no curve means undefended."""

    label: str
    curve: str
    strength: float
    summary: Mapping[str, Any]


@dataclass(frozen=True)
class Point:
    """A label over its seeds: quartiles of the model's error and of a figure of privacy."""

    label: str
    curve: str
    strength: float
    runs: int
    useful: int
    rmse_db: Quartiles
    privacy: Quartiles

    @property
    def passes(self) -> bool:
        """The gate: whether most of its models are of use."""
        return 2 * self.useful > self.runs

    @property
    def drawable(self) -> bool:
        """Whether it has an error of its model, and a figure of privacy, which may be infinite."""
        return bool(np.isfinite(self.rmse_db[1])) and not np.isnan(self.privacy[1])


@dataclass(frozen=True)
class Match:
    """The error of a curve's model at a level of privacy; NaN, and why, where the curve does not reach it."""

    rmse_db: float
    why: str = ""
    best_db: float = np.inf
    """smallest error among its points that are more private than the level"""

    @property
    def text(self) -> str:
        return self.why or f"{figure_text(self.rmse_db)} dB"


@dataclass(frozen=True)
class Row:
    """All curves at one level; gated: only through points with a useful model."""

    attack: str
    measure: Measure
    level: float
    gated: bool
    matches: Mapping[str, Match]

    @property
    def ranking(self) -> list[str]:
        """The curves that reach the level, the one with the smallest error first."""
        known = [name for name, m in self.matches.items() if not np.isnan(m.rmse_db)]
        return sorted(known, key=lambda name: self.matches[name].rmse_db)

    @property
    def lowest(self) -> str:
        """The curve with the smallest error there; empty where there are no two to compare."""
        return self.ranking[0] if len(self.ranking) > 1 else ""

    @property
    def alone(self) -> str:
        """Why there is nothing to compare; empty where there is."""
        if self.lowest:
            return ""
        reached = "".join(f"only “{name}” reaches it ({self.matches[name].text})" for name in self.ranking)
        return f"nothing is compared: {reached or 'no curve reaches it'}"


# -- from a folder to points


def trials(folder: Path) -> list[Trial]:
    """The finished runs of a sweep with at least one curve; of any other folder nothing."""
    placed = _places(folder / RUNS)
    if not any(curve for curve, _ in placed):
        return []
    runs = zip(listed(folder), placed, strict=True)
    return [
        Trial(label, curve, strength, read_json(path / SUMMARY))
        for (label, path), (curve, strength) in runs
        if what_is(path / SUMMARY)
    ]


def _places(path: Path) -> list[tuple[str, float]]:
    """Curve and strength of each row of runs.csv."""
    if not what_is(path):
        return []
    try:
        with text_of(path) as file:
            rows = csv.DictReader(file)
            return [_place(path, unguarded(row.get("curve") or ""), row.get("strength") or "") for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(one_line(f"{path}: not a table of runs ({error!r}); start the sweep again")) from None


def _place(path: Path, curve: str, strength: str) -> tuple[str, float]:
    if curve in ("", "none"):
        return "", np.nan
    try:
        value = float(strength)
    except ValueError:
        value = np.nan
    if not np.isfinite(value):
        what = f"the strength {strength[:40]!r} of curve {curve[:40]!r} is not a number"
        raise BadInput(one_line(f"{path}: {what}; start the sweep again"))
    return curve, value


def points(found: Sequence[Trial], attack: str, measure: Measure) -> list[Point]:
    """One point per label, in the order of the sweep."""
    by_label: dict[str, list[Trial]] = {}
    for trial in found:
        by_label.setdefault(trial.label, []).append(trial)
    return [_point(label, [t.summary for t in of], of[0], attack, measure) for label, of in by_label.items()]


def _point(label: str, of: Sequence[Mapping[str, Any]], first: Trial, attack: str, measure: Measure) -> Point:
    useful = sum(bool(summary.get("utility.useful")) for summary in of)
    rmse_db, privacy = quartiles(map(_rmse_db, of)), quartiles(_private(s, attack, measure) for s in of)
    return Point(label, first.curve, first.strength, len(of), useful, rmse_db, privacy)


def curves(of: Sequence[Point]) -> dict[str, list[Point]]:
    """Curve -> its points in the order of strength."""
    found: dict[str, list[Point]] = {}
    for point in sorted((p for p in of if p.curve), key=lambda p: p.strength):
        found.setdefault(point.curve, []).append(point)
    return {name: found[name] for name in dict.fromkeys(p.curve for p in of if p.curve)}


def _rmse_db(summary: Mapping[str, Any]) -> float:
    """The model's error; infinite where there was something to predict and the model is not finite."""
    value, constant = summary.get("utility.rmse_db"), summary.get("utility.constant_rmse_db")
    return float(value) if value is not None else np.nan if constant is None else np.inf


def _private(summary: Mapping[str, Any], attack: str, measure: Measure) -> float:
    """A figure of privacy; infinite where it is missing because estimates diverged."""
    value = summary.get(f"attack.{attack}.{measure.key}")
    lost = (summary.get(f"attack.{attack}.diverged_percent") or 0) > 0
    return float(value) if value is not None else np.inf if lost else np.nan


def quartiles(values: Iterable[float]) -> Quartiles:
    """Lower quartile, median and upper quartile; infinite ones take part."""
    grid = np.array([list(values)])
    low, mid, high = (float(quantile(grid, q)[0]) for q in (0.25, 0.5, 0.75))
    return low, mid, high


# -- matched levels


def exchange_rows(found: Sequence[Trial]) -> list[Row]:
    """Every curve at every matched level of every attack, gated and not."""
    return [row for attack in attacks_of(found) for measure in MATCHED for row in _rows(found, attack, measure)]


def _rows(found: Sequence[Trial], attack: str, measure: Measure) -> Iterator[Row]:
    every = curves(points(found, attack, measure))
    gated = {name: [p for p in of if p.passes] for name, of in every.items()}
    for level in levels(gated) or levels(every):
        for gate, lines in ((True, gated), (False, every)):
            yield Row(attack, measure, level, gate, {n: match(of, level, measure) for n, of in lines.items()})


def levels(lines: Mapping[str, Sequence[Point]]) -> list[float]:
    """The quartiles of the range that more than half of the curves share, or as many as share one; else nothing.

    Above them comes the middle of the highest stretch that two curves reach: where privacy is dear, few are left.
    """
    spans = [(min(of), max(of)) for of in map(_reached, lines.values()) if len(set(of)) > 1]
    for least in range(len(spans) // 2 + 1, 0, -1):
        if shared := _shared(spans, least):
            low, high = shared[0][0], shared[-1][1]
            found = [low + q * (high - low) for q in (0.25, 0.5, 0.75)]
            top = [sum(stretch) / 2 for stretch in _shared(spans, 2)[-1:]]
            return found + [level for level in top if level > found[-1]]
    return []


def _shared(spans: Sequence[tuple[float, float]], least: int) -> list[tuple[float, float]]:
    """Stretches, ascending, that at least so many of the spans cover."""
    ends = sorted({end for span in spans for end in span})
    return [(low, high) for low, high in pairwise(ends) if sum(a <= low and high <= b for a, b in spans) >= least]


def _reached(line: Sequence[Point]) -> list[float]:
    """The finite levels of a curve's points."""
    return [p.privacy[1] for p in line if p.drawable and np.isfinite(p.privacy[1])]


def match(line: Sequence[Point], level: float, measure: Measure) -> Match:
    """Linear between neighbours in strength; of several crossings the one with the smallest error."""
    known = [p for p in line if p.drawable]
    above = [p for p in known if p.privacy[1] > level]
    best_db = min((p.rmse_db[1] for p in above), default=np.inf)
    if crossings := list(_crossings(line, level)):
        return Match(min(crossings), best_db=best_db)
    if not known:
        return Match(np.nan, _lacking(line))
    near = min(known, key=lambda p: abs(p.privacy[1] - level))
    side = "only below" if not above else "only above" if len(above) == len(known) else "not reached, nearest"
    return Match(np.nan, f"{side}: {figure_text(near.rmse_db[1])} dB at {measure.text(near.privacy[1])}", best_db)


def _lacking(line: Sequence[Point]) -> str:
    """Why no point of a curve can be drawn."""
    if not line:
        return "no useful model"
    if not any(np.isfinite(p.rmse_db[1]) for p in line):
        return "no model has a finite error"
    if all(np.isnan(p.privacy[1]) for p in line):
        return "no estimate: the attack says nothing of it"
    return "no strength has both a finite error and an estimate"


def _crossings(line: Sequence[Point], level: float) -> Iterator[float]:
    """Errors where the curve crosses a level; a point without figures, or one that diverged, interrupts it."""
    at = [(p.privacy[1], p.rmse_db[1]) if p.drawable and np.isfinite(p.privacy[1]) else None for p in line]
    yield from (one[1] for one in at if one is not None and one[0] == level)
    for one, two in pairwise(at):
        if one is not None and two is not None and min(one[0], two[0]) < level < max(one[0], two[0]):
            yield one[1] + (level - one[0]) / (two[0] - one[0]) * (two[1] - one[1])


def sentences(found: Sequence[Trial]) -> list[str]:
    """For each attack and measure, who has the smallest error at each level; both gates where they differ."""
    said: list[str] = []
    for attack in attacks_of(found):
        for measure in MATCHED:
            every = list(_rows(found, attack, measure))
            gated, free = ("; ".join(_won(row) for row in every if row.gated is gate) for gate in (True, False))
            head = f"{attack}, lowest RMSE at matched {lower(measure.what)}"
            if not every:
                said.append(f"{head}: no curve spans a range of it, so nothing can be matched.")
            elif gated == free:
                said.append(f"{head}: {gated}.")
            else:
                said += [f"{head}, useful models only: {gated}.", f"{head}, useless models too: {free}."]
    return said


def _won(row: Row) -> str:
    """`at 12.3 √m “DP” (6.6 dB) before “Farthest” (7.1 dB)`, and whoever is both more private and better than that."""
    if row.alone:
        return f"at {row.measure.text(row.level)} {row.alone}"
    first, second = row.ranking[:2]
    here = f"at {row.measure.text(row.level)} “{first}” ({row.matches[first].text})"
    here += f" before “{second}” ({row.matches[second].text})"
    lowest_db = row.matches[first].rmse_db
    beyond = [f"“{n}” ({m.text})" for n, m in row.matches.items() if n not in row.ranking and m.best_db < lowest_db]
    return here + (f", and both more private and better: {', '.join(beyond)}" if beyond else "")


def lower(text: str) -> str:
    """Words within a sentence; an abbreviation stays as it is."""
    return text if text[:2].isupper() else text[0].lower() + text[1:]


def exchange_csv(of: Sequence[Row]) -> str:
    """The matched levels as a table, a row per curve; `rmse_db` is empty where `why` says so."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["attack", "measure", "level", "models", "curve", "rmse_db", "why", "lowest"])
    for row in of:
        head = [row.attack, row.measure.key, cell_text(row.level), "useful" if row.gated else "all"]
        for name, one in row.matches.items():
            writer.writerow([*head, guarded(name), cell_text(one.rmse_db), one.why, cell_text(name == row.lowest)])
    return text.getvalue()


def exchange_lines(folder: Path) -> list[str]:
    """What a person reads first of a sweep with curves; nothing where no map of signals was learnt."""
    found = trials(folder)
    return sentences(found) if any("utility.rmse_db" in t.summary for t in found) else []


def attacks_of(found: Sequence[Trial]) -> list[str]:
    """The attacks of any of them, in order."""
    return list(dict.fromkeys(name for trial in found for name in attacks(trial.summary)))


# -- the page
