"""A run on two cores: rounds go ahead in a process of their own, and every byte is that of one."""

import json
import os
import signal
from dataclasses import fields
from itertools import count
from multiprocessing import active_children

import pytest
from fl_values import read_changes
from interrupted import run_in_two

from fl.round.server import LearningServer
from fl.round.state import RoundState
from netsim.errors import BadInput, RunsFailed
from netsim.workers import use_workers
from scenarios.app.cli.commands import main
from scenarios.app.result import run
from scenarios.app.run.ahead import play_ahead

TRACKED = """
learning.attacks: [{kind: neuron-votes}, {kind: closed-form}, {kind: tracker, sigma_m: 30, cell_m: 40}]
learning.threat.pseudonyms: {kind: per-round}
"""
SLOW_UPLOADS = """
world.duration_s: 90
world.ues.training_s_per_sample: 1.0
world.radio.uplink: {kind: noma, rate: {kind: shannon}, bandwidth_hz: 100, decoding: error-free,
    sic_residual: 0.01}
world.radio.dynamic_uplink: {}
learning.round_s: 10
"""
STUDIES = {
    "planned": "learning.round_s: 20",
    "handovers": "world.radio.handover: {time_to_trigger_s: 5}",
    "tracked": TRACKED,
    "sums": "learning.threat: {observes: aggregate, secagg_group_size: 2}",
    "eavesdropper": """
world.radio.uplink: {kind: noma, decoding: error-free}
learning.threat: {viewpoint: eavesdropper, observes: updates, position_m: [9, 9]}
""",
    "events": SLOW_UPLOADS,
    "buffered": SLOW_UPLOADS + "learning.server: {kind: fedbuff, buffer: 2}",
    "asynchronous": SLOW_UPLOADS + "learning.server: {kind: fedasync}\nlearning.rounds: 5",
    "budget": """
learning.round_s: 20
learning.defenses: [{kind: clip, norm: 0.3}, {kind: gaussian, noise_multiplier: 2.5}]
learning.privacy_budget: {epsilon: 1.5, delta: 1.0e-5}
""",
    "membership": """
world.duration_s: 240
learning.data.hold_out: 0.3
learning.membership: {attacks: [{kind: loss-threshold}]}
""",
}
SIX_ROUNDS = {"learning.round_s": 20}


def read_results(folder):
    """Path -> what a file holds, but pages and what tells of wall time."""
    files = {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
        and path.suffix != ".html"
        and path.name not in ("manifest.json", ".netsim")
    }
    manifest = json.loads((folder / "manifest.json").read_text())
    return files, {key: manifest[key] for key in manifest if key not in ("timing", "command")}


@pytest.mark.parametrize("name", STUDIES)
def test_two_workers_write_the_bytes_of_one(name, tiny, tmp_path):
    study = tiny(read_changes(STUDIES[name]))
    events = {}
    for workers in (1, 2):
        seen = events[workers] = []
        with use_workers(workers):
            run(study, tmp_path / str(workers), seen.append, views=name == "tracked")
    files, manifest = read_results(tmp_path / "1")
    other_files, other_manifest = read_results(tmp_path / "2")
    assert [name for name in files if files[name] != other_files.get(name)] == []
    assert (other_files.keys(), other_manifest) == (files.keys(), manifest)
    assert repr(events[1]) == repr(events[2])
    assert len(files) > 5
    assert events[1][-1].last
    assert not active_children()


@pytest.mark.parametrize("workers", [(2, 2), (1, 2), (2, 1)])
@pytest.mark.parametrize("name", ["planned", "tracked", "buffered"])
def test_a_run_goes_on_with_any_number_of_workers(name, workers, tiny, tmp_path):
    study = tiny(SIX_ROUNDS | read_changes(STUDIES[name]))
    run(study, tmp_path / "whole")

    stopped = []

    def stop(seen):
        os.environ["NETSIM_WORKERS"] = str(workers[1])  # of what goes on
        if seen.done >= 2:
            stopped.append(seen.done)
        return len(stopped) == 1

    with use_workers(workers[0]):
        run_in_two(study, tmp_path / "cut", stop)
    assert read_results(tmp_path / "cut") == read_results(tmp_path / "whole")
    manifest = json.loads((tmp_path / "cut/manifest.json").read_text())
    assert manifest["timing"]["resumed_from_round"] >= stopped[0]


