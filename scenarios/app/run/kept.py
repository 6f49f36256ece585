"""Runs that others build on: each is played once on a machine, and what is made of it is kept."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from netsim import compiled
from netsim.checkpoint import load_tree, save_tree, to_tree
from netsim.compiled import compute_code_digest
from netsim.contract import BUNDLED
from netsim.errors import BadInput
from netsim.part import collect_nested_parts
from netsim.safe import describe_file_kind, keep_lock
from scenarios.app.results.folder import MANIFEST, lock_folder
from scenarios.app.run.events import Watch, ignore_event
from scenarios.app.run.how import create_scratch_folder, use_one_thread
from scenarios.app.run.job import Job, JobKind, digest_inputs
from scenarios.app.run.simulate import LearningPlay, PlannedStudy
from scenarios.app.study import Value
from scenarios.app.study.study import Study

_FILE = "kept.npz"
UNPLAYED = {"plan": None, "vary": None, "train": None}
"""keys of a study that such a run leaves out"""
# never begun by its kind: what is kept plays it
_ALONE = JobKind("run", (), MANIFEST, lambda *_: None)


def keep_run(
    cache: Path,
    study: Study,
    make: Callable[[LearningPlay], object],
    title: str,
    watch: Watch = ignore_event,
) -> tuple[str, Value]:
    """Return what `make` makes of the run of a study as it stands, as a tree, and its digest: that
    of the study's text, of the code that plays it, and of the content of files that it reads.

    The first time `make` plays the run, in one process; then the cache has what it made.

    title : what a line then says that is played. Raises BadInput: what is kept is damaged.
    """
    modules = {type(part).__module__ for part in collect_nested_parts(study)} - {"__main__"}
    packages = sorted({module.partition(".")[0] for module in modules} | {*BUNDLED})
    job = Job(
        _ALONE,
        study,
        study.seed,
        digest_inputs(study),
        cache,
        notes=[compute_code_digest(*packages)],
    )
    folder = cache / job.key[:16]
    path = folder / _FILE
    if not describe_file_kind(path):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadInput(
                f"{folder}: runs cannot be kept there ({error.strerror}); "
                "set XDG_CACHE_HOME to a folder that can be written"
            ) from None
        # within, since the lock that a command keeps is that of its own folder
        with keep_lock(), lock_folder(folder, "run", bool, lambda: True):
            if not describe_file_kind(path):  # else another process has played it meanwhile
                compiled.tell(f"netsim: playing {title}, this once; it is kept in {folder}")
                with create_scratch_folder("run-", folder) as place, use_one_thread():
                    play = LearningPlay(
                        replace(job, folder=place / "run"),
                        study,
                        PlannedStudy(study, {}),
                        watch,
                    )
                    save_tree(path, to_tree(make(play)))
    try:
        return folder.name, load_tree(path)
    except ValueError as error:
        raise BadInput(f"{folder}: {error}; delete it, and the run is made again") from None
