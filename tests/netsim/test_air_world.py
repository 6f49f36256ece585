"""Transmissions over a world in which UEs move: their links are those of the world; and training
times."""

import json
from dataclasses import fields

import numpy as np
from numpy import (
    allclose,
    arange,
    array,
    full,
    isclose,
    maximum,
    minimum,
    ones,
    pi,
    sqrt,
    zeros,
)
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark
from rows import read_yaml

from netsim.checkpoint import from_tree, to_tree
from netsim.radio.air import EventUplink
from netsim.radio.power import Average, Fractional, Full, Listed
from netsim.radio.rate import Shannon
from netsim.radio.schedulers import AirInterface
from netsim.radio.shared_band import Noma
from netsim.radio.transmissions import Fate
from netsim.radio.uplink import Payload
from netsim.rng import Streams
from netsim.world.build import build_world
from netsim.world.setting import COMPUTE_SPREADS, HalfNormal, LogNormal, WorldSetting
from netsim.world.world import make_look

UPLINK = Noma(norm_bound=1.0, bandwidth_hz=1e5, rate=Shannon())
INTERFACE = AirInterface(block_s=2.0, retransmissions=1, client_dropout_per_s=0.005)
PAYLOAD = Payload(2e6, 1000, 1.0)


def world(n_ue=12, ues=(), **radio):
    document = read_yaml("""
        duration_s: 600.0, tick_s: 1.0, city: {kind: open-field, width_m: 600.0, height_m: 500.0},
        base_stations: [
            {name: b0, position_m: [100.0, 250.0]},
            {name: b1, position_m: [300.0, 250.0]},
            {name: b2, position_m: [500.0, 250.0]}],
        ues: {mobility: {kind: random-waypoint, speed_m_s: [5.0, 20.0]}, measurement_period_s: 10.0},
        radio: {shadowing: {kind: correlated}}
    """)
    document["ues"] |= {"count": n_ue, **dict(ues)}
    document["radio"] |= radio
    return build_world(WorldSetting.model_validate_json(json.dumps(document)), Streams(3), 60.0)


def air_over(place):
    return EventUplink(
        place.env, UPLINK, len(place.ues), Streams(3), INTERFACE, look=make_look(place)
    )


def everybody(place):
    """All UEs after a tick: where handover is modelled, they attach in the first one."""
    place.env.run(until=2.0)
    n = len(place.ues)
    return place.build_cohort(arange(n), place.compute_links(), 4, ones(n, int), zeros(n))


def request_all(place, air):
    return air.submit(everybody(place).with_power_w(full(12, 0.01)), PAYLOAD, 120.0, round_=4)


def columns(result):
    return {f.name: getattr(result, f.name).tobytes() for f in fields(result)}


RADIOS = [
    {},
    {"handover": {"hysteresis_db": 1.0}},
    read_yaml("fading: {kind: rayleigh, antennas: 2, block: 4.0}"),
]


@mark.parametrize("radio", RADIOS, ids=["best cell", "handover", "fading"])
def test_rates_follow_ues_that_move(radio):
    place = world(**radio)
    parked = world(**radio)
    result = place.env.run(request_all(place, air_over(place)))
    still = UPLINK.plan(everybody(parked).with_power_w(full(12, 0.01)), PAYLOAD)
    arrived = result.fate == Fate.ARRIVED
    assert arrived.sum() >= 6
    assert result.delay_s[arrived].max() > 10
    assert not isclose(result.rate_bps[arrived], still.rate_bps[arrived], rtol=0.05).any()
    assert (result.lost_bits > 0).any()  # cells changed


@mark.parametrize("radio", RADIOS, ids=["best cell", "handover", "fading"])
def test_world_and_air_go_on_to_the_same_bytes(radio):
    def begin():
        place = world(**radio)
        air = air_over(place)
        return place, air, request_all(place, air)

    place, _, done = begin()
    whole = columns(place.env.run(done))
    place, air, _ = begin()
    place.env.run(until=9.0)
    kept = place.take_memory()
    memory = air.memory()
    again = world(**radio)
    again.resume(kept, 9.0)
    later = air_over(again)
    (done,) = later.resume(memory).values()
    assert columns(again.env.run(done)) == whole


