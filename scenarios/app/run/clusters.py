"""Jobs on clusters: Ray, and job arrays of Slurm by submitit. All machines see the folder of the
work.
"""

import logging
import os
import shutil
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Self

from netsim import __version__
from netsim.errors import BadInput
from scenarios.app.run.events import RETRIES
from scenarios.app.run.executor import (
    BAD_INPUT,
    Executor,
    Failure,
    Jobs,
    Outcome,
    attempt_job,
    build_lost_failure,
    to_failure,
)
from scenarios.app.run.how import create_scratch_folder
from scenarios.app.run.job import Job
from scenarios.app.study import Fields, Record, Value

STORE_BYTES = 100 * 2**20  # of Ray's object store, in which only answers lie
_CONNECT_S = 5.0
_MAX_TASKS = 100_000  # that wait in a cluster
_CALM_S = 20.0  # that runs have to keep a checkpoint when they are cancelled


@dataclass(frozen=True)
class OnRay:
    """A Ray cluster. address : `auto`, or HOST:PORT of its head; empty: one on this machine, for as
    long as we work.
    """

    address: str = ""
    retries: int = RETRIES

    def check(self) -> None:
        """Refuse to play without Ray, or where no cluster answers at the address."""
        if find_spec("ray") is None:
            raise BadInput(
                "--on ray: Ray is not installed; pip install 'netsim-fl[ray]', or use "
                "--on processes"
            )
        if self.address:
            with self.make_executor(1, Path()):
                pass

    def count_jobs_sharing_memory(self, at_once: int) -> int:
        if self.address:
            return 1
        return at_once or os.cpu_count() or 1

    def make_executor(self, at_once: int, place: Path) -> Executor[Value]:
        return RayCluster(at_once, place, self)


class RayCluster(Executor[Value]):
    """Each job is a task of one CPU."""

    def __init__(self, at_once: int, place: Path, engine: OnRay) -> None:
        super().__init__(at_once or _MAX_TASKS, engine.retries)
        self._place = place.resolve()
        self._address = engine.address
        self._cpus = at_once or os.cpu_count() or 1

    def __enter__(self) -> Self:
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
        options: Fields = {}
        if not self._address:
            options = {
                "num_cpus": self._cpus,
                "object_store_memory": STORE_BYTES,
                "include_dashboard": False,
            }
            # its workers find the modules of this process
            os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
            os.environ.setdefault("RAY_AUTH_MODE", "token")
            # other users of the machine have no access
            os.environ.setdefault("RAY_AUTH_TOKEN", token_hex(32))
        import ray

        on_term = signal.getsignal(signal.SIGTERM)
        host, colon, port = self._address.rpartition(":")
        try:
            if colon:  # Ray ends this process where the head does not answer
                socket.create_connection((host, int(port)), _CONNECT_S).close()
            ray.init(
                address=self._address or "local",
                logging_level=logging.ERROR,
                log_to_driver=False,
                **options,
            )
        except Exception as error:
            cluster = self._address or "a new cluster"
            reason = to_failure(error).line
            raise BadInput(
                f"--on ray: no connection to {cluster} ({reason}); is `ray start --head` running "
                "there?"
            ) from None
        # the handler of Ray would end the runs with the cluster
        signal.signal(signal.SIGTERM, on_term)
        self._task = ray.remote(num_cpus=1, max_retries=0, retry_exceptions=False)(attempt_remotely)
        return self

    def start(self, jobs: Jobs) -> Sequence[Value]:
        return [self._task.remote(job, self._place, __version__) for job in jobs]

    def is_done(self, handle: Value) -> bool:
        import ray

        return bool(ray.wait([handle], timeout=0)[0])

    def read_outcome(self, handle: Value) -> Outcome:
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            return ray.get(handle)
        except RayTaskError as error:  # not of the job: its machine cannot read it
            return Failure(
                "RayTaskError", str(error).strip().splitlines()[-1], str(error), again=False
            )
        except RayError as error:
            return build_lost_failure(f"its process or machine is gone ({type(error).__name__})")

    def close(self, interrupted: bool) -> None:
        import ray

        tasks = [task for _, task in self.under_way]
        if interrupted and tasks:
            with suppress(Exception):
                for task in tasks:
                    ray.cancel(task)
                ray.wait(tasks, num_returns=len(tasks), timeout=_CALM_S)
        ray.shutdown()


