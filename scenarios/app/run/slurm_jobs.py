"""Job as job arrays of Slurm, by submitit; all machines see the folder of the work."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from types import TracebackType
from typing import Any, Self

from netsim.errors import BadInput
from scenarios.app.run.events import RETRIES
from scenarios.app.run.executor import HIDDEN, Answer, Executor, Failure, attempt, failure_of, lost
from scenarios.app.run.job import Job
from scenarios.app.scratch import scratch
from scenarios.app.study.yaml_document import one_line

OPTIONS: Mapping[str, type] = {
    "timeout_min": int, "mem_gb": float, "cpus_per_task": int, "slurm_partition": str, "slurm_account": str,
    "slurm_qos": str, "slurm_constraint": str, "slurm_exclude": str, "slurm_nodelist": str, "slurm_comment": str,
    "slurm_mail_type": str, "slurm_mail_user": str, "slurm_signal_delay_s": int, "slurm_use_srun": bool,
    "slurm_max_num_timeout": int,
}  # fmt: skip
"""parameters of submitit that a user may give, with their types"""
_USUAL = {"name": "netsim", "timeout_min": 240, "cpus_per_task": 1}
_OF_EXECUTOR = "slurm_max_num_timeout"  # which submitit takes earlier than the others
_MOST_TIMEOUTS = 20  # after which a run is not queued again, where nobody says
_MOST = 1000  # tasks of an array: the usual limit of Slurm
_LOOK_EVERY_S = 0.5  # between looks


@dataclass(frozen=True)
class OnSlurm:
    """Slurm. options : some of OPTIONS. cluster : `slurm`, or another executor of submitit."""

    options: Mapping[str, Any] = field(default_factory=dict)
    retries: int = RETRIES
    cluster: str = "slurm"

    def check(self) -> None:
        """Refuse to play without submitit or Slurm, or with parameters that submitit does not take."""
        if find_spec("submitit") is None:
            raise BadInput("--on slurm: submitit is not installed; pip install 'netsim-fl[slurm]', or leave --on out")
        with scratch("netsim-slurm-") as place, SlurmJobs([], self, 0, place):
            pass

    def here(self, jobs: int) -> int:
        return 1

    def executor(self, works: Sequence[Job], jobs: int, place: Path) -> Executor:
        return SlurmJobs(works, self, jobs, place)


class SlurmJobs:
    """One array at a time; work that is begun while one is under way, because it was lost, is in the next one."""

    def __init__(self, works: Sequence[Job], engine: OnSlurm, jobs: int, place: Path) -> None:
        self._works, self._engine, self._jobs = works, engine, jobs
        self._folder = place.resolve() / HIDDEN / token_hex(8)
        self._begun: list[int] = []
        self._under_way: dict[int, Any] = {}
        self._lost = False

    def __enter__(self) -> Self:
        import submitit

        self._folder.mkdir(parents=True, mode=0o700)
        options = {**_USUAL, **self._engine.options}
        timeouts = options.pop(_OF_EXECUTOR, _MOST_TIMEOUTS)
        at_once = {"slurm_array_parallelism": self._jobs} if self._jobs else {}
        try:
            self._executor = submitit.AutoExecutor(
                folder=self._folder, cluster=self._engine.cluster, slurm_max_num_timeout=timeouts
            )
            self._executor.update_parameters(**options, **at_once)
        except RuntimeError as error:
            self._forget()
            raise BadInput(one_line(f"--on slurm: {error}")) from None
        return self

    def begin(self, k: int) -> None:
        self._begun.append(k)

    def ended(self) -> tuple[int, Answer | Failure]:
        while True:
            if not self._under_way:
                self._submit()
            for k, job in self._under_way.items():
                if job.done():
                    del self._under_way[k]
                    return k, self._end(job)
            time.sleep(_LOOK_EVERY_S)

    def _submit(self) -> None:
        """Begin an array of what waits."""
        some, self._begun = self._begun[:_MOST], self._begun[_MOST:]
        try:
            jobs = self._executor.map_array(SlurmTask(), [self._works[k] for k in some])
        except Exception as error:  # of submitit and sbatch, which have no common type
            self._lost = True
            raise BadInput(f"--on slurm: the jobs were not taken ({failure_of(error).line})") from None
        self._under_way = dict(zip(some, jobs, strict=True))

    def _end(self, job: Any) -> Answer | Failure:
        """The result of a job; one that ended without is lost."""
        try:
            end: Answer | Failure = job.result()
        except Exception:  # of submitit, or of a result that cannot be read
            self._lost = True
            return lost(f"job {job.job_id} ended without an answer; its output is in {job.paths.stderr}")
        return end

    def _forget(self) -> None:
        """Remove the files of submitit."""
        shutil.rmtree(self._folder, ignore_errors=True)
        if not any(self._folder.parent.iterdir()):
            self._folder.parent.rmdir()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for job in self._under_way.values():
            job.cancel(check=False)
        if not self._lost:
            self._forget()


class SlurmTask:
    """What a job does. A job that is preempted, or out of time, is queued again and goes on from its checkpoint."""

    def __call__(self, work: Job) -> Answer | Failure:
        return attempt(work)

    def checkpoint(self, work: Job) -> Any:
        """The same again, as submitit asks for it."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, work)
