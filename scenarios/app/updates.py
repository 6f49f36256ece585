"""The updates of a finished run as a folder that learner `recorded` reads."""

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from fl.recorded_updates import CARD, UpdateCard, UpdateFile, require
from fl.round.probe import Probe
from fl.round.state import Phase
from fl.types import Updates
from netsim.record import write_text
from netsim.safe import describe_file_kind
from scenarios.app.rerun import build_repetition, compare_tables, list_compared_files
from scenarios.app.results.folder import MANIFEST
from scenarios.app.run.events import Watch
from scenarios.app.run.how import create_scratch_folder, use_one_thread
from scenarios.app.run.runner import prepare_study
from scenarios.app.run.simulate import LearningPlay


@dataclass
class Keeper(Probe):
    """Writes the updates of a run into a folder; ues : names of its UEs, files : what was
    written.
    """

    folder: Path
    ues: list[str]
    files: list[UpdateFile] = field(default_factory=list)

    def replace_updates(self, phase: Phase, updates: Updates, norm: float | None) -> Updates:
        from safetensors.numpy import save

        updates = updates.to_dense()
        values = np.ascontiguousarray(updates.rows(slice(None)))
        models = phase.model.parameters
        content = save({"update": values, "count": updates.count, "parameters": models})
        number = phase.facts.round
        path = self.folder / f"{number:06d}-{phase.name}.safetensors"
        path.write_bytes(content)
        names = [self.ues[ue] for ue in updates.ue]
        entry = UpdateFile(
            file=path.name,
            sha256=hashlib.sha256(content).hexdigest(),
            round=number,
            phase=phase.name,
            rows=tuple(zip(names, updates.model.tolist(), strict=True)),
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
    require(not describe_file_kind(out), out, "is there already; give a new folder to --out")
    with create_scratch_folder(".updates-", out.parent) as scratch, use_one_thread():
        job = build_repetition(folder / MANIFEST, scratch / "run", False)
        learner = job.study.learned.learner.trained
        play = LearningPlay(job, job.study, prepare_study(job.study, watch), watch)
        keeper = Keeper(scratch / "updates", list(play.world.ues))
        keeper.folder.mkdir()
        play.setup = replace(play.setup, probe=keeper)
        play.play()
        tables = [name for name in list_compared_files(job.kind) if name.endswith(".csv")]
        differences = list(compare_tables(folder, job.folder, tables))
        require(not differences, folder, f"does not repeat: {differences[:1]}")
        require(keeper.files, folder, "no UE trained, so there is no update")
        area_m = [*play.world.area.low_m.tolist(), *play.world.area.high_m.tolist()]
        trained = {entry.round for entry in keeper.files}
        card = UpdateCard(
            same={"area_m": area_m, **learner.model_dump(mode="json")},
            empty_rounds=tuple(sorted(set(range(1, play.rounds + 1)).difference(trained))),
            files=tuple(keeper.files),
        )
        write_text(keeper.folder / CARD, card.model_dump_json(exclude_defaults=True))
        for entry in card.files:
            entry.read(keeper.folder)
        keeper.folder.rename(out)
    return len(keeper.files)
