"""Attacks on the views that a run kept: what that run would have found with them, without its
movement and training.
"""

from dataclasses import replace
from pathlib import Path

from fl.round.final import write_final_attacks
from fl.round.kept import attack_kept_round
from fl.round.records import list_attack_metrics, write_attacks
from fl.round.tables import to_columns
from netsim.errors import BadInput
from scenarios.app.results.folder import VIEWS, read_csv_rows
from scenarios.app.results.read import Run, load_finished_run
from scenarios.app.run.events import Watch
from scenarios.app.run.how import use_one_thread
from scenarios.app.run.job import Job
from scenarios.app.run.play import write_points
from scenarios.app.run.runner import prepare_study
from scenarios.app.run.simulate import LearningPlay
from scenarios.app.study import Fields

_MADE = (
    "ues metrics eavesdropper sums estimates leakage named listed list_scores learnt linking "
    "identities tracking beliefs"
)
"""tables that attacks make, and the first of a run; all others are those of the run"""


class AttackPlay(LearningPlay):
    """The rounds of a finished run, which kept views, of which only the attacks are played.

    `source` among the options of its job is that run.
    """

    def play_steps(self) -> None:
        source: Run = self.job.options["source"]
        recorder = self.recorder
        state = self.memory.state
        for table in sorted(set(source.manifest.tables or ()).difference(_MADE.split())):
            recorder.write(table, to_columns(table, read_csv_rows(source.folder / f"{table}.csv")))
        numbers = recorder.read_columns("rounds")["round"].astype(int).tolist()
        for number in numbers:
            state.round = number
            outcome = attack_kept_round(self.setup, self.world, state, source.folder / VIEWS)
            write_attacks(recorder, outcome)
            time_s = outcome.merges[-1].merged_s
            for row in list_attack_metrics(self.setup.learning, state):
                recorder.write_row("metrics", round=number, time_s=time_s, **row)
            self.watch(self.make_event(numbers[-1], time_s, number == numbers[-1], {}))

    def finish(self) -> Fields:
        manifest = self.job.options["source"].manifest
        state = self.memory.state
        state.round = manifest.views.round
        write_final_attacks(self.setup, state, self.world, manifest.views.time_s)
        write_points(self.job.folder, state)
        return manifest.model_dump(include={"empty_rounds", "stopped_by_budget"})


def attack_run(folder: Path, job: Job, watch: Watch) -> Run:
    """Return the run of a job, whose study is that of the finished run in a folder with other
    attacks. Raises BadInput: that run kept no views.
    """
    source = load_finished_run(folder)
    if source.manifest.views is None:
        raise BadInput(f"{folder}: this run kept no views; play it again with --views --replace")
    if job.folder.resolve() == folder.resolve():
        raise BadInput(f"--out {job.folder}: is the run itself; give another folder")
    job = replace(job, notes=("attacks on kept views",)).with_options(source=source)
    with use_one_thread():
        return AttackPlay(job, job.study, prepare_study(job.study, watch), watch).play()
