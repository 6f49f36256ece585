"""Transmissions that take their time: equal to plans where nothing changes, and to bookkeeping
where something does."""

from dataclasses import fields, replace
from itertools import count
from math import inf, log2, log10

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.radio.air import EventUplink
from netsim.radio.power import Fractional
from netsim.radio.rate import LinkAdaptation, RateLaw, Shannon
from netsim.radio.schedulers import SCHEDULERS, AirInterface, Groups
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
        return np.full(len(cohort.ue), inf)


def cohort(
    gain, power=1.0, serving=None, fading=None, rows=None, compute=0.0, sinr=np.inf, first=0
):
    gain = np.atleast_2d(np.asarray(gain, dtype=float))
    n = len(gain)
    return Cohort(
        ue=first + np.arange(n),
        serving=np.zeros(n, dtype=int) if serving is None else np.asarray(serving),
        gain=gain,
        fading=fading,
        power_w=np.broadcast_to(np.asarray(power, dtype=float), n).copy(),
        rows=np.ones(n, dtype=int) if rows is None else np.asarray(rows),
        downlink_sinr=np.broadcast_to(np.asarray(sinr, dtype=float), n).copy(),
        compute_s=np.broadcast_to(np.asarray(compute, dtype=float), n).copy(),
        compute_j=np.broadcast_to(np.asarray(compute, dtype=float), n).copy() * 2,
    )


def town(seed, n=12, n_bs=3, antennas=None, sinr=3.0, compute=0.5, first=0):
    """A random cohort; some UEs have no cell."""
    rng = np.random.default_rng(seed)
    fading = None
    if antennas is not None:
        fading = (
            rng.normal(size=(n, n_bs, antennas)) + 1j * rng.normal(size=(n, n_bs, antennas))
        ) / np.sqrt(2)
    gain = 10 ** rng.uniform(-13, -9, (n, n_bs))
    serving = rng.integers(-1, n_bs, n)
    power = rng.uniform(0.01, 0.2, n)
    rows = rng.integers(1, 4, n)
    return cohort(gain, power, serving, fading, rows, compute, sinr, first)


def air_of(uplink, n_ue=100, seed=1, look=None, each=None, **interface):
    return EventUplink(
        simpy.Environment(),
        uplink,
        n_ue,
        Streams(seed),
        AirInterface(**interface),
        look=look,
        each=each,
    )


def sent_by(uplink, c, payload=PAYLOAD, deadline_s=inf, battery_j=None, **settings):
    air = air_of(uplink, **settings)
    return air.env.run(air.submit(c, payload, deadline_s, battery_j=battery_j))


def same(found, expected, rtol=1e-12, names=None):
    for f in fields(Channel):
        if names is None or f.name in names:
            np.testing.assert_allclose(
                getattr(found, f.name), getattr(expected, f.name), rtol=rtol, err_msg=f.name
            )


BOUND = {"norm_bound": 1.0, "rate": Shannon()}
FLOOR = {"norm_bound": 1.0, "bandwidth_hz": 1e6}
UPLINKS = [
    Noma(**BOUND),
    Noma(sic_residual=0.1, max_ser=0.7, **BOUND),
    Noma(interference="intra", **BOUND),
    Noma(decoding="error-free", interference="none", rate=Shannon()),
    Oma(**BOUND),
    Oma(interference="none", max_ser=0.7, **BOUND),
    Noma(**FLOOR),
    Noma(sic_residual=0.1, max_ser=0.7, **FLOOR),
    Noma(interference="none", **FLOOR),
    Oma(**FLOOR),
    Ideal(),
    Noma(interference_over_thermal_db=6, uplink_share=0.3, **FLOOR),
    Oma(uplink_share=0.3, **BOUND),
    Oma(interference_over_thermal_db=6, **FLOOR),
]


