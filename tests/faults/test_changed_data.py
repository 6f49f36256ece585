"""Data files that change, or go, between an interruption and the command that goes on."""

import json

from accidents import RADIO, TRACE, check_refusal, content, interrupt_command
from conftest import TINY
from pytest import fixture, mark

from scenarios.app.cli.commands import main
from scenarios.app.run.runner import build_run_job


@fixture
def commands_by_kind(tmp_path):
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


@mark.parametrize("kind", ["run", "radio", "replay"])
def test_a_file_that_changed_is_refused_and_one_that_is_as_it_was_goes_on(
    kind, commands_by_kind, tmp_path, out, whole, monkeypatch, capsys
):
    trace = tmp_path / "trace.csv"
    words = [*commands_by_kind[kind], "--out", str(out)]
    interrupt_command(words, monkeypatch)
    assert list(out.rglob("checkpoint.npz"))
    trace.write_text(TRACE.replace("-70,a", "-71,a", 1))
    check_refusal(words, out, capsys, "trace.csv", "with other content", "--replace")
    trace.unlink()
    check_refusal(words, out, capsys, "trace.csv")
    trace.write_text(TRACE)
    assert main(words) == 0
    assert main([*commands_by_kind[kind], "--out", str(whole)]) == 0
    tables = {name: data for name, data in content(whole).items() if name.endswith(".csv")}
    assert len(tables) > 2
    assert {name: data for name, data in content(out).items() if name.endswith(".csv")} == tables


def test_a_file_that_changed_may_be_read_anew(commands_by_kind, tmp_path, monkeypatch, run_command):
    words = [*commands_by_kind["radio"], "--out", str(tmp_path / "out")]
    interrupt_command(words, monkeypatch)
    (tmp_path / "trace.csv").write_text(TRACE.replace("-70,a", "-71,a"))
    run_command([*words, "--replace"])


@fixture
def study(commands_by_kind, tmp_path):
    from scenarios.app.study.load import load

    return load(str(tmp_path / "run.yaml"))


def test_the_text_of_a_job_names_the_files_that_it_reads(study, tiny, tmp_path, out):
    assert f'# reads "{tmp_path / "trace.csv"}" ' in build_run_job(study, out).text
    assert "# reads" not in build_run_job(tiny(), out).text
