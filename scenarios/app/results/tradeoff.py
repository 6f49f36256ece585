"""The trade-off between utility and privacy: curves of mechanisms over their strength, RMSE at matched privacy.

Every measure of privacy here is larger where the attacker learns less. A label with several seeds has its median.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from netsim.errors import BadInput
from netsim.record import cell_text, guarded, unguarded
from netsim.safe import what_is
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.attacks import attacks
from scenarios.app.results.folder import SUMMARY, read_summary, text_of
from scenarios.app.results.measures import Measure
from scenarios.app.results.read import RUNS, listed
from scenarios.app.results.statistics import Quartiles, figure_text, quartiles_of
from scenarios.app.study.yaml_document import one_line

MATCHED_CSV = "matched_privacy.csv"


@dataclass(frozen=True)
class PrivacyScale:
    """A measure of privacy: its key, which has the name of an attack, and the key of its baseline."""

    name: str
    unit: str
    key: Measure
    baseline: Measure

    def text(self, value: float) -> str:
        """A value with its unit."""
        return "diverged" if np.isinf(value) else f"{figure_text(value, self.unit)} {self.unit}"


SQRT_SW1 = PrivacyScale(
    "Square root of SW1", "√m", keys.SQRT_SW1, keys.GUESS_SQRT_SW1
)  # fmt: skip
DISTANCE = PrivacyScale(
    "Centroid error", "m", keys.ERROR_MEDIAN, keys.AREA_CENTRE_ERROR
)  # fmt: skip
SW1 = PrivacyScale(
    "Sliced Wasserstein distance (SW1)", "m", keys.SW1, keys.GUESS_SW1
)  # fmt: skip
MATCHED = (SQRT_SW1, DISTANCE)


@dataclass(frozen=True)
class Trial:
    """One finished run of a sweep, with its place on a curve; no curve: undefended."""

    label: str
    curve: str
    strength: float
    summary: Mapping[str, Any]


@dataclass(frozen=True)
class Point:
    """A label over its seeds: quartiles of the model's RMSE and of a measure of privacy."""

    label: str
    curve: str
    strength: float
    runs: int
    useful: int
    rmse_db: Quartiles
    privacy: Quartiles

    @property
    def passes(self) -> bool:
        """The gate: whether more than half of its models are useful."""
        return 2 * self.useful > self.runs

    @property
    def drawable(self) -> bool:
        """Whether it has a finite RMSE and a measure of privacy, which may be infinite."""
        return bool(np.isfinite(self.rmse_db[1])) and not np.isnan(self.privacy[1])


@dataclass(frozen=True)
class Match:
    """RMSE of a curve at a level of privacy; NaN, and why, where the curve does not reach it."""

    rmse_db: float
    why: str = ""
    best_db: float = np.inf
    """smallest RMSE among its points that are more private than the level"""

    @property
    def text(self) -> str:
        return self.why or f"{figure_text(self.rmse_db)} dB"


@dataclass(frozen=True)
class Row:
    """All curves at one level; gated: only through points whose models are useful."""

    attack: str
    measure: PrivacyScale
    level: float
    gated: bool
    matches: Mapping[str, Match]

    @property
    def ranking(self) -> list[str]:
        """The curves that reach the level, smallest RMSE first."""
        known = [name for name, m in self.matches.items() if not np.isnan(m.rmse_db)]
        return sorted(known, key=lambda name: self.matches[name].rmse_db)

    @property
    def lowest(self) -> str:
        """The curve with the smallest RMSE; empty where fewer than two reach the level."""
        return self.ranking[0] if len(self.ranking) > 1 else ""

    @property
    def alone(self) -> str:
        """Why nothing is compared; empty where two curves reach the level."""
        if self.lowest:
            return ""
        reached = "".join(f"only “{name}” reaches it ({self.matches[name].text})" for name in self.ranking)
        return f"not compared, {reached or 'no curve reaches it'}"


# -- from a folder to points


def read_trials(folder: Path) -> list[Trial]:
    """The finished runs of a sweep with at least one curve; of any other folder nothing."""
    placed = _curves(folder / RUNS)
    if not any(curve for curve, _ in placed):
        return []
    runs = zip(listed(folder), placed, strict=True)
    return [
        Trial(label, curve, strength, read_summary(path))
        for (label, path), (curve, strength) in runs
        if what_is(path / SUMMARY)
    ]


