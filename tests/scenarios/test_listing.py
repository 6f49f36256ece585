"""What may stand in a study is told as text and as a schema."""

import json
import re
import tomllib
from typing import Annotated, Literal

import pytest
from pydantic import Field

from netsim.part import OneOf, Part
from scenarios.app.study.describe import (
    build_json_schema,
    describe_keys,
    read_part_title,
    to_flow_yaml,
)
from scenarios.app.study.load import list_bundled, parse_value


class Still(Part):
    """Nobody moves."""

    reference = "[camp, Sec. 2.1]"
    example = {"kind": "still"}

    kind: Literal["still"] = "still"


class Walk(Part):
    """Everybody walks: a claim that is long enough to be wrapped when it is printed, since it goes
    on and on.

    This second paragraph is not listed.
    """

    reference = "[camp, Eq. 3]"
    example = {"kind": "walk", "speed_m_s": [0.8, 1.6]}

    kind: Literal["walk"] = "walk"
    speed_m_s: tuple[float, float]
    """how fast; a long description that is wrapped when it is put beside its key"""
    pause_s: float = Field(default=20.0, ge=0, lt=3600)
    """how long it rests"""
    turn: Literal["sharp", "smooth"] = "sharp"
    legs: int | None = None
    leader: Annotated[Part, OneOf("move", Still)] = Still()
    tags: tuple[str, ...] = Field(default_factory=lambda: ("a", "b c"))


class Bare(Part):
    kind: Literal["bare"] = "bare"


MOVE = OneOf("move", Still, Walk, Bare)


class World(Part):
    """Where we are."""

    move: Annotated[Part, MOVE]
    others: tuple[Annotated[Part, MOVE], ...] = ()
    title: str = "x"


def test_a_part_is_listed_with_all_its_keys():
    assert read_part_title(Walk).endswith("since it goes on and on.")
    assert read_part_title(Bare) == ""
    assert describe_keys(Still) == [
        ("(example)", "{kind: still}"),
        ("(reference)", "[camp, Sec. 2.1]"),
    ]
    assert [text for _, text in describe_keys(Walk)] == [
        "a list of 2, each a number (metres per second); required\nhow fast; a long description "
        "that is wrapped when it is put beside its key",
        "a number at least 0 and below 3600 (seconds); default 20\nhow long it rests",
        "'sharp' or 'smooth'; default sharp",
        "a whole number; default null",
        "a mapping with kind still; default {kind: still}",
        "a list, each text; default [a, 'b c']",
        "{kind: walk, speed_m_s: [0.8, 1.6]}",
        "[camp, Eq. 3]",
    ]


@pytest.mark.parametrize(
    "value, yaml",
    [
        (None, "null"),
        (True, "true"),
        (1e-5, "1e-05"),
        (3.0, "3"),
        (2.6e9, "2.6e+09"),
        (1234567.5, "1234567.5"),
        ((1, (2.5, "x")), "[1, [2.5, x]]"),
        ("true", "'true'"),
        ("a b", "'a b'"),
        ({"a": [1]}, "{a: [1]}"),
        (Walk(speed_m_s=(1.0, 2.0)), "{kind: walk, speed_m_s: [1, 2]}"),
    ],
)
def test_a_value_is_written_as_yaml(value, yaml):
    assert to_flow_yaml(value) == yaml


def test_the_schema_serves_an_editor():
    schema = json.loads(json.dumps(build_json_schema(World)))
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["additionalProperties"] is False
    assert schema["required"] == ["move"]
    assert "title" in schema["properties"]
    mapping = {"still": "#/$defs/Still", "walk": "#/$defs/Walk", "bare": "#/$defs/Bare"}
    for slot in (schema["properties"]["move"], schema["properties"]["others"]["items"]):
        assert slot["discriminator"] == {"propertyName": "kind", "mapping": mapping}
        assert slot["oneOf"] == [{"$ref": ref} for ref in mapping.values()]
    for kind, ref in mapping.items():
        part = schema["$defs"][ref.removeprefix("#/$defs/")]
        assert part["additionalProperties"] is False
        assert part["properties"]["kind"] == {"const": kind, "type": "string"}
        assert "kind" in part["required"]
    walk = schema["$defs"]["Walk"]
    assert walk["required"] == ["kind", "speed_m_s"]
    assert walk["properties"]["pause_s"] == parse_value(
        "{default: 20.0, description: how long it rests, "
        "exclusiveMaximum: 3600, minimum: 0, type: number}"
    )


class Ordered(Part):
    """Keys in an order of their own."""

    north_m: float
    east_m: float
    up_m: float
    at_s: float
    by_db: float


def test_keys_of_a_part_are_told_in_the_order_of_its_class():
    """Whatever the order in which a process iterates over a set of texts, and in which they were
    given."""
    printed = to_flow_yaml(Ordered(by_db=5.0, at_s=4.0, up_m=3.0, east_m=2.0, north_m=1.0))
    assert printed == "{north_m: 1, east_m: 2, up_m: 3, at_s: 4, by_db: 5}"


def test_a_kind_is_found_in_every_slot_that_has_it(run_command):
    from scenarios.app.study.slots import SLOTS

    kinds = {kind for one_of in SLOTS.values() for kind in one_of.parts}
    for kind in sorted(kinds - set(SLOTS)):
        shown = run_command("list", kind)
        slots = [slot for slot, one_of in SLOTS.items() if kind in one_of.parts]
        assert all(f"{slot} {kind}:" in shown for slot in slots)


def test_a_name_that_is_no_kind_leads_to_the_nearest_one(refuse_command):

    for typed, meant in (("spam", "span"), ("clossed-form", "closed-form"), ("attak", "attack")):
        assert (
            f"no slot, kind, study, section or key '{typed}'; did you mean '{meant}'"
            in refuse_command("list", typed)
        )


def test_a_training_is_listed_with_its_command_and_where_its_keys_are(run_command):

    for name in ("power", "power/city"):
        shown = run_command("list", name)
        assert "    netsim train power/city\n" in shown
        assert "netsim train power/noise" not in shown
    shown = run_command("list train")
    assert "\n  eval_every  a whole number" in shown


def test_a_section_and_a_key_of_one_are_found(run_command):

    for name, words in (
        ("handover", "time_to_trigger"),
        ("world.radio", "carrier_hz"),
        ("carrier_hz", "world.radio"),
    ):
        assert words in run_command("list", name)


def test_every_study_is_in_one_group_with_its_data():
    from scenarios.app.cli.ask import STUDIES

    listed = [
        pair
        for group in tomllib.loads(STUDIES.read_text())["group"]
        for pair in group["studies"].items()
    ]
    assert sorted(name for name, _ in listed) == sorted(list_bundled())
    for name, message in listed:
        data = re.findall(r"\$\{NETSIM_DATA\}/([\w./-]+)", list_bundled()[name].read_text())
        assert re.split(", (?!sweep)", message)[1:] == [*dict.fromkeys(data)], name
