"""The updates of a finished run as a folder that learner `recorded` reads."""

import hashlib
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

from fl.learners.recorded_updates import CARD, UpdateCard, UpdateFile, require
from fl.round.probe import Probe
from fl.types import Model, RoundContext, Updates
from netsim.record import write_text
from netsim.safe import describe_file_kind
from scenarios.app.rerun import build_repetition, compare_tables
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

    def replace_updates(
        self, facts: RoundContext, model: Model, updates: Updates, norm: float | None
    ) -> Updates:
        from safetensors.numpy import save

        dense = updates.to_dense()
        content = save(
            {"update": dense.values, "count": dense.count, "parameters": model.parameters}
        )
        path = self.folder / f"{facts.round:06d}.safetensors"
        path.write_bytes(content)
        names = [self.ues[ue] for ue in dense.ue]
        entry = UpdateFile(
            file=path.name,
            sha256=hashlib.sha256(content).hexdigest(),
            round=facts.round,
            rows=tuple(zip(names, dense.model.tolist(), strict=True)),
            numbers=dense.n_parameters,
            models=model.parameters.shape,
        )
        self.files.append(entry)
        return updates


def export_updates(folder: Path, out: Path, watch: Watch) -> int:
    """Write the updates of a run, before any defense, and the models of its rounds into a new
    folder; returns how many files.

    The run is played again, and `out` is there only if its updates come out as they were. Raises
    BadInput: no finished run that learns, an `out` that is there, updates that differ.
    """
    require(not describe_file_kind(out), out, "is there already; give a new folder to --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    with create_scratch_folder(".updates-", out.parent) as scratch, use_one_thread():
        job = build_repetition(folder / MANIFEST, scratch / "run", False)
        learner = job.study.learned.learner.trained
        is_once = not learner.has_several_phases
        require(is_once, folder, f"UEs of {learner.kind_name()} upload more than once a round")
        play = LearningPlay(job, job.study, prepare_study(job.study, watch), watch)
        keeper = Keeper(scratch / "updates", list(play.world.ues))
        keeper.folder.mkdir()
        play.setup = replace(play.setup, probe=keeper)
        play.play()
        differences = list(compare_tables(folder, job.folder, ["updates.csv"]))
        require(not differences, folder, f"does not repeat: {differences[:1]}")
        keys = learner.model_dump(mode="json")
        # files may lie elsewhere when they are read
        same = {key: value for key, value in keys.items() if "/" not in str(value)}
        same["area_m"] = [*astuple(play.world.area)]
        card = UpdateCard(same=same, rounds=play.rounds, files=tuple(keeper.files))
        write_text(keeper.folder / CARD, card.model_dump_json(exclude_defaults=True))
        keeper.folder.rename(out)
    return len(keeper.files)
