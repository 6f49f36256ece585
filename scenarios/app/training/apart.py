"""Trainings of several seeds side by side: each is a piece of work for an engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from scenarios.app.results.failures import Failed
from scenarios.app.results.folder import STUDY, no_links
from scenarios.app.results.training_folder import TRAINING
from scenarios.app.run.events import Watch
from scenarios.app.run.executors.executor import Engine, play_all
from scenarios.app.run.how import USUAL, How
from scenarios.app.run.job import Job, JobKind
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.error_messages import build
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import read_text
from scenarios.app.training.train import FILES, admitted, finished, train

Tell = Callable[[int, int, int, Failed | None], None]
"""told of a training that ended: how many did, of how many, its seed, and why it failed, if it did"""


def train_apart(
    study: Study,
    seeds: Sequence[int],
    out: Path,
    tell: Tell,
    engine: Engine,
    jobs: int,
    cache: Path | None = None,
    replace: bool = False,
    limits: How = USUAL,
) -> None:
    """Train once for each seed, `jobs` at a time, into `out/seed-N`; the bytes are those of one after another.

    A training that fails stays open, and is listed in failures.csv; all others are made. Each records the rounds that
    it needs by itself, which trainings one after another share. limits : of the memory of each.
    """
    folders = [out / f"seed-{seed}" for seed in seeds]
    plain, texts = admitted(study, seeds, folders, replace)
    no_links(out, [folder.name for folder in folders])
    open_ = [k for k in range(len(seeds)) if not finished(folders[k], texts[k])]
    works = [
        Job(
            APART, study_yaml(plain), seeds[k], {}, folders[k], "training", replace, (), {"cache": cache, "how": limits}
        )
        for k in open_
    ]
    ended = len(seeds) - len(open_)

    def told(i: int, end: Any) -> None:
        nonlocal ended
        ended += 1
        tell(ended, len(seeds), seeds[open_[i]], end if isinstance(end, Failed) else None)

    if works:
        engine.check()
    play_all(works, engine, jobs, out, told)


def _one(job: Job, watch: Watch) -> dict[str, Any]:
    """One training, in any process."""
    study, how = build(Study, read_text(job.spec, str(job.folder / STUDY))), job.options
    return train(study, [job.seed], job.folder, lambda now: None, how["cache"], replace=job.replace, limits=how["how"])[
        0
    ]


APART = JobKind("training", FILES, TRAINING, _one)
