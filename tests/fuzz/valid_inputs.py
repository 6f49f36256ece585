"""Valid inputs of every kind, made here by the program's own writers, and by hand where it only
reads."""

import copy
import gzip
import io
import json
from pathlib import Path

import numpy as np
from conftest import TINY
from data_files import (
    buildings,
    cells,
    csv_trace,
    drive,
    gain_arrays,
    gains,
    homes,
    images,
    metres_trace,
    net,
    places,
    sites,
    streets,
)
from phone_shapes import SHAPES, build_fit, build_track, to_text

BUNDLED = Path(__file__).parents[2] / "scenarios/examples"
LOGGED = build_track(48.137, 11.575)
TRACES = {
    "t.plt": "walk.plt",
    "t.gpx": "walk.gpx",
    "t.fcd.xml": "cars.fcd.xml",
    "new_cab.txt": "new_taxi.txt",
}


def tiny(**changes):
    """The tiny study as a tree, with other top-level entries."""
    return {**copy.deepcopy(TINY), **changes}


def with_attack(**attack):
    study = tiny()
    study["learning"]["attacks"] = [attack]
    return study


def rich():
    """A study of many parts."""
    study = tiny(vary={"seed": [1, 2], "values": {"learning.learner.learning_rate": [0.1, 0.01]}})
    study["world"]["radio"] |= {
        "uplink": {"kind": "noma"},
        "fading": {"kind": "rayleigh"},
        "line_of_sight": {"kind": "probability"},
        "path_loss": {"kind": "uma"},
    }
    study["learning"] |= {
        "data": {"kind": "measured", "hold_out": 0.2},
        "curation": [{"kind": "random", "num": 3}],
        "defenses": [{"kind": "clip", "norm": 1.0}, {"kind": "gaussian", "noise_multiplier": 0.1}],
        "attacks": [
            {"kind": "closed-form"},
            {"kind": "dlg", "starts": 2, "iterations": 3},
            {"kind": "neuron-votes"},
        ],
        "server_optimiser": {"kind": "fedadam"},
        "availability": {"kind": "always"},
        "threat": {"n_targets": 2},
    }
    return study


def radio_only():
    study = tiny()
    del study["learning"]
    study["world"]["city"] = {
        "kind": "grid",
        "width_m": 400,
        "height_m": 300,
        "block_m": 80,
        "street_m": 20,
    }
    study["world"]["ues"]["mobility"] = {"kind": "manhattan"}
    del study["world"]["radio"]["measurement_noise_db"]
    study["world"]["radio"]["handover"] = {}
    return study


def live():
    """A live world for an agent of power."""
    from power_problems import ONLINE

    study = tiny()
    for path, value in ONLINE.items():
        *way, last = path.split(".")
        node = study
        for step in way:
            node = node.setdefault(step, {})
        node[last] = copy.deepcopy(value)
    few = dict.fromkeys(
        ("train_worlds", "tune_worlds", "tune_evaluations", "eval_worlds", "held_out"), 1
    )
    study["train"]["task"] |= few
    return study


def claims():
    rules = [
        {
            "kind": "order",
            "key": "attack.closed-form.sqrt_sw1.mean",
            "labels": ["1 h", "24 h", "7 d"],
        },
        {
            "kind": "within",
            "key": "attack.closed-form.sqrt_sw1.mean",
            "labels": ["1 h"],
            "tolerance": 1.5,
        },
    ]
    return {
        "minutes": {"signal-maps/interval": 6.2},
        "claims": [
            {
                "id": f"c{i}",
                "paper": "A paper",
                "where": "Fig. 1",
                "says": "Less.",
                "scenario": "signal-maps/interval",
                "rule": rule,
            }
            | ({"value": 5.3} if i else {})
            for i, rule in enumerate(rules)
        ],
    }


def _policy(folder):
    from fl.power.bound import Trajectory
    from rl.policy import Card, Policy, save_policy

    limits = {"each_min_w": 1e-9, "total_min_w": 0.0}
    card = Card(program="0", task="allocation", observe="paper", ues=3, hidden=(6,), limits=limits)
    rng = np.random.default_rng(0)
    layers = tuple(
        (rng.normal(size=shape).astype(np.float32), np.zeros(shape[0], np.float32))
        for shape in card.shapes
    )
    noise = Trajectory(rng.uniform(0.1, 1, (4, 3)), np.full((4, 3), 1 / 3), np.ones((4, 3)), 0.1)
    save_policy(Policy(card, layers, noise), folder)


