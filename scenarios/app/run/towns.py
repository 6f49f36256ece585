"""Made-up towns: before a run, attacks that learn play whole runs of its setting with seeds of
their own.

What a town teaches is kept, under the setting without the seed of the study: all seeds of a setting
share it. A town is played by one process at a time; others play other towns meanwhile.
"""

import fcntl
import hashlib
import os
from collections.abc import Generator
from contextlib import contextmanager
from itertools import count, islice
from pathlib import Path

import numpy as np

from fl.attacks.base import Attack, MadeUpTown
from fl.leakage.leakage import Leakage
from fl.references import References
from fl.round.final import build_last_facts
from netsim import __version__, compiled
from netsim.checkpoint import load_tree, save_tree, to_tree
from netsim.compiled import compute_code_digest
from netsim.errors import BadInput
from netsim.rng import Streams
from netsim.safe import (
    OURS_MOST_BYTES,
    describe_file_kind,
    keep_lock,
    open_own_file,
    read_content,
)
from scenarios.app.run.events import Event, Watch, ignore_event
from scenarios.app.run.how import create_scratch_folder, use_one_thread
from scenarios.app.run.job import digest_inputs
from scenarios.app.run.runner import build_run_job
from scenarios.app.run.setup import check_towns
from scenarios.app.run.simulate import LearningPlay, PlannedStudy
from scenarios.app.study import Value
from scenarios.app.study.study import Study, to_study_yaml

FIRST_SEED = 9_000_001
"""of made-up towns: public, and none of them that of the study"""
_LESSON = "lesson.npz"
_LOCK = "lock"
_FORMAT = 1
_UNSCORED = Leakage(
    directions=4, max_points=100, random_baseline_draws=1, every_rounds=1_000_000, belief_ues=0
)
_NO_REFERENCES = References(neighbours=None, path_loss=False, kriging_samples=0, central=False)


def teach_attacks(study: Study, cache: Path, watch: Watch = ignore_event) -> Study:
    """Return the study with all attacks that learn on made-up towns taught; as it is without any.

    Towns that the cache does not hold are played. Raises BadInput: the seed draws no other town.
    """
    learning = study.learned
    if not any(attack.n_towns for attack in learning.attacks):
        return study
    check_towns(study)
    attacks = tuple(
        _teach_attack(study, attack, cache, watch) if attack.n_towns else attack
        for attack in learning.attacks
    )
    return study.model_copy(update={"learning": learning.model_copy(update={"attacks": attacks})})


def _teach_attack(study: Study, attack: Attack, cache: Path, watch: Watch) -> Attack:
    seeds = islice((seed for seed in count(FIRST_SEED) if seed != study.seed), attack.n_towns)
    towns = [make_up_town(study, attack, seed) for seed in seeds]
    folders = [cache / _digest_town(town) for town in towns]
    n_missing = sum(not describe_file_kind(folder / _LESSON) for folder in folders)
    if n_missing:
        compiled.tell(
            f"netsim: {attack.label} learns on {len(towns)} made-up towns; playing {n_missing}, "
            f"this once, each as long as this run; what they teach is kept in {cache}"
        )
    try:
        for waits in (False, True):  # first those that no other process plays
            for k, (town, folder) in enumerate(zip(towns, folders, strict=True), 1):
                part = f"town {k} of {len(towns)}"
                _keep_lesson(town, folder, _name_part(watch, part), waits)
        digests = [_digest_lesson(folder / _LESSON) for folder in folders]
    except OSError as error:
        raise BadInput(
            f"{cache}: lessons of made-up towns cannot be kept there ({error.strerror}); "
            "set XDG_CACHE_HOME to a folder that can be written"
        ) from None
    return attack.learn([_load_lesson(folder) for folder in folders]).mark_lessons(digests)


def make_up_town(study: Study, attack: Attack, seed: int) -> Study:
    """Return a study of the same setting with this seed and this attack alone, and without what it
    does not read.
    """
    # a name changes neither a view nor a lesson
    alone = attack.model_copy(update={"name": None}).mark_lessons(())
    unread = {
        "attacks": (alone,),
        "membership": None,
        "audit": None,
        "references": _NO_REFERENCES,
        "leakage": _UNSCORED,
    }
    return study.model_copy(
        update={
            "title": "a made-up town",
            "paper": None,
            "seed": seed,
            "learning": study.learned.model_copy(update=unread),
            **dict.fromkeys(("plan", "vary", "train")),
        }
    )


def _digest_town(town: Study) -> str:
    """Return a digest of the text of a town, of the code that plays it, its attack's included, and
    of the files that it reads.
    """
    package = type(town.learned.attacks[0]).__module__.partition(".")[0]
    code = compute_code_digest("netsim", "fl", "scenarios", package)
    inputs = sorted(digest_inputs(town).items())
    spec = f"{__version__} {_FORMAT} {code} {inputs}\n{to_study_yaml(town)}"
    return hashlib.sha256(spec.encode()).hexdigest()[:16]


def _name_part(watch: Watch, part: str) -> Watch:
    """Return a watch that says of steps to what part they belong; the run itself is still to
    come.
    """

    def show_step(event: Event) -> None:
        watch(event._replace(part=part, last=False))

    return show_step


def _keep_lesson(town: Study, folder: Path, watch: Watch, waits: bool) -> None:
    """Play a town into its folder where that has no lesson; unless it waits, not where another
    process does so.
    """
    path = folder / _LESSON
    if describe_file_kind(path):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with _lock_lesson(folder, waits) as is_held:
        if not is_held or describe_file_kind(path):
            return
        with keep_lock(), create_scratch_folder("town-", folder) as place, use_one_thread():
            save_tree(path, to_tree(_play_town(town, place / "run", watch)))


@contextmanager
def _lock_lesson(folder: Path, waits: bool) -> Generator[bool]:
    """Lock a folder against other processes; yields whether it is. waits : until it is."""
    with os.fdopen(open_own_file(folder / _LOCK, create=True)) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waits:
                compiled.tell(f"netsim: {folder}: another process plays this town; waiting for it")
                fcntl.flock(file, fcntl.LOCK_EX)
            yield waits
            return
        yield True


def _play_town(town: Study, folder: Path, watch: Watch) -> Value:
    """Return what a town teaches its attack, which has seen it under the names of its view."""
    played = LearningPlay(build_run_job(town, folder), town, PlannedStudy(town, {}), watch)
    played.play()
    state = played.memory.state
    attack = town.learned.attacks[0]
    owner = state.parts["names"].owner
    places = played.world.places
    facts = build_last_facts(played.setup, state, played.world)
    lived = MadeUpTown(facts, np.arange(len(owner)), places.home_m[owner], places.work_m[owner])
    rng = Streams(town.seed).derive_rng(f"{attack.word}.lesson")
    return attack.take_lesson(state.parts[attack.word], lived, rng)


def _load_lesson(folder: Path) -> Value:
    try:
        return load_tree(folder / _LESSON)
    except ValueError as error:
        raise BadInput(f"{error}; delete {folder}, and its town is played again") from None


def _digest_lesson(path: Path) -> str:
    return hashlib.sha256(read_content(path, OURS_MOST_BYTES, is_ours=True)).hexdigest()[:16]
