"""Every mistake in a study is one line: file, line, place, value, bound, remedy."""

import re
from typing import Annotated, Literal

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field, field_validator, model_validator
from pytest import mark, raises
from refused import read_cases

from netsim.errors import BadInput, suggest_nearest
from netsim.part import Named, OneOf, Part
from scenarios.app.study.describe import build_model
from scenarios.app.study.yaml_document import parse_document


class Still(Part):
    """Nobody moves."""

    kind: Literal["still"] = "still"


class Walk(Part):
    """Everybody walks."""

    kind: Literal["random-walk"] = "random-walk"
    speed_m_s: float = Field(gt=0, le=50)
    """how fast"""
    pause_s: float = Field(default=0.0, ge=0)
    turn: Literal["sharp", "smooth"] = "sharp"
    legs: int | None = Field(default=None, ge=1)


class Group(Part):
    """A group moves as its leader does."""

    kind: Literal["group"] = "group"
    leader: Annotated[Part, OneOf("move", Still, Walk)]
    spread_m: Annotated[float, Field(gt=0)] | tuple[float, float] = 1.0
    cells: Literal["all", "near"] | tuple[int, ...] = "all"


Move = Annotated[Part, OneOf("move", Still, Walk, Group)]


class Layer(Named):
    """Named, so that several may stand in one study."""

    kind: Literal["layer"] = "layer"
    gain_db: float = 0.0


class World(Part):
    """Where we are."""

    duration_s: float = Field(gt=0)
    """how long it lasts"""
    at_m: tuple[float, float] = (0.0, 0.0)
    move: Move = Still()
    backup: Move | None = None
    others: tuple[Move, ...] = ()
    hidden: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(64,), min_length=1)
    weights: dict[str, float] = {}
    layers: tuple[Annotated[Part, OneOf("layer", Layer)], ...] = ()
    either: Move | Literal["none"] = "none"
    log: bool = False


class Study(Part):
    """The root."""

    title: str = Field(min_length=1, max_length=20)
    """what it is about"""
    world: World | None = None
    seed: int = 0

    @field_validator("seed")
    @classmethod
    def _lucky(cls, seed: int) -> int:
        if seed == 13:
            raise ValueError("seed 13 brings bad luck;\ntake 14")
        return seed

    @model_validator(mode="after")
    def _agree(self) -> "Study":
        if self.seed == 1 and self.title == "one":
            raise ValueError("title and seed say the same; change one")
        if self.world is not None and self.world.at_m == (6.0, 6.0):
            raise ValueError("world.at_m[1]: nobody may stand at 6; take 7")
        return self


def complaints(text: str) -> tuple[str, ...]:
    with raises(BadInput) as caught:
        build_model(Study, parse_document(text, "study.yaml"))
    assert all(line.isprintable() for line in caught.value.lines)
    return caught.value.lines


def world(yaml: str) -> str:
    """A study whose line 5 is this."""
    return f"title: x\nworld:\n  # a comment\n  duration_s: 3\n  {yaml}\n"


MISTAKES = [
    *read_cases(r"""
move: {kind: random-walk, speed_m_s: -3}
    world.move.speed_m_s: must be above 0 and at most 50 metres per second, got -3
move: {kind: random-walk, speed_m_s: 1, pause_s: -1}
    world.move.pause_s: must be at least 0 seconds, got
move: {kind: random-walk, speed_m_s: fast}
    world.move.speed_m_s: expected a number above 0 and at most 50 (metres per second), got 'fast'
move: {kind: random-walk, speed_m_s: 3 m/s}
    got '3 m/s'
move: {kind: random-walk, speed_m_s: '3'}
    got '3'
move: {kind: random-walk, speed_m_s: }
    got null
move: {kind: random-walk, speed_m_s: true}
    got true
move: {kind: random-walk}
    world.move: missing key 'speed_m_s' (how fast); add `speed_m_s:` with a number above 0 and at most 50
move: {kind: random-walk, speed_m_s: 1, turn: smoth}
    world.move.turn: expected 'sharp' or 'smooth', got 'smoth'; did you mean 'smooth'?
move: {kind: random-walk, speed_m_s: 1, legs: 1.5}
    world.move.legs: expected a whole number at least 1, got
move: {kind: random-walk, speed_m_s: 1, legs: 1e3}
    got 1000.0
move: {kind: random-walk, speed_m_s: 1, legs: 0}
    world.move.legs: must be at least 1, got 0
move: {kind: random-walk, sped: 2, speed_m_s: 1}
    world.move.sped: unknown key 'sped'; did you mean 'speed_m_s'? keys here: kind, speed_m_s
move: {kind: group, leader: {kind: random-walk, speed_m_s: 1, paus_s: 2}}
    world.move.leader.paus_s: unknown key 'paus_s'; did you mean 'pause_s'?
move: {kind: random_walk}
    world.move.kind: unknown kind 'random_walk'; did you mean 'random-walk'? kinds here: still, random-walk, group; or install its package: pip install -e FOLDER
move: {kind: 3}
    world.move.kind: unknown kind 3; kinds here: still, random-walk, group
move: {speed_m_s: 3}
    world.move: needs a 'kind'; one of still, random-walk, group
move: still
    world.move: expected a mapping with kind still, random-walk or group, got 'still'
backup: {kind: stil}
    world.backup.kind: unknown kind 'stil'; did you mean 'still'?
others: [{kind: still}, {kind: stil}]
    world.others[1].kind: unknown kind 'stil'; did you mean 'still'?
others: {kind: still}
    got {kind: still}
others: [{kind: group, leader: {kind: group}}]
    world.others[0].leader.kind: unknown kind 'group'; kinds
at_m: [1]
    world.at_m: expected a list of 2, each a number (metres), got [1]
at_m: [1, 2, 3]
    world.at_m: must have at most 2 entries, got [1, 2, 3]
at_m: [1, north]
    world.at_m[1]: expected a number (metres), got 'north'
hidden: 64
    world.hidden: expected a list of at least 1, each a whole number at least 1, got 64
hidden: []
    world.hidden: must have at least 1 entries, got []
hidden: [0]
    world.hidden[0]: must be at least 1, got 0
weights: {a: x}
    world.weights.a: expected a number, got 'x'
log: off
    world.log: expected true or false, got 'off'
layers: [{kind: layer, name: a b}]
    world.layers[0].name: must match ^[A-Za-z0-9_-]+$, got 'a b'
layers: [{kind: layer, gain_db: x}]
    world.layers[0].gain_db: expected a number (dB), got 'x'
move: {kind: group, leader: {kind: still}, spread_m: -1}
    world.move.spread_m: must be above 0 metres, got
move: {kind: group, leader: {kind: still}, spread_m: wide}
    world.move.spread_m: expected a number above 0 or a list of 2, each a number (metres), got 'wide'
move: {kind: group, leader: {kind: still}, spread_m: [1, x]}
    world.move.spread_m[1]: expected a number
move: {kind: group, leader: {kind: still}, cells: al}
    got 'al'; did you mean 'all'?
either: {kind: stil}
    world.either.kind: unknown kind 'stil'; did you mean 'still'?
either: {kind: random-walk, speed_m_s: 0}
    world.either.speed_m_s: must be above 0 and at most 50
either: 3
    world.either: expected a mapping with kind still, random-walk or group or 'none', got
'a.b': 3
    world.'a.b': unknown key 'a.b'; keys here: duration_s
"""),
    ("'a\\nb': 3", "unknown key"),
    (f"log: {'x' * 500}", "..."),
]


