"""Work as jobs of Slurm: of a Slurm of one machine."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import works
from conftest import ROOT
from pytest import fixture
from refused import catch_line
from slurm_fake import install
from works import awaited, by_place, work

from scenarios.app.cli.options import parse_slurm_option
from scenarios.app.run.clusters import OnSlurm
from scenarios.app.run.executor import BAD_INPUT, LOST_WORKER
from scenarios.app.study.load import parse_value


def test_options_have_the_types_of_submitit():
    overrides = ["timeout_min=60", "mem_gb=1.5", "slurm_partition=short", "slurm_use_srun=false"]
    options = parse_value(
        "{timeout_min: 60, mem_gb: 1.5, slurm_partition: short, slurm_use_srun: false}"
    )
    assert dict(map(parse_slurm_option, overrides)) == options


@fixture
def environment(monkeypatch):
    pytest.importorskip("submitit")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{ROOT / 'tests'}")


@fixture
def slurm(environment, tmp_path, monkeypatch):
    """Puts a Slurm on the PATH: call it with the task that is lost."""

    def put(loses=-1):
        folder = install(tmp_path / "bin", loses)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return folder / "state"

    return put


def test_a_machine_without_slurm(environment, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert "srun" in catch_line(
        dict,
        OnSlurm().make_executor(0, tmp_path).play_jobs([work(works.squared, tmp_path / "a", 2)]),
    )
    assert not (tmp_path / ".slurm").exists()
    assert "srun" in catch_line(OnSlurm().check)


def test_an_array_of_which_a_task_is_lost(slurm, tmp_path, monkeypatch):
    monkeypatch.setattr("submitit.core.core.Job._results_timeout_s", 0.1)
    state = slurm(loses=2)
    jobs = [work(works.squared, tmp_path / str(k), k) for k in range(4)] + [
        work(works.refused, tmp_path / "c")
    ]
    jobs += [work(works.unwritable, tmp_path / "d", 1, 7)]
    end = by_place(
        OnSlurm({"slurm_partition": "short", "mem_gb": 2})
        .make_executor(3, tmp_path)
        .play_jobs(jobs),
        jobs,
    )
    assert [end[k]["square"] for k in range(4)] == [0, 1, 4, 9]
    assert end[5] == {"square": 49}
    assert (end[4].kind, end[4].attempts) == (BAD_INPUT, 1)
    first, second = ((state / f"{n}.script").read_text() for n in (100, 101))
    assert "--array=0-5%3" in first
    assert "--partition=short" in first
    assert "--mem=2GB" in first
    # what was lost and the full disk alone
    assert "--array=0-1%2" in second
    assert not (state / "102.script").exists()
    assert len(list((tmp_path / ".slurm").iterdir())) == 1  # output of what was lost


def test_a_task_that_is_always_lost(slurm, tmp_path, monkeypatch):
    monkeypatch.setattr("submitit.core.core.Job._results_timeout_s", 0.1)
    slurm()
    jobs = [work(works.killed, tmp_path / "a", 9, 1)]
    end = by_place(OnSlurm(retries=1).make_executor(0, tmp_path).play_jobs(jobs), jobs)
    assert (end[0].kind, end[0].attempts) == (LOST_WORKER, 2)
    assert ".slurm" in end[0].line


def script(tmp_path, monkeypatch):
    (tmp_path / "script.py").write_text(
        "import sys, works\nfrom pathlib import Path\nfrom scenarios.app.run import events\n"
        "from scenarios.app.run.clusters import OnSlurm\n"
        "events.listen()\nplace = Path(sys.argv[1])\n"
        "some = [works.work(works.waiting, place / 'a', place / 'go'), "
        "works.work(works.squared, place / 'b', 3)]\n"
        "print(sorted(works.by_place(OnSlurm().make_executor(0, place).play_jobs(some), some)))\n"
    )
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path)], env=os.environ, **piped
    )


def test_an_interrupted_command_cancels_its_jobs(slurm, tmp_path, monkeypatch):
    state = slurm()
    with script(tmp_path, monkeypatch) as process:
        awaited(tmp_path / "a.tried")
        process.terminate()
        assert "KeyboardInterrupt" in process.stderr.read()
    assert [(state / f"100_{k}").read_text() for k in (0, 1)] == ["CANCELLED", "CANCELLED"]
    assert not (tmp_path / ".slurm").exists()
    assert not (tmp_path / "a/summary.json").exists()


def test_a_preempted_job_is_queued_again(slurm, tmp_path, monkeypatch):
    state = slurm()
    with script(tmp_path, monkeypatch) as process:
        awaited(tmp_path / "a.tried")
        group = int((state / "100_0.pid").read_text())
        (player,) = (p for p in players(group))
        os.kill(player, 12)  # SIGUSR2, by which Slurm warns
        until = time.monotonic() + 60
        while (tmp_path / "a.tried").read_text() != "2":
            assert time.monotonic() < until
            time.sleep(0.05)
        (tmp_path / "go").touch()
        printed, errors = process.communicate(timeout=60)
    assert printed == "[0, 1]\n", errors
    assert (tmp_path / "a/summary.json").exists()
    assert not (tmp_path / ".slurm").exists()


def players(group):
    """Processes of a group that run Python."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                is_own = os.getpgid(int(entry.name)) == group
                if is_own and b"submitit.core._submit" in (entry / "cmdline").read_bytes().split(
                    b"\0"
                ):
                    yield int(entry.name)
            except OSError:
                continue
