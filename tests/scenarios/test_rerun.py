"""A finished run is repeated from its folder, and every number is compared."""

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
from pytest import fixture
from refused import catch_line

from netsim.record import write_json
from scenarios.app.cli.commands import main
from scenarios.app.rerun import compare_tables, list_compared_files, rerun_folder
from scenarios.app.result import run
from scenarios.app.results.folder import read_json, read_summary
from scenarios.app.run.runner import RUN


@fixture
def run_folder(tiny_run, tmp_path):
    """A copy of a finished run."""
    return shutil.copytree(tiny_run, tmp_path / "one")


def test_a_run_repeats_to_the_byte_and_the_repetition_is_not_kept(run_folder, run_command):
    before = {path.name: path.read_bytes() for path in run_folder.iterdir()}
    assert run_command(f"rerun {run_folder} --quiet") == f"{run_folder}: the same, byte by byte\n"
    assert {path.name: path.read_bytes() for path in run_folder.iterdir()} == before


def test_a_changed_number_is_named_with_the_table_the_column_and_the_row(run_folder, out, capsys):
    header, *rows = (run_folder / "updates.csv").read_text().splitlines()
    cells = rows[2].split(",")
    cells[header.split(",").index("weight")] = "12345"
    (run_folder / "updates.csv").write_text(
        "\n".join([header, *rows[:2], ",".join(cells), *rows[3:]]) + "\n"
    )
    summary = read_summary(run_folder)
    key = next(k for k, v in summary.items() if isinstance(v, float) and v)
    write_json(run_folder / "summary.json", summary | {key: summary[key] * (1 + 1e-6)})
    assert main(["rerun", str(run_folder), "--quiet", "--out", str(out)]) == 1
    printed = " ".join(capsys.readouterr().out.split())
    assert printed.startswith(f"{run_folder}: differs summary.json, {key}: ")
    assert (
        f"updates.csv, weight: 1 of {len(rows)} values differ, first in row 3: '12345' and "
        in printed
    )
    assert (out / "summary.json").is_file()


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
    result = [
        *compare_tables(a, b, ["ues.csv", "map.npz", "links.csv", "updates.csv", "spends.csv"])
    ]
    assert result[:2] == ["ues.csv, x: '2.0' and '2.5'", "ues.csv, y: '102.0' and '102.5'"]
    assert result[2] == "map.npz, m: 1 of 2 values differ, first in row 2: '2.0' and '2.5'"
    assert result[3:] == [
        "links.csv, x: '1' and 'nothing'",
        "updates.csv, x: 1 of 2 values differ, first in row 2: 'nothing' and '2'",
    ]


def test_every_record_is_compared(run_folder, out):
    rerun_folder(run_folder, out, None, lambda *_: None)
    written = {path.name for path in (out).iterdir()}
    assert written - set(list_compared_files(RUN)) == {".netsim", "study.yaml", "manifest.json"}


def test_of_a_sweep_the_runs_of_a_label_are_repeated(run_folder, tmp_path, run_command):
    sweep = tmp_path / "sweep"
    for inner in ("x=1-y/r0", "other/r1", "x=1-y/r2"):
        shutil.copytree(run_folder, sweep / inner)
    event = json.loads(run_command(f"rerun {sweep} --only", "x=1, y", "--json", "--quiet"))
    assert [run["folder"] for run in event["runs"]] == [
        str(sweep / "x=1-y/r0"),
        str(sweep / "x=1-y/r2"),
    ]
    assert "no finished run or training of the label z in it" in catch_line(
        rerun_folder, sweep, tmp_path / "again", "z", lambda *_: None
    )


def test_what_cannot_be_repeated_is_one_line_and_nothing_is_written(
    run_folder, tmp_path, refuse_command
):
    manifest = read_json(run_folder / "manifest.json")
    write_json(run_folder / "manifest.json", manifest | {"schema": -1})
    assert "run the study again" in refuse_command(f"rerun {run_folder} --out {tmp_path}/again")
    write_json(run_folder / "manifest.json", manifest)
    assert main(["rerun", str(run_folder), "--out", str(run_folder / "again")]) == 2
    (run_folder / "summary.json").unlink()
    assert "no finished run" in refuse_command(f"rerun {run_folder} --out {tmp_path}/again")
    assert not (tmp_path / "again").exists()


def test_of_a_folder_all_finished_runs_below_are_repeated(run_folder, tmp_path, run_command):
    place = tmp_path / "all"
    for inner in ("a", "swept/r0", "tuned/trial-1/seed-4", "open"):
        shutil.copytree(run_folder, place / inner)
    (place / "open/summary.json").unlink()
    (place / "notes").mkdir()
    event = json.loads(run_command(f"rerun {place} --json --quiet"))
    labels = ["a", "swept/r0", "tuned/trial-1/seed-4"]
    assert [(run["folder"], run["same"]) for run in event["runs"]] == [
        (str(place / label), True) for label in labels
    ]
    assert "no finished run or training in it" in catch_line(
        rerun_folder, place / "notes", tmp_path / "again", None, lambda *_: None
    )


def test_a_trace_that_changed_or_is_gone_is_named(tiny, tmp_path, refuse_command):
    trace = tmp_path / "trace.csv"
    lines = [f"{10 * k},u,{48.0 + 1e-5 * k},2.0" for k in range(200)]
    trace.write_text("time_s,user,lat,lon\n" + "\n".join(lines) + "\n")
    study = tiny({"world.ues": {"mobility": {"kind": "replay", "trace": str(trace)}}})
    run(study, tmp_path / "run")
    assert str(trace) in read_json(tmp_path / "run/manifest.json")["files"]
    trace.write_text("time_s,user,lat,lon\n" + "\n".join(lines[:-1]) + "\n")
    assert f"{trace} has other content than when this run read it; put it back" in refuse_command(
        f"rerun {tmp_path}/run --quiet"
    )
    trace.unlink()
    assert "is gone or cannot be read; put it back" in refuse_command(
        f"rerun {tmp_path}/run --quiet"
    )


def test_a_repetition_that_is_ended_leaves_no_folder(run_folder, tmp_path):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", WAITING_RERUN, str(run_folder)]
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
rerun.do_job = waits
sys.exit(main(["rerun", sys.argv[1], "--quiet"]))
"""
