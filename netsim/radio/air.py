"""The shared band as events: transmissions that take time, all of them as arrays within one event."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
import simpy

from netsim.multiples import first_multiple, last_multiple
from netsim.radio.air_interface import AirInterface
from netsim.radio.fates import ENDED, SENDING, WAITING, Fate
from netsim.radio.happenings import become_ready, end_due, look_again, looks_in, stuck
from netsim.radio.lives import Transmissions
from netsim.radio.outlook import Look
from netsim.radio.request import begun, may_drop_out, may_exhaust, on_air
from netsim.radio.schedulers.base import NO_SENDERS, Queue, Senders
from netsim.radio.sent import SentUploads, outcome, sent
from netsim.radio.turns import Turn
from netsim.radio.uplink import Cohort, Payload, Uplink
from netsim.rng import Streams
from netsim.units import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Ended:
    """Transmissions (k,) that have ended, in order of time, then of UE.

    submission, place: the cohort, and the entry in it; ue: the sender; sent: the outcome.
    """

    submission: IntArray
    place: IntArray
    ue: IntArray
    sent: SentUploads


@dataclass(frozen=True)
class AirMemory:
    """The state of transmissions in flight: their rows, the number of submissions, and the scheduler's state."""

    lives: Transmissions
    submissions: int
    until_s: float
    scheduled: Any


