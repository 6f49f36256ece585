"""What a tuning looks for: keys of the summary to make small or large, and bounds on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from netsim.errors import BadInput
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.tuning_folder import Constraint, constraint
from scenarios.app.study import Record
from scenarios.app.study.error_messages import nearest

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
        return all(e <= 0 for e in self.excess(values))

    def losses(self, row: Record) -> tuple[float, ...]:
        """The figures of a trial, so that less is better."""
        return tuple(o.loss(row["values"][o.key]) for o in self.objectives)

    def check_found(self, summary: Record) -> None:
        """Refuse keys that the summary of a finished run of the scenario does not have."""
        for option, key in self.named:
            if key not in summary:
                raise unknown(option, key, list(summary))

    def front(self, rows: Sequence[Record]) -> list[int]:
        """Numbers of the trials that keep all bounds and that no other one beats."""
        losses = {row["number"]: self.losses(row) for row in rows if row["kept"]}
        return [n for n, own in losses.items() if not any(_beats(other, own) for other in losses.values())]

    def best(self, rows: Sequence[Record]) -> list[int]:
        """The winner, the first of equal ones; of several objectives the front, best of the first objective first."""
        losses = {row["number"]: self.losses(row) for row in rows if row["kept"]}
        order = sorted(self.front(rows), key=lambda n: (losses[n], n))
        return order[:1] if len(self.objectives) == 1 else order


def _beats(other: tuple[float, ...], own: tuple[float, ...]) -> bool:
    """Whether a trial is as good everywhere, and better somewhere."""
    return other != own and all(a <= b for a, b in zip(other, own, strict=True))


def goals(objectives: Sequence[str], directions: Sequence[str], constraints: Sequence[str]) -> Goals:
    """Of the command line; BadInput for keys that no summary has, and for bounds that are none."""
    if len(directions) not in (1, len(objectives)):
        raise BadInput(
            f"--direction: {len(directions)} for {len(objectives)} objectives; give one for all, or one for each"
        )
    words = directions if len(directions) == len(objectives) else [*directions] * len(objectives)
    pairs = zip(objectives, words, strict=True)
    of = Goals(tuple(Objective(key, word == "max") for key, word in pairs), tuple(map(constraint, constraints)))
    if len(set(objectives)) < len(objectives):
        raise BadInput("--objective: a key stands twice; leave one of them out")
    for option, key in of.named:
        if keys.declaration(key) is None and not of_training(key):
            raise unknown(option, key, [one.key for one in keys.KEYS])
    return of


def unknown(option: str, key: str, known: Sequence[str]) -> BadInput:
    """The complaint about a key that a summary does not have."""
    hint = nearest(key, known) or ";"
    return BadInput(f"{option} {key}: no such key of summary.json{hint} see netsim show DIR --verbose")
