"""A disk without room, or that cannot be written any more: one line, nothing lost, and the same
command goes on."""

import json
import os
import resource
import shutil
import signal
import sys
import tempfile
from pathlib import Path

from conftest import TINY
from pytest import fixture, mark

from scenarios.app.cli.commands import main
from scenarios.app.run import play


def play_in_fork(words, folder, most_bytes, before=lambda: None):
    """Exit code and complaint of a command in a fork, none of whose files may be longer; `before`
    it, in the fork."""
    message = folder / "said"
    child = os.fork()
    if not child:
        code = 1
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write fails, as on a full disk
            os.dup2(os.open(message, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
            sys.stderr = os.fdopen(2, "w")
            if most_bytes is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
            before()
            code = main(words)
            sys.stderr.flush()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), message.read_text()


@fixture
def scenario(tmp_path, monkeypatch):
    monkeypatch.setattr(play, "CHECKPOINT_EVERY_S", 0.0)
    path = tmp_path / "tiny.yaml"
    path.write_text(json.dumps(TINY))
    return str(path)


def _read_only(place):
    """From now on this process may read all and write nothing there; it gives up the rights of a
    superuser."""
    for path in (place, *place.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


@fixture
def public_folder():
    """A folder that everybody can reach, as those of pytest cannot be."""
    place = Path(tempfile.mkdtemp(prefix="netsim-test-", dir="/tmp"))
    place.chmod(0o755)
    yield place
    for path in (place, *place.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(place)


@mark.parametrize("begun", [False, True])
def test_a_folder_that_may_only_be_read_is_one_line(
    begun, scenario, public_folder, tmp_path, run_command
):
    file = public_folder / "tiny.yaml"
    shutil.copy(scenario, file)
    words = ["run", str(file), "--quiet", "--out", str(public_folder / "out")]
    # a whole run first: what it imports may lie where only a superuser reads
    run_command([*words[:-1], str(public_folder / "out" if begun else tmp_path / "first")])
    before = sorted(p.name for p in public_folder.rglob("*"))
    code, message = play_in_fork(words, tmp_path, None, lambda: _read_only(public_folder))
    assert (code, message.count("\n")) == (0 if begun else 2, 1), message
    expected = (
        "this run is finished"
        if begun
        else "cannot be written (Permission denied); give --out another place"
    )
    assert f"{public_folder / 'out'}: {expected}" in message
    assert sorted(p.name for p in public_folder.rglob("*")) == before


@mark.parametrize("most_bytes", [300, 12_000])
def test_a_full_disk_is_one_line_and_the_run_goes_on(
    most_bytes, scenario, tmp_path, cut, whole, table_bytes, run_command
):
    words = ["run", scenario, "--quiet", "--out"]
    run_command([*words, str(whole)])
    code, message = play_in_fork([*words, str(cut)], tmp_path, most_bytes)
    assert (code, message.count("\n")) == (2, 1), message
    assert (
        "cut: cannot be written any more (File too large); make room, and the same command goes on"
        in message
    )
    assert not list((cut).glob("*.part"))
    run_command([*words, str(cut)])
    assert table_bytes(cut) == table_bytes(whole)


class Exhausted:
    """A finder of modules where no more files can be opened."""

    def find_spec(self, name, path=None, target=None):
        raise OSError(24, "Too many open files")


@mark.parametrize("reason", ["No space left on device", "Too many open files"])
def test_a_failure_is_one_line_where_its_details_cannot_be_written(reason, monkeypatch, capsys):
    """What they need is imported then, which opens files too."""

    def full(*args, **changes):
        raise OSError(28, "No space left on device")

    def fails(args):
        if reason == "Too many open files":
            monkeypatch.delitem(sys.modules, "tempfile", raising=False)
            monkeypatch.setattr(sys, "meta_path", [Exhausted()])
        else:
            monkeypatch.setattr("tempfile.NamedTemporaryFile", full)
        raise RuntimeError("odd")

    monkeypatch.setattr("scenarios.app.cli.ask.print_schema", fails)
    code = main(["schema"])
    monkeypatch.undo()
    printed = capsys.readouterr().err
    assert code == 1
    assert printed == (
        f"netsim: unexpected failure (RuntimeError: odd); its details cannot be written "
        f"({reason})\n"
    )
