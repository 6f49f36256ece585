"""Off-policy agents of stable-baselines3, with batches of our own and a state that can be written down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from stable_baselines3.common.vec_env import VecNormalize

from netsim.rng import Rng

Tree = dict[str, Any]
_COLUMNS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


class Buffer(ReplayBuffer):
    """A buffer whose batches come from a generator of its own."""

    generator: np.random.Generator

    def sample(self, batch_size: int, env: VecNormalize | None = None) -> ReplayBufferSamples:
        filled = self.buffer_size if self.full else self.pos
        step, env_of = np.divmod(self.generator.integers(0, filled * self.n_envs, size=batch_size), self.n_envs)
        over = self.dones[step, env_of] * (1 - self.timeouts[step, env_of])
        return ReplayBufferSamples(
            self.to_torch(self.observations[step, env_of]),
            self.to_torch(self.actions[step, env_of]),
            self.to_torch(self.next_observations[step, env_of]),
            self.to_torch(over[:, None]),
            self.to_torch(self.rewards[step, env_of][:, None]),
        )


def buffer_of(model: OffPolicyAlgorithm, batches: Rng | None = None) -> Buffer:
    """The transitions of a model; batches : where its batches come from, for a new one."""
    buffer = model.replay_buffer
    if not isinstance(buffer, Buffer):
        raise TypeError("a model with another replay buffer")
    if batches is not None:
        buffer.generator = batches.generator("batch")
    return buffer


def memory_of(model: OffPolicyAlgorithm, networks: Sequence[str]) -> Tree:
    """What a model has learnt and seen: its networks by name, optimisers, transitions, and counts."""
    buffer = buffer_of(model)
    filled = buffer.buffer_size if buffer.full else buffer.pos
    return {
        "steps": int(model.num_timesteps),
        "updates": model._n_updates,
        "episodes": model._episode_num,
        "networks": {name: arrays_of(getattr(model, name).state_dict()) for name in networks},
        "optimisers": {name: optimiser_memory(getattr(model, name).optimizer) for name in _LEARNT},
        "buffer": {
            "generator": buffer.generator.bit_generator.state, "pos": buffer.pos, "full": buffer.full,
            **{name: getattr(buffer, name)[:filled].copy() for name in _COLUMNS},
        },
    }  # fmt: skip


def resume(model: OffPolicyAlgorithm, networks: Sequence[str], memory: Tree) -> None:
    """Set a model to what `memory_of` wrote down."""
    buffer = buffer_of(model)
    model.num_timesteps = int(memory["steps"])
    model._n_updates, model._episode_num = int(memory["updates"]), int(memory["episodes"])
    for name in networks:
        getattr(model, name).load_state_dict(tensors_of(memory["networks"][name]))
    for name in _LEARNT:
        resume_optimiser(getattr(model, name).optimizer, memory["optimisers"][name])
    kept = memory["buffer"]
    buffer.generator.bit_generator.state = kept["generator"]
    buffer.pos, buffer.full = int(kept["pos"]), bool(kept["full"])
    for name in _COLUMNS:
        getattr(buffer, name)[: len(kept[name])] = kept[name]


_LEARNT = ("actor", "critic")


def optimiser_memory(optimiser: torch.optim.Optimizer) -> Tree:
    """The state of an optimiser, by the number of each parameter."""
    return {str(i): arrays_of(s) for i, s in optimiser.state_dict()["state"].items()}


def resume_optimiser(optimiser: torch.optim.Optimizer, memory: Tree) -> None:
    """Set an optimiser to what `optimiser_memory` wrote down."""
    whole = optimiser.state_dict()
    whole["state"] = {int(i): tensors_of(s) for i, s in memory.items()}
    optimiser.load_state_dict(whole)


def arrays_of(tensors: Any) -> Tree:
    """Tensors as arrays of the same numbers."""
    return {k: v.detach().cpu().numpy().copy() for k, v in tensors.items()}


def tensors_of(arrays: Any) -> dict[str, torch.Tensor]:
    """Arrays as tensors of the same numbers."""
    return {k: torch.from_numpy(np.array(v)) for k, v in arrays.items()}
