"""Unequal UEs: the factor of each UE's training time, and what it changes in a world."""

import json

import numpy as np
import pytest

from netsim.build import build_world
from netsim.rng import Streams
from netsim.setting import COMPUTE_SPREADS, HalfNormal, LogNormal, WorldSetting

N = 100_000
UES = np.arange(N)
RNG = Streams(2).at("ues.compute")


def setting(n_ue=6, **ues):
    document = {
        "duration_s": 60.0,
        "city": {"kind": "open-field", "width_m": 600.0, "height_m": 500.0},
        "base_stations": [{"name": "b", "position_m": [100.0, 250.0]}],
        "ues": {
            "count": n_ue, "mobility": {"kind": "random-waypoint"}, "measurement_period_s": 10.0,
            "training_s_per_sample": 0.2, "compute_j_per_sample": 0.5, **ues,
        },
    }  # fmt: skip
    return WorldSetting.model_validate_json(json.dumps(document))


def cohort(n_ue=6, seed=3, ue=(1, 4, 5), samples=(10.0, 20.0, 7.0), **ues):
    """What some UEs take to train on their samples."""
    world, ue = build_world(setting(n_ue, **ues), Streams(seed), 60.0), np.array(ue)
    return world.cohort(ue, world.links(), 1, np.ones(len(ue), dtype=int), np.array(samples))


def test_half_normal_factors_are_one_and_a_half_normal_share():
    share = HalfNormal(scale=3.0).factor(UES, RNG) - 1.0
    assert share.min() > 0
    assert abs(share.mean() - 3 * np.sqrt(2 / np.pi)) < 4 * 3 * np.sqrt((1 - 2 / np.pi) / N)
    assert abs((share**2).mean() - 9) < 4 * 9 * np.sqrt(2 / N)


def test_log_normal_factors_have_median_one():
    log = np.log(LogNormal(sigma=0.7).factor(UES, RNG))
    assert abs((log < 0).mean() - 0.5) < 4 * 0.5 / np.sqrt(N)
    assert abs(log.mean()) < 4 * 0.7 / np.sqrt(N) and abs(log.std() - 0.7) < 4 * 0.7 / np.sqrt(2 * N)


@pytest.mark.parametrize("kind", sorted(COMPUTE_SPREADS.parts))
def test_a_ues_factor_hangs_on_its_number_and_the_seed_alone(kind):
    part = COMPUTE_SPREADS.parts[kind]()
    assert part.factor(UES[:50], RNG).tolist() == part.factor(UES[:60], RNG)[:50].tolist()
    assert part.factor(UES[7:9], RNG).tolist() == part.factor(UES[:60], RNG)[7:9].tolist()
    assert not (part.factor(UES[:50], RNG) == part.factor(UES[:50], Streams(3).at("ues.compute"))).any()


def test_training_takes_the_ues_own_factor_of_the_stated_time_and_the_stated_energy():
    drawn = HalfNormal(scale=2.0).factor(np.arange(6), Streams(3).at("ues.compute"))
    found = cohort(compute_heterogeneity={"kind": "half-normal", "scale": 2.0})
    np.testing.assert_allclose(found.compute_s, 0.2 * drawn[[1, 4, 5]] * [10.0, 20.0, 7.0], rtol=1e-15)
    assert found.compute_j.tolist() == [5.0, 10.0, 3.5]
    more = cohort(n_ue=9, compute_heterogeneity={"kind": "half-normal", "scale": 2.0})
    assert more.compute_s.tolist() == found.compute_s.tolist()
