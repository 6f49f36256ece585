"""Multiples of time steps: time never stands still, and no multiple is left out or counted twice."""

import json

import numpy as np
import pytest

from netsim.build import build_world
from netsim.lookahead import tick_after
from netsim.multiples import first_multiple, last_multiple
from netsim.radio.block_fading import Rayleigh
from netsim.rng import Streams
from netsim.setting import WorldSetting

STEPS = [0.001, 0.01, 0.1, 0.16, 0.3, 1 / 3, 0.6, 0.7, 1.0, 1.1, 60.0, 86_400.0]


@pytest.mark.parametrize("step_s", STEPS)
def test_a_product_is_its_own_multiple(step_s):
    """Up to 2^40 steps; a millisecond later, or a hundredth of a step, is another."""
    rng = np.random.default_rng(0)
    many = np.concatenate([np.arange(3000), np.floor(2.0 ** rng.uniform(11, 40, 3000))]).astype(int)
    for k in many.tolist():
        assert last_multiple(k * step_s, step_s) == first_multiple(k * step_s, step_s) == k
        assert last_multiple((k + 0.99) * step_s, step_s) == k
        assert first_multiple((k + 0.01) * step_s, step_s) == k + 1


@pytest.mark.parametrize("step_s", STEPS)
def test_every_tick_is_later_than_the_last_by_one_tick(step_s):
    for start in (0, 2**10, 2**24, 2**30):
        now_s = start * step_s
        for k in range(start + 1, start + 2000):
            then_s = tick_after(now_s, step_s)
            assert now_s < then_s == pytest.approx(k * step_s, rel=1e-15)
            now_s = then_s


def world_of(**ues):
    document = {
        "duration_s": 30.0, "tick_s": 0.1, "city": {"kind": "open-field", "width_m": 600.0, "height_m": 500.0},
        "base_stations": [{"name": "a", "at_m": [100.0, 100.0]}],
        "ues": {"count": 2, "mobility": {"kind": "random-waypoint"}, **ues},
    }  # fmt: skip
    return build_world(WorldSetting.model_validate_json(json.dumps(document)), Streams(3), 10.0)


@pytest.mark.parametrize("every_s", [0.1, 0.3, 0.7, 1.0])
def test_a_world_of_tenths_of_seconds_comes_to_its_end(every_s):
    world, moves = world_of(measure_every_s=every_s), []
    while world.env.now < 30.0 and len(moves) < 500:
        world.env.step()
        moves.append(world.env.now)
    assert len(moves) < 310
    seen = world.observations()
    assert np.unique(np.round(seen.time_s[seen.ue == 0] / every_s, 6)).tolist() == list(
        range(round(29.95 // every_s) + 1)
    )


def test_samples_end_late_in_time_too():
    """Beyond 2^24 samples."""
    world = world_of(measure_every_s=0.1)
    at = [world._next_sample(k * 0.1) for k in range(22_500_000, 22_503_000)]
    assert (np.diff(at) > 0.05).all() and all(a > k * 0.1 for k, a in enumerate(at, 22_500_000))


def test_rounds_as_long_as_a_block_have_blocks_of_their_own():
    fading = Rayleigh(block=0.1)
    assert [fading.block_index(k, k * 0.1) for k in range(3000)] == list(range(3000))