@mark.parametrize("law", [Full(), Fractional(p0_dbm=-70), Listed(each_w=(0.01, 0.02)), Average()])
def test_energy_is_that_of_the_power_on_the_links_of_each_block(law):
    """A bill written block by block from the places of UEs: a law of links asks for another power
    in each; other rules keep the power of the request.
    """
    place = world()
    twin = world()
    air = EventUplink(
        place.env, UPLINK, 12, Streams(3), AirInterface(block_s=2.0), look=make_look(place, law)
    )

    def power_w(item):
        gain = item.compute_links().gain
        serving = item.find_serving(item.compute_links())
        return law.power_w(
            gain, serving, item.max_power_w, None, item.ground.streams.derive_rng("power")
        )[0]

    cohort = everybody(place)
    first_w = power_w(place)
    result = place.env.run(air.submit(cohort.with_power_w(first_w), PAYLOAD, 120.0, round_=4))
    bill_j = zeros(12)
    on_air_s = result.ended_s - result.ready_s
    assert (result.fate == Fate.ARRIVED).sum() >= 6
    assert on_air_s.max() > 10
    for begins_s in arange(2.0, 122.0, 2.0):
        twin.env.run(until=begins_s)
        own_w = power_w(twin) if isinstance(law, Fractional) else first_w
        sent_s = minimum(result.ended_s, begins_s + 2.0) - maximum(result.ready_s, begins_s)
        bill_j += own_w * maximum(sent_s, 0)
    assert_allclose(result.energy_j, bill_j, rtol=1e-9)
    assert_allclose(result.power_w * result.airtime_s, result.energy_j, rtol=1e-9)
    assert isinstance(law, Fractional) or allclose(result.power_w, first_w, rtol=1e-14, atol=0)
    # energy over airtime, to the last digits
    assert (result.power_w <= place.max_power_w * (1 + 1e-12)).all()


def test_what_was_measured_and_not_taken_yet_outlives_an_interruption():
    """A round that lasts beyond its window ends with measurements of the next window in hand."""
    whole = world()
    halved = world()
    for place in (whole, halved):
        place.env.run(until=35.0)
        place.drain_observations()
        place.env.run(until=55.0)
    again = world()
    again.resume(from_tree(to_tree(halved.take_memory()), again.take_memory()), 55.0)
    for place in (whole, again):
        place.env.run(until=80.0)
    expected = whole.drain_observations()
    result = again.drain_observations()
    assert set(expected.time_s) == {40.0, 50.0, 60.0, 70.0}
    assert columns(result) == columns(expected)


# --- unequal UEs
# ----------------------------------------------------------------------------------------

N = 100_000
UES = arange(N)
RNG = Streams(2).derive_rng("ues.compute")


def test_half_normal_factors_are_one_and_a_half_normal_share():
    share = HalfNormal(scale=3.0).draw_time_factor(UES, RNG) - 1.0
    assert share.min() > 0
    assert abs(share.mean() - 3 * sqrt(2 / pi)) < 4 * 3 * sqrt((1 - 2 / pi) / N)
    assert abs((share**2).mean() - 9) < 4 * 9 * sqrt(2 / N)


def test_log_normal_factors_have_median_one():
    log = np.log(LogNormal(sigma=0.7).draw_time_factor(UES, RNG))
    assert abs((log < 0).mean() - 0.5) < 4 * 0.5 / sqrt(N)
    assert abs(log.mean()) < 4 * 0.7 / sqrt(N)
    assert abs(log.std() - 0.7) < 4 * 0.7 / sqrt(2 * N)


@mark.parametrize("kind", sorted(COMPUTE_SPREADS.parts))
def test_a_ues_factor_hangs_on_its_number_and_the_seed_alone(kind):
    part = COMPUTE_SPREADS.parts[kind]()
    factors = part.draw_time_factor(UES[:60], RNG)
    expected = factors[:50].tolist()
    fewer = part.draw_time_factor(UES[:50], RNG)
    assert fewer.tolist() == expected
    expected = factors[7:9].tolist()
    assert part.draw_time_factor(UES[7:9], RNG).tolist() == expected
    assert not (
        fewer == part.draw_time_factor(UES[:50], Streams(3).derive_rng("ues.compute"))
    ).any()


def test_training_takes_the_ues_own_factor_of_the_stated_time_and_the_stated_energy():
    """Whoever else there is."""
    spread = {"kind": "half-normal", "scale": 2.0}
    required = array([1, 4, 5])
    samples = array([10.0, 20.0, 7.0])
    drawn = HalfNormal(scale=2.0).draw_time_factor(arange(6), Streams(3).derive_rng("ues.compute"))
    for n_ue in (6, 9):
        values = {
            "training_s_per_sample": 0.2,
            "compute_j_per_sample": 0.5,
            "compute_heterogeneity": spread,
        }
        place = world(n_ue, values)
        result = place.build_cohort(required, place.compute_links(), 1, ones(3, int), samples)
        assert_allclose(result.compute_s, 0.2 * drawn[required] * samples, rtol=1e-15)
        assert_array_equal(result.compute_j, [5.0, 10.0, 3.5])
