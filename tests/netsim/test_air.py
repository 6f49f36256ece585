"""Transmissions that take their time: equal to plans where nothing changes, and to bookkeeping
where something does."""

from dataclasses import fields, replace
from itertools import count
from math import inf, log2, log10

import numpy as np
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy import (
    arange,
    array,
    array_equal,
    asarray,
    atleast_2d,
    broadcast_to,
    exp,
    full,
    isfinite,
    isin,
    isinf,
    isnan,
    linspace,
    ones,
    sqrt,
    unique,
    where,
    zeros,
)
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark
from rows import read_yaml
from tabled import cases

from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.radio.air import EventUplink
from netsim.radio.power import Fractional
from netsim.radio.rate import LinkAdaptation, RateLaw, Shannon
from netsim.radio.schedulers import NO_SENDERS, SCHEDULERS, AirInterface, Groups
from netsim.radio.shared_band import Noma, Oma
from netsim.radio.transmissions import Fate, SeenLinks
from netsim.radio.uplink import Channel, Cohort, Ideal, Payload
from netsim.rng import Streams

PAYLOAD = Payload(1e6, 1000, 1.0)


class Textbook(Noma):
    """Noise 1 W in 1 MHz, and a downlink that takes no time."""

    noise_w: float | None = 1.0
    bandwidth_hz: float = 1e6
    norm_bound: float | None = 1.0
    rate: RateLaw = Shannon()

    def downlink_bps(self, cohort):
        return full(len(cohort.ue), inf)


DROWNING = Textbook(rate=LinkAdaptation(attenuation=1.0, max_bps_per_hz=8.0), sic_residual=1.0)
"""No rate below -10 dB, and nothing is cancelled."""


def cohort(
    gain, power=1.0, serving=None, fading=None, rows=None, compute=0.0, sinr=np.inf, first=0
):
    gain = atleast_2d(asarray(gain, float))
    n = len(gain)
    compute_s = broadcast_to(asarray(compute, float), n).copy()
    return Cohort(
        ue=first + arange(n),
        serving=zeros(n, int) if serving is None else asarray(serving),
        gain=gain,
        fading=fading,
        power_w=broadcast_to(asarray(power, float), n).copy(),
        rows=ones(n, int) if rows is None else asarray(rows),
        downlink_sinr=broadcast_to(asarray(sinr, float), n).copy(),
        compute_s=compute_s,
        compute_j=compute_s * 2,
    )


def town(seed, n=12, n_bs=3, antennas=None, sinr=3.0, compute=0.5, first=0):
    """A random cohort; some UEs have no cell."""
    rng = default_rng(seed)
    fading = None
    if antennas is not None:
        parts = rng.normal(size=(2, n, n_bs, antennas))
        fading = (parts[0] + 1j * parts[1]) / sqrt(2)
    gain = 10 ** rng.uniform(-13, -9, (n, n_bs))
    serving = rng.integers(-1, n_bs, n)
    power = rng.uniform(0.01, 0.2, n)
    rows = rng.integers(1, 4, n)
    return cohort(gain, power, serving, fading, rows, compute, sinr, first)


def build_uplink(uplink, n_ue=100, seed=1, look=None, entry=None, **interface):
    return EventUplink(
        simpy.Environment(),
        uplink,
        n_ue,
        Streams(seed),
        AirInterface(**interface),
        look=look,
        on_end=entry,
    )


def send(uplink, c, payload=PAYLOAD, deadline_s=inf, battery_j=None, **settings):
    air = build_uplink(uplink, **settings)
    return air.env.run(air.submit(c, payload, deadline_s, battery_j=battery_j))


def same(result, expected, rtol=1e-12, names=None):
    for f in fields(Channel):
        if names is None or f.name in names:
            assert_allclose(
                getattr(result, f.name), getattr(expected, f.name), rtol=rtol, err_msg=f.name
            )


BOUND = {"norm_bound": 1.0, "rate": Shannon()}
FLOOR = {"norm_bound": 1.0, "bandwidth_hz": 1e6}
FIELDS = {"bound": BOUND, "floor": FLOOR, "shannon": {"rate": Shannon()}, "": {}}
UPLINKS = [
    {"noma": Noma, "oma": Oma, "ideal": Ideal}[kind](**read_yaml(text), **FIELDS[fields])
    for kind, fields, text in cases("""
        "noma", "bound", ""
        "noma", "bound", "sic_residual: 0.1, max_ser: 0.7"
        "noma", "bound", "interference: intra"
        "noma", "shannon", "decoding: error-free, interference: none"
        "oma", "bound", ""
        "oma", "bound", "interference: none, max_ser: 0.7"
        "noma", "floor", ""
        "noma", "floor", "sic_residual: 0.1, max_ser: 0.7"
        "noma", "floor", "interference: none"
        "oma", "floor", ""
        "ideal", "", ""
        "noma", "floor", "interference_over_thermal_db: 6, uplink_share: 0.3"
        "oma", "bound", "uplink_share: 0.3"
        "oma", "floor", "interference_over_thermal_db: 6"
    """)
]


