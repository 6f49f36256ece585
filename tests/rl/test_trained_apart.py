"""Trainings of several seeds: the bytes of one after another, failures that stop no other, damaged
checkpoints."""

from numpy import array, inf, nan
from pytest import mark, raises

from netsim.checkpoint import save_tree
from netsim.errors import BadInput
from scenarios.app.cli.commands import main
from scenarios.app.study.load import load
from scenarios.app.training.train import build_training_jobs, train_agents

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


@mark.slow
def test_the_same_bytes_one_after_another_and_side_by_side(tmp_path, monkeypatch):
    study = load("power/paper", SHORT)
    lines = []
    cache = tmp_path / "cache"
    train_agents(study, [0, 1], tmp_path / "a", cache=cache)
    train_agents(study, [0, 1], tmp_path / "b", lines.append, cache, at_once=2)
    assert paths(tmp_path / "a") == paths(tmp_path / "b")
    assert sorted((context.done, context.total) for context in lines) == [(1, 2), (2, 2)]
    assert sorted(context.values["label"] for context in lines) == ["seed 0", "seed 1"]
    train_agents(study, [0, 1], tmp_path / "b", lines.append, cache, at_once=2)
    assert len(lines) == 2  # nothing is made again


@mark.parametrize("extra", [["--on", "ray"], ["--on", "slurm", "--seed", "1"]])
def test_one_seed_needs_no_cluster(extra, tmp_path, capsys):
    assert main(["train", "power/paper", "--out", str(tmp_path / "t"), *extra]) == 2
    assert "several seeds" in capsys.readouterr().err
    assert not (tmp_path / "t").exists()


def test_damage_is_one_line(tmp_path):
    short = {"world.duration_s": 240, "learning.data.samples": 20}
    study = load("power/paper", {"train.steps": 20, "train.eval_every": 20, **short})
    folder = tmp_path / "t"
    (job,) = build_training_jobs(study, [0], folder)
    for damage in ({"w": array([0.0, nan])}, [{"w": array([[inf]])}], {"nothing": 1}):
        with job.hold():
            save_tree(folder / "checkpoint.npz", job.to_checkpoint(training=damage, course={}))
        with raises(
            BadInput,
            match=r"checkpoint\.npz: the checkpoint does not fit .*; delete it, or add --replace",
        ):
            train_agents(study, [0], folder, cache=tmp_path / "cache")
    (folder / "checkpoint.npz").write_bytes(b"no")
    with raises(BadInput, match="delete it, or add --replace, to start again"):
        train_agents(study, [0], folder, cache=tmp_path / "cache")
