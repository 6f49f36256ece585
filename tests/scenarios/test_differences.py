"""The keys in which studies differ: exactly those that were changed, wherever they stand."""

import pytest
from rows import read_yaml
from tabled import cases

from scenarios.app.report.tables import MOST_COLUMNS, render_differences
from scenarios.app.results.gathered import find_differing_keys

FIRST = read_yaml("""
    title: a, seed: 1, vary: null,
    world: {duration_s: 60.0, radio: {uplink: {kind: noma, deadline_s: 60.0}}, area: [0.0, 1.0]},
    learning: {defenses: [{kind: clip, norm: 1.0}, {kind: gaussian, noise_multiplier: 0.5}],
    threat: {observes: updates, secagg_group_size: null}}
""")


def change_study(path, value):
    """The first study with another value at a dotted path."""
    *way, last = path.split(".")
    study = {k: dict(v) if isinstance(v, dict) else v for k, v in FIRST.items()}
    inside = study
    for key in way:
        inside[key] = dict(inside[key])
        inside = inside[key]
    inside[last] = value
    return study


@pytest.mark.parametrize(
    "path, value, result",
    cases("""
"title", "b", "title"
"world.duration_s", 61.0, "world.duration_s"
"world.radio.uplink", {"kind": "noma", "deadline_s": 5.0}, "world.radio.uplink.deadline_s"
"world.radio.uplink", {"kind": "noma", "deadline_s": None}, "world.radio.uplink.deadline_s"
"world.area", [0.0, 2.0], "world.area.1"
"learning.defenses", [{"kind": "clip", "norm": 1.0},
    {"kind": "gaussian", "noise_multiplier": 2.0}], "learning.defenses.1.noise_multiplier"
"learning.threat.observes", "aggregate", "learning.threat.observes"
"plan", {"noise_w": 1.0}, "plan.noise_w"
"""),
)
def test_a_changed_key_is_found_and_no_other(path, value, result):
    first, second, again = find_differing_keys([FIRST, change_study(path, value), FIRST])[result]
    assert first == again != second
    assert list(find_differing_keys([change_study(path, value), FIRST])) == [result]


def test_seeds_and_the_section_of_a_sweep_are_no_difference():
    assert find_differing_keys([FIRST, FIRST | read_yaml("seed: 2, vary: {seed: [1, 2]}")]) == {}


def test_several_changes_stand_in_the_order_of_the_study():
    second = change_study("learning.threat.secagg_group_size", 5) | {"title": "b"}
    assert list(find_differing_keys([FIRST, second]).items()) == [
        ("title", ["a", "b"]),
        ("learning.threat.secagg_group_size", ["null", "5"]),
    ]


def test_a_missing_key_is_not_an_empty_one():
    assert find_differing_keys([FIRST, FIRST | {"plan": None}]) == {"plan": ["–", "null"]}
    assert list(
        find_differing_keys(
            [FIRST, change_study("learning.defenses", FIRST["learning"]["defenses"][:1])]
        ).values()
    ) == [
        ["gaussian", "–"],
        ["0.5", "–"],
    ]


def test_changed_cells_are_marked_and_the_others_say_that_they_are_the_same():
    table = render_differences(
        {"A <b>": FIRST, "B": change_study("world.duration_s", 61.0), "C": FIRST}
    )
    assert "A &lt;b&gt;" in table
    assert "A <b>" not in table
    assert table.count('class="text changed"') == 1
    assert ">61</td>" in table
    assert table.count(">same</td>") == 1


def test_many_labels_are_rows():
    many = {str(k): change_study("world.duration_s", float(k)) for k in range(MOST_COLUMNS + 1)}
    assert render_differences(many).count("<tr>") == len(many) + 1
    assert render_differences({"a": FIRST, "b": FIRST}) == ""
