"""Schedulers: who sends, against counting by hand and queueing theory."""

from dataclasses import replace
from math import inf, log2

import numpy as np
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import (
    arange,
    argsort,
    array,
    array_equal,
    asarray,
    broadcast_to,
    cumsum,
    exp,
    flatnonzero,
    full,
    isnan,
    maximum,
    nan,
    ones,
    repeat,
    sort,
    sqrt,
    unique,
    zeros,
)
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark
from rows import read_yaml
from tabled import cases

from netsim.radio.air import EventUplink
from netsim.radio.rate import LinkAdaptation, RateLaw, Shannon
from netsim.radio.schedulers import (
    SCHEDULERS,
    AirInterface,
    EnergyAware,
    Groups,
    ProportionalFair,
    Queue,
    RoundRobin,
    Senders,
    Simultaneous,
    Slot,
)
from netsim.radio.shared_band import Noma, Oma
from netsim.radio.transmissions import Fate, SeenLinks
from netsim.radio.uplink import Cohort, Payload
from netsim.rng import Streams

MBIT = Payload(1e6, 1000, 1.0)
KINDS = list(SCHEDULERS.parts)


class NoDownlink:
    """A downlink that takes no time."""

    def downlink_bps(self, cohort):
        return full(len(cohort.ue), inf)


class Superposed(NoDownlink, Noma):
    noise_w: float | None = 1.0
    bandwidth_hz: float = 1e6
    norm_bound: float | None = 1.0
    rate: RateLaw = Shannon()


class Divided(NoDownlink, Oma):
    noise_w: float | None = 1.0
    bandwidth_hz: float = 1e6
    norm_bound: float | None = 1.0
    rate: RateLaw = Shannon(max_bps_per_hz=1.0)


def cohort(gain, power=1.0, ready_s=0.0, rows=1):
    """UEs of one cell, or as many cells as gain has columns; each is served by the one that hears
    it best."""
    gain = asarray(gain, float)
    gain = gain[:, None] if gain.ndim == 1 else gain
    n = len(gain)

    def each(value):
        return broadcast_to(asarray(value), n).copy()

    return Cohort(
        arange(n),
        gain.argmax(axis=1),
        gain,
        None,
        each(float(1) * power),
        each(rows).astype(int),
        full(n, inf),
        each(1.0 * asarray(ready_s)),
        zeros(n),
    )


def send_with(uplink, c, scheduler, payload=MBIT, look=None, seed=1, n_ue=None, **interface):
    air = EventUplink(
        simpy.Environment(),
        uplink,
        n_ue or len(c.ue),
        Streams(seed),
        AirInterface(scheduler=scheduler, **interface),
        look,
    )
    return air.env.run(air.submit(c, payload))


@given(seed=st.integers(0, 10_000), kind=st.sampled_from(KINDS))
@settings(max_examples=40, deadline=None)
def test_every_free_place_of_a_cell_is_given_away(seed, kind):
    """One UE of a cell (two in groups of two, or all), whoever the UEs are."""
    rng = default_rng(seed)
    n = int(rng.integers(1, 15))
    part = SCHEDULERS.parts[kind]()
    serving = rng.integers(0, 3, n)
    received_w = rng.uniform(0.1, 10, n)
    nobody = Senders(zeros(0, int), zeros(0), zeros(0))
    received_w[rng.uniform(size=n) < 0.2] = 0.0
    no = zeros(n, bool)
    yes = ones(n, bool)
    rate_bps = np.log2(1 + received_w) * 1e6
    q = Queue(
        arange(n),
        serving,
        ones(n),
        received_w,
        rate_bps,
        no,
        zeros(n),
        yes,
        zeros(n),
        nobody,
    )
    sends, _, state = part.choose_grants(q, 0.0, part.start(n))
    # within the slot
    again, _, _ = part.choose_grants(
        replace(q, sends=sends, rate_bps=rate_bps * sends), 1e-3, state
    )
    assert array_equal(again, sends)
    for cell in unique(q.serving):
        selected = sends[q.serving == cell]
        able = rate_bps[q.serving == cell] > 0
        places = min(len(selected), {"simultaneous": n, "groups": 2}.get(kind, 1))
        assert selected.sum() == places
        assert selected[able].sum() == min(places, able.sum())