@mark.parametrize("uplink", UPLINKS)
@mark.parametrize("antennas", [None, 1, 4])
def test_everybody_at_once_at_held_rates_is_the_plan(uplink, antennas):
    """Of those that base stations do not refuse: these send later, and are lost in the plan."""
    c = replace(town(1, antennas=antennas), rows=full(12, 2))
    c = c.select((uplink.plan(c, PAYLOAD).rate_bps > 0) | (c.serving < 0))
    result = send(uplink, c, link_adaptation="grant")
    expected = uplink.plan(c, PAYLOAD)
    assert not (expected.sinr[c.serving >= 0] < uplink.floor_sinr()).any()
    assert expected.decoded.any() or uplink.floor_sinr() > 0
    assert uplink.kind == "ideal" or not expected.decoded.all()
    same(result, expected)
    for name in ("airtime_s", "delay_s", "energy_j", "decoded", "late"):
        assert array_equal(getattr(result, name), getattr(expected, name)), name


@mark.parametrize("link_adaptation", ["change", "grant"])
def test_who_disturbs_nobody_has_the_plan_s_channel_whenever_others_come_and_go(link_adaptation):
    uplink = Noma(norm_bound=1.0, interference="none")
    rng = default_rng(5)
    c = replace(
        town(5),
        power_w=rng.uniform(1e-5, 1e-4, 12),
        downlink_sinr=rng.uniform(0.5, 9, 12),
        compute_s=rng.uniform(0, 1, 12),
    )
    result = send(uplink, c, link_adaptation=link_adaptation)
    expected = uplink.plan(c, PAYLOAD)
    same(result, expected)
    assert array_equal(result.airtime_s, expected.airtime_s)  # not cut to pieces


@mark.parametrize("antennas", [None, 3])
@mark.parametrize("size", [1, 2, 5])
def test_groups_wait_as_planned(size, antennas):
    """One cell: in several, groups of the same index would have to start at the same time."""
    c = replace(town(7, n_bs=1, antennas=antennas), serving=zeros(12, int), rows=full(12, 2))
    expected = Noma(group_size=size, **BOUND).plan(c, PAYLOAD)
    result = send(Noma(**BOUND), c, link_adaptation="grant", scheduler=Groups(size=size))
    assert expected.decoded.all()
    assert len(unique(expected.delay_s - expected.airtime_s)) > 1
    same(result, expected)


def test_rates_follow_who_leaves():
    """Textbook pair, 8 and 2 over noise 1: the strong one sends at SINR 8 / 3, then at 8 when the
    weak one has left."""
    uplink = Textbook()
    pair = cohort([[8.0], [2.0]], rows=[3, 1])
    result = send(uplink, pair)
    slow = log2(1 + 8 / 3)
    weak = log2(3)
    fast = log2(9)
    leaves = 1 / weak
    ends = leaves + (3 - leaves * slow) / fast
    assert_allclose(result.delay_s, [ends, leaves])
    early = leaves * slow / 3  # share of the strong one's bits sent at 8 / 3
    assert_allclose(result.noise_std**2 * 1000, [early * 3 / 8 + (1 - early) / 8, 1 / 2])
    assert_allclose(result.thermal_std**2 * 1000, [1 / 8, 1 / 2])
    assert_allclose(result.rate_bps, [3e6 / ends, weak * 1e6])
    held = send(uplink, pair, link_adaptation="grant")
    assert_allclose(held.delay_s, [3 / slow, leaves])


def wandering(seed, n, n_bs=3, leaves=0.1):
    """Links that change with every look: other gains, other cells, now and then none."""
    rng = default_rng(seed)
    gain = 10 ** rng.uniform(-13, -9, (50, n, n_bs))
    serving = rng.integers(0, n_bs, (50, n))
    serving[rng.uniform(size=(50, n)) < leaves] = -1
    calls = iter(range(50))

    def look(ue, round_):
        k = next(calls)
        return SeenLinks(serving[k, ue], gain[k, ue], None)

    return look


@given(
    seed=st.integers(0, 10_000),
    tries=st.integers(0, 3),
    link_adaptation=st.sampled_from(["change", "grant"]),
)
@settings(max_examples=25, deadline=None)
def test_every_bit_arrives_is_sent_again_or_is_lost(seed, tries, link_adaptation):
    c = replace(town(seed, sinr=2.0), serving=arange(12) % 3)
    battery = default_rng(seed).choice([inf, 0.8, 1.05], 12)
    result = send(
        Noma(max_ser=0.2, **BOUND),
        c,
        deadline_s=4.0,
        battery_j=battery,
        look=wandering(seed, 12),
        block_s=0.2,
        link_adaptation=link_adaptation,
        retransmissions=tries,
        client_dropout_per_s=0.1,
        scheduler=Groups(size=3),
    )
    fate = result.fate
    assert isin(fate, list(Fate)).all()
    assert not (fate == Fate.UNDER_WAY).any()
    kept = result.sent_bits - result.lost_bits
    n_bits = PAYLOAD.n_bits * c.rows
    decoded = result.decoded
    assert_allclose(kept[decoded], n_bits[decoded])
    assert (kept >= 0).all()
    assert (kept[~decoded] <= n_bits[~decoded] * (1 + 1e-12)).all()
    assert array_equal(decoded, fate == Fate.ARRIVED)
    assert not (result.late & decoded).any()
    assert (result.lost_bits[result.sent_bits == 0] == 0).all()
    ran = isfinite(result.airtime_s)
    trained = where(isnan(result.ready_s), result.energy_j, c.compute_j)
    assert_allclose(result.energy_j[ran], (trained + c.power_w * result.airtime_s)[ran])
    actual = result.rate_bps[ran] * result.airtime_s[ran]
    assert_allclose((actual), result.sent_bits[ran], rtol=1e-9)
    assert (result.energy_j <= battery * (1 + 1e-12)).all()
    assert_allclose(result.energy_j[fate == Fate.EXHAUSTED], battery[fate == Fate.EXHAUSTED])
    # downlink, training, waits and airtime add up
    assert_allclose(result.delay_s[ran], result.ended_s[ran])
    assert (result.ended_s <= 4.0).all()


