"""The values that walk through a round. Frozen; nothing here computes more than it must to be read.

Shapes: n rows of a round, one per (UE, model); N samples; n_model models (one per cell); d numbers
of an update or a model: those of an update may be fewer, and others in each phase of a learner.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from netsim.checkpoint import REBUILT
from netsim.city.buildings import Buildings
from netsim.columns import (
    Columns,
    compute_bounds,
    frozen,
    join_columns,
    no_floats,
    no_ints,
    no_places,
    number_row,
    pick_even_indices,
    select_groups,
    split_blocks,
)
from netsim.geometry import Area
from netsim.radio.positioning import NetworkFixes
from netsim.radio.uplink import Channel
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, FloatPair, IntArray, IntPair, Ints, TextPair, Texts
from netsim.world.base_stations import BaseStation
from netsim.world.coverage_law import CoverageLaw

State = Any
"""What a part remembers, as a value that is never hidden in the part.

Each part says with `start` what it begins with, and names the type in its own methods: None for a
part without memory, else a frozen dataclass of arrays, numbers, text, and of lists, dictionaries
and dataclasses of them (see `netsim.checkpoint`). A plain dictionary with string keys will do for a
part from outside.
"""


Metrics = dict[str, float]
"""Figures of a part or a model by name, as in the table `metrics`."""


def list_offers(words: dict[str, bool]) -> frozenset[str]:
    """The capabilities that are there."""
    return frozenset(word for word, is_offered in words.items() if is_offered)


@dataclass(frozen=True)
class LastFigures:
    """Figures of the last round, names with units: the memory of a part that has nothing else to
    remember.
    """

    figures: Metrics = field(default_factory=dict)


@frozen
class Local:
    """Data on devices, ragged and flat: row i is (ue[i], model[i]) and owns samples
    ptr[i]:ptr[i+1].

    ue, model (n,), ptr (n + 1,), x (N, p) in physical units (metres for positions; pixels of 0 to
    255, as bytes, for images), y (N,) labels or None, time_s (N,); cell (N,) is the base station
    that each sample measured (an index into the world's cells), where samples are measurements of
    one.
    """

    ue: IntArray
    model: IntArray
    ptr: IntArray
    x: FloatArray
    y: FloatArray | None
    time_s: FloatArray
    cell: IntArray | None = None

    @property
    def row(self) -> IntArray:
        """Number of each row's (ue, model) (n,)."""
        return number_row(self.ue, self.model)

    @property
    def count(self) -> IntArray:
        """Samples per row (n,)."""
        return np.diff(self.ptr)

    @property
    def row_of_sample(self) -> IntArray:
        """Row index of each sample (N,)."""
        return np.repeat(np.arange(len(self.ue)), self.count)

    def list_samples(self) -> list[tuple[IntPair, FloatArray]]:
        """(ue, model), and x of the samples (count, p), of each row."""
        rows = zip(self.ue.tolist(), self.model.tolist(), strict=True)
        return list(zip(rows, np.split(self.x, self.ptr[1:]), strict=False))

    def average_x(self) -> FloatArray:
        """Mean of x per row (n, p); NaN for a row without samples."""
        total = np.zeros((len(self.ue), self.x.shape[1]))
        np.add.at(total, self.row_of_sample, self.x)
        with np.errstate(invalid="ignore", divide="ignore"):
            return total / self.count[:, None]

    def keep(self, samples: BoolArray) -> Local:
        """The same rows with only some samples; a row may become empty."""
        count = np.bincount(self.row_of_sample[samples], minlength=len(self.ue))
        return self._take(slice(None), compute_bounds(count), samples)

    def select(self, rows: IntArray | BoolArray) -> Local:
        """Rows by index, in this order, or by mask, with their samples."""
        rows = np.arange(len(self.ue))[rows]
        return self._take(rows, *select_groups(self.ptr, rows))

    def _take(self, rows: IntArray | slice, ptr: IntArray, samples: IntArray | BoolArray) -> Local:
        """Rows with some samples, whose bounds are ptr."""
        y = None if self.y is None else self.y[samples]
        cell = None if self.cell is None else self.cell[samples]
        x = self.x[samples]
        time_s = self.time_s[samples]
        return Local(self.ue[rows], self.model[rows], ptr, x, y, time_s, cell)

    @classmethod
    def join(cls, pieces: Sequence[Local]) -> Local:
        """All rows of pieces of one kind of data, one after the other."""
        if len(pieces) == 1:
            return pieces[0]
        names = ("ue", "model", "x", "y", "time_s", "cell")
        columns = {name: join_columns(pieces, name) for name in names}
        return cls(ptr=compute_bounds(join_columns(pieces, "count")), **columns)

    def nonempty(self) -> Local:
        """Only rows with samples."""
        rows = self.count > 0
        ptr = compute_bounds(self.count[rows])
        return replace(self, ue=self.ue[rows], model=self.model[rows], ptr=ptr)


def split_by_model(model_of: IntArray, size: int) -> Iterator[tuple[int, IntArray]]:
    """Each model and at most `size` of the samples that belong to it, by index."""
    for m in np.unique(model_of).tolist():
        rows = np.flatnonzero(model_of == m)
        for block in split_blocks(len(rows), size):
            yield m, rows[block]


NEW_PLACE = -1
"""group of samples that were held out with all others of their block of ground, for a score by
place"""


SAMPLE_BOUNDS = dict.fromkeys(("x", "y"), (-1e9, 1e9))
"""of what tables of samples hold"""


@frozen
class HeldOut(Columns):
    """Samples that no training sees: ue, model (N,), x (N, p), y (N,), and cell (N,) as in `Local`.

    x holds float64, or the bytes of images.

    group (N,) tells apart samples that ask different things of a model (see the part of data, and
    NEW_PLACE), time_s (N,) is when they were measured; left out, all are 0.
    """

    bounds: ClassVar = SAMPLE_BOUNDS
    ue: IntArray
    model: IntArray
    x: npt.NDArray[Any]
    y: FloatArray
    cell: IntArray
    group: IntArray = field(default_factory=no_ints)
    time_s: FloatArray = field(default_factory=no_floats)

    def __post_init__(self) -> None:
        if len(self.group) != len(self.ue):
            object.__setattr__(self, "group", np.zeros_like(self.ue))
        if len(self.time_s) != len(self.ue):
            object.__setattr__(self, "time_s", np.zeros(len(self.ue)))

    @classmethod
    def none(cls) -> Self:
        """No sample."""
        no_ue = no_ints()
        return cls(no_ue, no_ue, no_places(), np.zeros(0), no_ue)

    def plus(self, added: Self) -> Self:
        """Return these, then those."""
        return self.join([samples for samples in (self, added) if len(samples)] or [added])

    def __len__(self) -> int:
        return len(self.ue)

    @property
    def usual(self) -> HeldOut:
        """Samples that were not held out for a score by place."""
        new = self.group == NEW_PLACE
        if new.any():
            return self.select(~new)
        return self

    def thin(self, max_count: int) -> HeldOut:
        """At most `max_count` of them, evenly spaced in their order."""
        return self.select(pick_even_indices(len(self), max_count))


@dataclass(frozen=True)
class Bound:
    """A promise about every row of an update: its L2 norm never exceeds `norm`, whatever the data.

    `unit` says whose data may change (all of a user's round, or one record), `relation` how (a user
    added or removed, replaced by any other, or still there with an update of zeros).
    """

    norm: float
    unit: Literal["user", "record"] = "user"
    relation: Literal["add-remove", "replace", "zero-out"] = "replace"

    @property
    def sensitivity(self) -> float:
        """Distance that one neighbour can move the row: the norm, or twice the norm when data are
        replaced.
        """
        return self.norm * (2.0 if self.relation == "replace" else 1.0)

    @classmethod
    def from_record(cls, step: float, data: Local, model: Model) -> Bound:
        """Promise of one record's part of an update by a step on the mean of n gradients no longer
        than `step`.

        It is step / n for the fewest n of a row (of no row: as of one record), and what weights of
        64 bits round by, since an update is their difference.
        """
        fewest = max(min(data.count.tolist(), default=1), 1)
        rounding = 2.3e-16 * float(np.linalg.norm(model.parameters))
        return cls(step / fewest + rounding, "record", "replace")

    @property
    def zeroed(self) -> Bound:
        """The promise where a UE takes part in either neighbour: it sends zeros in place of being
        removed.
        """
        if self.relation == "add-remove":
            return replace(self, relation="zero-out")
        return self

    def spend(
        self, label: str, ue: IntArray, model: IntArray, std: FloatArray, delta: float
    ) -> Spend:
        """The spend of a part's noise of std (n,) on rows (n,) within the bound."""
        sensitivity = np.full(len(ue), self.sensitivity)
        return Spend(label, ue, model, std, sensitivity, self.unit, self.relation, delta)


_NUMBERS = 1_000_000  # that are drawn at once


class Updates(ABC):
    """Updates that devices send: n rows (ue, model, count) of d numbers, dense or factored.

    `count` (n,) is the number of samples behind a row, `phase` the learner's phase, `bound` the
    standing promise about row norms or None.
    """

    ue: IntArray
    model: IntArray
    count: FloatArray
    phase: str
    bound: Bound | None

    @property
    def row(self) -> IntArray:
        """Number of each row's (ue, model) (n,)."""
        return number_row(self.ue, self.model)

    @property
    @abstractmethod
    def n_parameters(self) -> int:
        """Numbers in a row (d)."""

    @abstractmethod
    def rows(self, index: IntArray | slice) -> FloatArray:
        """Dense rows (len(index), d)."""

    @property
    def all_rows(self) -> FloatArray:
        """Dense rows of all devices (n, d)."""
        return self.rows(slice(None))

    @abstractmethod
    def norm(self) -> FloatArray:
        """L2 norm of each row (n,)."""

    @abstractmethod
    def scale_rows(self, factor: FloatArray, bound: Bound | None) -> Updates:
        """Rows multiplied by factor (n,); a factor of 0 gives zeros, also for a row that is not
        finite.
        """

    def plus(self, noise: FloatArray) -> DenseUpdates:
        """Rows plus noise (n, d), written out. The bound no longer holds and is cleared."""
        return self.with_values(self.all_rows + noise, None)

    def add_noise(self, std: FloatArray, purpose: str, rng: Rng) -> DenseUpdates:
        """Rows plus normal noise of std (n,) on each number, drawn for `purpose` a few rows at a
        time. No bound holds.
        """
        values = np.array(self.all_rows, dtype=float)  # also of whole numbers
        row = self.row
        d = self.n_parameters
        for block in split_blocks(len(values), max(1, _NUMBERS // max(d, 1))):
            noise = rng.normal(purpose, row[block], (d,))
            values[block] += std[block, None] * noise
        return self.with_values(values, None)

    @abstractmethod
    def sum_weighted(self, weights: FloatArray, n_model: int) -> FloatArray:
        """Sum of weights[i] * row i per model: (n_model, d)."""

    @property
    def promise(self) -> Bound:
        """The bound; ValueError without one."""
        if self.bound is None:
            raise ValueError("the update has no bound; put a clip before the noise")
        return self.bound

    def to_dense(self) -> DenseUpdates:
        """The same as one array."""
        return self.with_values(self.all_rows, self.bound)

    def with_values(self, values: FloatArray, bound: Bound | None) -> DenseUpdates:
        """The same devices with other rows (n, d)."""
        return DenseUpdates(self.ue, self.model, self.count, values, self.phase, bound)


@frozen
class DenseUpdates(Updates, Columns):
    """Updates held as one array, values (n, d)."""

    ue: IntArray
    model: IntArray
    count: FloatArray
    values: FloatArray
    phase: str = "all"
    bound: Bound | None = None

    @property
    def n_parameters(self) -> int:
        return int(self.values.shape[1])

    def rows(self, index: IntArray | slice) -> FloatArray:
        return self.values[index]

    def norm(self) -> FloatArray:
        return np.sqrt(np.einsum("nd,nd->n", self.values, self.values))

    def scale_rows(self, factor: FloatArray, bound: Bound | None) -> Self:
        keeps = ((factor == 0) | (factor == 1)).all()  # whole numbers are whole
        values = np.zeros(self.values.shape, self.values.dtype if keeps else np.float64)
        column = factor[:, None]
        np.multiply(self.values, column, out=values, where=column != 0, casting="unsafe")
        return replace(self, values=values, bound=bound)

    def sum_weighted(self, weights: FloatArray, n_model: int) -> FloatArray:
        total = np.zeros((n_model, self.n_parameters))
        for m in np.unique(self.model):
            rows = self.model == m
            values = self.values if rows.all() else self.values[rows]  # no copy of all
            total[m] = weights[rows] @ values
        return total


class NoUpdates(DenseUpdates):
    """Rows of zeros that nobody learnt, of which no number is ever written out: noise, too, leaves
    them as they are.
    """

    @classmethod
    def from_local(cls, data: Local, n_parameters: int) -> Self:
        """A row of n_parameters for each of the data."""
        values = np.broadcast_to(0.0, (len(data.ue), n_parameters))
        return cls(data.ue, data.model, data.count.astype(float), values)

    def norm(self) -> FloatArray:
        return np.zeros(len(self.ue))

    def scale_rows(self, factor: FloatArray, bound: Bound | None) -> Self:
        return replace(self, bound=bound)

    def add_noise(self, std: FloatArray, purpose: str, rng: Rng) -> DenseUpdates:
        return self.scale_rows(std, None)

    def sum_weighted(self, weights: FloatArray, n_model: int) -> FloatArray:
        return np.zeros((n_model, self.n_parameters))


@frozen
class Model:
    """The global models: parameters (n_model, d), and public constants of the learner (scales,
    offsets).
    """

    bounds: ClassVar = {"constants": (-1e12, 1e12)}

    parameters: FloatArray
    constants: dict[str, FloatArray] = field(default_factory=dict)


@frozen
class DatasetStatistics:
    """Mean and standard deviation of all positions measured in each cell: mean_m, std_m (n_model,
    2).

    Publishing them gives away where the users are on average; the paper's experiments do it.
    """

    mean_m: FloatArray
    std_m: FloatArray

    @classmethod
    def from_positions(
        cls, position_m: FloatArray, model: IntArray, n_model: int
    ) -> DatasetStatistics:
        """Statistics of positions (n, 2) by the model (n,) that learns from each; 0 and 1 for one
        without positions.
        """
        mean = np.zeros((n_model, 2))
        std = np.ones((n_model, 2))
        for m in np.unique(model[model >= 0]):
            mean[m] = position_m[model == m].mean(axis=0)
            std[m] = position_m[model == m].std(axis=0)
        return cls(mean, np.maximum(std, 1e-3))


@frozen
class Antennas:
    """Places and powers of base stations: at_m (n_cell, 3) with heights, power_dbm (n_cell,).

    azimuth_deg (n_cell,): where sectors point, clockwise from north, NaN for an isotropic antenna;
    None: all are.
    """

    at_m: FloatArray
    power_dbm: FloatArray
    azimuth_deg: FloatArray | None = None

    @classmethod
    def from_stations(cls, stations: Sequence[BaseStation]) -> Antennas:
        """Antennas of base stations, one per cell."""
        at_m = np.array([(*b.position_m, b.height_m) for b in stations])
        azimuth_deg = np.array(
            [np.nan if b.azimuth_deg is None else b.azimuth_deg for b in stations]
        )
        return cls(at_m, np.array([b.power_dbm for b in stations]), azimuth_deg)


@dataclass(frozen=True)
class SampleFormat:
    """Format of samples that are no positions: the shape in which a module reads each, the number
    of classes of their labels (0: labels are numbers), and the largest value, by which values are
    divided (255 of bytes).

    Images have the shape (channels, height, width).
    """

    shape: Ints
    classes: int
    largest: float = 1.0


@frozen
class Directory:
    """Homes of people: user (n,), by the names of ues.csv, each once, and home_m (n, 2)."""

    user: Texts
    home_m: FloatArray


@frozen
class Public:
    """Public facts: the area, the number of models, the data's statistics where they are published,
    and antennas.

    sampled_m (n, 2) are the places of the first round that asks UEs, where a learner has them
    published for it. antennas is None where a trace replaces the radio; ue_height_m is the height
    of every UE's antenna; samples is the format of samples that are no positions; n_cell is the
    number of cells and model_of_cell (n_cell,) the model that learns each (-1: none). street_m (k,
    2, 2), the ends of straight pieces of streets, and floor_area (n, 3), the middle of each
    building and its floors' area in m2, are there where an attacker reads a map. buildings are the
    footprints of the city, None where it has none; coverage are the laws of the radio, without what
    was drawn from them, None where antennas is. origin_deg is latitude and longitude of (0, 0),
    where the plane is on the globe. residents are the UEs with their homes, only where the threat
    grants them. server_momentum is the share of the step before that the server's optimiser repeats
    (beta).
    """

    area: Area
    n_model: int
    dataset: DatasetStatistics | None = None
    antennas: Antennas | None = None
    ue_height_m: float = 1.5
    samples: SampleFormat | None = None
    sampled_m: FloatArray | None = None
    n_cell: int = 1
    model_of_cell: IntArray | None = None
    street_m: FloatArray | None = None
    floor_area: FloatArray | None = None
    origin_deg: FloatPair | None = None
    residents: Directory | None = None
    buildings: Buildings | None = None
    coverage: CoverageLaw | None = None
    server_momentum: float = 0.0

    @property
    def models(self) -> IntArray:
        """The model that learns each cell (n_cell,), -1 for none; one learns all unless it is
        said.
        """
        if self.model_of_cell is None:
            return np.zeros(self.n_cell, dtype=int)
        return self.model_of_cell


@frozen
class Request:
    """Request of a server to every UE about a grid: features (inf for the exact kernel),
    bandwidth_m (H,), the area.
    """

    features: float
    bandwidth_m: FloatArray
    area: Area
    dimensions: int = 2


@frozen
class RoundContext:
    """Context of a round; read-only. `channel` (n,) is the planned uplink for the UEs' half of
    defenses, None where nothing is planned; that which came of it from the merge on; None before.

    weight is what every decoded row counts in the merge, where the aggregation fixes it beforehand;
    else None. sampling_rate is the probability with which the server asks each UE, by a coin for
    each; 1 where it does otherwise. request is what the server asks, where a learner asks anything
    that a UE may refuse. round_s is the length of a window of data, and week_s (s since Monday's
    midnight, by the wall clock) the time at which this one ended; NaN if unknown. day is the number
    of the local day that it ended in. least_opened is the number of UEs of which a secure sum has
    at least one update each, or it is not opened; rounds is the largest number of rounds of the
    run, and separation that of rounds from one request to a UE to its next. cohort (n,) are the UEs
    whose turn it is, -1 for all; on_device says whether UEs draw noise themselves.
    """

    round: int
    time_s: float
    public: Public = field(metadata=REBUILT)
    channel: Channel | None = None
    weight: float | None = None
    sampling_rate: float = 1.0
    request: Request | None = None
    round_s: float = float("nan")
    week_s: float = float("nan")
    day: int = 0
    least_opened: int = 1
    rounds: int = 1
    separation: int = 1
    cohort: IntArray = field(default_factory=lambda: np.array([-1]))
    on_device: bool = False

    def adapt_bound(self, bound: Bound) -> Bound:
        """The bound as noise at the server promises it: `zero-out` in place of `add-remove` where a
        UE is in both.

        It is where cohorts take turns: they are dealt over a list of all UEs, in which one more
        would move others. It is beside noise of UEs too, which hides from a server that sees who
        sends: costs that one pair of neighbours moves then have one relation, under which the
        ledger adds them up.
        """
        if self.separation > 1 or self.on_device:
            return bound.zeroed
        return bound

    def count_honest(self, honest_share: float) -> int:
        """Smallest number of UEs of an opened sum that add noise which the server does not know.

        That share of `least_opened`, rounded down, and at least one: the UE that is protected.
        """
        return max(int(honest_share * self.least_opened + 1e-9), 1)


Facts = RoundContext  # the name that parts in packages of their own may still import


@dataclass(frozen=True)
class Account:
    """Account of a spend: the ledger adds up the spends of one account, and no others.

    mechanism: name of the part that drew the noise; unit: whose data a neighbour may change;
    relation: how; delta: at which epsilon is stated.
    """

    mechanism: str
    unit: str
    relation: str
    delta: float

    @property
    def group(self) -> TextPair:
        """Unit and relation: accounts in which these are the same hide the same from the same
        neighbours.
        """
        return self.unit, self.relation


LOCATION = "location"
"""unit of accounts of moved locations"""


@frozen
class Spend:
    """One draw of privacy noise, booked when it is drawn, whether or not the packet arrives.

    ue (n,) whose data it hides (-1: all of them, at the server), model (n,), std (n,) per
    coordinate, sensitivity (n,) of what the noise was added to. mu = sensitivity / std is the exact
    Gaussian-DP parameter. sampling_rate is the probability with which each user took part by a
    secret coin of its own: 1 for a user that took part because of where it was, what it measured,
    or what its channel allowed. channel_std (n,) is the receiver's thermal noise on the same
    numbers, which counts in the figure `with_channel` alone. Other UEs' signals are no part of it:
    an attacker that decodes them subtracts them. l1_sensitivity (n,) is that of Skellam noise on
    whole numbers, NaN of Gaussian noise.
    """

    points: ClassVar = 0
    epsilon_per_m: ClassVar = float("nan")

    mechanism: str
    ue: IntArray
    model: IntArray
    std: FloatArray
    sensitivity: FloatArray
    unit: str
    relation: str
    delta: float
    sampling_rate: float = 1.0
    channel_std: FloatArray | float = 0.0
    l1_sensitivity: FloatArray | float = float("nan")

    @property
    def account(self) -> Account:
        """Account of the spend."""
        return Account(self.mechanism, self.unit, self.relation, self.delta)

    @property
    def whole(self) -> bool:
        """Whether its noise is of whole numbers: then Renyi costs count, and no exact figure of
        Gaussian noise.
        """
        return bool(np.isfinite(self.l1_sensitivity).any())

    @property
    def counts_on_sampling(self) -> bool:
        """Whether the coin by which users take part amplifies it: with add-remove only."""
        return self.sampling_rate < 1 and self.relation == "add-remove"

    def compute_cost(self, with_channel: bool) -> FloatArray:
        """mu^2 = (sensitivity / std)^2 of each draw (n,), the channel's noise counted or not; inf
        without noise.
        """
        std = np.hypot(self.std, self.channel_std) if with_channel else self.std
        with np.errstate(
            over="ignore", divide="ignore"
        ):  # noise too small to protect anything: inf
            return (self.sensitivity / std) ** 2

    @property
    def noise_multiplier(self) -> FloatArray:
        """Noise in units of the sensitivity (n,)."""
        return self.std / self.sensitivity


@frozen
class MetricSpend:
    """Locations that were moved at random before training, booked when they are drawn.

    ue, model (n,) whose; points (n,) how many locations; epsilon_per_m (n,) what each of them costs
    a metre: two places d metres apart differ in the law of what is shown by at most
    exp(epsilon_per_m d). All locations of a UE together cost the sum, a metre that all of them
    move.
    """

    mechanism: str
    ue: IntArray
    model: IntArray
    points: IntArray
    epsilon_per_m: FloatArray

    std: ClassVar = float("nan")
    sensitivity = noise_multiplier = sampling_rate = channel_std = l1_sensitivity = std
    counts_on_sampling: ClassVar = False
    whole: ClassVar = False

    @property
    def account(self) -> Account:
        """Account of the spend."""
        return Account(self.mechanism, LOCATION, "per metre", 0.0)

    def compute_cost(self, with_channel: bool) -> FloatArray:
        """Epsilon per metre (n,) of all locations together; no noise of a channel is beside
        them.
        """
        return self.points * self.epsilon_per_m


AnySpend = Spend | MetricSpend


@frozen
class Curated:
    """Result of a step of curation: the data (rows may be empty), its memory, what was spent, and
    notes.

    clusters, noise (n,) are how many clusters a row's samples made and how many samples belonged to
    none, -1 where the step does not cluster; fallback (n,): the rows for which the step could not
    do what it is for.
    """

    local: Local
    state: State
    spends: list[AnySpend] = field(default_factory=list)
    clusters: IntArray | int = -1
    noise: IntArray | int = -1
    fallback: BoolArray | bool = False


@frozen
class Received(Columns):
    """Updates at the server after the uplink: all updates and which rows it decoded in time
    (n,).
    """

    updates: Updates
    decoded: BoolArray


@frozen
class Timing(Columns):
    """Times of updates (n,) by a server's clock, one entry per row of a view; secure aggregation
    does not hide them.

    requested_s, arrived_s : when the UE was asked, and when its last bit came; base_station : index
    of the cell that it came through, -1 for none; n_bits : size of the UE's upload, all its rows
    together; staleness : versions of the model since the one that the update began from, 0 in
    synchronous rounds; network : what base stations measured as UEs connected, for an attacker that
    is granted some of it, in the first phase of a learner.
    """

    requested_s: FloatArray
    arrived_s: FloatArray
    base_station: IntArray
    n_bits: FloatArray
    staleness: IntArray
    network: NetworkFixes | None = None


def rank_place(status: str) -> int:
    """1 for home, 2 for work, 2 + k for third k: what an answer is said to be by its status; of
    answers for homes and workplaces apart 2 k - 1 for home k and 2 k for work k; 0 or less for any
    other word.
    """
    word, _, number = status.partition(" ")
    if not number.isdecimal() or len(number) > 9:
        return {"home": 1, "work": 2}.get(status, 0)
    k = int(number)
    return {"home": 2 * k - 1, "work": 2 * k, "third": 2 + k}.get(word, 0)


def find_place_kind(status: str) -> str:
    """home of home k and work of work k, an answer for one of the two alone; empty for any other
    status.
    """
    apart = re.fullmatch(r"(home|work) [1-9][0-9]{0,8}", status)
    return apart[1] if apart else ""


@frozen
class Estimates(Columns):
    """Estimates of an attack: one row each.

    what : "centroid" (where the samples of the batch were on average), "place" (one place among
    several), "answer" (one
        of the places that the attack names of a UE after all rounds so far; they replace its
        earlier answers and have the attack's ranking as weights), "step": then position_m is no
        place but the displacement since the device's last estimate, "near": the device is near this
        place, the more likely the larger the weight, "moved": the device has moved since its last
        estimate, by about weight metres; position_m is NaN, or "plain": what a tracker's own source
        says of a round, beside the tracker's centroid.
    position_m (k, 2) may be non-finite or outside the area: then the attack diverged. weight (k,)
    is the attack's own confidence; loss (k,), iterations, evaluations (k,) its effort; status words
    per row. An answer whose status names a kind of place (`rank_place`) has the probability that
    it is right as weight. Answers of status home 1, home 2, work 1 and work 2 are for homes and
    workplaces apart: homes are looked for at the first two alone, workplaces at the others; their
    weight may be something else than a probability, then above 1 or NaN.
    """

    ue: IntArray
    model: IntArray
    what: list[str]
    position_m: FloatArray
    weight: FloatArray
    loss: FloatArray
    iterations: IntArray
    evaluations: IntArray
    status: list[str]

    @property
    def kind(self) -> npt.NDArray[np.object_]:
        """The words of `what` (k,)."""
        return np.array(self.what, dtype=object)

    @classmethod
    def none(cls) -> Self:
        """Of no UE."""
        return cls.from_places(no_ints(), no_ints(), "answer", no_places())

    @classmethod
    def from_places(
        cls,
        ue: IntArray,
        model: IntArray,
        kind: str,
        position_m: FloatArray,
        weight: FloatArray | None = None,
        status: list[str] | None = None,
    ) -> Self:
        """Estimates of one kind (k,), by an attack without an objective; by default of weight 1 and
        status ok.
        """
        k = len(ue)
        none = np.zeros_like(ue)
        weight = np.ones(k) if weight is None else weight
        loss = np.full(k, np.nan)
        return cls(
            ue,
            model,
            [kind] * k,
            position_m,
            weight,
            loss,
            none,
            none,
            ["ok"] * k if status is None else status,
        )
