"""Record tables: written from their first row on, kept in memory as their files say, and missed
where they are lost."""

import json
import os
import pickle
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from conftest import TINY
from pages import read_json
from refused import catch_line

import scenarios
from fl.round.tables import TABLES
from netsim import safe
from netsim.record import Column, Recorder
from scenarios.app.cli.commands import main
from scenarios.app.report.report import write_report
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.run import play

SCHEMAS = {
    "a": {"number": Column(""), "said": Column("", type="text")},
    "b": {"flag": Column("", type="flag")},
}
ROWS = {
    "number": [1 / 3, np.inf, 2e-300, None],
    "said": ["=1+1", "", "two\r\nlines, quoted", "'kept"],
}


@pytest.fixture
def copy_run(tiny_run, tmp_path):
    """A copy of the folder of a finished run."""
    return Path(shutil.copytree(tiny_run, tmp_path / "copy"))


def test_tables_without_rows_have_no_file_and_the_manifest_counts_those_of_others(tiny_run):
    counts = read_json(tiny_run / "manifest.json")["tables"]
    assert {f"{name}.csv" for name in counts} == {path.name for path in tiny_run.glob("*.csv")}
    assert min(counts.values()) > 0
    assert "spends" not in counts
    assert len(counts) > 4
    for name, count in counts.items():
        columns = read_record_table(tiny_run, name).values()
        assert {len(column) for column in columns} == {count}


def test_a_table_without_a_file_is_one_without_rows(copy_run):
    frame = scenarios.open_run(copy_run).tables["curation"]
    assert not len(frame)
    assert {"round", "ue", "ue_name", "time"} < set(frame.columns)
    table = read_record_table(copy_run, "curation")
    assert list(table) == list(TABLES["curation"])
    assert not any(map(len, table.values()))


@pytest.mark.parametrize(
    "earlier", [False, True], ids=["listed", "of an earlier version, which lists none"]
)
def test_a_lost_table_is_one_line_and_not_an_empty_one(copy_run, earlier, capsys):
    lost = "curation.csv" if earlier else "leakage.csv"
    (copy_run / lost).unlink(missing_ok=True)
    if earlier:
        manifest = read_json(copy_run / "manifest.json")
        del manifest["tables"]
        (copy_run / "manifest.json").write_text(json.dumps(manifest))
        for name in TABLES.keys() - {"curation"}:
            path = copy_run / f"{name}.csv"
            path.write_text(path.read_text() if path.exists() else ",".join(TABLES[name]) + "\n")
    text = f"{copy_run / lost}: is gone, and the run wrote it; put it back, or run the study again"
    assert catch_line(write_report, copy_run) == text
    assert catch_line(read_record_table, copy_run, lost.removesuffix(".csv")) == text
    assert main(["report", str(copy_run)]) == 2
    assert capsys.readouterr().err == f"netsim: {text}\n"


def same(item, second):
    for name in item.keys() | second.keys():
        np.testing.assert_array_equal(item[name], second[name])
        assert item[name].dtype == second[name].dtype


def test_a_recorder_has_what_its_file_says(tmp_path, monkeypatch):
    monkeypatch.setattr("scenarios.app.results.folder.EVERY", SCHEMAS)
    recorder = Recorder(tmp_path, SCHEMAS)
    for selected in (slice(0, 2), slice(2, 2), slice(2, 4)):
        recorder.write("a", {name: values[selected] for name, values in ROWS.items()})
    result = recorder.read_columns("a")
    same(result, read_record_table(tmp_path, "a", ()))
    assert result["number"][0] == 0.333333333
    assert result["said"].tolist() == ROWS["said"]
    assert recorder.count_rows() == {"a": 4}
    assert not (tmp_path / "b.csv").exists()
    same(recorder.read_columns("b"), {"flag": np.zeros(0)})


def test_a_table_that_was_begun_after_the_checkpoint_vanishes_and_others_are_kept_as_they_were(
    tmp_path,
):
    recorder = Recorder(tmp_path, SCHEMAS)
    recorder.write("a", ROWS)
    marks = recorder.compute_marks()
    kept = recorder.read_columns("a")
    text = (tmp_path / "a.csv").read_bytes()
    recorder.write("a", ROWS)
    recorder.write_row("b", flag=True)
    again = Recorder(tmp_path, SCHEMAS)
    again.resume(marks)
    again.cut()
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
    assert (tmp_path / "a.csv").read_bytes() == text
    same(again.read_columns("a"), kept)
    again.write_row("b", flag=False)
    assert (tmp_path / "b.csv").read_text() == "flag\n0\n"
    assert again.count_rows() == {"a": 4, "b": 1}


def test_a_command_reads_back_no_table_that_it_wrote(tmp_path, monkeypatch, capsys):
    (tmp_path / "tiny.yaml").write_text(json.dumps(TINY))
    opened = safe._open_descriptor
    read = Counter()

    def count_reads(path, flags, is_ours):
        file = opened(path, flags, is_ours)
        if not flags & (os.O_WRONLY | os.O_RDWR) and Path(path).is_relative_to(tmp_path / "out"):
            read[Path(path).suffix] += 1
        return file

    monkeypatch.setattr(safe, "_open_descriptor", count_reads)
    assert main(f"run {tmp_path / 'tiny.yaml'} --out {tmp_path / 'out'} --quiet".split()) == 0
    assert read[".csv"] == 0 and read[".json"] <= 2 and read[".yaml"] <= 4
    assert (tmp_path / "out/report.html").exists()


def test_a_pickled_result_leaves_its_tables_in_the_folder(tiny, tmp_path):
    result = run(tiny(), tmp_path / "run")
    again = pickle.loads(pickle.dumps(result))
    assert result.run.tables.keys()
    assert not again.run.tables.keys()
    same(again.run.tables["leakage"], result.run.tables["leakage"])


def test_the_summary_is_written_last_so_that_a_killed_run_never_looks_finished(
    tiny, tmp_path, monkeypatch
):
    """Killed before its last file, it has no summary, by which sweeps and `show` take a run for
    finished."""
    write = play.write_json

    def kill(path, content):
        if path.name == "manifest.json" and content["finished"]:
            raise KeyboardInterrupt
        write(path, content)

    monkeypatch.setattr(play, "write_json", kill)
    with pytest.raises(KeyboardInterrupt):
        run(tiny({}), tmp_path / "r")
    assert not (tmp_path / "r/summary.json").exists()
    monkeypatch.undo()
    assert run(tiny({}), tmp_path / "r")["rounds.played"] > 0
