r"""A policy that all UEs share, for any number of them: powers as residuals on a rule.

With features f_k of a UE, among them the outcome of the rule's powers, and p_kj of a pair (see `rl.look`), both of
the same round,

    e_k = tanh(W_e f_k + b_e),
    twice, with separate weights:
        m_k = mean over others j of tanh(W_a e_k + W_b e_j + W_p p_kj + b_m),    e_k = tanh(W_h [e_k, m_k] + b_h),
    x_k = rule_k + 10 dB * (w_o^T e_k + b_o).

In the second exchange a UE learns about the UEs that disturb the others. Exchanging UEs exchanges their powers.
The last layer begins at 0, so that an untrained policy is the rule.
[Message passing: Gilmer et al., Neural Message Passing for Quantum Chemistry, 2017, Eqs. 1-2]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from netsim.units import FloatArray
from rl.look import FEATURES, OUTLOOK, PAIR_FEATURES, Look
from rl.policy import PolicyCard, read_files, save_files
from rl.rules import LAWS, Tuned, untuned, within
from rl.settings import Finite
from rl.train import Weights

ENCODED, HIDDEN = 32, 64
UNIT_DB = 10.0
SEEN = len(FEATURES) + len(OUTLOOK)
Shapes = dict[str, tuple[int, ...]]


def _message(i: int, out: int) -> Shapes:
    return {
        f"own{i}.weight": (ENCODED, ENCODED), f"other{i}.weight": (ENCODED, ENCODED),
        f"pair{i}.weight": (ENCODED, len(PAIR_FEATURES)), f"pair{i}.bias": (ENCODED,),
        f"head{i}.weight": (out, 2 * ENCODED), f"head{i}.bias": (out,),
    }  # fmt: skip


SHAPES: Shapes = {
    "encoder.weight": (ENCODED, SEEN), "encoder.bias": (ENCODED,), **_message(1, ENCODED), **_message(2, HIDDEN),
    "out.weight": (1, HIDDEN), "out.bias": (1,),
}  # fmt: skip


def first_weights(seed: int) -> Weights:
    """Weights before any training: uniform in +- 1 / sqrt(inputs), the last layer 0."""
    draw = np.random.default_rng(seed)
    weights: Weights = {}
    for name, shape in SHAPES.items():
        bound = 0.0 if name.startswith("out") else 1.0 / np.sqrt(SHAPES[f"{name.split('.')[0]}.weight"][1])
        weights[name] = draw.uniform(-bound, bound, shape).astype(np.float32)
    return weights


@dataclass(frozen=True)
class SharedPolicy:
    """A network and its rule."""

    weights: Weights
    rule: Tuned

    def dbw(self, look: Look) -> FloatArray:
        return self.rule.dbw(look) + self.residual_db(look)

    def power_w(self, look: Look) -> FloatArray:
        return within(self.dbw(look), look.limits)

    def residual_db(self, look: Look) -> FloatArray:
        """The network's addition to the rule (S, K), in dB; 0 for UEs that are away."""
        w = {name: value.astype(np.float64) for name, value in self.weights.items()}
        return UNIT_DB * np.where(look.there, forward(np, w, seen(look, self.rule), look.pairs, others(look)), 0.0)


def seen(look: Look, rule: Tuned) -> FloatArray:
    """Features of each UE (S, K, 14): of its links, and of the outcome of the rule's powers."""
    return np.concatenate([look.features, look.outlook(rule.power_w(look))], axis=2)


def others(look: Look) -> FloatArray:
    """Weights (S, K, K) by which messages of other UEs are averaged."""
    there = look.there[:, None, :] & ~np.eye(look.there.shape[1], dtype=np.bool_)
    return np.asarray(there / np.maximum(there.sum(axis=2, keepdims=True), 1))


def forward(xp: Any, w: Any, features: Any, pairs: Any, others: Any) -> Any:
    """The network (S, K), in numpy or in torch: xp."""
    e = xp.tanh(features @ w["encoder.weight"].T + w["encoder.bias"])
    for i in (1, 2):
        own = e @ w[f"own{i}.weight"].T
        other = e @ w[f"other{i}.weight"].T
        message = xp.tanh(own[:, :, None] + other[:, None] + pairs @ w[f"pair{i}.weight"].T + w[f"pair{i}.bias"])
        received = (others[..., None] * message).sum(2)
        head = w[f"head{i}.weight"]
        e = xp.tanh(e @ head[:, :ENCODED].T + received @ head[:, ENCODED:].T + w[f"head{i}.bias"])
    return (e @ w["out.weight"].T + w["out.bias"])[..., 0]


class SharedCard(PolicyCard):
    """Description of a shared policy: of which rule."""

    format: Literal[2] = 2
    """version of these files"""
    task: Literal["shared"] = "shared"
    """one network for every UE"""
    rule: str = Field(max_length=40)
    """the rule that it adds to"""
    parameters: tuple[Finite, ...] = Field(max_length=16)
    """of the rule"""

    @model_validator(mode="after")
    def _known_rule(self) -> Self:
        laws = {law.name: len(law.start) for law in LAWS}
        if laws.get(self.rule) != len(self.parameters):
            raise ValueError(
                f"rule {self.rule!r} with {len(self.parameters)} parameters is none of this program's; there are "
                + ", ".join(f"{name} ({n})" for name, n in laws.items())
            )
        return self


def save_shared(policy: SharedPolicy, card: SharedCard, folder: Path) -> None:
    """Write a policy into a folder."""
    save_files(card, policy.weights, folder)


def load_shared(folder: Path) -> tuple[SharedPolicy, SharedCard]:
    """The policy of a folder. Raises BadInput with one line."""
    card, weights = read_files(folder, SharedCard, lambda _: SHAPES)
    tuned = replace(untuned(card.rule), parameters=np.array(card.parameters), cost=float("nan"))
    return SharedPolicy({name: w.astype(np.float32) for name, w in weights.items()}, tuned), card
