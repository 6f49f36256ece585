"""A model of stable-baselines3 as a policy of scenarios: the same actions, weights alone, one line
for a bad file."""

import io
import json
import pickle
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest
import stable_baselines3
import torch
from numpy.testing import assert_allclose
from power_problems import allocation, problem
from pytest import fixture, mark
from refused import catch_line

from rl.policy import load_policy
from scenarios.app.study.load import parse_value

SHORT = ["--set", "world.duration_s=240", "--set", "learning.data.samples=20"]


@fixture(scope="module")
def short(tmp_path_factory):
    """Words that make a scenario short, and keep its reference run."""
    return [*SHORT, "--cache", str(tmp_path_factory.mktemp("cache"))]


def save_model(folder, algorithm="DDPG", ues=15, **policy):
    """A model for a whole training of so many UEs, saved by the library; the model and its file."""
    env = allocation([problem(ues=ues)])
    with torch.random.fork_rng(devices=[]):
        kind = getattr(stable_baselines3, algorithm)
        model = kind(
            "MlpPolicy", env, seed=1, device="cpu", policy_kwargs={"net_arch": [16, 8], **policy}
        )
    model.save(folder / "model.zip")
    return model, folder / "model.zip"


def change_entries(path, **entries):
    """The file with other entries; None: without."""
    with zipfile.ZipFile(path) as old:
        kept = {n: old.read(n) for n in old.namelist()}
    kept |= {n.replace("_pth", ".pth"): data for n, data in entries.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for name, data in kept.items():
            if data is not None:
                new.writestr(name, data)


@mark.parametrize("algorithm", ["DDPG", "TD3"])
def test_an_imported_policy_acts_as_its_model_predicts(
    tmp_path, out, algorithm, run_command, short
):
    """Its reference run is that of the scenario."""
    model, file = save_model(tmp_path, algorithm)
    printed = run_command(f"import-policy power/paper {file} --out {out}", *short)
    learnt = load_policy(out)
    assert learnt.card.hidden == (16, 8)
    for seen in np.random.default_rng(0).uniform(-1, 1, (20, 17)).astype(np.float32):
        assert_allclose(learnt.act(seen), model.predict(seen, deterministic=True)[0], atol=1e-6)
    assert learnt.reference.std.shape == (4, 15)
    assert learnt.problem().play_episode(learnt.act)[-1].value > 0
    assert printed.startswith("observations are played as they are")


class Evil:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


def weights(**tensors):
    out = io.BytesIO()
    torch.save(tensors, out)
    return out.getvalue()


def bomb():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", b"0" * (2**26 + 1))
    return out.getvalue()


@mark.parametrize(
    "entries, message",
    [
        ({"model": {"algorithm": "SAC"}}, "no deterministic actor"),
        ({"model": {"algorithm": "PPO"}}, "no deterministic actor"),
        ({"model": {"ues": 4}}, "layer 0 has shape (16, 6), the scenario takes (16, 17)"),
        ({"model": {"activation_fn": torch.nn.Tanh}}, "is not ReLU"),
        ({"data": None}, "has no entry 'data'"),
        ({"policy_pth": None}, "has no entry 'policy.pth'"),
        ({"policy_pth": b"0" * (2**26 + 1)}, "policy.pth: is larger than 64 MiB"),
        ({"policy_pth": bomb()}, "not plain weights (larger than 64 MiB)"),
        ({"policy_pth": pickle.dumps(Evil())}, "policy.pth: not plain weights"),
        ({"policy_pth": weights(x=Evil())}, "policy.pth: not plain weights"),
        ({"policy_pth": weights(x=torch.ones(2))}, "no deterministic actor"),
        ({"data": b"[]"}, "data: no settings of a model"),
        (
            {"data": json.dumps({"policy_kwargs": {"activation_fn": "Tanh"}}).encode()},
            "'Tanh' is not ReLU",
        ),
    ],
)
def test_a_bad_file_is_one_line_and_nothing_is_written(
    tmp_path, out, refuse_command, short, entries, message
):
    """Entries of the file that are others, or a model of another kind."""
    _, file = save_model(tmp_path, **entries.get("model", {}))
    change_entries(file, **{name: data for name, data in entries.items() if name != "model"})
    line = refuse_command(f"import-policy power/paper {file} --out {out}", *short)
    assert message in line
    assert not out.exists()


def test_files_and_folders_that_cannot_be_used(tmp_path, refuse_command, short):
    _, file = save_model(tmp_path)
    (tmp_path / "text.zip").write_text("no zip")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/kept").write_text("x")
    for overrides, out, message in (
        (tmp_path / "text.zip", "p", "no ZIP file"),
        (tmp_path / "none.zip", "p", "No such file"),
        (tmp_path, "p", "is a folder"),
        (file, "full", "something is there"),
    ):
        assert message in refuse_command(
            f"import-policy power/paper {overrides} --out {tmp_path}/{out}", *short
        )
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["kept"]


def actor(weight):
    """An actor of two layers whose first has this weight."""
    return weights(
        **{
            "actor.mu.0.weight": weight,
            "actor.mu.0.bias": torch.zeros(weight.shape[0]),
            "actor.mu.2.weight": torch.zeros(3, weight.shape[0]),
            "actor.mu.2.bias": torch.zeros(3),
        }
    )


NO_NUMBERS = (
    lambda: torch.zeros(16, 17).to_sparse(),
    lambda: torch.zeros(16, 17, device="meta"),
    lambda: torch.zeros(16, 17, dtype=torch.complex64),
    lambda: torch.zeros(1, 1).expand(4096, 2**15),
)


def test_weights_that_are_no_dense_numbers_are_one_line(tmp_path):
    """In a process of its own: what torch says must not come through."""
    files = []
    for k, weight in enumerate(NO_NUMBERS):
        (tmp_path / str(k)).mkdir()
        files.append(str(save_model(tmp_path / str(k))[1]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            change_entries(files[-1], policy_pth=actor(weight()))
    bounded = (
        "import resource, sys, torch; from scenarios.app.cli.commands import main\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, used + 2**29)); at = "
        "sys.argv.index('--set')\n"
        "ask, more = ['import-policy', 'power/paper'], sys.argv[at:]\n"
        "sys.exit(sum(main([*ask, f, '--out', f + '.p', *more]) for f in sys.argv[1:at]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", bounded, *files, *SHORT], capture_output=True, text=True
    )
    printed = ended.stderr.splitlines()
    assert ended.returncode == 2 * len(files) and all(
        "not plain weights" in line for line in printed
    ), ended
    assert len(printed) == len(files)
    assert not list(tmp_path.rglob("*.p"))


# -- models for every UE


@fixture(scope="module")
def ue_model(tmp_path_factory):
    """A small study, its environment, and a model that was trained there under VecNormalize; with
    both files."""
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    from scenarios import load
    from scenarios.app.study.study import to_study_yaml
    from scenarios.app.training.judge import make_ue_power

    changes = parse_value(
        "{world.duration_s: 240, train.task.tune_worlds: 1, "
        "train.task.tune_evaluations: 96, train.task.train_worlds: 1}"
    )
    folder = tmp_path_factory.mktemp("ue")
    study = load("power/city", changes)
    (folder / "study.yaml").write_text(to_study_yaml(study))
    with torch.random.fork_rng(devices=[]):
        vec = VecNormalize(DummyVecEnv([lambda: make_ue_power(study)]), clip_obs=3.0)
        model = stable_baselines3.DDPG(
            "MlpPolicy", vec, seed=1, device="cpu", policy_kwargs={"net_arch": [16, 8]}
        )
        vec.reset()
        for _ in range(40):
            vec.step([vec.action_space.sample()])
    model.save(folder / "model.zip")
    vec.save(str(folder / "vecnormalize.pkl"))
    return study, model, vec, folder


def test_a_model_of_a_ue_plays_as_it_predicts(ue_model, tmp_path, out, run_command):
    from rl.policy import load_shared
    from scenarios.app.training.judge import get_ground

    study, model, vec, folder = ue_model
    words = [
        "import-policy",
        str(folder / "study.yaml"),
        str(folder / "model.zip"),
        "--passes",
        "2",
    ]
    run_command(
        [
            *words,
            "--out",
            str(tmp_path / "p"),
            "--normalisation",
            str(folder / "vecnormalize.pkl"),
        ]
    )
    policy, card = load_shared(tmp_path / "p")
    assert (card.passes, card.cut, card.rule) == (2, 3.0, get_ground(study).rule.law.name)
    seen = get_ground(study).trained_on.look.features.reshape(-1, 10)
    seen = np.random.default_rng(0).normal(0, 2, (len(seen), policy.mean.size)).astype(np.float32)
    expected, _ = model.predict(vec.normalize_obs(seen), deterministic=True)
    assert_allclose(policy.act(seen), expected[:, 0], atol=1e-5)
    assert "observations are played as they are" in run_command([*words, "--out", str(out)])
    plain, _ = load_shared(out)
    expected, _ = model.predict(np.clip(seen, -5, 5), deterministic=True)
    assert_allclose(plain.act(seen), expected[:, 0], atol=1e-5)


@mark.parametrize(
    "data, message",
    [
        (pickle.dumps(Evil()), "no VecNormalize"),
        (b"", "no VecNormalize"),
        (pickle.dumps({"obs_rms": 1}), "no VecNormalize"),
        (pickle.dumps([Evil(), np.zeros(3)]), "no VecNormalize"),
    ],
)
def test_nothing_in_statistics_is_run(ue_model, data, message, tmp_path, out, refuse_command):
    """`Evil` would fail the test."""
    _, _, _, folder = ue_model
    (tmp_path / "v.pkl").write_bytes(data)
    words = [
        "import-policy",
        str(folder / "study.yaml"),
        str(folder / "model.zip"),
        "--out",
        str(out),
    ]
    line = (
        refuse_command([*words, "--normalisation", str(tmp_path / "v.pkl")])
        .strip()
        .splitlines()[-1]
    )
    assert f"v.pkl: {message}" in line
    assert not out.exists()


def test_statistics_of_no_use_are_refused(ue_model, tmp_path):
    from scenarios.app.training.sb3_model import read_normalisation

    _, _, vec, _ = ue_model
    file = tmp_path / "v.pkl"
    kept = vec.obs_rms.var[3]
    vec.obs_rms.var[3] = -1.0
    vec.save(str(file))
    vec.obs_rms.var[3] = kept
    assert "numbers of no use" in catch_line(read_normalisation, file)
    vec.norm_obs = False
    vec.save(str(file))
    vec.norm_obs = True
    assert "leave --normalisation out" in catch_line(read_normalisation, file)
