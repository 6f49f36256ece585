"""Notices of one run are the same in `validate`, on the terminal, on the page and in JSON, in one
order."""

import html
import json

import pytest
from conftest import TINY
from noticed import by_key, of_run

from netsim.notice import SEVERITIES, Notice, by_severity
from scenarios.app.cli.commands import main
from scenarios.app.results.folder import read_json
from scenarios.app.results.read import Manifest
from scenarios.app.run.notices import of_summary


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run in an area without room, with noise: doubts and notes."""
    place = tmp_path_factory.mktemp("notices")
    city = {"kind": "open-field", "width_m": 5, "height_m": 300}
    noise = [{"kind": "clip", "norm": 1.0}, {"kind": "gaussian", "noise_multiplier": 1.0}]
    study = {
        **TINY,
        "world": {**TINY["world"], "city": city},
        "learning": {**TINY["learning"], "defenses": noise},
    }
    (place / "s.yaml").write_text(json.dumps(study))
    assert main(["run", str(place / "s.yaml"), "--out", str(place / "r"), "--quiet"]) == 0
    return place / "r"


def test_the_same_notices_everywhere(folder, capsys):
    every = of_run(folder)
    assert every == by_severity(every)
    assert {"area-tiny", "noise-covers-numbers"} <= {*by_key(every)}
    assert main(["validate", str(folder.parent / "s.yaml")]) == 0
    _, *before = capsys.readouterr().out.splitlines()
    assert len(before) >= 2
    assert set(before) <= {each.text for each in every}
    assert main(["show", str(folder)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    places = [shown.index(" ".join(each.text.split())) for each in every]
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8"))
    assert places == sorted(places)
    assert all(each.line in page for each in every)
    assert main(["show", str(folder), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [Notice(**each) for each in told["notices"]] == every
    for severity in ("doubt", "void"):
        assert told["summary"][f"notices.{severity}"] == sum(
            each.severity == severity for each in every
        )


def test_void_comes_first_and_a_severity_keeps_its_order():
    made = [Notice(f"k{k}", SEVERITIES[2 - k % 3], "s") for k in range(6)]
    assert [each.key for each in by_severity([*made, made[0]])] == [
        "k2",
        "k5",
        "k1",
        "k4",
        "k0",
        "k3",
    ]
    assert Notice("k", "note", "it is", "mend it").line == "it is; mend it"


def test_a_manifest_with_sentences_is_read(folder):
    path = folder / "manifest.json"
    values = read_json(path)
    del values["notices"]
    path.write_text(json.dumps(values | {"warnings": ["an older sentence"]}))
    assert [each.text for each in Manifest.of(folder).notices] == ["warning: an older sentence"]


def test_results_that_mean_nothing_are_void():
    (found,) = of_summary({"rounds.played": 3, "samples.count": 0, "updates.sent": 0})
    assert (found.key, found.severity) == ("nothing-measured", "void")
    assert [each.key for each in of_summary({"radio.samples": 0})] == ["nobody-present"]
