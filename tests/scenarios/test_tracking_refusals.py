"""Scenarios of tracking, linking and holding back that cannot be: one line, exit code 2, and
nothing is written."""

import copy
import json

import pytest
from conftest import TINY

from scenarios.app.cli.commands import main

PER_ROUND = {"kind": "per-round"}
DAY = {"epsilon": 8, "delta": 1e-5}
LIMIT = {"kind": "daily-limit", "updates": 2}


def attack(kind, **more):
    return {"attacks": [{"kind": kind, **more}]}


def tracker(**more):
    return attack("tracker", **more)


def dwell(**more):
    return attack("dwell", **more)


def linked(**more):
    return attack("re-identify", **more) | {"threat": {"pseudonyms": PER_ROUND}}


KNOWN = {"threat": {"pseudonyms": PER_ROUND, "knowledge": ["weights", "training", "homes"]}}


def rule(kind, **more):
    return {"withholding": [{"kind": kind, **more}]}


def named(**more):
    return {"threat": {"pseudonyms": more}}


def summed(**more):
    return {"threat": {"observes": "aggregate", **more}}


def noisy(*rules, **more):
    return {
        "defenses": [{"kind": "clip", "norm": 1}, {"kind": "gaussian", **more}],
        "withholding": list(rules),
    }