def columns(result):
    return {f.name: getattr(result, f.name).tobytes() for f in fields(result)}


@mark.parametrize("kind", [Noma, Oma])
@mark.parametrize(
    "interface", [{}, {"link_adaptation": "grant"}, {"step_s": 0.05}, {"scheduler": Groups(size=2)}]
)
def test_the_order_of_submissions_changes_nothing(interface, kind):
    def play(order):
        air = build_uplink(kind(**BOUND), **interface)
        chosen = [town(1, n=5), town(2, n=4, first=10), town(3, n=6, first=20)]
        events = {k: air.submit(chosen[k], PAYLOAD) for k in order}
        air.env.run()
        return [columns(events[k].value) for k in range(3)]

    assert play([0, 1, 2]) == play([2, 0, 1])


def test_whoever_asks_at_a_time_is_heard_before_places_are_given():
    air = build_uplink(Textbook(), scheduler=Groups(size=1))
    done = {}

    def ask(gain, first, pauses):
        for pause_s in pauses:
            yield air.env.timeout(pause_s)
        done[first] = air.submit(cohort([[gain]], first=first), PAYLOAD)

    air.env.process(ask(1.0, 0, [1.0]))
    air.env.process(ask(3.0, 1, [1.0, 0.0, 0.0]))  # three events later, at the same time
    air.env.run()
    assert done[1].value.granted_s == 1.0
    assert done[0].value.granted_s == 1.5


@mark.parametrize("interface", [{}, {"link_adaptation": "grant"}, {"scheduler": Groups(size=2)}])
def test_looking_more_often_changes_nothing(interface):
    def play(interruptions):
        air = build_uplink(Noma(norm_bound=1.0), **interface)
        done = air.submit(replace(town(4), downlink_sinr=linspace(1, 9, 12)), PAYLOAD)
        for at_s in interruptions:
            air.env.run(until=at_s)
            air._share_band(at_s, not interface.get("link_adaptation"), NO_SENDERS)
            air._on_turn(air._turn)
        return columns(air.env.run(done))

    assert play([]) == play(linspace(0.05, 2.0, 40).tolist())


@mark.parametrize(
    "kind", ["simultaneous", "groups", "round-robin", "proportional-fair", "energy-aware"]
)
@mark.parametrize("at_s", [0.7, 2.3])
def test_an_interrupted_air_goes_on_to_the_same_bytes(kind, at_s, tmp_path):
    def look(ue, round_):
        return SeenLinks((ue + 1) % 3, 10.0 ** (-12 + (ue[:, None] + arange(3)) % 4), None)

    def build(at_s=0.0):
        fields = read_yaml("block_s: 0.5, retransmissions: 2, client_dropout_per_s: 0.05")
        interface = AirInterface.model_validate(fields | {"scheduler": {"kind": kind}})
        env = simpy.Environment(initial_time=at_s)
        return EventUplink(env, Noma(max_ser=0.2, **BOUND), 40, Streams(3), interface, look=look)

    def begin():
        air = build()
        first = air.submit(town(1, n=9), PAYLOAD, 30.0)
        air.env.run(until=0.01)
        return air, [first, air.submit(town(2, n=9, first=20), PAYLOAD, 30.0)]

    air, events = begin()
    air.env.run()
    whole = [columns(e.value) for e in events]
    halved, events = begin()
    halved.env.run(until=at_s)
    save_tree(tmp_path / "air.npz", to_tree(halved.memory()))
    again = build(at_s)
    later = again.resume(from_tree(load_tree(tmp_path / "air.npz"), again.memory()))
    again.env.run()
    assert later or at_s > 1
    assert all(columns(later[k].value) == whole[k] for k in later)
    halved.env.run()
    assert [columns(e.value) for e in events] == whole  # remembering disturbs nothing


def test_a_late_update_stops_at_the_deadline():
    uplink = Textbook()
    c = cohort([[1.0], [3.0]], power=0.5, rows=[3, 1], compute=0.25)
    # the second has 1.5 W over 1.5 W of signal and noise: 1 s
    result = send(uplink, c, deadline_s=1.5)
    assert_array_equal(result.late, [True, False])
    assert_array_equal(result.fate, [Fate.LATE, Fate.ARRIVED])
    assert_allclose(result.delay_s[0], 1.5)
    assert_allclose(result.airtime_s[0], 1.25)
    assert_allclose(result.energy_j[0], 0.5 + 0.5 * 1.25)
    values = send(uplink.model_copy(update={"deadline_s": 1.5}), c)
    assert columns(values) == columns(result)
    early = send(uplink, c, deadline_s=0.125)
    assert early.late.all()
    assert (early.airtime_s == 0).all()
    assert_array_equal(early.energy_j, [0.25, 0.25])


