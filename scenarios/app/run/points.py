"""The points of a sweep: what each run changes in the scenario, its label, seed and folder; random values."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from math import exp, floor, log, prod
from pathlib import Path
from typing import Any

import numpy as np

from netsim.errors import BadInput
from netsim.rng import Rng, Streams
from scenarios.app.study.describe import flow
from scenarios.app.study.load import Scenario
from scenarios.app.study.study import Study
from scenarios.app.study.vary import Distribution, Variant
from scenarios.app.study.yaml_document import Place, dotted, place_of


def drawn(rng: Rng, key: str, of: Distribution, n: int) -> list[Any]:
    """`n` independent values of a key; value i hangs on the seed, the key and i alone."""
    return [at(of, float(u)) for u in rng.uniform(key, np.arange(n))]


def at(of: Distribution, u: float) -> Any:
    r"""The value at the quantile u, 0 < u < 1, of a distribution.

    A range: low + u (high - low), or with `log` low (high / low)^u; of integers the floor of the same up to high + 1.
    Numbers that are not integers keep six significant digits, so that they can be copied, and stay within the range.
    """
    if of.choices is not None:
        return of.choices[floor(u * len(of.choices))]
    low, high = float(of.low or 0.0), float(of.high or 0.0)
    end = high + 1.0 if of.integer else high
    value = low * exp(u * log(end / low)) if of.log else low + u * (end - low)
    return int(min(max(floor(value), low), high)) if of.integer else rounded(value, low, high)


def rounded(value: float, low: float, high: float) -> float:
    """Six significant digits, within the range."""
    return min(max(float(f"{value:.6g}"), low), high)


MOST_RUNS = 100_000
_LONGEST_NAME = 200  # bytes; file systems take 255
_AS_WRITTEN = Variant.model_construct(label="")


@dataclass(frozen=True)
class SweepPoint:
    """One run of a sweep: its label, seed, folder name and what it changes in the scenario.

    curve : the line that it belongs to where privacy is set against utility; empty for none. strength : where on it.
    origins : where in the file a change stands, for those of the section `vary`.
    """

    label: str
    seed: int
    folder: str
    overrides: dict[str, Any]
    curve: str = ""
    strength: float | None = None
    origins: dict[str, Place] = field(default_factory=dict)


@dataclass(frozen=True)
class _Choice:
    """Values of some keys that go together: what labels call them, and where in the file each stands."""

    parts: tuple[str, ...] = ()
    changed: dict[str, Any] = field(default_factory=dict)
    origins: dict[str, Place] = field(default_factory=dict)


def points(study: Study, overrides: dict[str, Any]) -> list[SweepPoint]:
    """All combinations of variants, rows of `zip`, value lists, random points and seeds, in that order."""
    vary = study.vary
    if vary is None:
        raise BadInput("this scenario has nothing to vary; give it a `vary:` section, or use netsim run")
    varied = [*vary.values, *vary.zip, *vary.drawn, *(key for variant in vary.variants or () for key in variant.set)]
    if of_training := [key for key in varied if key.startswith("train.")]:
        raise BadInput(
            f"vary: {of_training[0]}: changes a training and no run; leave it out, or search it by netsim tune with "
            "--objective cost.best"
        )
    variants, seeds = list(enumerate(vary.variants or (_AS_WRITTEN,))), vary.seed or (study.seed,)
    draws = 0 if vary.random is None else vary.random.draws
    runs = prod([len(variants), vary.together, *map(len, vary.values.values()), max(draws, 1), len(seeds)])
    if runs > MOST_RUNS:
        raise BadInput(f"vary: {runs:,} combinations, at most {MOST_RUNS:,} are possible; take fewer values or seeds")
    random = {key: drawn(Streams(study.seed).at("vary"), key, one, draws) for key, one in vary.drawn.items()}
    axes = [
        _choices(("zip",), vary.zip, vary.together),
        *(_choices(("values",), {key: values}, len(values)) for key, values in vary.values.items()),
        _choices(("random", "space"), random, draws) if draws else [_Choice()],
    ]
    planned = []
    for (i, variant), chosen, seed in product(variants, list(product(*axes)), seeds):
        parts = [part for choice in chosen for part in choice.parts]
        name = ", ".join([variant.label, *parts] if variant.label else parts) or "as written"
        folder = f"{folder_name(name)}/seed-{seed}"
        changed = {**overrides, **variant.set}
        origins: dict[str, Place] = {key: ("vary", "variants", i, "set", key) for key in variant.set}
        for choice in chosen:
            changed |= choice.changed
            origins |= choice.origins
        changed |= {"seed": seed, "vary": None}
        origins |= {"seed": ("vary", "seed")} if vary.seed else {}
        curve = ", ".join([variant.mechanism, *parts]) if variant.mechanism else ""
        planned.append(SweepPoint(name, seed, folder, changed, curve, variant.strength, origins))
    folders = Counter(p.folder for p in planned)
    for point in planned:
        if folders[point.folder] > 1:
            what = "rename a variant, or leave a repeated value out"
            raise BadInput(f"vary: the label {point.label!r} is not unique as a folder name; {what}")
    return planned


def _choices(section: tuple[str, ...], columns: Mapping[str, Sequence[Any]], n: int) -> list[_Choice]:
    """The `n` rows of columns of a section of `vary`; drawn values have a number in place of their texts."""
    is_drawn = section[0] == "random"
    return [
        _Choice(
            (f"draw {i + 1}",) if is_drawn else tuple(_part(key, column[i]) for key, column in columns.items()),
            {key: column[i] for key, column in columns.items()},
            {key: ("vary", *section, key, *(() if is_drawn else (i,))) for key in columns},
        )
        for i in range(n)
    ]


def _part(key: str, value: Any) -> str:
    return f"{dotted(place_of(key)).rsplit('.', 1)[-1]}={flow(value)}"


def checked_points(
    source: str | Path, study: Study, overrides: dict[str, Any], only: Collection[str] = ()
) -> list[tuple[SweepPoint, Study]]:
    """The points and their studies; a mistake names its point. Of a setting, seeds change nothing but the seed.

    only : their labels; none: all of them.
    """
    check_space(source, study, overrides)
    scenario, settings, checked = Scenario(source), dict[str, Study](), []
    for point in points(study, overrides):
        setting = point.folder.rpartition("/")[0]
        if only and point.label not in only:
            continue
        if setting not in settings:
            with named(point):
                settings[setting] = scenario.study(point.overrides, point.origins)
        checked.append((point, settings[setting].model_copy(update={"seed": point.seed})))
    return checked


def check_space(source: str | Path, study: Study, overrides: dict[str, Any]) -> None:
    """Refuse a distribution of `vary.random` with values that its key never takes; other keys are as written.

    What only some draws of several keys make wrong together is found when they are drawn.
    """
    space, scenario = {} if study.vary is None else study.vary.drawn, Scenario(source)
    for key, one in space.items():
        for name, value in _extremes(one):
            try:
                scenario.study({**overrides, key: value, "vary": None}, {key: ("vary", "random", "space", key)})
            except BadInput as error:
                where = re.escape(dotted(place_of(key)))
                if match := re.fullmatch(rf"(.*?){where}(?:=.*?)?: (.*)", error.lines[0]):
                    before, what = match.groups()
                    remedy = "; add integer: true" if "whole number" in what else ""
                    raise BadInput(f"{before}vary.random.space.'{key}'.{name}: {what}{remedy}") from None


def _extremes(one: Distribution) -> Iterator[tuple[str, Any]]:
    """Values that show whether a key takes all that is drawn: its choices, or the ends and one between."""
    if one.choices is not None:
        yield from ((f"choices.{n}", value) for n, value in enumerate(one.choices))
    elif one.low is not None and one.high is not None:
        ends = (("low", one.low), ("high", one.high))
        yield from ((name, int(end) if one.integer else end) for name, end in ends)
        if not one.integer:
            yield "high", one.low + (one.high - one.low) / np.e


@contextmanager
def named(point: SweepPoint) -> Generator[None, None, None]:
    """A mistake names its point."""
    try:
        yield
    except BadInput as error:
        raise BadInput(*(f"vary, {point.label!r}: {line}" for line in error.lines)) from None


def folder_name(text: str) -> str:
    """A folder name: letters and digits of any script, and a few signs; of a long text the beginning and a digest."""
    name = re.sub(r"(?:[^\w.=+-]|_)+", "-", text).strip("-.").lstrip("-.=+") or "run"
    if len(name.encode()) <= _LONGEST_NAME:
        return name
    return f"{name[:40]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"
