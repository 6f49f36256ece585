"""Every built-in study made short enough for a test: its first point, two rounds, small models, a
small training."""

from rl.settings import Train
from scenarios.app.rerun import list_compared_files
from scenarios.app.result import run
from scenarios.app.run.runner import RUN
from scenarios.app.run.sweep import plan_points
from scenarios.app.study.load import list_bundled, load
from scenarios.app.training.train import TRAINED as TRAINING
from scenarios.app.training.train import train_agents

ROUNDS = 2
TICKS = 10
"""of a study without learning"""
TRAINED = " (training)"
"""what is added to the name of a study whose training is played"""
_TRAINING = {
    "train.steps": 4,
    "train.eval_every": 2,
    "train.task.held_out": 1,
    "train.task.eval_worlds": 1,
}
_ONLINE = {
    "train.task.train_worlds": 1,
    "train.task.tune_worlds": 1,
    "train.task.tune_evaluations": 10,
}
_VILLAGE = {"world.ues.count": 6, "world.city": {"kind": "town", "width_m": 600, "height_m": 600}}
_FEW_TOWNS = {"learning.attacks": [{"kind": "fused", "towns": 1}, {"kind": "neuron-votes"}]}
_ALONE = {
    "assess/city": _FEW_TOWNS,
    "assess/town": _FEW_TOWNS,
    "power/next-door": _VILLAGE,
    "power/next-door (training)": _VILLAGE,
    "power/next-door-all": _VILLAGE,
    "power/next-door-all (training)": _VILLAGE,
    "power/pedestrians" + TRAINED: {
        "train.task.limits.each_min_w": 2e-5
    },  # with more, two rounds have no noise
    "power/switch": _VILLAGE,
    "power/switch (training)": _VILLAGE,
    "campus-public": {
        "learning.attacks": [
            {"kind": "closed-form"},
            {"kind": "dlg", "starts": 1, "iterations": 20},
        ]
    },
}
"""what is shortened in one study alone"""
_WHOLE = {
    "rsrp-dp/budget",
    "rsrp-dp/clip",
    "rsrp-dp/labels",
    "rsrp-dp/membership",
    "rsrp-dp/noise",
    "signal-maps/interval",
    "uploads/stragglers",
}
"""whose time is not cut: the first rounds have no data"""


def names():
    """All built-in studies; one with a training stands twice, as a run and as a training."""
    return [
        name
        for item, path in list_bundled().items()
        for name in ([item, item + TRAINED] if has_training(path) else [item])
    ]


def has_training(path):
    """Whether the study of a file has a training."""
    return "\ntrain:" in path.read_text(encoding="utf-8")


def needs_data(name):
    """Whether a study reads measurements that are not bundled."""
    return "${NETSIM_DATA}" in list_bundled()[name.removesuffix(TRAINED)].read_text(
        encoding="utf-8"
    )


def brief(name, changes=None):
    """The short study of a name. changes : dotted path -> value, on top of what makes it short."""
    scenario = name.removesuffix(TRAINED)
    written = load(scenario)
    first = plan_points(written, {})[0].overrides if written.vary is not None else {}
    study = load(scenario, first)
    short = _short(name, study)
    if name.endswith(TRAINED):
        short |= _training(study)
    return load(scenario, first | short | _ALONE.get(name, {}) | (changes or {}))


def _short(name, study):
    learning = study.learning
    lasts_s = study.world.duration_s
    if learning is None:
        return {"world.duration_s": TICKS * study.world.tick_s}
    short = {"learning.rounds": ROUNDS}
    # traces begin when they do
    cut = name not in _WHOLE and study.world.ues.mobility.kind_name() != "replay"
    if cut and lasts_s is not None and lasts_s > ROUNDS * study.round_s:
        short["world.duration_s"] = ROUNDS * study.round_s
    kind = learning.learner.kind_name()
    if kind == "density":
        short["learning.learner.grid"] = [20, 20]
    elif learning.data.kind_name() == "images":
        short["learning.data.samples"] = 10
    elif kind == "radio-map":
        short["learning.learner.cell_m"] = 200 if name.startswith("cities/") else 30
    else:
        short["learning.learner.hidden"] = [16]
    if getattr(learning.data, "hold_out_by", "sample") == "day":  # two rounds may have no such day
        short["learning.data.hold_out_by"] = "sample"
    return short


def _training(study):
    way = study.train or Train()
    return (
        _TRAINING
        | {"train.agent.learning_starts": 2}
        | (_ONLINE if way.task.kind_name() == "online" else {})
    )


def play(name, folder, changes=None):
    """Play the short study into a folder; returns the names of the files that hold its numbers."""
    study = brief(name, changes)
    if name.endswith(TRAINED):
        train_agents(study, [0], folder, lambda _: None, folder.with_name(f"{folder.name}-cache"))
        return tuple(
            file
            for file in list_compared_files(TRAINING)
            if file.endswith((".csv", ".json")) and file != "policy.json"
        )
    run(study, folder)
    return tuple(list_compared_files(RUN))
