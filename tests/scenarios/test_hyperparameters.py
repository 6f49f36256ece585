"""Files of hyper-parameters: which agent they give, what is refused, and that a training holds what it used."""

import pytest

from netsim.errors import BadInput
from rl.agents import SacAgent, Td3Agent
from scenarios.app.cli.commands import main
from scenarios.app.study.load import load
from scenarios.app.training.hyperparameters import hyperparameters_yaml, read_hyperparameters

GOOD = """\
power/city: {kind: td3, learning_rate: 0.002}
default:
  kind: score-function
  actions: 8
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        (tmp_path / "h.yaml").write_text(text)
        return tmp_path / "h.yaml"

    return write


def test_a_scenario_has_its_own_agent_and_others_the_default(file):
    path = file(GOOD)
    agents = [read_hyperparameters(path, name) for name in ("power/city", "elsewhere")]
    assert agents == [{"kind": "td3", "learning_rate": 0.002}, {"kind": "score-function", "actions": 8}]
    assert load("power/city", {"train.agent": agents[0]}).train.agent == Td3Agent(learning_rate=0.002)


def test_a_file_that_is_written_is_read_back(file):
    agent = SacAgent(batch_size=64, target_std=0.05)
    found = read_hyperparameters(file(hyperparameters_yaml("power/city", agent)), "power/city")
    assert load("power/city", {"train.agent": found}).train.agent == agent


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("power/city: {kind: td3, learning_rat: 1}", r"h\.yaml:1: .*learning_rat.*learning_rate"),
        ("power/city:\n  kind: td3\n  batch_size: many", r"h\.yaml:3: .*batch_size.*many"),
        ("power/city: {kind: sac}\ndefault: {kind: ppo}", r"h\.yaml:2: default.*unknown kind 'ppo'"),
        ("power/city: 3", r"h\.yaml:1: .*number 3"),
        ("power/town: {kind: sac}", r"h\.yaml: has no agent for power/city.*power/town.*no default"),
        ("- 3", "this is a list; write a mapping"),
        ("", "empty"),
        ("power/city: {kind: td3, learning_rate: -1}", r"h\.yaml:1: .*learning_rate.*-1"),
        ("a: {kind: td3", r"h\.yaml:1"),
    ],
)
def test_what_cannot_be_used_is_one_line_with_its_place(text, said, file):
    with pytest.raises(BadInput, match=said) as error:
        read_hyperparameters(file(text), "power/city")
    assert len(error.value.lines) == 1


def test_the_command_refuses_before_anything_is_written(file, tmp_path, capsys):
    out = tmp_path / "t"
    path = file("power/city: {kind: td3, wings: 2}")
    assert main(["train", "power/city", "--hyperparameters", str(path), "--out", str(out)]) == 2
    assert f"{path}:1: " in capsys.readouterr().err and not out.exists()
    assert main(["train", "power/city", "--hyperparameters", str(tmp_path / "no"), "--out", str(out)]) == 2
    assert "no such file" in capsys.readouterr().err
    assert main(["train", "town", "--hyperparameters", str(file(GOOD)), "--out", str(out)]) == 2
    assert "has no `train:` section" in capsys.readouterr().err and not out.exists()


@pytest.mark.slow
def test_a_training_holds_what_it_used_and_is_not_gone_on_with_by_others(file, tmp_path, monkeypatch, capsys):
    """The resolved study has the values; --set overrides the file; another file is another training."""
    from scenarios.app.training import train as module

    trained = []

    def stop(study, *rest):
        trained.append(study.train.agent)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_one", stop)
    common = ["train", "power/city", "--quiet", "--out", str(tmp_path / "t"), "--hyperparameters", str(file(GOOD))]
    main(common)
    main([*common, "--set", "train.agent.learning_rate=0.004"])
    assert trained == [Td3Agent(learning_rate=0.002), Td3Agent(learning_rate=0.004)]
    monkeypatch.undo()
    small = ["--set", "world.duration_s=120", "--set", "train.task.tune_worlds=1", "--set", "train.task.held_out=1",
             "--set", "train.task.tune_evaluations=100", "--set", "train.task.eval_worlds=1", "--steps", "2",
             "--set", "train.agent.worlds=1"]  # fmt: skip
    assert main([*common, *small]) == 0
    assert "learning_rate: 0.002" in (tmp_path / "t" / "study.yaml").read_text()
    capsys.readouterr()
    assert main([*common, *small, "--set", "train.agent.learning_rate=0.003"]) == 2
    assert "holds the finished training of another study" in capsys.readouterr().err
