r"""Actors and critics that do not care in which order UEs stand, for agents of stable-baselines3 on recorded rounds.

The actor is the network of `rl.shared_policy`. The critic is the same network with what an action does among its
features. With the power p_k of UE k in dBW after the limits, d_k = p_k less the rule's power, its SNR s_k at 1 W, the
eavesdropper's e_k, and the SNR c_kj of j at the base station of k (see `rl.look`), further features are

    of a UE     p_k,  s_k + p_k,  e_k + p_k,  d_k
    of a pair   (s_k + p_k) - (c_kj + p_j),  d_k - d_j

and the value of an action a in situation x is

    Q(x, a) = A(x, a) - A(x, 0),    A the mean over UEs that are there of  w_o^T e_k + b_o.

Rewards are measured against the rule, so Q(x, 0) = 0 is known, and the network need not learn what situations differ by
themselves. Absent UEs are in no message and in no mean, and their actions are 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from rl.look import PAIR_FEATURES, Look
from rl.rules import Tuned
from rl.shared_policy import HIDDEN, SEEN, UNIT_DB, first_weights, forward, hidden, others, seen, shapes_of
from rl.train import Weights

_ACTED, _PAIRED = 4, 2  # features that actions add, of a UE and of a pair
CRITIC_SHAPES = shapes_of(SEEN + _ACTED, len(PAIR_FEATURES) + _PAIRED)
_LEVEL_DB, _SPREAD_DB = 20.0, 5.0


@dataclass(frozen=True)
class Situations:
    """What networks look up of recorded rounds (S, ...), and the limits of powers in dBW."""

    features: Tensor
    pairs: Tensor
    mix: Tensor
    there: Tensor
    rule_dbw: Tensor
    snr_db: Tensor
    heard_db: Tensor
    cross_db: Tensor
    least_dbw: float
    most_dbw: float

    @classmethod
    def of(cls, look: Look, rule: Tuned) -> Self:
        """Of recorded rounds, with a rule."""
        return cls(
            _single(seen(look, rule)), _single(look.pairs), _single(others(look)), _single(look.there),
            _single(rule.dbw(look)), _single(look.snr_db), _single(look.heard_db), _single(look.cross_db),
            10 * math.log10(look.limits.each_min_w), 10 * math.log10(look.limits.each_max_w),
        )  # fmt: skip

    def at(self, seen: Tensor) -> Self:
        """Those of rounds whose numbers (B, 1) are seen."""
        some = seen[:, 0].long()
        whole: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(self)}
        picked: dict[str, Any] = {name: x[some] if isinstance(x, Tensor) else x for name, x in whole.items()}
        return type(self)(**picked)


def _single(values: npt.ArrayLike) -> Tensor:
    return torch.from_numpy(np.array(values, dtype=np.float32))


class _Net(nn.Module):
    """Weights of a network, by the names of `rl.shared_policy`."""

    def __init__(self, weights: Weights) -> None:
        super().__init__()
        self.names = list(weights)
        for name, w in weights.items():
            self.register_parameter(name.replace(".", "_"), nn.Parameter(torch.from_numpy(w)))

    @property
    def w(self) -> Mapping[str, Tensor]:
        """As `forward` takes them."""
        return {name: getattr(self, name.replace(".", "_")) for name in self.names}

    def set_training_mode(self, mode: bool) -> None:
        """Training and evaluation are alike."""
        self.train(mode)


class SharedActor(_Net):
    """Means of actions (B, K), of numbers of rounds (B, 1), in units of 10 dB."""

    def __init__(self, situations: Situations, seed: int) -> None:
        super().__init__(first_weights(seed))
        self.situations = situations

    def weights(self) -> Weights:
        """The policy as `rl.shared_policy` plays it."""
        return {name: w.detach().numpy().copy() for name, w in self.w.items()}

    def forward(self, seen: Tensor) -> Tensor:
        s = self.situations.at(seen)
        added: Tensor = forward(torch, self.w, s.features, s.pairs, s.mix) * s.there
        return added


class GaussianActor(SharedActor):
    """The same with a spread: log standard deviations from the last hidden layer."""

    LEAST, MOST = -5.0, 0.0

    def __init__(self, situations: Situations, seed: int, std: float, generator: torch.Generator) -> None:
        super().__init__(situations, seed)
        self.generator = generator
        self.spread = nn.Linear(HIDDEN, 1)
        nn.init.zeros_(self.spread.weight)
        nn.init.constant_(self.spread.bias, math.log(std))

    def forward(self, seen: Tensor, deterministic: bool = False) -> Tensor:
        return super().forward(seen) if deterministic else self.action_log_prob(seen)[0]

    def mean_std(self) -> float:
        """Standard deviation of actions, mean over UEs and rounds."""
        s = self.situations
        with torch.no_grad():
            log_std = self.spread(hidden(torch, self.w, s.features, s.pairs, s.mix))[..., 0]
            std = log_std.clamp(self.LEAST, self.MOST).exp()
        return float((std * s.there).sum() / s.there.sum())

    def action_log_prob(self, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Actions drawn (B, K), and the logarithm of their density (B,) over UEs that are there."""
        s = self.situations.at(seen)
        units = hidden(torch, self.w, s.features, s.pairs, s.mix)
        mean = (units @ self.w["out.weight"].T + self.w["out.bias"])[..., 0]
        log_std = self.spread(units)[..., 0].clamp(self.LEAST, self.MOST)
        noise = torch.randn(mean.shape, generator=self.generator)
        density = -0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)
        return (mean + log_std.exp() * noise) * s.there, (density * s.there).sum(1)


