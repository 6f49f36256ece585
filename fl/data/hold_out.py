"""Which measurements are held out of training: single ones, or all of a session, a day or a block
of ground.

Measurements that follow one another are alike: a map that is scored on random ones is scored on
places that it has nearly seen. Whole sessions, days or blocks ask it for others. The fate of a
measurement depends on its UE, time and place alone: not on what other UEs measure, nor on the
length of a round (single measurements: on the round as well; days of a trace with few, of an extent
that is not stated: on which days it has rows).

Of the sessions of a UE, and of days, one in each stretch of 1 / share consecutive ones is drawn:
number d is held out if floor((b + u_b) / share) = d for some b = 0, 1, ..., with u_b uniform on (0,
1). For a share above one half the same rule, with 1 - share, says which ones are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, Self

import numpy as np

from netsim.clock import DAY_S, compute_rounding_s
from netsim.columns import frozen, number_row, replace_values
from netsim.rng import Rng
from netsim.ues import Observations
from netsim.units import BoolArray, FloatArray, IntArray

Whole = Literal["sample", "session", "day", "block"]
HoldOutBy = Whole | tuple[Literal["sample", "session", "day"], Literal["block"]]
BLOCK_M = 100.0
BLOCK_LOTS = "hold out block"


@frozen
class Sessions:
    """The UEs' sessions so far: last_s (n_ue,), the latest measurement; number (n_ue,) of
    sessions.
    """

    last_s: FloatArray
    number: IntArray

    @classmethod
    def empty(cls, n_ue: int) -> Self:
        """Before the first measurement."""
        return cls(np.full(n_ue, -np.inf), np.zeros(n_ue, int))

    def add_measurements(
        self, ue: IntArray, time_s: FloatArray, gap_s: float
    ) -> tuple[Sessions, IntArray]:
        """The sessions after measurements of ue (N,) at time_s (N,), and the number of each one's
        session, from 0.
        """
        order = np.lexsort((time_s, ue))
        u = ue[order]
        t = time_s[order]
        first = np.diff(u, prepend=-1) > 0  # of a UE here
        before_s = np.where(first, self.last_s[u], np.roll(t, 1))
        begins = t - before_s > gap_s + compute_rounding_s(gap_s, t)
        begun = np.cumsum(begins)
        # sessions of UEs before this one
        earlier: IntArray = (begun - begins)[first][np.cumsum(first) - 1]
        after = self.number[u] + begun - earlier
        session = np.empty_like(after)
        session[order] = after - 1
        # of a UE the last counts
        return Sessions(
            replace_values(self.last_s, u, t), replace_values(self.number, u, after)
        ), session


def hold_out_samples(
    observed: Observations, model: IntArray, share: float, rng: Rng, subject: str = "hold out"
) -> BoolArray:
    """Which observations (N,) of models (N,) are held out one by one, with the stream of their
    round, and the draws of a subject.
    """
    # a sample's draw depends on its UE, time and cell, not on the number of others
    moment = np.round(observed.time_s * 1e3).astype(int)
    return rng.uniform(subject, number_row(observed.ue, model), item=moment) < share


def hold_out_sessions(ue: IntArray, session: IntArray, share: float, rng: Rng) -> BoolArray:
    """Which measurements (N,) lie in held-out sessions: number session (N,) of UEs ue (N,)."""
    always = replace(rng, round=0)
    return _draw_from_stretches(
        session, share, lambda b: always.uniform("hold out session", ue, item=b)
    )


def hold_out_days(time_s: FloatArray, days: IntArray, share: float, rng: Rng) -> BoolArray:
    """Which measurements (N,) lie in held-out days of 86,400 s from time 0 on.

    days (n,) : numbers of the days on which UEs may measure, ascending; none: all from 0 on. Where
    the rule above holds out none of these, or all, it draws among them alone, and one of the first
    1 / share at least. A single day is not held out: nothing would be learnt.
    """
    always = replace(rng, round=0)
    rare = min(share, 1.0 - share)
    number = number_days(time_s)
    within = min(1.0, len(days) * rare)

    def draw_days(day: IntArray, first: float = 1.0) -> BoolArray:
        return _draw_from_stretches(
            day, share, lambda b: always.uniform("hold out day", b) * np.where(b == 0, first, 1.0)
        )

    if not len(days) or len(np.unique(draw_days(days))) == 2:
        return draw_days(number)
    if len(days) == 1:
        return np.zeros(len(number), bool)
    return draw_days(np.searchsorted(days, number), within)


def hold_out_blocks(position_m: FloatArray, block_m: float, share: float, rng: Rng) -> BoolArray:
    """Which places (N, 2) lie in held-out squares of side block_m, each of which is drawn by
    itself.
    """
    column, row = find_blocks(position_m, block_m).T
    return replace(rng, round=0).uniform(BLOCK_LOTS, column, item=row) < share


def is_in_new_block(
    model: IntArray,
    position_m: FloatArray,
    known_model: IntArray,
    known_m: FloatArray,
    block_m: float,
) -> BoolArray:
    """Which places (N, 2) lie in squares of side block_m in which no known place (K, 2) of the same
    model lies.
    """
    new = np.ones(len(model), bool)
    for m in np.unique(model).tolist():
        is_of_model = model == m
        known_blocks = number_blocks(known_m[known_model == m], block_m)
        new[is_of_model] = ~np.isin(number_blocks(position_m[is_of_model], block_m), known_blocks)
    return new


def number_blocks(position_m: FloatArray, block_m: float) -> IntArray:
    """One number for the square of each place (N, 2) within 10^9 squares of the origin."""
    column, row = find_blocks(position_m, block_m).T
    return column * 2**32 + row


def number_days(time_s: FloatArray) -> IntArray:
    """Day of each time (N,), 86,400 s from time 0 on."""
    return np.floor(time_s / DAY_S).astype(int)


def find_blocks(position_m: FloatArray, block_m: float) -> IntArray:
    """Column and row (N, 2) of the square of side block_m that each place (N, 2) lies in."""
    return np.floor(position_m / block_m).astype(int)


def _draw_from_stretches(
    number: IntArray, share: float, lot: Callable[[IntArray], FloatArray]
) -> BoolArray:
    """The rule above of numbers (N,); lot(b) are the u_b (N,) of stretches b (N,)."""
    rare = min(share, 1.0 - share)
    chosen = np.zeros(len(number), bool)
    if rare > 0 and len(number):
        b = np.floor(number * rare).astype(int)  # stretches that the number can lie in
        for stretch in (b, b + 1):
            chosen |= np.floor((stretch + lot(stretch)) / rare) == number
    if share <= 0.5:
        return chosen
    return ~chosen
