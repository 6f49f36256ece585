"""The server optimiser slot: the step of the global models from the merged update."""

from abc import abstractmethod

import numpy as np
from pydantic import Field

from fl.types import State
from netsim.columns import frozen
from netsim.part import Needs, OneOf, Part
from netsim.units import BoolArray, FloatArray

LINEAR_STEP = "linear server step"
"""offered where the change of a model is a linear combination of the updates that were merged"""

MODEL_CHANGES = "model changes"
"""offered by learners whose update is a difference of weights, which is added to the global ones"""

NEEDS_CHANGES: Needs = {
    MODEL_CHANGES: (
        "it moves weights along the merged update, and the updates of this learner are no "
        "differences of weights; leave server_optimiser out"
    )
}


class ServerOptimiser(Part):
    """Moves each global model along its merged update D, after the server's half of all defenses.

    D is taken for the direction of descent (the pseudo-gradient is -D). The state is one of each
    phase of the learner. A model to which no UE contributed in a round stays where it is, and so
    does its state; with noise at the server, which hides who took part, D is noise then and is
    followed like any other.
    """

    kind: str = ""
    needs = NEEDS_CHANGES

    def start(self) -> State:
        """The first state; None for an optimiser without memory."""
        return None

    @abstractmethod
    def compute_change(
        self, merged: FloatArray, has_updates: BoolArray, state: State
    ) -> tuple[FloatArray, State]:
        """Change of the models (n_model, d), and the next state.

        merged (n_model, d) is D; came (n_model,) says which models it counts for.
        """


class FedAvgStep(ServerOptimiser, kind="fedavg"):
    """w <- w + learning_rate D: with learning rate 1, federated averaging as published."""

    learning_rate: float = Field(1.0, gt=0, le=100)
    """server learning rate"""

    reference = "McMahan et al., Communication-Efficient Learning of Deep Networks, 2017"
    offers = frozenset({LINEAR_STEP})

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """Nothing at learning rate 1, where every learner steps by itself."""
        return {} if self.learning_rate == 1.0 else NEEDS_CHANGES

    def compute_change(
        self, merged: FloatArray, has_updates: BoolArray, state: State
    ) -> tuple[FloatArray, State]:
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # what has diverged stands in the records as such
            return self.learning_rate * merged, state


@frozen
class Velocity:
    """v (n_model, d), or (0, 0) before the first step, where it is zero."""

    value: FloatArray


class FedAvgM(ServerOptimiser, kind="fedavgm"):
    """v <- momentum v + D, w <- w + learning_rate v, from v = 0.

    The step between two published models then mixes the updates of earlier rounds into those of the
    last.
    """

    learning_rate: float = Field(1.0, gt=0, le=100)
    """server learning rate"""
    momentum: float = Field(0.9, ge=0, lt=1)
    """share of the velocity that is kept from round to round (beta)"""

    reference = (
        "Hsu, Qi, Brown 2019, Measuring the Effects of Non-Identical Data Distribution for "
        "Federated Visual Classification, Section 4.3"
    )
    offers = frozenset({LINEAR_STEP})

    def start(self) -> Velocity:
        return Velocity(np.zeros((0, 0)))

    def compute_change(
        self, merged: FloatArray, has_updates: BoolArray, state: Velocity
    ) -> tuple[FloatArray, Velocity]:
        before = state.value if state.value.size else np.zeros_like(merged)
        v = np.where(has_updates[:, None], self.momentum * before + merged, before)
        return np.where(has_updates[:, None], self.learning_rate * v, 0.0), Velocity(v)


@frozen
class Moments:
    """m and v (n_model, d); of size 0 before the first step."""

    mean: FloatArray
    square: FloatArray


class Adaptive(ServerOptimiser):
    """m <- beta1 m + (1 - beta1) D, v <- a mean of D^2 of the kind's own, w <- w + learning_rate m
    / (sqrt(v) + tau).

    All operations are per parameter. Initially m = 0 and v = tau^2.
    """

    kind: str = ""
    learning_rate: float = Field(1e-2, gt=0, le=100)
    """server learning rate (eta)"""
    beta1: float = Field(0.9, ge=0, lt=1)
    """decay of the mean of merged updates"""
    beta2: float = Field(0.99, ge=0, lt=1)
    """decay of the mean of their squares"""
    tau: float = Field(1e-3, ge=1e-12, le=1e3)
    """degree of adaptivity: what is added to the root of the mean square; small is more adaptive"""

    @abstractmethod
    def update_mean_square(self, before: FloatArray, square: FloatArray) -> FloatArray:
        """The next v (n_model, d), from the last one and D^2."""

    def start(self) -> Moments:
        return Moments(np.zeros((0, 0)), np.zeros((0, 0)))

    def compute_change(
        self, merged: FloatArray, has_updates: BoolArray, state: Moments
    ) -> tuple[FloatArray, Moments]:
        if not state.mean.size:
            zero = np.zeros_like(merged)
            state = Moments(zero, zero + self.tau**2)
        mean = state.mean.copy()
        square = state.square.copy()
        rows = has_updates[:, None]
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # what has diverged stands in the records as such
            np.copyto(mean, self.beta1 * mean + (1.0 - self.beta1) * merged, where=rows)
            np.copyto(square, self.update_mean_square(square, merged**2), where=rows)
            step = self.learning_rate * mean / (np.sqrt(square) + self.tau)
        return np.where(rows, step, 0.0), Moments(mean, square)


class FedAdam(Adaptive, kind="fedadam"):
    """v <- beta2 v + (1 - beta2) D^2 (see `Adaptive`): Adam on the merged update.

    As published, moments are not corrected for their initial values.
    """

    reference = "Reddi et al., Adaptive Federated Optimization, 2021, Algorithm 2"

    def update_mean_square(self, before: FloatArray, square: FloatArray) -> FloatArray:
        return self.beta2 * before + (1.0 - self.beta2) * square


class FedYogi(Adaptive, kind="fedyogi"):
    """v <- v - (1 - beta2) D^2 sign(v - D^2) (see `Adaptive`).

    A large update raises v no faster than (1 - beta2) D^2, and after it v falls more slowly than
    that of FedAdam.
    """

    reference = "Reddi et al., Adaptive Federated Optimization, 2021, Algorithm 2"

    def update_mean_square(self, before: FloatArray, square: FloatArray) -> FloatArray:
        return before - (1.0 - self.beta2) * square * np.sign(before - square)


SERVER_OPTIMISERS = OneOf("server-optimiser", FedAvgStep, FedAvgM, FedAdam, FedYogi)