def build_cell(*gains, serving=None):
    """A UE whose gain in second k is gains[k], in the cell serving[k]."""
    blocks = (min(k, len(gains) - 1) for k in count(1))

    def look(ue, round_):
        k = next(blocks)
        cell = 0 if serving is None else serving[k]
        return SeenLinks(full(len(ue), cell), full((len(ue), 2), float(gains[k])), None)

    return look


def test_a_block_that_is_not_decoded_is_sent_again():
    """SINR 7 (3 bit/s/Hz) is enough, 3 (2 bit/s/Hz) is not. 5 Mbit in blocks of 1 s; those of
    seconds 2 and 3 fail."""
    uplink = Textbook(max_ser=0.05)
    assert 3 < uplink.min_sinr() < 7
    payload = Payload(5e6, 1000, 1.0)
    tries = {}
    for n in (0, 1, 2, 5):
        look = build_cell(7, 3, 3, 7)
        tries[n] = send(
            uplink, cohort([[7.0, 7.0]]), payload, look=look, block_s=1.0, retransmissions=n
        )
    for n in (0, 1):
        lost = tries[n]
        assert lost.fate == Fate.UNDECODED
        assert not lost.late
        assert_allclose([lost.delay_s, lost.airtime_s, lost.energy_j], n + 2)
        assert_allclose(lost.sent_bits, 3e6 + (n + 1) * 2e6)
        assert_allclose(lost.lost_bits, n * 2e6)
    sent = tries[2]
    assert columns(sent) == columns(tries[5])
    assert sent.fate == Fate.ARRIVED
    assert_allclose(sent.delay_s, 3 + 2 / 3)
    assert_allclose(sent.lost_bits, 4e6)
    assert_allclose(sent.noise_std**2 * 1000, 1 / 7)  # what was lost leaves no noise
    look = build_cell(7, 3, 7, 3, 7)  # each block anew has so many tries
    apart = send(
        uplink,
        cohort([[7.0, 7.0]]),
        Payload(8e6, 1000, 1.0),
        look=look,
        block_s=1.0,
        retransmissions=1,
    )
    assert apart.fate == Fate.ARRIVED
    assert_allclose(apart.lost_bits, 4e6)


def test_a_block_of_which_a_part_is_not_decoded_is_lost():
    """A UE of another cell disturbs 20 with 5 at first: SINR 20 / 6 is too low, 20 would do."""
    uplink = Textbook(max_ser=0.05)
    result = send(uplink, cohort([[20.0, 0.0], [5.0, 50.0]], serving=[0, 1], rows=[3, 1]))
    assert 20 / 6 < uplink.min_sinr() < 5
    assert result.ended_s[0] > result.ended_s[1] + 0.1
    assert_array_equal(result.fate, [Fate.UNDECODED, Fate.ARRIVED])


def test_a_block_in_which_the_cell_changes_is_sent_again_in_the_new_one():
    """3 bit/s/Hz, 7.5 Mbit, blocks of 1 s; at 2 s the cell changes, and the second before does not
    count."""
    uplink = Textbook()
    c = cohort([[7.0, 7.0]])
    payload = Payload(7.5e6, 1000, 1.0)
    stays = send(uplink, c, payload, look=build_cell(7, 7, 7), block_s=1.0)
    moves = send(uplink, c, payload, look=build_cell(7, 7, 7, serving=[0, 0, 1]), block_s=1.0)
    assert_allclose([stays.delay_s[0], moves.delay_s[0]], [2.5, 3.5])
    assert_allclose(moves.lost_bits, 3e6)
    assert stays.lost_bits == 0
    assert moves.decoded.all()
    assert_allclose(moves.energy_j, 3.5)
    lost = send(uplink, c, payload, look=build_cell(7, 7, 7, serving=[0, 0, -1]), block_s=1.0)
    assert lost.fate == Fate.NO_CELL
    assert_allclose(lost.delay_s, 2.0)
    assert not lost.late


def test_noise_is_the_mean_over_the_bits_of_all_blocks():
    """SINR 7 for a second (3 Mbit), then SINR 1 (1 bit/s/Hz) for the other 2 Mbit."""
    uplink = Textbook()
    result = send(
        uplink, cohort([[7.0, 7.0]]), Payload(5e6, 1000, 1.0), look=build_cell(7, 1), block_s=1.0
    )
    assert_allclose(result.delay_s, 3.0)
    assert_allclose(result.noise_std**2 * 1000, (3 / 7 + 2) / 5)


# more than a scenario may ask for
INVERSION = Fractional.model_construct(p0_dbm=10 * log10(7e3), alpha=1.0)
"""7 W are received from whoever may send with enough"""


def drives_away(most_w):
    """A UE of gain 7, 3.5, 1.75, ... in seconds 0, 1, 2, ..., that sends by the law of its link."""
    seconds = iter(range(1, 50))

    def look(ue, round_):
        gain = full((len(ue), 2), 7.0 / 2 ** next(seconds))
        serving = zeros(len(ue), int)
        return SeenLinks(
            serving, gain, None, INVERSION.power_w(gain, serving, most_w, None, Streams(1))[0]
        )

    return look


