"""Data files that change, or go, between an interruption and the command that goes on."""

import json

import pytest
from accidents import RADIO, TRACE, content, interrupted, refused
from conftest import TINY

from scenarios.app.cli.commands import main
from scenarios.app.run.runner import run_job


@pytest.fixture
def replayed(tmp_path):
    """Kind -> the words of a command that reads `trace.csv`, and the folder that it writes."""
    (tmp_path / "trace.csv").write_text(TRACE)
    ues = {"mobility": {"kind": "replay", "trace": str(tmp_path / "trace.csv")}}
    for name, study in (("run", TINY), ("radio", RADIO)):
        world = {**study["world"], "ues": ues, "duration_s": 21_600, "tick_s": 600}
        world["radio"] = {key: value for key, value in world["radio"].items() if key == "handover"}
        learning = study["learning"] and {**study["learning"], "round_s": 3600}
        (tmp_path / f"{name}.yaml").write_text(
            json.dumps({**study, "world": world, "learning": learning})
        )
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
    trace = tmp_path / "trace.csv"
    out = tmp_path / "out"
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
    tables = {
        name: data for name, data in content(tmp_path / "whole").items() if name.endswith(".csv")
    }
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


def test_the_text_of_a_job_names_the_files_that_it_reads(study, tiny, tmp_path):
    assert f'# reads "{tmp_path / "trace.csv"}" ' in run_job(study, tmp_path / "out").text
    assert "# reads" not in run_job(tiny(), tmp_path / "out").text
