"""Scenarios of tracking, linking and holding back that cannot be: one line, exit code 2, and
nothing is written."""

import copy
import json

import pytest
from conftest import TINY
from refused import read_cases

from scenarios.app.study.load import parse_value

WRONG_TYPE = r"""
attacks: [{kind: tracker, cell_m: wide}]
    attacks[0].cell_m: expected a number at least 0.1
attacks: [{kind: tracker, own_places: yes}]
    attacks[0].own_places: expected true or false, got 'yes'
attacks: [{kind: tracker, of: null}]
    attacks[0].of: expected a mapping with kind
attacks: [{kind: tracker, population: streets}]
    attacks[0].population: expected a mapping with kind uniform, streets
attacks: [{kind: dwell, min_probability: sure}]
    attacks[0].min_probability: expected a number at least 0 and below 1
attacks: [{kind: dwell, home_hours: 8}]
    attacks[0].home_hours: expected a list of 2, each a number at least 0 and at most 24
attacks: [{kind: re-identify, use: place}], threat: {pseudonyms: {kind: per-round}}
    attacks[0].use: expected a list of at least 1, each 'place' or 'fingerprint'
withholding: [{kind: cooldown, rounds: 1.5}]
    withholding[0].rounds: expected a whole number
withholding: [cooldown]
    withholding[0]: expected a mapping with kind cooldown
threat: {pseudonyms: per-round}
    threat.pseudonyms: expected a mapping with kind permanent
threat: {pseudonyms: {}}
    threat.pseudonyms: needs a 'kind'
threat: {observes: aggregate, secagg_threshold: two}
    threat.secagg_threshold: expected a whole number at least 2
"""

UNKNOWN = r"""
attacks: [{kind: tracker, of: {kind: tracker}}]
    attacks[0].of.kind: unknown kind 'tracker'; kinds here: closed-form
attacks: [{kind: tracker, cel_m: 5}]
    attacks[0].cel_m: unknown key 'cel_m'; did you mean 'cell_m'?
attacks: [{kind: tracker, population: {kind: place}}]
    attacks[0].population.kind: unknown kind 'place'; did you mean 'places'?
attacks: [{kind: tracker, population: {kind: places}}]
    attacks[0].population: missing key 'file'
attacks: [{kind: tracker, population: {kind: places, file: nowhere.csv}}]
    nowhere.csv: cannot be read
attacks: [{kind: re-identify, use: [smell]}], threat: {pseudonyms: {kind: per-round}}
    attacks[0].use[0]: expected 'place' or 'fingerprint', got 'smell'
attacks: [{kind: re-identify, of: {kind: re-identify}}], threat: {pseudonyms: {kind: per-round}}
    attacks[0].of.kind: unknown kind 're-identify'
withholding: [{kind: cool-down}]
    withholding[0].kind: unknown kind 'cool-down'; did you mean 'cooldown'?
withholding: [{kind: daily-limit}]
    withholding[0]: missing key 'updates'
withholding: [{kind: home-zone, radius_m: 20, drops: all}]
    withholding[0].drops: expected 'samples' or 'update'
threat: {pseudonyms: {kind: every}}
    threat.pseudonyms: missing key 'period_s'
defenses: [{kind: clip, norm: 1}, {kind: gaussian, epsilon: 8, delta: 1e-5, update_a_day: 2}],
withholding: [{kind: daily-limit, updates: 2}]
    defenses[1].update_a_day: unknown key 'update_a_day'; did you mean
"""