def test_ues_of_a_group_start_together():
    result = send_with(Superposed(), cohort([80.0, 40.0, 4.0, 2.0]), Groups(size=2))
    starts = [set(flatnonzero(result.granted_s == t).tolist()) for t in unique(result.granted_s)]
    assert starts == [{0, 1}, {2, 3}]
    first, later = (sorted(group) for group in starts)
    weak = [80.0, 40.0, 4.0, 2.0][first[1]]
    assert_allclose(result.rate_bps[first[1]], 1e6 * log2(1 + weak))  # it is decoded last
    assert result.ended_s[first].max() == result.granted_s[later[0]]


def test_the_cheapest_bits_go_first():
    """Joules a bit: power over rate. One at a time, in that order, until the last bit."""
    power = array([1.0, 0.1, 0.4, 2.0])
    c = cohort(array([1.0, 30.0, 2.0, 8.0]), power)
    result = send_with(Superposed(), c, EnergyAware())
    cost = power / np.log2(1 + power * [1.0, 30.0, 2.0, 8.0])
    assert argsort(result.granted_s).tolist() == argsort(cost).tolist()
    assert_allclose(sort(result.granted_s)[1:], sort(result.ended_s)[:-1])
    assert_allclose(result.energy_j, cost * 1.0)


def test_who_comes_within_a_slot_waits_for_the_next():
    late = send_with(
        Superposed(), cohort([1.0, 1.0, 1.0], ready_s=[0.0, 0.25, 0.26]), RoundRobin(slot_s=0.1)
    )
    assert_allclose(late.granted_s, [0.0, 0.3, 0.4])
    # what happens in another cell changes nothing
    gain = array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    neighbour = send_with(
        Superposed(), cohort(gain, ready_s=[0.0, 0.25, 0.15]), RoundRobin(slot_s=0.1)
    )
    assert_allclose(neighbour.granted_s, [0.0, 0.3, 0.15])
    coarse = send_with(
        Superposed(), cohort([1.0, 1.0], ready_s=[0.0, 0.25]), RoundRobin(slot_s=0.1), step_s=0.04
    )
    assert_allclose(coarse.granted_s, [0.0, 0.32])


def test_turns_in_short_slots_are_processor_sharing():
    ready = [0.0, 0.3, 0.9]
    turns = send_with(Superposed(), cohort([1.0, 1.0, 1.0], ready_s=ready), RoundRobin(slot_s=1e-3))
    shares = send_with(
        Divided(interference="none"), cohort([9.0] * 3, ready_s=ready), Simultaneous()
    )
    assert_allclose(turns.ended_s, shares.ended_s, atol=3e-3)


FLOOR = LinkAdaptation(attenuation=1.0, max_bps_per_hz=8.0)  # nothing below -10 dB
WITHOUT_RATE = read_yaml("""
    too far: [0.05, 0.0, 1.0],
    no power: [500.0, 0.0, 0.0],
    no gain: [0.0, 0.0, 1.0],
    drowned: [3000.0, 0.0, 1.0e-3]
""")
"""Gains at two base stations, and power, of UEs of the first cell that get no rate, in the last
case beside one of another cell, received there with 50."""


@mark.parametrize("link_adaptation", ["change", "grant"])
@mark.parametrize("block_s", [None, 1.0])
@mark.parametrize("case", WITHOUT_RATE)
@mark.parametrize("kind", KINDS)
def test_nobody_waits_behind_a_ue_without_a_rate(kind, case, block_s, link_adaptation):
    """It asks first, and others end as if it were not there; a drowned one sends when the
    interference has ended."""
    *weak, power = WITHOUT_RATE[case]
    gain = array([weak, [510.0, 0.0], [400.0, 0.0], [50.0, 100.0]])
    powers = array([power, 1.0, 1.0, 1.0])
    everybody = cohort(gain, powers, [0.0, 0.02, 0.05, 0.0], [1, 1, 2, 8])
    everybody.serving[0] = 0
    uplink = Superposed(rate=FLOOR)
    part = SCHEDULERS.parts[kind]()

    def play(c):
        if block_s is None:
            look = None
        else:

            def look(ue, round_):
                return SeenLinks(everybody.serving[ue], gain[ue], None)

        return send_with(
            uplink,
            c,
            part,
            look=look,
            n_ue=4,
            block_s=block_s,
            retransmissions=10,
            link_adaptation=link_adaptation,
        )

    result = play(everybody)
    rest = play(everybody.select(arange(1, 4)))
    for name in ("ended_s", "granted_s", "delay_s", "airtime_s", "energy_j", "sinr"):
        assert_allclose(getattr(result, name)[1:], getattr(rest, name), rtol=1e-12, err_msg=name)
    assert result.fate[1:].tolist() == [Fate.ARRIVED] * 3
    long_s = rest.ended_s[2]
    if case == "drowned":
        assert result.fate[0] == Fate.ARRIVED
        assert_allclose(result.granted_s[0], long_s)
        assert_allclose(result.airtime_s[0], 0.5)
        assert_allclose(result.delay_s[0], long_s + 0.5)
    else:
        assert result.fate[0] == Fate.UNDECODED
        assert result.energy_j[0] == 0
        assert isnan(result.granted_s[0])
        assert block_s or kind == "groups" or result.ended_s[0] == 0.0