WRONG_TYPE = [
    (tracker(cell_m="wide"), "attacks[0].cell_m: expected a number at least 0.1"),
    (tracker(own_places="yes"), "attacks[0].own_places: expected true or false, got 'yes'"),
    (tracker(of=None), "attacks[0].of: expected a mapping with kind"),
    (
        tracker(population="streets"),
        "attacks[0].population: expected a mapping with kind uniform, streets",
    ),
    (
        dwell(min_probability="sure"),
        "attacks[0].min_probability: expected a number at least 0 and below 1",
    ),
    (
        dwell(home_hours=8),
        "attacks[0].home_hours: expected a list of 2, each a number at least 0 and at most 24",
    ),
    (
        linked(use="place"),
        "attacks[0].use: expected a list of at least 1, each 'place' or 'fingerprint'",
    ),
    (rule("cooldown", rounds=1.5), "withholding[0].rounds: expected a whole number"),
    ({"withholding": ["cooldown"]}, "withholding[0]: expected a mapping with kind cooldown"),
    (
        {"threat": {"pseudonyms": "per-round"}},
        "threat.pseudonyms: expected a mapping with kind permanent",
    ),
    (named(), "threat.pseudonyms: needs a 'kind'"),
    (summed(secagg_threshold="two"), "threat.secagg_threshold: expected a whole number at least 2"),
]
UNKNOWN = [
    (
        tracker(of={"kind": "tracker"}),
        "attacks[0].of.kind: unknown kind 'tracker'; kinds here: closed-form",
    ),
    (tracker(cel_m=5), "attacks[0].cel_m: unknown key 'cel_m'; did you mean 'cell_m'?"),
    (
        tracker(population={"kind": "place"}),
        "attacks[0].population.kind: unknown kind 'place'; did you mean 'places'?",
    ),
    (tracker(population={"kind": "places"}), "attacks[0].population: missing key 'file'"),
    (tracker(population={"kind": "places", "file": "nowhere.csv"}), "nowhere.csv: cannot be read"),
    (linked(use=["smell"]), "attacks[0].use[0]: expected 'place' or 'fingerprint', got 'smell'"),
    (linked(of={"kind": "re-identify"}), "attacks[0].of.kind: unknown kind 're-identify'"),
    (rule("cool-down"), "withholding[0].kind: unknown kind 'cool-down'; did you mean 'cooldown'?"),
    (rule("daily-limit"), "withholding[0]: missing key 'updates'"),
    (
        rule("home-zone", radius_m=20, drops="all"),
        "withholding[0].drops: expected 'samples' or 'update'",
    ),
    (named(kind="every"), "threat.pseudonyms: missing key 'period_s'"),
    (
        noisy(LIMIT, **DAY, update_a_day=2),
        "defenses[1].update_a_day: unknown key 'update_a_day'; did you mean",
    ),
]
OUT_OF_BOUNDS = [
    (tracker(cell_m=0), "attacks[0].cell_m: must be at least 0.1 and at most 1e+06 metres, got 0"),
    (tracker(cell_m=0.1), "cell_m 0.1 makes 12,000,000 places, at most 1,000,000 are possible"),
    (tracker(roaming=1.5), "attacks[0].roaming: must be at least 0 and at most 1"),
    (tracker(sigma_m=0), "attacks[0].sigma_m: must be at least 0.1"),
    (tracker(sigma_m=30, outlier=1), "attacks[0].outlier: must be at least 1e-06 and below 1"),
    (tracker(max_speed_mps=-3), "attacks[0].max_speed_mps: must be above 0"),
    (dwell(third_places=9), "attacks[0].third_places: must be at least 0 and at most 8"),
    (dwell(home_hours=[8, 25]), "attacks[0].home_hours[1]: must be at least 0 and at most 24"),
    (linked(use=[]), "attacks[0].use: must have at least 1 entries"),
    (linked(sigma_m=0), "attacks[0].sigma_m: must be at least 0.1"),
    (rule("cooldown", rounds=0), "withholding[0].rounds: must be at least 1"),
    (rule("cooldown", rounds=2, jitter=-1), "withholding[0].jitter: must be at least 0"),
    (
        rule("home-zone", radius_m=0),
        "withholding[0].radius_m: must be above 0 and at most 1e+06 metres",
    ),
    (
        rule("random-silence", probability=1),
        "withholding[0].probability: must be above 0 and below 1",
    ),
    (named(kind="every", period_s=0), "threat.pseudonyms.period_s: must be above 0"),
    (summed(secagg_threshold=1), "threat.secagg_threshold: must be at least 2"),
    (noisy(LIMIT, **DAY, updates_a_day=0), "defenses[1].updates_a_day: must be at least 1"),
    (
        {"leakage": {"belief_ues": 1001}},
        "leakage.belief_ues: must be at least 0 and at most 1000, got 1001",
    ),
]
CONTRADICTORY = [
    *(
        (
            attack(kind, sigma_m=30, shadow_ues=5),
            "attacks[0].shadow_ues: with sigma_m no UEs are made up; leave",
        )
        for kind in ("tracker", "dwell", "re-identify")
    ),
    (
        tracker(sigma_m=30, roaming=0.2),
        "attacks[0].roaming: with sigma_m no UEs are made up; leave one of them out",
    ),
    (
        tracker(sigma_m=30, speed_mps=3),
        "attacks[0].speed_mps: with sigma_m no UEs are made up; leave one of them out",
    ),
    (
        tracker(outlier=0.1),
        "attacks[0].outlier: errors are learnt without sigma_m; leave it out, or give sigma_m",
    ),
    (
        tracker(sigma_m=3, bias_m=5),
        "attacks[0].bias_m: a part of sigma_m 3, so at most that, got 5; take a smaller",
    ),
    (tracker(of={"kind": "closed-form", "name": "x"}), "give the name 'x' to tracker itself"),
    (tracker(population={"kind": "buildings"}), "the city has no buildings; take a town"),
    (
        tracker() | {"threat": {"knowledge": ["weights"]}},
        "add training to threat.knowledge, or give sigma_m",
    ),
    (
        dwell(home_hours=[8, 8]),
        "attacks[0].home_hours: from 8 to 8 is no time at all; take two different hours",
    ),
    (
        dwell(work_hours=[16, 10]),
        "attacks[0].work_hours: 16 to 10 must be hours of one day; take the earlier one",
    ),
    (
        linked(use=["fingerprint"], sigma_m=30),
        "attacks[0].sigma_m: it speaks of places, and use has none",
    ),
    (linked(outlier=0.1), "attacks[0].outlier: it is learnt with sigma_m; give both, or none"),
    (
        linked(homes="known"),
        "re-identify needs homes of residents: homes: known are those of the threat; add homes to",
    ),
    (
        linked(homes="known") | KNOWN,
        "learning.threat.knowledge: homes: mobility random-waypoint gives none; take mobility",
    ),
    (
        linked(homes="nowhere.csv"),
        "nowhere.csv: cannot be read (No such file or directory); give a CSV file of homes",
    ),
    (linked(homes=3), "attacks[0].homes: expected"),
    (linked(use=["place", "place"]), "attacks[0].use: 'place' stands twice; name it once"),
    (
        linked(outside=0.1),
        "attacks[0].outside: it speaks of homes, and none are known; leave it out, or give homes",
    ),
    (
        linked(home_hours=[0, 6]),
        "attacks[0].home_hours: it speaks of homes, and none are known; leave it out, or give",
    ),
    (
        linked(homes="nowhere.csv", home_hours=[8, 8]),
        "attacks[0].home_hours: from and to 8 is no time at all",
    ),
    (linked(homes="nowhere.csv", outside=1), "attacks[0].outside: must be at least 0 and below 1"),
    (
        attack("re-identify") | {"threat": {"observes": "model"}},
        "set threat.observes: updates or aggregate",
    ),
    (rule("cooldown"), "withholding[0]: cooldown: give exactly one of rounds and time_s"),
    (
        rule("cooldown", rounds=2, time_s=60),
        "withholding[0]: cooldown: give exactly one of rounds and time_s",
    ),
    (rule("home-zone", radius_m=20), "home-zone needs homes"),
    (
        {"withholding": [LIMIT, LIMIT]},
        "withholding: 'daily-limit' stands 2 times; give each a name of its own",
    ),
    (
        {"threat": {"shuffle": True}},
        "threat.shuffle: names of pseudonyms permanent tell who sent what; take",
    ),
    (
        summed(shuffle=True, pseudonyms=PER_ROUND),
        "threat.shuffle: single updates are shuffled with observes: updates",
    ),
    (
        {"threat": {"secagg_threshold": 2}},
        "threat.secagg_threshold: there are sums with observes: aggregate or model, got 'updates'",
    ),
    (
        summed(secagg_group_size=3, secagg_threshold=4),
        "threat.secagg_threshold: 4 of groups of 3 never come; take at most 3",
    ),
    (
        summed(secagg_threshold=5),
        "threat.secagg_threshold: 5 updates are never there at a time, of 4 UEs",
    ),
    (
        summed(secagg_threshold=3) | {"participation": 0.5},
        "threat.secagg_threshold: 3 updates are never there at a time, of 2 UEs",
    ),
    (
        summed(secagg_threshold=3) | {"participation": 0.5, "sampling": "cyclic"},
        "threat.secagg_threshold: 3 updates are never there at a time, of 2 UEs",
    ),
    (
        summed(groups="fixed"),
        "threat.groups: fixed ones need a size; give secagg_group_size, or leave it out",
    ),
    (
        noisy(LIMIT, noise_multiplier=1, updates_a_day=2),
        "give epsilon in place of noise_multiplier",
    ),
    (noisy(**DAY, updates_a_day=2), "put {kind: daily-limit, updates: 2} into withholding"),
    (noisy(LIMIT, **DAY, updates_a_day=1), "put {kind: daily-limit, updates: 1} into withholding"),
]


@pytest.mark.parametrize(
    ("learning", "said"), [*WRONG_TYPE, *UNKNOWN, *OUT_OF_BOUNDS, *CONTRADICTORY]
)
def test_what_cannot_be_is_refused_in_one_line(learning, said, tmp_path, capsys):
    study = copy.deepcopy(TINY)
    study["learning"].update(learning)
    path = tmp_path / "study.yaml"
    path.write_text(json.dumps(study, indent=1))
    assert main(["run", str(path), "--out", str(tmp_path / "out")]) == 2
    out, lines = capsys.readouterr()
    assert out == ""
    assert len(lines.splitlines()) == 1
    assert said in lines
    assert lines.startswith((f"netsim: {path}:", f"netsim: {tmp_path / 'nowhere.csv'}:"))
    assert "Traceback" not in lines
    assert list(tmp_path.iterdir()) == [path]
