"""`netsim/OnlinePower-v0` on recorded rounds: a step judges powers in a round that was played once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded

from rl.env_online import WORLDS, drawn_world
from rl.observation import seen_before, seen_online_size
from rl.powers import kept, start_w
from rl.problem import Seen, checked_action, checked_options, log_power
from rl.radio_loops import judged
from rl.radio_records import Air, RadioCosts
from rl.recording import Episode
from rl.settings import Online


class RecordedPower(gymnasium.Env[Seen, Seen]):
    """`OnlinePower`, with its spaces, in worlds that were recorded once.

    With one seed it draws the worlds that `OnlinePower` draws, `worlds` of them, and then begins again with the first.

    A recorded round costs what it costs live with the same links, rows and requirements. These are those of the powers
    that it was recorded with: in the first round of a world they depend on no power; later, other powers would
    have led to other requirements. `info` has no `loss` and no `leakage`.
    """

    def __init__(self, record: Callable[[int], Episode], air: Air, n_ue: int, task: Online, worlds: int = 1) -> None:
        """record : world seed -> its rounds."""
        task.limits.check(n_ue)
        self.record, self.air, self.n_ue, self.task, self.worlds = record, air, n_ue, task, worlds
        self.action_space = spaces.Box(-1.0, 1.0, (n_ue,), np.float32)
        self.observation_space = spaces.Box(-1.0, 1.0, (seen_online_size(n_ue),), np.float32)
        self.drawn = list[int]()
        self.episodes = self.steps = self.t_th = self.world_seed = 0
        self.over = True

    recording: Episode

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Seen, dict[str, Any]]:
        given = checked_options(options, {"world": WORLDS})
        super().reset(seed=seed)
        if seed is not None:
            self.drawn, self.episodes = [], 0
        turn = self.episodes % self.worlds
        if turn == len(self.drawn):
            self.drawn.append(drawn_world(self.np_random))
        self.world_seed = int(given.get("world", self.drawn[turn]))
        self.recording = self.record(self.world_seed)
        self.episodes, self.steps, self.t_th, self.over = self.episodes + 1, 0, 0, False
        self.last_w, self.drawn_std = start_w(self.task.limits, self.n_ue), np.zeros(self.n_ue)
        return self._seen(), self._info(None)

    def step(self, action: Seen) -> tuple[Seen, float, bool, bool, dict[str, Any]]:
        if self.over:
            raise ResetNeeded("step: no episode is going on; reset the environment first")
        wanted_w = log_power(checked_action(action, self.n_ue), self.task.limits)
        episode, s = self.recording, self.steps
        if not episode.silent[s]:
            self.last_w = kept(wanted_w, np.flatnonzero(episode.sends[s]), self.task.limits)
        sent_w = np.minimum(self.last_w, episode.max_power_w)
        found = judged(episode.rounds, self.air, sent_w[None], np.array([s]))
        self._note_drawn(found)
        self.steps += 1
        self.over = self.steps >= len(episode)
        stopped = self.over and episode.stopped
        reward = -float(self.task.reward.cost(found.figures)[0])
        return self._seen(), reward, stopped, self.over and not stopped, self._info(found)

    def _note_drawn(self, found: RadioCosts) -> None:
        """Note the UEs with artificial noise on some row; one without rows keeps its value."""
        ue, drawn = self.recording.rounds.of[self.steps], found.rows.drawn[0]
        self.drawn_std[ue[ue >= 0]] = 0.0
        self.drawn_std[ue[(ue >= 0) & drawn]] = 1.0
        if found.artificial[0]:
            self.t_th = int(self.recording.played[self.steps])

    def _seen(self) -> Seen:
        known = self.recording.before.select(np.array([self.steps]))
        seen: Seen = seen_before(
            replace(known, drawn_std=self.drawn_std[None]), self.last_w[None], self.task.limits
        )[0]  # fmt: skip
        return seen

    def _info(self, found: RadioCosts | None) -> dict[str, Any]:
        """The same keys after a reset, where costs are 0."""
        names = ("noise", "energy_j", "lost", "leak")
        costs = {name: 0.0 if found is None else float(found.figures.of(name)[0]) for name in names}
        return {"t_th": self.t_th, "power_w": self.last_w.copy(), "world": self.world_seed, **costs}
