"""What a search is for: objectives and constraints, keys of the summary; and what sweep.json says
of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import isfinite, nan
from operator import le
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import BaseModel

from netsim.errors import BadInput, suggest_nearest
from scenarios.app.results.folder import SWEEP, Failed
from scenarios.app.results.read import parse_model, read_sweep_value
from scenarios.app.results.statistics import format_mean
from scenarios.app.results.summary_keys import BY_KEY, KEYS, find_measure
from scenarios.app.study import Fields

COST = "cost.best"
"""cost of the policy that a training keeps, in its evaluation worlds"""
_TRAINING_KEYS = ("cases", "steps.best", COST, "visited.percent")
_TRAINING_PARTS = ("policy", "against", "bound")


def is_training_key(key: str) -> bool:
    """Whether a key is of the summary of a training."""
    first, _, rest = key.partition(".")
    return key in _TRAINING_KEYS or (first in _TRAINING_PARTS and bool(rest))


@dataclass(frozen=True)
class Constraint:
    """A bound that the mean of a key over seeds has to keep."""

    text: str
    key: str
    sign: float
    bound: float


_BOUND = re.compile(r"\s*(?P<key>[^<>=\s]+)\s*(?P<sign><=|>=)\s*(?P<bound>\S+)\s*")


def parse_constraint(text: str) -> Constraint:
    """Parse a bound as it is written: KEY<=NUMBER or KEY>=NUMBER."""
    match = _BOUND.fullmatch(text)
    try:
        key, sign, bound = match.groups() if match else ("", "", "nan")
        value = float(bound)
    except ValueError:
        value = nan
    if not isfinite(value):
        raise BadInput(f"--constraint {text}: write KEY<=NUMBER or KEY>=NUMBER")
    return Constraint(f"{key}{sign}{bound}", key, 1.0 if sign == "<=" else -1.0, value)


@dataclass(frozen=True)
class Goals:
    """Objectives, key -> `min` or `max`, and constraints."""

    objectives: Mapping[str, str]
    constraints: Sequence[Constraint] = ()

    @property
    def keys(self) -> list[str]:
        """All keys that a point needs."""
        return list(dict.fromkeys([*self.objectives, *(c.key for c in self.constraints)]))

    def compute_excesses(self, trial: Trial) -> list[float]:
        """Compute how far each constraint is broken; at most 0 where it is kept."""
        return [c.sign * (trial.compute_mean(c.key) - c.bound) for c in self.constraints]

    def check(self, known_keys: Sequence[str] | None = None) -> None:
        """Refuse keys that no summary has; known_keys: those of a finished run of the scenario."""
        options = [("--objective", key) for key in self.objectives]
        options += [("--constraint", c.key) for c in self.constraints]
        for option, key in options:
            if key in known_keys if known_keys else find_measure(key) or is_training_key(key):
                continue
            hint = suggest_nearest(key, known_keys or BY_KEY) or ";"
            raise BadInput(
                f"{option} {key}: no such key of summary.json{hint} see netsim show DIR --verbose"
            )

    def find_best_labels(self, trials: Sequence[Trial]) -> list[str]:
        """Find labels of the front of finished trials, the best in the first objective first; of
        one its first.

        A trial is on the front if it keeps all bounds and no other one is as good everywhere, and
        better in one.
        """
        signs = {key: -1.0 if word == "max" else 1.0 for key, word in self.objectives.items()}
        losses = {
            trial.label: [sign * trial.compute_mean(key) for key, sign in signs.items()]
            for trial in trials
            if not trial.broken
        }
        front = [
            label
            for label, loss in losses.items()
            if not any(other != loss and all(map(le, other, loss)) for other in losses.values())
        ]
        front.sort(key=lambda label: losses[label])
        if len(signs) == 1:
            return front[:1]
        return front


def parse_goals(
    objectives: Sequence[str], directions: Sequence[str], constraints: Sequence[str]
) -> Goals:
    """Parse goals of the command line; BadInput for keys that no summary has, and for bounds that
    are none.
    """
    if len(directions) not in (1, len(objectives)):
        raise BadInput(
            f"--direction: {len(directions)} for {len(objectives)} objectives; give one "
            f"for all, or one for each"
        )
    if len(set(objectives)) < len(objectives):
        raise BadInput("--objective: a key stands twice; leave one of them out")
    parsed = Goals(
        dict(zip(objectives, cycle(directions), strict=False)),
        [*map(parse_constraint, constraints)],
    )
    parsed.check()
    return parsed


# -- what attackers are tuned for


class Aim(NamedTuple):
    """What an attacker is tuned for. goal : as a report calls it. key : NAME in it stands for the
    attack. sign : -1 where the largest value is the best.
    """

    goal: str
    key: str
    sign: int


AIMS = {
    "homes": [
        "attack.NAME.home_located.percent:max",
        "attack.NAME.densest_located.percent:max",
        "attack.NAME.centroid_error_m.median:min",
    ],
    "workplaces": ["attack.NAME.work_located.percent:max"],
    "both": ["attack.NAME.both_located.percent:max"],
}
"""word of --for -> KEY:min or KEY:max"""
_SIGNS = {"min": 1, "max": -1}
_TUNED = ("attack", "tracking", "linking", "identities")


def parse_aims(text: str) -> list[Aim]:
    """Parse what attackers are tuned for: a word of AIMS, or KEY:min or KEY:max of an attack.

    Of several aims the first counts that a run has values of.
    """
    aims = []
    for aim in AIMS.get(text, [text]):
        key, _, end = aim.partition(":")
        measure = find_measure(key)
        if measure is None or measure.group not in _TUNED or end not in _SIGNS:
            known = [measure.key for measure in KEYS if measure.group in _TUNED]
            raise BadInput(
                f"--for {text}: neither {', '.join(AIMS)} nor KEY:min or KEY:max of an attack"
                f"{suggest_nearest(key, [*AIMS, *known], 3) or ';'} NAME in KEY stands for the "
                f"attack, see netsim show DIR --verbose"
            )
        words = measure.headline.partition(" within")[0] or measure.key
        aims.append(Aim(f"{words}, {measure.unit or 'number'} ({end})", measure.key, _SIGNS[end]))
    return aims


# -- what sweep.json says of a search

FRESH = ", fresh seeds"
"""what the label of a winner on seeds that no trial uses ends with"""
HONEST = (
    "The figure of the search is optimistic: the winner is the luckiest of many on the same "
    "seeds. The figure on fresh seeds, which no other run uses, is the one to quote."
)
NO_WINNER = "No finished trial keeps every constraint, so there is no winner."


class Trial(BaseModel):
    """Settings, figures with each seed, and bounds that their means break; without figures, why
    there are none.
    """

    label: str
    settings: Fields
    seeds: list[int]
    values: dict[str, list[float]] = {}
    broken: list[str] = []
    failed: Failed | None = None

    @property
    def folder(self) -> str:
        """Of its runs, in that of the sweep."""
        return self.label.removesuffix(FRESH)

    def compute_mean(self, key: str) -> float:
        """Compute the figure of a key: its mean over seeds."""
        return float(np.mean(self.values[key]))

    @property
    def texts(self) -> list[str]:
        """Each figure, with its 95 % interval."""
        return [format_mean(np.array(values)) for values in self.values.values()]

    def fail(self, kind: str, reason: str) -> None:
        """Note that it has no figures, and why."""
        self.failed = Failed(self.folder, self.label, self.seeds[0], 1, kind, reason)


class SearchResult(BaseModel):
    """What a search found: trials, and winners on fresh seeds; labels of the best."""

    objectives: dict[str, str]
    trials: list[Trial]
    best: list[str]
    importance: dict[str, dict[str, float]]

    @property
    def heads(self) -> list[str]:
        """The figures, and what became of a trial."""
        return [*next((trial.values for trial in self.trials if trial.values), {}), "search"]

    def describe_trial(self, trial: Trial) -> str:
        """Whether a trial is the best, and which bounds it breaks."""
        if trial.label in self.best:
            return "best"
        return ", ".join(f"breaks {text}" for text in trial.broken)


def read_search_result(folder: Path) -> SearchResult | None:
    """Read what the search of a folder found; None where it is that of another sweep."""
    if values := read_sweep_value(folder, "tuned"):
        return parse_model(values, SearchResult, folder / SWEEP, "tune again")
    return None