@dataclass
class EventUplink:
    """Transmissions of UEs over one uplink, from the server's request to the last bit or a loss.

    `submit` returns an event whose value is the `SentUploads` of the cohort. `each` is called with those that end at
    a time; it may submit others. Between two events all rates are constant. The order of submissions at one time
    changes nothing. Other than in `Uplink.plan`, a UE whose SINR is too low is lost even if no other UE's is higher.

    n_ue : number of UEs of the world; look : links of UEs that move (see `look_at`), asked at ends of blocks.
    """

    env: simpy.Environment
    uplink: Uplink
    n_ue: int
    streams: Streams
    interface: AirInterface = field(default_factory=AirInterface)
    look: Look | None = None
    each: Callable[[Ended], None] | None = None
    lives: Transmissions = field(init=False, default_factory=Transmissions.none)
    _waiting_for: dict[int, simpy.Event] = field(init=False, default_factory=dict)
    _submissions: int = field(init=False, default=0)
    _until_s: float = field(init=False, default=inf)
    _scheduled: Any = field(init=False, default=None)
    _turn: Turn | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.uplink.groups_ues:
            raise ValueError(
                "group_size of the uplink: leave it out, and set the scheduler to {kind: groups, size: ...}"
            )
        if (self.look is None) != (self.interface.block_s is None):
            raise ValueError("block_s and look: links are looked at at ends of blocks; give both or neither")
        self._scheduled = self.interface.scheduler.start(self.n_ue)

    def submit(
        self,
        cohort: Cohort,
        payload: Payload,
        deadline_s: float = inf,
        round_: int = 0,
        battery_j: FloatArray | None = None,
    ) -> simpy.Event:
        """Request updates of UEs now; the event occurs when the last one has arrived or is lost.

        deadline_s : time from now after which updates are late, besides the uplink's own; battery_j (n,): energy that
        each UE may spend, training included. Raises ValueError for a UE that is still busy.
        """
        busy = np.sort(np.append(self.lives.ue[self.lives.stage != ENDED], cohort.ue))
        twice = busy[1:][busy[1:] == busy[:-1]]
        if len(twice):
            raise ValueError(f"UE {twice[0]} would send two updates at once; leave it out until it has ended")
        number, self._submissions = self._submissions, self._submissions + 1
        done, now_s, block_s = self.env.event(), float(self.env.now), self.interface.block_s
        look = 0 if block_s is None else last_multiple(now_s, block_s)
        new = begun(cohort, payload, self.uplink, now_s, number, look, deadline_s, round_)
        may_drop_out(new, self.interface.client_dropout_per_s, self.streams)
        if battery_j is not None:
            may_exhaust(new, battery_j[new.place])
        if not len(new):
            return done.succeed(sent(new, new.place))
        self._waiting_for[number] = done
        self.lives = self.lives.joined(new)
        self._arm()
        return done

    @property
    def last_submission(self) -> int:
        """Number of the latest submission."""
        return self._submissions - 1

    def stop(self, submission: int) -> None:
        """End the transmissions of a submission that are in flight: the server no longer needs them."""
        now_s, lives = float(self.env.now), self.lives
        known, sends = lives.stage == ENDED, self._sends()
        become_ready(lives, now_s)
        end_due(lives, now_s, self.interface.retransmissions)
        rows = np.flatnonzero((lives.submission == submission) & (lives.stage != ENDED))
        lives.settle(rows, now_s)
        lives.end(rows, now_s, Fate.STOPPED)
        self._share(now_s, self.interface.link_adaptation == "change", sends)
        self._tell(np.flatnonzero((lives.stage == ENDED) & ~known))
        self._arm()

    def under_way(self) -> Ended:
        """Transmissions that have not ended, as they stand now; nothing is changed."""
        lives = self.lives.take(self.lives.stage != ENDED)
        lives.settle(np.arange(len(lives)), float(self.env.now))
        return _ended(lives, np.arange(len(lives)))

    def memory(self) -> AirMemory:
        """The state that `resume` continues; transmissions in flight are not disturbed."""
        everything = np.arange(len(self.lives))
        return AirMemory(self.lives.take(everything), self._submissions, self._until_s, self._scheduled)

    def resume(self, memory: AirMemory) -> dict[int, simpy.Event]:
        """Go on from a memory, at its time; the events of the submissions under way, by number."""
        self.lives = memory.lives.take(np.arange(len(memory.lives)))
        self._submissions, self._until_s, self._scheduled = memory.submissions, memory.until_s, memory.scheduled
        self._waiting_for = {number: self.env.event() for number in np.unique(self.lives.submission).tolist()}
        self._arm()
        return dict(self._waiting_for)

    def _arm(self) -> None:
        """Wake up at the next time at which something changes."""
        at_s = self._next_s()
        self._turn = None
        if at_s < inf:
            self._turn = Turn(self.env, max(at_s, float(self.env.now)))
            self._turn.callbacks.append(self._on_turn)

    def _next_s(self) -> float:
        """Time of the next change. Ends that change nothing and are not reported are left out: at held rates, where a
        scheduler without state has one resource block a cell, no UE waits for it, and none is silent.
        """
        lives, step_s, block_s = self.lives, self.interface.step_s, self.interface.block_s
        own_s = lives.next_s()
        waits = bool((lives.stage == WAITING).any())
        places_stay = self._scheduled is None and self.interface.scheduler.resource_blocks == 1
        silent = bool(((lives.stage == SENDING) & (lives.rate_bps == 0)).any())
        if self.interface.link_adaptation == "grant" and self.each is None and places_stay and not waits and not silent:
            own_s = _last_of_each(lives, own_s)
        next_s = float(own_s.min(initial=inf))
        if waits:
            next_s = min(next_s, self._until_s)
        if step_s is not None and next_s < inf:
            next_s = max(next_s, first_multiple(next_s, step_s) * step_s)  # a multiple may be a rounding too early
        if block_s is not None:
            next_s = min(next_s, float(looks_in(lives, block_s).min(initial=inf)) * block_s)
        return next_s

    def _on_turn(self, turn: simpy.Event) -> None:
        """Everything that happens at one time, for all transmissions."""
        if turn is not self._turn:
            return  # something earlier came up after it was set
        now_s, lives, max_tries = float(self.env.now), self.lives, self.interface.retransmissions
        known, sends = lives.stage == ENDED, self._sends()
        came = become_ready(lives, now_s)
        left = end_due(lives, now_s, max_tries)
        looked = False
        if self.look is not None and self.interface.block_s is not None:
            looked = look_again(lives, self.look, self.uplink, now_s, self.interface.block_s, max_tries)
        asked = now_s >= self._until_s and bool((lives.stage == WAITING).any())
        if came or left or looked or asked:
            self._share(now_s, looked or (left and self.interface.link_adaptation == "change"), sends)
        self._tell(np.flatnonzero((lives.stage == ENDED) & ~known))
        self._arm()

    def _sends(self) -> tuple[IntArray, FloatArray] | None:
        """The rows (k,) that send, and their rates; None for a scheduler that remembers nothing."""
        if self._scheduled is None:
            return None
        rows = np.flatnonzero(self.lives.stage == SENDING)
        return rows, self.lives.rate_bps[rows]

    def _share(self, now_s: float, evaluate: bool, sends: tuple[IntArray, FloatArray] | None) -> None:
        """Ask the scheduler, and update SINR and rates, until every place that is granted is used.

        sends : see `_sends`, of the time before now_s.
        """
        lives, changes = self.lives, self.interface.link_adaptation == "change"
        senders = NO_SENDERS
        if sends is not None:
            senders = Senders(lives.ue[sends[0]], sends[1], np.fmin(lives.ended_s[sends[0]], now_s))
        while True:
            active = np.flatnonzero((lives.stage == WAITING) | (lives.stage == SENDING))
            if not len(active) and not len(senders.ue):
                return
            before = lives.resource[active]
            grants = self.interface.scheduler.grants(_queue(lives, active, senders), now_s, self._scheduled)
            self._until_s, self._scheduled = grants.until_s, grants.state
            if not len(active):
                return
            senders = NO_SENDERS
            lives.grant(active, grants.resource, now_s)
            granted = (grants.resource >= 0) & (grants.resource != before)
            if evaluate or granted.any() or (changes and (grants.resource != before).any()):
                self._hear(np.flatnonzero(lives.stage == SENDING), now_s)
            hopeless = np.flatnonzero(stuck(lives, self.uplink))
            if self.interface.block_s is not None or not len(hopeless):
                return
            lives.end(hopeless, now_s, Fate.UNDECODED)  # its links stay as they are
            evaluate = changes

    def _hear(self, rows: IntArray, now_s: float) -> None:
        """Update SINR and rates of all UEs that send, from now on.

        A UE without a rate is silent until the next update; one that sends already is silenced last.
        """
        lives, blocks = self.lives, self.interface.scheduler.resource_blocks
        cohort, resource = on_air(lives, rows), lives.resource[rows]
        heard = self.uplink.granted(
            cohort, self.uplink.heard(cohort, resource, blocks),
            lambda some: self.uplink.heard(some, resource, blocks), sends=lives.rate_bps[rows] > 0,
        )  # fmt: skip
        decoded = (heard.sinr > 0) & (heard.sinr >= self.uplink.min_sinr())
        self.lives.hear(rows, heard, decoded, now_s)

    def _tell(self, ended: IntArray) -> None:
        """Report rows (k,) that have ended, and submissions that are complete; forget those."""
        if not len(ended):
            return
        lives = self.lives
        news = None if self.each is None else _ended(lives, ended)
        complete = _complete(lives, ended)
        results = []
        for number in complete.tolist():
            outcome = sent(lives, np.flatnonzero(lives.submission == number))
            results.append((self._waiting_for.pop(number), outcome))
        if len(complete):
            others = np.flatnonzero(~np.isin(lives.submission, complete))
            self.lives = lives.take(others) if len(others) else Transmissions.none()
        if self.each is not None and news is not None:
            self.each(news)
        for done, outcome in results:
            done.succeed(outcome)


