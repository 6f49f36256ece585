"""Data files that change, or go, between an interruption and the command that goes on."""

import json

import pytest
from accidents import RADIO, TRACE, content, interrupted, refused
from conftest import TINY

from scenarios.app.cli.commands import main
from scenarios.app.run.inputs import admit_text, read_lines


@pytest.fixture
def replayed(tmp_path):
    """Kind -> the words of a command that reads `trace.csv`, and the folder that it writes."""
    (tmp_path / "trace.csv").write_text(TRACE)
    ues = {"mobility": {"kind": "replay", "trace": str(tmp_path / "trace.csv")}}
    for name, study in (("run", TINY), ("radio", RADIO)):
        world = {**study["world"], "ues": ues, "duration_s": 21_600, "tick_s": 600}
        world["radio"] = {key: value for key, value in world["radio"].items() if key == "handover"}
        learning = study["learning"] and {**study["learning"], "round_s": 3600}
        (tmp_path / f"{name}.yaml").write_text(json.dumps({**study, "world": world, "learning": learning}))
    brief = ["--set", "learning.attacks=[]", "--set", "learning.learner.hidden=[8]"]
    return {
        "run": ["run", str(tmp_path / "run.yaml"), "--quiet"],
        "radio": ["run", str(tmp_path / "radio.yaml"), "--quiet"],
        "replay": ["replay", str(tmp_path / "trace.csv"), "--round", "1h", *brief, "--quiet"],
    }


@pytest.mark.parametrize("kind", ["run", "radio", "replay"])
def test_a_file_that_changed_is_refused_and_one_that_is_as_it_was_goes_on(
    kind, replayed, tmp_path, monkeypatch, capsys
):
    trace, out = tmp_path / "trace.csv", tmp_path / "out"
    words = [*replayed[kind], "--out", str(out)]
    interrupted(words, monkeypatch)
    assert list(out.rglob("checkpoint.npz"))
    trace.write_text(TRACE.replace("-70,a", "-71,a", 1))
    refused(words, out, capsys, "trace.csv", "with other content", "--replace")
    trace.unlink()
    refused(words, out, capsys, "trace.csv")
    trace.write_text(TRACE)
    assert main(words) == 0
    assert main([*replayed[kind], "--out", str(tmp_path / "whole")]) == 0
    tables = {name: data for name, data in content(tmp_path / "whole").items() if name.endswith(".csv")}
    assert len(tables) > 2
    assert {name: data for name, data in content(out).items() if name.endswith(".csv")} == tables


def test_a_file_that_changed_may_be_read_anew(replayed, tmp_path, monkeypatch):
    words = [*replayed["radio"], "--out", str(tmp_path / "out")]
    interrupted(words, monkeypatch)
    (tmp_path / "trace.csv").write_text(TRACE.replace("-70,a", "-71,a"))
    assert main([*words, "--replace"]) == 0


@pytest.fixture
def study(replayed, tmp_path):
    from scenarios.app.study.load import load

    return load(str(tmp_path / "run.yaml"))


def test_the_text_of_a_training_or_tuning_tells_of_its_files(study, tmp_path):
    """What trainings, searches and tunings keep: each file by its digest, and which one changed."""
    from netsim.errors import BadInput

    text = f"# seed 1\n{read_lines(study)}title: x\n"
    assert f'# reads "{tmp_path / "trace.csv"}" ' in text
    (tmp_path / "study.yaml").write_text(text)
    admit_text(tmp_path / "study.yaml", text, "tuning", "goals")
    (tmp_path / "trace.csv").write_text(TRACE + "\n")
    other = f"# seed 1\n{read_lines(study)}title: x\n"
    assert other != text
    with pytest.raises(BadInput, match=r"holds the tuning that read .*trace\.csv with other content; add --replace"):
        admit_text(tmp_path / "study.yaml", other, "tuning", "goals")
    with pytest.raises(BadInput, match="holds the tuning of another goals"):
        admit_text(tmp_path / "study.yaml", other + "# more\n", "tuning", "goals")
    with pytest.raises(BadInput, match="holds the tuning of another goals"):
        admit_text(tmp_path / "none.yaml", text, "tuning", "goals")


def test_a_study_without_files_has_no_lines(tiny):
    assert read_lines(tiny()) == ""
