"""Rules of fit: words that may not meet in a scenario, and why. They stand in the file `rules.toml`
of each package.

A rule belongs to a class of parts, mostly the smallest that holds all that it looks at, and is
checked whenever one is built; one that says by whom it is `asked`, only there: not every study is
fit to train an agent on. A word of a part is a path of attributes, such as keys of a scenario, and
what is true at its end::

    learning.audit              it is stated: neither none, false, 0 nor empty
    threat.groups: fixed        it is this value, or holds it
    defenses: central noise     the part there is of this kind, or offers this word
    participation < 1           it compares so (<, <=, >, >=, !=) with a number, or with the end of
    another path

Where a path meets a list of parts, any of them may make the word true. What is absent makes no word
true but `: none`.
"""

import operator
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

from netsim.errors import BadInput

FILE = "rules.toml"
_COMPARE = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "!=": operator.ne,
}


class Bearer(NamedTuple):
    """What makes a word true: the value at its end, and the part of a list that has it, with its
    place there.
    """

    value: Any
    place: str = ""
    part: Any = None

    @property
    def kind(self) -> str:
        """The kind of the part."""
        return str(self.part.kind)


class Word:
    """A path, and what is true at its end."""

    def __init__(self, text: str) -> None:
        """ValueError for a text that is no word."""
        parsed = re.fullmatch(r"(\w+(?:\.\w+)*)(?:(:| [<>]=?| !=) (.+))?", text)
        if parsed is None:
            raise ValueError(f"{text!r} is no word; write a path, `path: value` or `path < path`")
        path, sign, self.wanted = parsed.groups()
        self.steps: Sequence[str] = path.split(".")
        self.compare = _COMPARE.get((sign or "").strip())

    def find_bearers(self, owner: object) -> list[Bearer]:
        """All that make the word true of a part; none where it is not true."""
        end: Any = owner
        for i, step in enumerate(self.steps, 1):
            end = getattr(end, step, None)
            if isinstance(end, tuple) and any(isinstance(member, BaseModel) for member in end[:1]):
                ends = [_follow_path(member, self.steps[i:]) for member in end]
                true = [k for k, end in enumerate(ends) if self._is_true(end, owner)]
                return [Bearer(ends[k], f"{'.'.join(self.steps[:i])}[{k}]", end[k]) for k in true]
        if self._is_true(end, owner):
            return [Bearer(end)]
        return []

    def _is_true(self, end: Any, owner: object) -> bool:
        if self.wanted is None:
            return end
        if self.compare is not None:
            number = _read_number(self.wanted, owner)
            return end is not None and number is not None and self.compare(end, number)
        if isinstance(end, BaseModel):
            return self.wanted == getattr(end, "kind", None) or self.wanted in getattr(
                end, "offers", ()
            )
        if isinstance(end, tuple | set | frozenset):
            return self.wanted in end
        return self.wanted == str(end).lower()


def _follow_path(value: Any, steps: Sequence[str]) -> Any:
    """The end of a path."""
    for step in steps:
        value = getattr(value, step, None)
    return value


def _read_number(text: str, owner: object) -> Any:
    """A number that is written out, or what a path leads to."""
    if text[0].isalpha():
        return _follow_path(owner, text.split("."))
    return float(text)


class Words(dict[str, list[Bearer]]):
    """Words of a part with what makes them true, each looked up when a rule first asks for it."""

    def __init__(self, owner: object) -> None:
        self.owner = owner

    def __missing__(self, text: str) -> list[Bearer]:
        bearers = self[text] = word(text).find_bearers(self.owner)
        return bearers


word = cache(Word)
"""The word of a text, read once."""


@dataclass(frozen=True)
class PartRule:
    """Words that do not fit together: the rule is broken where all of `when` are true, and none of
    `unless`.

    part : name of the class that it belongs to. says : place, reason and remedy, a format in which
    `this` is the part, 0, 1, ... are the first bearers of the words of `when`, and `labels` names
    all of word 0. asked : what asks for it; empty: every part that is built. example : changes of a
    small study, by dotted path, that break it.
    """

    key: str
    part: str
    says: str
    when: Sequence[str] = ()
    unless: Sequence[str] = ()
    asked: str = ""
    example: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pattern(self) -> str:
        """The sentence with <key> where it names what a study has there."""
        return (
            re.sub(r"(?<!\{)\{(?:(?:this|\d)\.)?([\w.]+)[^}]*\}", r"<\1>", self.says)
            .replace("{{", "{")
            .replace("}}", "}")
        )

    def explain_breach(self, words: Words) -> str:
        """What a user reads where a part breaks it; empty where it is kept."""
        if not all(words[text] for text in self.when) or any(words[text] for text in self.unless):
            return ""
        bearers = [words[text][0] for text in self.when]
        labels = ", ".join(
            bearer.part.label
            for text in self.when[:1]
            for bearer in words[text]
            if bearer.part is not None
        )
        return self.says.format(*bearers, this=words.owner, labels=labels)


@cache
def read_rules(package: str) -> Sequence[PartRule]:
    """The rules of a package, in the order in which they are checked; none of one that brings no
    file of rules.
    """
    return [PartRule(**row) for row in read_toml(package, FILE).get("rule", ())]


@cache
def read_toml(package: str, name: str) -> dict[str, Any]:
    """The file of a package with this name, as TOML; empty of one that brings no such file."""
    folders = getattr(import_module(package), "__path__", ())
    files = [file for folder in folders if (file := Path(folder, name)).exists()]
    return tomllib.loads(files[0].read_text(encoding="utf-8")) if files else {}


@cache
def collect_rules(part: type, occasion: str) -> Sequence[PartRule]:
    """The rules of a class of parts, and of those that it derives from, that are asked for
    together.
    """
    bases = [
        (base.__name__, read_rules(base.__module__.partition(".")[0])) for base in part.__mro__
    ]
    return [
        rule
        for name, rules in bases
        for rule in rules
        if (rule.part, rule.asked) == (name, occasion)
    ]


def explain_first_breach(part: Any, occasion: str = "") -> str:
    """The sentence of the first rule that a part breaks; empty where it keeps all that are asked
    for.
    """
    words = Words(part)
    sentences = (rule.explain_breach(words) for rule in collect_rules(type(part), occasion))  # type: ignore[arg-type]  # it has a hash
    return next(filter(None, sentences), "")


def refuse_broken(part: Any, occasion: str = "") -> None:
    """Raise BadInput with the sentence of the first rule that a part breaks."""
    if sentence := explain_first_breach(part, occasion):
        raise BadInput(sentence)