OUT_OF_BOUNDS = r"""
attacks: [{kind: tracker, cell_m: 0}]
    attacks[0].cell_m: must be at least 0.1 and at most 1e+06 metres, got 0
attacks: [{kind: tracker, cell_m: 0.1}]
    cell_m 0.1 makes 12,000,000 places, at most 1,000,000 are possible
attacks: [{kind: tracker, roaming: 1.5}]
    attacks[0].roaming: must be at least 0 and at most 1
attacks: [{kind: tracker, sigma_m: 0}]
    attacks[0].sigma_m: must be at least 0.1
attacks: [{kind: tracker, sigma_m: 30, outlier: 1}]
    attacks[0].outlier: must be at least 1e-06 and below 1
attacks: [{kind: tracker, max_speed_mps: -3}]
    attacks[0].max_speed_mps: must be above 0
attacks: [{kind: dwell, third_places: 9}]
    attacks[0].third_places: must be at least 0 and at most 8
attacks: [{kind: dwell, home_hours: [8, 25]}]
    attacks[0].home_hours[1]: must be at least 0 and at most 24
attacks: [{kind: re-identify, use: []}], threat: {pseudonyms: {kind: per-round}}
    attacks[0].use: must have at least 1 entries
attacks: [{kind: re-identify, sigma_m: 0}], threat: {pseudonyms: {kind: per-round}}
    attacks[0].sigma_m: must be at least 0.1
withholding: [{kind: cooldown, rounds: 0}]
    withholding[0].rounds: must be at least 1
withholding: [{kind: cooldown, rounds: 2, jitter: -1}]
    withholding[0].jitter: must be at least 0
withholding: [{kind: home-zone, radius_m: 0}]
    withholding[0].radius_m: must be above 0 and at most 1e+06 metres
withholding: [{kind: random-silence, probability: 1}]
    withholding[0].probability: must be above 0 and below 1
threat: {pseudonyms: {kind: every, period_s: 0}}
    threat.pseudonyms.period_s: must be above 0
threat: {observes: aggregate, secagg_threshold: 1}
    threat.secagg_threshold: must be at least 2
defenses: [{kind: clip, norm: 1}, {kind: gaussian, epsilon: 8, delta: 1e-5, updates_a_day: 0}],
withholding: [{kind: daily-limit, updates: 2}]
    defenses[1].updates_a_day: must be at least 1
leakage: {belief_ues: 1001}
    leakage.belief_ues: must be at least 0 and at most 1000, got 1001
"""

