"""The noise of a run, as it was drawn: its deviation, whether draws are independent, and whether any was used twice."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from netsim.columns import row_id
from netsim.record import Row
from netsim.units import FloatArray, IntArray

LEVEL = 0.001
"""at which an audit of noise that is as stated alarms, all tests together"""
_HEAD = 16  # numbers of a draw by which it is known again
_ROWS = 200  # of a draw that are compared with those of the round before
_SAME = 1e-8  # difference of two heads that are one


@dataclass(frozen=True, eq=False)
class Drawn:
    """Noise on rows (k,), in its booked deviations: of which mechanism and phase, in which round, and on whose rows.

    square (k,) : sums of squares of `numbers` numbers; head (k, 16) : the first of them; in_time, in_space : correlations
    with the same row a round earlier, and with the next row, times the root of the numbers. slack : share by which the
    variance may lie above the booked one (rounding); spread : of the squares over that of Gaussian noise.
    """

    mechanism: str
    round: int
    phase: str
    ue: IntArray
    model: IntArray
    numbers: int
    square: FloatArray
    head: FloatArray
    in_time: FloatArray
    in_space: FloatArray
    slack: float = 0.0
    spread: float = 1.0


@dataclass(eq=False)
class NoiseLog:
    """All noise of a play. along : noise along each update that a sum hides, after the whole chain, by mechanism;
    fewest : by mechanism and round the fewest shares in a sum that was opened, over those that are needed.
    """

    drawn: list[Drawn] = field(default_factory=list)
    along: dict[str, list[FloatArray]] = field(default_factory=dict)
    fewest: dict[tuple[str, int], float] = field(default_factory=dict)
    _before: dict[tuple[str, str], tuple[IntArray, FloatArray]] = field(default_factory=dict)

    def add(
        self, mechanism: str, at: tuple[int, str], ue: IntArray, model: IntArray, unit: FloatArray, **more: Any
    ) -> None:
        """Note noise (k, d) in booked deviations, of a round and phase."""
        d, row = unit.shape[1], row_id(ue, model)
        head = np.zeros((len(unit), _HEAD))
        head[:, : min(d, _HEAD)] = unit[:, :_HEAD]
        known, past = self._before.get((mechanism, at[1]), (row[:0], unit[:0]))
        _, now, then = np.intersect1d(row[:_ROWS], known, return_indices=True)
        in_time = _correlations(unit[now], past[then])
        in_space = _correlations(unit[:-1], unit[1:])
        self._before[mechanism, at[1]] = row[:_ROWS], unit[:_ROWS]
        square = np.einsum("nd,nd->n", unit, unit)
        self.drawn.append(Drawn(mechanism, *at, ue, model, d, square, head, in_time, in_space, **more))

    def heads(self) -> dict[tuple[object, ...], bytes]:
        """The first numbers of each draw, by what it is for."""
        return {
            (of.mechanism, of.round, of.phase, ue, model): np.round(head, 7).tobytes()
            for of in self.drawn
            for ue, model, head in zip(of.ue.tolist(), of.model.tolist(), of.head, strict=True)
        }

    def findings(self, views: dict[str, str], names: tuple[str, ...]) -> list[Row]:
        """Rows of the table `audit`: deviations by round, correlations, coins used twice, shares in sums.

        A deviation is `within` where the sum of squares lies in its chi-square interval, a correlation where its
        standardised sum lies in the normal one; the level of 0.001 is divided by the number of tests.
        """
        from scipy.stats import chi2, norm

        mechanisms = list(dict.fromkeys(of.mechanism for of in self.drawn))
        level = LEVEL / (len(self.drawn) + 2 * len(mechanisms) + 2 * len(self.along)) / 2
        rows = list[Row]()

        def say(mechanism: str, quantity: str, moved: float, booked: float, fits: bool, **more: object) -> None:
            rows.append(
                row_of(
                    mechanism=mechanism, view=views.get(mechanism, ""), half="noise", quantity=quantity, moved=moved,
                    sensitivity=booked, verdict="within" if fits else "violated", **more,
                )
            )  # fmt: skip

        def normal(mechanism: str, quantity: str, values: list[FloatArray]) -> None:
            some = np.concatenate(values)
            if len(some):
                z = float(some.sum() / np.sqrt(len(some)))
                say(mechanism, quantity, z, float(norm.isf(level)), abs(z) <= norm.isf(level))

        for of in self.drawn:
            n = of.square.size * of.numbers
            if n:
                ratio = of.square.sum() / n
                low, high = 1 + of.spread * (chi2.isf([1 - level, level], n) / n - 1)
                fits = bool(low <= ratio <= high * (1 + of.slack))
                say(of.mechanism, f"std{f' ({of.phase})' * (of.phase != '')}", ratio**0.5, 1.0, fits, round=of.round)
        for name in mechanisms:
            mine = [of for of in self.drawn if of.mechanism == name]
            normal(name, "correlation of rounds", [of.in_time for of in mine])
            normal(name, "correlation of rows", [of.in_space for of in mine])
        for name, values in self.along.items():
            some = np.concatenate(values)
            normal(name, "noise along updates", values)
            low, high = chi2.isf([1 - level, level], len(some))
            fits = bool(low <= some @ some <= high)
            say(name, "std along updates", float(np.sqrt(np.mean(some**2))) if len(some) else np.nan, 1.0, fits)
        for (name, number), ratio in self.fewest.items():
            say(name, "shares", ratio, 1.0, ratio >= 1, round=number)
        return rows + self._coins(views, names)

    def _coins(self, views: dict[str, str], names: tuple[str, ...]) -> list[Row]:
        """A row for all coins of each mechanism, or for the first pair of draws that are one."""
        head = np.concatenate([of.head for of in self.drawn])
        whose = [(of, i) for of in self.drawn for i in range(len(of.ue))]
        order = np.lexsort(head.T[::-1])
        same = np.abs(np.diff(head[order], axis=0)).max(axis=1, initial=0) < _SAME
        twice = {}
        for at in np.flatnonzero(same)[::-1].tolist():
            one, other = sorted((order[at], order[at + 1]))
            twice[whose[other][0].mechanism] = whose[one], whose[other]
        rows = []
        for name in dict.fromkeys(of.mechanism for of in self.drawn):
            found = row_of(
                mechanism=name, view=views.get(name, ""), half="noise", quantity="coin", moved=0.0, sensitivity=0.0
            )
            if name in twice:
                (first, i), (of, k) = twice[name]
                owner = of.ue[k]
                quantity = f"coin of {first.mechanism}, round {first.round}, {_whose(first, i)}, used again"
                found |= {"quantity": quantity, "moved": 1.0, "round": of.round, "verdict": "violated"}
                found["ue"] = names[owner] if owner >= 0 else ""
            rows.append(found)
        return rows


def row_of(**given: object) -> Row:
    """A row of the table `audit`; what is not given is empty."""
    usual: Row = {
        "mechanism": "", "round": 0, "view": "", "half": "neighbours", "quantity": "", "pair": "", "ue": "",
        "moved": np.nan, "sensitivity": np.nan, "lower": np.nan, "upper": np.nan, "verdict": "within",
    }  # fmt: skip
    return usual | given


def _whose(of: Drawn, row: int) -> str:
    return f"UE {of.ue[row]}, model {of.model[row]}" if of.ue[row] >= 0 else f"model {of.model[row]}"


def _correlations(a: FloatArray, b: FloatArray) -> FloatArray:
    """Correlations (k,) of rows (k, d), times the root of d: standard normal if independent. None of few numbers."""
    if a.shape[1] < _HEAD or not len(a):
        return np.zeros(0)
    size = np.sqrt(np.einsum("nd,nd->n", a, a) * np.einsum("nd,nd->n", b, b))
    return np.asarray(np.einsum("nd,nd->n", a, b) / np.maximum(size, 1e-300) * np.sqrt(a.shape[1]))
