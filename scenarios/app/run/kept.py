"""Runs that others build on: each is played once on a machine, and what is made of it is kept."""

import fcntl
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from netsim import __version__
from netsim.checkpoint import load_tree, save_tree, to_tree
from netsim.compiled import compute_code_digest
from netsim.errors import BadInput
from netsim.safe import describe_file_kind, keep_lock, open_own_file
from scenarios.app.results.folder import MANIFEST, RESULTS, STUDY
from scenarios.app.run.events import Watch, ignore_event
from scenarios.app.run.how import create_scratch_folder, use_one_thread
from scenarios.app.run.job import Job, JobKind, digest_inputs
from scenarios.app.run.simulate import LearningPlay, PlannedStudy
from scenarios.app.study import Value
from scenarios.app.study.study import Study, to_study_yaml

_FORMAT = 2
_LOCK = "lock"
_OPTIONS = {"command": ""}
# never begun by its kind: what is kept plays it
_ALONE = JobKind("run", (STUDY, *RESULTS), MANIFEST, lambda *_: None)


def find_kept_file(cache: Path, name: str, study: Study, *packages: str) -> Path:
    """Return where a file made of a study's run is kept: in a folder that is named by a digest of
    the study's text, of the code that plays it, and of the content of files that it reads.

    packages : of code besides that of this program.
    """
    code = compute_code_digest("netsim", "fl", "scenarios", *packages)
    inputs = sorted(digest_inputs(study).items())
    spec = f"{__version__} {_FORMAT} {code} {inputs}\n{to_study_yaml(study)}"
    return cache / hashlib.sha256(spec.encode()).hexdigest()[:16] / name


def keep_run(
    path: Path,
    study: Study,
    make: Callable[[LearningPlay], object],
    watch: Watch = ignore_event,
    waits: bool = True,
) -> None:
    """Keep what `make` makes of a study as it stands as a tree, unless the file is there; `make`
    plays it.

    waits : for another process that does the same; else what that one makes is left to it.
    """
    folder = path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with os.fdopen(open_own_file(folder / _LOCK, create=True)) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
            except BlockingIOError:
                return
            if describe_file_kind(path):
                return
            # the lock of a command is that of its own folder
            with keep_lock(), create_scratch_folder("run-", folder) as place, use_one_thread():
                job = Job(
                    _ALONE, study, study.seed, digest_inputs(study), place / "run", options=_OPTIONS
                )
                play = LearningPlay(job, study, PlannedStudy(study, {}), watch)
                save_tree(path, to_tree(make(play)))
    except OSError as error:
        raise BadInput(
            f"{folder}: runs cannot be kept there ({error.strerror}); "
            "set XDG_CACHE_HOME to a folder that can be written"
        ) from None


def load_kept_tree(path: Path) -> Value:
    """Return the tree of a file that is kept. Raises BadInput: it is damaged."""
    try:
        return load_tree(path)
    except ValueError as error:
        raise BadInput(f"{error}; delete {path.parent}, and the run is made again") from None
