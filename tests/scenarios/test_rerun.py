"""A finished run is repeated from its folder, and every number is compared."""

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

from netsim.errors import BadInput
from netsim.record import write_json
from scenarios.app.cli.commands import main
from scenarios.app.rerun import compared, differences_in, rerun
from scenarios.app.result import run
from scenarios.app.run.runner import RUN


@pytest.fixture
def one(tiny_run, tmp_path):
    """A copy of a finished run."""
    return shutil.copytree(tiny_run, tmp_path / "one")


def test_a_run_repeats_to_the_byte_and_the_repetition_is_not_kept(one, capsys):
    before = {path.name: path.read_bytes() for path in one.iterdir()}
    assert main(["rerun", str(one), "--quiet"]) == 0
    assert capsys.readouterr().out == f"{one}: the same, byte by byte\n"
    assert {path.name: path.read_bytes() for path in one.iterdir()} == before


def test_a_changed_number_is_named_with_the_table_the_column_and_the_row(one, tmp_path, capsys):
    header, *rows = (one / "updates.csv").read_text().splitlines()
    cells = rows[2].split(",")
    cells[header.split(",").index("weight")] = "12345"
    (one / "updates.csv").write_text(
        "\n".join([header, *rows[:2], ",".join(cells), *rows[3:]]) + "\n"
    )
    summary = json.loads((one / "summary.json").read_text())
    key = next(k for k, v in summary.items() if isinstance(v, float) and v)
    write_json(one / "summary.json", summary | {key: summary[key] * (1 + 1e-6)})
    assert main(["rerun", str(one), "--quiet", "--out", str(tmp_path / "again")]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert said.startswith(f"{one}: differs summary.json, {key}: ")
    assert (
        f"updates.csv, weight: 1 of {len(rows)} values differ, first in row 3: '12345' and " in said
    )
    assert (tmp_path / "again" / "summary.json").is_file()


def test_missing_files_rows_and_arrays_are_told(tmp_path):
    a = tmp_path / "a"
    b = tmp_path / "b"
    for folder, values in ((a, [1.0, 2.0]), (b, [1.0, 2.5])):
        folder.mkdir()
        np.savez(folder / "map.npz", m=np.array(values))
        (folder / "ues.csv").write_text(f"ue,x,y\n0,{values[1]},{values[1] + 100}\n")
    (a / "links.csv").write_text("x\n1\n")
    (b / "spends.csv").write_text("x,y\n")  # of an earlier version
    (a / "updates.csv").write_text("x\n1\n")
    (b / "updates.csv").write_text("x\n1\n2\n")
    found = [
        *differences_in(a, b, ["ues.csv", "map.npz", "links.csv", "updates.csv", "spends.csv"])
    ]
    assert found[:2] == ["ues.csv, x: '2.0' and '2.5'", "ues.csv, y: '102.0' and '102.5'"]
    assert found[2] == "map.npz, m: 1 of 2 values differ, first in row 2: '2.0' and '2.5'"
    assert found[3:] == [
        "links.csv, x: '1' and 'nothing'",
        "updates.csv, x: 1 of 2 values differ, first in row 2: 'nothing' and '2'",
    ]


def test_every_record_is_compared(one, tmp_path):
    rerun(one, tmp_path / "again", None, lambda *_: None)
    written = {path.name for path in (tmp_path / "again").iterdir()}
    assert written - set(compared(RUN)) == {".netsim", "study.yaml", "manifest.json"}


def test_of_a_sweep_the_runs_of_a_label_are_repeated(one, tmp_path, capsys):
    sweep = tmp_path / "sweep"
    for inner in ("x=1-y/r0", "other/r1", "x=1-y/r2"):
        shutil.copytree(one, sweep / inner)
    assert main(["rerun", str(sweep), "--only", "x=1, y", "--json", "--quiet"]) == 0
    event = json.loads(capsys.readouterr().out)
    assert [run["folder"] for run in event["runs"]] == [
        str(sweep / "x=1-y/r0"),
        str(sweep / "x=1-y/r2"),
    ]
    with pytest.raises(BadInput, match="no finished run or training of the label z in it"):
        rerun(sweep, tmp_path / "again", "z", lambda *_: None)


def test_what_cannot_be_repeated_is_one_line_and_nothing_is_written(one, tmp_path, capsys):
    manifest = json.loads((one / "manifest.json").read_text())
    write_json(one / "manifest.json", manifest | {"schema": -1})
    assert main(["rerun", str(one), "--out", str(tmp_path / "again")]) == 2
    assert "run the study again" in capsys.readouterr().err
    write_json(one / "manifest.json", manifest)
    assert main(["rerun", str(one), "--out", str(one / "again")]) == 2
    (one / "summary.json").unlink()
    assert main(["rerun", str(one), "--out", str(tmp_path / "again")]) == 2
    assert "no finished run" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()


def test_of_a_folder_all_finished_runs_below_are_repeated(one, tmp_path, capsys):
    place = tmp_path / "all"
    for inner in ("a", "swept/r0", "tuned/trial-1/seed-4", "open"):
        shutil.copytree(one, place / inner)
    (place / "open" / "summary.json").unlink()
    (place / "notes").mkdir()
    assert main(["rerun", str(place), "--json", "--quiet"]) == 0
    event = json.loads(capsys.readouterr().out)
    labels = ["a", "swept/r0", "tuned/trial-1/seed-4"]
    assert [(run["folder"], run["same"]) for run in event["runs"]] == [
        (str(place / label), True) for label in labels
    ]
    with pytest.raises(BadInput, match="no finished run or training in it"):
        rerun(place / "notes", tmp_path / "again", None, lambda *_: None)


def test_a_trace_that_changed_or_is_gone_is_named(tiny, tmp_path, capsys):
    trace = tmp_path / "trace.csv"
    lines = [f"{10 * k},u,{48.0 + 1e-5 * k},2.0" for k in range(200)]
    trace.write_text("time_s,user,lat,lon\n" + "\n".join(lines) + "\n")
    study = tiny({"world.ues": {"mobility": {"kind": "replay", "trace": str(trace)}}})
    run(study, tmp_path / "run")
    assert str(trace) in json.loads((tmp_path / "run" / "manifest.json").read_text())["files"]
    trace.write_text("time_s,user,lat,lon\n" + "\n".join(lines[:-1]) + "\n")
    assert main(["rerun", str(tmp_path / "run"), "--quiet"]) == 2
    assert (
        f"{trace} has other content than when this run read it; put it back"
        in capsys.readouterr().err
    )
    trace.unlink()
    assert main(["rerun", str(tmp_path / "run"), "--quiet"]) == 2
    assert "is gone or cannot be read; put it back" in capsys.readouterr().err


def test_a_repetition_that_is_ended_leaves_no_folder(one, tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", WAITING_RERUN, str(one)]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.read(1) == b"."
        process.send_signal(signal.SIGTERM)
        process.wait()
    assert not list(tmp_path.glob("netsim-rerun-*"))


WAITING_RERUN = """
import sys, time
import scenarios.app.rerun as rerun
from scenarios.app.cli.commands import main
def waits(*args):
    print(".", end="", flush=True)
    time.sleep(60)
rerun.do = waits
sys.exit(main(["rerun", sys.argv[1], "--quiet"]))
"""
