"""The attack slot: estimates from the view that the threat model grants.

Attacks have no access to the true positions, which are compared with the estimates in
`fl.leakage.distances`.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from math import nan
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, Self, cast

import numpy as np

from fl.learners import FirstLayerLearner, Learner
from fl.tracking.linking import Identities, NameLinks
from fl.types import (
    Directory,
    Estimates,
    Local,
    Metrics,
    Model,
    Public,
    RoundContext,
    State,
    Timing,
)
from netsim.checkpoint import REBUILT
from netsim.columns import frozen, rank_in_groups
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.part import Named
from netsim.record import TableRows
from netsim.rng import Rng
from netsim.units import ArrayPair, BoolArray, FloatArray, IntArray, IntArrayPair, Texts

if TYPE_CHECKING:
    from fl.tracking.belief import Belief

Vantage = Literal["updates", "aggregate", "model"]
Attacked = tuple[Estimates, State]
"""Estimates of an attack, and its next state."""


class Replica(Protocol):
    """The training of UEs that the attacker makes up: it plays through all that is public of the
    real one.
    """

    @property
    def displacement_per_m(self) -> float | None:
        """epsilon of the planar Laplace noise by which UEs move their places first; None: they do
        not.
        """

    def count_shadow_ues(self, n_ue: int) -> int:
        """Number of shadow UEs when n_ue are asked for: enough to make up one view of real
        ones.
        """

    def play(
        self, data: Local, state: State, rng: Rng, base: Model | None = None
    ) -> "tuple[View, State]":
        """View of UEs with this data, numbered from 0; curation and defenses work on it as on any
        other.

        state : of those parts for the UEs made up, as a tree (see `netsim.checkpoint`); empty
        before their first round. base : models that they begin from, at a server with memories of
        its own; None: those of the real round.
        """


@frozen
class View:
    """View of an attacker of one phase of a round.

    update (n_source, d) : what it could attribute: one row a device (`updates`), the sum a model
    (`aggregate`), or the step between two published models (`model`). ue, model (n_target,) are the
    devices that took part, and source (n_target,) says which update row speaks of each. count
    (n_source,) is how many samples are behind each row (`updates` only), which servers weigh by.
    timing : when the updates of targets (n_target,) came, for an attacker that receives them come;
    None for who sees published models only. renames : whether the names of devices may change.

    asked (k,), ascending: the targeted UEs whose updates the server awaited in this phase: they
    accepted its request and began to send. Whoever refuses or holds all samples back is not among
    them. Those that are not in `ue` were lost, or are in a sum that was not opened. Without rounds:
    those whose uploads ended since the last merge, but for uploads that were lost and given up
    before. Where names change, only those whose present name has been seen. None: the threat does
    not say.

    party : whose updates are in each update row, those that are no targets included: ue (k,),
    source (k,), every pair once; ue is -1 where the name is not known. None: the threat does not
    say.
    """

    vantage: Vantage
    phase: str
    update: FloatArray
    source_model: IntArray
    ue: IntArray
    model: IntArray
    source: IntArray
    model_before: Model
    model_after: Model
    learner: Learner = field(metadata=REBUILT)
    count: FloatArray | None = None
    timing: Timing | None = None
    replica: Replica | None = field(default=None, metadata=REBUILT)
    renames: bool = False
    party: IntArrayPair | None = None
    asked: IntArray | None = None

    @property
    def is_usable(self) -> BoolArray:
        """Which update rows (n_source,) are finite and not zero."""
        return np.isfinite(self.update).all(axis=1) & (self.update != 0).any(axis=1)

    def group_usable_rows(self) -> Iterator[tuple[int, IntArray]]:
        """Each model of which an update row is usable, ascending, and these rows (k,)."""
        is_usable = self.is_usable
        for model in np.unique(self.source_model[is_usable]).tolist():
            yield model, np.flatnonzero(is_usable & (self.source_model == model))

    def get_standardisation(self) -> ArrayPair:
        """Centre and scale (n_source, 2) in metres of the positions behind each update row, before
        a first layer (see `FirstLayerLearner`).
        """
        centre, scale = cast(FirstLayerLearner, self.learner).standardisation(self.model_before)
        return centre[self.source_model], scale[self.source_model]

    @property
    def n_members(self) -> IntArray | None:
        """Number of UEs in each update row (n_source,); None if unknown."""
        if self.party is None:
            return None
        return np.bincount(self.party[1], minlength=len(self.update))

    def rename(self, ue: IntArray, asked: IntArray | None = None) -> "View":
        """The same with other names of the targets (n_target,), by increasing (name, model), so
        that the order of the targets, and of rows, tells nothing else; asked (k,): names of those
        that were asked.
        """
        order = np.lexsort([self.model, ue])
        timing = None if self.timing is None else self.timing.select(order)
        view = replace(
            self,
            ue=ue[order],
            model=self.model[order],
            source=self.source[order],
            timing=timing,
            asked=None if asked is None else np.sort(asked),
        )
        if self.vantage != "updates":
            if self.party is None:
                return view
            members, source = self.party
            return replace(view, party=(np.full(len(members), -1), source))
        row = view.source
        source = np.arange(len(row))
        return replace(
            view,
            update=self.update[row],
            source_model=self.source_model[row],
            source=source,
            count=None if self.count is None else self.count[row],
            party=(view.ue, source),
        )

    def repeat_for_targets(self, source: IntArray, estimates: Estimates) -> Estimates:
        """Estimates about sources (k,), repeated for every device that a source speaks of."""
        # targets grouped by the source that speaks of them
        order = np.argsort(self.source, kind="stable")
        grouped = self.source[order]
        first = np.searchsorted(grouped, source)
        end = np.searchsorted(grouped, source, "right")
        count = end - first
        row = np.repeat(np.arange(len(source)), count)
        target = order[first[row] + rank_in_groups(count)]
        return replace(estimates.select(row), ue=self.ue[target], model=self.model[target])

    def build_estimates(
        self,
        kind: str,
        source: IntArray,
        position_m: FloatArray,
        weight: FloatArray | None = None,
        status: list[str] | None = None,
    ) -> Estimates:
        """Estimates of one kind about sources (k,), by an attack without an objective; status : by
        default `ok`, and `no gradient` where there is no place.
        """
        status = status or to_statuses(position_m)
        return self.repeat_for_targets(
            source, Estimates.from_places(source, source, kind, position_m, weight, status)
        )


@frozen
class RevisedEstimates:
    """Revised estimates of all rounds so far: the track (N,) of each name (N,), estimates by
    tracks, and the links of the names that came in each round, with its time in s.
    """

    name: IntArray
    track: IntArray
    estimates: Estimates
    links: list[tuple[float, NameLinks]]


def to_statuses(position_m: FloatArray) -> list[str]:
    """The status of estimates (n, 2) of an attack without an objective: NaN is no place."""
    return np.where(np.isfinite(position_m).all(axis=1), "ok", "no gradient").tolist()


@frozen
class MadeUpTown:
    """A whole run of a town that the attacker made up: facts of its last round, and the true places
    home_m, work_m (k, 2) of its UEs, by all names ue (k,) that the attack saw; NaN for none.
    """

    facts: RoundContext
    ue: IntArray
    home_m: FloatArray
    work_m: FloatArray


class Attack(Named):
    """An attack, which depends on its view, public facts and its own state only."""

    role = "attack"
    kind: str = ""

    space: ClassVar[dict[str, tuple[object, ...]]] = {}
    """key -> values that `netsim sweep --adapt` tries, in every combination, that of the first
    values first; empty: it tries the kind only where the scenario has it"""

    _lessons: Sequence[str] | None = None

    reads_the_city: ClassVar = False
    """whether it needs streets and buildings among the public facts"""

    reads_sums: ClassVar = False
    """whether it is made for sums of updates; any other reads them as those of one UE"""

    reads_times: ClassVar = False
    """whether it reads when updates arrive, where it is granted that"""

    @property
    def files(self) -> Texts:
        """Paths of the files that it reads."""
        return ()

    def check(self, public: Public, n_ue: int) -> None:
        """BadInput where the public facts of a world lack what it needs, or n_ue UEs are too many
        to attack.
        """
        return

    def fit_cells(self, learner: Learner, area: Area) -> Self:
        """The attack, whose cells are as fine as the learner's inputs where it has cells and none
        is given.
        """
        if getattr(self, "cell_m", 0.0) is not None:
            return self
        from fl.tracking.place_grid import (
            choose_cell_m,  # not at the top: most attacks have no grid
        )

        return self.change("cell_m", choose_cell_m(area, learner.shortest_m))

    n_towns: ClassVar = 0
    """number of towns that it makes up and learns on before a run"""

    def take_lesson(self, state: State, town: MadeUpTown, rng: Rng) -> State:
        """What a made-up town teaches, as a small tree of arrays (see `netsim.checkpoint`).

        state : of the attack after the last round of that town, in which it has learnt nothing.
        """
        raise BadInput(
            f"attack {self.label}: made-up towns teach nothing without its own take_lesson"
        )

    def learn(self, lessons: Sequence[State]) -> Self:
        """The attack with what the lessons of all its towns teach, as trees; no draws."""
        return self

    def tabulate_learnt(self) -> TableRows:
        """What it has learnt, as rows (kind, column, weight) of the table `learnt`."""
        return []

    @property
    def lessons(self) -> Sequence[str] | None:
        """Digests of the lessons that it has learnt; none in a made-up town, None before any."""
        return self._lessons

    def mark_lessons(self, digests: Sequence[str]) -> Self:
        """The same attack with the digests of what it has learnt."""
        marked = self.model_copy()
        marked._lessons = tuple(digests)
        return marked

    def start(self) -> State:
        """The first state; None for an attack without memory."""
        return None

    @abstractmethod
    def run(self, view: "View", facts: RoundContext, state: State, rng: Rng) -> Attacked:
        """Estimates about the devices of this phase."""

    def figures(self, state: State) -> Metrics:
        """Figures of the last round besides the estimates, for the table `metrics`; names with
        units.
        """
        return {}

    def belief(self, state: State, facts: RoundContext) -> "Belief | None":
        """Belief after the round about all known UEs, by the names of the view; None: no
        beliefs.
        """
        return None

    def smooth_beliefs(self, state: State, facts: RoundContext) -> "Iterator[Belief]":
        """Beliefs about each round so far, in order, given all of them."""
        return iter(())

    def list_places(self, state: State, public: Public, count: int) -> FloatArray | None:
        """The best places (<= count, 2) that it can name, best first, of all known UEs; None: it
        keeps no map of them, and its estimates speak for it.
        """
        return None

    def conclude(self, state: State, facts: RoundContext, rng: Rng) -> Estimates | None:
        """Estimates after the last round, once a run, in place of those of that round; None: these
        stay. Their answers replace all earlier ones.
        """
        return None

    def links(self, state: State) -> NameLinks | None:
        """Track of each name of the last round; None: it links no names."""
        return None

    def revise(self, state: State, facts: RoundContext, rng: Rng) -> RevisedEstimates | None:
        """Estimates of all rounds so far that replace those of each round; None: no revision."""
        return None

    def identities(self, state: State) -> Identities | None:
        """Person of its directory for each name of the last round; None: it has no directory."""
        return None

    def directory(self, public: Public) -> Directory | None:
        """Directory of people whose homes it knows; None: none."""
        return None

    def self_test(self, view: "View", facts: RoundContext, rng: Rng) -> float | None:
        """Error in metres of the attack on an update that the attacker generated itself.

        The attacker trains on one sample at a random place in the area, with a random label around
        the public mean, from the initial weights of this phase, and attacks that update without
        state. This distinguishes a failed optimiser from a protected user. Its centroid is judged,
        or where it names none its first answer, which has the resolution of the grid that it looks
        at. NaN: no estimate, or one outside the area; None: no UE took part, or the learner has no
        labels with public mean and deviation.
        """
        constants = view.model_before.constants
        if len(view.source_model) == 0 or not {"rsrp_mean_dbm", "rsrp_std_db"} <= set(constants):
            return None
        rng = replace(rng, purpose=f"{rng.purpose}.self-test")
        model = view.source_model[:1]
        place = facts.public.area.sample(rng.uniform("place", model, (2,)))
        label = constants["rsrp_mean_dbm"][model] + (
            constants["rsrp_std_db"][model] * rng.normal("label", model)
        )
        ue = np.zeros(1, dtype=int)
        data = Local(ue, model, np.array([0, 1]), place, label, np.array([facts.time_s]))
        updates = view.learner.train_locally(view.model_before, view.phase, data, rng)
        merged = updates.sum_weighted(np.ones(1), len(view.model_before.parameters))
        after = view.learner.step(view.model_before, view.phase, merged)
        own_view = View(
            "updates",
            view.phase,
            updates.all_rows,
            model,
            ue,
            model,
            ue,
            view.model_before,
            after,
            view.learner,
            updates.count,
        )
        estimates, _ = self.run(own_view, facts, self.start(), rng)
        kind = "centroid" if "centroid" in estimates.what else "answer"
        if kind not in estimates.what:
            return nan
        named_m = estimates.position_m[estimates.what.index(kind)]
        if not facts.public.area.contains(named_m):
            return nan
        return float(np.linalg.norm(named_m - place[0]))
