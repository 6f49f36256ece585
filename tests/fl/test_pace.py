"""How much made-up UEs move: matched to the estimates of real ones."""

import numpy as np
import pytest

from fl.attacks.learnt_errors import Pace
from fl.attacks.shadow_ues import ROAMING, SPEED_MPS, Population
from fl.tracking.place_grid import PlaceGrid
from netsim.geometry import Area

EVERYWHERE = Population.uniform(PlaceGrid.over(Area(0.0, 0.0, 4000.0, 3000.0), 100.0, 1, "test"))
DRAW = np.random.default_rng(0)


def steps(n, at_rest, median_m):
    """Steps of which a share is at rest, and the others have this median."""
    far = median_m * np.exp(0.2 * DRAW.normal(size=n))
    return np.where(np.arange(n) < at_rest * n, 0.0, far)


def seen(step_m):
    """After two rounds in which UEs moved so far, each in its own direction."""
    ue, start_m = np.arange(len(step_m)), DRAW.uniform(0, 4000, (len(step_m), 2))
    turn = DRAW.uniform(0, 2 * np.pi, len(step_m))
    moved_m = step_m[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return Pace().seen(7, ue, start_m).seen(8, ue, start_m + moved_m)


def test_steps_are_those_of_one_ue_in_successive_rounds():
    pace = Pace().seen(1, np.array([2, 5, 9]), np.array([[0.0, 0], [10, 10], [np.nan, np.nan]]))
    pace = pace.seen(2, np.array([5, 7, 9]), np.array([[13.0, 14], [0, 0], [0, 0]]))
    assert pace.steps_m.tolist() == [5.0]
    assert pace.seen(2, np.array([5]), np.zeros((1, 2))) is pace  # another look at the same round
    assert pace.seen(4, np.array([5]), np.zeros((1, 2))).steps_m.tolist() == [5.0]


def test_made_up_ues_become_as_fast_as_real_ones_seem():
    pace = seen(steps(400, 0.5, 400.0)).matched(EVERYWHERE, steps(400, 0.5, 1000.0))
    assert pace.speed_mps == pytest.approx(0.4 * SPEED_MPS, rel=0.05) and pace.roaming == ROAMING


def test_as_many_rest_as_real_ones_seem_to():
    pace = seen(steps(400, 0.2, 1000.0)).matched(EVERYWHERE, steps(400, 0.4, 1000.0))
    assert pace.roaming == pytest.approx(1 - 0.2 * 0.8 / 0.4) and pace.speed_mps == SPEED_MPS
    always = EVERYWHERE.__class__(EVERYWHERE.grid, EVERYWHERE.probability, roaming=1.0)
    assert seen(steps(400, 0.3, 1000.0)).matched(always, steps(400, 0.0, 1000.0)).roaming == pytest.approx(0.7)


@pytest.mark.parametrize("given", ["roaming", "speed"])
def test_what_is_given_stays(given):
    flags = {f"match_{given}": False}
    people = Population(EVERYWHERE.grid, EVERYWHERE.probability, **flags)
    pace = seen(steps(400, 0.1, 300.0)).matched(people, steps(400, 0.4, 1000.0))
    assert (pace.roaming == ROAMING) == (given == "roaming")
    assert (pace.speed_mps == SPEED_MPS) == (given == "speed")
    now = Pace(roaming=0.9, speed_mps=1.0).of(people)
    assert (now.roaming, now.speed_mps) == ((ROAMING, 1.0) if given == "roaming" else (0.9, SPEED_MPS))
