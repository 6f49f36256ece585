"""Foresight: decisions of residents made ahead, many in one call.

A decision depends on the past of its own UE alone, so it can be made before it is due. A call for one UE takes nearly
as long as a call for a hundred, and at most ticks one or two UEs decide. So when one has to, those that decide next do
so with it. A decision is kept until it is due; it is the very one that would be made then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from netsim.altered import altered
from netsim.columns import no_ints
from netsim.mobility.decisions import Decisions, Foreseen
from netsim.mobility.lives import Lives, acting, after, copied
from netsim.units import FloatArray, IntArray

_MOST = 512  # decisions that are kept, whatever the number of UEs
_EACH = 8  # of them for each UE, on average
_AT_ONCE = 128  # beyond, a call for more saves nothing

Decide = Callable[[Lives, IntArray], Decisions]
"""The next decisions of UEs in some rows of a state, each at the end of its own stay."""


def decided(state: Lives, until_s: float, decide: Decide, by: tuple[Any, ...]) -> Lives:
    """The state after the next decision of every UE whose stay ends by until_s.

    by : what `decide` depends on beside the state; decisions that were made by others are made again.
    """
    late = int((state.until_s <= until_s).sum())
    known = None
    if state.foreseen is not None and all(a is b for a, b in zip(state.foreseen.by, by, strict=True)):
        known = state.foreseen.decisions
    due = _due(state, known, until_s)
    if known is None or len(due) < late:
        known = _further(state, known, until_s, decide)
        due = _due(state, known, until_s)
    left = Foreseen(known, by) if len(due) < len(known) else None
    return altered(after(state, known, due, until_s), foreseen=left)


def _due(state: Lives, known: Decisions | None, until_s: float) -> IntArray:
    """Indices of the known decisions that are the next ones, and due by until_s."""
    if known is None:
        return no_ints()
    following = known.following(state.decision, state.until_s)
    return following[known.at_s[following] <= until_s]


def _further(state: Lives, known: Decisions | None, until_s: float, decide: Decide) -> Decisions:
    """The known decisions that are still to come, and more: all that are due by until_s, and of others the earliest.

    No more are made ahead than were made so far, so what a short run makes for nothing is less than what it uses; and
    none where those that are due fill a call.
    """
    ahead, pieces = copied(state), list[Decisions]()
    if known is not None:
        taken = []
        while len(following := known.following(ahead.decision, ahead.until_s)):
            ahead = acting(ahead, known, following)
            taken.append(following)
        pieces += [known.select(np.concatenate(taken))] if taken else []
    n = len(state.ue)
    late = int((ahead.until_s <= until_s).sum())
    most = min(_MOST, _EACH * n, int(state.decision.sum()) - n) if late < _AT_ONCE else 0
    room = most - sum(map(len, pieces))
    size = min(_AT_ONCE, (3 * n + 3) // 4)  # not all, so that UEs who seldom decide get no further ahead than others
    row = _earliest(ahead.until_s, max(late, min(size, room)))
    while len(row):
        made = decide(ahead, row)
        ahead = acting(ahead, made, np.arange(len(made)))
        pieces.append(made)
        room -= len(made)
        row = _earliest(ahead.until_s, size if 1 < size <= room else 0)
    return Decisions.join(pieces)


def _earliest(time_s: FloatArray, count: int) -> IntArray:
    """Indices of so many of the earliest times (n,)."""
    if count >= len(time_s):
        return np.arange(len(time_s))
    return np.argpartition(time_s, count - 1)[:count] if count > 0 else no_ints()