@mark.parametrize("most_w, second, third", [(1e3, 2.0, 4.0), (1.5, 1.5, 1.5)])
def test_power_follows_the_link_up_to_the_cap(most_w, second, third):
    """7.5 Mbit at SINR 7 (3 bit/s/Hz) take 2.5 s at 1, 2 and 4 W; a cap of 1.5 W leaves SINR 5.25
    and 2.625."""
    c = cohort([[7.0, 7.0]])
    payload = Payload(7.5e6, 1000, 1.0)
    result = send(Textbook(), c, payload, look=drives_away(most_w), block_s=1.0)
    rates = [3.0, log2(1 + second * 3.5), log2(1 + third * 1.75)]
    last_s = (7.5 - rates[0] - rates[1]) / rates[2]
    assert 0 < last_s < 1
    assert_allclose(result.delay_s, 2 + last_s)
    assert_allclose(result.energy_j, 1 + second + third * last_s)
    assert_allclose(result.power_w * result.airtime_s, result.energy_j)
    held = send(Textbook(), c, payload, look=build_cell(7, 3.5, 1.75, 0.875), block_s=1.0)
    assert held.power_w == 1.0
    assert held.delay_s > 3 > result.delay_s


def test_a_battery_pays_for_the_powers_that_were_sent_with():
    """1 J in the first second, 2 W in the next: 2.5 J last for 1.75 s, and no longer where nobody
    looks at the air."""
    c = cohort([[7.0, 7.0]])
    payload = Payload(7.5e6, 1000, 1.0)
    result = send(
        Textbook(), c, payload, look=drives_away(1e3), block_s=1.0, battery_j=array([2.5])
    )
    assert_array_equal(result.fate, [Fate.EXHAUSTED])
    assert_allclose(result.energy_j, 2.5)
    assert_allclose(result.airtime_s, 1.75)


def test_ues_leave_at_the_stated_rate():
    n = 1000
    c = cohort(ones((n, 1)), compute=2.0)
    ideal = send(Ideal(), c, n_ue=n, client_dropout_per_s=0.25)
    share = exp(-0.5)
    assert abs(ideal.decoded.mean() - share) < 4 * sqrt(share * (1 - share) / n)
    left = ideal.fate == Fate.DROPPED
    assert array_equal(left, ~ideal.decoded)
    assert (ideal.delay_s[left] < 2.0).all()
    assert_allclose(ideal.energy_j[left], 2 * ideal.delay_s[left])  # of training until it left
    assert columns(send(Ideal(), c, n_ue=n, client_dropout_per_s=0.25)) == columns(ideal)
    assert columns(send(Ideal(), c, n_ue=n, client_dropout_per_s=0.25, seed=2)) != columns(ideal)


def test_energy_ends_in_training_or_on_the_air():
    uplink = Textbook(interference="none")
    # trains 1 s for 2 J, sends 1/3 s for 0.1 J
    c = cohort(full((3, 1), 7 / 0.3), power=0.3, compute=1.0)
    result = send(uplink, c, battery_j=array([0.5, 2.05, 2.2]))
    assert_array_equal(result.fate, [Fate.EXHAUSTED, Fate.EXHAUSTED, Fate.ARRIVED])
    assert_allclose(result.energy_j, [0.5, 2.05, 2.1])
    assert_allclose(result.delay_s, [0.25, 1 + 1 / 6, 4 / 3])


def test_ends_are_told_at_their_time():
    news = []
    air = build_uplink(
        Noma(**BOUND), entry=lambda e: news.append((air.env.now, e)), link_adaptation="grant"
    )
    done = air.submit(town(8), PAYLOAD)
    result = air.env.run(done)
    assert sorted(ue for _, e in news for ue in e.ue) == list(range(12))
    for place, e in news:
        assert (e.sent.ended_s == place).all()
        assert e.ue.tolist() == sorted(e.ue)
        assert e.sent.noise_std.tolist() == result.noise_std[e.place].tolist()
        assert (e.sent.ended_s == result.ended_s[e.place]).all()
        assert (e.sent.fate == result.fate[e.place]).all()
    times = [place for place, _ in news]
    assert times == sorted(times)
    assert len(set(times)) > 6


