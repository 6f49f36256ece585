"""Search of an agent's hyper-parameters on the evaluation worlds: each trial trains once, weak ones end early.

Trials are suggested by a tree-structured Parzen estimator and ended by the median rule, both of Optuna. A trial hangs
on the finished ones before it and on the seed alone, so an interrupted search ends with the same hyper-parameters.
Held-out worlds are never played.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from netsim import __version__
from netsim.record import write_text
from netsim.safe import what_is
from rl.agents import Agent
from rl.settings import Train
from scenarios.app.results.folder import CHECKPOINT, STUDY, is_text, ours
from scenarios.app.results.marker import check_files, held
from scenarios.app.run.inputs import admit_text, read_lines
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.study import Study
from scenarios.app.training import on_radio, recorded_training
from scenarios.app.training.environments import fitting
from scenarios.app.training.hyperparameters import hyperparameters_yaml
from scenarios.app.training.recordable import settings
from scenarios.app.training.search_space import chosen, searchable
from scenarios.app.tuning.journal import finished, opened, required, suggested_by

if TYPE_CHECKING:
    import optuna

    from rl.train import CurvePoint

TRIALS, FOUND = "trials.log", "hyperparameters.yaml"
_FILES = (STUDY, TRIALS, f"{TRIALS}.lock", FOUND, CHECKPOINT)


@dataclass(frozen=True)
class Tried:
    """A trial that is finished: how many of how many."""

    done: int
    of: int


@dataclass(frozen=True)
class Found:
    """The best agent, its cost on the evaluation worlds, and the trials: finished, and ended early among them."""

    agent: Agent
    cost: float
    trials: int
    pruned: int


def search(
    study: Study, name: str, trials: int, seed: int, out: Path, watch: Callable[[Tried | on_radio.Recorded], None],
    replace: bool = False,
) -> Found:  # fmt: skip
    """Search until so many trials are finished, those of an interrupted search among them, and write `FOUND`.

    name : of the scenario, as the file of hyper-parameters has it.
    """
    from scenarios.app.run.threads import one_thread

    required("--search")
    plain = study.model_copy(update={"vary": None, "train": study.train or Train()})
    searchable((plain.train or Train()).agent)
    how, task = settings(plain)
    fitting(plain, task)
    text = f"# search, seed {seed}, program {__version__}\n{read_lines(plain)}{study_yaml(plain)}"
    admit = partial(_admit, out, text, replace)
    admit()
    on = on_radio.Ground(plain, watch)
    del on.numbers[on_radio.HELD_OUT]
    with one_thread(), held(out, "search", admit):
        if not is_text(out / STUDY, text):
            for file in _FILES:
                (out / file).unlink(missing_ok=True)
            write_text(out / STUDY, text)
        tried = opened(out / TRIALS)
        while (done := len(finished(tried))) < trials:
            _try(on, how, tried, seed, out)
            watch(Tried(done + 1, trials))
        best = tried.best_trial
        agent = chosen(best, how.agent)  # a finished trial suggests what it had
        write_text(out / FOUND, hyperparameters_yaml(name, agent))
    pruned = sum(trial.state.name == "PRUNED" for trial in tried.trials)
    return Found(agent, float(best.value or 0.0), done, pruned)


def _try(on: on_radio.Ground, how: Train, tried: optuna.Study, seed: int, out: Path) -> None:
    """One trial, from its suggestion to its end."""
    import optuna

    suggested_by(tried, seed, len(finished(tried)))
    trial = tried.ask()
    mine = how.model_copy(update={"agent": chosen(trial, how.agent)})
    (out / CHECKPOINT).unlink(missing_ok=True)

    def tell(point: CurvePoint, last: bool) -> None:
        trial.report(point.score, point.step)
        if not last and trial.should_prune():
            raise optuna.TrialPruned

    try:
        training, text = recorded_training.begun(on, mine, seed), f"trial {trial.number}"
        best = recorded_training.learn(training, on.chosen_on, how.eval_every, out / CHECKPOINT, text, tell)
        tried.tell(trial, best.score)
    except optuna.TrialPruned:
        tried.tell(trial, state=optuna.trial.TrialState.PRUNED)
    (out / CHECKPOINT).unlink(missing_ok=True)


def _admit(folder: Path, text: str, replace: bool) -> None:
    """Refuse a folder that this search may not have; nothing is written."""
    if not ours(folder, "search", lambda of: False):
        return
    check_files(folder, lambda name: name in _FILES)
    if what_is(folder / STUDY) and not replace:
        admit_text(folder / STUDY, text, "search", "study, seed or program version")
