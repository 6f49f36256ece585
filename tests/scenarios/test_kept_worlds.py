"""What a training has found out about worlds outlasts an interruption, at whatever moment it comes."""

import builtins
from pathlib import Path

import numpy as np
import pytest

from netsim.errors import BadInput
from scenarios.app.training import ground
from scenarios.app.training.ground import RecordedGround


class Findings(RecordedGround):
    """What is found, without a study."""

    text = "this"

    def __init__(self, file, text="this"):
        self.file, self.text, self._saved_s, self._every_s = file, text, 0.0, 0.0


def test_findings_are_found_once_and_kept_for_the_same_text_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(ground, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(ground, "_SHARE", 0.0)
    file, asked = tmp_path / "worlds.npz", []

    def find(value):
        asked.append(value)
        return {"x": np.arange(value), "cost": 0.1 + 0.2, "none": float("nan")}

    for text in ("this", "this", "other"):
        kept = Findings(file, text)
        for value in (3, 4, 3):
            found = kept.once(str(value), lambda value=value: find(value))
            assert found["cost"] == 0.1 + 0.2 and found["none"] != found["none"]
            np.testing.assert_array_equal(found["x"], np.arange(value))
    assert asked == [3, 4, 3, 4]
    file.write_bytes(b"no")
    with pytest.raises(BadInput, match="delete it to start again"):
        Findings(file, "other").once("5", dict)
    assert Findings(None).once("a", lambda: 1) == 1


@pytest.mark.slow
def test_an_interrupted_training_finds_nothing_out_again(tmp_path, monkeypatch):
    """Interrupted while held-out worlds are judged: the rest alone is played, and the figures are the same."""
    pytest.importorskip("gymnasium")
    from rl import recording, rules
    from scenarios.app.study.load import load
    from scenarios.app.training.train import train

    monkeypatch.setattr(ground, "SAVE_EVERY_S", 0.0)
    monkeypatch.setattr(ground, "_SHARE", 0.0)
    study = load("power/city", {
        "world.duration_s": 180, "train.agent": {"kind": "score-function", "worlds": 1}, "train.task.tune_worlds": 1,
        "train.task.tune_evaluations": 200, "train.task.held_out": 2, "train.task.eval_worlds": 1, "train.steps": 4,
        "train.eval_every": 2,
    })  # fmt: skip
    whole, cut, told, made = tmp_path / "whole", tmp_path / "cut", [], []
    train(study, [0], whole, told.append)
    worlds = [(event.values["label"], event.done, event.of) for event in told if event.name == "world"]
    assert worlds[:3] == [
        ("recorded to tune rules", 1, 1), ("recorded to train on", 1, 1), ("recorded to choose the policy by", 1, 1),
    ]  # fmt: skip
    assert worlds[-2:] == [("judged live under the agent", 1, 2), ("judged live under the agent", 2, 2)]

    def interrupt(event):
        if event.name == "world" and event.values["label"].startswith("judged live under all"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(study, [0], cut, interrupt)
    assert (cut / "worlds.npz").exists()
    for module, name in ((recording, "recorded"), (rules, "tuned")):
        real = getattr(module, name)

        def counted(*args, real=real, name=name):
            made.append(name)
            return real(*args)

        monkeypatch.setattr(module, name, counted)
    train(study, [0], cut, lambda event: None)
    assert made == ["recorded", "recorded"]  # both held-out worlds, for the oracle
    files = {path.name for path in whole.iterdir()}
    assert files == {path.name for path in cut.iterdir()} and "worlds.npz" not in files
    for name in files - {"training.json"}:
        assert (cut / name).read_bytes() == (whole / name).read_bytes(), name


def test_an_interrupt_during_imports_ends_as_any_other(monkeypatch, capsys):
    from scenarios.app.cli.start import main

    real = builtins.__import__

    def interrupted(name, *args):
        if name == "scenarios.app.cli.commands":
            raise KeyboardInterrupt
        return real(name, *args)

    monkeypatch.setattr(builtins, "__import__", interrupted)
    assert main() == 130
    assert capsys.readouterr().err == "netsim: interrupted; the same command goes on where it stopped\n"


def test_the_program_begins_there():
    import tomllib

    root = Path(__file__).parents[2]
    scripts = tomllib.loads((root / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"netsim": "scenarios.app.cli.start:main"}
