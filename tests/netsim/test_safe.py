"""Files from a person: devices, pipes, sizes and impossible names are one line and exit code 2, at
once."""

import os
import shutil
from contextlib import suppress
from pathlib import Path

from pytest import mark, raises
from rows import read_cells

from netsim import safe
from netsim.safe import (
    describe_file_kind,
    format_size,
    open_own_file,
    open_regular,
    open_replacement,
    read_content,
)
from scenarios.app.cli.commands import main

LONG = "n" * 300


def test_only_regular_files_are_read(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    (tmp_path / "link").symlink_to(tmp_path / "f")
    os.mkfifo(tmp_path / "pipe")
    assert read_content(tmp_path / "f", 3) == b"abc" == read_content(tmp_path / "link", 3)
    for path, words in (
        (tmp_path / "pipe", "no regular file"),
        (Path("/dev/zero"), "no regular file"),
        (tmp_path, "is a folder"),
        (tmp_path / "none", "No such file"),
        (tmp_path / LONG, "name too long"),
        ("a\0b", "no name of a file"),
    ):
        with raises(OSError) as error:
            open_regular(path, 10)
        assert words in error.value.strerror
    with raises(OSError, match="symbolic link"):
        open_regular(tmp_path / "link", 10, is_ours=True)


def test_no_more_is_read_than_asked_for(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(10**12)
    with raises(OSError, match="larger than 1 MiB, the most that is read"):
        read_content(tmp_path / "sparse", 2**20)
    endless = Path("/proc/self/environ")  # of no size, and not empty
    if endless.exists() and endless.read_bytes():
        with raises(OSError, match="larger than 1 bytes"):
            read_content(endless, 1)
    sizes = " ".join(map(format_size, (200, 2**10, 50 * 2**20, 4 * 2**30)))
    assert sizes == "200 bytes 1 KiB 50 MiB 4 GiB"


def test_a_file_is_replaced_when_it_is_whole_and_not_before(tmp_path):
    path = tmp_path / "f"
    path.write_bytes(b"old")
    with raises(RuntimeError), open_replacement(path) as file:
        file.write(b"half")
        raise RuntimeError
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]
    with open_replacement(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["f"]
    (tmp_path / "link").symlink_to(path)
    with raises(OSError, match="symbolic link"), open_replacement(tmp_path / "link"):
        pass
    os.link(path, tmp_path / "second")
    with raises(OSError, match="second name"):
        open_own_file(path)
    assert path.read_bytes() == b"new"


def test_what_stands_at_a_path(tmp_path):
    assert describe_file_kind(tmp_path) == "folder"
    assert describe_file_kind("/dev/null") == "other"
    assert (
        describe_file_kind(tmp_path / LONG)
        == describe_file_kind("a\0b")
        == describe_file_kind(tmp_path / "none")
        == ""
    )


def test_only_files_that_were_never_whole_are_removed(tmp_path):
    for name in ("f.part", "f.0123.part", f"f.{'g' * 16}.part", "part", f".{'0' * 16}.part"):
        (tmp_path / name).touch()
    kept = sorted(p.name for p in tmp_path.iterdir())
    with suppress(KeyboardInterrupt), open_replacement(tmp_path / "f") as file:
        (part,) = (p for p in tmp_path.iterdir() if p.name not in kept)
        assert safe.find_whole_name(part.name) == "f"
        assert file.write(b"half") == 4
        shutil.copy(part, tmp_path / f"f.{'0' * 16}.part")
        raise KeyboardInterrupt
    (tmp_path / f"g.{'0' * 16}.part").mkdir()
    safe.remove_parts(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*kept, f"g.{'0' * 16}.part"])


PLACES = {
    name: words
    for name, *words in read_cells("""
        scenario   run  %s
        validated  validate  %s.yaml
        trace      inspect  %s
        replay     replay  %s
        cells      run  town  --set  world.base_stations={kind: cell-file, file: %s, origin_lat: 0, origin_lon: 0}
        city       run  town  --set  world.city={kind: footprints, file: %s}
        policy     run  town  --set  power={kind: ddpg, policy: %s}
        report     report  %s
        claims     claims  --file  %s
        kept       claims  --keep  %s
        stations   replay  TRACE  --base-stations  %s
    """)
}


@mark.parametrize("place", PLACES)
def test_what_is_no_file_is_one_line(place, tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    os.mkfifo(tmp_path / "pipe.yaml")
    trace = Path(__file__).parents[2] / "scenarios" / "examples" / "commuter.csv.gz"
    for inputs in (str(tmp_path / "pipe"), str(tmp_path)):
        line = [word.replace("%s", inputs).replace("TRACE", str(trace)) for word in PLACES[place]]
        line += ["--out", str(tmp_path / "out")] if line[0] in ("run", "replay") else []
        assert main(line) == 2, line
        message = capsys.readouterr().err
        assert message.count("\n") == 1 and "Traceback" not in message, message
    assert not (tmp_path / "out").exists()


@mark.parametrize("place", ["cells", "city", "policy"])
def test_a_nul_in_a_name_is_one_line(place, tmp_path, capsys):
    line = [word.replace("%s", '"a\\0b"') for word in PLACES[place]]
    assert main([*line, "--out", str(tmp_path / "out")]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1, message


def test_an_impossible_name_for_results_is_one_line(tmp_path, capsys):
    for out in (tmp_path / LONG, tmp_path / "a" / LONG, Path("/dev/null"), Path("/proc/none")):
        assert main(["run", "town", "--out", str(out)]) == 2, out
        assert capsys.readouterr().err.count("\n") == 1


def test_a_part_goes_unless_a_process_writes_it(tmp_path):
    """Right after a kill, too: the lock of a part ends with its process, however young the part
    is."""
    left = tmp_path / f"page.html.{'0' * 16}.part"
    left.write_text("half")
    with safe.open_replacement(tmp_path / "page.html") as file:
        file.write(b"whole")
        safe.remove_parts(tmp_path, "page.html")
        assert not left.exists()
        assert len(list(tmp_path.iterdir())) == 1
    assert (tmp_path / "page.html").read_bytes() == b"whole"