@pytest.mark.parametrize("uplink", UPLINKS)
@pytest.mark.parametrize("antennas", [None, 1, 4])
def test_everybody_at_once_at_held_rates_is_the_plan(uplink, antennas):
    """Of those that base stations do not refuse: these send later, and are lost in the plan."""
    c = replace(town(1, antennas=antennas), rows=np.full(12, 2))
    c = c.select((uplink.plan(c, PAYLOAD).rate_bps > 0) | (c.serving < 0))
    found = sent_by(uplink, c, link_adaptation="grant")
    expected = uplink.plan(c, PAYLOAD)
    assert not (expected.sinr[c.serving >= 0] < uplink.floor_sinr()).any()
    assert expected.decoded.any() or uplink.floor_sinr() > 0
    assert uplink.kind == "ideal" or not expected.decoded.all()
    same(found, expected)
    for name in ("airtime_s", "delay_s", "energy_j", "decoded", "late"):
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name


@pytest.mark.parametrize("link_adaptation", ["change", "grant"])
def test_who_disturbs_nobody_has_the_plan_s_channel_whenever_others_come_and_go(link_adaptation):
    uplink = Noma(norm_bound=1.0, interference="none")
    rng = np.random.default_rng(5)
    c = replace(
        town(5),
        power_w=rng.uniform(1e-5, 1e-4, 12),
        downlink_sinr=rng.uniform(0.5, 9, 12),
        compute_s=rng.uniform(0, 1, 12),
    )
    found = sent_by(uplink, c, link_adaptation=link_adaptation)
    expected = uplink.plan(c, PAYLOAD)
    same(found, expected)
    assert np.array_equal(found.airtime_s, expected.airtime_s)  # not cut to pieces


@pytest.mark.parametrize("antennas", [None, 3])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_groups_wait_as_planned(size, antennas):
    """One cell: in several, groups of the same index would have to start at the same time."""
    c = replace(
        town(7, n_bs=1, antennas=antennas), serving=np.zeros(12, dtype=int), rows=np.full(12, 2)
    )
    expected = Noma(group_size=size, **BOUND).plan(c, PAYLOAD)
    found = sent_by(Noma(**BOUND), c, link_adaptation="grant", scheduler=Groups(size=size))
    assert expected.decoded.all()
    assert len(np.unique(expected.delay_s - expected.airtime_s)) > 1
    same(found, expected)


def test_rates_follow_who_leaves():
    """Textbook pair, 8 and 2 over noise 1: the strong one sends at SINR 8 / 3, then at 8 when the
    weak one has left."""
    uplink = Textbook()
    found = sent_by(uplink, cohort([[8.0], [2.0]], rows=[3, 1]))
    slow = log2(1 + 8 / 3)
    weak = log2(3)
    fast = log2(9)
    leaves = 1 / weak
    ends = leaves + (3 - leaves * slow) / fast
    np.testing.assert_allclose(found.delay_s, [ends, leaves])
    early = leaves * slow / 3  # share of the strong one's bits sent at 8 / 3
    np.testing.assert_allclose(found.noise_std**2 * 1000, [early * 3 / 8 + (1 - early) / 8, 1 / 2])
    np.testing.assert_allclose(found.thermal_std**2 * 1000, [1 / 8, 1 / 2])
    np.testing.assert_allclose(found.rate_bps, [3e6 / ends, weak * 1e6])
    held = sent_by(uplink, cohort([[8.0], [2.0]], rows=[3, 1]), link_adaptation="grant")
    np.testing.assert_allclose(held.delay_s, [3 / slow, leaves])