def attempt_remotely(job: Job, shared_folder: Path, caller_version: str) -> Outcome:
    """Return the outcome of a job that is done on a machine of the cluster.

    A Failure where that machine has another version of netsim, or does not see `shared_folder`,
    the folder of all jobs.
    """
    host = os.uname().nodename
    line = ""
    if caller_version != __version__:
        line = (
            f"{host} has netsim {__version__}, and this is {caller_version}; install the same "
            f"everywhere"
        )
    elif not shared_folder.is_dir():
        line = (
            f"{host} does not see {shared_folder}; give --out a folder that all machines of the "
            f"cluster share"
        )
    if line:
        return Failure(BAD_INPUT, line, f"{line}\n", again=False)
    return attempt_job(job)


SLURM_OPTIONS: Mapping[str, type] = {
    "timeout_min": int,
    "mem_gb": float,
    "cpus_per_task": int,
    "slurm_partition": str,
    "slurm_account": str,
    "slurm_qos": str,
    "slurm_constraint": str,
    "slurm_exclude": str,
    "slurm_nodelist": str,
    "slurm_comment": str,
    "slurm_mail_type": str,
    "slurm_mail_user": str,
    "slurm_signal_delay_s": int,
    "slurm_use_srun": bool,
    "slurm_max_num_timeout": int,
}
"""parameters of submitit that a user may give, with their types"""
_USUAL = {"name": "netsim", "timeout_min": 240, "cpus_per_task": 1}
_OF_EXECUTOR = "slurm_max_num_timeout"  # which submitit takes earlier than the others
_MAX_TIMEOUTS = 20  # after which a run is not queued again, by default
_MAX_ARRAY = 1000  # tasks of an array: the usual limit of Slurm
HIDDEN = ".slurm"
"""folder of submitit's files, in the folder of all jobs while they are played"""


@dataclass(frozen=True)
class OnSlurm:
    """Slurm. options : some of SLURM_OPTIONS."""

    options: Record = field(default_factory=dict)
    retries: int = RETRIES

    def check(self) -> None:
        """Refuse to play without submitit or Slurm, or with parameters that submitit does not
        take.
        """
        if find_spec("submitit") is None:
            raise BadInput(
                "--on slurm: submitit is not installed; pip install 'netsim-fl[slurm]', "
                "or leave --on out"
            )
        with create_scratch_folder("netsim-slurm-") as place, self.make_executor(0, place):
            pass

    def count_jobs_sharing_memory(self, at_once: int) -> int:
        return 1

    def make_executor(self, at_once: int, place: Path) -> Executor[Value]:
        return SlurmJobs(
            {**_USUAL, **self.options, **({"slurm_array_parallelism": at_once} if at_once else {})},
            place,
            self.retries,
        )


class SlurmJobs(Executor[Value]):
    """One array at a time; jobs that were lost are in the next one."""

    in_arrays = True

    def __init__(self, options: Fields, place: Path, retries: int) -> None:
        super().__init__(_MAX_ARRAY, retries)
        self._folder = place.resolve() / HIDDEN / token_hex(8)
        self._options = options
        self._lost = False

    def __enter__(self) -> Self:
        import submitit

        self._folder.mkdir(parents=True, mode=0o700)
        timeouts = self._options.pop(_OF_EXECUTOR, _MAX_TIMEOUTS)
        try:
            self._executor = submitit.AutoExecutor(
                self._folder, cluster="slurm", slurm_max_num_timeout=timeouts
            )
            self._executor.update_parameters(**self._options)
        except RuntimeError as error:
            self.close(interrupted=True)
            raise BadInput(f"--on slurm: {error}") from None
        return self

    def start(self, jobs: Jobs) -> Sequence[Value]:
        try:
            return list(self._executor.map_array(SlurmTask(), jobs))
        except Exception as error:  # of submitit and sbatch, which have no common type
            self._lost = True
            raise BadInput(
                f"--on slurm: the jobs were not taken ({to_failure(error).line})"
            ) from None

    def is_done(self, handle: Value) -> bool:
        return handle.done()

    def read_outcome(self, handle: Value) -> Outcome:
        try:
            return handle.result()
        except Exception:  # of submitit, or of a result that cannot be read
            self._lost = True
            return build_lost_failure(
                f"job {handle.job_id} ended without an answer; its output is in "
                f"{handle.paths.stderr}"
            )

    def close(self, interrupted: bool) -> None:
        """Cancel what is under way, interrupted or not, and remove the files of submitit, but for
        the output of lost jobs.
        """
        for _, task in self.under_way:
            task.cancel(check=False)
        if not self._lost:
            shutil.rmtree(self._folder, ignore_errors=True)
            with suppress(OSError):  # the output of lost jobs stays
                self._folder.parent.rmdir()


class SlurmTask:
    """What a job does. A job that is preempted, or out of time, is queued again and goes on from
    its checkpoint.
    """

    def __call__(self, work: Job) -> Outcome:
        return attempt_job(work)

    def checkpoint(self, work: Job) -> Value:
        """Return the same again, as submitit asks for it."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, work)
