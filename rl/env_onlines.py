"""`netsim/OnlinePower-v0` many times in one process, on recorded rounds: all power vectors are judged at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.error import ResetNeeded
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from netsim.units import BoolArray, FloatArray, IntArray
from rl.ddpg_power import kept, start_w
from rl.env_online import WORLDS, drawn_world
from rl.observation import Before, seen_before, seen_online_size
from rl.problem import END, Seen, checked_action, checked_options, log_power
from rl.radio_loops import judged
from rl.radio_records import Air, RadioCosts, Rounds
from rl.recording import Episode
from rl.settings import Online
from rl.specs import SpecifiedVector

_COSTS = ("noise", "energy_j", "lost", "leak")


class OnlinePowers(SpecifiedVector):
    """n environments `OnlinePower`, with its spaces, stepped as arrays, in worlds that were recorded once.

    Each has a generator of its own; a seed s gives them s, s + 1, ..., a list one each. They draw the worlds that
    `OnlinePower` draws with that seed, `worlds` / n each and at least one, and then begin again with the first of them.
    One whose episode ended begins a new one at the next step (`AutoresetMode.NEXT_STEP`): its action is ignored there,
    its reward is 0. Values of `info` are arrays with an entry for each, and a mask `_name` as Gymnasium has them. A bad
    action is refused, and then no environment steps.

    A recorded round costs what it costs live with the same links, rows and requirements. These are those of the powers
    that it was recorded with: in the first round of a world they hang on no power, later budgets would have answered
    other powers with other requirements.
    """

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(
        self, record: Callable[[int], Episode], air: Air, n_ue: int, task: Online, num_envs: int = 1,
        worlds: int = 1,
    ) -> None:  # fmt: skip
        for name, given in (("num_envs", num_envs), ("worlds", worlds)):
            if given < 1:
                raise ValueError(f"{name}: {given}; take 1 or more")
        task.limits.check(n_ue)
        self.num_envs, self.shape, self.task, self.each = num_envs, (num_envs, n_ue), task, max(worlds // num_envs, 1)
        self.single_action_space = spaces.Box(-1.0, 1.0, (n_ue,), np.float32)
        self.single_observation_space = spaces.Box(-1.0, 1.0, (seen_online_size(n_ue),), np.float32)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.library = _Library(record, air)
        self.generators = [np_random(None)[0] for _ in range(num_envs)]
        self.drawn = [list[int]() for _ in range(num_envs)]
        self.episodes, self.steps, self.t_th, self.world, self.at = (
            np.zeros(num_envs, dtype=np.int64) for _ in range(5)
        )
        self.last_w = np.zeros(self.shape)
        self.drawn_std = np.zeros(self.shape)
        self.over = np.zeros(num_envs, dtype=np.bool_)
        self.begun = False
        self._all = np.ones(num_envs, dtype=np.bool_)
        self._all.flags.writeable = False  # it is handed out

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Seen, dict[str, Any]]:
        n, given = self.num_envs, checked_options(options, {"world": WORLDS})
        for i, own in enumerate(_own_seeds(seed, n)):
            if own is not None:
                self.generators[i], self.drawn[i], self.episodes[i] = np_random(own)[0], [], 0
        for i in range(n):
            self._begin(i, given.get("world"))
        self.begun, self.over = True, np.zeros(n, dtype=np.bool_)
        return self._seen(), self._info({})

    def step(self, actions: Seen) -> tuple[Seen, FloatArray, Any, Any, dict[str, Any]]:
        if not self.begun:
            raise ResetNeeded("step: no episode is going on; reset the environment first")
        wanted_w = log_power(_checked_actions(actions, self.shape, self.over), self.task.limits)
        again = self.over.nonzero()[0]
        for i in again.tolist():
            self._begin(i, None)
        play = np.flatnonzero(~self.over)
        costs, reward = dict[str, FloatArray](), np.zeros(self.num_envs)
        if len(play):
            found = self._play(play, wanted_w)
            reward[play] = -self.task.reward.cost(found.figures)
            for name in _COSTS:
                costs[name] = np.zeros(self.num_envs)
                costs[name][play] = getattr(found, name)
        ended = np.zeros(self.num_envs, dtype=np.bool_)
        ended[play] = self.steps[play] >= self.library.length[self.at[play]]
        stopped = ended & self.library.stopped[self.at]
        self.over = ended
        return self._seen(), reward, stopped, ended & ~stopped, self._info(costs)

    def _play(self, play: IntArray, wanted_w: FloatArray) -> RadioCosts:
        """What the next rounds of some environments cost, which go on by a step."""
        library, limits = self.library, self.task.limits
        which = library.first[self.at[play]] + self.steps[play]
        for i, s in zip(play.tolist(), which.tolist(), strict=True):
            if not library.silent[s]:
                self.last_w[i] = kept(wanted_w[i], np.flatnonzero(library.sends[s]), limits)
        found = judged(library.rounds, library.air, np.minimum(self.last_w[play], library.max_power_w), which)
        self._note_drawn(play, library.rounds.of[which], found.rows.drawn)
        self.t_th[play] = np.where(found.artificial, library.played[which], self.t_th[play])
        self.steps[play] += 1
        return found

    def _note_drawn(self, play: IntArray, of: IntArray, drawn: BoolArray) -> None:
        """Artificial noise stands where it was drawn on some row of a UE; one without rows keeps what it had."""
        for what, value in ((of >= 0, 0.0), ((of >= 0) & drawn, 1.0)):
            env, row = np.nonzero(what)
            self.drawn_std[play[env], of[env, row]] = value

    def _begin(self, i: int, world: int | None) -> None:
        """A new episode of environment i, in the world that is asked for or its own next one."""
        own, turn = self.drawn[i], int(self.episodes[i]) % self.each
        if turn == len(own):
            own.append(drawn_world(self.generators[i]))
        self.world[i] = own[turn] if world is None else int(world)
        self.at[i] = self.library.index(int(self.world[i]))
        self.episodes[i] += 1
        self.steps[i] = self.t_th[i] = 0
        self.last_w[i], self.drawn_std[i] = start_w(self.task.limits, self.shape[1]), 0.0

    def _seen(self) -> Seen:
        known = self.library.known(self.at, self.steps, self.drawn_std)
        return seen_before(known, self.last_w, self.task.limits)

    def _info(self, costs: dict[str, FloatArray]) -> dict[str, Any]:
        """What is said of all, with the same keys after a reset; costs that are not given are 0."""
        info: dict[str, Any] = {name: np.zeros(self.num_envs) for name in _COSTS} | costs
        info |= {"t_th": self.t_th.copy(), "power_w": self.last_w.copy(), "world": self.world.copy()}
        return info | {f"_{name}": self._all for name in info}


class _Library:
    """Worlds that were recorded so far, their rounds one after the other."""

    def __init__(self, record: Callable[[int], Episode], air: Air) -> None:
        self.record, self.air = record, air
        self.episodes: dict[int, Episode] = {}

    rounds: Rounds
    before: Before
    first: IntArray  # step of each world
    length: IntArray  # steps of each world
    stopped: BoolArray
    sends: BoolArray
    silent: BoolArray
    played: IntArray
    max_power_w: float

    def index(self, world: int) -> int:
        """Number of a world, which is recorded where it is not known."""
        if world not in self.episodes:
            self.episodes[world] = self.record(world)
            self._join()
        return list(self.episodes).index(world)

    def known(self, at: IntArray, steps: IntArray, drawn_std: FloatArray) -> Before:
        """What is known before the next round of worlds `at` (n,); drawn_std (n, K) is not that of the recording."""
        found = self.before.select(self.first[at] + at + steps)  # each world has one more of these than steps
        return Before(found.snr_per_w, found.required_std, drawn_std, found.scale, found.budget_left, found.progress)

    def _join(self) -> None:
        whole = list(self.episodes.values())
        self.rounds, self.before = Rounds.stack([e.rounds for e in whole]), Before.join([e.before for e in whole])
        self.sends, self.silent, self.played = (
            np.concatenate([getattr(e, name) for e in whole]) for name in ("sends", "silent", "played")
        )
        self.length = np.array([len(e) for e in whole])
        self.first = np.cumsum(self.length) - self.length
        self.stopped = np.array([e.stopped for e in whole])
        self.max_power_w = whole[0].max_power_w


def _own_seeds(seed: int | Sequence[int | None] | None, n: int) -> list[int | None]:
    """The seed of each of n environments: s, s + 1, ... of one seed s, a list as it is, None where none is given.

    Raises
    ------
    ValueError : no integers that are 0 or more, or another number of them.
    """
    seeds: list[Any] = [None] * n
    if isinstance(seed, int | np.integer) and not isinstance(seed, bool):
        seeds = [int(seed) + i for i in range(n)]
    elif isinstance(seed, Sequence | np.ndarray) and not isinstance(seed, str | bytes):
        seeds = list(seed)
    elif seed is not None:
        raise ValueError(f"reset: seed {seed!r:.40} is no integer; give one, 0 or more, or a list of {n}")
    if len(seeds) != n:
        raise ValueError(f"reset: {len(seeds)} seeds; give one, or {n}")
    for own in seeds:
        if own is not None and (isinstance(own, bool) or not isinstance(own, int | np.integer) or own < 0):
            raise ValueError(f"reset: seed {own!r:.40}; give integers, 0 or more")
    return [None if own is None else int(own) for own in seeds]


def _checked_actions(actions: Any, shape: tuple[int, int], over: BoolArray) -> FloatArray:
    """Actions (n, K) as numbers of our own; those of environments that begin anew (`over`) are not looked at.

    Raises
    ------
    ValueError : no numbers, another shape, numbers outside of [-1, 1].
    """
    try:
        action = np.array(actions, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"actions: not numbers; give one row for each environment, shape {shape}") from None
    if action.shape != shape:
        raise ValueError(f"actions: shape {action.shape}; give one row for each environment, shape {shape}")
    if not (np.abs(action) <= END).all():
        for own in action[~over]:
            checked_action(own, shape[1])
        action[over] = 0.0
    return action
