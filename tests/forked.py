"""Work in processes that find libraries imported: forks of one that has read no study yet.

A process of its own takes seconds to import them; a fork of this one would know no plug-in that is
added, since its studies were read before."""

import os
import sys
import tempfile
from copy import copy
from multiprocessing import get_context
from pathlib import Path
from subprocess import CompletedProcess

from scenarios.app.cli.commands import main
from scenarios.app.run import executor

ROOT = Path(__file__).parents[1]
FORKS = get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "pytest",
        "torch",
        "pandas",
        "scipy.stats",
        "scipy.optimize",
        "plotly.graph_objects",
        "matplotlib.backends.backend_svg",
        "matplotlib.figure",
        "numba",
        "scenarios.app.cli.play",
        "scenarios.app.cli.assess",
        "scenarios.app.report.report",
        "scenarios.app.run.simulate",
        "scenarios.app.training.train",
    ]
)


class Fork(FORKS.Process):
    """A fork in the environment of its parent of now, not in that of the first fork."""

    def __init__(self, *values, **named):
        super().__init__(*values, **named)
        self.environment = dict(os.environ)

    def run(self):
        os.environ.clear()
        os.environ.update(self.environment)
        super().run()


WORKERS = copy(FORKS)
WORKERS.Process = Fork
"""starts processes of sweeps in place of `spawn`, each of which would import for seconds"""


def fork_on_terminal(terminal, words, environment):
    """Start a command on a terminal, given by its path; returns the process."""
    process = Fork(target=_act_on_terminal, args=(terminal, words, environment))
    process.start()
    return process


def _act_on_terminal(terminal, words, environment):
    os.setsid()
    for number in range(3):
        os.dup2(os.open(terminal, os.O_RDWR), number)
    os.environ.update(environment)
    sys.exit(main(words))


def fork_work(folder, work, *values):
    """Call a function in a folder, whose modules and plug-ins it finds: what it returns is the exit
    code, beside stdout and stderr."""
    with tempfile.TemporaryDirectory() as place:
        paths = [Path(place, name) for name in ("out", "errors")]
        told = (str(folder), work, values, paths, dict(os.environ))
        process = FORKS.Process(target=_act, args=told)
        process.start()
        process.join()
        return CompletedProcess(values, process.exitcode, *(path.read_text() for path in paths))


def _act(folder, work, values, paths, environment):
    """In the fork: the work, then the end."""
    for number, path in enumerate(paths, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment, PYTHONPATH=os.pathsep.join([folder, str(ROOT)]))
    os.chdir(folder)
    sys.path.insert(0, folder)
    sys.exit(work(*values) or 0)


def fork_sweep(folder, *words):
    """Play a command in a folder, whose workers are forks of that fork."""
    return fork_work(folder, _sweep, [str(word) for word in words])


def _sweep(words):
    executor.get_context = lambda method: get_context("fork")
    return main(words)


def fork_command(folder, *words):
    """Play a command in a folder, which finds the plug-ins there."""
    return fork_work(folder, main, [str(word) for word in words])
