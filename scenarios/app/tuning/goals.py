"""What a tuning looks for: keys of the summary to make small or large, and bounds on others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from netsim.errors import BadInput
from scenarios.app.results import summary_keys as keys
from scenarios.app.results.constraint import Constraint, constraint
from scenarios.app.study.error_messages import LONGEST

_IN_ROUNDS = (
    keys.RMSE, keys.MAPE, keys.RANK_CORRELATION, keys.TRUTH_RANK_CORRELATION, keys.KDE_RMSE, keys.ACCURACY,
    keys.CROSS_ENTROPY, keys.NEW_LINKS_MAE, keys.NEW_STATIONS_MAE, keys.NEW_POSITIONS_MAE, keys.UTILITY,
)  # fmt: skip
"""keys of what learners report after every round; all others are of a whole run"""
COST = "cost.best"
"""cost of the policy that a training keeps, in its evaluation worlds"""
_OF_TRAININGS = re.compile(r"cases|steps\.best|cost\.best|visited\.percent|(policy|against|bound)\..+")


def of_training(key: str) -> bool:
    """Whether a key is of the summary of a training."""
    return _OF_TRAININGS.fullmatch(key) is not None


@dataclass(frozen=True)
class Objective:
    """A key of the summary, and whether it should be large."""

    key: str
    largest: bool

    @property
    def direction(self) -> str:
        return "maximize" if self.largest else "minimize"

    @property
    def scored(self) -> str:
        """What rounds, or evaluations of a training, call the figure: of `utility.NAME` its NAME; empty where they have
        none.
        """
        if self.key == COST:
            return "cost"
        return self.key.partition(".")[2] if keys.declaration(self.key) in _IN_ROUNDS else ""

    def loss(self, value: float) -> float:
        """The value, so that less is better."""
        return -value if self.largest else value


@dataclass(frozen=True)
class Goals:
    """Objectives and constraints. end_early : whether trials may be: on, off, or auto, where rounds have the figure."""

    objectives: tuple[Objective, ...]
    constraints: tuple[Constraint, ...] = ()
    end_early: str = "auto"

    @property
    def named(self) -> list[tuple[str, str]]:
        """Option and key of each."""
        return [
            *(("--objective", o.key) for o in self.objectives),
            *(("--constraint", c.key) for c in self.constraints),
        ]

    @property
    def keys(self) -> list[str]:
        """All keys that a trial needs."""
        return list(dict.fromkeys(key for _, key in self.named))

    @property
    def text(self) -> str:
        """One line for each."""
        lines = [f"{o.key} {'max' if o.largest else 'min'}" for o in self.objectives]
        early = [] if self.end_early == "auto" else [f"end early {self.end_early}"]
        return "\n".join([*lines, *(c.text for c in self.constraints), *early])

    @property
    def by(self) -> Objective | None:
        """The objective by whose figure after a round trials are ended early; None: none is."""
        only = self.objectives[0] if len(self.objectives) == 1 else None
        return only if self.end_early != "off" and only is not None and only.scored else None

    def excess(self, values: Mapping[str, float]) -> list[float]:
        """How far each constraint is broken; at most 0 where it is kept."""
        return [c.excess(values[c.key]) for c in self.constraints]

    def kept(self, values: Mapping[str, float]) -> bool:
        """Whether all constraints are."""
        return all(e <= 0 for e in self.excess(values))


def goals(
    objectives: Sequence[str], directions: Sequence[str], constraints: Sequence[str], end_early: str = "auto"
) -> Goals:
    """Of the command line; BadInput for keys that no summary has, for bounds that are none, and for `end_early: on`
    where rounds do not have the objective.
    """
    if len(directions) not in (1, len(objectives)):
        raise BadInput(
            f"--direction: {len(directions)} for {len(objectives)} objectives; give one for all, or one for each"
        )
    words = list(directions) * (1 if len(directions) == len(objectives) else len(objectives))
    of = Goals(
        tuple(Objective(k, word == "max") for k, word in zip(objectives, words, strict=True)),
        tuple(map(constraint, constraints)),
        end_early,
    )
    if len({o.key for o in of.objectives}) < len(of.objectives):
        raise BadInput("--objective: a key stands twice; leave one of them out")
    for option, key in of.named:
        if keys.declaration(key) is None and not of_training(key):
            raise unknown(option, key, [one.key for one in keys.KEYS])
    if end_early == "on" and of.by is None:
        why = "needs one objective" if len(objectives) > 1 else f"{objectives[0]} is not recorded after every round"
        have = ", ".join(key.key for key in _IN_ROUNDS)
        raise BadInput(f"--end-early on: {why}; take one of {have}, or leave it out")
    return of


def unknown(option: str, key: str, known: Sequence[str]) -> BadInput:
    """The complaint about a key that a summary does not have."""
    near = [repr(one) for one in _near(key, known)]
    usual = [repr(one) for one in known if one.startswith("utility.")][:3]
    told = f"; did you mean {' or '.join(near)}?" if near else f"; some are {', '.join(usual)};" if usual else ";"
    return BadInput(f"{option} {key}: no such key of summary.json{told} netsim list --records prints all of them")


def _near(key: str, known: Sequence[str]) -> list[str]:
    """At most three keys that are like this one, or of which a part between dots is, or has it as a word."""
    word = key[:LONGEST].lower().replace(" ", "_")
    if like := get_close_matches(word, known, 3, 0.6):
        return like
    parts = {one: [*one.split("."), *re.split(r"[._]", one)] for one in known}
    close = set(get_close_matches(word, {part for of in parts.values() for part in of}, 3, 0.75))
    return sorted((one for one in known if close & set(parts[one])), key=len)[:3]


def check_found(of: Goals, summary: Mapping[str, Any]) -> None:
    """Refuse keys that the summary of a finished run of the scenario does not have."""
    for option, key in of.named:
        if key not in summary:
            raise unknown(option, key, list(summary))


def front(rows: Sequence[Mapping[str, Any]], goals: Goals) -> list[int]:
    """Numbers of the trials that keep all bounds and that no other one beats: as good everywhere, better somewhere."""
    losses = {row["number"]: _losses(row, goals) for row in rows if row["kept"]}
    beaten = {
        n for n, one in losses.items() for other in losses.values()
        if other != one and all(a <= b for a, b in zip(other, one, strict=True))
    }  # fmt: skip
    return [n for n in losses if n not in beaten]


def best_of(rows: Sequence[Mapping[str, Any]], goals: Goals) -> list[int]:
    """The winner, the first of equal ones; of several objectives the front, best of the first objective first."""
    losses = {row["number"]: _losses(row, goals) for row in rows}
    order = sorted(front(rows, goals), key=lambda n: (losses[n], n))
    return order[:1] if len(goals.objectives) == 1 else order


def _losses(row: Mapping[str, Any], goals: Goals) -> tuple[float, ...]:
    return tuple(o.loss(row["values"][o.key]) for o in goals.objectives) if row["values"] else ()