def _share(folder):
    from rl.policy import SEEN, SharedCard, SharedPolicy, list_layer_shapes, save_shared
    from rl.rules import build_rule

    rng = np.random.default_rng(0)
    shapes = list_layer_shapes(SEEN, (6,), 1)
    layers = tuple(
        (rng.normal(size=shape).astype(np.float32), np.zeros(shape[0], np.float32))
        for shape in shapes
    )
    rule = build_rule("fractional")
    policy = SharedPolicy(layers, rule, np.zeros(SEEN), np.ones(SEEN), passes=2)
    card = SharedCard(
        program="0",
        limits={"each_min_w": 1e-9, "total_min_w": 0.0},
        rule=rule.law.name,
        passes=2,
        hidden=(6,),
        parameters=tuple(rule.parameters.tolist()),
    )
    save_shared(policy, card, folder)


def _statistics(file):
    """What VecNormalize of stable-baselines3 saves."""
    from gymnasium import Env, spaces
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from rl.policy import SEEN

    class Still(Env):
        observation_space = spaces.Box(-5.0, 5.0, (SEEN,))
        action_space = spaces.Box(-1.0, 1.0, (1,))

    VecNormalize(DummyVecEnv([Still])).save(str(file))


def _model(file):
    """A model as stable-baselines3 saves it; of its entries two are read."""
    import zipfile

    import torch

    from rl.policy import SEEN

    rng = np.random.default_rng(0)
    shapes = {0: (16, SEEN), 2: (8, 16), 4: (1, 8)}
    weights = {}
    for layer, shape in shapes.items():
        weights[f"actor.mu.{layer}.weight"] = torch.tensor(
            rng.normal(size=shape), dtype=torch.float32
        )
        weights[f"actor.mu.{layer}.bias"] = torch.zeros(shape[0])
    out = io.BytesIO()
    torch.save(weights, out)
    with zipfile.ZipFile(file, "w") as new:
        new.writestr("data", json.dumps({"policy_kwargs": {"net_arch": [16, 8]}}))
        new.writestr("policy.pth", out.getvalue())


def _stop(study, folder):
    """The folder of a run that was interrupted after its first round."""
    from scenarios.app.result import run
    from scenarios.app.run import play
    from scenarios.app.study.load import load

    def stop(progress):
        raise KeyboardInterrupt

    file = folder.parent / f"{folder.name}.yaml"
    file.write_text(json.dumps(study))
    all_rows = play.CHECKPOINT_EVERY_S
    play.CHECKPOINT_EVERY_S = 0.0
    try:
        run(load(str(file)), folder, stop)
    except KeyboardInterrupt:
        pass
    finally:
        play.CHECKPOINT_EVERY_S = all_rows


def choose(valid, *names):
    """Files by name, and all of a folder by a name that ends in /."""
    return {
        path: data
        for path, data in valid.items()
        for n in names
        if path == n or (n.endswith("/") and path.startswith(n))
    }


def make_inputs(root: Path) -> dict[str, bytes]:
    """Name -> bytes of every valid file, those of folders by their path."""
    from scenarios.app.report.report import write_report
    from scenarios.app.result import run
    from scenarios.app.study.load import load

    root.mkdir(parents=True, exist_ok=True)
    files = {
        "tiny.yaml": tiny(),
        "rich.yaml": rich(),
        "radio.yaml": radio_only(),
        "live.yaml": live(),
        "homes.yaml": with_attack(kind="re-identify", homes="homes.csv"),
        "places.yaml": with_attack(
            kind="tracker", population={"kind": "places", "file": "places.csv"}
        ),
        "houses.geojson": buildings(),
        "streets.geojson": streets(),
        "claims.yaml": claims(),
        "t.csv": csv_trace(),
        **{f"log-{shape.partition('/')[2]}": to_text(shape, LOGGED) for shape in SHAPES},
        "log-ride": build_fit(LOGGED),
        "m.csv": metres_trace(),
        "net.net.xml": net(),
        "cells.csv": cells(),
        "sites.csv": sites(),
        "gains.csv": gains(),
        "gains.npz": gain_arrays(),
        "drive.csv": drive(),
        "homes.csv": homes(),
        "places.csv": places(),
        **images(),
        **{name: (BUNDLED / example).read_bytes() for name, example in TRACES.items()},
    }
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        if isinstance(content, str | bytes):
            text = content
        else:
            text = json.dumps(content, indent=1)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (root / "t.csv.gz").write_bytes(gzip.compress(csv_trace().encode()))
    _policy(root / "policy")
    _share(root / "shared")
    _model(root / "model.zip")
    _statistics(root / "vecnormalize.pkl")
    study = load(str(root / "tiny.yaml"))
    run(study, root / "done")
    write_report(root / "done")
    _stop(tiny(), root / "half")
    _stop(radio_only(), root / "heard")
    return {
        str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()
    }
