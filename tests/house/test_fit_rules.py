"""Rules of fit: the example of each breaks that rule, and every word of one is a word that
something may bring."""

import inspect
import json
import re
from collections import Counter
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from refused import catch_line
from rows import read_cells, read_yaml

from fl.server import Synchronous
from netsim.fit import PartRule, Word, Words, explain_first_breach, read_rules, refuse_broken
from netsim.part import OneOf, Part, Section
from netsim.world.setting import WorldSetting
from scenarios.app.cli.commands import main
from scenarios.app.study.load import list_bundled
from scenarios.app.study.slots import SLOTS, collect_all_rules

RULES = collect_all_rules()
OF_A_PLUGIN = {"records-of-other-servers"}


def says(rule, line):
    """Whether a line is the sentence of a rule, whatever its parts are called."""
    pieces = map(re.escape, re.split(r"<[\w.]+>", rule.pattern))
    return re.search(".*".join(pieces), line) is not None


@pytest.fixture
def break_rule(monkeypatch):
    """Keys of the rules that were found broken."""
    keys = []
    check = PartRule.explain_breach

    def watch(rule, words):
        sentence = check(rule, words)
        keys.extend([rule.key] if sentence else [])
        return sentence

    monkeypatch.setattr(PartRule, "explain_breach", watch)
    return keys


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if rule.key not in OF_A_PLUGIN], ids=lambda rule: rule.key
)
def test_a_rule_is_broken_by_its_example(rule, tiny, break_rule):
    changes = {path: None if value == "none" else value for path, value in rule.example.items()}
    if rule.asked:
        line = catch_line(refuse_broken, tiny(changes), rule.asked)
    else:
        line = catch_line(tiny, changes)
    assert (break_rule, says(rule, line)) == ([rule.key], True)


def test_rounds_of_a_server_of_ones_own_are_not_recorded(tiny):
    class Mine(Synchronous):
        kind: Literal["mine"] = "mine"

    example = next(rule.example for rule in RULES if rule.key == "records-of-batteries")
    study = tiny({path: example[path] for path in example.keys() - {"learning.availability"}})
    assert explain_first_breach(study, "recorded rounds") == ""
    learning = study.learned.model_copy(update={"server": Mine()})
    changed = study.model_copy(update={"learning": learning})
    text = explain_first_breach(changed, "recorded rounds")
    assert text.startswith("learning.server: recorded rounds need a server that waits for all")


def test_keys_are_unique():
    assert [key for key, times in Counter(rule.key for rule in RULES).items() if times > 1] == []


@pytest.fixture(scope="module")
def brought():
    """Words that parts offer or need, and texts: names of fields, and their defaults."""
    examples = [
        part.model_validate_json(json.dumps(part.example), strict=True)
        for part in EVERY
        if part.example
    ]
    words = {word for part in examples for word in (*part.offers, *part.needs)}
    fields = [item for part in (*EVERY, WorldSetting) for item in part.model_fields.items()]
    defaults = {str(field.default).lower() for _, field in fields}
    words |= {"arrival times", "records of earlier rounds"}  # of no example
    return words, words | defaults | {name for name, _ in fields}


def find_in(annotation, metadata=()):
    """All that a value may be by what is declared of it: classes, with those of a slot, and words
    written out."""
    for mark in metadata:
        if isinstance(mark, OneOf):
            return [*mark.parts.values(), *find_in(annotation)]
        if isinstance(mark, Section):
            return [mark.part, type(None)]
    if get_origin(annotation) is Literal:
        return [str(value).lower() for value in get_args(annotation)]
    if hasattr(annotation, "__metadata__"):
        return find_in(annotation.__origin__, annotation.__metadata__)
    if inner := [
        result for item in get_args(annotation) if item is not Ellipsis for result in find_in(item)
    ]:
        return inner
    if isinstance(annotation, type) and issubclass(annotation, Part):
        below = annotation.__subclasses__()
    else:
        below = ()
    return [annotation, *(result for item in below for result in find_in(item))]


# read once, so that their bases are known
EVERY = [part for slot in SLOTS.values() for part in slot.parts.values()]
PARTS = {item.__name__: item for item in find_in(Part)}


def find_declared(part, name):
    """What an attribute of a class may be; nothing where it has none."""
    if not (
        isinstance(part, type)
        and (hasattr(part, name) or name in getattr(part, "model_fields", ()))
    ):
        return []
    if field := getattr(part, "model_fields", {}).get(name):
        return find_in(field.annotation, field.metadata)
    own_rows = inspect.getattr_static(part, name)
    if isinstance(own_rows, property):
        return find_in(get_type_hints(own_rows.fget).get("return"))
    if isinstance(own_rows, tuple | frozenset | dict):
        members = own_rows
    else:
        members = [str(own_rows).lower()]
    return [type(own_rows), *members]


def find_end(part, steps):
    """All that may be at the end of a path; nothing where it leads nowhere."""
    index = [part]
    for name in steps:
        index = [result for item in index for result in find_declared(item, name)]
    return index


