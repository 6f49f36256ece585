"""Records as Parquet: the numbers of the CSVs, in every command that reads them, whatever interrupts the run."""

import json
import re
import shutil

import numpy as np
import pytest
from conftest import TINY

import netsim.record as parquet
from scenarios.app.cli.commands import main
from scenarios.app.result import open_run, run
from scenarios.app.results import folder as folders
from scenarios.app.results.folder import EVERY, read_table
from scenarios.app.results.read import load
from scenarios.app.run.how import How

pytest.importorskip("pyarrow")
PARQUET = How(records="parquet")


def tables_of(folder):
    return {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.suffix in (".parquet", ".csv", ".npz")}


@pytest.fixture(scope="module")
def both(tiny, tmp_path_factory):
    """The same run in both formats."""
    root = tmp_path_factory.mktemp("both")
    for name in ("csv", "parquet"):
        run(tiny(), root / name, command="netsim run tiny", how=How(records=name))
    return root


@pytest.fixture
def one(both, tmp_path):
    """A copy of the run in Parquet."""
    return shutil.copytree(both / "parquet", tmp_path / "one")


def test_both_formats_hold_the_same_numbers(both):
    assert not list((both / "parquet").glob("*.csv")) and not list((both / "csv").glob("*.parquet"))
    assert (both / "csv" / "summary.json").read_bytes() == (both / "parquet" / "summary.json").read_bytes()
    a, b = (load(both / name).tables for name in ("csv", "parquet"))
    assert list(a) == list(b)
    for table, columns in a.items():
        for name, values in columns.items():
            assert values.dtype == b[table][name].dtype
            np.testing.assert_array_equal(values, b[table][name])


def test_columns_have_their_declared_types_and_nulls(both):
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"number": pa.float64(), "integer": pa.int64(), "text": pa.string(), "flag": pa.bool_()}
    for path in (both / "parquet").glob("*.parquet"):
        schema = pq.read_schema(path)
        assert {f.name: f.type for f in schema} == {n: types[c.type] for n, c in EVERY[path.stem].items()}
    leakage = pq.read_table(both / "parquet" / "leakage.parquet")
    empty = np.isnan(read_table(both / "csv", "leakage")["home_m"])
    assert empty.any() and leakage["home_m"].null_count == empty.sum()


def test_pages_frames_and_exports_are_the_same(both, tmp_path, capsys):
    seen = []
    for name in ("csv", "parquet"):
        folder = shutil.copytree(both / name, tmp_path / "run")
        for command in (["report"], ["show"], ["export"]):
            assert main([*command, str(folder)]) == 0
        said = re.sub("peak .* GB", "", capsys.readouterr().out)  # each run has its own
        pages = {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix in (".html", ".geojson")}
        frames = {table: frame.to_csv() for table, frame in open_run(folder).tables.items()}
        seen.append((said, pages, frames))
        shutil.rmtree(folder)
    assert len(seen[0][1]) >= 2 and seen[0] == seen[1]


@pytest.mark.parametrize("first", [How(), PARQUET])
def test_an_interrupted_run_ends_in_the_same_bytes_whatever_it_began_as(both, tiny, tmp_path, first):
    def stop(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tiny(), tmp_path / "two", stop, how=first)
    assert (tmp_path / "two" / "rounds.csv").exists() and not list((tmp_path / "two").glob("*.parquet"))
    run(tiny(), tmp_path / "two", how=PARQUET)
    assert json.loads((tmp_path / "two" / "manifest.json").read_text())["timing"]["resumed_from_round"] == 1
    assert tables_of(tmp_path / "two") == tables_of(both / "parquet")


@pytest.mark.parametrize(("learning", "step"), [(True, 3), (False, 0)])
def test_a_kill_while_tables_are_converted_or_settled_loses_nothing(tiny, tmp_path, monkeypatch, learning, step):
    study = tiny({} if learning else {"learning": None, "world.radio": {"handover": {}}})
    run(study, tmp_path / "whole", how=PARQUET)
    real, written = parquet.write_parquet, []

    def killed(source, path, types):
        if len(written) == step:
            raise KeyboardInterrupt
        written.append(path)
        real(source, path, types)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(parquet, "write_parquet", killed)
        run(study, tmp_path / "killed", how=PARQUET)
    assert len(list((tmp_path / "killed").glob("*.parquet"))) == step
    assert not (tmp_path / "killed" / "summary.json").exists()
    run(study, tmp_path / "killed", how=PARQUET)
    assert tables_of(tmp_path / "killed") == tables_of(tmp_path / "whole")


def test_a_run_that_was_killed_at_its_last_step_may_end_as_csv(both, tiny, tmp_path, monkeypatch):
    def killed(job):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("scenarios.app.run.job.Job.settle", killed)
        run(tiny(), tmp_path / "one", how=PARQUET)
    assert (tmp_path / "one" / "summary.json").exists() and (tmp_path / "one" / "rounds.csv").exists()
    run(tiny(), tmp_path / "one", replace=True)
    assert tables_of(tmp_path / "one") == tables_of(both / "csv")


@pytest.mark.parametrize("how", ["cut", "flipped", "other types", "link"])
def test_a_damaged_table_is_one_line(one, capsys, how):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = one / "rounds.parquet"
    data = path.read_bytes()
    if how == "cut":
        path.write_bytes(data[: len(data) // 2])
    elif how == "flipped":
        path.write_bytes(data[:4] + bytes(255 - b for b in data[4:400]) + data[400:])
    elif how == "other types":
        pq.write_table(pa.table({"round": pa.array(["a"])}), path)
    else:
        (one / "moved").write_bytes(data)
        path.unlink()
        path.symlink_to(one / "moved")
    assert main(["report", str(one)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(path) in said and "run the study again" in said


def test_a_table_that_is_missing_is_called_by_the_format_of_the_others(one, both, tmp_path, capsys):
    for name in ("updates", "ues"):
        (one / f"{name}.parquet").rename(tmp_path / "away")
        assert main(["report", str(one)]) == 2
        said = capsys.readouterr().err
        assert f"{one / name}.parquet: cannot be read (No such file" in said and said.count("\n") == 1
        assert folders.is_parquet(one)
        (tmp_path / "away").rename(one / f"{name}.parquet")
    copy = shutil.copytree(both / "csv", tmp_path / "csv")
    (copy / "updates.csv").unlink()
    assert main(["report", str(copy)]) == 2 and f"{copy / 'updates.csv'}: cannot be read" in capsys.readouterr().err


def test_without_pyarrow_writing_and_reading_are_refused(one, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(parquet, "find_spec", lambda name: None)
    (tmp_path / "tiny.yaml").write_text(json.dumps(TINY | {"vary": {"seed": [1, 2]}}))
    out = tmp_path / "out"
    for command in ("run", "sweep"):
        assert main([command, str(tmp_path / "tiny.yaml"), "--records", "parquet", "--out", str(out)]) == 2
        remedy = 'pip install "netsim-fl[parquet]", or leave it out'
        assert capsys.readouterr().err == f"netsim: --records parquet: pyarrow is not installed; {remedy}\n"
        assert not out.exists()
    assert main(["report", str(one)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and 'pip install "netsim-fl[parquet]"' in said
