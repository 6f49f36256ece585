"""The attack that a study gets where none is made for what its threat grants: who gets it, where it
is written, and what reads it."""

import json

from conftest import write_tiny
from noticed import by_key, of_run
from pytest import fixture, mark

from netsim.fit import explain_first_breach
from scenarios.app.rerun import rerun_folder
from scenarios.app.result import run
from scenarios.app.results.folder import read_json
from scenarios.app.run.adapt import ATTACKS_KEY, _collect_candidates
from scenarios.app.run.events import ignore_event
from scenarios.app.run.sweep import plan_points
from scenarios.app.study.load import Scenario, load

SUMS = {"learning.threat.observes": "aggregate"}
COMMUTERS = {
    "world.duration_s": 2 * 86_400,
    "world.tick_s": 1200,
    "world.ues.measurement_period_s": None,
    "world.ues.count": 3,
    "world.ues.mobility": {"kind": "commuter"},
    "world.city.width_m": 900,
    "world.city.height_m": 700,
    "learning.round_s": 86_400,
    "learning.leakage": {"random_baseline_draws": 20, "directions": 12},
}


def list_kinds(study):
    return [attack.kind for attack in study.learned.attacks]


@fixture
def write(tmp_path):
    """Writes commuters without `attacks`, or with these, and other changes: the scenario."""

    def write(attacks=None, changes=None):
        path = write_tiny(tmp_path / "s.yaml", COMMUTERS | (changes or {}))
        data = json.loads(path.read_text())
        del data["learning"]["attacks"]
        if attacks is not None:
            data["learning"]["attacks"] = attacks
        path.write_text(json.dumps(data, indent=1))
        return Scenario.from_source(path)

    return write


SINGLE = ["span", "neuron-votes", "closed-form"]


@mark.parametrize(
    "name, changes, expected",
    [
        ("city", {}, SINGLE),
        ("city", SUMS, [*SINGLE, "fused"]),
        ("city", SUMS | {"learning.attacks": []}, []),
        ("city", SUMS | {"learning.attacks": [{"kind": "fused", "towns": 0}]}, ["fused"]),
        ("city/sums", {}, ["span", "neuron-votes"]),
        ("campus", SUMS, ["closed-form", "dlg"]),  # nobody has a home
    ],
)
def test_sums_are_attacked_by_what_is_made_for_them(name, changes, expected):
    assert list_kinds(load(name, changes)) == expected


def test_a_trace_gets_none():
    study = load("replay", SUMS)
    assert "fused" not in list_kinds(study)


@mark.parametrize("threat", [{}, {"observes": "aggregate"}])
def test_where_attacks_are_left_out_it_is_the_only_one(threat, write):
    scenario = write(changes={"learning.threat": threat})
    assert list_kinds(scenario.study) == ["fused"]
    assert scenario.study.learned.attacks[0].towns == 4
    assert list_kinds(write([]).study) == []


def test_what_does_not_fit_is_left_out_and_the_text_stays(write):
    """Of published models nobody knows whose they are."""
    scenario = write(changes={"learning.threat": {"observes": "model"}})
    assert list_kinds(scenario.study) == []
    assert "attacks" not in scenario.document.data["learning"]
    home_m = [[100, 100], [400, 300], [800, 500]]
    listed = {"world.ues.mobility": {"kind": "commuter", "home_m": home_m}}
    study = write(changes=listed).study
    assert list_kinds(study) == []
    assert explain_first_breach(study) == ""


def test_a_run_says_and_repeats_what_it_met(write, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    changes = {"learning.threat": {"observes": "aggregate"}}
    changes["world.radio.uplink"] = {"kind": "ideal"}
    scenario = write([{"kind": "closed-form"}], changes)
    assert scenario.text.data["learning"]["attacks"] == [{"kind": "closed-form"}]
    first = run(scenario.study, tmp_path / "first")
    written = load(tmp_path / "first/study.yaml")
    assert written == scenario.study
    assert list_kinds(written) == ["closed-form", "fused"]
    assert "attack.fused.home_located.percent" in first.summary
    # all updates come at once, and it reads when they do
    assert "arrivals-at-once" in by_key(of_run(tmp_path / "first"))
    differing = rerun_folder(tmp_path / "first", tmp_path / "again", None, ignore_event)
    assert list(differing.values()) == [[]]
    assert len(read_json(tmp_path / "first/manifest.json")["towns"]["fused"]) == 4


def test_an_adapted_sweep_has_it_among_its_candidates(write):
    changes = {"learning.threat": {"observes": "aggregate"}, "vary": {"seed": [1]}}
    scenario = write([{"kind": "closed-form"}], changes)
    (point,) = plan_points(scenario.study, scenario.overrides)
    written, candidates, _ = _collect_candidates(scenario, point, scenario.study, 4, False)
    assert [part["kind"] for part in written] == ["closed-form", "fused"]
    assert [part["kind"] for part in candidates[:2]] == ["closed-form", "fused"]
    assert len(candidates) == 4
    kinds = [part["kind"] for part in candidates]
    assert kinds.count("fused") == 1
    tuned = scenario.with_changes({ATTACKS_KEY: candidates}).study
    assert list_kinds(tuned) == kinds