class SharedCritic(nn.Module):
    """Values (B, 1) of actions (B, K) in rounds (B, 1), by each of some networks.

    asked : False for a target network in episodes of one step, whose values count with 0.
    """

    def __init__(self, situations: Situations, seed: int, n: int) -> None:
        super().__init__()
        self.situations, self.asked = situations, True
        self.nets = nn.ModuleList(_Net(first_weights(seed + i, CRITIC_SHAPES)) for i in range(n))

    def forward(self, seen: Tensor, actions: Tensor) -> tuple[Tensor, ...]:
        if not self.asked:
            return tuple(actions.new_zeros(len(actions), 1) for _ in self.nets)
        return tuple(self._values(seen, actions, range(len(self.nets))))

    def q1_forward(self, seen: Tensor, actions: Tensor) -> Tensor:
        """Of the first network."""
        return self._values(seen, actions, [0])[0]

    def set_training_mode(self, mode: bool) -> None:
        """Training and evaluation are alike."""
        self.train(mode)

    def _values(self, seen: Tensor, actions: Tensor, nets: Sequence[int]) -> list[Tensor]:
        s = self.situations.at(seen)
        acted, rule = self._told(s, actions), self._told(s, torch.zeros_like(actions))
        present = s.there.sum(1, keepdim=True).clamp(min=1)

        def value(net: nn.Module, told: tuple[Tensor, Tensor]) -> Tensor:
            of_ue: Tensor = forward(torch, cast(_Net, net).w, *told, s.mix) * s.there
            return of_ue.sum(1, keepdim=True) / present

        return [value(self.nets[i], acted) - value(self.nets[i], rule) for i in nets]

    def _told(self, s: Situations, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Features of UEs and of pairs, with what the actions do among them."""
        power_dbw = (s.rule_dbw + UNIT_DB * actions).clamp(s.least_dbw, s.most_dbw)
        added = (power_dbw - s.rule_dbw.clamp(s.least_dbw, s.most_dbw)) / _SPREAD_DB
        levels = torch.stack([power_dbw, s.snr_db + power_dbw, s.heard_db + power_dbw], dim=2) / _LEVEL_DB
        arrives_db = (s.snr_db + power_dbw)[:, :, None] - s.cross_db - power_dbw[:, None]
        between = torch.stack([arrives_db / _SPREAD_DB, added[:, :, None] - added[:, None]], dim=3)
        return torch.cat([s.features, levels, added[..., None]], dim=2), torch.cat([s.pairs, between], dim=3)