CONTRADICTORY = r"""
attacks: [{kind: tracker, sigma_m: 30, shadow_ues: 5}]
    attacks[0].shadow_ues: with sigma_m no UEs are made up; leave
attacks: [{kind: dwell, sigma_m: 30, shadow_ues: 5}]
    attacks[0].shadow_ues: with sigma_m no UEs are made up; leave
attacks: [{kind: re-identify, sigma_m: 30, shadow_ues: 5}]
    attacks[0].shadow_ues: with sigma_m no UEs are made up; leave
attacks: [{kind: tracker, sigma_m: 30, roaming: 0.2}]
    attacks[0].roaming: with sigma_m no UEs are made up; leave one of them out
attacks: [{kind: tracker, sigma_m: 30, speed_mps: 3}]
    attacks[0].speed_mps: with sigma_m no UEs are made up; leave one of them out
attacks: [{kind: tracker, outlier: 0.1}]
    attacks[0].outlier: errors are learnt without sigma_m; leave it out, or give sigma_m
attacks: [{kind: tracker, sigma_m: 3, bias_m: 5}]
    attacks[0].bias_m: a part of sigma_m 3, so at most that, got 5; take a smaller
attacks: [{kind: tracker, of: {kind: closed-form, name: x}}]
    give the name 'x' to tracker itself
attacks: [{kind: tracker, population: {kind: buildings}}]
    the city has no buildings; take a town
attacks: [{kind: tracker}], threat: {knowledge: [weights]}
    add training to threat.knowledge, or give sigma_m
attacks: [{kind: dwell, home_hours: [8, 8]}]
    attacks[0].home_hours: from 8 to 8 is no time at all; take two different hours
attacks: [{kind: dwell, work_hours: [16, 10]}]
    attacks[0].work_hours: 16 to 10 must be hours of one day; take the earlier one
attacks: [{kind: re-identify, use: [fingerprint], sigma_m: 30}],
threat: {pseudonyms: {kind: per-round}}
    attacks[0].sigma_m: it speaks of places, and use has none
attacks: [{kind: re-identify, outlier: 0.1}], threat: {pseudonyms: {kind: per-round}}
    attacks[0].outlier: it is learnt with sigma_m; give both, or none
attacks: [{kind: re-identify, homes: known}], threat: {pseudonyms: {kind: per-round}}
    re-identify needs homes of residents: homes: known are those of the threat; add homes to
attacks: [{kind: re-identify, homes: known}],
threat: {pseudonyms: {kind: per-round}, knowledge: [weights, training, homes]}
    learning.threat.knowledge: homes: mobility random-waypoint gives none; take mobility
attacks: [{kind: re-identify, homes: nowhere.csv}], threat: {pseudonyms: {kind: per-round}}
    nowhere.csv: cannot be read (No such file or directory); give a CSV file of homes
attacks: [{kind: re-identify, homes: 3}], threat: {pseudonyms: {kind: per-round}}
    attacks[0].homes: expected
attacks: [{kind: re-identify, use: [place, place]}], threat: {pseudonyms: {kind: per-round}}
    attacks[0].use: 'place' stands twice; name it once
attacks: [{kind: re-identify, outside: 0.1}], threat: {pseudonyms: {kind: per-round}}
    attacks[0].outside: it speaks of homes, and none are known; leave it out, or give homes
attacks: [{kind: re-identify, home_hours: [0, 6]}], threat: {pseudonyms: {kind: per-round}}
    attacks[0].home_hours: it speaks of homes, and none are known; leave it out, or give
attacks: [{kind: re-identify, homes: nowhere.csv, home_hours: [8, 8]}],
threat: {pseudonyms: {kind: per-round}}
    attacks[0].home_hours: from and to 8 is no time at all
attacks: [{kind: re-identify, homes: nowhere.csv, outside: 1}],
threat: {pseudonyms: {kind: per-round}}
    attacks[0].outside: must be at least 0 and below 1
attacks: [{kind: re-identify}], threat: {observes: model}
    set threat.observes: updates or aggregate
withholding: [{kind: cooldown}]
    withholding[0]: cooldown: give exactly one of rounds and time_s
withholding: [{kind: cooldown, rounds: 2, time_s: 60}]
    withholding[0]: cooldown: give exactly one of rounds and time_s
withholding: [{kind: home-zone, radius_m: 20}]
    home-zone needs homes
withholding: [{kind: daily-limit, updates: 2}, {kind: daily-limit, updates: 2}]
    withholding: 'daily-limit' stands 2 times; give each a name of its own
threat: {shuffle: true}
    threat.shuffle: names of pseudonyms permanent tell who sent what; take
threat: {observes: aggregate, shuffle: true, pseudonyms: {kind: per-round}}
    threat.shuffle: single updates are shuffled with observes: updates
threat: {secagg_threshold: 2}
    threat.secagg_threshold: there are sums with observes: aggregate or model, got 'updates'
threat: {observes: aggregate, secagg_group_size: 3, secagg_threshold: 4}
    threat.secagg_threshold: 4 of groups of 3 never come; take at most 3
threat: {observes: aggregate, secagg_threshold: 5}
    threat.secagg_threshold: 5 updates are never there at a time, of 4 UEs
threat: {observes: aggregate, secagg_threshold: 3}, participation: 0.5
    threat.secagg_threshold: 3 updates are never there at a time, of 2 UEs
threat: {observes: aggregate, secagg_threshold: 3}, participation: 0.5, sampling: cyclic
    threat.secagg_threshold: 3 updates are never there at a time, of 2 UEs
threat: {observes: aggregate, groups: fixed}
    threat.groups: fixed ones need a size; give secagg_group_size, or leave it out
defenses: [{kind: clip, norm: 1}, {kind: gaussian, noise_multiplier: 1, updates_a_day: 2}],
withholding: [{kind: daily-limit, updates: 2}]
    give epsilon in place of noise_multiplier
defenses: [{kind: clip, norm: 1}, {kind: gaussian, epsilon: 8, delta: 1e-5, updates_a_day: 2}],
withholding: []
    put {kind: daily-limit, updates: 2} into withholding
defenses: [{kind: clip, norm: 1}, {kind: gaussian, epsilon: 8, delta: 1e-5, updates_a_day: 1}],
withholding: [{kind: daily-limit, updates: 2}]
    put {kind: daily-limit, updates: 1} into withholding
"""


@pytest.mark.parametrize(
    "learning, message", read_cases(WRONG_TYPE + UNKNOWN + OUT_OF_BOUNDS + CONTRADICTORY)
)
def test_what_cannot_be_is_refused_in_one_line(learning, message, tmp_path, refuse_command):
    study = copy.deepcopy(TINY)
    study["learning"] |= parse_value(f"{{{learning}}}")
    path = tmp_path / "study.yaml"
    path.write_text(json.dumps(study, indent=1))
    line = refuse_command(f"run {path} --out {tmp_path}/out --quiet")
    assert message in line
    assert line.startswith((f"netsim: {path}:", f"netsim: {tmp_path}/nowhere.csv:"))
    assert list(tmp_path.iterdir()) == [path]
