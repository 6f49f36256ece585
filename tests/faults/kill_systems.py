"""Commands, brief forms of what studies do, that can be killed at any moment and must end in the same bytes."""

import json

from conftest import TINY

DLG = [{"kind": "closed-form"}, {"kind": "dlg", "starts": 2, "iterations": 30}]
BRIEF_ATTACK = "learning.attacks=[{kind: closed-form}]"


def _sets(*values):
    return [word for value in values for word in ("--set", value)]


def systems(root):
    """Name -> the words of a command but for --out; files that they need are written below `root`."""
    trace = root / "trace.csv"
    rows = (
        f"{3600 * t},u{k},{300 + 40 * k + 9 * (t % 5)},{200 + 11 * (t % 7)},{-70 - t % 9},a"
        for t in range(96)
        for k in (0, 1)
    )
    trace.write_text("time_s,user,x_m,y_m,rsrp_dbm,cell\n" + "\n".join(rows) + "\n")
    tiny = {**TINY, "learning": {**TINY["learning"], "attacks": DLG}, "vary": {"seed": [1, 2]}}
    tiny["world"] = {**TINY["world"], "duration_s": 360}
    (root / "tiny.yaml").write_text(json.dumps(tiny))
    small_town = ["world.city={kind: town, width_m: 800, height_m: 800}", "learning.learner.hidden=[8]"]
    return {
        "deep leakage": ["run", str(root / "tiny.yaml")],
        "sweep": ["sweep", str(root / "tiny.yaml"), "--jobs", "1", *_sets("world.duration_s=120", BRIEF_ATTACK)],
        "RSRP with differential privacy": [
            "run",
            "cities/town-rsrp-dp",
            *_sets(
                *small_town, "world.ues.count=8", "world.ues.measurement_period_s=300", "world.duration_s=18000",
                "learning.aggregation.clients=8",
            ),
        ],
        "radio maps with aligned noise": [
            "run",
            "radio-maps/leak",
            *_sets(
                "world.ues.count=12", "world.base_stations.count=40", "learning.data.hold_out_stations=5",
                "learning.learner.cell_m=30", "world.duration_s=180",
            ),
        ],
        "population density": [
            "run",
            "density/moving",
            *_sets(
                "world.ues.count=40", "learning.threat.n_targets=6", "learning.rounds=3", "learning.learner.grid=[9, 9]"
            ),
        ],
        "privacy budgets": ["run", "lapa/aggregation", *_sets("learning.rounds=6", "learning.data.samples=20")],
        "tracking": [
            "run",
            "tracking/city",
            *_sets(
                *small_town, "world.ues.count=6", "world.duration_s=86400", "learning.leakage.random_baseline_draws=5"
            ),
        ],
        "radio alone": ["run", "radio/coverage", *_sets("world.duration_s=60")],
        "asynchronous": [
            "run",
            "city/asynchronous",
            *_sets(
                *small_town, "world.ues.count=8", "world.duration_s=28800",
                "learning.server={kind: fedbuff, buffer: 3, deadline_s: 28800}", "learning.availability={kind: always}",
                "learning.leakage.random_baseline_draws=5",
            ),
        ],
        "replay": [
            "replay", str(trace), "--round", "24h",
            *_sets(BRIEF_ATTACK, "learning.learner.hidden=[8]", "learning.leakage.random_baseline_draws=5"),
        ],
        "training of powers": [
            "train",
            "power/pedestrians",
            "--seed",
            "0",
            *_sets(
                "world.duration_s=240", "train.steps=40", "train.eval_every=10", "train.agent.learning_starts=10",
                "train.task.eval_worlds=1", "train.task.tune_worlds=1", "train.task.tune_evaluations=5",
                "train.task.held_out=1",
            ),
        ],
    }  # fmt: skip
