"""Changes of transmissions at an event: they become ready, end, or get new links."""

from __future__ import annotations

import numpy as np

from netsim.multiples import last_multiple, last_multiples
from netsim.radio.fates import ENDED, PREPARING, SENDING, WAITING, Fate
from netsim.radio.lives import Transmissions
from netsim.radio.outlook import Look
from netsim.radio.request import see
from netsim.radio.uplink import Uplink
from netsim.units import BoolArray, FloatArray, IntArray


def become_ready(lives: Transmissions, now_s: float) -> bool:
    """UEs that have received the model and trained begin to wait; whether there were any.

    One that can never receive the model, or that has no cell then, is lost.
    """
    preparing = np.flatnonzero(lives.stage == PREPARING)
    if not len(preparing):
        return False
    ready_s = lives.ready_s[preparing]
    limit_s = np.minimum(lives.deadline_s[preparing], lives.stops_s[preparing])
    ready = preparing[ready_s <= np.minimum(now_s, limit_s)]
    lives.since_s[ready], lives.stage[ready] = lives.ready_s[ready], WAITING
    deaf = preparing[~np.isfinite(ready_s)]
    lives.end(deaf, lives.requested_s[deaf], Fate.UNDECODED)
    homeless = ready[lives.serving[ready] < 0]
    lives.end(homeless, lives.ready_s[homeless], Fate.NO_CELL)
    return len(ready) > len(homeless)


def end_due(lives: Transmissions, now_s: float, max_tries: int) -> bool:
    """End what ends up to now: sent, out of time or energy, or left; whether a place on the air became free."""
    freed = False
    while len(due := np.flatnonzero(lives.next_s() <= now_s)):
        sends = lives.stage[due] == SENDING
        freed = freed or bool(sends.any())
        limit_s = np.minimum(lives.deadline_s[due], lives.stops_s[due])
        in_time = sends & (lives.since_s[due] + lives.sends_for_s(due) <= limit_s)
        _end_sending(lives, due[in_time], max_tries)
        cut = due[~in_time]
        at_s = limit_s[~in_time]
        lives.settle(cut, at_s)
        late = lives.deadline_s[cut] <= lives.stops_s[cut]
        lives.end(cut, at_s, np.where(late, Fate.LATE, lives.stops_by[cut]))
    return freed


def _end_sending(lives: Transmissions, rows: IntArray, max_tries: int) -> None:
    """Rows (k,) that send up to their last bit, or to the end of their energy."""
    span_s = lives.sends_for_s(rows)
    enough = lives.needs_s(rows) <= span_s
    empty, whole = rows[~enough], rows[enough]
    empty_s = lives.since_s[empty] + span_s[~enough]
    lives.settle(empty, empty_s)
    lives.end(empty, empty_s, Fate.EXHAUSTED)
    lives.send_rest(whole)
    neither = np.zeros(len(whole), dtype=np.bool_)
    hopeless = lives.close_blocks(whole, neither, neither, max_tries)
    lives.end(hopeless, lives.since_s[hopeless], Fate.UNDECODED)
    arrived = whole[(lives.left_bits[whole] == 0) & (lives.stage[whole] == SENDING)]
    lives.end(arrived, lives.since_s[arrived], Fate.ARRIVED)
    again = whole[lives.left_bits[whole] > 0]
    lives.failed[again] = ~lives.decoded[again]


def looks_in(lives: Transmissions, block_s: float) -> FloatArray:
    """The block (n,) at whose start the links of each row are looked at next: the next one of a UE on the air, the one
    in which a UE becomes ready before; infinite for an ended row, and where that has been done.
    """
    ready = last_multiples(lives.ready_s, block_s)
    before = np.where((lives.stage == PREPARING) & (lives.look < ready), ready, np.inf)
    return np.where((lives.stage == WAITING) | (lives.stage == SENDING), lives.look + 1.0, before)


def stuck(lives: Transmissions, uplink: Uplink) -> BoolArray:
    """Which rows (n,) have a place on the air and no rate, and would get none if another ended: too weak alone, or
    among UEs none of which has a rate.
    """
    sends = lives.stage == SENDING
    silent = sends & (lives.rate_bps == 0)
    if (lives.rate_bps[sends] > 0).any():
        silent &= uplink.rate_bps(lives.snr) == 0
    return np.asarray(silent)


def look_again(lives: Transmissions, look: Look, uplink: Uplink, now_s: float, block_s: float, max_tries: int) -> bool:
    """Where a new block has begun: close the ended blocks, and give UEs their present links; whether rates may have
    changed.

    A UE whose cell has changed sends its block again in the new one, when that grants it, whether it was sending or
    waited for its next turn; one that has none is lost.
    """
    block = last_multiple(now_s, block_s)
    stale = np.flatnonzero((looks_in(lives, block_s) <= block) & (lives.look < block))
    if not len(stale):
        return False
    lives.look[stale] = block
    seen = look(lives.ue[stale], lives.round[stale])
    lives.settle(stale, now_s)
    sends, prepares = lives.stage[stale] == SENDING, lives.stage[stale] == PREPARING
    moved = seen.serving != lives.serving[stale]
    on_air = ~prepares
    hopeless = lives.close_blocks(stale[on_air], moved[on_air], stuck(lives, uplink)[stale[on_air]], max_tries)
    lives.end(hopeless, now_s, Fate.UNDECODED)
    see(lives, stale, seen, uplink)
    under_way = lives.stage[stale] != ENDED
    homeless = stale[under_way & ~prepares & (lives.serving[stale] < 0)]
    lives.end(homeless, now_s, Fate.NO_CELL)
    handed = stale[under_way & moved & sends & (lives.serving[stale] >= 0)]
    lives.grant(handed, np.full(len(handed), -1), now_s)
    return not prepares.all()