def is_brought(rule, text, brought):
    """Whether something of a class of parts may make a word true."""
    word = Word(text)
    end = find_end(PARTS[rule.part], word.steps)
    if word.wanted is None:
        return bool(end)
    if word.compare is not None:
        return bool(end) and (
            not word.wanted[0].isalpha() or bool(find_end(PARTS[rule.part], word.wanted.split(".")))
        )
    possible = {item for item in end if isinstance(item, str)}
    possible |= {"none"} if type(None) in end else set()
    possible |= {"true", "false"} if bool in end else set()
    parts = [item for item in end if isinstance(item, type) and issubclass(item, Part)]
    possible |= {part.kind_name() for part in parts if "kind" in part.model_fields}
    words, texts = brought
    return word.wanted in possible or word.wanted in (
        words if parts else texts if str in end else ()
    )


def unknown(rule, brought):
    """The words of a rule that nothing brings."""
    return [text for text in (*rule.when, *rule.unless) if not is_brought(rule, text, brought)]


def test_every_word_of_a_rule_is_one_that_something_brings(brought):
    assert {rule.key: result for rule in RULES if (result := unknown(rule, brought))} == {}


MISSPELT = """
defences: spend
defenses: spent
defenses.nosy
threat.group: fixed
threat.in_rounds
server: clip
defenses.correlation: fixed
participation < server.participation
"""


@pytest.mark.parametrize("text", MISSPELT.strip().splitlines())
def test_a_word_that_nothing_brings_is_found(brought, text):
    """Misspelt ones, and those of another part than the path leads to."""
    assert unknown(PartRule("x", "Learning", "", [text]), brought) == [text]


def test_a_text_that_is_no_word_is_refused():
    with pytest.raises(ValueError, match="'a <b' is no word; write a path"):
        Word("a <b")


WORDS = """
learning.participation >= 1                         held
world.ues.count != 3                                held
plan: none                                          held
plan.criterion: none                                held
world.city: open-field                              held
learning.threat.knowledge: weights                  held
learning.server.in_rounds: true                     held
learning.participation < 1                          not
plan                                                not
plan.criterion: top-up                              not
learning.defenses: central noise                    not
plan.steps > 1                                      not
learning.threat.secagg_threshold < world.ues.count  not
world.ues.count < learning.rounds                   not
"""


def test_words_of_a_study(tiny):
    changes = (
        "learning.defenses: [{kind: clip, norm: 1.0}, {kind: gaussian, noise_multiplier: 1.0}]"
    )
    study = tiny(read_yaml(changes))
    true = Words(study)
    (noise,) = true["learning.defenses: spend"]
    assert (noise.place, noise.kind) == ("learning.defenses[1]", "gaussian")
    assert noise.part == study.learning.defenses[1]
    assert [item.value for item in true["learning.defenses.contracts"]] == [True, True]
    for text, held in read_cells(WORDS):
        assert bool(true[text]) == (held == "held")


def test_a_package_may_bring_rules_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "ruled").mkdir()
    (tmp_path / "ruled/__init__.py").write_text(
        "from netsim.part import Part\n\nclass Pair(Part):\n    low: float\n    high: float\n"
    )
    (tmp_path / "ruled/rules.toml").write_text(
        '[[rule]]\nkey = "pair"\npart = "Pair"\nwhen = ["low > high"]\n'
        'says = "low: {this.low:g} is above {this.high:g}"\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    from ruled import Pair

    assert Pair(low=1.0, high=2.0).high == 2.0
    with pytest.raises(ValueError, match="low: 3 is above 2"):
        Pair(low=3.0, high=2.0)
    assert [rule.key for rule in read_rules("ruled")] == ["pair"]


def test_escaped_braces_stay_in_the_sentence_that_is_listed():
    """`{{kind: ...}}` is what a user writes, and no name of what a study has."""
    assert not [rule.key for rule in RULES if re.search("{<|{{|}}", rule.pattern)]
    text = PartRule(
        "x",
        "Study",
        "{0.place}: up to {this.most:g}, {{}} or {{kind: limit, updates: {0.value}}}; {labels}",
    )
    assert text.pattern == "<place>: up to <most>, {} or {kind: limit, updates: <value>}; <labels>"
    assert {rule.key: rule.pattern for rule in RULES}["audit-of-shares-without-rounds"].endswith(
        "take server: {kind: synchronous}"
    )


def test_a_rule_is_listed_by_its_key(capsys):
    kinds = {kind for slot in SLOTS.values() for kind in slot.parts}
    assert (kinds | {*SLOTS, *list_bundled()}).isdisjoint(rule.key for rule in RULES)
    assert main(["list", "audit-of-shares-without-rounds"]) == 0
    text = "audit: canaries in secure sums need rounds; take server: {kind: synchronous}"
    assert " ".join(capsys.readouterr().out.split()) == f"audit-of-shares-without-rounds: {text}"


def test_rules_are_listed(capsys):
    assert main(["list", "rules"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "cohort-of-all: cohort_rounds: with participation 1 all UEs are asked" in text
    assert "for <cohort_rounds> rounds" in text
    assert all(f"{rule.key}: " in text for rule in RULES)