def test_a_process_that_is_killed_ends_the_command_in_a_line_and_the_next_one_goes_on(
    tiny, tmp_path, monkeypatch
):
    monkeypatch.setattr("scenarios.app.run.ahead.MOST_BYTES", 1)  # else it is done before
    study = tiny(SIX_ROUNDS)
    run(study, tmp_path / "whole")

    def kill(seen):
        for process in active_children():
            if seen.done == 2:
                process.kill()
                process.join()

    with use_workers(2):
        with pytest.raises(RunsFailed, match=r"^the process .* was killed .*$"):
            run(study, tmp_path / "cut", kill)
        assert not active_children()
        assert not (tmp_path / "cut/summary.json").exists()
        run(study, tmp_path / "cut")
    assert read_results(tmp_path / "cut") == read_results(tmp_path / "whole")


@pytest.mark.parametrize("name", ["tracked", "membership", "buffered"])
def test_what_judging_changes_is_what_is_taken_over(name, tiny, tmp_path, monkeypatch):
    judge = LearningServer.judge
    rounds = []

    def watch(server, outcome):
        stale = server.state.copy()
        result = judge(server, outcome)
        judged = server.state
        server.take_over(stale)
        assert server.state is stale
        names = [field.name for field in fields(RoundState) if field.name != "parts"]
        assert [n for n in names if getattr(stale, n) is not getattr(judged, n)] == []
        assert [w for w, part in judged.parts.items() if stale.parts[w] is not part] == []
        server.state = judged
        rounds.append(outcome.facts.round)
        return result

    monkeypatch.setattr(LearningServer, "judge", watch)
    run(tiny(read_changes(STUDIES[name])), tmp_path)
    assert len(rounds) > 1


class Shared:
    def __init__(self):
        self.calls = []
        self.process = os.getpid()

    def keep(self, value, other=None):
        if value == "refused":
            raise KeyboardInterrupt
        self.calls.append((value, other is self, os.getpid() == self.process))


def test_calls_come_in_their_order_with_copies_and_the_objects_of_this_process():
    shared = Shared()

    def work():
        for k in range(300):
            shared.keep([k], shared)
        shared.calls.append("in the copy alone")

    play_ahead(work, [shared.keep], [])
    assert shared.calls == [([k], True, True) for k in range(300)]


def test_what_the_work_raises_is_raised_here_with_its_trace():
    def refuse():
        raise BadInput("one", "two")

    with pytest.raises(BadInput) as raised:
        play_ahead(refuse, [], [])
    assert raised.value.lines == ("one", "two")
    assert "in refuse" in raised.value.__notes__[0]


def test_what_a_call_raises_here_ends_the_work():
    shared = Shared()

    def work():
        for _ in count():
            shared.keep("refused")

    with pytest.raises(KeyboardInterrupt):
        play_ahead(work, [shared.keep], [])
    assert not active_children()


def test_a_copy_hears_no_interruption():
    shared = Shared()

    def work():
        os.kill(os.getpid(), signal.SIGINT)
        shared.keep("after it")

    play_ahead(work, [shared.keep], [])
    assert shared.calls == [("after it", False, True)]


@pytest.mark.parametrize("words, expected", [(["--workers", "0"], "from 1 to"), ([], "as 2")])
def test_a_number_of_workers_that_is_none_is_refused(
    words, expected, tmp_path, capsys, monkeypatch
):
    monkeypatch.setenv("NETSIM_WORKERS", "two")
    assert main(["run", "campus", "--out", str(tmp_path / "x"), *words]) == 2
    assert expected in capsys.readouterr().err
