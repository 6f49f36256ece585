"""How long work still takes, by the pace so far; steady enough to be read."""

from __future__ import annotations

from math import ceil

_REMEMBERED = 10.0
"""steps over which the pace is averaged; before there are so many, over all of them"""
_STEPS_S = ((10, 1), (60, 5), (600, 10), (3600, 60), (36_000, 600))
"""below so many seconds a time is rounded up to these"""


class TimeLeft:
    """The pace of what was done since `began_s`, from one step of work to the next.

    What stood there before (a resumed run, finished runs of a sweep) was done at no pace at all and does not count.
    """

    def __init__(self, began_s: float, prepares: bool) -> None:
        """prepares : whether the time to the first step says nothing of the others, since a world is built in it."""
        self._then_s: float | None = None if prepares else began_s
        self._done: int | None = None
        self._pace_s, self._counted = 0.0, 0
        self._what = ""

    def after(self, done: int, of: int, now_s: float, what: str = "") -> float | None:
        """Seconds left when `done` of all steps are done; None while nobody can know.

        what : is counted; with another one the pace begins anew, and the time before its first step says nothing of it.
        """
        if what != self._what:
            if self._done is not None:
                self._then_s, self._done, self._pace_s, self._counted = None, None, 0.0, 0
            self._what = what
        before = done - 1 if self._done is None else self._done
        if self._then_s is not None and done > before:
            each_s = max(now_s - self._then_s, 0.0) / (done - before)
            self._counted += 1
            self._pace_s += (each_s - self._pace_s) / min(self._counted, _REMEMBERED)
        self._then_s, self._done = now_s, done
        return max(of - done, 0) * self._pace_s if self._counted else None


def rounded_text(seconds: float) -> str:
    """A time that is still to come, rounded up the more the longer it is: `8 s`, `25 s`, `3 min 20 s`, `2 h 10 min`."""
    step = next((step for below, step in _STEPS_S if seconds < below), 3600)
    return span_text(ceil(seconds / step) * step)


def span_text(seconds: float) -> str:
    """A length of time in its two largest units."""
    whole = round(seconds)
    for unit_s, unit, inner_s, inner in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= unit_s:
            rest = whole % unit_s // inner_s
            return f"{whole // unit_s} {unit}" + (f" {rest} {inner}" if rest else "")
    return f"{whole} s"