def _curves(path: Path) -> list[tuple[str, float]]:
    """Curve and strength of each row of runs.csv."""
    if not what_is(path):
        return []
    try:
        with text_of(path) as file:
            rows = csv.DictReader(file)
            return [_curve(path, unguarded(row.get("curve") or ""), row.get("strength") or "") for row in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise BadInput(one_line(f"{path}: not a table of runs ({error!r}); start the sweep again")) from None


def _curve(path: Path, curve: str, strength: str) -> tuple[str, float]:
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


def points(trials: Sequence[Trial], attack: str, measure: PrivacyScale) -> list[Point]:
    """One point per label, in the order of the sweep."""
    return [
        _point(label, [t.summary for t in of], of[0], attack, measure) for label, of in by_label(trials).items()
    ]  # fmt: skip


def by_label(trials: Sequence[Trial]) -> dict[str, list[Trial]]:
    """Label -> its runs, in the order of the sweep."""
    grouped: dict[str, list[Trial]] = {}
    for trial in trials:
        grouped.setdefault(trial.label, []).append(trial)
    return grouped


def _point(label: str, of: Sequence[Mapping[str, Any]], first: Trial, attack: str, measure: PrivacyScale) -> Point:
    useful = sum(bool(summary.get(keys.USEFUL.of())) for summary in of)
    rmse_db, privacy = quartiles_of(map(_rmse_db, of)), quartiles_of(_private(s, attack, measure) for s in of)
    return Point(label, first.curve, first.strength, len(of), useful, rmse_db, privacy)


class OnCurve(Protocol):
    """Whatever has a place on a curve."""

    @property
    def curve(self) -> str: ...
    @property
    def strength(self) -> float: ...


P = TypeVar("P", bound=OnCurve)


def curves(of: Sequence[P]) -> dict[str, list[P]]:
    """Curve -> its points in the order of strength."""
    grouped: dict[str, list[P]] = {p.curve: [] for p in of if p.curve}
    for point in sorted((p for p in of if p.curve), key=lambda p: p.strength):
        grouped[point.curve].append(point)
    return grouped


def _rmse_db(summary: Mapping[str, Any]) -> float:
    """The model's RMSE; infinite where samples were held out and the model is not finite."""
    value, constant = summary.get(keys.RMSE.of()), summary.get(keys.CONSTANT_RMSE.of())
    return float(value) if value is not None else np.nan if constant is None else np.inf


def _private(summary: Mapping[str, Any], attack: str, measure: PrivacyScale) -> float:
    """A measure of privacy; infinite where it is missing because estimates diverged."""
    value = summary.get(measure.key.of(attack))
    lost = (summary.get(keys.DIVERGED.of(attack)) or 0) > 0
    return float(value) if value is not None else np.inf if lost else np.nan


# -- matched levels


def matched_rows(trials: Sequence[Trial]) -> list[Row]:
    """Every curve at every matched level of every attack, gated and not; nothing where there is a single curve."""
    return [row for attack in attacks_of(trials) for measure in MATCHED for row in _rows(trials, attack, measure)]


def _rows(trials: Sequence[Trial], attack: str, measure: PrivacyScale) -> Iterator[Row]:
    every = curves(points(trials, attack, measure))
    if len(every) < 2:
        return
    gated = {name: [p for p in of if p.passes] for name, of in every.items()}
    for level in levels(gated) or levels(every):
        for gate, lines in ((True, gated), (False, every)):
            yield Row(attack, measure, level, gate, {n: match(of, level, measure) for n, of in lines.items()})


def levels(lines: Mapping[str, Sequence[Point]]) -> list[float]:
    """The quartiles of the range that more than half of the curves share, or as many as share one; else nothing.

    Above them comes the middle of the highest range that two curves reach, where privacy costs most. Levels that read
    alike are one.
    """
    spans = [(min(of), max(of)) for of in map(_reached, lines.values()) if len(set(of)) > 1]
    for least in range(len(spans) // 2 + 1, 0, -1):
        if shared := _shared(spans, least):
            low, high = shared[0][0], shared[-1][1]
            quarters = [low + q * (high - low) for q in (0.25, 0.5, 0.75)]
            top = [sum(stretch) / 2 for stretch in _shared(spans, 2)[-1:]]
            every = quarters + [level for level in top if level > quarters[-1]]
            return list({figure_text(level): level for level in reversed(every)}.values())[::-1]
    return []


def _shared(spans: Sequence[tuple[float, float]], least: int) -> list[tuple[float, float]]:
    """Ranges, ascending, that at least so many of the spans cover."""
    ends = sorted({end for span in spans for end in span})
    return [(low, high) for low, high in pairwise(ends) if sum(a <= low and high <= b for a, b in spans) >= least]


def _reached(line: Sequence[Point]) -> list[float]:
    """The finite levels of a curve's points."""
    return [p.privacy[1] for p in line if p.drawable and np.isfinite(p.privacy[1])]


def match(line: Sequence[Point], level: float, measure: PrivacyScale) -> Match:
    """Linear between neighbours in strength; of several crossings the one with the smallest RMSE."""
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
        return "no model has a finite RMSE"
    if all(np.isnan(p.privacy[1]) for p in line):
        return "the attack made no estimate"
    return "no strength has both a finite RMSE and an estimate"


def _crossings(line: Sequence[Point], level: float) -> Iterator[float]:
    """RMSE where the curve crosses a level; a point without values, or one that diverged, interrupts it."""
    at = [(p.privacy[1], p.rmse_db[1]) if p.drawable and np.isfinite(p.privacy[1]) else None for p in line]
    yield from (one[1] for one in at if one is not None and one[0] == level)
    for one, two in pairwise(at):
        if one is not None and two is not None and min(one[0], two[0]) < level < max(one[0], two[0]):
            yield one[1] + (level - one[0]) / (two[0] - one[0]) * (two[1] - one[1])


def sentences(trials: Sequence[Trial]) -> list[str]:
    """For each attack and measure, the curve with the smallest RMSE at each level; both gates where they differ.

    Nothing of a single curve, which has none to be matched with, nor of an attack without the measure.
    """
    lines: list[str] = []
    if len(curves(trials)) < 2:
        return lines
    for attack in attacks_of(trials):
        for measure in MATCHED:
            every = list(_rows(trials, attack, measure))
            gated, free = ("; ".join(_best(row) for row in every if row.gated is gate) for gate in (True, False))
            head = f"{attack}, lowest RMSE at matched {lower(measure.name)}"
            if not every and any(t.summary.get(measure.key.of(attack)) is not None for t in trials):
                lines.append(f"{head}: no curve spans a range of it, so nothing can be matched.")
            elif every and gated == free:
                lines.append(f"{head}: {gated}.")
            elif every:
                lines += [f"{head}, useful models only: {gated}.", f"{head}, all models: {free}."]
    return lines


def _best(row: Row) -> str:
    """`at 12.3 √m “DP” (6.6 dB) before “Farthest” (7.1 dB)`, and the curves that are both more private and better."""
    if row.alone:
        return f"at {row.measure.text(row.level)} {row.alone}"
    first, second = row.ranking[:2]
    here = f"at {row.measure.text(row.level)} “{first}” ({row.matches[first].text})"
    here += f" before “{second}” ({row.matches[second].text})"
    lowest_db = row.matches[first].rmse_db
    beyond = [f"“{n}” ({m.text})" for n, m in row.matches.items() if n not in row.ranking and m.best_db < lowest_db]
    return here + (f"; more private and better: {', '.join(beyond)}" if beyond else "")


def lower(text: str) -> str:
    """A name within a sentence; an abbreviation stays as it is."""
    return text if text[:2].isupper() else text[0].lower() + text[1:]


def matched_csv(of: Sequence[Row]) -> str:
    """The matched levels as a table, a row per curve; `rmse_db` is empty where `why` says so."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["attack", "measure", "level", "models", "curve", "rmse_db", "why", "lowest"])
    for row in of:
        head = [row.attack, row.measure.key.rest, cell_text(row.level), "useful" if row.gated else "all"]
        for name, one in row.matches.items():
            writer.writerow([*head, guarded(name), cell_text(one.rmse_db), one.why, cell_text(name == row.lowest)])
    return text.getvalue()


def tradeoff_lines(folder: Path) -> list[str]:
    """The sentences of a sweep with curves for the terminal; nothing where no signal map was learned."""
    trials = read_trials(folder)
    return sentences(trials) if any(keys.RMSE.of() in t.summary for t in trials) else []


def attacks_of(trials: Sequence[Trial]) -> list[str]:
    """The attacks of any of them, in order."""
    return list(dict.fromkeys(name for trial in trials for name in attacks(trial.summary)))
