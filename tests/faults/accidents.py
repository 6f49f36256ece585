"""Commands that are interrupted after their first checkpoint, for what may befall their folder
until they go on."""

import json

import numpy as np
from conftest import TINY

import rl.train as loop
from scenarios.app.cli.commands import main
from scenarios.app.run import play
from scenarios.app.training import train

RADIO = {**TINY, "learning": None, "world": {**TINY["world"], "radio": {"handover": {}}}}
TRACE = "time_s,user,x_m,y_m,rsrp_dbm,cell\n" + "".join(
    f"{600 * t},u{k},{300 + 40 * k + 9 * (t % 5)},{200 + 11 * (t % 7)},{-70 - t % 9},a\n"
    for t in range(36)
    for k in (0, 1)
)
TRAINED = ["train", "power/pedestrians", "--seed", "0"] + [
    word
    for value in (
        "world.duration_s=240",
        "train.steps=20",
        "train.eval_every=10",
        "train.agent.learning_starts=5",
        "train.task.eval_worlds=1",
        "train.task.tune_worlds=1",
        "train.task.tune_evaluations=1",
        "train.task.held_out=1",
        "train.task.train_worlds=1",
    )
    for word in ("--set", value)
]


def commands(root):
    """Kind -> the words of a command but for --out."""
    for name, study in (("tiny", TINY), ("radio", RADIO)):
        (root / f"{name}.yaml").write_text(json.dumps(study))
    return {
        "run": ["run", str(root / "tiny.yaml"), "--quiet"],
        "radio": ["run", str(root / "radio.yaml"), "--quiet"],
        "training": [*TRAINED, "--quiet"],
    }


def systems(root):
    """Kind -> the words of a command but for --out that can be killed at any moment and must end in
    the same bytes."""
    result = commands(root)
    (root / "trace.csv").write_text(TRACE)
    (root / "sweep.yaml").write_text(json.dumps(TINY | {"vary": {"seed": [1, 2]}}))
    late = {"learning.server": "{kind: fedbuff, buffer: 2}", "world.radio.dynamic_uplink": "{}"}
    brief = ["--set", "learning.attacks=[]", "--set", "learning.learner.hidden=[8]", "--quiet"]
    return result | {
        "sweep": f"sweep {root}/sweep.yaml --jobs 1 --quiet --set world.duration_s=60".split(),
        "asynchronous": [
            *result["run"],
            *(word for key in late for word in ("--set", f"{key}={late[key]}")),
        ],
        "replay": ["replay", str(root / "trace.csv"), "--round", "1h", *brief],
    }


def interrupt_command(words, monkeypatch):
    """Play a command until it has written its first checkpoint, and a signal comes."""
    with monkeypatch.context() as event:
        for module, name, saver in (
            (play, "CHECKPOINT_EVERY_S", play),
            (loop, "SAVE_EVERY_S", train),
        ):
            event.setattr(module, name, 0.0)
            event.setattr(saver, "save_tree", _stop_after(saver.save_tree))
        assert main(words) == 130


def _stop_after(save):
    saved = []

    def save_and_stop(path, tree):
        save(path, tree)
        saved.append(path)
        if len(saved) == 1:  # the run may save once more as it leaves
            raise KeyboardInterrupt

    return save_and_stop


def content(folder):
    """Path -> bytes of everything in a folder."""
    return {
        str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }


def check_refusal(words, folder, capsys, *printed):
    """The command must leave with 2, with one line that says all this, and the folder as it was."""
    before = content(folder)
    capsys.readouterr()
    code = main(words)
    message = capsys.readouterr().err
    assert (code, message.count("\n")) == (2, 1), message
    assert message.startswith("netsim: ")
    assert "Traceback" not in message
    assert [text for text in printed if text not in message] == [], message
    assert content(folder) == before


def forge_checkpoint(path, change):
    """Write a checkpoint again, changed, with a digest that is right."""
    from netsim.checkpoint import load_tree, save_tree

    tree = load_tree(path)
    change(tree)
    save_tree(path, tree)


def places_of_arrays(tree, way=()):
    """The ways to all arrays of a tree."""
    if isinstance(tree, np.ndarray):
        yield way
    for key, value in (
        tree.items()
        if isinstance(tree, dict)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    ):
        yield from places_of_arrays(value, (*way, key))