def wandering(seed, n, n_bs=3, leaves=0.1):
    """Links that change with every look: other gains, other cells, now and then none."""
    rng = np.random.default_rng(seed)
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
    c = replace(town(seed, sinr=2.0), serving=np.arange(12) % 3)
    battery = np.random.default_rng(seed).choice([inf, 0.8, 1.05], 12)
    found = sent_by(
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
    assert np.isin(found.fate, list(Fate)).all()
    assert not (found.fate == Fate.UNDER_WAY).any()
    kept = found.sent_bits - found.lost_bits
    n_bits = PAYLOAD.n_bits * c.rows
    np.testing.assert_allclose(kept[found.decoded], n_bits[found.decoded])
    assert (kept >= 0).all()
    assert (kept[~found.decoded] <= n_bits[~found.decoded] * (1 + 1e-12)).all()
    assert np.array_equal(found.decoded, found.fate == Fate.ARRIVED)
    assert not (found.late & found.decoded).any()
    assert (found.lost_bits[found.sent_bits == 0] == 0).all()
    ran = np.isfinite(found.airtime_s)
    trained = np.where(np.isnan(found.ready_s), found.energy_j, c.compute_j)
    np.testing.assert_allclose(found.energy_j[ran], (trained + c.power_w * found.airtime_s)[ran])
    np.testing.assert_allclose(
        (found.rate_bps[ran] * found.airtime_s[ran]), found.sent_bits[ran], rtol=1e-9
    )
    assert (found.energy_j <= battery * (1 + 1e-12)).all()
    np.testing.assert_allclose(
        found.energy_j[found.fate == Fate.EXHAUSTED], battery[found.fate == Fate.EXHAUSTED]
    )
    np.testing.assert_allclose(
        found.delay_s[ran], found.ended_s[ran]
    )  # downlink, training, waits and airtime add up
    assert (found.ended_s <= 4.0).all()


def columns(found):
    return {f.name: getattr(found, f.name).tobytes() for f in fields(found)}


@pytest.mark.parametrize("kind", [Noma, Oma])
@pytest.mark.parametrize(
    "interface", [{}, {"link_adaptation": "grant"}, {"step_s": 0.05}, {"scheduler": Groups(size=2)}]
)
def test_the_order_of_submissions_changes_nothing(interface, kind):
    def play(order):
        air = air_of(kind(**BOUND), **interface)
        some = [town(1, n=5), town(2, n=4, first=10), town(3, n=6, first=20)]
        events = {k: air.submit(some[k], PAYLOAD) for k in order}
        air.env.run()
        return [columns(events[k].value) for k in range(3)]

    assert play([0, 1, 2]) == play([2, 0, 1])


def test_whoever_asks_at_a_time_is_heard_before_places_are_given():
    air = air_of(Textbook(), scheduler=Groups(size=1))
    done = {}

    def ask(gain, first, pauses):
        for pause_s in pauses:
            yield air.env.timeout(pause_s)
        done[first] = air.submit(cohort([[gain]], first=first), PAYLOAD)

    air.env.process(ask(1.0, 0, [1.0]))
    air.env.process(ask(3.0, 1, [1.0, 0.0, 0.0]))  # three events later, at the same time
    air.env.run()
    assert done[1].value.granted_s[0] == 1.0
    assert done[0].value.granted_s[0] == 1.5


@pytest.mark.parametrize(
    "interface", [{}, {"link_adaptation": "grant"}, {"scheduler": Groups(size=2)}]
)
def test_looking_more_often_changes_nothing(interface):
    def play(interruptions):
        air = air_of(Noma(norm_bound=1.0), **interface)
        done = air.submit(replace(town(4), downlink_sinr=np.linspace(1, 9, 12)), PAYLOAD)
        for at_s in interruptions:
            air.env.run(until=at_s)
            air._share(at_s, not interface.get("link_adaptation"), air._sends())
            air._on_turn(air._turn)
        return columns(air.env.run(done))

    assert play([]) == play(np.linspace(0.05, 2.0, 40).tolist())


@pytest.mark.parametrize(
    "kind", ["simultaneous", "groups", "round-robin", "proportional-fair", "energy-aware"]
)
@pytest.mark.parametrize("at_s", [0.7, 2.3])
def test_an_interrupted_air_goes_on_to_the_same_bytes(kind, at_s, tmp_path):
    def look(ue, round_):
        return SeenLinks((ue + 1) % 3, 10.0 ** (-12 + (ue[:, None] + np.arange(3)) % 4), None)

    def build(at_s=0.0):
        interface = AirInterface.model_validate(
            {
                "scheduler": {"kind": kind},
                "block_s": 0.5,
                "retransmissions": 2,
                "client_dropout_per_s": 0.05,
            }
        )
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
    found = sent_by(
        uplink, c, deadline_s=1.5
    )  # the second has 1.5 W over 1.5 W of signal and noise: 1 s
    assert found.late.tolist() == [True, False]
    assert found.fate.tolist() == [Fate.LATE, Fate.ARRIVED]
    assert found.delay_s[0] == pytest.approx(1.5)
    assert found.airtime_s[0] == pytest.approx(1.25)
    assert found.energy_j[0] == pytest.approx(0.5 + 0.5 * 1.25)
    own = sent_by(uplink.model_copy(update={"deadline_s": 1.5}), c)
    assert columns(own) == columns(found)
    early = sent_by(uplink, c, deadline_s=0.125)
    assert early.late.all()
    assert (early.airtime_s == 0).all()
    assert early.energy_j.tolist() == [0.25, 0.25]


def one_cell(*gains, serving=None):
    """A UE whose gain in second k is gains[k], in the cell serving[k]."""
    blocks = (min(k, len(gains) - 1) for k in count(1))

    def look(ue, round_):
        k = next(blocks)
        cell = 0 if serving is None else serving[k]
        return SeenLinks(np.full(len(ue), cell), np.full((len(ue), 2), float(gains[k])), None)

    return look


def test_a_block_that_is_not_decoded_is_sent_again():
    """SINR 7 (3 bit/s/Hz) is enough, 3 (2 bit/s/Hz) is not. 5 Mbit in blocks of 1 s; those of
    seconds 2 and 3 fail."""
    uplink = Textbook(max_ser=0.05)
    assert 3 < uplink.min_sinr() < 7
    payload = Payload(5e6, 1000, 1.0)
    tries = {}
    for n in (0, 1, 2, 5):
        look = one_cell(7, 3, 3, 7)
        tries[n] = sent_by(
            uplink, cohort([[7.0, 7.0]]), payload, look=look, block_s=1.0, retransmissions=n
        )
    for n in (0, 1):
        assert tries[n].fate[0] == Fate.UNDECODED
        assert not tries[n].late[0]
        np.testing.assert_allclose(
            [tries[n].delay_s[0], tries[n].airtime_s[0], tries[n].energy_j[0]], n + 2
        )
        np.testing.assert_allclose(
            [tries[n].sent_bits[0], tries[n].lost_bits[0]], [3e6 + (n + 1) * 2e6, n * 2e6]
        )
    assert columns(tries[2]) == columns(tries[5])
    assert tries[2].fate[0] == Fate.ARRIVED
    assert tries[2].delay_s[0] == pytest.approx(3 + 2 / 3)
    assert tries[2].lost_bits[0] == pytest.approx(4e6)
    assert tries[2].noise_std[0] ** 2 * 1000 == pytest.approx(
        1 / 7
    )  # what was lost leaves no noise
    look = one_cell(7, 3, 7, 3, 7)  # each block anew has so many tries
    apart = sent_by(
        uplink,
        cohort([[7.0, 7.0]]),
        Payload(8e6, 1000, 1.0),
        look=look,
        block_s=1.0,
        retransmissions=1,
    )
    assert apart.fate[0] == Fate.ARRIVED
    assert apart.lost_bits[0] == pytest.approx(4e6)


def test_a_block_of_which_a_part_is_not_decoded_is_lost():
    """A UE of another cell disturbs 20 with 5 at first: SINR 20 / 6 is too low, 20 would do."""
    uplink = Textbook(max_ser=0.05)
    found = sent_by(uplink, cohort([[20.0, 0.0], [5.0, 50.0]], serving=[0, 1], rows=[3, 1]))
    assert 20 / 6 < uplink.min_sinr() < 5
    assert found.ended_s[0] > found.ended_s[1] + 0.1
    assert found.fate.tolist() == [Fate.UNDECODED, Fate.ARRIVED]


def test_a_block_in_which_the_cell_changes_is_sent_again_in_the_new_one():
    """3 bit/s/Hz, 7.5 Mbit, blocks of 1 s; at 2 s the cell changes, and the second before does not
    count."""
    uplink = Textbook()
    c = cohort([[7.0, 7.0]])
    payload = Payload(7.5e6, 1000, 1.0)
    stays = sent_by(uplink, c, payload, look=one_cell(7, 7, 7), block_s=1.0)
    moves = sent_by(uplink, c, payload, look=one_cell(7, 7, 7, serving=[0, 0, 1]), block_s=1.0)
    np.testing.assert_allclose([stays.delay_s[0], moves.delay_s[0]], [2.5, 3.5])
    assert moves.lost_bits[0] == pytest.approx(3e6)
    assert stays.lost_bits[0] == 0
    assert moves.decoded.all()
    assert moves.energy_j[0] == pytest.approx(3.5)
    lost = sent_by(uplink, c, payload, look=one_cell(7, 7, 7, serving=[0, 0, -1]), block_s=1.0)
    assert lost.fate[0] == Fate.NO_CELL
    assert lost.delay_s[0] == pytest.approx(2.0)
    assert not lost.late[0]


def test_noise_is_the_mean_over_the_bits_of_all_blocks():
    """SINR 7 for a second (3 Mbit), then SINR 1 (1 bit/s/Hz) for the other 2 Mbit."""
    uplink = Textbook()
    found = sent_by(
        uplink, cohort([[7.0, 7.0]]), Payload(5e6, 1000, 1.0), look=one_cell(7, 1), block_s=1.0
    )
    assert found.delay_s[0] == pytest.approx(3.0)
    assert found.noise_std[0] ** 2 * 1000 == pytest.approx((3 / 7 + 2) / 5)


INVERSION = Fractional.model_construct(
    p0_dbm=10 * log10(7e3), alpha=1.0
)  # more than a scenario may ask for
"""7 W are received from whoever may send with enough"""


def drives_away(most_w):
    """A UE of gain 7, 3.5, 1.75, ... in seconds 0, 1, 2, ..., that sends by the law of its link."""
    seconds = iter(range(1, 50))

    def look(ue, round_):
        gain = np.full((len(ue), 2), 7.0 / 2 ** next(seconds))
        serving = np.zeros(len(ue), dtype=int)
        return SeenLinks(
            serving, gain, None, INVERSION.power_w(gain, serving, most_w, None, Streams(1))[0]
        )

    return look


@pytest.mark.parametrize(("most_w", "second", "third"), [(1e3, 2.0, 4.0), (1.5, 1.5, 1.5)])
def test_power_follows_the_link_up_to_the_cap(most_w, second, third):
    """7.5 Mbit at SINR 7 (3 bit/s/Hz) take 2.5 s at 1, 2 and 4 W; a cap of 1.5 W leaves SINR 5.25
    and 2.625."""
    c = cohort([[7.0, 7.0]])
    payload = Payload(7.5e6, 1000, 1.0)
    found = sent_by(Textbook(), c, payload, look=drives_away(most_w), block_s=1.0)
    rates = [3.0, log2(1 + second * 3.5), log2(1 + third * 1.75)]
    last_s = (7.5 - rates[0] - rates[1]) / rates[2]
    assert 0 < last_s < 1
    np.testing.assert_allclose(found.delay_s, 2 + last_s)
    np.testing.assert_allclose(found.energy_j, 1 + second + third * last_s)
    np.testing.assert_allclose(found.power_w * found.airtime_s, found.energy_j)
    held = sent_by(Textbook(), c, payload, look=one_cell(7, 3.5, 1.75, 0.875), block_s=1.0)
    assert held.power_w[0] == 1.0
    assert held.delay_s[0] > 3 > found.delay_s[0]


def test_a_battery_pays_for_the_powers_that_were_sent_with():
    """1 J in the first second, 2 W in the next: 2.5 J last for 1.75 s, and no longer where nobody
    looks at the air."""
    c = cohort([[7.0, 7.0]])
    payload = Payload(7.5e6, 1000, 1.0)
    found = sent_by(
        Textbook(), c, payload, look=drives_away(1e3), block_s=1.0, battery_j=np.array([2.5])
    )
    assert found.fate.tolist() == [Fate.EXHAUSTED]
    np.testing.assert_allclose([found.energy_j[0], found.airtime_s[0]], [2.5, 1.75])


def test_ues_leave_at_the_stated_rate():
    n = 1000
    c = cohort(np.ones((n, 1)), compute=2.0)
    ideal = sent_by(Ideal(), c, n_ue=n, client_dropout_per_s=0.25)
    share = np.exp(-0.5)
    assert abs(ideal.decoded.mean() - share) < 4 * np.sqrt(share * (1 - share) / n)
    left = ideal.fate == Fate.DROPPED
    assert np.array_equal(left, ~ideal.decoded)
    assert (ideal.delay_s[left] < 2.0).all()
    np.testing.assert_allclose(
        ideal.energy_j[left], 2 * ideal.delay_s[left]
    )  # of training until it left
    assert columns(sent_by(Ideal(), c, n_ue=n, client_dropout_per_s=0.25)) == columns(ideal)
    assert columns(sent_by(Ideal(), c, n_ue=n, client_dropout_per_s=0.25, seed=2)) != columns(ideal)


def test_energy_ends_in_training_or_on_the_air():
    uplink = Textbook(interference="none")
    c = cohort(
        np.full((3, 1), 7 / 0.3), power=0.3, compute=1.0
    )  # trains 1 s for 2 J, sends 1/3 s for 0.1 J
    found = sent_by(uplink, c, battery_j=np.array([0.5, 2.05, 2.2]))
    assert found.fate.tolist() == [Fate.EXHAUSTED, Fate.EXHAUSTED, Fate.ARRIVED]
    np.testing.assert_allclose(found.energy_j, [0.5, 2.05, 2.1])
    np.testing.assert_allclose(found.delay_s, [0.25, 1 + 1 / 6, 4 / 3])


def test_ends_are_told_at_their_time():
    news = []
    air = air_of(
        Noma(**BOUND), each=lambda e: news.append((air.env.now, e)), link_adaptation="grant"
    )
    done = air.submit(town(8), PAYLOAD)
    found = air.env.run(done)
    assert sorted(ue for _, e in news for ue in e.ue) == list(range(12))
    for at, e in news:
        assert (e.sent.ended_s == at).all()
        assert e.ue.tolist() == sorted(e.ue)
        assert e.sent.noise_std.tolist() == found.noise_std[e.place].tolist()
        assert (e.sent.ended_s == found.ended_s[e.place]).all()
        assert (e.sent.fate == found.fate[e.place]).all()
    times = [at for at, _ in news]
    assert times == sorted(times)
    assert len(set(times)) > 6


@pytest.mark.parametrize("link_adaptation", ["change", "grant"])
@pytest.mark.parametrize("step_s", [None, 0.05])
@pytest.mark.parametrize("kind", list(SCHEDULERS.parts))
def test_who_listens_changes_no_end(kind, link_adaptation, step_s):
    """Two waves of UEs in three cells, and the first once more: the same bytes with an ear for each
    end and without."""

    def play(each):
        how = {"link_adaptation": link_adaptation, "scheduler": {"kind": kind}, "step_s": step_s}
        air = air_of(Noma(norm_bound=1.0), each=each, **how)
        first = replace(town(3, n=14), downlink_sinr=np.linspace(1, 9, 14))
        done = []
        for cohort, until_s in ((first, 1.0), (town(4, n=9, first=20), None), (first, None)):
            done.append(air.submit(cohort, PAYLOAD))
            air.env.run(until=until_s)
        return [columns(event.value) for event in done]

    news = []
    assert play(None) == play(news.append)
    assert len(news) > 2


def test_the_next_request_may_follow_an_arrival():
    """An asynchronous server: whoever has arrived is asked again at once, three times."""
    ends = []

    def each(end):
        ends.append(end)
        if end.submission[0] < 2:
            air.submit(cohort([[7.0]]), PAYLOAD)

    air = air_of(Textbook(), each=each)
    air.submit(cohort([[7.0]]), PAYLOAD)
    air.env.run()
    np.testing.assert_allclose([e.sent.ended_s[0] for e in ends], [1 / 3, 2 / 3, 1])
    assert len(air.lives) == 0


def test_who_is_stopped_leaves_the_air_to_the_others():
    """Two share the air until the one of the first cohort is stopped; its bits and energy count up
    to then."""
    air = air_of(Textbook())
    first = air.submit(cohort([[7.0]]), PAYLOAD)
    second = air.submit(cohort([[7.0]], first=1), PAYLOAD)
    air.env.run(until=0.1)
    before = air.under_way()
    assert before.ue.tolist() == [0, 1]
    assert (before.sent.fate == Fate.UNDER_WAY).all()
    air.stop(0)
    stopped = air.env.run(first)
    assert air.env.now == 0.1
    assert stopped.fate.tolist() == [Fate.STOPPED]
    assert not stopped.decoded[0]
    np.testing.assert_allclose(stopped.airtime_s, 0.1)
    np.testing.assert_allclose(stopped.sent_bits, before.sent.sent_bits[0])
    left = 1.0 - before.sent.sent_bits[1] / PAYLOAD.n_bits
    found = air.env.run(second)
    np.testing.assert_allclose(found.ended_s, 0.1 + left / 3)  # alone it needs 1/3 s for all
    assert len(air.lives) == 0


def held_links(of):
    """Links that stay what they were."""
    return lambda ue, round_: SeenLinks(of.serving[ue], of.gain[ue], None)


def test_who_is_refused_waits_without_sending_until_others_end():
    """8 against 100 and noise 1 has no rate while both send, with a floor of -10 dB; alone it
    has."""
    uplink = Textbook(rate=LinkAdaptation(attenuation=1.0, max_bps_per_hz=8.0), sic_residual=1.0)
    pair = cohort([[100.0], [8.0]], compute=0.0)
    found = sent_by(uplink, pair)
    first_s = 1 / log2(1 + 100.0)
    np.testing.assert_array_equal(found.decoded, [True, True])
    np.testing.assert_allclose(found.airtime_s, [first_s, 1 / log2(9)])
    np.testing.assert_allclose(found.delay_s, [first_s, first_s + 1 / log2(9)])
    np.testing.assert_allclose(
        found.energy_j, found.airtime_s
    )  # at 1 W, and nothing while it is silent
    np.testing.assert_allclose(found.sinr, [100.0, 8.0])  # nobody disturbs the first
    blocks = sent_by(uplink, pair, look=held_links(pair), block_s=0.01)
    np.testing.assert_allclose(blocks.ended_s, found.ended_s)
    np.testing.assert_allclose(found.granted_s, [0.0, first_s])
    held = sent_by(
        uplink, pair, link_adaptation="grant"
    )  # the second is granted when the first has sent
    assert columns(held) == columns(found)
    assert uplink.plan(pair, PAYLOAD).decoded.tolist() == [
        True,
        False,
    ]


def test_at_held_rates_all_follow_the_interference_with_the_next_grant():
    """100 and 20 (noise 1, no cancellation) hold rates of SINR 100 / 21 and 20 / 101; 3 is drowned
    until the strong one has ended. It is granted then beside the other, whose rate becomes that of
    20 / 4, and stays so.
    """
    uplink = Textbook(rate=LinkAdaptation(attenuation=1.0, max_bps_per_hz=8.0), sic_residual=1.0)
    found = sent_by(
        uplink, cohort([[100.0], [20.0], [3.0]], rows=[3, 3, 1]), link_adaptation="grant"
    )
    bits = lambda sinr: log2(1 + sinr)  # noqa: E731
    first_s = 3 / bits(100 / 21)
    second_s = first_s + (3 - first_s * bits(20 / 101)) / bits(20 / 4)
    third_s = first_s + 1 / bits(3 / 21)
    assert first_s < second_s < third_s
    np.testing.assert_allclose(found.ended_s, [first_s, second_s, third_s])
    np.testing.assert_allclose(found.granted_s, [0.0, 0.0, first_s])
    np.testing.assert_allclose(found.delay_s, found.ended_s)
    np.testing.assert_allclose(found.energy_j, [first_s, second_s, third_s - first_s])


def test_held_rates_stay_while_nobody_silent_gets_one():
    """The same without the third's chance: beside 20 it has no rate yet, and 20 is not told that
    100 has ended."""
    uplink = Textbook(rate=LinkAdaptation(attenuation=1.0, max_bps_per_hz=8.0), sic_residual=1.0)
    found = sent_by(
        uplink, cohort([[100.0], [20.0], [1.5]], rows=[3, 1, 1]), link_adaptation="grant"
    )
    ends_s = [3 / log2(1 + 100 / 21), 1 / log2(1 + 20 / 101)]
    np.testing.assert_allclose(found.ended_s, [*ends_s, max(ends_s) + 1 / log2(2.5)])
    assert found.sinr[2] == 1.5
    assert ends_s[0] < ends_s[1]


@pytest.mark.parametrize("link_adaptation", ["change", "grant"])
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
    found = sent_by(
        uplink,
        replace(c, compute_s=np.array([0.0, 0.25, 0.3, 0.0])),
        link_adaptation=link_adaptation,
    )
    drowns_s = 0.25 + 1 / log2(31)
    last_s = 8 / log2(101)
    assert found.fate.tolist() == [Fate.UNDECODED, Fate.ARRIVED, Fate.UNDECODED, Fate.ARRIVED]
    assert drowns_s < last_s
    np.testing.assert_allclose(found.ended_s, [last_s, drowns_s, last_s, last_s])
    np.testing.assert_allclose(found.delay_s, [last_s, drowns_s, inf, last_s])
    np.testing.assert_allclose(found.airtime_s, [0.25, drowns_s - 0.25, inf, last_s])


@pytest.mark.parametrize("link_adaptation", ["change", "grant"])
@pytest.mark.parametrize("block_s", [None, 0.5])
def test_a_ue_too_weak_alone_is_lost_and_waits_for_nobody(link_adaptation, block_s):
    pair = cohort([[9.0], [0.05]], compute=0.0)
    look = None if block_s is None else held_links(pair)
    found = sent_by(
        Textbook(rate=LinkAdaptation()),
        pair,
        link_adaptation=link_adaptation,
        look=look,
        block_s=block_s,
    )
    assert found.fate.tolist() == [Fate.ARRIVED, Fate.UNDECODED]
    assert found.ended_s[1] == (block_s or 0.0)
    assert np.isinf(found.airtime_s[1])
    assert found.energy_j[1] == 0
    assert found.sent_bits[1] == 0
    np.testing.assert_allclose(found.sinr[0], 9.0)


@given(
    seed=st.integers(0, 10_000),
    kind=st.sampled_from([Noma, Oma]),
    antennas=st.sampled_from([None, 2]),
)
@settings(max_examples=25, deadline=None)
def test_nothing_is_sent_below_the_floor_whatever_comes_and_goes(seed, kind, antennas):
    rng = np.random.default_rng(seed)
    c = replace(
        town(seed, antennas=antennas), compute_s=rng.uniform(0, 3, 12), compute_j=np.zeros(12)
    )
    uplink = kind(**FLOOR)
    found = sent_by(uplink, c, deadline_s=20.0)
    some = found.sent_bits > 0
    assert (found.sinr[some] >= 0.1 * (1 - 1e-9)).all()
    np.testing.assert_allclose(found.sent_bits[found.decoded], (1e6 * c.rows)[found.decoded])
    np.testing.assert_allclose(found.energy_j[some], (c.power_w * found.airtime_s)[some])
    assert not found.energy_j[~some].any()


@pytest.mark.parametrize("block_s", [None, 0.5])
def test_what_outside_noise_drowns_is_lost_at_once(block_s):
    """-6 dB over thermal noise, beside a UE that sends on: decoded, and below the floor with 6 dB
    from outside."""
    uplink = Noma(interference="none", **FLOOR)
    pair = cohort(
        np.array([[9.0], [0.25]]) * uplink.band_noise_w(),
        rows=[40, 1],
        compute=[0.0, 30.0],
        sinr=9.0,
    )
    look = None if block_s is None else held_links(pair)
    assert sent_by(uplink, pair, look=look, block_s=block_s).decoded.all()
    loud = uplink.model_copy(update={"interference_over_thermal_db": 6.0})
    found = sent_by(loud, pair, look=look, block_s=block_s)
    assert found.fate.tolist() == [Fate.ARRIVED, Fate.UNDECODED]
    assert found.sent_bits[1] == 0
    assert found.ended_s[1] <= found.ready_s[1] + (block_s or 0.0) < found.ended_s[0]


def test_a_battery_pays_for_the_share_of_the_time_in_which_a_ue_sends():
    """1 W for a second of bits in a fifth of the time: five seconds, a joule; half a joule ends it
    after half."""
    uplink = Textbook(uplink_share=0.2)
    whole = sent_by(uplink, cohort([[1.0]]))
    np.testing.assert_allclose(
        [whole.airtime_s[0], whole.energy_j[0], whole.power_w[0]], [5.0, 1.0, 1.0]
    )
    half = sent_by(uplink, cohort([[1.0]]), battery_j=np.array([0.5]))
    assert half.fate.tolist() == [Fate.EXHAUSTED]
    np.testing.assert_allclose(
        [half.airtime_s[0], half.energy_j[0], half.power_w[0]], [2.5, 0.5, 1.0]
    )
