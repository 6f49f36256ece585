"""Transmissions over a world in which UEs move: their links are those of the world, and the cost grows with the UEs."""

import json
from dataclasses import fields

import numpy as np
import pytest

from netsim.build import build_world
from netsim.checkpoint import from_tree, to_tree
from netsim.radio.air import EventUplink, look_at
from netsim.radio.power import Average, Fractional, Full, Listed
from netsim.radio.rate import Shannon
from netsim.radio.schedulers import AirInterface
from netsim.radio.shared_band import Noma
from netsim.radio.transmissions import Fate
from netsim.radio.uplink import Payload
from netsim.rng import Streams
from netsim.setting import WorldSetting

UPLINK = Noma(norm_bound=1.0, bandwidth_hz=1e5, rate=Shannon())
INTERFACE = AirInterface(block_s=2.0, retransmissions=1, client_dropout_per_s=0.005)
PAYLOAD = Payload(2e6, 1000, 1.0)


def world(n_ue=12, **radio):
    document = {
        "duration_s": 600.0,
        "tick_s": 1.0,
        "city": {"kind": "open-field", "width_m": 600.0, "height_m": 500.0},
        "base_stations": [{"name": f"b{k}", "position_m": [100.0 + 200.0 * k, 250.0]} for k in range(3)],
        "ues": {
            "count": n_ue,
            "mobility": {"kind": "random-waypoint", "speed_m_s": [5.0, 20.0]},
            "measurement_period_s": 10.0,
        },
        "radio": {"shadowing": {"kind": "correlated"}, **radio},
    }
    return build_world(WorldSetting.model_validate_json(json.dumps(document)), Streams(3), 60.0)


def air_over(place):
    return EventUplink(place.env, UPLINK, len(place.ues), Streams(3), INTERFACE, look=look_at(place))


def requested(place, air):
    """Everybody is asked after a tick: where handover is modelled, UEs attach in the first one."""
    place.env.run(until=2.0)
    n = len(place.ues)
    cohort = place.cohort(np.arange(n), place.links(), 4, np.ones(n, dtype=int), np.zeros(n))
    return air.submit(cohort.at_power(np.full(n, 0.01)), PAYLOAD, 120.0, round_=4)


def columns(found):
    return {f.name: getattr(found, f.name).tobytes() for f in fields(found)}


RADIOS = [{}, {"handover": {"hysteresis_db": 1.0}}, {"fading": {"kind": "rayleigh", "antennas": 2, "block": 4.0}}]


@pytest.mark.parametrize("radio", RADIOS, ids=["best cell", "handover", "fading"])
def test_rates_follow_ues_that_move(radio):
    place, parked = world(**radio), world(**radio)
    found = place.env.run(requested(place, air_over(place)))
    n = np.arange(len(place.ues))
    parked.env.run(until=2.0)
    cohort = parked.cohort(n, parked.links(), 4, np.ones(len(n), dtype=int), np.zeros(len(n)))
    still = UPLINK.plan(cohort.at_power(np.full(len(n), 0.01)), PAYLOAD)
    arrived = found.fate == Fate.ARRIVED
    assert arrived.sum() >= 6 and found.delay_s[arrived].max() > 10
    assert not np.isclose(found.rate_bps[arrived], still.rate_bps[arrived], rtol=0.05).any()
    assert (found.lost_bits > 0).any()  # cells changed


@pytest.mark.parametrize("radio", RADIOS, ids=["best cell", "handover", "fading"])
def test_world_and_air_go_on_to_the_same_bytes(radio):
    def begin():
        place = world(**radio)
        air = air_over(place)
        return place, air, requested(place, air)

    place, _, done = begin()
    whole = columns(place.env.run(done))
    place, air, _ = begin()
    place.env.run(until=9.0)
    kept, memory = place.memory(), air.memory()
    again = world(**radio)
    again.resume(kept, 9.0)
    later = air_over(again)
    (done,) = later.resume(memory).values()
    assert columns(again.env.run(done)) == whole


@pytest.mark.parametrize("law", [Full(), Fractional(p0_dbm=-70), Listed(each_w=(0.01, 0.02)), Average()])
def test_energy_is_that_of_the_power_on_the_links_of_each_block(law):
    """A bill written block by block from the places of UEs: a law of links asks for another power in each; other rules
    keep the power of the request.
    """
    place, twin = world(), world()
    air = EventUplink(place.env, UPLINK, 12, Streams(3), AirInterface(block_s=2.0), look=look_at(place, law))
    ue = np.arange(12)

    def power_w(of):
        gain, serving = of.links().gain, of.serving(of.links())
        return law.power_w(gain, serving, of.max_power_w, None, of.ground.streams.at("power"))[0]

    place.env.run(until=2.0)
    cohort = place.cohort(ue, place.links(), 4, np.ones(12, dtype=int), np.zeros(12))
    first_w = power_w(place)
    found = place.env.run(air.submit(cohort.at_power(first_w), PAYLOAD, 120.0, round_=4))
    bill_j, on_air_s = np.zeros(12), found.ended_s - found.ready_s
    assert (found.fate == Fate.ARRIVED).sum() >= 6 and on_air_s.max() > 10
    for begins_s in np.arange(2.0, 122.0, 2.0):
        twin.env.run(until=begins_s)
        own_w = power_w(twin) if isinstance(law, Fractional) else first_w
        bill_j += own_w * np.clip(
            np.minimum(found.ended_s, begins_s + 2.0) - np.maximum(found.ready_s, begins_s), 0, None
        )
    np.testing.assert_allclose(found.energy_j, bill_j, rtol=1e-9)
    np.testing.assert_allclose(found.power_w * found.airtime_s, found.energy_j, rtol=1e-9)
    assert isinstance(law, Fractional) or np.allclose(found.power_w, first_w, rtol=1e-14, atol=0)
    assert (found.power_w <= place.max_power_w).all()


def test_what_was_measured_and_not_taken_yet_outlives_an_interruption():
    """A round that lasts beyond its window ends with measurements of the next window in hand."""
    whole, halved = world(), world()
    for place in (whole, halved):
        place.env.run(until=35.0)
        place.observations()
        place.env.run(until=55.0)
    again = world()
    again.resume(from_tree(to_tree(halved.memory()), again.memory()), 55.0)
    for place in (whole, again):
        place.env.run(until=80.0)
    expected, found = whole.observations(), again.observations()
    assert set(expected.time_s) == {40.0, 50.0, 60.0, 70.0}
    assert columns(found) == columns(expected)
