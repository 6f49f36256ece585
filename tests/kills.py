"""Plays a run, a sweep or a training that is killed again and again; it must end in the bytes of one that is not.

    python tests/kills.py KIND FOLDER FIRST LAST EVERY

Killed before each of these steps on the file system; the same command is then played to its end, with and without
--replace. Every play is a fork of this process, which has everything imported. Prints how many steps there are.
"""

import copy
import json
import os
import shutil
import sys
import traceback
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"
sys.path.insert(0, str(Path(__file__).parent))

import numpy as np
import torch
from conftest import TINY

import rl.train as loop
import scenarios.app.run.play as playing
import scenarios.app.run.runner as runner
import scenarios.app.training.train as training
from scenarios.app.run.sweep import Sweep
from scenarios.app.study.describe import build
from scenarios.app.study.load import load
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import read_text

STEPS = {"open", "os.rename", "os.remove", "os.mkdir", "os.truncate", "fcntl.flock"}
SHORT = copy.deepcopy(TINY)
SHORT["world"] |= {"duration_s": 60, "ues": SHORT["world"]["ues"] | {"count": 1}}


def play(kind, folder, replace=False):
    if kind == "run":
        runner.run(build(Study, read_text(json.dumps(SHORT), "short")), folder, replace=replace)
    elif kind == "radio":
        changes = {"learning": None, "world": {**SHORT["world"], "radio": {"handover": {}}}}
        runner.run(build(Study, read_text(json.dumps(SHORT | changes), "short")), folder, replace=replace)
    elif kind == "sweep":
        text = folder.parent / "sweep.yaml"
        Sweep(text, load(text), folder, 1, {}, lambda *said: None, replace).play()
    else:
        study = load("power/pedestrians", {"train.steps": 60, "train.eval_every": 20})
        training.train(study, [0], folder, lambda seen: None, replace=replace)


class Small:
    """A training that takes a second: two problems of a bound, evaluated by a roll-out."""

    def __init__(self, study, on, cache):
        from power_problems import problem

        self.how, self.problem = study.train, problem()

    def begin(self, seed, board):
        from rl.agents import DdpgTraining
        from rl.env import PowerAllocation

        return DdpgTraining(PowerAllocation([self.problem]), self.how.agent, self.how.steps, seed, board)

    def score(self, weights):
        from rl.policy import forward, layers_of

        layers = layers_of(weights)
        return self.problem.ratio(self.problem.rollout(lambda seen: forward(layers, seen))[-1])

    def save(self, course, seed, folder):
        from power_problems import policy

        from rl.policy import save_policy

        save_policy(policy("online"), folder)

    def evaluated(self, course, evaluations, seed):
        from rl.settings import AGENT
        from scenarios.app.training.evaluate import Evaluation

        cost = {AGENT: course.score, "average": 1.0}
        return [Evaluation(name, case, c + case, 3) for case in (0, 1) for name, c in cost.items()]

    def shown(self, course, rows):
        return None


def tables(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.glob("*.csv"))} | {"": (folder / "summary.json").read_bytes()}


def results(kind, folder):
    if kind in ("run", "radio"):
        return tables(folder)
    if kind == "sweep":
        return {str(p): tables(folder / p) for p in ("as-written/seed-1", "as-written/seed-2")}
    return {name: (folder / name).read_bytes() for name in ("curve.csv", "evaluations.csv", "summary.json")}


def forked(kind, folder, replace=False, kill_at=None):
    """Play in a fork; its exit status, and the number of its steps in the folder."""
    ours, theirs = os.pipe()
    child = os.fork()
    if child:
        os.close(theirs)
        with os.fdopen(ours) as told:
            lines = told.read().split()
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), int(lines[-1]) if lines else 0
    taken, status = 0, 1

    def step(event, args):
        nonlocal taken
        if event not in STEPS:
            return
        if isinstance(args[0], int):  # a descriptor
            where = str(Path(f"/proc/self/fd/{args[0]}").readlink())
        else:
            where = os.fsdecode(args[0])
        if not where.startswith(str(folder)) or (event == "open" and not args[2] & (os.O_WRONLY | os.O_RDWR)):
            return
        if event == "os.remove" and not os.path.lexists(where):
            return  # which changes nothing
        taken += 1
        if taken == kill_at:
            os._exit(137)

    sys.addaudithook(step)
    try:
        play(kind, folder, replace)
        status = 0
    except BaseException:
        traceback.print_exc()
    os.write(theirs, f"{taken}".encode())
    os._exit(status)


def kill_steps(kind, root, expected, steps, first, last, every):
    folder = root / "killed"
    for k in range(first, min(last, steps) + 1, every):
        for replace in (False, True):
            assert forked(kind, folder, kill_at=k)[0] == 137, k
            left = sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) if folder.exists() else []
            assert forked(kind, folder, replace)[0] == 0, (k, replace, left)
            assert results(kind, folder) == expected, (k, replace, left)
            shutil.rmtree(folder)
    print(steps)


def main():
    kind, root, steps_of = sys.argv[1], Path(sys.argv[2]), [int(x) for x in sys.argv[3:]]
    torch.set_num_threads(1)
    np.seterr(all="ignore")
    playing.CHECKPOINT_EVERY_S = loop.SAVE_EVERY_S = 0.0
    training.trainer_of = Small
    (root / "sweep.yaml").write_text(json.dumps(SHORT | {"vary": {"seed": [1, 2]}}))
    play(kind, root / "whole")  # here, so that every fork finds the libraries loaded
    status, steps = forked(kind, root / "again")
    expected = results(kind, root / "whole")
    assert status == 0 and results(kind, root / "again") == expected
    kill_steps(kind, root, expected, steps, *steps_of)


if __name__ == "__main__":
    main()
