"""Notices of one run are the same in `validate`, on the terminal, on the page and in JSON, in one
order."""

import html
import json

import pytest
from conftest import TINY
from noticed import by_key, of_run

from netsim.notice import SEVERITIES, Notice, sort_by_severity
from scenarios.app.cli.commands import main
from scenarios.app.results.folder import read_json
from scenarios.app.results.read import Manifest
from scenarios.app.run.notices import find_summary_notices
from scenarios.app.study.load import parse_value


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A run in an area without room, with noise: doubts and notes."""
    place = tmp_path_factory.mktemp("notices")
    city = {"kind": "open-field", "width_m": 5, "height_m": 300}
    noise = parse_value("[{kind: clip, norm: 1.0}, {kind: gaussian, noise_multiplier: 1.0}]")
    study = {
        **TINY,
        "world": {**TINY["world"], "city": city},
        "learning": {**TINY["learning"], "defenses": noise},
    }
    (place / "s.yaml").write_text(json.dumps(study))
    assert main(["run", str(place / "s.yaml"), "--out", str(place / "r"), "--quiet"]) == 0
    return place / "r"


def test_the_same_notices_everywhere(folder, run_command):
    all_rows = of_run(folder)
    assert all_rows == sort_by_severity(all_rows)
    assert {"area-tiny", "noise-covers-numbers"} <= {*by_key(all_rows)}
    _, *before = run_command(f"validate {folder.parent}/s.yaml").splitlines()
    assert len(before) >= 2
    assert set(before) <= {item.text for item in all_rows}
    shown = " ".join(run_command(f"show {folder}").split())
    places = [shown.index(" ".join(item.text.split())) for item in all_rows]
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8"))
    assert places == sorted(places)
    assert all(item.line in page for item in all_rows)
    printed = json.loads(run_command(f"show {folder} --json"))
    assert [Notice(**item) for item in printed["notices"]] == all_rows
    for severity in ("doubt", "void"):
        assert printed["summary"][f"notices.{severity}"] == sum(
            item.severity == severity for item in all_rows
        )


def test_void_comes_first_and_a_severity_keeps_its_order():
    samples = [Notice(f"k{k}", SEVERITIES[2 - k % 3], "s") for k in range(6)]
    assert [item.key for item in sort_by_severity([*samples, samples[0]])] == [
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
    assert [item.text for item in Manifest.from_folder(folder).notices] == [
        "warning: an older sentence"
    ]


def test_results_that_mean_nothing_are_void():
    (summary,) = find_summary_notices({"rounds.played": 3, "samples.count": 0, "updates.sent": 0})
    assert (summary.key, summary.severity) == ("nothing-measured", "void")
    assert [item.key for item in find_summary_notices({"radio.samples": 0})] == ["nobody-present"]
