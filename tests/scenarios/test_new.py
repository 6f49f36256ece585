"""`netsim new`: a scenario that runs as it is, with comments that the models themselves say."""

import re
from pathlib import Path

import pytest

from netsim.part import descriptions
from scenarios.app.cli.commands import main
from scenarios.app.cli.new import BEGINNING
from scenarios.app.study.load import bundled, load
from scenarios.app.study.study import Study
from scenarios.app.study.template import template


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_it_is_valid_as_it_is_and_with_the_defense(here, capsys):
    assert main(["new", "mine"]) == 0
    said = capsys.readouterr().out
    assert "netsim validate mine.yaml" in said and "netsim run mine.yaml" in said and "netsim list" in said
    assert main(["validate", "mine.yaml"]) == 0
    text = Path("mine.yaml").read_text()
    study = load("mine.yaml")
    assert study.title.startswith("mine - ") and study.learned.defenses == ()
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.strip() == "# defenses:")
    taken_in = [*lines[:at], *(re.sub(r"^(\s*)# ", r"\1", line) for line in lines[at:])]
    Path("defended.yaml").write_text("\n".join(taken_in) + "\n")
    assert [d.kind_name() for d in load("defended.yaml").learned.defenses] == ["clip", "gaussian"]
    assert max(map(len, lines)) <= 110


def test_every_key_has_the_words_of_its_model(here):
    assert main(["new", "mine"]) == 0
    text = " ".join(re.sub(r"(?m)^\s*#", "", Path("mine.yaml").read_text()).split())

    def check(model, values):
        for name, said in descriptions(model).items():
            if name in values and name != "kind":
                assert " ".join(said.split()) in text, name

    study = load("mine.yaml")
    check(Study, {"title": 0, **BEGINNING})
    check(type(study.world), BEGINNING["world"])
    check(type(study.world.city), BEGINNING["world"]["city"])
    check(type(study.world.ues), BEGINNING["world"]["ues"])
    check(type(study.learned), BEGINNING["learning"])
    check(type(study.learned.attacks[0]), BEGINNING["learning"]["attacks"][0])
    assert "a whole number >= 1 and <= 1000000" in text and "metres" in text and "seconds" in text
    assert "Other kinds: " in text and "netsim list attack" in text


def test_a_template_says_what_its_values_say(here):
    values = {"title": "t", "world": BEGINNING["world"], "learning": BEGINNING["learning"]}
    Path("s.yaml").write_text(template(values))
    import json

    Path("plain.json.yaml").write_text(json.dumps(values))
    assert load("s.yaml") == load("plain.json.yaml")


@pytest.mark.parametrize("name", ["city", "replay", "town", "signal-maps/radio-replay"])
def test_a_copy_is_the_same_study(name, here, capsys):
    assert main(["new", "mine", "--from", name]) == 0
    assert load("mine.yaml") == load(name)
    before, after = bundled()[name].read_text().splitlines(), Path("mine.yaml").read_text().splitlines()
    assert len(before) == len(after) and [a.count("#") for a in before] == [a.count("#") for a in after]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["new", "mine"], "exists"),
        (["new", "mine.yaml"], "exists"),
        (["new", ""], "give the name of a file"),
        (["new", "nowhere/mine"], "cannot be written"),
        (["new", "a\nb"], "give the name of a file"),
        (["new", "other", "--from", "campos"], "campos"),
    ],
)
def test_nothing_is_written_over(words, said, here, capsys):
    Path("mine.yaml").write_text("title: kept\n")
    assert main(words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert [p.name for p in here.iterdir()] == ["mine.yaml"] and Path("mine.yaml").read_text() == "title: kept\n"


@pytest.mark.slow
def test_it_runs_in_seconds(here, capsys):
    import time

    assert main(["new", "mine"]) == 0
    began = time.perf_counter()
    assert main(["run", "mine.yaml", "--quiet"]) == 0
    assert time.perf_counter() - began < 60
    assert "span" in capsys.readouterr().out
