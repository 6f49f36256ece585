"""Made-up towns: before a run, attacks that learn play whole runs of its setting with seeds of
their own.

What a town teaches is kept, under the setting without the seed of the study: all seeds of a setting
share it. A town is played by one process at a time; others play other towns meanwhile.
"""

from pathlib import Path

import numpy as np

from fl.attacks.base import Attack, MadeUpTown
from fl.leakage.leakage import Leakage
from fl.references import References
from fl.round.final import build_last_facts
from fl.types import State
from scenarios.app.run.events import Watch, ignore_event
from scenarios.app.run.kept import UNPLAYED, keep_run
from scenarios.app.run.simulate import LearningPlay
from scenarios.app.study.study import Study

FIRST_SEED = 9_000_001
"""of made-up towns; 1 where the study's own is as large, so that no town is that of the study"""
_UNREAD = {
    "membership": None,
    "audit": None,
    "references": References(kriging_samples=0, central=False),
    "leakage": Leakage(every_rounds=1_000_000),
}
"""keys of learning that change neither a view nor a lesson, at what costs least"""


def teach_attacks(study: Study, cache: Path, watch: Watch = ignore_event) -> Study:
    """Return the study with all attacks that learn on made-up towns taught; as it is without any.

    Towns whose lessons the cache does not hold are played.
    """
    return study.change_learning(
        attacks=tuple(
            _teach_attack(study, attack, cache, watch) if attack.n_towns else attack
            for attack in study.learned.attacks
        )
    )


def _teach_attack(study: Study, attack: Attack, cache: Path, watch: Watch) -> Attack:
    # alone under the name of its kind, and without what it does not read
    alone = attack.change("name", None).mark_lessons([])
    setting = study.model_copy(update=UNPLAYED).change_learning(
        **_UNREAD, attacks=(alone,), learner=study.learned.learner.trained
    )
    first = FIRST_SEED if study.seed < FIRST_SEED else 1
    kept = []
    # two runs of a sweep, with seeds that follow each other, begin at both ends
    direction = (-1) ** study.seed
    for k in range(attack.n_towns)[::direction]:
        part = f"town {k + 1} of {attack.n_towns}"
        title = f"made-up {part} for {attack.label}, which takes as long as a run"
        town = setting.change("seed", first + k)
        # after the last step of a town the run itself is still to come
        show = lambda event, part=part: watch(event._replace(part=part, last=False))  # noqa: E731
        kept.append(keep_run(cache, town, _take_lesson, title, show))
    digests, lessons = zip(*kept[::direction], strict=True)
    return attack.learn(lessons).mark_lessons(digests)


def _take_lesson(play: LearningPlay) -> State:
    """Return what a town teaches its attack, which has seen UEs under the names of its view."""
    play.play()
    (attack,) = play.study.learned.attacks
    state = play.memory.state
    owner = state.parts["names"].owner
    places = play.world.places
    facts = build_last_facts(play.setup, state, play.world, play.world.env.now)
    town = MadeUpTown(facts, np.arange(len(owner)), places.home_m[owner], places.work_m[owner])
    rng = play.setup.streams.derive_rng(f"{attack.word}.lesson")
    return attack.take_lesson(state.parts[attack.word], town, rng)
