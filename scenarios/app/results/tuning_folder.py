"""Goals of a tuning, the folder that it writes, and what that folder says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import isfinite, nan
from operator import le
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from netsim.errors import BadInput, counted, one_line
from netsim.safe import what_is
from scenarios.app.results.folder import csv_text, marked, read_json, told_failures
from scenarios.app.results.read import checked
from scenarios.app.results.shown import drawn
from scenarios.app.results.statistics import figure_text
from scenarios.app.results.summary_keys import BY_KEY, declaration
from scenarios.app.study import Fields, Record
from scenarios.app.study.describe import flow, nearest

COST = "cost.best"
"""cost of the policy that a training keeps, in its evaluation worlds"""
_TRAINING_KEYS = ("cases", "steps.best", COST, "visited.percent")
_TRAINING_PARTS = ("policy", "against", "bound")


def of_training(key: str) -> bool:
    """Whether a key is of the summary of a training."""
    first, _, rest = key.partition(".")
    return key in _TRAINING_KEYS or (first in _TRAINING_PARTS and bool(rest))


@dataclass(frozen=True)
class Objective:
    """A key of the summary, and whether it should be large."""

    key: str
    largest: bool

    @property
    def word(self) -> str:
        """As the command line says it."""
        return "max" if self.largest else "min"

    def loss(self, value: float) -> float:
        """The value, so that less is better."""
        return -value if self.largest else value


@dataclass(frozen=True)
class Goals:
    """Objectives and constraints."""

    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...] = ()

    @property
    def named(self) -> list[tuple[str, str]]:
        """Option and key of each."""
        objectives = [("--objective", o.key) for o in self.objectives]
        return objectives + [("--constraint", c.key) for c in self.constraints]

    @property
    def keys(self) -> list[str]:
        """All keys that a trial needs."""
        return list(dict.fromkeys(key for _, key in self.named))

    @property
    def lines(self) -> list[str]:
        """Each goal in a line."""
        return [f"{o.key} {o.word}" for o in self.objectives] + [c.text for c in self.constraints]

    def excess(self, values: Mapping[str, float]) -> list[float]:
        """How far each constraint is broken; at most 0 where it is kept."""
        return [c.excess(values[c.key]) for c in self.constraints]

    def kept(self, values: Mapping[str, float]) -> bool:
        """Whether all constraints are."""
        return max(self.excess(values), default=0.0) <= 0

    def losses(self, row: Record) -> tuple[float, ...]:
        """The figures of a trial, so that less is better."""
        return tuple(o.loss(row["values"][o.key]) for o in self.objectives)

    def check_found(self, summary: Record) -> None:
        """Refuse keys that the summary of a finished run of the scenario does not have."""
        for option, key in self.named:
            if key not in summary:
                raise unknown(option, key, list(summary))

    def front(self, rows: Sequence[Record]) -> list[int]:
        """Numbers of the trials that keep all bounds and that no other one beats: as good everywhere, and better."""
        losses = {row["number"]: self.losses(row) for row in rows if row["kept"]}
        return [
            number for number, own in losses.items()
            if not any(other != own and all(map(le, other, own)) for other in losses.values())
        ]  # fmt: skip

    def best(self, rows: Sequence[Record]) -> list[int]:
        """The winner, the first of equal ones; of several objectives the front, best of the first objective first."""
        losses = {row["number"]: self.losses(row) for row in rows if row["kept"]}
        order = sorted(self.front(rows), key=lambda number: (losses[number], number))
        return order[:1] if len(self.objectives) == 1 else order


def goals(objectives: Sequence[str], directions: Sequence[str], constraints: Sequence[str]) -> Goals:
    """Of the command line; BadInput for keys that no summary has, and for bounds that are none."""
    if len(directions) not in (1, len(objectives)):
        raise BadInput(
            f"--direction: {len(directions)} for {len(objectives)} objectives; give one for all, or one for each"
        )
    pairs = zip(objectives, cycle(directions), strict=False)
    of = Goals(tuple(Objective(key, word == "max") for key, word in pairs), tuple(map(constraint, constraints)))
    if len(set(objectives)) < len(objectives):
        raise BadInput("--objective: a key stands twice; leave one of them out")
    for option, key in of.named:
        if declaration(key) is None and not of_training(key):
            raise unknown(option, key, list(BY_KEY))
    return of


def unknown(option: str, key: str, known: Sequence[str]) -> BadInput:
    """The complaint about a key that a summary does not have."""
    hint = nearest(key, known) or ";"
    return BadInput(f"{option} {key}: no such key of summary.json{hint} see netsim show DIR --verbose")


TUNING = "tuning.json"
TRIALS_CSV = "trials.csv"
BEST = "best.yaml"


def is_tuning(folder: Path) -> bool:
    """Whether a folder is one of `netsim tune`."""
    return what_is(folder / TUNING) == "file" or marked(folder) == "tuning"


def read_tuning(folder: Path) -> Fields:
    """What a finished tuning found, checked as far as pages rely on it."""
    if not what_is(folder / TUNING):
        raise BadInput(f"{folder}: this tuning is not finished; start it again and it goes on")
    found = read_json(folder / TUNING)
    checked(found, _TuningFile, folder / TUNING, "tune again")
    return found


class _ObjectiveRow(BaseModel):
    key: str
    direction: Literal["min", "max"]


class _TrialRow(BaseModel):
    name: str
    number: int
    state: Literal["finished", "failed"]
    settings: Fields
    values: dict[str, float | None]
    why: str


class _TuningFile(BaseModel):
    """What pages rely on."""

    title: str
    scenario: str
    command: str
    objectives: Annotated[list[_ObjectiveRow], Field(min_length=1)]
    constraints: list[str]
    trials: list[_TrialRow]
    space: Fields
    best: list[str]
    front: list[str]
    seeds: list[int]
    fresh_seeds: list[int]
    verified: dict[str, Fields]
    overrides: Fields
    importance: Fields


def trials_csv(found: Record) -> str:
    """A row a trial: name, state, whether bounds are kept, settings, mean figures over seeds, why it ended."""
    space = list(found["space"])
    figures = list(dict.fromkeys(key for row in found["trials"] for key in row["values"]))
    rows: list[list[object]] = [["trial", "state", "kept", *space, *figures, "why"]]
    for row in found["trials"]:
        kept = int(row["kept"]) if row["state"] == "finished" else ""
        settings = [flow(row["settings"][key]) for key in space]
        rows.append([row["name"], row["state"], kept, *settings, *map(row["values"].get, figures), row["why"]])
    return csv_text(rows)


def set_line(found: Record, name: str) -> str:
    """The command that plays a trial's settings."""
    row = next(row for row in found["trials"] if row["name"] == name)
    sets = [
        f"--set {shlex.quote(f'{key}={flow(value)}')}"
        for key, value in {**found["overrides"], **row["settings"]}.items()
    ]
    return " ".join([f"netsim {found.get('plays', 'run')}", shlex.quote(found["scenario"]), *sets])


