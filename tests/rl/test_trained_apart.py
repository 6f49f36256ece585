"""Trainings of several seeds side by side: the bytes of one after another, and failures that stop no other."""

import json
import os

import pytest

from scenarios.app.cli.commands import main
from scenarios.app.run import executor
from scenarios.app.study.load import load
from scenarios.app.training import train as module
from scenarios.app.training.train import train

FILES = ("curve.csv", "evaluations.csv", "summary.json", "policy.safetensors", "policy.json", "study.yaml")
SHORT = {"train.steps": 60, "train.eval_every": 20, "train.agent.learning_starts": 20}


def paths(folder, seeds=(0, 1)):
    return {(seed, name): (folder / f"seed-{seed}" / name).read_bytes() for seed in seeds for name in FILES}


@pytest.mark.slow
def test_the_same_bytes_one_after_another_and_side_by_side(tmp_path, monkeypatch):
    study, told = load("power/paper", SHORT), []
    cache = tmp_path / "cache"
    train(study, [0, 1], tmp_path / "a", cache=cache)
    train(study, [0, 1], tmp_path / "b", told.append, cache, at_once=2)
    assert paths(tmp_path / "a") == paths(tmp_path / "b")
    assert sorted((now.done, now.of) for now in told) == [(1, 2), (2, 2)]
    assert sorted(now.values["label"] for now in told) == ["seed 0", "seed 1"]
    train(study, [0, 1], tmp_path / "b", told.append, cache, at_once=2)
    assert len(told) == 2  # nothing is made again


@pytest.fixture
def faulty(tmp_path, monkeypatch):
    """The command of a training of two seeds, of which 1 fails while the list says so."""
    failing, real = [1], module._play

    def fails(job, *arguments):
        if job.seed in failing:
            raise RuntimeError("it broke")
        return real(job, *arguments)

    monkeypatch.setattr(module, "_play", fails)
    monkeypatch.setattr(executor, "Processes", executor.Here)
    sets = [f"--set={key}={value}" for key, value in SHORT.items()]
    command = ["train", "power/paper", "--seed", "0", "1", "--jobs", "2", "--out", str(tmp_path / "t"), *sets]
    return [*command, "--cache", str(tmp_path / "cache"), "--quiet"], failing, tmp_path / "t"


@pytest.mark.slow
def test_a_seed_that_fails_stops_no_other(faulty, capsys):
    command, failing, out = faulty
    assert main([*command, "--json"]) == 1
    result, error = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert [one["seed"] for one in result["trainings"]] == [0] and error["exit_code"] == 1
    assert [(one["folder"], one["kind"]) for one in result["failures"]] == [("seed-1", "RuntimeError")]
    assert "it broke" in (out / "seed-1" / "error.txt").read_text()
    assert main(["show", str(out)]) == 0 and "seed 1: RuntimeError: it broke" in capsys.readouterr().out
    failing.clear()
    assert main(command) == 0 and "failed" not in capsys.readouterr().out
    assert not os.path.lexists(out / "failures.csv") and not os.path.lexists(out / "seed-1" / "error.txt")


@pytest.mark.slow
def test_one_after_another_a_seed_that_fails_stops_no_other(tmp_path, monkeypatch, capsys):
    real, failing = module._play, [0]

    def fails(job, *arguments):
        if job.seed in failing:
            raise RuntimeError("it broke")
        return real(job, *arguments)

    monkeypatch.setattr(module, "_play", fails)
    sets = [f"--set={key}={value}" for key, value in SHORT.items()]
    out = tmp_path / "t"
    command = ["train", "power/paper", "--seed", "0", "1", "--out", str(out), "--cache", str(tmp_path / "c"), *sets]
    assert main([*command, "--json"]) == 1
    *events, result, error = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    told = next(event for event in events if event["event"] == "failed")
    assert (told["seed"], told["error"], told["done"], told["of"]) == (0, "it broke", 1, 2)
    assert [one["seed"] for one in result["trainings"]] == [1] and error["exit_code"] == 1
    assert "it broke" in (out / "seed-0" / "error.txt").read_text() and (out / "report.html").exists()
    assert main([*command, "--quiet"]) == 1
    said = capsys.readouterr()
    assert "1 run failed:" in said.out and "seed 0: RuntimeError: it broke" in said.out
    failing.clear()
    kept = paths(out, [1])
    assert main([*command, "--quiet"]) == 0 and paths(out, [1]) == kept
    assert not (out / "failures.csv").exists() and not (out / "seed-0" / "error.txt").exists()
    with pytest.raises(RuntimeError, match="it broke"):  # of a single seed the error is raised
        failing.append(3)
        train(load("power/paper", SHORT), [3], tmp_path / "u")


@pytest.mark.parametrize("more", [["--on", "ray"], ["--on", "slurm", "--seed", "1"]])
def test_one_seed_needs_no_cluster(more, tmp_path, capsys):
    assert main(["train", "power/paper", "--out", str(tmp_path / "t"), *more]) == 2
    assert "several seeds" in capsys.readouterr().err and not (tmp_path / "t").exists()
