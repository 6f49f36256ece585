"""Trainings of several seeds: the bytes of one after another, failures that stop no other, damaged
checkpoints."""

import numpy as np
import pytest

from netsim.checkpoint import save_tree
from netsim.errors import BadInput
from scenarios.app.cli.commands import main
from scenarios.app.study.load import load
from scenarios.app.training.train import jobs_of, train

FILES = (
    "curve.csv",
    "evaluations.csv",
    "summary.json",
    "policy.safetensors",
    "policy.json",
    "study.yaml",
)
SHORT = {"train.steps": 60, "train.eval_every": 20, "train.agent.learning_starts": 20}


def paths(folder, seeds=(0, 1)):
    return {
        (seed, name): (folder / f"seed-{seed}" / name).read_bytes()
        for seed in seeds
        for name in FILES
    }


@pytest.mark.slow
def test_the_same_bytes_one_after_another_and_side_by_side(tmp_path, monkeypatch):
    study = load("power/paper", SHORT)
    told = []
    cache = tmp_path / "cache"
    train(study, [0, 1], tmp_path / "a", cache=cache)
    train(study, [0, 1], tmp_path / "b", told.append, cache, at_once=2)
    assert paths(tmp_path / "a") == paths(tmp_path / "b")
    assert sorted((now.done, now.of) for now in told) == [(1, 2), (2, 2)]
    assert sorted(now.values["label"] for now in told) == ["seed 0", "seed 1"]
    train(study, [0, 1], tmp_path / "b", told.append, cache, at_once=2)
    assert len(told) == 2  # nothing is made again


@pytest.mark.parametrize("more", [["--on", "ray"], ["--on", "slurm", "--seed", "1"]])
def test_one_seed_needs_no_cluster(more, tmp_path, capsys):
    assert main(["train", "power/paper", "--out", str(tmp_path / "t"), *more]) == 2
    assert "several seeds" in capsys.readouterr().err
    assert not (tmp_path / "t").exists()


def test_damage_is_one_line(tmp_path):
    short = {"world.duration_s": 240, "learning.data.samples": 20}
    study = load("power/paper", {"train.steps": 20, "train.eval_every": 20, **short})
    (job,) = jobs_of(study, [0], tmp_path / "t")
    for damage in ({"w": np.array([0.0, np.nan])}, [{"w": np.array([[np.inf]])}], {"nothing": 1}):
        with job.hold():
            save_tree(tmp_path / "t" / "checkpoint.npz", job.checkpoint(training=damage, course={}))
        with pytest.raises(
            BadInput,
            match=r"checkpoint\.npz: the checkpoint does not fit .*; delete it, or add --replace",
        ):
            train(study, [0], tmp_path / "t", cache=tmp_path / "cache")
    (tmp_path / "t" / "checkpoint.npz").write_bytes(b"no")
    with pytest.raises(BadInput, match="delete it, or add --replace, to start again"):
        train(study, [0], tmp_path / "t", cache=tmp_path / "cache")
