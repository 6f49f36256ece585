"""The shared band as events: transmissions that take time, all of them as arrays within one
event.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, nextafter

import numpy as np
import simpy

from netsim.clock import find_first_multiple, find_last_multiple, find_last_multiples
from netsim.columns import frozen, no_ints, replace_values
from netsim.radio.schedulers import (
    NO_SENDERS,
    AirInterface,
    Grants,
    Queue,
    Senders,
    Simultaneous,
    State,
)
from netsim.radio.transmissions import (
    ENDED,
    PREPARING,
    SENDING,
    WAITING,
    Fate,
    Look,
    SentUploads,
    Transmissions,
    draw_drop_outs,
    limit_energy,
    request_transmissions,
    set_links,
    summarise_uploads,
)
from netsim.radio.uplink import Cohort, Decoded, Payload, Uplink
from netsim.rng import Streams
from netsim.units import BoolArray, FloatArray, IntArray

_LAST = 2  # SimPy's own events have priority 0 or 1


class Turn(simpy.Event):  # type: ignore[misc]
    """Occurs at at_s, after all ordinary events of that time."""

    def __init__(self, env: simpy.Environment, at_s: float) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        env.schedule(self, priority=_LAST, delay=_compute_delay_s(env.now, at_s))


def _compute_delay_s(now_s: float, at_s: float) -> float:
    """The delay after which a clock that adds it to now_s shows at_s; the difference may miss it by
    a rounding.
    """
    delay_s = max(at_s - now_s, 0.0)
    for close in (delay_s, nextafter(delay_s, inf), nextafter(delay_s, 0.0)):
        if now_s + close == at_s:
            return close
    return delay_s


def start_waiting(lives: Transmissions, now_s: float) -> bool:
    """UEs that have received the model and trained begin to wait; whether there were any.

    One that can never receive the model is lost.
    """
    preparing = np.flatnonzero(lives.stage == PREPARING)
    if not len(preparing):
        return False
    ready_s = lives.ready_s[preparing]
    ready = preparing[ready_s <= np.minimum(now_s, lives.stops_s[preparing])]
    lives.since_s[ready] = lives.ready_s[ready]
    lives.stage[ready] = WAITING
    deaf = preparing[~np.isfinite(ready_s)]
    lives.end(deaf, lives.requested_s[deaf], Fate.UNDECODED)
    return len(ready) > 0


def end_due_rows(lives: Transmissions, now_s: float, max_tries: int) -> bool:
    """End what ends up to now: sent, out of time or energy, or left; whether a place on the air
    became free.
    """
    freed = False
    while len(due := np.flatnonzero((ends := lives.find_ends()).next_s <= now_s)):
        freed |= (lives.stage[due] == SENDING).any()
        is_sent = ends.sent_s[due] <= lives.stops_s[due]
        cut = due[~is_sent]
        lives.settle(cut, lives.stops_s[cut])
        lives.end(cut, lives.stops_s[cut], lives.stops_by[cut])
        empty = due[is_sent & ~ends.is_whole[due]]
        lives.settle(empty, ends.sent_s[empty])
        lives.end(empty, ends.sent_s[empty], Fate.EXHAUSTED)
        whole = due[is_sent & ends.is_whole[due]]
        lives.send_rest(whole)
        neither = np.zeros(len(whole), bool)
        hopeless = lives.close_blocks_and_find_failed(whole, neither, neither, max_tries)
        lives.end(hopeless, lives.since_s[hopeless], Fate.UNDECODED)
        arrived = whole[(lives.left_bits[whole] == 0) & (lives.stage[whole] == SENDING)]
        lives.end(arrived, lives.since_s[arrived], Fate.ARRIVED)
    return freed


def find_next_look_blocks(lives: Transmissions, block_s: float) -> FloatArray:
    """The block (n,) at whose start the links of each row are looked at next: the next one of a UE
    on the air, the one in which a UE becomes ready before; infinite for an ended row, and where
    that has been done.
    """
    ready = find_last_multiples(lives.ready_s, block_s)
    is_ahead = (lives.stage == PREPARING) & (lives.look < ready)
    before = np.where(is_ahead, ready, np.inf)
    is_on_air = (lives.stage == WAITING) | (lives.stage == SENDING)
    return np.where(is_on_air, lives.look + 1.0, before)


def find_stuck(lives: Transmissions, uplink: Uplink) -> BoolArray:
    """Which rows (n,) have a place on the air and no rate, and would get none if another ended: too
    weak alone, or among UEs none of which has a rate.
    """
    sends = lives.stage == SENDING
    stuck = sends & (lives.rate_bps == 0)
    if (sends & ~stuck).any():
        silent = np.flatnonzero(stuck)
        stuck[silent] = uplink.rate_bps(lives.snr[silent] / uplink.compute_noise_rise()) == 0
    return stuck


def update_stale_links(
    lives: Transmissions, look: Look, uplink: Uplink, now_s: float, block_s: float, max_tries: int
) -> bool:
    """Where a new block has begun: close the ended blocks, and give UEs their present links;
    whether rates may have changed.

    A UE whose cell has changed sends its block again in the new one, when that grants it, whether
    it was sending or waited for its next turn; one that has none is lost.
    """
    block = find_last_multiple(now_s, block_s)
    stale = np.flatnonzero((find_next_look_blocks(lives, block_s) <= block) & (lives.look < block))
    if not len(stale):
        return False
    lives.look[stale] = block
    seen = look(lives.ue[stale], lives.round[stale])
    lives.settle(stale, now_s)
    stage = lives.stage[stale]
    prepares = stage == PREPARING
    moved = seen.serving != lives.serving[stale]
    on_air = ~prepares
    is_stuck = find_stuck(lives, uplink)[stale[on_air]]
    hopeless = lives.close_blocks_and_find_failed(stale[on_air], moved[on_air], is_stuck, max_tries)
    lives.end(hopeless, now_s, Fate.UNDECODED)
    set_links(lives, stale, seen, uplink)
    under_way = lives.stage[stale] != ENDED
    has_cell = lives.serving[stale] >= 0
    lives.end(stale[under_way & on_air & ~has_cell], now_s, Fate.NO_CELL)
    handed = stale[under_way & moved & (stage == SENDING) & has_cell]
    lives.grant(handed, np.zeros(len(handed), bool), now_s)
    return not prepares.all()


@frozen
class EndedUploads:
    """Transmissions (k,) that have ended, in order of time, then of UE.

    submission, place: the cohort, and the entry in it; ue: the sender; sent: the outcome.
    """

    submission: IntArray
    place: IntArray
    ue: IntArray
    sent: SentUploads


@dataclass(frozen=True)
class AirMemory:
    """The state of transmissions in flight: their rows, the number of submissions, and the
    scheduler's state.
    """

    lives: Transmissions
    submissions: int
    until_s: float
    scheduled: State


@dataclass
class EventUplink:
    """Transmissions of UEs over one uplink, from the server's request to the last bit or a loss.

    `submit` returns an event whose value is the `SentUploads` of the cohort. `on_end` is called
    with those that end at a time; it may submit others. Between two events all rates are constant.
    The order of submissions at one time changes nothing. Other than in `Uplink.plan`, a UE whose
    SINR is too low is lost even if no other UE's is higher.

    n_ue : number of UEs of the world; look : links of UEs that move (see `make_look`), asked at
    ends of blocks.
    """

    env: simpy.Environment
    uplink: Uplink
    n_ue: int
    streams: Streams
    interface: AirInterface = field(default_factory=AirInterface)
    look: Look | None = None
    on_end: Callable[[EndedUploads], None] | None = None
    lives: Transmissions = field(init=False, default_factory=Transmissions.none)
    _waiting_for: dict[int, simpy.Event] = field(init=False, default_factory=dict)
    _submissions: int = field(init=False, default=0)
    _until_s: float = field(init=False, default=inf)
    _scheduled: State = field(init=False, default=None)
    _turn: Turn | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.uplink.groups_ues:
            raise ValueError(
                "group_size of the uplink: leave it out, and set the scheduler to "
                "{kind: groups, size: ...}"
            )
        if (self.look is None) != (self.interface.block_s is None):
            raise ValueError(
                "block_s and look: links are looked at at ends of blocks; give both or neither"
            )
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

        deadline_s : time from now after which updates are late, besides the uplink's own; battery_j
        (n,): energy that each UE may spend, training included. Raises ValueError for a UE that is
        still busy.
        """
        self._catch_up()
        in_flight = self.lives.ue[self.lives.stage != ENDED]
        busy = np.sort(np.append(in_flight, cohort.ue))
        twice = busy[1:][busy[1:] == busy[:-1]]
        if len(twice):
            raise ValueError(
                f"UE {twice[0]} would send two updates at once; leave it out until it has ended"
            )
        number = self._submissions
        self._submissions += 1
        done = self.env.event()
        now_s = float(self.env.now)
        block_s = self.interface.block_s
        look = 0 if block_s is None else find_last_multiple(now_s, block_s)
        new = request_transmissions(
            cohort, payload, self.uplink, now_s, number, look, deadline_s, round_
        )
        draw_drop_outs(new, self.interface.client_dropout_per_s, self.streams)
        if battery_j is not None:
            limit_energy(new, battery_j[new.place])
        if not len(new):
            return done.succeed(summarise_uploads(new, new.place))
        self._waiting_for[number] = done
        self.lives = self.lives.join_rows(new)
        self._arm()
        return done

    @property
    def last_submission(self) -> int:
        """Number of the latest submission."""
        return self._submissions - 1

    def stop(self, submission: int) -> None:
        """End the transmissions of a submission that are in flight: the server no longer needs
        them.
        """
        self._catch_up()
        self._advance(self.env.now, submission)

    def collect_unfinished(self) -> EndedUploads:
        """Transmissions that have not ended, as they stand now."""
        self._catch_up()
        lives = self.lives.select(self.lives.stage != ENDED)
        lives.settle(np.arange(len(lives)), self.env.now)
        return _select_ended(lives, np.arange(len(lives)))

    def memory(self) -> AirMemory:
        """The state that `resume` continues; transmissions in flight are not disturbed."""
        return AirMemory(_copy_rows(self.lives), self._submissions, self._until_s, self._scheduled)

    def resume(self, memory: AirMemory) -> dict[int, simpy.Event]:
        """Go on from a memory, at its time; the events of the submissions under way, by number."""
        self.lives = _copy_rows(memory.lives)
        self._submissions = memory.submissions
        self._until_s = memory.until_s
        self._scheduled = memory.scheduled
        self._waiting_for = {k: self.env.event() for k in np.unique(self.lives.submission).tolist()}
        self._arm()
        return dict(self._waiting_for)

    def _arm(self) -> None:
        """Wake up at the next time at which something changes."""
        at_s = self._find_next_s()
        self._turn = None
        if at_s < inf:
            self._turn = Turn(self.env, max(at_s, self.env.now))
            self._turn.callbacks.append(self._on_turn)

    def _find_next_s(self) -> float:
        """Time of the next change that matters."""
        lives = self.lives
        step_s = self.interface.step_s
        block_s = self.interface.block_s
        own_s = lives.find_ends().next_s
        next_s = float(own_s.min(initial=inf))
        block_at_s = inf
        if block_s is not None:
            block_at_s = block_s * float(find_next_look_blocks(lives, block_s).min(initial=inf))
        if (lives.stage == WAITING).any():
            next_s = min(next_s, self._until_s)
        if self._leaves_out_changes:
            next_s = self._find_next_gain_s(own_s, next_s, block_at_s)
        if step_s is not None and next_s < inf:
            # a multiple may be a rounding too early
            next_s = max(next_s, find_first_multiple(next_s, step_s) * step_s)
        return min(next_s, block_at_s)

    @property
    def _leaves_out_changes(self) -> bool:
        """Whether those that give no UE a rate are no events: nothing else depends on them."""
        return (
            self.interface.link_adaptation == "grant"
            and self.interface.step_s is None
            and isinstance(self.interface.scheduler, Simultaneous)
            and self.on_end is None
        )

    def _find_next_gain_s(self, own_s: FloatArray, next_s: float, limit_s: float) -> float:
        """Time of the first change by which a UE without a rate gets one; of the last change before
        a time that matters otherwise, as limit_s, where that is earlier; next_s where none can be
        left out.

        own_s (n,): when each row ends or becomes ready by itself; next_s: the first of them. UEs
        too weak alone, which are lost as soon as they are ready, get their SINR of that time.
        """
        lives = self.lives
        on = lives.stage == SENDING
        silent = on & (lives.rate_bps == 0)
        is_last = lives.submission == self.last_submission
        leaves = on & ~silent & lives.decoded & ~lives.failed & is_last
        comes = (lives.stage == PREPARING) & (own_s == lives.ready_s) & (self.look is None)
        lost = comes & (lives.alone_bps == 0)
        changes = leaves | (comes ^ lost)
        limit_s = np.where(comes, lives.stops_s, own_s)[~leaves].min(initial=limit_s)
        times_s = np.unique(own_s[changes | lost])
        times_s = times_s[(times_s < limit_s) & (times_s <= own_s[leaves].max(initial=-inf))]
        if not (silent | comes).any():
            times_s = times_s[-1:]
        elif self.uplink.divides_band:  # with its part a UE's SNR changes, and it may be lost
            times_s = times_s[:0]
        for next_s in times_s:
            now = own_s == next_s
            present = on ^ (changes & (own_s <= next_s))
            refused = lost & now
            heard = self.uplink.receive(lives.cohort, present | refused)
            if heard.rate_bps[present & (silent | comes)].any() or (
                refused.any() and changes[now].any()
            ):
                break
            lives.sinr[refused] = heard.sinr[refused]
            lives.snr[refused] = heard.snr[refused]
        return float(next_s)

    def _on_turn(self, turn: simpy.Event) -> None:
        if turn is self._turn:  # nothing earlier came up after it was set
            self._advance(self.env.now)

    def _catch_up(self) -> None:
        """Let the changes happen that were left out up to now."""
        own_s = self.lives.find_ends().next_s
        past_s = own_s[own_s < self.env.now]
        if self._leaves_out_changes and len(past_s):
            self._advance(past_s.max())

    def _advance(self, now_s: float, stopped: int | None = None) -> None:
        """Everything that happens at one time, for all transmissions; stopped: a submission that
        ends then.
        """
        now_s = float(now_s)
        lives = self.lives
        max_tries = self.interface.retransmissions
        was_ended = lives.stage == ENDED
        sends = (lives.stage == SENDING) & (self._scheduled is not None)
        rows = np.flatnonzero(sends & (lives.rate_bps > 0))
        rate_bps = lives.rate_bps[rows]
        has_new = start_waiting(lives, now_s)
        has_ended = end_due_rows(lives, now_s, max_tries)
        has_looked = False
        if stopped is not None:
            left = np.flatnonzero((lives.submission == stopped) & (lives.stage != ENDED))
            has_ended = True
            lives.settle(left, now_s)
            lives.end(left, now_s, Fate.STOPPED)
        elif self.look is not None and self.interface.block_s is not None:
            has_looked = update_stale_links(
                lives, self.look, self.uplink, now_s, self.interface.block_s, max_tries
            )
        if has_new:
            homeless = lives.serving < 0
            # of others that were left out the SINR is known
            was_lost = (lives.alone_bps == 0) & (lives.ready_s < now_s)
            was_lost &= self._leaves_out_changes and self.look is None
            lost = np.flatnonzero((lives.stage == WAITING) & (homeless | was_lost))
            fates = np.where(homeless, Fate.NO_CELL, Fate.UNDECODED)
            lives.end(lost, lives.ready_s[lost], fates[lost])
        is_due = now_s >= self._until_s and (lives.stage == WAITING).any()
        if has_new or has_ended or has_looked or is_due:
            evaluate = has_looked or (has_ended and self.interface.link_adaptation == "change")
            until_s = np.fmin(lives.ended_s[rows], now_s)
            self._share_band(now_s, evaluate, Senders(lives.ue[rows], rate_bps, until_s))
        self._report_ends(np.flatnonzero((lives.stage == ENDED) & ~was_ended))
        self._arm()

    def _share_band(self, now_s: float, evaluate: bool, senders: Senders) -> None:
        """Ask the scheduler, and update SINR and rates, until every place that is granted is used.

        senders : none for a scheduler that remembers nothing.
        """
        lives = self.lives
        n_sending = -1
        while True:
            active = np.flatnonzero((lives.stage == WAITING) | (lives.stage == SENDING))
            if not len(active) and not len(senders.ue):
                return
            grants, rows, heard = self._choose_senders(active, senders, now_s, evaluate)
            self._until_s = grants.until_s
            self._scheduled = grants.state
            senders = NO_SENDERS
            lives.grant(active, grants.sends, now_s)
            is_decoded = (heard.sinr > 0) & (heard.sinr >= self.uplink.min_sinr())
            lives.update_reception(rows, heard, is_decoded, now_s)
            waits = lives.stage == WAITING
            on_air = (lives.stage == SENDING) & (lives.rate_bps > 0)
            lost = no_ints()
            if self.look is None:  # links stay as they are
                never = waits & (lives.alone_bps == 0) & self.interface.scheduler.one_at_a_time
                lost = np.flatnonzero(never | find_stuck(lives, self.uplink))
            n_before = n_sending
            n_sending = on_air.sum()
            if len(lost):
                lives.settle(lost, now_s)
                lives.end(lost, now_s, Fate.UNDECODED)
            elif not waits.any() or n_sending <= n_before or lives.decoded[on_air].all():
                return
            evaluate = False

    def _choose_senders(
        self, active: IntArray, senders: Senders, now_s: float, evaluate: bool
    ) -> tuple[Grants, IntArray, Decoded]:
        """Which of the active rows have a place on the air from now on, and as
        `_measure_reception`.

        The scheduler is asked again without UEs that would get no rate, until it chooses no other:
        such a UE has a place only if no other of its cell has a use for it.
        """
        lives = self.lives
        refused = np.zeros(len(active), bool)
        before = lives.stage[active] == SENDING
        chosen = None
        while True:
            queue = Queue(
                lives.ue[active],
                lives.serving[active],
                lives.cohort.power_w[active],
                lives.cohort.signal_w[active],
                lives.alone_bps[active] * ~refused,
                lives.stage[active] == SENDING,
                lives.rate_bps[active] * ~refused,
                lives.decoded[active],
                lives.ready_s[active],
                senders,
            )
            grants = self.interface.scheduler.choose_grants(queue, now_s, self._scheduled)
            if chosen is None or (grants.sends != chosen).any():
                chosen = grants.sends
                changed = (self.interface.link_adaptation == "change") and (chosen != before).any()
                rows, heard = self._measure_reception(active[chosen], evaluate or changed)
            mute = np.searchsorted(active, rows[heard.rate_bps == 0])
            if (grants.state is None and chosen.all()) or refused[mute].all():
                return grants, rows, heard
            refused[mute] = True

    def _measure_reception(self, rows: IntArray, evaluate: bool) -> tuple[IntArray, Decoded]:
        """Of rows with a place on the air: those whose SINR and rates are new, and these.

        A UE without a rate is silent; one that sends already is silenced last. Unless `evaluate`,
        rates are held where no silent one gets a rate.
        """
        uplink = self.uplink
        cohort = self.lives.cohort
        sends = self.lives.rate_bps > 0
        silent = rows[~sends[rows]]
        if not (evaluate or len(silent)):
            return silent, Decoded(*np.zeros((3, 0)))
        on = replace_values(np.zeros(len(sends), bool), rows, True)
        heard = uplink.receive_granted(cohort, on, uplink.receive, sends=sends, held=not evaluate)
        if not (evaluate or heard.rate_bps[silent].any()):
            rows = silent
        return rows, Decoded(*(column[rows] for column in heard))

    def _report_ends(self, ended: IntArray) -> None:
        """Report rows (k,) that have ended, and submissions that are complete; forget those."""
        if not len(ended):
            return
        lives = self.lives
        under_way = lives.submission[lives.stage != ENDED]
        complete = np.setdiff1d(lives.submission[ended], under_way).tolist()
        results = []
        for number in complete:
            rows = np.flatnonzero(lives.submission == number)
            rows = rows[np.argsort(lives.place[rows])]
            results.append((self._waiting_for.pop(number), summarise_uploads(lives, rows)))
        if complete:
            self.lives = lives.select(~np.isin(lives.submission, complete))
        if self.on_end is not None:
            self.on_end(_select_ended(lives, ended))
        for done, sent in results:
            done.succeed(sent)


def _copy_rows(lives: Transmissions) -> Transmissions:
    return lives.select(np.arange(len(lives)))


def _select_ended(lives: Transmissions, rows: IntArray) -> EndedUploads:
    rows = rows[np.lexsort((lives.ue[rows], lives.ended_s[rows]))]
    sent = summarise_uploads(lives, rows)
    return EndedUploads(lives.submission[rows], lives.place[rows], lives.ue[rows], sent)
