"""Server optimisers: the published updates, what a run keeps of them, and who may see through
them."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from fl.attacks.closed_form import ClosedForm
from fl.attacks.threat import Threat
from fl.data.measured import Measured
from fl.learners.rsrp_net import RsrpNet
from fl.round.learning import Learning
from fl.round.merge import _step_optimiser
from fl.server_optimiser import FedAdam, FedAvgM, FedAvgStep, FedYogi

parametrize = pytest.mark.parametrize

EVERY = [FedAvgStep(learning_rate=0.3), FedAvgM(learning_rate=0.3), FedAdam(), FedYogi()]
ALL = np.ones(2, dtype=bool)


UPDATES = np.random.default_rng(4).normal(0.0, 0.1, (7, 2, 5))
"""Of seven rounds and two models"""


def play_rounds(optimiser, updates=UPDATES, has_updates=None):
    """The sums of all changes after each round."""
    state = optimiser.start()
    changes = []
    for i, update in enumerate(updates):
        change, state = optimiser.compute_change(
            update, ALL if has_updates is None else has_updates[i], state
        )
        changes.append(change)
    return np.cumsum(changes, axis=0)


def test_fedavg_adds_the_merged_update_to_the_bit():
    for rate in (1.0, 0.25):
        change, _ = FedAvgStep(learning_rate=rate).compute_change(UPDATES[0], ALL, None)
        assert_array_equal(change, rate * UPDATES[0])
    assert FedAvgStep().learning_rate == 1.0


@parametrize("momentum", [0.0, 0.6, 0.9])
def test_fedavgm_is_sgd_with_momentum(momentum):
    """Of torch, whose gradient is minus the merged update."""
    w = torch.zeros((2, 5), dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([w], lr=0.3, momentum=momentum)
    result = FedAvgM(learning_rate=0.3, momentum=momentum)
    for update, after in zip(UPDATES, play_rounds(result), strict=True):
        w.grad = -torch.from_numpy(update.copy())
        optimiser.step()
        np.testing.assert_allclose(after, w.detach().numpy(), rtol=0, atol=1e-12)


@parametrize("kind", [FedAdam, FedYogi])
def test_adaptive_steps_are_those_of_algorithm_2(kind):
    """Reddi et al., Algorithm 2, number by number; v starts at tau squared."""
    eta = 0.05
    b1 = 0.8
    b2 = 0.97
    tau = 0.02
    result = play_rounds(kind(learning_rate=eta, beta1=b1, beta2=b2, tau=tau))
    for i, j in np.ndindex(2, 5):
        m = 0.0
        v = tau**2
        x = 0.0
        for t, u in enumerate(UPDATES[:, i, j]):
            m = b1 * m + (1 - b1) * u
            if kind is FedAdam:
                v = b2 * v + (1 - b2) * u * u
            else:
                v = v - (1 - b2) * u * u * (1 if v > u * u else -1 if v < u * u else 0)
            x += eta * m / (v**0.5 + tau)
            assert result[t, i, j] == pytest.approx(x, abs=1e-12)


@parametrize("part", EVERY, ids=lambda p: p.kind)
def test_a_model_without_updates_stays_and_so_does_its_memory(part):
    """Rounds in which nobody contributed are as if they had not been."""
    has_updates = np.ones((7, 2), dtype=bool)
    has_updates[[1, 4], 1] = False
    result = play_rounds(part, np.where(has_updates[..., None], UPDATES, 0.0), has_updates)
    assert_array_equal(result[:, 0], play_rounds(part)[:, 0])
    expected = result[[1, 4], 1]
    assert_array_equal(result[[0, 3], 1], expected)
    expected = play_rounds(part, UPDATES[has_updates[:, 1]])[-1, 1]
    assert_array_equal(result[-1, 1], expected)


@parametrize("hides", [False, True])
def test_a_model_that_nobody_contributed_to_is_moved_by_noise_that_hides_this(hides):
    """Two models, one contribution: the other one stays, unless noise at the server hides that
    nobody came."""
    part = FedAvgM(learning_rate=0.5, momentum=0.5)
    merged_m = np.array([[1.0, 2.0], [3.0, 4.0]])
    learning = SimpleNamespace(server_optimiser=part, hides_who_came=hides)
    phase = SimpleNamespace(learning=learning, name="p")
    states = {"server_optimiser.p": part.start()}
    change = _step_optimiser(phase, merged_m, np.array([0]), states)
    assert_array_equal(change, 0.5 * merged_m * [[1.0], [float(hides)]])
    expected = merged_m * [[1.0], [float(hides)]]
    assert_array_equal(states["server_optimiser.p"].value, expected)


@parametrize("part", EVERY, ids=lambda p: p.kind)
@parametrize("observes", ["updates", "aggregate", "model"])
def test_adaptive_steps_hide_gradients_from_whoever_sees_published_models(part, observes):
    class Reader(ClosedForm):
        needs = ClosedForm.needs | {"linear server step": "it reads sums of gradients"}

    plain = Learning(round_s=60, learner=RsrpNet(hidden=(4,)), data=Measured()).__dict__
    seen = {"threat": Threat(observes=observes), "server_optimiser": part, "attacks": (Reader(),)}
    hidden = observes == "model" and part.kind in ("fedadam", "fedyogi")
    with pytest.raises(ValueError, match="needs a linear server step") if hidden else nullcontext():
        Learning.model_construct(**plain | seen).check()
