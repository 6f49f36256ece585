"""Checkpoints of trainings: numbers that are not finite are refused, and so is what does not fit."""

import numpy as np
import pytest

from netsim.errors import BadInput
from scenarios.app.study.load import load
from scenarios.app.training import train as module
from scenarios.app.training.train import jobs_of, train


def test_damage_is_one_line(tmp_path):
    from netsim.checkpoint import save_tree

    study = load("power/paper", {"train.steps": 20, "train.eval_every": 20})
    (job,) = jobs_of(study, [0], tmp_path / "t")
    for damage in ({"w": np.array([0.0, np.nan])}, [{"w": np.array([[np.inf]])}], {"nothing": 1}):
        with job.hold():
            save_tree(tmp_path / "t" / "checkpoint.npz", job.checkpoint(training=damage, course={}))
        with pytest.raises(
            BadInput, match=r"checkpoint\.npz: the checkpoint does not fit .*; delete it, or add --replace"
        ):
            train(study, [0], tmp_path / "t", cache=tmp_path / "cache")
    (tmp_path / "t" / "checkpoint.npz").write_bytes(b"no")
    with pytest.raises(BadInput, match="delete it, or add --replace, to start again"):
        train(study, [0], tmp_path / "t", cache=tmp_path / "cache")
    assert module.TRAINED.name == "training"
