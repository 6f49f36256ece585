"""Trials of Optuna in a journal: lines of JSON in a file, which an interrupted search goes on with.

[Akiba et al., Optuna, 2019; Bergstra et al., Algorithms for Hyper-Parameter Optimization, 2011]
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from netsim.errors import BadInput

if TYPE_CHECKING:
    import optuna

STARTS = 4  # finished trials before values are suggested, and before any trial is ended early


def required(place: str) -> None:
    """Refuse to search where Optuna is missing."""
    if importlib.util.find_spec("optuna") is None:
        raise BadInput(f"{place}: optuna is not installed; pip install 'netsim-fl[tune]'")


def opened(path: Path, directions: Sequence[str] = ("minimize",)) -> optuna.Study:
    """The trials so far; BadInput for a file that cannot be read. The caller holds the folder alone.

    What a killed program left is put right: its lock, half a line at the end, trials that were under way.
    """
    import optuna
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path.with_name(f"{path.name}.lock").unlink(missing_ok=True)
    try:
        _whole_lines(path)
        storage = JournalStorage(JournalFileBackend(str(path), lock_obj=JournalFileOpenLock(str(path))))
        tried = optuna.create_study(
            storage=storage, study_name="search", load_if_exists=True, directions=list(directions),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTS),
        )  # fmt: skip
        for trial in tried.trials:
            if trial.state.name == "RUNNING":
                tried.tell(trial.number, state=optuna.trial.TrialState.FAIL)
    except Exception as error:  # what damaged lines make of the library has no common type
        said = " ".join(str(error).split())[:120]
        raise BadInput(f"{path}: cannot be gone on with ({said}); delete it to start again") from None
    return tried


def _whole_lines(path: Path) -> None:
    """Cut half a line off the end, which a killed program was writing."""
    text = path.read_bytes() if path.exists() else b""
    if not text.endswith(b"\n") and b"\n" in text:
        with path.open("r+b") as file:
            file.truncate(text.rindex(b"\n") + 1)


def finished(tried: optuna.Study) -> list[Any]:
    """Trials that came to an end; those that were interrupted are tried again."""
    return [trial for trial in tried.trials if trial.state.name in ("COMPLETE", "PRUNED")]


def suggested_by(
    tried: optuna.Study, seed: int, number: int, constraints: Callable[[Any], Sequence[float]] | None = None
) -> None:
    """From now on a sampler suggests that hangs on the finished trials, the seed and the number of the trial alone."""
    import optuna

    (drawn,) = np.random.SeedSequence([seed, number]).generate_state(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        warnings.simplefilter("ignore", FutureWarning)  # Optuna 5 has another way, which Optuna 4 has not
        tried.sampler = optuna.samplers.TPESampler(
            seed=int(drawn), n_startup_trials=STARTS, constraints_func=constraints
        )
