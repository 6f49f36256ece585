"""Work that is played by processes: answers, failures that stop nothing else, and attempts."""

import json
import multiprocessing
import os
import re
import signal
import time
from types import SimpleNamespace

import works
from conftest import write_tiny
from forked import WORKERS
from pytest import fixture, mark, raises
from works import by_place, work

from scenarios.app.cli.commands import main
from scenarios.app.results.folder import (
    Failed,
    format_failures,
    read_failures,
    write_failures,
)
from scenarios.app.run import clusters, executor, runner
from scenarios.app.run.executor import (
    BAD_INPUT,
    LOST_WORKER,
    OnProcesses,
    do_jobs,
    to_failure,
)
from scenarios.app.study.load import parse_value


@fixture
def forked_workers(monkeypatch):
    monkeypatch.setattr(executor, "get_context", lambda method: WORKERS)


def ends(tmp_path, jobs, several, retries=2):
    return by_place(OnProcesses(retries).make_executor(jobs, tmp_path).play_jobs(several), several)


@mark.usefixtures("forked_workers")
@mark.parametrize("jobs", [1, 3])
def test_failures_stop_nothing_else(tmp_path, jobs):
    several = [
        work(works.squared, tmp_path / "a", 3),
        work(works.broken, tmp_path / "b"),
        work(works.refused, tmp_path / "c"),
        work(works.unwritable, tmp_path / "d", 1, 4),
        work(works.unwritable, tmp_path / "e", 9, 4),
        work(works.squared, tmp_path / "f", 5),
    ]
    end = ends(tmp_path, jobs, several)
    assert (end[0], end[3], end[5]) == (
        {"square": 9},
        {"square": 16},
        {"square": 25},
    )
    assert (end[1].kind, end[1].line, end[1].attempts) == (
        "RuntimeError",
        "it broke in two lines",
        1,
    )
    assert 'raise RuntimeError("it broke' in end[1].trace
    assert (end[2].kind, end[2].line, end[2].attempts) == (
        BAD_INPUT,
        "file.csv: not good; and more",
        1,
    )
    assert (end[4].kind, end[4].attempts) == ("OSError", 3)
    assert "No space left" in end[4].line
    assert (tmp_path / "c.tried").read_text() == "1"
    assert (tmp_path / "e.tried").read_text() == "3"
    assert not multiprocessing.active_children()


def test_a_killed_worker_takes_no_work_but_its_own(tmp_path, forked_workers):
    several = [work(works.killed, tmp_path / "a", 2, 3), work(works.killed, tmp_path / "b", 9, 3)]
    several += [work(works.killed, tmp_path / f"{k}", 0, k) for k in range(4)]
    end = ends(tmp_path, 2, several)
    assert end[0] == {"square": 9}
    assert (end[1].kind, end[1].attempts) == (LOST_WORKER, 3)
    assert "memory" in end[1].line
    assert [end[k + 2]["square"] for k in range(4)] == [0, 1, 4, 9]
    assert [(tmp_path / f"{k}.tried").read_text() for k in range(4)] == ["1"] * 4


def test_a_worker_that_is_killed_while_it_has_nothing_to_do_is_replaced(tmp_path):
    several = [work(works.squared, tmp_path / "a", 2), work(works.squared, tmp_path / "b", 3)]
    with OnProcesses().make_executor(2, tmp_path) as on:
        on.waiting.append(several[0])
        assert on.wait_for_job() == (several[0], {"square": 4})
        (idle,) = multiprocessing.active_children()
        os.kill(idle.pid, signal.SIGKILL)
        idle.join()
        on.waiting.append(several[1])
        job, end = on.wait_for_job()
        assert job is several[1]
        assert end == {"square": 9} or end.again


