"""YAML is read as YAML 1.2, every node keeps its line, and what is refused is refused in one
line."""

import re

from hypothesis import example, given, settings
from hypothesis import strategies as st
from pytest import mark, raises
from refused import catch_line

from netsim.errors import BadInput
from scenarios.app.study.load import Scenario
from scenarios.app.study.yaml_document import MAX_BYTES, MAX_DEPTH, parse_document, read_document

BOMB = "a: &a [x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join(f'*{a}' for _ in range(9))}]\n"
    for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


def complaint(text: str) -> str:
    """The single line that a text is refused with."""
    return catch_line(parse_document, text, "study.yaml")


@mark.parametrize(
    "written, value",
    [
        ("1e-5", 1e-5),
        ("1E5", 1e5),
        ("2.6e9", 2.6e9),
        (".5", 0.5),
        ("5.", 5.0),
        ("-3", -3),
        ("+3", 3),
        ("010", 10),
        ("0o17", 15),
        ("0x1F", 31),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("off", "off"),
        ("yes", "yes"),
        ("n", "n"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("2020-01-01T10:00:00Z", "2020-01-01T10:00:00Z"),
        ("'3'", "3"),
        ('"true"', "true"),
        ("nan", "nan"),
        ("|\n  two\n  lines\n", "two\nlines\n"),
        ("[1, [a, {b: c}]]", [1, ["a", {"b": "c"}]]),
    ],
)
def test_a_value_means_what_yaml_1_2_says(written, value):
    data = parse_document(f"key: {written}").data
    assert data == {"key": value}
    assert type(data["key"]) is type(value)


def test_every_node_has_its_line():
    text = (
        "# comment\ntitle: x\n\nworld:\n  ues:\n    - {name: a,\n       count: 3}\n    -\n  "
        "    name: b\n"
    )
    document = parse_document(text)
    assert document.lines == {
        (): 2,
        ("title",): 2,
        ("world",): 4,
        ("world", "ues"): 5,
        ("world", "ues", 0): 6,
        ("world", "ues", 0, "name"): 6,
        ("world", "ues", 0, "count"): 7,
        ("world", "ues", 1): 9,
        ("world", "ues", 1, "name"): 9,
    }


def test_a_place_that_is_absent_has_the_line_of_its_nearest_ancestor():
    document = parse_document("a: 1\nb:\n  c: 2\n", "f.yaml")
    assert document.find_line(("b", "c", "d", 3)) == 3
    assert document.find_line(("b", "x")) == 2
    assert document.find_line(("x",)) == 1
    assert document.format_place(("b", "c")) == "f.yaml:3: b.c"


@mark.parametrize(
    "text, line, words",
    [
        ("", 1, "empty"),
        ("# only a comment\n", 1, "empty"),
        ("---\n", 1, "empty"),
        ("- 1\n", 1, "a list"),
        ("hello\n", 1, "single value"),
        ("a: &x 1\n", 1, "anchor &x"),
        ("a: 1\nb: *x\n", 2, "undefined alias 'x'"),
        ("a: 1\n*x : 2\n", 2, "undefined alias 'x'"),
        ("a: 1\nb: !!python/object/apply:os.system [ls]\n", 2, "tag python/object/apply:os.system"),
        ("!!python/object/apply:os.system [ls]\n", 1, "tag python/object/apply:os.system"),
        ("a: !mine 1\n", 1, "tag !mine"),
        ("a: !!set {b}\n", 1, "tag set"),
        ("a: 1\nb: 2\na: 3\n", 3, "first on line 1"),
        ("a: 1\n2: 3\n", 2, "key '2' is no word"),
        ("true: 3\n", 1, "key 'true' is no word"),
        (": 3\n", 1, "key '' is no word"),
        ("? [a]\n: 3\n", 1, "is no word"),
        ("a: 1\n---\nb: 2\n", 2, "but found another document"),
        ("a: 1\n...\nb: 2\n", 3, "but found another document"),
        ("a:\n\t- b\n", 2, "cannot start any token"),
        ("a: 1\nb: [1,\nc\n", 2, "while parsing a flow sequence"),
        ("a: [1,\n  2}\n", 2, "while parsing a flow sequence"),
        ("a: b: c\n", 1, "not allowed here"),
        ('a: 1\nb: "x\n', 2, "quoted scalar"),
        ("a: @x\n", 1, "cannot start any token"),
        ("a: 1\nb: .nan\n", 2, "must be finite"),
        ("a: [1, -.inf]\n", 1, "a[1]: number -.inf must be finite"),
        ("a: 1e999\n", 1, "must be finite"),
        ("a: " + "1" * 5000, 1, "must be finite"),
        ("a: 1\nb: \x00\n", 2, "not allowed in YAML"),
        ('a: "\\ud800"\n', 1, "half a character"),
        ('a: 1\nb: "\\UFFFFFFFF"\n', 1, "escape"),
        ("a: " + "[" * 2000, 1, f"deeper than {MAX_DEPTH}"),
        ("[" * 2000, 1, f"deeper than {MAX_DEPTH}"),
        ("a: " + "{a: " * 800, 1, f"deeper than {MAX_DEPTH}"),
        ("a:\n  " + "- " * 800, 1, f"deeper than {MAX_DEPTH}"),
        ("a: '" + "x" * MAX_BYTES + "'", 1, "bytes"),
        (BOMB, 1, "anchor &a"),
    ],
)
def test_what_is_refused_is_refused_in_one_line_with_its_place(text, line, words):
    message = complaint(text)
    assert re.match(rf"study\.yaml:{line}: \S", message), message
    assert words in message
    assert ";" in message, "a complaint ends with a remedy"


@mark.parametrize(
    "content, words",
    [
        (b"a: 1\nb: \xff\n", ":2: text: byte 0xff is not UTF-8"),
        ("a: 1".encode("utf-16"), ":1: text: byte 0xff is not UTF-8"),
        (b"a: 1\n" * (MAX_BYTES // 5 + 1), ":1: top level: more than"),
    ],
)
def test_files_that_are_no_text_or_too_long_are_refused(tmp_path, content, words):
    path = tmp_path / "study.yaml"
    path.write_bytes(content)
    with raises(BadInput, match=re.escape(f"{path}{words}")):
        read_document(path)


@mark.parametrize(
    "name, words",
    [("none.yaml", "No such file"), (".", "is a folder"), ("a\0b", "null"), ("a\nb", "a\\nb")],
)
def test_what_cannot_be_opened_is_named(tmp_path, name, words):
    assert words in catch_line(read_document, f"{tmp_path}/{name}")


YAMLISH = st.text(
    alphabet="ab:-[]{}&*!|>'\"%@`#?, \n\t~<=.019eExo_\\U\ud800\u2028\x85\r\ufeff/", max_size=30
)


@settings(deadline=None, max_examples=200)
@given(
    st.one_of(
        st.text(max_size=40),
        YAMLISH,
        YAMLISH.map("a: ".__add__),
        st.from_regex(r'a: "\\[xuU].{0,9}'),
    )
)
@example('a: "\\U00110000"')
@example("%YAML " + "9" * 5000 + ".1\n---\na: 1")
def test_any_text_is_read_or_refused_in_one_line(text):
    try:
        document = parse_document(text, "f.yaml")
    except BadInput as error:
        assert len(error.lines) == 1
        assert error.lines[0].isprintable()
        assert re.match(r"f\.yaml:\d+: ", error.lines[0])
    else:
        assert isinstance(document.data, dict)
        assert set(document.lines) >= {(key,) for key in document.data}


@mark.parametrize(
    "words, message",
    [
        (
            ["validate", "city", "--set", "world.ues.count=1" + "0" * 400],
            "--set world.ues.count: number 1000",
        ),
        (
            ["validate", "city", "--set", "vary.seed=[1, 1e999]"],
            "--set vary.seed[1]: number 1e999 must be finite",
        ),
        (
            ["validate", "city", "--set", "power={kind: average, total_min_w: .nan}"],
            "--set power.total_min_w: number",
        ),
        (
            ["replay", "trace.csv", "--area-m", "1,2,3,1e999"],
            "--area-m[3]: number 1e999 must be finite",
        ),
        (["replay", "trace.csv", "--area-deg", "-" + "9" * 400], "--area-deg[0]: number -999"),
    ],
)
def test_a_complaint_of_a_value_names_the_option_and_the_key(
    words, message, tmp_path, monkeypatch, refuse_command
):

    monkeypatch.chdir(tmp_path)
    (tmp_path / "trace.csv").write_text("user,time_s,x_m,y_m\na,0,1,2\n")
    if words[-1].startswith("-"):
        words = [*words[:-2], "=".join(words[-2:])]
    printed = refuse_command(words)
    assert printed.startswith(f"netsim: {message}")


def test_names_of_files_count_from_the_scenario_wherever_a_part_takes_one(tmp_path, monkeypatch):
    monkeypatch.setenv("SOMEWHERE", "/data")
    text = """
        title: files
        world:
          city: {kind: footprints, file: houses.geojson}
          base_stations: {kind: cell-file, file: cells.csv}
          ues: {mobility: {kind: replay, trace: sub/trace.csv}}
        power: {kind: ddpg, policy: ../policy}
        learning: {round_s: 60, learner: {kind: torch, module: cnn}, data: {kind: images, folder: "${SOMEWHERE}/images"}}
    """
    (tmp_path / "s.yaml").write_text(text)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    data = Scenario.from_source(tmp_path / "s.yaml").document.data
    assert data["world"]["city"]["file"] == str(tmp_path / "houses.geojson")
    assert data["world"]["base_stations"]["file"] == str(tmp_path / "cells.csv")
    assert data["world"]["ues"]["mobility"]["trace"] == str(tmp_path / "sub/trace.csv")
    assert data["power"]["policy"] == str(tmp_path.parent / "policy")
    assert data["learning"]["data"]["folder"] == "/data/images"
    typed = Scenario.from_source(
        tmp_path / "s.yaml", {"world.city.file": "other.geojson"}
    ).document.data
    # from the command line
    assert typed["world"]["city"]["file"] == str(elsewhere / "other.geojson")
