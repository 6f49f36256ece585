"""Presence of replayed UEs between fixes, from the intervals of their trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netsim.traces.trace import Trace

MARGIN = 1.5  # intervals: one row is due, and clocks jitter
_USUAL = 3.0  # median intervals that a trip holds at least, where the whole trace is sampled more coarsely than gap_s
_COVERED = 0.99  # of the time of all trips


@dataclass(frozen=True)
class Presence:
    """A UE is absent when its last fix is older than absent_after_s; `why` gives the source of that figure."""

    absent_after_s: float
    why: str

    def words(self) -> str:
        """The rule in words."""
        return f"a UE is absent {self.absent_after_s:g} s after its last fix ({self.why})"


def presence(trace: Trace, gap_s: float) -> Presence:
    """1.5 times the interval at which, or more finely, 99 % of the trips' time is sampled; at most a pause.

    A pause, which ends a trip, is longer than gap_s and than three median intervals. A simulated trace has a row for
    every UE at every step, so that a missing row means that the UE has left. People's traces have holes, in which
    most of them are still there: the share is one of time, in which a long hole counts for more than a short one.
    """
    interval_s = np.diff(trace.time_s)[np.diff(trace.user) == 0]
    interval_s = interval_s[interval_s > 0]
    if not len(interval_s):
        return Presence(gap_s, "gap_s, for no user has rows at two times")
    pause_s = max(gap_s, _USUAL * float(np.median(interval_s)))
    within = np.sort(interval_s[interval_s <= pause_s])
    covered_s = np.cumsum(within)
    usual_s = float(within[np.searchsorted(covered_s, _COVERED * covered_s[-1])])
    why = f"99 % of the trips' time is sampled every {usual_s:g} s or more often"
    if MARGIN * usual_s < pause_s:
        return Presence(MARGIN * usual_s, f"{why}; {MARGIN:g} times that")
    return Presence(pause_s, f"{why}; a pause that ends a trip")
