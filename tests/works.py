"""Pieces of work for the tests of executors: other processes find them by their names."""

import os
import signal
import time

from netsim.errors import BadInput
from netsim.record import write_json
from scenarios.app.results.folder import MANIFEST, RESULTS, SUMMARY, lock_folder
from scenarios.app.run.job import Job, JobKind
from scenarios.app.study.load import load


def called(job, watch):
    return job.options["call"](job.folder, *job.options["arguments"])


KIND = JobKind("run", RESULTS, MANIFEST, called)
STUDY = load("campus")  # of no work: every job has one


def work(call, folder, *arguments, label="work", seed=1):
    return Job(KIND, STUDY, seed, {}, folder, label, options={"call": call, "arguments": arguments})


def by_place(played, jobs):
    """What became of jobs, by their place in a list."""
    return {jobs.index(job): end for job, end in played}


def squared(folder, number):
    """What good work does: it holds its folder, writes a summary, answers with plain data."""
    summary = {"square": number * number}
    with lock_folder(folder, "run", lambda: None):
        write_json(folder / SUMMARY, summary)
    return summary


def broken(folder):
    raise RuntimeError("it broke\nin two lines")


def refused(folder):
    tried(folder)
    raise BadInput("file.csv: not good", "and more")


def tried(folder):
    """Counts attempts beside the folder; how many there were before."""
    counter = folder.with_name(f"{folder.name}.tried")
    before = int(counter.read_text()) if counter.exists() else 0
    counter.write_text(str(before + 1))
    return before


def killed(folder, times, number):
    """Its process is killed that many times, and then it is good work."""
    if tried(folder) < times:
        os.kill(os.getpid(), signal.SIGKILL)
    return squared(folder, number)


def unwritable(folder, times, number):
    """The disk is full that many times."""
    if tried(folder) < times:
        raise OSError(28, "No space left on device")
    return squared(folder, number)


def waiting(folder, until, save_s=0.0):
    """Waits for a file; interrupted, it takes so long to say so beside its folder."""
    tried(folder)
    try:
        while not until.exists():
            time.sleep(0.05)
    except KeyboardInterrupt:
        time.sleep(save_s)
        folder.with_name(f"{folder.name}.interrupted").touch()
        raise
    return squared(folder, 1)


def awaited(path, seconds=60):
    """Wait for a file."""
    until = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < until, path
        time.sleep(0.05)
