"""A trained policy as data: a card in JSON, weights in safetensors. Reading one runs no code.

``policy.json`` is the description of the policy (`Card`), ``policy.safetensors`` holds the layers, and for the problem
of the study the reference trajectory that it was trained on. A folder from a stranger is checked number by number.
"""

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from fl.power.bound import Convergence, Criterion, PowerLoss, Trajectory
from fl.power.search import Limits
from netsim.errors import BadInput
from netsim.part import Part
from netsim.units import FloatArray
from rl.observation import seen_online_size
from rl.policy_files import WEIGHTS, Shapes, read_files, save_files
from rl.problem import Acts, Observe, Problem, Seen, seen_size
from rl.train import Weights

FORMAT = 1
Single = npt.NDArray[np.float32]
Layers = tuple[tuple[Single, Single], ...]


class Card(Part):
    """Description of a policy: scope and origin."""

    format: int = FORMAT
    """version of these files"""
    program: str = Field(max_length=40)
    """version of the program that trained it"""
    task: Literal["allocation", "online"]
    """one vector for a whole training, or one a round"""
    observe: Literal["paper", "channel", "online"]
    """its observation"""
    ues: int = Field(ge=1, le=4096)
    """number of UEs"""
    hidden: tuple[int, ...] = Field(min_length=1, max_length=8)
    """units of its hidden layers"""
    limits: Limits
    """limits of its powers"""
    acts: Acts = "power"
    """meaning of its actions"""
    criterion: Criterion = "aggregate"
    """when the channel's noise is enough"""
    bound: Convergence = Convergence()
    """the bound that it was trained on"""
    scenario: str = Field(default="", max_length=300)
    """title of the scenario that it was trained in"""
    seed: int = Field(default=0, ge=0)
    """of its training"""
    steps: int = Field(default=0, ge=0)
    """of its training, when it was kept"""

    @model_validator(mode="after")
    def _readable(self) -> Self:
        if self.format != FORMAT:
            raise ValueError(f"format {self.format} is not {FORMAT}, which this program reads; train it again")
        if any(not 1 <= n <= 4096 for n in self.hidden):
            raise ValueError("hidden: a layer has 1 to 4096 units")
        if (self.task == "online") != (self.observe == "online"):
            raise ValueError(f"observe {self.observe!r} does not belong to task {self.task!r}")
        return self

    @property
    def n_seen(self) -> int:
        """Numbers of an observation."""
        return seen_online_size(self.ues) if self.observe == "online" else seen_size(self.observe, self.ues)

    @property
    def shapes(self) -> list[tuple[int, int]]:
        """Outputs and inputs of each layer."""
        sizes = [self.n_seen, *self.hidden, self.ues]
        return [(b, a) for a, b in pairwise(sizes)]


@dataclass(frozen=True)
class Policy:
    """A deterministic policy: layers of rectified units, and tanh at the end. reference: for its training."""

    card: Card
    layers: Layers
    reference: Trajectory | None = None

    def act(self, seen: Seen) -> FloatArray:
        """The action (K,) in [-1, 1] for an observation. BadInput where its weights overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            action = forward(self.layers, seen)
        if not np.isfinite(action).all():
            k = int(np.argmin(np.isfinite(action)))
            raise BadInput(f"power.policy: its action for UE {k} is {action[k]}; its weights overflow, train it again")
        return action

    def problem(self) -> Problem:
        """The problem of the study that it was trained on."""
        if self.reference is None or self.card.observe == "online":
            raise ValueError("this policy has no reference trajectory")
        observe: Observe = "paper" if self.card.observe == "paper" else "channel"
        return Problem(
            PowerLoss(self.reference, self.card.bound, self.card.criterion), self.card.limits, observe, self.card.acts
        )


def layers_of(weights: Weights) -> Layers:
    """The layers of a network whose weights and biases stand in turn."""
    arrays = list(weights.values())
    return tuple(zip(arrays[::2], arrays[1::2], strict=True))


def forward(layers: Layers, seen: Seen) -> FloatArray:
    """The action of a network."""
    x = seen
    for weight, bias in layers[:-1]:
        x = np.maximum(weight @ x + bias, np.float32(0.0))
    weight, bias = layers[-1]
    return np.tanh((weight @ x + bias).astype(np.float64))


def save_policy(policy: Policy, folder: Path) -> None:
    """Write a policy into a folder."""
    tensors: dict[str, np.ndarray] = {}
    for i, (weight, bias) in enumerate(policy.layers):
        tensors |= {f"layers.{i}.weight": weight, f"layers.{i}.bias": bias}
    if (t := policy.reference) is not None:
        values = {"std": t.std, "weight": t.weight, "gain": t.gain, "scale": np.array([t.scale])}
        tensors |= {f"reference.{name}": value for name, value in values.items()}
    save_files(policy.card, tensors, folder)


def load_policy(folder: Path) -> Policy:
    """The policy of a folder. Raises BadInput with one line for whatever is wrong with it."""
    card, tensors = read_files(folder, Card, _shapes)
    layers = tuple(
        (tensors[f"layers.{i}.weight"].astype(np.float32), tensors[f"layers.{i}.bias"].astype(np.float32))
        for i in range(len(card.shapes))
    )
    if card.observe == "online":
        return Policy(card, layers)
    std, weight, gain, scale = (tensors[f"reference.{n}"].astype(np.float64) for n in _REFERENCE)
    try:
        trajectory = Trajectory(std, weight, gain, float(scale[0]))
        card.bound.factor(weight)
        card.limits.check(card.ues)
        if trajectory.scale <= 0:
            raise ValueError("its reference.scale is not above 0")
    except ValueError as error:
        raise BadInput(f"{folder / WEIGHTS}: {error}; train the policy again") from None
    return Policy(card, layers, trajectory)


_REFERENCE = ("std", "weight", "gain", "scale")


def _shapes(card: Card) -> Shapes:
    """Shapes of all arrays: layers, and the reference trajectory of a policy for a whole training."""
    shapes: dict[str, tuple[int | None, ...]] = {}
    for i, shape in enumerate(card.shapes):
        shapes |= {f"layers.{i}.weight": shape, f"layers.{i}.bias": shape[:1]}
    if card.observe != "online":
        shapes |= {f"reference.{name}": (None, card.ues) for name in ("std", "weight", "gain")}
        shapes |= {"reference.scale": (1,)}
    return shapes
