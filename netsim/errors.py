"""Exceptions that the command line prints without a traceback, and words of its lines."""

from collections.abc import Iterable
from difflib import get_close_matches

LONGEST = 60
"""characters of a value that a line quotes"""


def to_one_line(text: str) -> str:
    """Printable on one line: control characters, line ends and half characters are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def squeeze_text(text: object, longest: int) -> str:
    """On one line, with single blanks, and at most so many characters."""
    return " ".join(str(text).split())[:longest]


def cut_text(text: str, longest: int = LONGEST) -> str:
    """At most so many characters; the end of a longer text becomes three dots."""
    if len(text) <= longest:
        return text
    return f"{text[: longest - 3]}..."


def format_count(number: int, noun: str) -> str:
    """A number of things, for people: `1 round`, `6,611 rounds`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def join_choices(options: list[str]) -> str:
    """Return `a, b or c`."""
    return " or ".join([", ".join(options[:-1]), options[-1]] if len(options) > 1 else options)


def suggest_nearest(word: str, words: Iterable[str], max_words: int = 1) -> str:
    """Return `; did you mean 'x'?` of the words that are most like this one, or nothing."""
    close = get_close_matches(word[:LONGEST].lower().replace(" ", "_"), words, max_words, 0.6)
    close += [w for w in words if min(len(word), len(w)) > 2 and (word in w or w in word)]
    quoted = [f"'{w}'" for w in dict.fromkeys(close)]
    if close:
        return f"; did you mean {join_choices(quoted[:max_words])}?"
    return ""


class BadInput(ValueError):
    """Unusable input of the user: each line names the file, the place, the value, the bound and the
    remedy.

    The command line prints the lines and leaves with exit code 2; no traceback, nothing
    half-written.
    """

    def __init__(self, *lines: str) -> None:
        self.lines = tuple(map(to_one_line, lines))
        super().__init__("\n".join(self.lines))


class RunsFailed(Exception):
    """Some of several runs failed, and all others are done. The line says how many, and how to try
    them again.
    """