def test_failures_are_kept_where_they_happened_and_in_a_table(tmp_path):
    several = [
        work(works.squared, tmp_path / "a", 3),
        work(works.broken, tmp_path / "in/b", label="=x", seed=7),
    ]
    (tmp_path / "in/b").mkdir(parents=True)
    result = do_jobs(several, OnProcesses(), 1, tmp_path)
    failed = Failed("in/b", "=x", 7, 1, "RuntimeError", "it broke in two lines")
    assert result == [{"square": 9}, failed]
    assert read_failures(tmp_path) == [failed]
    assert "Traceback" in (tmp_path / "in/b/error.txt").read_text()
    assert "'=x" in (tmp_path / "failures.csv").read_text()  # no formula
    do_jobs([], OnProcesses(), 1, tmp_path)
    assert not (tmp_path / "failures.csv").exists()


def test_what_an_earlier_study_left_is_no_result_of_one_that_failed(tmp_path, out):
    works.squared(out, 3)
    do_jobs([work(works.broken, out)], OnProcesses(), 1, tmp_path)
    assert not (out / "summary.json").exists()


def test_a_folder_of_something_else_stays_as_it_is(tmp_path, out):
    (out).mkdir()
    (out / "mine.txt").write_text("mine")
    do_jobs([work(works.broken, out)], OnProcesses(), 1, tmp_path)
    assert [p.name for p in (out).iterdir()] == ["mine.txt"]
    assert len(read_failures(tmp_path)) == 1


def test_a_failure_in_a_plug_in_names_its_file_and_line(monkeypatch):
    monkeypatch.setattr(
        "netsim.part.find_entry_points",
        lambda: [SimpleNamespace(module=__name__)],
    )
    with raises(RuntimeError) as raised:
        raise RuntimeError("boom")
    assert re.fullmatch(rf"boom; plug-in {re.escape(__file__)}:\d+", to_failure(raised.value).line)


def test_of_many_failures_the_first_are_told():
    many = [Failed(f"x/seed-{k}", "x", k, 1, "OSError", "e\x1b") for k in range(15)]
    lines = format_failures(many)
    assert lines[0] == f"{len(many)} runs failed:"
    assert len(lines) == 12
    assert lines[-1] == "and 5 more, see failures.csv"
    assert all("\x1b" not in line for line in lines)
    assert format_failures([]) == []


def test_a_damaged_table_of_failures_is_refused(tmp_path):
    write_failures(tmp_path, [Failed("a", "a", 1, 1, "k", "e")])
    (tmp_path / "failures.csv").write_text(
        (tmp_path / "failures.csv").read_text().replace(",1,", ",one,")
    )
    with raises(ValueError, match="not a table of failures"):
        read_failures(tmp_path)


# -- a sweep in which runs fail


@fixture
def swept(tmp_path, monkeypatch):
    """The command of a sweep of three seeds; those in `failing` fail, and `plays` lists what was
    played."""
    write_tiny(tmp_path / "s.yaml", {"vary": {"seed": [1, 2, 3]}})
    failing = {2}
    plays = []
    run = runner.play_job

    def faulty(job, *rest):
        plays.append(job.seed)
        if job.seed in failing:
            raise RuntimeError("it broke <b>")
        return run(job, *rest)

    monkeypatch.setattr(runner, "play_job", faulty)
    command = f"sweep {tmp_path}/s.yaml --out {tmp_path}/w --jobs 1 --quiet".split()
    return command, failing, plays, tmp_path / "w"


def test_a_sweep_plays_all_others_and_later_only_what_failed(
    swept, capsys, tmp_path, forked_workers
):
    command, failing, plays, out = swept
    assert main(command) == 1
    printed = capsys.readouterr()
    assert (
        "as written, seed 2: RuntimeError: it broke <b> (as-written/seed-2/error.txt)"
        in printed.out
    )
    assert printed.err.count("\n") == 1
    assert "1 run failed" in printed.err
    assert "failures.csv" in printed.err
    assert plays == [1, 2, 3]
    page = (out / "report.html").read_text()
    assert "it broke &lt;b&gt;" in page
    first = (out / "runs.csv").read_bytes()
    assert first.count(b"\n") == 4
    failing.clear()
    assert main(command) == 0
    assert plays == [1, 2, 3, 2]
    assert not (out / "failures.csv").exists()
    assert not (out / "as-written/seed-2/error.txt").exists()
    assert "it broke" not in (out / "report.html").read_text()
    whole = (out / "runs.csv").read_bytes()
    assert whole != first
    assert main([*command[:-3], "--quiet", "--out", str(tmp_path / "again"), "--jobs", "2"]) == 0
    assert (tmp_path / "again/runs.csv").read_bytes() == whole


