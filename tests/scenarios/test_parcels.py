"""Folders that come from machines with other disks: checked where they arrive."""

import pytest

from netsim.errors import BadInput
from scenarios.app.run.executors.parcels import PIECE_BYTES, packed, unpacked
from scenarios.app.run.executors.work import RUN


def sent(tmp_path, files):
    folder = tmp_path / "far"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return list(packed(folder, RUN.files))


FILES = {"summary.json": b"{}", "study.yaml": b"seed: 1", "rounds.csv": b"x" * (PIECE_BYTES + 5), "spends.csv": b""}


def test_all_files_arrive_and_the_summary_last(tmp_path):
    pieces = sent(tmp_path, FILES | {"not ours.txt": b"mine"})
    assert pieces[-1][0] == "summary.json" and max(len(piece) for _, piece in pieces) == PIECE_BYTES
    here = tmp_path / "here"
    here.mkdir()
    (here / ".netsim").write_text("run\n")
    (here / "report.html").write_text("of before")
    unpacked(pieces, here, RUN)
    found = {p.name: p.read_bytes() for p in here.iterdir()}
    assert found == FILES | {".netsim": b"run\n"}


@pytest.mark.parametrize(
    "name", ["../out.csv", "/tmp/x.csv", "sub/rounds.csv", "notes.txt", ".netsim", "rounds.csv.part"]
)
def test_other_names_are_refused(tmp_path, name):
    with pytest.raises(BadInput, match="which no run writes") as error:
        unpacked([("study.yaml", b"seed: 1"), (name, b"x"), ("summary.json", b"{}")], tmp_path / "here", RUN)
    assert len(error.value.lines) == 1
    assert sorted(p.name for p in tmp_path.rglob("*")) == [".netsim", "here", "study.yaml"]


def test_nothing_is_written_through_a_link_or_into_a_folder_of_others(tmp_path):
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / ".netsim").write_text("run\n")
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "here" / "rounds.csv").symlink_to(tmp_path / "victim")
    with pytest.raises(BadInput, match="symbolic link"):
        unpacked([("rounds.csv", b"x")], tmp_path / "here", RUN)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("mine")
    with pytest.raises(BadInput, match="something that is not a run"):
        unpacked([("rounds.csv", b"x")], tmp_path / "other", RUN)
    assert (tmp_path / "victim").read_text() == "mine" and len(list((tmp_path / "other").iterdir())) == 1


def test_a_stream_that_ends_early_leaves_no_finished_run(tmp_path):
    pieces = sent(tmp_path, FILES)

    def cut():
        yield from pieces[:-2]
        raise ConnectionError("the machine is gone")

    with pytest.raises(ConnectionError):
        unpacked(cut(), tmp_path / "here", RUN)
    assert not (tmp_path / "here" / "summary.json").exists()
    unpacked(pieces, tmp_path / "here", RUN)
    assert (tmp_path / "here" / "rounds.csv").read_bytes() == FILES["rounds.csv"]


def test_no_more_bytes_than_a_file_of_ours_may_have(tmp_path, monkeypatch):
    monkeypatch.setattr("scenarios.app.run.executors.parcels.OURS_MOST_BYTES", 10)
    with pytest.raises(BadInput, match="more than 10 bytes"):
        unpacked([("rounds.csv", b"x" * 6), ("rounds.csv", b"x" * 6)], tmp_path / "here", RUN)
    assert not (tmp_path / "here" / "rounds.csv").exists()
