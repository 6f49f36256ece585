"""The updates of a finished run as a folder that learner `recorded` reads."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from fl.recorded_updates import CARD, CONSTANT, UpdateCard, UpdateFile, require, write_updates
from fl.round.probe import Probe
from fl.round.state import Phase
from fl.types import Updates
from netsim.record import write_text
from netsim.safe import describe_file_kind
from scenarios.app.rerun import build_repetition, compare_tables, list_compared_files
from scenarios.app.results.folder import MANIFEST
from scenarios.app.results.read import load_finished_run
from scenarios.app.run.events import Watch
from scenarios.app.run.how import create_scratch_folder, use_one_thread
from scenarios.app.run.runner import prepare_study
from scenarios.app.run.simulate import LearningPlay


class Keeper(Probe):
    """Writes the updates of a run into a folder; ues : names of its UEs."""

    def __init__(self, folder: Path, ues: list[str]) -> None:
        self.folder = folder
        self.ues = ues
        self.files: list[UpdateFile] = []

    def replace_updates(self, phase: Phase, updates: Updates, norm: float | None) -> Updates:
        updates = updates.to_dense()
        values = updates.rows(slice(None))
        number = phase.facts.round
        is_finite = np.isfinite(values).all()
        require(is_finite, self.folder, f"an update of round {number} overflowed; nothing is kept")
        arrays = {"update": values, "count": updates.count, "parameters": phase.model.parameters}
        if not self.files:
            constants = phase.model.constants.items()
            arrays |= {f"{CONSTANT}{name}": value for name, value in constants}
        entry = write_updates(
            self.folder / f"{number:06d}-{phase.name}.safetensors",
            arrays,
            round=number,
            phase=phase.name,
            ue=tuple(self.ues[ue] for ue in updates.ue),
            model=tuple(updates.model.tolist()),
            numbers=updates.n_parameters,
        )
        self.files.append(entry)
        return updates


def export_updates(folder: Path, out: Path, watch: Watch) -> int:
    """Write the updates of a run, before any defense, and the models of its rounds into a new
    folder; returns how many files.

    The run is played again, and `out` is there only if all its tables come out as they were. Raises
    BadInput: no finished run that learns, an `out` that is there, a table that differs.
    """
    load_finished_run(folder)
    require(not describe_file_kind(out), out, "is there already; give a new folder to --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    with create_scratch_folder(".updates-", out.parent) as scratch, use_one_thread():
        job = build_repetition(folder / MANIFEST, scratch / "run", False)
        learner = job.study.learned.learner
        require(learner is learner.trained, folder, "its updates were recorded before")
        play = LearningPlay(job, job.study, prepare_study(job.study, watch), watch)
        keeper = Keeper(scratch / "updates", list(play.world.ues))
        keeper.folder.mkdir()
        play.setup = replace(play.setup, probe=keeper)
        play.play()
        tables = [name for name in list_compared_files(job.kind) if name.endswith(".csv")]
        differences = [*compare_tables(folder, job.folder, tables)]
        require(not differences, folder, f"does not repeat: {differences[:1]}")
        require(bool(keeper.files), folder, "no UE trained, so there is no update")
        area = play.world.area
        trained = {entry.round for entry in keeper.files}
        card = UpdateCard(
            learner=learner.model_dump(mode="json"),
            area_m=(*area.low_m.tolist(), *area.high_m.tolist()),
            empty_rounds=tuple(sorted(set(range(1, play.rounds + 1)).difference(trained))),
            files=tuple(keeper.files),
        )
        write_text(keeper.folder / CARD, card.model_dump_json(indent=1, exclude_defaults=True))
        keeper.folder.rename(out)
    return len(keeper.files)
