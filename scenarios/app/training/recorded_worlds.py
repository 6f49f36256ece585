"""Many worlds in one process, on recorded rounds: where the radio alone decides what they cost."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from netsim import __version__
from netsim.checkpoint import load_tree, save_tree
from netsim.errors import BadInput
from netsim.safe import what_is
from netsim.tree import from_tree_as, to_tree
from rl import ONLINE
from rl.settings import Online, Train
from scenarios.app.run.job import input_digests
from scenarios.app.scratch import scratch
from scenarios.app.study.study import Study, study_yaml
from scenarios.app.training.environments import (
    DEFAULTS,
    Source,
    Stages,
    fitting,
    n_ues,
    say,
    shared_band,
    study_of,
    task_of,
)

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from rl.recording import Episode

_FORMAT = 1
_MOST_WORLDS = 10_000


def onlines(
    num_envs: int = 1,
    scenario: Source = DEFAULTS[ONLINE],
    cache: str | Path | None = None,
    worlds: int = 48,
) -> VectorEnv:
    """`online` so many times in one process, on rounds that are played once and kept in `cache`: what
    `gymnasium.make_vec` calls. worlds : so many are recorded at most, shared out among the environments.
    """
    from gymnasium.vector import SyncVectorEnv

    from rl.env_recorded import RecordedPower
    from rl.radio_records import air_of
    from scenarios.app.training.ground import unrecorded

    for name, given in (("num_envs", num_envs), ("worlds", worlds)):
        if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= _MOST_WORLDS:
            raise BadInput(f"{name}: {given!r:.40}; take 1 to {_MOST_WORLDS:,}")
    study = shared_band(study_of(scenario))
    task = fitting(study, task_of(study, Online))
    study = study.model_copy(update={"train": study.train or Train(task=task)})
    if (reason := unrecorded(study)) is not None:
        raise BadInput(f"{reason}; change that, or take vectorization_mode='sync', which steps live worlds")
    air = air_of(study.world.radio.uplink, study.round_s)
    record, each = Recordings(study, task, cache), max(worlds // num_envs, 1)
    return SyncVectorEnv([partial(RecordedPower, record, air, n_ues(study), task, each)] * num_envs)


class Recordings:
    """World seed -> its rounds, played once with the fractional rule.

    They are kept under a hash of the study's text, of the code that plays it, and of the content of files it reads.
    """

    def __init__(self, study: Study, task: Online, cache: str | Path | None = None) -> None:
        from netsim.cache import cache_folder, code_digest

        self.folder = cache_folder() if cache is None else Path(cache)
        self.stages, self.n_ue, self.task = Stages(study, watched=False), n_ues(study), task
        alone = study.model_copy(update={"vary": None, "train": None, "plan": None, "seed": 0})
        powers = [task.limits.model_dump(mode="json"), task.bound.model_dump(mode="json")]
        code, files = code_digest("netsim", "fl", "rl", "scenarios"), sorted(input_digests(alone).items())
        self.text = f"{__version__} {_FORMAT} {code} {files}\n{study_yaml(alone)}{json.dumps(powers)}"
        self.said = False
        self.read: dict[int, Episode] = {}

    def __call__(self, world: int) -> Episode:
        """The rounds of a world. BadInput where they cannot be kept, or what is kept is no recording."""
        if world not in self.read:
            self.read[world] = self._found(world)
        return self.read[world]

    def _found(self, world: int) -> Episode:
        """The rounds of a world from its file, which is written first where there is none."""
        name = hashlib.sha256(f"{self.text}\n{world}".encode()).hexdigest()[:16]
        path = self.folder / "rounds" / f"{name}.npz"
        if not what_is(path):
            if not self.said:
                say(f"netsim: recording the rounds of worlds, each once; they are kept in {path.parent}")
                self.said = True
            self._record(world, path)
        return _read(path, self.n_ue)

    def _record(self, world: int, path: Path) -> None:
        from rl.env_online import OnlinePower
        from rl.recording import episode_of
        from rl.rules import untuned
        from scenarios.app.run.how import one_thread
        from scenarios.app.training.ground import FIRST

        with one_thread():
            env = OnlinePower(self.stages, self.n_ue, self.task)
            episode = episode_of(env, untuned(FIRST).power_w, world)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with scratch("world-", path.parent) as place:  # of each process that asks
                save_tree(place / path.name, to_tree(episode))
                (place / path.name).replace(path)
        except OSError as error:
            raise BadInput(
                f"{path.parent}: recorded rounds cannot be kept there ({error.strerror}); give another folder as cache"
            ) from None


def _read(path: Path, n_ue: int) -> Episode:
    from rl.recording import Episode

    try:
        episode = from_tree_as(load_tree(path), Episode)
        episode.check(n_ue)
        return episode
    except ValueError as error:
        said = str(error).removeprefix(f"{path}: ")
        raise BadInput(f"{path}: not recorded rounds ({said}); delete it, and they are recorded again") from None
