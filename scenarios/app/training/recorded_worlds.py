"""Many live worlds in one process: on recorded rounds where the radio alone decides what they cost, else in turn."""

from __future__ import annotations

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

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
    online,
    say,
    shared_band,
    study_of,
    task_of,
)

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from rl.recording import Episode

How = Literal["recorded", "live"]
_FORMAT = 1
_WORLDS, _MOST_WORLDS = 48, 10_000


def onlines(
    num_envs: int = 1,
    scenario: Source = DEFAULTS[ONLINE],
    cache: str | Path | None = None,
    rounds: How | None = None,
    worlds: int | None = None,
) -> VectorEnv:
    """`online` so many times in one process: what `gymnasium.make_vec` calls.

    rounds : `recorded`, whose worlds are played once and kept in `cache`; `live`; none, recorded where that can be.
    worlds : so many are recorded at most, shared out among the environments; none, 48. Live worlds are never kept.
    """
    from gymnasium.vector import SyncVectorEnv

    from scenarios.app.training.ground import unrecorded

    if rounds not in (None, "recorded", "live"):
        raise BadInput(f"rounds: {rounds!r} is not known; take 'recorded' or 'live'")
    if worlds is not None and (isinstance(worlds, bool) or not isinstance(worlds, int)):
        raise BadInput(f"worlds: {worlds!r:.40} is no integer; take 1 to {_MOST_WORLDS:,}")
    if worlds is not None and not 1 <= worlds <= _MOST_WORLDS:
        raise BadInput(f"worlds: {worlds}; take 1 to {_MOST_WORLDS:,}")
    study = shared_band(study_of(scenario))
    task = fitting(study, task_of(study, Online))
    study = study.model_copy(update={"train": study.train or Train(task=task)})
    reason = unrecorded(study)
    if rounds == "recorded" and reason is not None:
        raise BadInput(f"{reason}; change that, or take rounds='live'")
    if rounds == "live" or reason is not None:
        if num_envs < 1:
            raise ValueError(f"num_envs: {num_envs}; take 1 or more")
        if worlds is not None:
            why = "rounds='live' was asked for" if rounds == "live" else reason
            raise BadInput(f"worlds: are recorded rounds, and {why}; leave worlds out")
        return SyncVectorEnv([partial(online, study)] * num_envs)
    from rl.env_onlines import OnlinePowers
    from rl.radio_records import air_of

    air = air_of(study.world.radio.uplink, study.round_s)
    return OnlinePowers(Recordings(study, task, cache), air, n_ues(study), task, num_envs, worlds or _WORLDS)


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

    def __call__(self, world: int) -> Episode:
        """The rounds of a world. BadInput where they cannot be kept, or what is kept is no recording."""
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