@mark.parametrize(
    "yaml, message",
    MISTAKES,
)
def test_a_mistake_is_one_line_with_place_value_and_remedy(yaml, message):
    (line,) = complaints(world(yaml))
    assert line.startswith("study.yaml:5: ")
    assert message in line
    assert len(line) < 250


@mark.parametrize(
    "text, lines",
    [
        (
            "seed: 1\n",
            [
                "study.yaml:1: top level: missing key 'title' (what it is about); add "
                "`title:` with text"
            ],
        ),
        ("title: 3\n", ["study.yaml:1: title: expected text, got 3"]),
        ("title: ''\n", ["study.yaml:1: title: must have at least 1 characters, got ''"]),
        ("title: x\nseed: 13\n", ["study.yaml:2: seed: seed 13 brings bad luck; take 14"]),
        (
            "title: x\nworld:\n  duration_s: 1\n  at_m: [6,\n         6]\n",
            ["study.yaml:5: world.at_m[1]: nobody may stand at 6; take 7"],
        ),
        (
            "title: one\nseed: 1\n",
            ["study.yaml:1: top level: title and seed say the same; change one"],
        ),
        (
            "title: x\nworld: 3\n",
            [
                "study.yaml:2: world: expected a mapping of duration_s, at_m, move, backup, "
                "others, hidden, weights, layers, either, log, got 3"
            ],
        ),
    ],
)
def test_mistakes_at_the_top(text, lines):
    assert list(complaints(text)) == lines


def test_all_mistakes_are_told_in_the_order_of_the_file():
    text = (
        "sed: 3\nworld:\n  log: 1\n  move:\n    kind: random-walk\n    speed_m_s: 99\n  "
        "duration_s: 0\n"
    )
    lines = complaints(f"{text}title: []\n")
    assert [int(line.split(":")[1]) for line in lines] == [1, 3, 6, 7, 8]
    assert "did you mean 'seed'?" in lines[0]


def test_the_nearest_word_is_offered():
    assert suggest_nearest("hiden", ["hidden", "other"]) == "; did you mean 'hidden'?"
    assert suggest_nearest("duration", ["other", "duration_s"]) == "; did you mean 'duration_s'?"
    assert suggest_nearest("power", ["max_power_dbm"]) == "; did you mean 'max_power_dbm'?"
    assert suggest_nearest("Random Walk", ["random_walk", "x"]) == suggest_nearest(
        "RANDOM_WALK", ["random_walk"]
    )
    assert suggest_nearest("RANDOM_WALK", ["random_walk"]) == "; did you mean 'random_walk'?"
    assert suggest_nearest("qqq", ["hidden"]) == ""


KEYS = [
    "title",
    "world",
    "move",
    "kind",
    "still",
    "group",
    "leader",
    "duration_s",
    "hidden",
    "either",
    "cells",
]
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-3, 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
)
DATA = st.recursive(
    LEAVES | st.sampled_from(KEYS) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=12,
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.sampled_from(KEYS), DATA, max_size=4))
def test_any_data_is_built_or_explained(data):
    document = parse_document("title: x", "f.yaml")
    document = type(document)(document.path, data, document.lines)
    try:
        build_model(Study, document)
    except BadInput as error:
        assert error.lines
        assert all(line.isprintable() and re.match(r"f\.yaml:1: \S", line) for line in error.lines)
