r"""Places of UEs from the times at which updates arrive."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.attacks.base import Attack, View, latest, recall
from fl.attacks.rings import RankedPlaces, RankMatch, Rings
from fl.attacks.threat import ARRIVAL_TIMES, CELLS
from fl.types import Estimates, Public, RoundContext, Timing
from netsim.columns import frozen, no_ints, no_places, row_id, ue_and_model
from netsim.errors import BadInput
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

_LEAST_S = 1e-9
_NOTHING: IntArray = no_ints()


@frozen
class UploadDelays:
    """Uploads so far.

    link (k,) ascending: the pairs of UE and cell that were received (see `row_id`); mean, mass (k,): their running
    means, and the weight of the uploads in them. ue (m,) ascending; cell, value (m,): what the last upload of each came
    through, and its own value.
    """

    link: IntArray
    mean: FloatArray
    mass: FloatArray
    ue: IntArray
    cell: IntArray
    value: FloatArray


class UploadAttack(Attack):
    """An attack on the times and cells of uploads, whatever is in them."""

    def check(self, public: Public, n_ue: int) -> None:
        if public.antennas is None:
            raise BadInput(
                f"learning.attacks: {self.label} needs the places of base stations, which are not known here (a trace "
                "brings cells without places); leave the attack out"
            )

    def self_test(self, view: View, facts: RoundContext, rng: Rng) -> float | None:
        """None: what it reads is in no update."""
        return None


class ArrivalTimes(UploadAttack):
    r"""Locates UEs by how long their uploads take: the farther away, the slower.

    An attacker that observes arriving updates knows when each was asked for, when its last bit came, its size and its
    cell, also under secure aggregation. The value of an upload is the logarithm of its time per bit; the running mean
    of a UE's values through a cell fades by 1 - 1 / memory_rounds an upload. Ranks of these means are matched with
    ranks of distances (see `fl.attacks.rings`): neither power, bandwidth, training time nor the law of delays has
    to be known, only that they are alike for all UEs. A priori a UE is anywhere in the area where its cell is the
    strongest, by path loss of exponent 3.5 and antennas of the usual kind. The estimated centroid is the posterior mean
    of the place.

    Two more claims stand in `estimates.csv`: `near` (at the base station; weight: reciprocal of the posterior mean of
    the distance, 1/m), and `moved` (without a place; weight: by how much the UE has moved since its last upload, m: in
    the same cell the change of its distance, else the distance between its mean places, each from one upload).
    """

    kind: Literal["arrival-times"] = "arrival-times"
    use: Literal["times", "staleness", "cell"] = "times"
    """what of an upload is read: its time per bit; its staleness (versions of the model that it came late); or its
    cell only, a baseline"""
    shadowing_db: float = Field(default=7.0, ge=0, le=40)
    """standard deviation of gains beside path loss that the attacker reckons with, dB"""
    memory_rounds: float = Field(default=2.0, ge=1, le=1e9)
    """number of uploads of a UE through a cell over which values are averaged; 1: no averaging"""

    reference: ClassVar = "netsim: ranks of delays against ranks of distances, by a Gaussian copula"
    needs: ClassVar = {
        ARRIVAL_TIMES: "reads when updates come; let the threat see rows or sum",
        CELLS: "ranks the uploads of each cell; leave threat.cells out",
        "positions": "says where UEs are, and these data have no places to compare that with",
    }

    def start(self) -> UploadDelays:
        return UploadDelays(_NOTHING, np.zeros(0), np.zeros(0), _NOTHING, _NOTHING, np.zeros(0))

    def run(self, view: View, facts: RoundContext, state: UploadDelays, rng: Rng) -> tuple[Estimates, UploadDelays]:
        timing = view.timing
        antennas = facts.public.antennas
        if timing is None or antennas is None or view.phase != view.learner.phases[0]:
            return _estimates(view, _NOTHING, "centroid", no_places(), np.zeros(0)), state
        value = self._value(timing)
        heard = np.flatnonzero(np.isfinite(value) & (timing.base_station >= 0))
        row = heard[np.unique(view.ue[heard], return_index=True)[1]]  # all rows of a UE come together
        ue = view.ue[row]
        cell = timing.base_station[row]
        value = value[row]
        last_cell = recall(state.ue, state.cell.astype(np.float64), ue)
        last_value = recall(state.ue, state.value, ue)
        state = self._plus(state, ue, cell, value)
        rings = Rings.around(facts.public, antennas)
        match = RankMatch(rings, ue_and_model(state.link)[1], state.mean, self.shadowing_db)
        found = match.locate(cell, recall(state.link, state.mean, row_id(ue, cell)))
        again = np.flatnonzero(np.isfinite(last_value))
        now = match.locate(cell[again], value[again])
        before = last_cell[again].astype(np.int64)
        moved_m = _moved_m(match.locate(before, last_value[again]), now, before == cell[again])
        of_row = np.searchsorted(ue, view.ue[heard])
        near = 1.0 / np.maximum(found.distance_m, 1.0)
        return Estimates.join(
            [
                _estimates(view, heard, "centroid", found.place_m[of_row], np.ones(len(heard))),
                _estimates(view, row, "near", antennas.at_m[cell, :2], near),
                _estimates(view, row[again], "moved", np.full((len(again), 2), np.nan), moved_m),
            ]
        ), state

    def _value(self, timing: Timing) -> FloatArray:
        """Reading of each upload (n,): it grows with the distance."""
        if self.use == "staleness":
            return timing.staleness.astype(np.float64)
        if self.use == "cell":
            return np.zeros(len(timing.arrived_s))
        return np.log(np.maximum(timing.arrived_s - timing.requested_s, _LEAST_S) / timing.n_bits)

    def _plus(self, past: UploadDelays, ue: IntArray, cell: IntArray, value: FloatArray) -> UploadDelays:
        """With the uploads of UEs (n,), ascending."""
        link = row_id(ue, cell)
        old = recall(past.link, past.mean, link)
        weight = recall(past.link, past.mass, link)
        mass = 1.0 + (1.0 - 1.0 / self.memory_rounds) * np.nan_to_num(weight)
        mean = np.where(np.isfinite(old), old + (value - old) / mass, value)
        links, newest = latest(link, past.link)
        ues, last = latest(ue, past.ue)
        return UploadDelays(
            links, np.concatenate([mean, past.mean])[newest], np.concatenate([mass, past.mass])[newest],
            ues, np.concatenate([cell, past.cell])[last], np.concatenate([value, past.value])[last],
        )  # fmt: skip


def _moved_m(before: RankedPlaces, now: RankedPlaces, same_cell: BoolArray) -> FloatArray:
    """By how much UEs (n,) have moved, m."""
    nearer_m = np.abs(now.distance_m - before.distance_m)
    return np.where(same_cell, nearer_m, np.linalg.norm(now.place_m - before.place_m, axis=1))


def _estimates(view: View, row: IntArray, what: str, position_m: FloatArray, weight: FloatArray) -> Estimates:
    """Estimates about some targets (k,) of the view."""
    return Estimates.of(view.ue[row], view.model[row], what, position_m, weight)
