"""Signal measurements of moving UEs, of each round or of one campaign."""

import difflib
from dataclasses import field, replace
from itertools import product
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.data import EARLIER_RECORDS, HELD_OUT_PLACES, RECORDS_ALONE, SHARED_MODEL, Data, TakenData
from fl.data.hold_out import (
    BLOCK_M,
    HoldOutBy,
    Sessions,
    Whole,
    hold_out_blocks,
    hold_out_days,
    hold_out_samples,
    hold_out_sessions,
    number_blocks,
    number_days,
)
from fl.data.samples import Signals, recall_samples
from fl.types import NEW_PLACE, HeldOut, Local, list_offers
from netsim.checkpoint import REBUILT
from netsim.columns import frozen, no_ints, split_row_id
from netsim.errors import BadInput
from netsim.part import Amount, Count
from netsim.rng import Rng
from netsim.ues import Observations
from netsim.units import BoolArray, FloatArray, IntArray, Texts

SESSION_GAP_S = 900.0

STRONGEST = "strongest"


@frozen
class StoredSamples:
    """Samples that devices keep to learn from again, and the state of their sessions.

    days (n,) : on which UEs may measure, ascending.
    """

    samples: Signals
    sessions: Sessions
    days: IntArray = field(default_factory=no_ints, metadata=REBUILT)


class CellSignals(Data):
    """Signals of cells: one model per cell, of one cell, or one of the strongest signal at each
    moment and place.
    """

    cell: str = Field("all", min_length=1)
    """cells that get a model: the name of one cell, all, busiest (the cell with most measurements),
    or strongest (one model of the strongest signal)"""
    hold_out: float = Field(0.2, ge=0, le=0.9)
    """share of samples, sessions, days or blocks held out of training for evaluation"""

    @property
    def _words(self) -> dict[str, bool]:
        """Capabilities whatever the samples are, and whether they are there."""
        words = dict.fromkeys(("positions", "signals", "real labels", "labelled samples"), True)
        return words | {SHARED_MODEL: self.cell == STRONGEST, HELD_OUT_PLACES: self.hold_out > 0}

    @property
    def named_cell(self) -> str | None:
        if self.cell in ("all", "busiest", STRONGEST):
            return None
        return self.cell

    @property
    def wants_counts(self) -> bool:
        return self.cell == "busiest"

    def choose_models(self, cells: Texts, counts: IntArray | None) -> Texts:
        if self.cell == STRONGEST:
            return (STRONGEST,)
        if self.cell == "all":
            return cells
        if self.cell == "busiest" and counts is not None:
            return (cells[int(np.argmax(counts))],)
        if self.cell not in cells:
            near = difflib.get_close_matches(self.cell, cells, 1, 0.0)
            raise BadInput(
                f"learning.data.cell: no cell {self.cell!r} here; nearest is {', '.join(near)!r} "
                f"({len(cells)} cells in all)"
            )
        return (self.cell,)


