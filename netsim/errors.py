"""Exceptions that the command line prints without a traceback, and words of its lines."""


def to_one_line(text: str) -> str:
    """Printable on one line: control characters, line ends and half characters are escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def format_count(number: int, noun: str) -> str:
    """A number of things, for people: `1 round`, `6,611 rounds`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