def _ended(lives: Transmissions, rows: IntArray) -> Ended:
    """Rows (k,) that have ended."""
    rows = rows[np.lexsort((lives.ue[rows], lives.ended_s[rows]))]
    return Ended(lives.submission[rows], lives.place[rows], lives.ue[rows], outcome(lives, rows))


def _complete(lives: Transmissions, ended: IntArray) -> IntArray:
    """The submissions, in order, that end with the rows (k,) that have ended now."""
    numbers, under_way = np.unique(lives.submission[ended]), lives.stage != ENDED
    return np.setdiff1d(numbers, lives.submission[under_way], True) if under_way.any() else numbers


def _queue(lives: Transmissions, rows: IntArray, senders: Senders) -> Queue:
    """The scheduler's queue of rows (k,), and the UEs that sent."""
    return Queue(
        lives.ue[rows], lives.serving[rows], lives.power_w[rows], lives.received_w[rows], lives.alone_bps[rows],
        lives.resource[rows], lives.decoded[rows], lives.ready_s[rows], senders,
    )  # fmt: skip


def _last_of_each(lives: Transmissions, own_s: FloatArray) -> FloatArray:
    """Times at which rows become ready (n,), and the last end of each submission in place of the ends of its rows."""
    sends = np.flatnonzero((lives.stage == SENDING) & (lives.rate_bps > 0))
    if not len(sends):
        return own_s
    number, result = lives.submission[sends], own_s.copy()
    if (number == number[:1]).all():  # nearly always
        result[sends] = own_s[sends].max()
        return result
    order = np.lexsort((own_s[sends], number))
    first = np.flatnonzero(np.diff(number[order], prepend=-1))
    many = np.diff(first, append=len(order))
    result[sends[order]] = np.repeat(own_s[sends[order]][first + many - 1], many)
    return result
