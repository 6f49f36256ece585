"""`--json`: lines that parse, on stdout alone; errors are events too."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import ROOT, SHORT, write_campus, write_tiny
from pytest import mark
from refused import read_cases

from scenarios.app.cli.commands import main
from scenarios.app.results.folder import read_summary

DOCUMENTED = set(re.findall(r"`(\w+)`", (ROOT / "docs/terminal.md").read_text()))


def events(capsys):
    out, errors = capsys.readouterr()
    assert errors == ""

    def refuse(name):
        raise AssertionError(f"{name} is no JSON")

    report = [json.loads(line, parse_constant=refuse) for line in out.splitlines()]
    keys = {key for event in report for key in event} | {
        key for e in report for part in _inner(e) for key in part
    }
    assert keys <= DOCUMENTED, f"not in docs/terminal.md: {keys - DOCUMENTED}"
    return report


def _inner(event):
    """What stands in lists and by attack; a summary has a page of its own."""
    runs = [run for name in ("runs", "trainings") for run in event.get(name, [])]
    return [*runs, *event.get("attacks", {}).values()]


def test_a_run_tells_its_rounds_and_its_result(out, capsys):
    folder = out
    assert main(["run", "campus", "--out", str(folder), "--json", *SHORT]) == 0
    *rounds, result = events(capsys)
    assert [(e["event"], e["done"], e["of"]) for e in rounds] == [
        ("round", n, 3) for n in (1, 2, 3)
    ]
    assert rounds[-1]["left_s"] == 0.0
    assert rounds[0]["attacks"]["closed-form"]["centroid_error_m"]
    assert result["kind"] == "run"
    assert result["folder"] == str(folder)
    assert result["summary"] == read_summary(folder)
    assert Path(result["page"]).is_file()
    assert result["seed"] == 4
    assert main(["run", "campus", "--out", str(folder), "--json", "--quiet", *SHORT]) == 0
    assert [e["event"] for e in events(capsys)] == ["result"]
    assert main(["show", str(folder), "--json"]) == 0
    assert events(capsys) == [result]


def test_a_sweep_tells_its_runs(tmp_path, out, capsys):
    scenario = write_campus(tmp_path / "s.yaml", "vary: {seed: [1, 2]}\n")
    assert main(f"sweep {scenario} --jobs 1 --out {out} --json".split()) == 0
    *runs, result = events(capsys)
    assert [(e["event"], e["done"], e["of"], e["seed"]) for e in runs] == [
        ("run", 1, 2, 1),
        ("run", 2, 2, 2),
    ]
    assert [r["summary"] for r in result["runs"]] == [e["summary"] for e in runs]
    assert Path(result["table"]).is_file()
    assert Path(result["runs"][0]["folder"], "summary.json").is_file()
    assert main(["show", str(out), "--json"]) == 0
    assert events(capsys) == [result]


@mark.slow
def test_a_replay_tells_both_runs(out, capsys):
    trace = str(ROOT / "scenarios/examples/commuter.csv.gz")
    words = [
        "replay",
        trace,
        "--published",
        "--round",
        "7d",
        "--out",
        str(out),
        "--json",
        "--set",
    ]
    assert main([*words, "learning.attacks=[{kind: closed-form}]"]) == 0
    first, *rounds, result = events(capsys)
    assert first["event"] == "trace"
    assert "rows used" in first["lines"][0]
    assert {e["title"] for e in rounds} == {"standardised-by-dataset", "standardised-by-public"}
    assert result["kind"] == "runs"
    assert len(result["runs"]) == 2
    assert result["page"] == str(out / "report.html")


ERRORS = """
run campos --json
    campos
run --json
    scenario
run campus --seed x --json
    invalid int
show nowhere --json
    no such folder
"""


@mark.parametrize("words, message", read_cases(ERRORS))
def test_an_error_is_the_last_event(words, message, capsys):
    assert main(words.split()) == 2
    (event,) = events(capsys)
    assert (event["event"], event["exit_code"]) == ("error", 2)
    assert message in " ".join(event["lines"])


def test_an_interruption_is_an_event(monkeypatch, out, capsys):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("scenarios.app.run.simulate.LearningPlay.play", stop)
    assert main(f"run campus --out {out} --json".split()) == 130
    assert events(capsys) == [
        {
            "event": "error",
            "lines": ["interrupted; the same command goes on where it stopped"],
            "exit_code": 130,
        }
    ]


@mark.parametrize(
    "out, message", [("| true", ""), ("> /dev/full", "netsim: nowhere: no such folder")]
)
def test_an_error_that_nobody_can_read_is_no_traceback(out, message):
    command = f"{sys.executable} -m scenarios.app.cli.commands show nowhere --json"
    shell = ["bash", "-c", f"{{ {command}; echo $? >&2; }} {out}"]
    ended = subprocess.run(shell, cwd=ROOT, capture_output=True, text=True)
    assert ended.stderr.startswith(message)
    assert ended.stderr.endswith("2\n")
    assert ended.stderr.count("\n") == 1 + bool(message)


@mark.parametrize("words, buffered", [("list", ""), ("--help", "1")])
def test_output_that_cannot_be_written_is_one_line(words, buffered):
    command = [sys.executable, "-m", "scenarios.app.cli.commands", *words.split()]
    environment = os.environ | {"PYTHONUNBUFFERED": buffered}
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith(
        "netsim: stdout: cannot be written (No space left on device); make room"
    )


@mark.parametrize("stream", [">&-", "2>/dev/full"])
def test_a_command_whose_words_nobody_hears_does_its_work(stream, tmp_path, out):
    write_tiny(tmp_path / "tiny.yaml")
    start = (
        f"{sys.executable} -c 'from scenarios.app.cli.start import main; raise SystemExit(main())'"
    )
    command = (
        f"{{ {start} run {tmp_path / 'tiny.yaml'} --out {out}; echo $? > "
        f"{tmp_path / 'code'}; }} {stream}"
    )
    ended = subprocess.run(["bash", "-c", command], cwd=ROOT, capture_output=True, text=True)
    assert (tmp_path / "code").read_text() == "0\n" and "Exception" not in ended.stderr, ended
    assert (out / "summary.json").exists()