def failed_lines(found: Record) -> list[str]:
    """Trials that failed, and winners that failed on fresh seeds, each with its error; nothing where none did."""
    failed = [f"{row['name']}: {row['why']}" for row in found["trials"] if row["state"] == "failed"]
    failed += [f"verify/{name}: {one['error']}" for name, one in found["verified"].items() if "error" in one]
    return told_failures(failed, "trial", TRIALS_CSV)


def tuning_lines(found: Record) -> list[str]:
    """What was found, for the terminal and the top of the page."""
    states = [row["state"] for row in found["trials"]]
    counts = [f"{states.count(s)} {s}" for s in ("finished", "failed") if s in states]
    lines = [f"{counted(len(states), 'trial')}: {', '.join(counts)}; {counted(len(found['seeds']), 'seed')} each"]
    if not found["best"]:
        return [*lines, "no finished trial keeps every constraint, so there is no winner"]
    rows = winner_rows(found)
    more = len(found["best"]) - _MOST_WINNERS
    lines += drawn(WINNER_HEADS, rows, right=(2, 3), whole=range(len(WINNER_HEADS)))
    lines += [f"and {more} more on the front"] if more > 0 else []
    return [*lines, one_line(set_line(found, found["best"][0]))]


_MOST_WINNERS = 5
WINNER_HEADS = ("winner", "figure", "search", "fresh seeds", "constraint")


def winner_rows(found: Record) -> list[list[str]]:
    """Objectives and constrained figures of the winners: the mean of the search, that on fresh seeds, and the bound."""
    bounds = [constraint(text) for text in found["constraints"]]
    goals = [(objective["key"], None) for objective in found["objectives"]] + [(bound.key, bound) for bound in bounds]
    rows = []
    for name in found["best"][:_MOST_WINNERS]:
        searched = next(row["values"] for row in found["trials"] if row["name"] == name)
        fresh = found["verified"].get(name) or {}
        for key, bound in goals:
            if key in searched:
                kept = _kept(bound, fresh) if bound else ""
                rows.append([name, key, figure_text(searched[key]), _fresh(fresh, key), kept])
    return rows


def _fresh(fresh: Record, key: str) -> str:
    """The mean of a figure on fresh seeds with its 95 % interval."""
    if "values" not in fresh:
        return "failed" if "error" in fresh else ""
    value = figure_text(fresh["values"][key])
    width = fresh["half_width"][key]
    return value if width is None else f"{value} ± {figure_text(width)}"


def _kept(bound: Constraint, fresh: Record) -> str:
    """A bound, which winners keep in the search, and whether it is kept on fresh seeds."""
    if "values" not in fresh:
        return bound.text
    return f"{bound.text}: {'kept' if bound.excess(fresh['values'][bound.key]) <= 0 else 'BROKEN on fresh seeds'}"


# -- a bound that the winner keeps

_BOUND = re.compile(r"\s*(?P<key>[^<>=\s]+)\s*(?P<sign><=|>=)\s*(?P<bound>\S+)\s*")


@dataclass(frozen=True)
class Constraint:
    """A bound that the mean of a key over seeds has to keep."""

    text: str
    key: str
    below: bool
    bound: float

    def excess(self, value: float) -> float:
        """How far the value lies beyond the bound; at most 0 where the bound is kept."""
        return value - self.bound if self.below else self.bound - value


def constraint(text: str) -> Constraint:
    """A bound as it is written: KEY<=NUMBER or KEY>=NUMBER."""
    match = _BOUND.fullmatch(text)
    try:
        key, sign, bound = match.groups() if match else ("", "", "nan")
        value = float(bound)
    except ValueError:
        value = nan
    if not isfinite(value):
        raise BadInput(f"--constraint {text}: write KEY<=NUMBER or KEY>=NUMBER")
    return Constraint(f"{key}{sign}{bound}", key, sign == "<=", value)
