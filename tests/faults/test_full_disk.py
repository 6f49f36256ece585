"""A disk without room in the middle of a run: one line, nothing lost, and the run goes on when there is room."""

import json
import os
import resource
import signal
import sys
from pathlib import Path

import pytest
from conftest import TINY

from netsim.safe import replacing
from scenarios.app.cli.commands import main
from scenarios.app.run import simulate


def played(words, folder, most_bytes):
    """Exit code and complaint of a command in a fork, none of whose files may be longer."""
    said = folder / "said"
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write fails, as on a full disk
            os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            sys.stderr = os.fdopen(2, "w")
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
            code = main(words)
            sys.stderr.flush()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said.read_text()


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    monkeypatch.setattr(simulate, "CHECKPOINT_EVERY_S", 0.0)
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps(TINY))
    return str(path)


@pytest.mark.parametrize("most_bytes", [300, 3000, 12_000])
def test_a_full_disk_is_one_line_and_the_run_goes_on(most_bytes, scenario, tmp_path, table_bytes):
    words = ["run", scenario, "--quiet", "--out"]
    assert main([*words, str(tmp_path / "whole")]) == 0
    code, said = played([*words, str(tmp_path / "cut")], tmp_path, most_bytes)
    assert (code, said.count("\n")) == (2, 1), said
    assert "cut: cannot be written any more (File too large); make room, and the same command goes on" in said
    assert not list((tmp_path / "cut").glob("*.part"))
    assert main([*words, str(tmp_path / "cut")]) == 0
    assert table_bytes(tmp_path / "cut") == table_bytes(tmp_path / "whole")


def test_a_part_that_finds_no_room_gives_it_back(tmp_path):
    path = Path(tmp_path / "f")
    path.write_bytes(b"old")
    with pytest.raises(OSError, match="no room"), replacing(path) as file:
        file.write(b"half")
        raise OSError(28, "no room")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["f"]


def test_a_failure_is_one_line_where_its_details_find_no_room(monkeypatch, capsys):
    def full(*args, **more):
        raise OSError(28, "No space left on device")

    def fails(args):
        raise RuntimeError("odd")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", full)
    monkeypatch.setattr("scenarios.app.cli.schema.main", fails)
    assert main(["schema"]) == 1
    said = capsys.readouterr().err
    assert said == (
        "netsim: unexpected failure (RuntimeError: odd); its details cannot be written (No space left on device)\n"
    )
