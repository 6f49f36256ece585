"""SimPy events processed after all others of equal time."""

from __future__ import annotations

from math import inf, nextafter

import simpy

_LAST = 2  # SimPy's own events have priority 0 or 1


class Turn(simpy.Event):  # type: ignore[misc]
    """Occurs at at_s, after all ordinary events of that time."""

    def __init__(self, env: simpy.Environment, at_s: float) -> None:
        super().__init__(env)
        self._ok, self._value = True, None
        env.schedule(self, priority=_LAST, delay=_delay_s(float(env.now), at_s))


def _delay_s(now_s: float, at_s: float) -> float:
    """The delay after which a clock that adds it to now_s shows at_s; the difference may miss it by a rounding."""
    delay_s = max(at_s - now_s, 0.0)
    for close in (delay_s, nextafter(delay_s, inf), nextafter(delay_s, 0.0)):
        if now_s + close == at_s:
            return close
    return delay_s