class Measured(CellSignals, kind="measured"):
    """Every UE's RSRP measurements of the round.

    With `memory: round` a UE trains on the measurements of the round; with `memory: all` on all its
    measurements so far; with a number n on those of the round and n random earlier ones, drawn
    again in every round. There is one model per cell, and a sample belongs to the cell that it
    measured; with `cell: strongest` there is one model of the strongest signal at each moment and
    place. With `participants: holding` a UE that has measured a cell once takes part in every later
    round, also where it measures nothing new.

    A share is held out of training and evaluates the maps: random samples, or all samples of a
    session of a UE, of a day (the same for all UEs), or of a square of the ground. Single samples
    flatter a map, because their neighbours on the same drive are trained on. Of a UE's sessions,
    and of days, one in every 1 / hold_out consecutive ones is drawn; the share of samples follows
    from how many each of them has. Of two days with data or more one is held out at least, and one
    is not: where the days that are drawn have no rows of the cells that are learnt, it is drawn
    among those that have. Of a trace with a stated extent it is drawn among the days of that,
    whatever the rows are. A day has 86,400 s from time 0 on, which is local midnight unless
    `world.begins` is set; once the clocks change during a run it begins an hour off. What is held
    out depends on the seed, also for a recorded trace. Held-out samples still count as measured,
    because leakage concerns the positions of the UE.

    A list, such as `[day, block]`, holds out both in one run, each with the share `hold_out`: whole
    days, which ask whether a map knows the rooms that were measured before, and whole blocks, which
    ask what it says of places without any training sample. A sample of both counts with its block.
    The price: blocks are missing in training, and a home in one of them is not learnt from, so
    updates cannot tell it. With one word alone, samples that happen to lie in blocks without a
    training sample are scored by place, where there are any.
    """

    memory: int | Literal["round", "all"] = "round"
    """training data of a UE: its measurements of the round, all of its measurements so far, or
    those of the round and this many random earlier ones of the same model, spread over the time
    before"""
    participants: Literal["measuring", "holding"] = "measuring"
    """UEs that take part in a round: those that measured in it, or all that hold measurements"""
    hold_out_by: HoldOutBy = "sample"
    """what is held out as a whole: sample, session (of a UE), day (of all UEs) or block (a square
    of ground); a list of one of the first three and block, such as [day, block], holds out both,
    and the map is scored by day and by place"""
    session_gap_s: Amount | None = None
    """a pause of a UE longer than this ends its session, s; none: 900"""
    block_m: float | None = Field(None, ge=1, le=1e6)
    """side of a block, m; none: 100"""
    guard: float = Field(0.0, ge=0, le=0.5)
    """width of a margin around held-out blocks, as a share of their side, whose samples neither
    train nor score: without one, samples at the edge of a block have neighbours in training"""

    reference = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Section 3"

    @model_validator(mode="after")
    def _keys_have_an_effect(self) -> Self:
        if isinstance(self.memory, int) and not 1 <= self.memory <= 10_000_000:
            raise ValueError("memory: give a number from 1 to 10000000, or the word round or all")
        if self.held_out_by != ("sample",) and not self.hold_out:
            by = " and ".join(self.held_out_by)
            raise ValueError(
                f"hold_out_by: nothing is held out by {by}; give hold_out a share above 0"
            )
        return self

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        recalls = (
            isinstance(self.memory, int)
            or (
                self.memory == "all" and self.participants == "measuring"
            )  # one may decide about all earlier ones
            or self.held_out_by[0] == "session"
            or self.cell == STRONGEST
        )
        return list_offers(
            self._words | {RECORDS_ALONE: not recalls, EARLIER_RECORDS: self.memory != "round"}
        )

    def start(self, n_ue: int, rng: Rng) -> StoredSamples:
        return StoredSamples(Signals.empty(), Sessions.empty(n_ue))

    def with_days(self, state: StoredSamples, days: IntArray) -> StoredSamples:
        return replace(state, days=days)

    def take(
        self, observed: Observations, model_of_cell: IntArray, state: StoredSamples, rng: Rng
    ) -> tuple[TakenData, StoredSamples]:
        sessions = state.sessions
        model = model_of_cell[observed.cell]
        session = np.zeros(len(observed), int)
        if (
            self.held_out_by[0] == "session"
        ):  # of all that a UE measures, also of cells without a model
            sessions, session = sessions.add_measurements(observed.ue, observed.time_s, self._gap_s)
        rows = np.lexsort((observed.time_s, model, observed.ue))
        rows = rows[model[rows] >= 0]
        if self.cell == STRONGEST:
            signals = Signals.from_observations(observed.select(rows), model[rows])
            rows = rows[signals.find_strongest_indices()]
        observed = observed.select(rows)
        model = model[rows]
        session = session[rows]
        measured = Signals.from_observations(observed, model).to_local()
        out, group = self._hold_out(observed, model, session, state.days, rng)
        held = observed.select(out)
        is_kept = ~out
        if self.guard:
            # a block that is nearer holds a corner of the square around the place; in blocks
            for corner in product((-self.guard, self.guard), repeat=2):
                is_kept &= ~hold_out_blocks(
                    observed.position_m / self.new_block_m + corner, 1.0, self.hold_out, rng
                )
        fresh = measured.keep(is_kept)
        train, past = self._select_training(fresh, state.samples, rng)
        held_out = HeldOut(
            held.ue, model[out], held.position_m, held.rsrp_dbm, held.cell, group[out], held.time_s
        )
        return TakenData(measured, train, held_out, fresh), StoredSamples(
            past, sessions, state.days
        )

    def number_wholes(self, ue: IntArray, x: FloatArray, time_s: FloatArray) -> IntArray:
        if self.held_out_by[0] == "day":
            return number_days(time_s)
        if self.held_out_by[0] == "block":
            return number_blocks(x, self.new_block_m)
        if self.held_out_by[0] == "session":
            _, session = Sessions.empty(int(ue.max(initial=-1)) + 1).add_measurements(
                ue, time_s, self._gap_s
            )
            return np.unique(np.stack([ue, session]), axis=1, return_inverse=True)[1].reshape(-1)
        return super().number_wholes(ue, x, time_s)

    @property
    def holds_out_wholes(self) -> bool:
        return self.held_out_by[0] != "sample"

    @property
    def new_block_m(self) -> float:
        return self.block_m or BLOCK_M

    @property
    def held_out_by(self) -> tuple[Whole, ...]:
        """Groups that are held out as a whole; of two the second is block."""
        if isinstance(self.hold_out_by, str):
            return (self.hold_out_by,)
        return self.hold_out_by

    @property
    def _gap_s(self) -> float:
        return self.session_gap_s or SESSION_GAP_S

    def _hold_out(
        self, observed: Observations, model: IntArray, session: IntArray, days: IntArray, rng: Rng
    ) -> tuple[BoolArray, IntArray]:
        """Which observations (N,) of models (N,) in sessions (N,) are held out, and the group (N,)
        of each.

        days (n,) : when UEs may measure.
        """
        share = self.hold_out
        by = self.held_out_by
        in_block = np.zeros(len(model), bool)
        if "block" in by:
            in_block = hold_out_blocks(observed.position_m, self.new_block_m, share, rng)
        if by[0] == "session":
            out = hold_out_sessions(observed.ue, session, share, rng)
        elif by[0] == "day":
            out = hold_out_days(observed.time_s, days, share, rng)
        elif by[0] == "sample":
            out = hold_out_samples(observed, model, share, rng)
        else:
            return in_block, np.zeros_like(model)
        return out | in_block, np.where(in_block, NEW_PLACE, 0)

    def _select_training(self, fresh: Local, past: Signals, rng: Rng) -> tuple[Local, Signals]:
        """Samples that UEs learn from in the round, and samples kept of it and of earlier ones."""
        if self.memory == "round":
            return fresh, past
        new = Signals.from_local(fresh)
        samples = past.add(new)
        rows = np.unique(samples.row if self.participants == "holding" else fresh.row)
        max_earlier = self.memory if isinstance(self.memory, int) else None
        return recall_samples(new, past, rows, max_earlier, rng), samples


