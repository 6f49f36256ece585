"""Rules of fit: the example of each breaks that rule, and every word of one is a word that something may bring."""

import json
import re
from collections import Counter
from typing import Any, Literal, get_args, get_origin

import pytest
from refused import line_of

from netsim.fit import Rule, Word, Words, read_rules
from netsim.part import Part
from scenarios.app.cli.commands import main
from scenarios.app.study.slots import SLOTS, rules

RULES = rules()
PLAYED = [rule for rule in RULES if rule.example]
WITHOUT_EXAMPLE = {  # they need files, or parts that no small study has
    "central-noise-tied-updates", "shares-tied-updates", "limit-of-own-steps", "record-bound-in-32-bits",
    "clip-of-mixed-images", "height-below-range", "height-above-range", "replay-without-city",
    "central-noise-training-time",
}  # fmt: skip


def says(rule, line):
    """Whether a line is the sentence of a rule, whatever its parts are called."""
    pieces = re.split(r"<[\w.]+>", rule.pattern)
    return re.search(".*".join(map(re.escape, pieces)), line) is not None


@pytest.fixture
def broken(monkeypatch):
    """Keys of the rules that were found broken."""
    keys, check = [], Rule.broken

    def watched(rule, words):
        sentence = check(rule, words)
        keys.extend([rule.key] if sentence else [])
        return sentence

    monkeypatch.setattr(Rule, "broken", watched)
    return keys


@pytest.mark.parametrize("rule", PLAYED, ids=lambda rule: rule.key)
def test_a_rule_is_broken_by_its_example(rule, tiny, broken):
    changes = {path: None if value == "none" else value for path, value in rule.example.items()}
    line = line_of(tiny, changes)
    assert (broken, says(rule, line)) == ([rule.key], True), line


def test_keys_are_unique_and_almost_every_rule_has_an_example():
    assert [key for key, times in Counter(rule.key for rule in RULES).items() if times > 1] == []
    assert {rule.key for rule in RULES if not rule.example} == WITHOUT_EXAMPLE


def classes(part=Part):
    """All classes of parts, whose slots have been read."""
    return {part}.union(*(classes(below) for below in part.__subclasses__()))


@pytest.fixture(scope="module")
def words():
    """Attributes by the name of each class of parts, and all that may stand behind a colon."""
    examples = [
        part.model_validate_json(json.dumps(part.example), strict=True)
        for slot in SLOTS.values() for part in slot.parts.values() if part.example
    ]  # fmt: skip
    known = [part for part in classes() if part.__module__.partition(".")[0] in ("netsim", "fl", "rl", "scenarios")]
    fields = [(name, field) for part in known for name, field in part.model_fields.items()]
    ends = {"true", "false", "none", *(name for name, _ in fields)}
    ends |= {str(field.default).lower() for _, field in fields}
    ends |= {word for _, field in fields for word in literals(field.annotation)}
    ends |= {word for part in examples for word in (*part.offers, *part.needs)} | {
        "arrival times",
        "records of earlier rounds",
    }
    return {part.__name__: {*dir(part), *part.model_fields} for part in known}, ends


def literals(annotation: Any) -> set[str]:
    """All words of an annotation that are written out in it."""
    if get_origin(annotation) is Literal:
        return {str(value) for value in get_args(annotation)}
    return {word for inner in get_args(annotation) if not isinstance(inner, str) for word in literals(inner)}


def unknown(rule, attributes, ends):
    """The words of a rule that nothing brings."""
    anywhere = set().union(*attributes.values())
    for text in (*rule.when, *rule.unless):
        word = Word(text)
        first, *others = word.steps
        end = word.compare is not None or word.wanted is None or word.wanted in ends
        if first not in attributes[rule.part] or not anywhere.issuperset(others) or not end:
            yield text


def test_every_word_of_a_rule_is_one_that_something_brings(words):
    assert {rule.key: found for rule in RULES if (found := [*unknown(rule, *words)])} == {}


@pytest.mark.parametrize("text", ["defences: spend", "defenses: spent", "defenses.nosy", "threat.group: fixed"])
def test_a_misspelt_word_is_found(words, text):
    assert [*unknown(Rule("x", "Learning", "", [text]), *words)] == [text]


def test_a_text_that_is_no_word_is_refused():
    with pytest.raises(ValueError, match="'a <b' is no word; write a path"):
        Word("a <b")


def test_words_of_a_study(tiny):
    defenses = [{"kind": "clip", "norm": 1.0}, {"kind": "gaussian", "noise_multiplier": 1.0}]
    study = tiny({"learning.defenses": defenses})
    true = Words(study)
    (noise,) = true["learning.defenses: spend"]
    assert (noise.place, noise.kind, noise.part) == ("learning.defenses[1]", "gaussian", study.learning.defenses[1])
    assert [each.value for each in true["learning.defenses.contracts"]] == [True, True]
    held = [
        "learning.participation >= 1", "world.ues.count != 3", "plan: none", "plan.criterion: none",
        "world.city: open-field", "learning.threat.knowledge: weights", "learning.server.in_rounds: true",
    ]  # fmt: skip
    not_held = [
        "learning.participation < 1", "plan", "plan.criterion: top-up", "learning.defenses: central noise",
        "plan.steps > 1", "learning.threat.secagg_threshold < world.ues.count", "world.ues.count < learning.rounds",
    ]  # fmt: skip
    assert [text for text in (*held, *not_held) if true[text]] == held


def test_a_package_may_bring_rules_of_its_own(tmp_path, monkeypatch):
    (tmp_path / "ruled").mkdir()
    (tmp_path / "ruled" / "__init__.py").write_text(
        "from netsim.part import Part\n\nclass Pair(Part):\n    low: float\n    high: float\n"
    )
    (tmp_path / "ruled" / "rules.toml").write_text(
        '[[rule]]\nkey = "pair"\npart = "Pair"\nwhen = ["low > high"]\n'
        'says = "low: {this.low:g} is above {this.high:g}"\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    from ruled import Pair

    assert Pair(low=1.0, high=2.0).high == 2.0
    with pytest.raises(ValueError, match="low: 3 is above 2"):
        Pair(low=3.0, high=2.0)
    assert [rule.key for rule in read_rules("ruled")] == ["pair"]


def test_rules_are_listed(capsys):
    assert main(["list", "rules"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "cohort-of-all: cohort_rounds: with participation 1 all UEs are asked" in text
    assert "for <cohort_rounds> rounds" in text and all(f"{rule.key}: " in text for rule in RULES)
