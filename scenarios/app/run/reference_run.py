"""What a run asked of its noise, round by round: the trajectory for which a convergence bound is a law of power."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from fl.defenses.budgeted import PRINTED
from fl.power.bound import Trajectory
from netsim import __version__
from netsim.cache import code_digest
from netsim.checkpoint import load_tree, save_tree
from netsim.errors import BadInput
from netsim.safe import what_is
from netsim.tree import from_tree_as, to_tree
from netsim.units import FloatArray, ratio_from_db
from scenarios.app.results.folder import read_table
from scenarios.app.run.events import ignore
from scenarios.app.run.inputs import input_digests
from scenarios.app.run.simulate import Planned, simulate
from scenarios.app.run.threads import one_thread
from scenarios.app.scratch import scratch
from scenarios.app.study.dump import study_yaml
from scenarios.app.study.plan import Plan
from scenarios.app.study.study import Study

_FILE, _FORMAT = "trajectory.npz", 2


def reference(study: Study, cache: Path, say: Callable[[str], None] | None = None) -> Trajectory:
    """The trajectory of a study, from a run that is made once.

    `cache` keeps it under a hash of the study's text, of the code that plays it, and of the content of files it reads.

    say : gets a line before that run, which takes as long as any.

    Raises
    ------
    BadInput : one line: the uplink's noise does not fall with a UE's own power alone.
    """
    from scenarios.app.run.runner import run_job  # not at the top: it imports this module

    alone = study.model_copy(update={"vary": None, "train": None})
    _checked(alone)
    made_of = (
        f"{__version__} {_FORMAT} {code_digest('netsim', 'fl', 'scenarios')} {sorted(input_digests(alone).items())}"
    )
    name = hashlib.sha256(f"{made_of}\n{study_yaml(alone)}".encode()).hexdigest()[:16]
    path = Path(cache) / name / _FILE
    if not what_is(path):
        if say is not None:
            say(f"netsim: playing all rounds of the reference run, this once; it is kept in {path.parent}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with scratch("run-", path.parent) as folder:  # of each process that asks
                with one_thread():
                    simulate(run_job(alone, folder / "run", command="reference"), alone, Planned(alone, {}), ignore)
                trajectory = trajectory_of(alone, folder / "run")
                save_tree(folder / _FILE, to_tree(trajectory))
                (folder / _FILE).replace(path)
        except OSError as error:
            raise BadInput(
                f"{path.parent}: reference runs cannot be kept there ({error.strerror}); "
                "set XDG_CACHE_HOME to a folder that can be written"
            ) from None
    return _read(path)


def trajectory_of(study: Study, folder: Path) -> Trajectory:
    """The trajectory of a finished run of a study: std from its spends, weights from its updates, gain from its links.

    Noise that several mechanisms draw on a row adds in variance; noise at the server is nobody's. gain is SINR over
    power, which a UE alone decides where nobody disturbs anybody; a UE has one row a round.
    """
    _checked(study)
    updates, links, spends = (read_table(folder, name) for name in ("updates", "links", "spends"))
    rounds, n_ue = np.unique(updates["round"]), len(read_table(folder, "ues")["ue"])
    shape = (len(rounds), n_ue)
    if not len(rounds):
        raise BadInput(f"{folder}: no round was played; there is no trajectory")

    def laid(table: dict[str, np.ndarray], values: FloatArray) -> FloatArray:
        """Sums of values (rows of a table) as (rounds, UEs)."""
        sums = np.zeros(shape)
        np.add.at(sums, (np.searchsorted(rounds, table["round"]), table["ue"].astype(np.int64)), values)
        return sums

    if laid(updates, np.ones(len(updates["ue"]))).max() > 1:
        raise BadInput(f"{folder}: a UE sent several rows in a round; a bound reads one model and one phase")
    once = (spends["ue"] >= 0) & (spends["unit"] != PRINTED)  # a printed claim is a second account of the same noise
    drawn = {k: v[once] for k, v in spends.items()}
    sent = laid(links, links["power_w"])
    sinr = ratio_from_db(links["sinr_db"])
    scale = links["noise_std"] * np.sqrt(sinr)  # C / sqrt(q), the same for all
    return Trajectory(
        std=np.sqrt(laid(drawn, drawn["std"] ** 2)),
        weight=laid(updates, updates["weight"]),
        gain=laid(links, sinr / links["power_w"]),
        scale=float(np.median(scale)),
        power_w=sent.sum(axis=0) / np.maximum((sent > 0).sum(axis=0), 1),
    )


def _checked(study: Study) -> None:
    """Refuse a study with a plan, and an uplink whose noise is not each UE's own."""
    if study.plan is not None:
        raise BadInput("plan: a reference run is played with the powers as written; remove plan:, or set it to null")
    try:
        Plan.check(study.world.radio.uplink)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _read(path: Path) -> Trajectory:
    try:
        return from_tree_as(load_tree(path), Trajectory)
    except ValueError as error:
        said = str(error).removeprefix(f"{path}: ")
        raise BadInput(f"{path}: not a trajectory ({said}); delete it, and the run is made again") from None