@frozen
class Campaign:
    """rounds: of the campaign so far; samples: measured in them; out (N,): which are held out, once
    it has ended.
    """

    rounds: int = 0
    samples: Signals = field(default_factory=Signals.empty)
    out: BoolArray = field(default_factory=lambda: np.zeros(0, bool))


class Segments(CellSignals, kind="segments"):
    """Every UE owns its segment of one campaign and trains on all of it in every round.

    During the first `campaign_rounds` rounds UEs only measure; training starts in the round that
    ends the campaign. Later measurements are ignored, so the data do not change. To divide one
    recorded drive into K consecutive segments, one per UE, replay it with `users: segments` and
    `segments: K`. For UEs of a synthetic mobility model the campaign consists of the measurements
    of all UEs.

    `cell: strongest` learns one model of the strongest signal at each moment and place. A random
    share of every row is held out, exactly round(hold_out n) of its n samples, drawn once.
    """

    campaign_rounds: int = Field(1, ge=1, le=10_000_000)
    """duration of the campaign in rounds"""
    cell: str = Field(STRONGEST, min_length=1)
    """cells that get a model: the name of one cell, strongest (one model of the strongest signal),
    all, or busiest"""
    thin: Count = 1
    """thinning: only every thin-th sample of a UE and model, in order of time, is kept"""
    hold_out: float = Field(0.2, ge=0, le=0.9)
    """share of every UE's samples held out of training for evaluation"""

    reference = (
        "Haliloglu et al., Privacy Preserving Federated RSRP Estimation for Future Mobile "
        "Networks, Eq. 5"
    )

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        alone = not self.hold_out and self.thin == 1 and self.cell != STRONGEST
        return list_offers(self._words | {RECORDS_ALONE: alone})

    def start(self, n_ue: int, rng: Rng) -> Campaign:
        return Campaign()

    def take(
        self, observed: Observations, model_of_cell: IntArray, state: Campaign, rng: Rng
    ) -> tuple[TakenData, Campaign]:
        rounds = state.rounds
        samples = state.samples
        out = state.out
        if rounds < self.campaign_rounds:
            rounds = rounds + 1
            model = model_of_cell[observed.cell]
            has_model = model >= 0
            new = Signals.from_observations(observed.select(has_model), model[has_model])
            samples = samples.add(new)
            if rounds < self.campaign_rounds:
                none = Signals.empty().to_local()
                return TakenData(none, none, HeldOut.none(), due=False), Campaign(rounds, samples)
            if self.cell == STRONGEST:
                samples = samples.select(samples.find_strongest_indices())
            samples = samples.select(_number_samples(samples.row) % self.thin == 0)
            out = draw_held_out(samples.row, self.hold_out, rng)
        whole = samples.to_local()
        first = state.rounds < self.campaign_rounds
        is_scored = out & first
        held = samples.select(is_scored)
        (ue, model) = split_row_id(samples.row[is_scored])
        held_out = HeldOut(ue, model, held.x, held.y, held.cell, time_s=held.time_s)
        fresh = None  # later, what is learnt from is known
        if not first:
            fresh = whole.keep(np.zeros_like(out))
        return TakenData(whole, whole.keep(~out), held_out, fresh), Campaign(rounds, samples, out)


def draw_held_out(row: IntArray, share: float, rng: Rng) -> BoolArray:
    """A random round(share n) of the n samples of each row; `row` (N,) is sorted."""
    count = np.unique(row, return_counts=True)[1]
    place = _number_samples(row)
    lot = rng.uniform("hold out", row, item=place)
    rank = np.empty(len(row), int)
    rank[np.lexsort((lot, row))] = place
    return rank < np.repeat(np.rint(share * count), count)


def _number_samples(row: IntArray) -> IntArray:
    """The number of each sample in its row, from 0; `row` (N,) is sorted."""
    return np.arange(len(row)) - np.searchsorted(row, row)
