"""Attacks on the views that a run kept: what that run would have found with them, without its
movement and training.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fl.round.final import write_final_attacks
from fl.round.leaked import attack_kept_round
from fl.round.records import list_attack_metrics, write_attacks
from fl.round.tables import to_columns
from netsim.compiled import find_cache_folder
from netsim.errors import BadInput
from netsim.notice import Notice
from scenarios.app.results.folder import MANIFEST, VIEWS, read_csv_rows, read_json
from scenarios.app.results.read import Run, load_finished_run
from scenarios.app.run.events import Watch
from scenarios.app.run.how import use_one_thread
from scenarios.app.run.job import Job
from scenarios.app.run.play import write_points
from scenarios.app.run.runner import plan_study
from scenarios.app.run.simulate import LearningPlay
from scenarios.app.study import Fields

_MADE = (
    "ues",
    "metrics",
    "estimates",
    "leakage",
    "named",
    "listed",
    "list_scores",
    "learnt",
    "linking",
    "identities",
    "tracking",
    "beliefs",
)
"""tables that attacks make, and the first of a run; all others are those of the run"""
_LATE_NOTICES = ("model-exploded", "delta-too-large")
"""keys of notices that only a training shows"""


class AttackPlay(LearningPlay):
    """The rounds of a finished run, of which only the attacks are played."""

    def __init__(self, job: Job, source: Run, watch: Watch) -> None:
        super().__init__(job, job.study, plan_study(job.study, find_cache_folder()), watch)
        self.source = source
        self.ended = read_json(source.folder / MANIFEST).get(VIEWS)
        if self.ended is None:
            raise BadInput(
                f"{source.folder}: this run kept no views; play it again with --views --replace"
            )

    def play_steps(self) -> None:
        recorder = self.recorder
        folder = self.source.folder
        state = self.memory.state
        for table in sorted(set(self.source.manifest.tables or ()).difference(_MADE)):
            recorder.write(table, to_columns(table, read_csv_rows(folder / f"{table}.csv")))
        numbers = recorder.read_columns("rounds")["round"].astype(int).tolist()
        for number in numbers:
            state.round = number
            outcome = attack_kept_round(self.setup, self.world, state, folder / VIEWS)
            write_attacks(recorder, outcome)
            time_s = outcome.merges[-1].merged_s
            figures = list_attack_metrics(self.setup.learning, state)
            rows = [{"round": number, "time_s": time_s, **row} for row in figures]
            recorder.write("metrics", to_columns("metrics", rows))
            self.watch(self.make_event(numbers[-1], time_s, number == numbers[-1], {}))

    def finish(self) -> Fields:
        state = self.memory.state
        state.round = self.ended["round"]
        write_final_attacks(self.setup, state, self.world, self.ended["time_s"])
        write_points(self.job.folder, state)
        names = ("empty_rounds", "stopped_by_budget")
        return {name: getattr(self.source.manifest, name) for name in names}

    def find_notices(self) -> Iterator[Notice]:
        yield from super().find_notices()
        yield from (n for n in self.source.manifest.notices if n.key in _LATE_NOTICES)


def attack_run(folder: Path, job: Job, watch: Watch) -> Run:
    """Return the run of a job, whose study is that of the finished run in a folder with other
    attacks. Raises BadInput: that run kept no views.
    """
    job = replace(job, notes=("attacks on kept views",))
    with use_one_thread():
        return AttackPlay(job, load_finished_run(folder), watch).play()
