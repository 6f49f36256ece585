"""The threat model: the attacker, and its view of a round."""

from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, field_validator

from fl.attacks.base import View
from fl.learners import Learner
from fl.tracking.pseudonyms import PSEUDONYMS, Permanent, Pseudonyms
from fl.types import Model, Received, Timing, list_offers
from netsim.columns import pick_even_indices
from netsim.part import Coordinates, Count, Part
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray, IntArrayPair, Texts
from netsim.world.base_stations import BaseStation

_ANTENNA_M = 10.0
ARRIVAL_TIMES = "arrival times"
"""offered where the attacker learns when updates come, also where it sees only their sum"""
CELLS = "cells of uploads"
"""offered where it moreover learns through which cell each of them comes"""
SENDERS = "names of senders"
"""offered where the attacker sees senders, by whatever name"""
KNOWN_HOMES = "homes of residents"
"""offered where the attacker knows homes"""
MEASURED = "measurements of the operator"
"""offered where the attacker is granted some of what base stations measure"""
PARTICIPANTS = "lasting names of participants"
"""offered where the attacker knows whose updates are in what it sees, by names that do not
change"""


class Threat(Part):
    """The view of an attacker.

    `updates`: every decoded update with its sender. `aggregate`: only the merged update of each
    model, as under secure aggregation; with `secagg_group_size` n, the sums of groups of n UEs that
    send, before the uplink loses any (what is left over goes into the last), put together at random
    in every round or once for all (`groups`). A sum is that of the updates which were decoded; with
    `secagg_threshold` t one of fewer than t UEs is not recovered: the server does not see it and
    nothing of it is merged. `model`: only the published models before and after the round. An
    `analyst` reads published models from outside; the `server` runs the training; an `eavesdropper`
    receives all uplinks with its own antenna at a given position, with links of its own: nearby UEs
    better than the base station, others worse.

    `pseudonyms` are the names under which it sees who sends; an attacker that sees published models
    alone sees no names, and they change nothing. With `shuffle` a third party collects the updates
    of a round, and hands them over in a random order: the attacker does not learn when each came,
    through which cell, nor how many samples are behind it. All models of a UE stay together. With
    `cells: false` it does not learn through which cell an update came, as behind a relay or a core
    network that keeps this to itself; names, times and sizes stay. With `times: false` it does not
    learn when an update came nor how stale it is, as behind a relay that holds updates back until
    all are there; names, cells, sizes, times of requests and who was lost stay. An ideal uplink
    hides arrival times by itself: all updates come at once.

    An attacker that is the network's `operator`, or hears from it, is granted what base stations
    measure of the connection over which each update comes, whatever `cells` says. A third party
    that shuffles updates also keeps apart which connection brought which.

    `knowledge` is further knowledge of the attacker: `weights` (the initial model of the round,
    which is broadcast to all participants), `training` (learning rate, epochs and batch size of the
    learner), `homes` (who lives where: the name and the true home of every UE that has one, but not
    which sender it is) and `participants` (whose updates were merged into a published model; with
    rows and sums it sees senders anyway).
    """

    observes: Literal["updates", "aggregate", "model"] = "updates"
    """observed updates: of each UE, their sum, or published models only"""
    secagg_group_size: int | None = Field(None, ge=2, le=1_000_000)
    """UEs of a group whose updates are summed, with `observes: aggregate`; fewer where the uplink
    loses some; a UE without an update of a model adds nothing to its sum. none: all UEs"""
    secagg_threshold: int | None = Field(None, ge=2, le=1_000_000)
    """UEs of a group whose updates of a model must be decoded for their sum to be opened, with
    `observes: aggregate`, or `model` where the server of a reader gets sums; none: one will do"""
    groups: Literal["random", "fixed"] = "random"
    """company of a UE in sums: drawn again in every round and phase, or once for the whole run
    (then of a group come those that send)"""
    viewpoint: Literal["server", "analyst", "eavesdropper"] = "server"
    """position of the attacker in the system"""
    knowledge: tuple[Literal["weights", "training", "homes", "participants"], ...] = (
        "weights",
        "training",
    )
    """knowledge of the training, of who lives where, and of who takes part in published models; an
    attack that needs more is refused"""
    n_targets: Count | None = None
    """number of targeted UEs, taken evenly from all; only these are attacked, and leakage is
    measured for these only; none: all UEs"""
    position_m: Coordinates | None = None
    """position of an eavesdropper, metres east and north"""
    height_m: float | None = Field(None, ge=0, le=1000)
    """antenna height of an eavesdropper above ground, m; none: 10"""
    antennas: int | None = Field(None, ge=1, le=1024)
    """number of antennas of an eavesdropper, at most those of a base station; none: as many"""
    transmitter: str | None = Field(None, min_length=1, max_length=60)
    """with `path_loss: {kind: map}`: the transmitter of the file whose gains an eavesdropper's
    antenna has; position_m, from which its distances are, may then be left out"""

    pseudonyms: Annotated[Pseudonyms, PSEUDONYMS] = Permanent()
    """names under which senders are seen, and how long they last"""
    shuffle: bool = False
    """whether a third party collects updates and hands them over without order, times and counts;
    needs pseudonyms per-round"""

    cells: bool = True
    """whether it learns through which cell each update comes; false: a relay hides that"""
    times: bool = True
    """whether it learns when each update arrived; false: a relay hands over all of a round at
    once"""
    operator: tuple[Literal["cell", "timing-advance", "angle", "levels"], ...] = ()
    """what it is granted of the network's own measurements of each connection: the serving cell,
    which all others tell too, timing advance, angle of arrival, and levels of the three strongest
    sites; see `world.radio.positioning`"""

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """Capabilities that attacks may require."""
        hears = self.hears
        facts = {
            self.observes: True,
            "starting weights": "weights" in self.knowledge,
            "training details": "training" in self.knowledge,
            KNOWN_HOMES: self.knows_homes,
            SENDERS: self.observes != "model",
            ARRIVAL_TIMES: hears and self.times,
            CELLS: hears and self.cells,
            MEASURED: hears and bool(self.operator),
            PARTICIPANTS: self.knows_participants and not self.renames,
        }
        return list_offers(facts)

    @property
    def hears(self) -> bool:
        """Whether it is there as updates, or those in a sum, come from their senders: it reads
        neither published models alone, nor what a third party has shuffled.
        """
        return self.observes != "model" and not self.shuffle

    @property
    def sums_updates(self) -> bool:
        """Whether the server gets sums alone; a reader of models knows them by the models."""
        return self.observes == "aggregate" or (
            self.observes == "model" and self.secagg_threshold is not None
        )

    @property
    def renames(self) -> bool:
        """Whether the attacker sees senders under names that change."""
        return self.observes != "model" and self.pseudonyms.changes

    @property
    def receiver(self) -> BaseStation | None:
        """An eavesdropper's antenna in the form of a base station; None for another viewpoint."""
        if self.viewpoint != "eavesdropper":
            return None
        height_m = _ANTENNA_M if self.height_m is None else self.height_m
        return BaseStation(
            name=self.transmitter or "elsewhere",
            position_m=self.position_m or (0.0, 0.0),
            height_m=height_m,
            power_dbm=0.0,
        )

    @property
    def knows_homes(self) -> bool:
        """Whether it knows homes."""
        return "homes" in self.knowledge

    @property
    def knows_participants(self) -> bool:
        """Whether it knows whose updates are in what it sees, by whatever name."""
        return self.observes != "model" or "participants" in self.knowledge

    @property
    def can_train(self) -> bool:
        """Whether it knows enough to make an update of its own."""
        return {"weights", "training"} <= set(self.knowledge)

    @field_validator("knowledge", "operator")
    @classmethod
    def _check_repeats(cls, knows: Texts) -> Texts:
        if twice := [word for word in knows if knows.count(word) > 1]:
            raise ValueError(f"{twice[0]!r} stands {knows.count(twice[0])} times; name it once")
        return knows

    def is_targeted(self, ue: IntArray, n_ue: int) -> BoolArray:
        """Whether it targets UEs (n,), of n_ue in the world."""
        return np.isin(ue, pick_even_indices(n_ue, self.n_targets or n_ue))

    def grant_view(
        self,
        learner: Learner,
        phase: str,
        received: Received,
        weights: FloatArray,
        targeted: BoolArray,
        models: tuple[Model, Model],
        rng: Rng,
        timing: Timing | None = None,
        group: IntArray | None = None,
    ) -> View:
        """The view of one phase, in which rows (n,) of `received` were merged with `weights` (n,).

        targeted (n,): of whom the attacker wants to know; a sum has also the others in it. models:
        those before and after the phase; timing: when rows (n,) came, None if unknown; group (n,):
        of each row; None: rng draws it.
        """
        before, after = models
        updates = received.updates
        targets = np.flatnonzero(received.decoded & targeted)
        ue = updates.ue[targets]
        model = updates.model[targets]
        count = None
        party = (ue, np.arange(len(targets)))
        if self.observes == "updates":
            count = None if self.shuffle else updates.count[targets]
            if len(targets) == len(updates.ue):  # all of a large round are not copied
                update = updates.all_rows
            else:
                update = updates.rows(targets)
            source_model = model
            source = np.arange(len(targets))
        elif self.observes == "model":
            step = after.parameters - before.parameters
            source_model = np.union1d(model, np.flatnonzero((step != 0).any(axis=1)))
            update = step[source_model]
            source = np.searchsorted(source_model, model)
            party = _list_party(updates.ue, updates.model, received.decoded, source_model)
        else:
            if group is None:
                group = self._draw_groups(updates.ue, rng)
            sum_of_row, model_of_sum, total = self._sum_groups(
                received, weights, len(before.parameters), group
            )
            sums, source = np.unique(sum_of_row[targets], return_inverse=True)
            update = total[sums]
            source_model = model_of_sum[sums]
            party = _list_party(updates.ue, sum_of_row, received.decoded, sums)
        if "weights" not in self.knowledge:
            before = replace(before, parameters=np.full_like(before.parameters, np.nan))
        heard = None
        if timing is not None and self.hears:
            heard = timing.select(targets)
            if not self.cells:
                heard = replace(heard, base_station=np.full(len(targets), -1))
            if not self.times:
                unknown_s = np.full(len(targets), np.nan)
                heard = replace(heard, arrived_s=unknown_s, staleness=0 * heard.staleness)
        asked = None
        if self.viewpoint == "server" and self.hears:
            asked = np.unique(updates.ue[targeted])
        return View(
            self.observes,
            phase,
            update,
            source_model,
            ue,
            model,
            source,
            before,
            after,
            learner,
            count,
            heard,
            party=party if self.knows_participants else None,
            asked=asked,
        )

    def group_ues(self, ue: IntArray, n_ue: int, in_round: Rng, of_run: Rng) -> IntArray:
        """The group of each row (n,) of UEs that send, of n_ue in the world."""
        if self.groups == "fixed":
            return self._draw_groups(np.arange(n_ue), of_run)[ue]
        return self._draw_groups(ue, in_round)

    def _sum_groups(
        self, received: Received, weights: FloatArray, n_model: int, group: IntArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        """The sum that each row is in (n,), -1 where it was not decoded; model (k,) and values (k,
        d) of each sum.
        """
        updates = received.updates
        heard = np.flatnonzero(received.decoded)
        sum_of_row = np.full(len(updates.ue), -1)
        pairs = np.stack([group[heard], updates.model[heard]], axis=1)
        pairs, of_row = np.unique(pairs, axis=0, return_inverse=True)
        sum_of_row[heard] = of_row.reshape(-1)
        if not len(pairs) or pairs[-1, 0] == 0:  # one group
            total = updates.sum_weighted(weights, n_model)[pairs[:, 1]]
        else:
            total = np.zeros((len(pairs), updates.n_parameters))
            for k in range(len(pairs)):
                rows = np.flatnonzero(sum_of_row == k)
                total[k] = weights[rows] @ updates.rows(rows)
        return sum_of_row, pairs[:, 1], total

    def _draw_groups(self, ue: IntArray, rng: Rng) -> IntArray:
        """The group of each row (n,): groups of `secagg_group_size` UEs in a random order, what is
        left over in the last.
        """
        ues, index = np.unique(ue, return_inverse=True)
        size = self.secagg_group_size
        if size is None or len(ues) < 2 * size:
            return np.zeros(len(ue), dtype=int)
        rank = np.argsort(np.argsort(rng.uniform("group", ues), kind="stable"))
        return np.minimum(rank // size, len(ues) // size - 1)[index]


def _list_party(ue: IntArray, number: IntArray, decoded: BoolArray, sums: IntArray) -> IntArrayPair:
    """UEs and sources (k,), every pair once: rows (n,) of UEs are in sums `number`, sources those
    of `sums`.
    """
    is_member = decoded & np.isin(number, sums)
    source = np.searchsorted(sums, number[is_member])
    pairs = np.unique(np.stack([source, ue[is_member]], axis=1), axis=0)
    return pairs[:, 1], pairs[:, 0]
