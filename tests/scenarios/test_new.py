"""`netsim new`: a scenario with comments that runs as it is."""

import re
from pathlib import Path

import pytest

from scenarios.app.cli.commands import main
from scenarios.app.study.load import bundled, load


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_valid_as_it_is_and_with_the_defense(here, capsys):
    assert main(["new", "mine"]) == 0
    said = capsys.readouterr().out
    assert "netsim validate mine.yaml" in said
    assert "netsim run mine.yaml" in said
    assert "netsim list" in said
    assert main(["validate", "mine.yaml"]) == 0
    text = Path("mine.yaml").read_text()
    study = load("mine.yaml")
    assert study.title.startswith("mine - ")
    assert study.learned.defenses == ()
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.strip().startswith("# defenses:"))
    taken_in = [*lines[:at], *(re.sub("^  # ", "  ", line) for line in lines[at:])]
    Path("defended.yaml").write_text("\n".join(taken_in) + "\n")
    assert [d.kind_name() for d in load("defended.yaml").learned.defenses] == ["clip", "gaussian"]
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", ["city", "replay", "town", "signal-maps/radio-replay"])
def test_a_copy_is_the_same_study(name, here, capsys):
    assert main(["new", "mine", "--from", name]) == 0
    assert load("mine.yaml") == load(name)
    before = bundled()[name].read_text().splitlines()
    after = Path("mine.yaml").read_text().splitlines()
    assert len(before) == len(after)
    assert [a.count("#") for a in before] == [a.count("#") for a in after]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["new", "mine"], "exists"),
        (["new", "mine.yaml"], "exists"),
        (["new", ""], "give the name of a file"),
        (["new", "nowhere/mine"], "cannot be written"),
        (["new", "attack"], "give a name for the package: netsim new attack NAME"),
        (["new", "reward"], "docs/extending.md"),
        (["new", "attack", "mine.yaml"], "small letters, digits and dashes"),
        (["new", "attack", "span"], "a kind or a module has this name"),
        (["new", "attack", "json"], "a kind or a module has this name"),
        (["new", "defense", "class"], "no Python word"),
        (["new", "defense", "mine", "--from", "city"], "without --from"),
        (["new", "a\nb"], "give the name of a file"),
        (["new", "other", "--from", "campos"], "campos"),
    ],
)
def test_nothing_is_written_over(words, said, here, capsys):
    Path("mine.yaml").write_text("title: kept\n")
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert [p.name for p in here.iterdir()] == ["mine.yaml"]
    assert Path("mine.yaml").read_text() == "title: kept\n"


@pytest.mark.slow
def test_it_runs_in_seconds(here, capsys):
    import time

    assert main(["new", "mine"]) == 0
    began = time.perf_counter()
    assert main(["run", "mine.yaml", "--quiet"]) == 0
    assert time.perf_counter() - began < 60
    assert "span" in capsys.readouterr().out