def test_a_turn_that_is_refused_goes_to_the_next_who_gets_a_rate():
    """Of three UEs of a cell that ask at once the first two, by every rule, are drowned: the third
    sends."""
    gain = array([[3000.0, 0.0], [2990.0, 0.0], [510.0, 0.0], [50.0, 100.0]])
    c = cohort(gain, array([1e-3, 1e-3, 1.0, 1.0]), rows=[1, 1, 1, 4])
    for part in (RoundRobin(), ProportionalFair(), EnergyAware(), Groups(size=1)):
        result = send_with(Superposed(rate=FLOOR), c, part)
        assert result.granted_s[2] == 0.0
        assert_allclose(result.ended_s[2], 1 / log2(1 + 510 / 51))
        assert (result.granted_s[:2] >= result.ended_s[3]).all()
        assert (result.fate == Fate.ARRIVED).all()


def test_a_group_whose_signals_drown_each_other_lets_the_next_begin():
    """12 and 10 (noise 1) are below 3 dB together, 8 and 2.2 above: these send, and the first two
    are lost."""
    rate = LinkAdaptation(attenuation=1.0, max_bps_per_hz=8.0, min_sinr_db=3.0)
    result = send_with(Superposed(rate=rate), cohort([12.0, 10.0, 8.0, 2.2]), Groups(size=2))
    assert_array_equal(result.granted_s[2:], [0.0, 0.0])
    assert result.fate[2:].tolist() == [Fate.ARRIVED] * 2
    assert result.fate[:2].tolist() == [Fate.UNDECODED] * 2
    assert result.ended_s[0] == result.ended_s[2:].max()


def test_a_group_that_is_not_decoded_lets_the_next_begin_with_it():
    """SINR 3 is too low for a symbol error rate of 5 %, also of the first group: nobody waits for
    the next event."""
    result = send_with(Superposed(max_ser=0.05), cohort([3.0, 2.0, 1.0]), Groups(size=1))
    assert_array_equal(result.granted_s, [0.0, 0.0, 0.0])


@mark.parametrize("time_constant_s", [0.3, 2.0])
def test_the_mean_rate_follows_its_equation(time_constant_s):
    """dR/dt = (r - R) / T, in steps of 0.1 ms, of UEs that send, end between two questions, and are
    away."""
    part = ProportionalFair(time_constant_s=time_constant_s)
    state = part.start(3)
    slow = zeros(3)
    now_s = 0.0
    step_s = 1e-4
    none = cohort([]).ue
    plan = cases("""
        0.25, {0: (4e6, 0.25)}
        0.75, {1: (1e6, 0.6)}
        1.0, {}
        1.5, {0: (2e6, 1.5), 2: (3e6, 1.1)}
    """)
    for asked_s, sends in plan:
        for at_s in arange(now_s, asked_s - step_s / 2, step_s):
            rate = zeros(3)
            for u, (rate_bps, until_s) in sends.items():
                rate[u] = rate_bps * (at_s < until_s - 1e-9)
            slow += (rate - slow) * step_s / time_constant_s
        ue = array(list(sends), int)
        rate_bps, until_s = array([sends[u] for u in ue.tolist()]).reshape(-1, 2).T
        empty = zeros(0)
        q = Queue(
            none,
            none,
            empty,
            empty,
            empty,
            empty > 0,
            empty,
            empty > 0,
            empty,
            Senders(ue, rate_bps, until_s),
        )
        state = part.choose_grants(q, asked_s, state).state
        now_s = asked_s
        assert_allclose(state.mean_bps, slow, rtol=1e-3)
    assert (state.mean_bps > 1e4).all()


