"""Made-up towns: before a run, attacks that learn play whole runs of its setting with seeds of
their own.

What a town teaches is kept, under the setting without the seed of the study: all seeds of a setting
share it. A town is played by one process at a time; others play other towns meanwhile.
"""

from functools import partial
from itertools import count, islice
from pathlib import Path

import numpy as np

from fl.attacks.base import Attack, MadeUpTown
from fl.leakage.leakage import Leakage
from fl.references import References
from fl.round.final import build_last_facts
from fl.types import State
from netsim import compiled
from netsim.rng import Streams
from netsim.safe import describe_file_kind
from scenarios.app.run.events import Event, Watch, ignore_event
from scenarios.app.run.kept import find_kept_file, keep_run, load_kept_tree
from scenarios.app.run.simulate import LearningPlay
from scenarios.app.study.study import Study

FIRST_SEED = 9_000_001
"""of made-up towns: public, and none of them that of the study"""
_UNREAD = {
    "membership": None,
    "audit": None,
    "references": References(neighbours=None, path_loss=False, kriging_samples=0, central=False),
    "leakage": Leakage(every_rounds=1_000_000),
}
"""keys of learning that change neither a view nor a lesson, at what costs least"""


def teach_attacks(study: Study, cache: Path, watch: Watch = ignore_event) -> Study:
    """Return the study with all attacks that learn on made-up towns taught; as it is without any.

    Towns whose lessons the cache does not hold are played.
    """
    attacks = study.learned.attacks
    if not any(attack.n_towns for attack in attacks):
        return study
    taught = [
        _teach_attack(study, attack, cache, watch) if attack.n_towns else attack
        for attack in attacks
    ]
    return study.change_learning(attacks=tuple(taught))


def _teach_attack(study: Study, attack: Attack, cache: Path, watch: Watch) -> Attack:
    seeds = islice((seed for seed in count(FIRST_SEED) if seed != study.seed), attack.n_towns)
    towns = [make_up_town(study, attack, seed) for seed in seeds]
    package = type(attack).__module__.partition(".")[0]
    paths = [find_kept_file(cache, "lesson.npz", town, package) for town in towns]
    if n_missing := sum(not describe_file_kind(path) for path in paths):
        compiled.tell(
            f"netsim: {attack.label} learns on {len(towns)} made-up towns; playing {n_missing}, "
            f"this once, each for as long as this run; what they teach is kept in {cache}"
        )
    for waits in (False, True):  # first those that no other process plays
        for k, (town, path) in enumerate(zip(towns, paths, strict=True), 1):
            watch_town = partial(_show_step, watch, f"town {k} of {len(towns)}")
            keep_run(path, town, _take_lesson, watch_town, waits)
    learnt = attack.learn([load_kept_tree(path) for path in paths])
    return learnt.mark_lessons([path.parent.name for path in paths])


def make_up_town(study: Study, attack: Attack, seed: int) -> Study:
    """Return a study of the same setting with this seed and this attack alone, under the name of
    its kind, and without what it does not read.
    """
    alone = attack.model_copy(update={"name": None}).mark_lessons([])
    asked = {"title": "a made-up town", "paper": None, "plan": None, "vary": None, "train": None}
    town = study.model_copy(update={**asked, "seed": seed})
    return town.change_learning(**_UNREAD, attacks=(alone,))


def _show_step(watch: Watch, part: str, event: Event) -> None:
    """Show a step of a part, after which the run itself is still to come."""
    watch(event._replace(part=part, last=False))


def _take_lesson(play: LearningPlay) -> State:
    """Return what a town teaches its attack, which has seen UEs under the names of its view."""
    play.play()
    (attack,) = play.study.learned.attacks
    state = play.memory.state
    owner = state.parts["names"].owner
    places = play.world.places
    facts = build_last_facts(play.setup, state, play.world)
    town = MadeUpTown(facts, np.arange(len(owner)), places.home_m[owner], places.work_m[owner])
    rng = Streams(play.study.seed).derive_rng(f"{attack.word}.lesson")
    return attack.take_lesson(state.parts[attack.word], town, rng)
