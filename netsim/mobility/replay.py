"""Replay of a measured trace: positions, times and measurements of UEs are those of the file."""

from dataclasses import field, replace
from functools import lru_cache
from math import inf, nan

import numpy as np
from pydantic import Field

from netsim.checkpoint import REBUILT
from netsim.clock import DAY_S, compute_rounding_s
from netsim.columns import Columns, frozen
from netsim.errors import BadInput
from netsim.mobility.base import Ground, Mobility, Places, State
from netsim.safe import read_file_version
from netsim.trace_files.read import TraceSetting
from netsim.traces.home_work import find_user_places
from netsim.traces.moves import Presence, estimate_presence
from netsim.traces.trace import Trace
from netsim.ues import Fixes
from netsim.units import BoolArray, FloatArray, IntArray, IntPair, Texts


@frozen
class TraceRows(Columns):
    """Rows of a trace sorted by time; ue (N,) is an index into `Replayed.ue`; due (N,) : which are
    reported.
    """

    ue: IntArray
    time_s: FloatArray
    position_m: FloatArray
    cell: IntArray | None
    rsrp_dbm: FloatArray | None
    due: BoolArray | None = None


@frozen
class Replayed(State):
    """n_seen: number of rows up to now; last_row (n_ue,): the last of them of each UE, -1 before
    its first.

    ue (n_ue,): indices of the UEs; absent_after_s: age of its last fix beyond which a UE is absent;
    rows: of the trace.
    """

    n_seen: int
    last_row: IntArray
    ue: IntArray = field(metadata=REBUILT)
    absent_after_s: float = field(metadata=REBUILT)
    rows: TraceRows = field(metadata=REBUILT)

    def find_last_rows(self, end: int) -> IntArray:
        """The last of the first `end` rows for each UE (n_ue,), -1 if it has none yet."""
        forward = end >= self.n_seen  # else back in time: begin again
        first = self.n_seen if forward else 0
        last_row = np.where(forward, self.last_row, -1)
        # where a UE has several rows numpy keeps the last one written, which is the latest
        last_row[self.rows.ue[first:end]] = np.arange(first, end)
        return last_row


# rows so much after a tick count as on it: epoch times are rounded to 2.4e-7 s, ticks are multiples
_SOON_S = 1e-4