def test_an_interruption_that_foreign_code_calls_otherwise_is_no_failed_run(swept, monkeypatch):
    command, _, plays, out = swept

    def rename_error(job, *rest):
        plays.append(job.seed)
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(1)
        except KeyboardInterrupt:
            raise RuntimeError("compilation failed") from None

    monkeypatch.setattr(runner, "play_job", rename_error)
    assert main(command) == 130
    assert plays == [1]
    assert not (out / "as-written/seed-1/error.txt").exists()


def test_failures_in_lines_of_json(swept, capsys, run_command):
    command, _, _, out = swept
    assert main([*command[:-1], "--json"]) == 1
    *_, failed, _, result, error = (
        json.loads(line) for line in capsys.readouterr().out.splitlines()
    )
    row = parse_value("{folder: as-written/seed-2, label: as written, seed: 2, attempts: 1}")
    row |= {"kind": "RuntimeError", "error": "it broke <b>"}
    assert failed.items() >= {"event": "failed", "done": 2, "of": 3, **row}.items()
    assert result["failures"] == [row]
    assert [run["seed"] for run in result["runs"]] == [1, 3]
    assert error["event"] == "error"
    assert error["exit_code"] == 1
    assert "it broke" in run_command(f"show {out}")


def test_a_sweep_of_which_nothing_is_left(swept, capsys):
    command, failing, _, out = swept
    failing |= {1, 3}
    assert main(command) == 1
    assert "3 runs failed" in capsys.readouterr().out
    assert not (out / "report.html").exists()
    failing.clear()
    assert main(command) == 0


@mark.parametrize(
    "wrong, message",
    [
        ("--retries -1", "--retries"),
        ("--jobs 0", "--jobs"),
        ("--on nowhere", "--on"),
        ("--address auto", "--address: needs --on ray"),
        *(
            (f"--on ray --address={item}", "HOST:PORT")
            for item in ("", "here", "host:", ":6379", "host:port")
        ),
        ("--slurm mem_gb=1", "--slurm: needs --on slurm"),
    ],
)
def test_options_of_engines_are_checked(swept, wrong, message, refuse_command):
    command, _, plays, out = swept
    assert message in refuse_command([*command, *wrong.split()])
    assert not plays
    assert not out.exists()


def test_an_engine_that_is_refused_leaves_nothing_behind(
    swept, monkeypatch, refuse_command, run_command
):
    command, failing, _, out = swept
    for on in ("ray", "slurm"):
        monkeypatch.setattr(clusters, "find_spec", lambda name: None)
        printed = refuse_command([*command, "--on", on])
        assert f"pip install 'netsim-fl[{on}]'" in printed
        assert not out.exists()
        training = ["train", "power/paper", "--seed", "0", "1", "--on", on, "--out", str(out)]
        assert f"--on {on}: " in refuse_command(training)
        assert not out.exists()
    failing.clear()
    # nothing is left to play
    run_command(command)
    run_command([*command, "--on", "ray"])


def test_attempts_of_the_command_line(swept, monkeypatch):
    command, _, plays, _ = swept

    def full(study, *arguments, **changes):
        plays.append(study.seed)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runner, "play_job", full)
    assert main([*command, "--retries", "1"]) == 1
    assert sorted(plays) == [1, 1, 2, 2, 3, 3]
