"""`netsim new`: a scenario with comments that runs as it is."""

import re
from pathlib import Path

from pytest import fixture, mark
from refused import read_cases

from scenarios.app.cli.commands import main
from scenarios.app.study.load import list_bundled, load


@fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_valid_as_it_is_and_with_the_defense(folder, run_command):
    printed = run_command("new mine")
    assert "netsim validate mine.yaml" in printed
    run_command("validate mine.yaml")
    text = Path("mine.yaml").read_text()
    study = load("mine.yaml")
    assert study.title.startswith("mine - ")
    assert study.learned.defenses == ()
    lines = text.splitlines()
    index = next(i for i, line in enumerate(lines) if line.strip().startswith("# defenses:"))
    taken_in = [*lines[:index], *(re.sub("^  # ", "  ", line) for line in lines[index:])]
    Path("defended.yaml").write_text("\n".join(taken_in) + "\n")
    assert [d.kind_name() for d in load("defended.yaml").learned.defenses] == ["clip", "gaussian"]
    assert max(map(len, lines)) <= 120


@mark.parametrize("name", ["city", "replay", "town", "signal-maps/radio-replay"])
def test_a_copy_is_the_same_study(name, folder, run_command):
    run_command("new mine --from", name)
    assert load("mine.yaml") == load(name)
    before = list_bundled()[name].read_text().splitlines()
    after = Path("mine.yaml").read_text().splitlines()
    assert len(before) == len(after)
    assert [a.count("#") for a in before] == [a.count("#") for a in after]


REFUSED = [
    *read_cases(r"""
new mine
    exists
new mine.yaml
    exists
new nowhere/mine
    cannot be written
new attack
    give a name for the package: netsim new attack NAME
new reward
    give a name for the package: netsim new reward NAME
new reward mine --like weighted
    no such kind, or one without a template
new attack mine.yaml
    small letters, digits and dashes
new attack span
    a kind or a module has this name
new attack json
    a kind or a module has this name
new defense class
    no Python word
new defense mine --from city
    without --from
new banana mine
    slots here: attack, defense, learner, trace-format, reward, city,
new curation other --like farthest
    --like farthest: no such kind, or one without a template; kinds here: farthest-batch, random,
new mobility other --like replay
    one without a template; kinds here: resident,
new other --from campos
    campos
"""),
    (["new", ""], "give the name of a file"),
    (["new", "a\nb"], "give the name of a file"),
]


@mark.parametrize(
    "words, message",
    REFUSED,
)
def test_nothing_is_written_over(words, message, folder, refuse_command):
    Path("mine.yaml").write_text("title: kept\n")
    assert message in refuse_command(words)
    assert [p.name for p in folder.iterdir()] == ["mine.yaml"]
    assert Path("mine.yaml").read_text() == "title: kept\n"


@mark.slow
def test_it_runs_in_seconds(folder, capsys):
    import time

    assert main(["new", "mine"]) == 0
    began = time.perf_counter()
    assert main(["run", "mine.yaml", "--quiet"]) == 0
    assert time.perf_counter() - began < 60
    assert "span" in capsys.readouterr().out