@mark.parametrize("faded, first", [(1.0, 0), (0.2, 1)])
def test_the_highest_multiple_of_the_mean_goes_first(faded, first):
    """Means of 1 and 0.4 Mbit/s, rates of 2 and 1: multiples 2 and 2.5; but 10 and 2.5 where the
    first has faded."""
    part = ProportionalFair()
    zero = zeros(2)
    state = replace(part.start(2), mean_bps=array([faded * 1e6, 0.4e6]))
    rate_bps = array([2e6, 1e6])
    no = zeros(2, bool)
    nobody = Senders(zeros(0, int), zeros(0), zeros(0))
    q = Queue(arange(2), zeros(2, int), zero, zero, rate_bps, no, zero, ~no, zero, nobody)
    assert_array_equal(part.choose_grants(q, 0.0, state).sends, [first == 1, first == 0])


def arrivals_s(seed, n, rate):
    return cumsum(default_rng(seed).exponential(1 / rate, n))


def mean_and_error(play, seeds):
    """Mean over seeds, and its standard error."""
    means = array([play(seed) for seed in seeds])
    return means.mean(), means.std(ddof=1) / sqrt(len(means))


def test_one_at_a_time_waits_as_m_d_1():
    """Poisson arrivals of equal updates, load 0.6: mean wait rho / (2 mu (1 - rho)) = 0.75 of a
    service (1 s)."""
    n = 300
    load = 0.6

    def play(seed):
        result = send_with(
            Superposed(), cohort(ones(n), ready_s=arrivals_s(seed, n, load)), Groups(size=1)
        )
        wait_s = result.granted_s - result.ready_s
        assert_allclose(result.airtime_s, 1.0)
        return wait_s[50:].mean()

    mean_s, error_s = mean_and_error(play, range(8))
    assert error_s < 0.25
    assert abs(mean_s - load / (2 * (1 - load))) < 3.5 * error_s


def test_equal_shares_take_as_long_as_m_g_1_ps():
    """Processor sharing: mean time in the system is service / (1 - rho), whatever the law of the
    service."""
    n = 300
    load = 0.5

    def play(seed):
        rng = default_rng(1000 + seed)
        rows = maximum(np.round(rng.exponential(1000.0, n)), 1)
        c = cohort(full(n, 50.0), ready_s=arrivals_s(seed, n, load), rows=rows)
        result = send_with(Divided(interference="none"), c, Simultaneous(), Payload(1e3, 10, 1.0))
        return (result.ended_s - result.ready_s)[50:].mean()

    mean_s, error_s = mean_and_error(play, range(8))
    assert error_s < 0.4
    assert abs(mean_s - 1 / (1 - load)) < 3.5 * error_s


# -- who has just finished is not forgotten


SLOT_S = 1 / 64
BLOCK_S = 1 / 8
T_S = 0.5