class Replay(Mobility, TraceSetting, kind="replay"):
    """A UE stays at its last fix until the next one, and is absent if that fix is older than
    `absent_after_s`.

    At the time of a fix it is there already.

    With `sample_s` it measures at some of its fixes alone, and moves by all of them. The k-th UE
    replays the k-th user of the trace. RSRP in the file replaces the radio model.
    """

    absent_after_s: float | None = Field(default=None, gt=0)
    """a UE is absent if its last fix is older than this, s; none: 1.5 times the sampling interval
    of the trace"""

    has_own_fixes = True
    replays = True
    reference = "netsim: recorded, not modelled"
    example = {"kind": "replay", "trace": "trace.csv"}

    def list_drawn_values(
        self, trace: Trace, sized: bool, timed: bool, by_day: bool, recorded: bool
    ) -> list[str]:
        """Public values that follow from the rows of all users, each with the key that states it.

        sized : the city states its area; timed : the world states its duration; by_day : whole days
        are held out; recorded : errors of positions are those of the rows.
        """
        on_globe = trace.origin_deg is not None
        standing_in = any(notice.key == "trace-accuracy-missing" for notice in trace.notices)
        # of large numbers it is none
        zero = trace.counts.get("cell_missing", 0) > 0 or "0" in trace.cells
        of_rows = {
            "the area": not sized,
            "the middle of the plane": on_globe,
            "the time zone": on_globe and self.timezone == "auto",
            "the first day": True,
            "the number of rounds": not timed,
            "which days are held out": by_day,
        }
        values = [name for name, drawn in of_rows.items() if drawn and self.extent == "rows"]
        if values:
            values[-1] += " (world.ues.mobility.extent: stated)"
        states = {
            "what a user is (world.ues.mobility.users: id)": self.users == "auto",
            "when a UE counts as absent (world.ues.mobility.absent_after_s)": self.absent_after_s
            is None,
            "the busiest cell (world.ues.mobility.cell)": self.cell is None
            and trace.cell is not None,
            "whether 0 is a cell (world.ues.mobility.cell)": self.cell == "all" and zero,
            "which rows are outliers (world.ues.mobility.outlier_sigmas: none)": self.outlier_sigmas
            is not None,
            "the times of the walk (world.ues.mobility.survey: false)": self.survey,
            "the error of rows that state none (world.ues.position_error_m)": recorded
            and standing_in,
        }
        return values + [name for name, drawn in states.items() if drawn]

    def load(self, round_s: float, without: Texts = ()) -> Trace:
        """The trace; the latest one is cached until the file changes.

        `round_s` is the length of a round, which users "auto" depends on.
        """
        setting = self.model_dump_json(include=set(TraceSetting.model_fields))
        return _load_trace(setting, read_file_version(self.trace), round_s, without)

    def presence(self, trace: Trace) -> Presence:
        """The time without a fix after which a UE is absent, and how it was determined."""
        if self.absent_after_s is not None:
            return Presence(self.absent_after_s, "absent_after_s")
        return estimate_presence(trace, self.gap_s)

    def start(self, ue: IntArray, ground: Ground) -> Replayed:
        """The state at time 0 of the ground's trace, or without one of this part's trace with daily
        rounds.

        Raises `BadInput` if there are more UEs than users.
        """
        trace = self.load(DAY_S) if ground.trace is None else ground.trace
        n_ue = len(ue)
        if n_ue > len(trace.users):
            raise BadInput(
                f"ues: {n_ue} are more than the {len(trace.users)} users of the "
                f"trace; ask for fewer"
            )
        order = np.flatnonzero(trace.user < n_ue)
        order = order[np.argsort(trace.time_s[order], kind="stable")]
        rows = TraceRows(
            trace.user, trace.time_s, trace.position_m, trace.cell, trace.rsrp_dbm, trace.due
        )
        before = Replayed(
            position_m=np.full((n_ue, 2), nan),
            n_seen=0,
            last_row=np.full(n_ue, -1, int),
            ue=ue,
            absent_after_s=self.presence(trace).absent_after_s,
            rows=rows.select(order),
        )
        return self.advance(before, 0.0, 0.0, ground)[0]

    def advance(
        self, state: Replayed, t0_s: float, t1_s: float, ground: Ground
    ) -> tuple[Replayed, Fixes]:
        """The fixes are the rows in [t0_s, t1_s), and UEs are at those up to t1_s; the cost grows
        with their number, not with that of the trace.
        """
        rows = state.rows
        first, end = np.searchsorted(rows.time_s, (t0_s, t1_s))
        n_seen = _count_rows_until(rows, t1_s)
        last_row = state.find_last_rows(n_seen)
        fresh_s = state.absent_after_s
        stale = last_row < 0
        stale |= t1_s - rows.time_s[last_row] > fresh_s + compute_rounding_s(fresh_s, t1_s)
        position_m = np.where(stale[:, None], nan, rows.position_m[last_row])
        # each UE's rows stay in order of time
        new = first + np.argsort(rows.ue[first:end], kind="stable")
        seen = rows.select(new if rows.due is None else new[rows.due[new]])
        fixes = Fixes(state.ue[seen.ue], seen.time_s, seen.position_m, seen.rsrp_dbm, seen.cell)
        return replace(state, position_m=position_m, n_seen=n_seen, last_row=last_row), fixes

    def wake_s(self, state: Replayed, now_s: float, ground: Ground) -> float:
        """Just before the next row, or when the next UE becomes absent; infinite after the last."""
        time_s = state.rows.time_s
        following = _count_rows_until(state.rows, now_s)
        next_s = float(time_s[following]) - _SOON_S if following < len(time_s) else inf
        fresh_s = state.absent_after_s
        leaves_s = time_s[state.last_row[state.last_row >= 0]] + fresh_s
        return float(
            leaves_s[leaves_s >= now_s - compute_rounding_s(fresh_s, now_s)].min(initial=next_s)
        )

    def places(self, state: Replayed, ground: Ground) -> Places:
        """Home and workplace of each UE, or its densest place, from where it stayed; see
        `find_user_places`.
        """
        n_ue = len(state.position_m)
        rows = state.rows
        home_m, work_m, densest_m = np.full((3, n_ue, 2), nan)
        nights = np.zeros(n_ue, int)
        places = Places(home_m, work_m, densest_m, nights)
        if self.users == "rows":  # one fix is no place
            return places
        order = np.argsort(rows.ue, kind="stable")
        cuts = np.searchsorted(rows.ue[order], np.arange(1, n_ue))
        for ue, own_rows in enumerate(np.split(order, cuts)):
            user_places = find_user_places(
                rows.position_m[own_rows], rows.time_s[own_rows], ground.clock
            )
            home_m[ue] = user_places.home_m
            work_m[ue] = user_places.work_m
            densest_m[ue] = user_places.densest_m
            nights[ue] = user_places.nights
        return places


def _count_rows_until(rows: TraceRows, time_s: float) -> int:
    """Number of rows at or before a time."""
    return int(np.searchsorted(rows.time_s, time_s + _SOON_S, side="right"))


@lru_cache(maxsize=1)  # one trace, so that a rehearsal and its run read a file once
def _load_trace(setting_json: str, version: IntPair, round_s: float, without: Texts) -> Trace:
    return TraceSetting.model_validate_json(setting_json).read(round_s, without)
