"""Server optimisers: the published updates, what a run keeps of them, and who may see through them."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from fl.attacks.closed_form import ClosedForm
from fl.attacks.threat import Threat
from fl.data.measured import Measured
from fl.learners.rsrp_net import RsrpNet
from fl.learning import Learning
from fl.round.merge import _change
from fl.server_optimiser import FedAdam, FedAvgM, FedAvgStep, FedYogi

EVERY = [FedAvgStep(learning_rate=0.3), FedAvgM(learning_rate=0.3), FedAdam(), FedYogi()]
ALL = np.ones(2, dtype=bool)


def merged(rounds=7, n_model=2, d=5, seed=4):
    return np.random.default_rng(seed).normal(0.0, 0.1, (rounds, n_model, d))


def played(optimiser, updates, came=None):
    """The sums of all changes after each round."""
    state, w, seen = optimiser.start(), np.zeros_like(updates[0]), []
    for i, update in enumerate(updates):
        change, state = optimiser.change(update, ALL if came is None else came[i], state)
        w = w + change
        seen.append(w)
    return np.array(seen)


def torch_played(updates, make):
    """The same with an optimiser of torch, whose gradient is minus the merged update."""
    w = torch.zeros(updates[0].shape, dtype=torch.float64, requires_grad=True)
    optimiser, seen = make([w]), []
    for update in updates:
        w.grad = -torch.from_numpy(update.copy())
        optimiser.step()
        seen.append(w.detach().numpy().copy())
    return np.array(seen)


def test_fedavg_adds_the_merged_update_to_the_bit():
    updates = merged(1)
    np.testing.assert_array_equal(FedAvgStep().change(updates[0], ALL, None)[0], updates[0])
    np.testing.assert_array_equal(FedAvgStep(learning_rate=0.25).change(updates[0], ALL, None)[0], 0.25 * updates[0])


@pytest.mark.parametrize("momentum", [0.0, 0.6, 0.9])
def test_fedavgm_is_sgd_with_momentum(momentum):
    expected = torch_played(merged(), lambda w: torch.optim.SGD(w, lr=0.3, momentum=momentum))
    found = played(FedAvgM(learning_rate=0.3, momentum=momentum), merged())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", [FedAdam, FedYogi])
def test_adaptive_steps_are_those_of_algorithm_2(kind):
    """Reddi et al., Algorithm 2, number by number; v starts at tau squared."""
    eta, b1, b2, tau = 0.05, 0.8, 0.97, 0.02
    updates = merged()
    found = played(kind(learning_rate=eta, beta1=b1, beta2=b2, tau=tau), updates)
    for i, j in np.ndindex(updates[0].shape):
        m, v, x = 0.0, tau**2, 0.0
        for t, u in enumerate(updates[:, i, j]):
            m = b1 * m + (1 - b1) * u
            if kind is FedAdam:
                v = b2 * v + (1 - b2) * u * u
            else:
                v = v - (1 - b2) * u * u * (1 if v > u * u else -1 if v < u * u else 0)
            x += eta * m / (v**0.5 + tau)
            assert found[t, i, j] == pytest.approx(x, abs=1e-12)


@pytest.mark.parametrize("part", EVERY, ids=lambda p: p.kind)
def test_a_model_without_updates_stays_and_so_does_its_memory(part):
    """Rounds in which nobody contributed are as if they had not been."""
    updates = merged()
    came = np.ones((len(updates), 2), dtype=bool)
    came[[1, 4], 1] = False
    with_gaps = updates.copy()
    with_gaps[~came] = 0.0
    found = played(part, with_gaps, came)
    np.testing.assert_array_equal(found[:, 0], played(part, updates)[:, 0])
    np.testing.assert_array_equal(found[[0, 3], 1], found[[1, 4], 1])
    np.testing.assert_array_equal(found[-1, 1], played(part, updates[came[:, 1]])[-1, 1])


@pytest.mark.parametrize("hides", [False, True])
def test_a_model_that_nobody_contributed_to_is_moved_by_noise_that_hides_this(hides):
    """Two models, one contribution: the other one stays, unless noise at the server hides that nobody came."""
    part, merged_m = FedAvgM(learning_rate=0.5, momentum=0.5), np.array([[1.0, 2.0], [3.0, 4.0]])
    learning = SimpleNamespace(server_optimiser=part, hides_who_came=hides)
    phase = SimpleNamespace(learning=learning, name="p")
    states = {"server_optimiser.p": part.start()}
    change = _change(phase, merged_m, np.array([0]), states)
    np.testing.assert_array_equal(change, 0.5 * merged_m * [[1.0], [float(hides)]])
    np.testing.assert_array_equal(states["server_optimiser.p"].value, merged_m * [[1.0], [float(hides)]])


class TestWhoMaySee:
    class Reader(ClosedForm):
        needs = ClosedForm.needs | {"linear server step": "it reads sums of gradients"}

    def learning(self, optimiser, observes="updates", **more):
        parts = {"learner": RsrpNet(hidden=(4,)), "attacks": (self.Reader(),)} | more
        plain = Learning(round_s=60, learner=RsrpNet(hidden=(4,)), data=Measured()).__dict__
        return Learning.model_construct(
            **plain | {"threat": Threat(observes=observes), "server_optimiser": optimiser} | parts
        )

    @pytest.mark.parametrize("part", EVERY, ids=lambda p: p.kind)
    @pytest.mark.parametrize("observes", ["updates", "aggregate", "model"])
    def test_adaptive_steps_hide_gradients_from_whoever_sees_published_models(self, part, observes):
        if observes == "model" and part.kind in ("fedadam", "fedyogi"):
            with pytest.raises(ValueError, match="needs a linear server step"):
                self.learning(part, observes).check()
        else:
            self.learning(part, observes).check()