@mark.parametrize("strained", [False, True])
@mark.parametrize("link_adaptation", ["change", "grant"])
@mark.parametrize("step_s", [None, 0.05])
@mark.parametrize("kind", list(SCHEDULERS.parts))
def test_who_listens_changes_no_end(kind, link_adaptation, step_s, strained):
    """Two waves of UEs in three cells, and the first once more: the same bytes with an ear for each
    end and without; strained by batteries, deadlines, blocks of other links, and UEs that leave."""
    rng = default_rng(6)
    gain = 10 ** rng.uniform(-13, -9, (40, 30, 3))

    def play(record):
        mode = {"link_adaptation": link_adaptation, "scheduler": {"kind": kind}, "step_s": step_s}
        uplink = Noma(norm_bound=1.0)
        limits = {}
        if strained:
            mode |= {"block_s": 0.2, "retransmissions": 2, "client_dropout_per_s": 0.1}
            uplink = Noma(norm_bound=1.0, max_ser=0.2)
            limits = {"deadline_s": 3.0}

        def look(ue, round_):
            block = round(air.env.now / 0.2) % 40
            return SeenLinks(gain[block // 4, ue].argmax(axis=1), gain[block, ue], None)

        air = build_uplink(uplink, entry=record, look=look if strained else None, **mode)
        first = replace(town(3, n=14), downlink_sinr=linspace(1, 9, 14))
        done = []
        for cohort, until_s in ((first, 1.0), (town(4, n=9, first=20), 40.0), (first, 80.0)):
            if strained:
                limits["battery_j"] = 1.0 + 0.1 * cohort.compute_s * (cohort.ue % 5)
            done.append(air.submit(cohort, PAYLOAD, **limits))
            air.env.run(until=until_s)
        return [columns(event.value) for event in done]

    news = []
    assert play(None) == play(news.append)
    assert len(news) > 2
    fates = {int(fate) for end in news for fate in end.sent.fate}
    assert not strained or len(fates) >= 3


@mark.parametrize("seed", range(60))
def test_changes_that_are_left_out_change_nothing(seed):
    """At held rates without a listener, changes that give nobody a rate are no events: the same
    bytes as with every change an event, for cohorts that come while others send, one of which is
    stopped; also halfway, and after a resumption there."""
    rng = default_rng(seed)
    pick = lambda *values: values[rng.integers(len(values))]  # noqa: E731
    uplink = pick(Noma, Noma, Noma, Oma)(
        norm_bound=1.0,
        interference=pick("all", "all", "intra"),
        max_ser=pick(None, None, 0.2),
        rate=pick(LinkAdaptation(), LinkAdaptation(min_sinr_db=-3.0), Shannon()),
    )
    mode = {
        "link_adaptation": "grant",
        "retransmissions": pick(0, 2),
        "client_dropout_per_s": pick(0.0, 0.0, 0.3),
        "block_s": pick(None, None, None, 0.4),
        "scheduler": {"kind": pick("simultaneous", "simultaneous", "groups")},
    }
    antennas = pick(None, 2)
    levels = rng.uniform(-14.5, -9, (40, 90, 3))
    limits = pick({}, {"deadline_s": 2.0})
    has_battery = pick(False, True)
    cohorts = []
    for k, n in enumerate(rng.integers(5, 30, 3).tolist()):
        one = town(int(rng.integers(1000)), n, 3, antennas, 3.0, 0.0, 30 * k)
        serving = one.serving if k else one.gain.argmax(axis=1)
        # groups of UEs come at the same time; some are too weak alone, some silent
        weaker = 10 ** rng.uniform(-4, 1, n)
        cohorts.append(
            replace(
                one,
                gain=one.gain * weaker[:, None],
                serving=serving,
                power_w=one.power_w * (rng.uniform(size=n) < 0.95),
                downlink_sinr=rng.choice([0.01, 1.0, 2.0, 3.0, 5.0, 8.0], n),
                compute_s=rng.choice([0.2, 0.5, 0.9], n),
            )
        )
    times_s = [0.0, pick(0.0, 0.3), 0.6 + rng.uniform()]
    looks_s = rng.uniform(0.2, 3.0, 3).tolist()
    breaks_s = looks_s[0]

    def play(listener, breaks):
        def look(ue, round_):
            level = levels[min(round(air.env.now / 0.4), 39)][ue]
            return SeenLinks(level.argmax(axis=1), 10**level, None)

        def build(listener):
            looks = look if mode["block_s"] else None
            return build_uplink(uplink, entry=listener, look=looks, **mode)

        air = build(listener)
        found, halfway = {}, []
        stop_s = 2.0 if seed % 3 == 0 else inf
        moments = [(t, "submit", k) for k, t in enumerate(times_s)]
        moments += [(t, "see", None) for t in looks_s] + [(breaks_s, "break", None)]
        moments += [(stop_s, "stop", 2)] if stop_s < inf else []
        for at_s, what, k in sorted(moments, key=lambda one: one[0]):
            if at_s > air.env.now:
                air.env.run(until=at_s)
            if what == "submit":
                battery_j = 1.0 + 0.1 * (cohorts[k].ue % 5) if has_battery else None
                found[k] = air.submit(cohorts[k], PAYLOAD, battery_j=battery_j, **limits)
            elif what == "see":
                left = air.collect_unfinished()
                halfway.append((left.ue.tolist(), columns(left.sent)))
            elif what == "stop":
                air.stop(k)
            elif breaks:
                memory = air.memory()
                ended = {j: event for j, event in found.items() if event.processed}
                env = simpy.Environment(initial_time=at_s)
                air = build(listener)
                air.env = env
                found |= ended | air.resume(memory)
        air.env.run(until=500.0)
        ends = [event.processed and columns(event.value) for event in found.values()]
        return ends, halfway

    every = play(lambda end: None, False)
    assert play(None, False) == every
    assert play(None, True) == every


def test_who_comes_beside_one_that_is_lost_is_heard_without_it():
    """Two UEs become ready at once: one too weak alone, lost at once, without which the other has
    just enough SINR for a rate; a third sends all the while."""
    uplink = Textbook(rate=LinkAdaptation(attenuation=1.0, max_bps_per_hz=8.0, min_sinr_db=0.0))
    # decoded from the strongest: 30 / (1 + 1 + 0.6), then 1 / (1 + 0.6), or 1 / 1 without the last
    gains = [[30.0], [1.0], [0.6]]
    c = cohort(gains, compute=[0.0, 0.5, 0.5], rows=[9, 1, 1])
    air = build_uplink(uplink, link_adaptation="grant")
    sent = air.env.run(air.submit(c, PAYLOAD))
    assert [Fate(fate) for fate in sent.fate] == [Fate.ARRIVED, Fate.ARRIVED, Fate.UNDECODED]
    assert sent.granted_s[1] == sent.ended_s[2] == 0.5
    assert_allclose(sent.sinr[2], 0.6 / (1.0 + 1.0))  # before the other had a rate


@mark.parametrize("kind", [Noma, Oma])
@mark.parametrize("antennas", [None, 4])
def test_some_of_a_cohort_are_heard_as_a_cohort_of_their_own(kind, antennas):
    """To the last bit, also after others of the same links were heard."""
    uplink = kind(interference_over_thermal_db=3.0, norm_bound=1.0)
    c = town(2, n=40, antennas=antennas)
    uplink.plan(c, PAYLOAD)
    for number in range(6):
        on = (c.serving >= 0) & (default_rng(number).uniform(size=40) < 0.5)
        few = c.select(on)
        alone = uplink.receive(few, ones(len(few.ue), bool))
        for some, expected in zip(uplink.receive(c, on), alone, strict=True):
            assert_array_equal(some[on], expected)
            assert expected.any()


def test_the_next_request_may_follow_an_arrival():
    """An asynchronous server: whoever has arrived is asked again at once, three times."""
    ends = []

    def each(end):
        ends.append(end)
        if end.submission[0] < 2:
            air.submit(cohort([[7.0]]), PAYLOAD)

    air = build_uplink(Textbook(), entry=each)
    air.submit(cohort([[7.0]]), PAYLOAD)
    air.env.run()
    assert_allclose([e.sent.ended_s[0] for e in ends], [1 / 3, 2 / 3, 1])
    assert len(air.lives) == 0


def test_who_is_stopped_leaves_the_air_to_the_others():
    """Two share the air until the one of the first cohort is stopped; its bits and energy count up
    to then."""
    air = build_uplink(Textbook())
    first = air.submit(cohort([[7.0]]), PAYLOAD)
    second = air.submit(cohort([[7.0]], first=1), PAYLOAD)
    air.env.run(until=0.1)
    before = air.collect_unfinished()
    assert_array_equal(before.ue, [0, 1])
    assert (before.sent.fate == Fate.UNDER_WAY).all()
    air.stop(0)
    stopped = air.env.run(first)
    assert air.env.now == 0.1
    assert_array_equal(stopped.fate, [Fate.STOPPED])
    assert not stopped.decoded[0]
    assert_allclose(stopped.airtime_s, 0.1)
    assert_allclose(stopped.sent_bits, before.sent.sent_bits[0])
    left = 1.0 - before.sent.sent_bits[1] / PAYLOAD.n_bits
    result = air.env.run(second)
    assert_allclose(result.ended_s, 0.1 + left / 3)  # alone it needs 1/3 s for all
    assert len(air.lives) == 0


def hold_links(item):
    """Links that stay what they were."""
    return lambda ue, round_: SeenLinks(item.serving[ue], item.gain[ue], None)


def test_who_is_refused_waits_without_sending_until_others_end():
    """8 against 100 and noise 1 has no rate while both send, with a floor of -10 dB; alone it
    has."""
    uplink = DROWNING
    pair = cohort([[100.0], [8.0]], compute=0.0)
    result = send(uplink, pair)
    first_s = 1 / log2(1 + 100.0)
    assert_array_equal(result.decoded, [True, True])
    assert_allclose(result.airtime_s, [first_s, 1 / log2(9)])
    assert_allclose(result.delay_s, [first_s, first_s + 1 / log2(9)])
    assert_allclose(result.energy_j, result.airtime_s)  # at 1 W, and nothing while it is silent
    assert_allclose(result.sinr, [100.0, 8.0])  # nobody disturbs the first
    blocks = send(uplink, pair, look=hold_links(pair), block_s=0.01)
    assert_allclose(blocks.ended_s, result.ended_s)
    assert_allclose(result.granted_s, [0.0, first_s])
    # the second is granted when the first has sent
    held = send(uplink, pair, link_adaptation="grant")
    assert columns(held) == columns(result)
    assert_array_equal(
        uplink.plan(pair, PAYLOAD).decoded,
        [
            True,
            False,
        ],
    )


def test_at_held_rates_all_follow_the_interference_with_the_next_grant():
    """100 and 20 (noise 1, no cancellation) hold rates of SINR 100 / 21 and 20 / 101; 3 is drowned
    until the strong one has ended. It is granted then beside the other, whose rate becomes that of
    20 / 4, and stays so.
    """
    uplink = DROWNING
    result = send(uplink, cohort([[100.0], [20.0], [3.0]], rows=[3, 3, 1]), link_adaptation="grant")
    bits = lambda sinr: log2(1 + sinr)  # noqa: E731
    first_s = 3 / bits(100 / 21)
    second_s = first_s + (3 - first_s * bits(20 / 101)) / bits(20 / 4)
    third_s = first_s + 1 / bits(3 / 21)
    assert first_s < second_s < third_s
    assert_allclose(result.ended_s, [first_s, second_s, third_s])
    assert_allclose(result.granted_s, [0.0, 0.0, first_s])
    assert_allclose(result.delay_s, result.ended_s)
    assert_allclose(result.energy_j, [first_s, second_s, third_s - first_s])


def test_held_rates_stay_while_nobody_silent_gets_one():
    """The same without the third's chance: beside 20 it has no rate yet, and 20 is not told that
    100 has ended."""
    uplink = DROWNING
    result = send(uplink, cohort([[100.0], [20.0], [1.5]], rows=[3, 1, 1]), link_adaptation="grant")
    ends_s = [3 / log2(1 + 100 / 21), 1 / log2(1 + 20 / 101)]
    assert_allclose(result.ended_s, [*ends_s, max(ends_s) + 1 / log2(2.5)])
    assert result.sinr[2] == 1.5
    assert ends_s[0] < ends_s[1]


@mark.parametrize("link_adaptation", ["change", "grant"])
def test_who_is_lost_at_last_has_waited(link_adaptation):
    """10 sends until 30 drowns it (floor 0 dB, no cancellation). When that has sent, 10 and another
    10 have no rate; they are lost when the last UE that has one, in another cell, has ended.
    """
    uplink = Textbook(
        rate=LinkAdaptation(attenuation=1.0, max_bps_per_hz=8.0, min_sinr_db=0.0), sic_residual=1.0
    )
    c = cohort(
        [[10.0, 0.0], [30.0, 0.0], [10.0, 0.0], [0.0, 100.0]],
        serving=[0, 0, 0, 1],
        rows=[9, 1, 1, 8],
    )
    result = send(
        uplink,
        replace(c, compute_s=array([0.0, 0.25, 0.3, 0.0])),
        link_adaptation=link_adaptation,
    )
    drowns_s = 0.25 + 1 / log2(31)
    last_s = 8 / log2(101)
    assert_array_equal(result.fate, [Fate.UNDECODED, Fate.ARRIVED, Fate.UNDECODED, Fate.ARRIVED])
    assert drowns_s < last_s
    assert_allclose(result.ended_s, [last_s, drowns_s, last_s, last_s])
    assert_allclose(result.delay_s, [last_s, drowns_s, inf, last_s])
    assert_allclose(result.airtime_s, [0.25, drowns_s - 0.25, inf, last_s])


@mark.parametrize("link_adaptation", ["change", "grant"])
@mark.parametrize("block_s", [None, 0.5])
def test_a_ue_too_weak_alone_is_lost_and_waits_for_nobody(link_adaptation, block_s):
    pair = cohort([[9.0], [0.05]], compute=0.0)
    look = None if block_s is None else hold_links(pair)
    result = send(
        Textbook(rate=LinkAdaptation()),
        pair,
        link_adaptation=link_adaptation,
        look=look,
        block_s=block_s,
    )
    assert_array_equal(result.fate, [Fate.ARRIVED, Fate.UNDECODED])
    assert result.ended_s[1] == (block_s or 0.0)
    assert isinf(result.airtime_s[1])
    assert result.energy_j[1] == 0
    assert result.sent_bits[1] == 0
    assert_allclose(result.sinr[0], 9.0)


@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from([Noma, Oma]),
    antennas=st.sampled_from([None, 2]),
)
@settings(max_examples=25, deadline=None)
def test_nothing_is_sent_below_the_floor_whatever_comes_and_goes(seed, kind, antennas):
    rng = default_rng(seed)
    c = replace(town(seed, antennas=antennas), compute_s=rng.uniform(0, 3, 12), compute_j=zeros(12))
    uplink = kind(**FLOOR)
    result = send(uplink, c, deadline_s=20.0)
    chosen = result.sent_bits > 0
    assert (result.sinr[chosen] >= 0.1 * (1 - 1e-9)).all()
    assert_allclose(result.sent_bits[result.decoded], (1e6 * c.rows)[result.decoded])
    assert_allclose(result.energy_j[chosen], (c.power_w * result.airtime_s)[chosen])
    assert not result.energy_j[~chosen].any()


@mark.parametrize("block_s", [None, 0.5])
def test_what_outside_noise_drowns_is_lost_at_once(block_s):
    """-6 dB over thermal noise, beside a UE that sends on: decoded, and below the floor with 6 dB
    from outside."""
    uplink = Noma(interference="none", **FLOOR)
    pair = cohort(
        array([[9.0], [0.25]]) * uplink.band_noise_w(),
        rows=[40, 1],
        compute=[0.0, 30.0],
        sinr=9.0,
    )
    look = None if block_s is None else hold_links(pair)
    assert send(uplink, pair, look=look, block_s=block_s).decoded.all()
    loud = uplink.model_copy(update={"interference_over_thermal_db": 6.0})
    result = send(loud, pair, look=look, block_s=block_s)
    assert_array_equal(result.fate, [Fate.ARRIVED, Fate.UNDECODED])
    assert result.sent_bits[1] == 0
    assert result.ended_s[1] <= result.ready_s[1] + (block_s or 0.0) < result.ended_s[0]


def test_a_battery_pays_for_the_share_of_the_time_in_which_a_ue_sends():
    """1 W for a second of bits in a fifth of the time: five seconds, a joule; half a joule ends it
    after half."""
    uplink = Textbook(uplink_share=0.2)
    whole = send(uplink, cohort([[1.0]]))
    assert_allclose(whole.airtime_s, 5.0)
    assert_allclose(whole.energy_j, 1.0)
    assert_allclose(whole.power_w, 1.0)
    half = send(uplink, cohort([[1.0]]), battery_j=array([0.5]))
    assert_array_equal(half.fate, [Fate.EXHAUSTED])
    assert_allclose(half.airtime_s, 2.5)
    assert_allclose(half.energy_j, 0.5)
    assert_allclose(half.power_w, 1.0)