def draw_town(seed):
    """A burst of short uploads: pauses (n, k) before each, rows of each, and serving cells and
    gains by block."""
    rng = default_rng(seed)
    n = int(rng.integers(2, 6))
    k = 5
    blocks = 400
    serving = repeat(rng.integers(0, 2, (blocks // 4, n)), 4, axis=0)
    serving[rng.uniform(size=serving.shape) < 0.03] = -1  # no cell
    return (
        rng.exponential(0.15, (n, k)),
        rng.integers(1, 12, (n, k)),
        serving,
        rng.exponential(6.0, (blocks, n, 2)),
    )


def play_twice(seed):
    """(ue, upload) -> when it was granted first, and ended."""
    pause_s, rows, serving, gain = draw_town(seed)
    block = lambda: int(air.env.now // BLOCK_S)  # noqa: E731
    air = EventUplink(
        simpy.Environment(),
        Superposed(interference="none"),
        len(rows),
        Streams(1),
        AirInterface(
            scheduler=ProportionalFair(slot_s=SLOT_S, time_constant_s=T_S), block_s=BLOCK_S
        ),
        look=lambda ue, round_: SeenLinks(serving[block(), ue], gain[block(), ue], None),
    )
    result = {}

    def live(u):
        for j in range(rows.shape[1]):
            yield air.env.timeout(pause_s[u, j])
            k = block()
            single = ones(1)
            links = serving[k, [u]], gain[k, [u]], None
            values = Cohort(
                array([u]), *links, single, rows[u, [j]], inf * single, 0 * single, 0 * single
            )
            done = yield air.submit(values, Payload(1e4, 10, 1.0))
            result[u, j] = (*done.granted_s, *done.ended_s)

    for u in range(len(rows)):
        air.env.process(live(u))
    air.env.run()
    return result


class Slowly:
    """The same, moment by moment: all that anybody ever sent is kept, and every average is its
    integral."""

    def __init__(self, seed):
        self.pause_s, self.rows, self.serving, self.gain = draw_town(seed)
        n = len(self.rows)
        self.now_s = 0.0
        self.found = {}
        self.comes_s = {u: self.pause_s[u, 0] for u in range(n)}
        self.number = [0] * n
        self.compute_remainder = {}
        self.block = {}
        self.cell = {}
        self.rate = {}
        self.granted_s = {}
        self.holder = {}
        self.sent = {u: [] for u in range(n)}
        while self.comes_s or self.compute_remainder:
            self.step()

    def mean_bps(self, u):
        return sum(
            r * (exp((b - self.now_s) / T_S) - exp((a - self.now_s) / T_S))
            for a, b, r in self.sent[u]
        )

    def step(self):
        ends_s = {
            u: self.now_s + self.compute_remainder[u] / self.rate[u] for u in self.holder.values()
        }
        if self.compute_remainder:
            looks_s = [(self.now_s // BLOCK_S + 1) * BLOCK_S]
        else:
            looks_s = []
        if len(self.compute_remainder) > len(self.holder):
            slots_s = [(self.now_s // SLOT_S + 1) * SLOT_S]
        else:
            slots_s = []
        then_s = min([*self.comes_s.values(), *ends_s.values(), *looks_s, *slots_s])
        for u in ends_s:
            self.sent[u].append((self.now_s, then_s, self.rate[u]))
            self.compute_remainder[u] -= self.rate[u] * (then_s - self.now_s)
        self.now_s = then_s
        for u in [u for u, at_s in ends_s.items() if at_s == then_s]:
            self.end(u)
        for u in [u for u, at_s in self.comes_s.items() if at_s == then_s]:
            del self.comes_s[u]
            self.compute_remainder[u] = self.block[u] = 1e4 * self.rows[u, self.number[u]]
            self.look(u)
        for u in sorted(self.compute_remainder) if then_s % BLOCK_S == 0 else ():
            self.look(u)
        for c in (0, 1):
            selected = [u for u in sorted(self.compute_remainder) if self.cell[u] == c]
            if selected and (then_s % SLOT_S == 0 or c not in self.holder):
                mean = {u: self.mean_bps(u) for u in selected}
                self.holder[c] = max(
                    selected, key=lambda u: self.rate[u] / mean[u] if mean[u] > 0 else inf
                )
                self.granted_s.setdefault(self.holder[c], then_s)

    def look(self, u):
        before = self.cell.get(u)
        k = int(self.now_s // BLOCK_S)
        self.cell[u] = self.serving[k, u]
        if before not in (None, self.cell[u]):
            self.compute_remainder[u] = self.block[u]  # it is sent again
            self.holder = {c: v for c, v in self.holder.items() if v != u}
        self.block[u] = self.compute_remainder[u]
        self.rate[u] = 1e6 * log2(1 + self.gain[k, u, self.cell[u]])
        if self.cell[u] < 0:
            self.end(u)

    def end(self, u):
        self.found[u, self.number[u]] = self.granted_s.pop(u, nan), self.now_s
        self.number[u] += 1
        del self.compute_remainder[u], self.cell[u]
        self.holder = {c: v for c, v in self.holder.items() if v != u}
        if self.number[u] < self.rows.shape[1]:
            self.comes_s[u] = self.now_s + self.pause_s[u, self.number[u]]


def test_proportional_fair_is_that_of_a_slow_one():
    """30 random bursts of short uploads, of UEs that end, are handed over, or have no cell and come
    back."""
    for seed in range(30):
        fast = play_twice(seed)
        slow = Slowly(seed).found
        assert fast.keys() == slow.keys()
        for key, times_s in slow.items():
            assert_allclose(fast[key], times_s, rtol=0, atol=1e-8, err_msg=f"{seed}: {key}")


@mark.parametrize(
    "slot_s, every_s",
    cases("""
    0.1, 0.3
    0.1, 0.7
    0.01, 0.07
"""),
)
def test_slots_end_with_events_that_are_a_rounding_off(slot_s, every_s):
    """At multiples of another step, which are slot ends but for a rounding, the slot is over."""
    n = round(every_s / slot_s)
    for k in range(1, 200):
        for waits in (True, False):
            before = Slot(n * k * slot_s, waits)
            assert before.is_over(k * every_s, slot_s)
            assert not before.is_over(k * every_s - 0.4 * slot_s, slot_s)
