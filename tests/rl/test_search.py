"""A search of hyper-parameters: what it finds, where it goes on, what it refuses."""

import importlib.util
from types import SimpleNamespace

import pytest
from made_up_rounds import RULE, known

from netsim.errors import BadInput
from scenarios.app.cli.commands import main
from scenarios.app.study.load import load
from scenarios.app.training import on_radio, recorded_training, search
from scenarios.app.training.hyperparameters import read_hyperparameters

optuna = pytest.importorskip("optuna")
AGENTS = [
    {"kind": "ddpg", "network": "shared", "situations": 8},
    {"kind": "td3", "situations": 8, "batch_size": 64, "buffer_size": 100},
    {"kind": "sac", "situations": 8},
    {"kind": "score-function"},
]


class Ground:
    """Worlds that are recorded, but for those that nobody may see."""

    def __init__(self, study, tell):
        self.study, self.rule, self.trained_on, self.chosen_on = study, RULE, known(0), known(1)
        self.numbers = dict.fromkeys((on_radio.TUNED, on_radio.TRAINED, on_radio.CHOSEN, on_radio.HELD_OUT), 1)


@pytest.fixture(autouse=True)
def ground(monkeypatch):
    monkeypatch.setattr(on_radio, "Ground", Ground)


def study(agent, **changes):
    return load("power/city", {"train.agent": agent, "train.steps": 6, "train.eval_every": 2} | changes)


def found(out):
    return (out / "hyperparameters.yaml").read_bytes()


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent["kind"])
def test_the_best_trial_is_written_as_a_file_that_trainings_take(agent, tmp_path):
    told = []
    best = search.search(study(agent), "power/city", 3, 0, tmp_path, told.append)
    assert told == [search.Tried(n, 3) for n in (1, 2, 3)] and best.trials == 3
    back = load("power/city", {"train.agent": read_hyperparameters(tmp_path / search.FOUND, "power/city")}).train.agent
    assert back == best.agent and back.kind == agent["kind"]
    assert getattr(back, "batch_size", 64) <= getattr(back, "buffer_size", 64)
    how = study(agent).train.model_copy(update={"agent": back})
    training = recorded_training.begun(Ground(None, None), how, 0)
    again = recorded_training.learn(training, known(1), 2, tmp_path / "c", "", lambda point, last: None)
    assert again.score == best.cost
    assert not (tmp_path / "checkpoint.npz").exists()


def test_an_interrupted_search_finds_the_same(tmp_path):
    agent = AGENTS[3]
    whole = search.search(study(agent), "power/city", 7, 3, tmp_path / "a", lambda now: None)

    def stop(now):
        if now.done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search.search(study(agent), "power/city", 7, 3, tmp_path / "b", stop)
    broken = optuna.load_study(study_name="search", storage=_storage(tmp_path / "b"))
    broken.ask()  # a trial that was begun when the program ended
    told = []
    again = search.search(study(agent), "power/city", 7, 3, tmp_path / "b", told.append)
    assert [now.done for now in told] == [5, 6, 7]
    assert again == whole and found(tmp_path / "a") == found(tmp_path / "b")
    assert search.search(study(agent), "power/city", 7, 3, tmp_path / "b", told.append) == whole and len(told) == 3
    other = search.search(study(agent), "power/city", 7, 4, tmp_path / "c", lambda now: None)
    assert other.agent != whole.agent


def _storage(folder):
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    return JournalStorage(JournalFileBackend(str(folder / search.TRIALS)))


def test_weak_trials_end_early(tmp_path, monkeypatch):
    """Trials whose costs rise from one to the next: all but the first ones are worse than the median."""
    costs, ended = iter(range(100)), []

    def learn(training, chosen_on, every, checkpoint, text, tell):
        cost = float(next(costs))
        for step in (0, 2, 4):
            ended.append((int(cost), step))
            tell(SimpleNamespace(score=cost, step=step), step == 4)
        return SimpleNamespace(score=cost)

    monkeypatch.setattr(recorded_training, "learn", learn)
    best = search.search(study(AGENTS[3]), "power/city", 6, 0, tmp_path, lambda now: None)
    assert best.cost == 0 and best.pruned == 2
    assert [step for cost, step in ended if cost == 1] == [0, 2, 4] and (5, 4) not in ended


@pytest.mark.parametrize(
    ("agent", "said"),
    [({"kind": "ddpg"}, "ddpg learns in the environment itself; take train.agent: {kind: score-function}")],
)
def test_agents_that_learn_elsewhere_are_refused(agent, said, tmp_path):
    with pytest.raises(BadInput, match=said):
        search.search(study(agent), "power/city", 2, 0, tmp_path / "s", lambda now: None)
    assert not (tmp_path / "s").exists()


def test_other_searches_and_damaged_files_are_refused(tmp_path):
    def again(seed=0, **more):
        return search.search(study(AGENTS[3]), "power/city", 1, seed, tmp_path, lambda now: None, **more)

    again()
    with pytest.raises(BadInput, match="holds the search of another study, seed or program version; add --replace"):
        again(seed=1)
    again(seed=1, replace=True)
    (tmp_path / search.TRIALS).write_text('{"op_code": 99}\n{"x')
    with pytest.raises(BadInput, match=r"trials\.log: cannot be gone on with .*delete it to start again") as error:
        again(seed=1)
    assert len(error.value.lines) == 1


def test_the_command_writes_and_says_where(tmp_path, capsys):
    out = tmp_path / "s"
    given = ["train", "power/city", "--set", "train.steps=4", "--set", "train.eval_every=2", "--quiet"]
    assert main([*given, "--search", "2", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "power/city: 2 trials" in said and f"--hyperparameters {out / search.FOUND}" in said
    assert b"kind: score-function" in found(out)
    for more, why in ([["--search", "0"], "1 or more"], [["--search", "2", "--seed", "1", "2"], "takes one --seed"]):
        assert main([*given, *more, "--out", str(tmp_path / "n")]) == 2
        assert why in capsys.readouterr().err and not (tmp_path / "n").exists()
    assert main(["train", "power/paper", "--search", "2", "--out", str(tmp_path / "n")]) == 2
    assert "ddpg learns in the environment itself" in capsys.readouterr().err and not (tmp_path / "n").exists()


def test_a_missing_library_is_one_line(tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "optuna" else find(name))
    with pytest.raises(BadInput, match=r"optuna is not installed; pip install 'netsim-fl\[tune\]'"):
        search.search(study(AGENTS[3]), "power/city", 2, 0, tmp_path / "s", lambda now: None)
    assert not (tmp_path / "s").exists()
