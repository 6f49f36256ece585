"""The data slot: from what UEs measured in a window of time to the local data of a round."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from fl.data.hold_out import BLOCK_M
from fl.types import HeldOut, Local, SampleFormat, State
from netsim.geometry import Area
from netsim.part import OneOf, Part
from netsim.rng import Rng
from netsim.ues import Observations
from netsim.units import FloatArray, IntArray, LatLon, Texts

RECORDS_ALONE = "records by themselves"
"""offered where whether a record is learnt from depends on that record alone, so that replacing one
changes no other"""

EARLIER_RECORDS = "records of earlier rounds"
"""offered where devices keep what they measured, and learn from it again in later rounds"""

SHARED_MODEL = "several cells in one model"
"""offered where one model learns the signals of several cells"""

HELD_OUT_PLACES = "held-out places"
"""offered where some true places score what was learnt"""


@dataclass(frozen=True)
class TakenData:
    """The data of a round: all measurements (which leakage refers to), the training part, and the
    held-out part.

    fresh is the part of `train` that no earlier round had; None: all of it. due: whether a round
    takes place, which depends on the study only and not on the measurements.
    """

    measured: Local
    train: Local
    held_out: HeldOut
    fresh: Local | None = None
    due: bool = True


class Data(Part):
    """Selects the training data of a round."""

    kind: str = ""
    scores_round_alone: ClassVar = False
    """whether a model is scored by the samples of its round alone, and not by those of all rounds
    so far"""

    @property
    def surveys_once(self) -> bool:
        """Whether all rounds learn from the measurements of the first: they count once."""
        return False

    @property
    def ties_ues(self) -> str:
        """Why the data of one UE decide what others learn from, in words; empty: they do not."""
        return ""

    @property
    def holds_out_wholes(self) -> bool:
        """Whether samples are held out together, all of a session, a day or a block, and not each
        by itself.
        """
        return False

    def number_wholes(self, ue: IntArray, x: FloatArray, time_s: FloatArray) -> IntArray:
        """Number of what each sample (N,) is held out or trained on with: of each its own, where it
        is so by itself.
        """
        return np.arange(len(ue))

    @property
    def new_block_m(self) -> float:
        """Side of the blocks of ground, m, that are new to a map where no training sample lies in
        them.
        """
        return BLOCK_M

    @property
    def wants_counts(self) -> bool:
        """Whether the choice of models needs to know how often each cell will be measured."""
        return False

    @property
    def named_cell(self) -> str | None:
        """The one cell that it learns, where a study names it."""
        return None

    @abstractmethod
    def choose_models(self, cells: Texts, counts: IntArray | None) -> Texts:
        """The cells that get a model, in order; raises BadInput when a named one is not there.

        counts (n_cells,) is how often each will be measured, None unless `wants_counts`.
        """

    def assign_models(self, cells: Texts, models: Texts) -> IntArray:
        """The model (an index into `models`) that learns each cell (n_cells,); -1 for none."""
        if SHARED_MODEL in self.offers:
            return np.zeros(len(cells), int)
        return np.array([models.index(c) if c in models else -1 for c in cells], int)

    def read_sample_format(self) -> SampleFormat | None:
        """Format of samples that are no positions; None where they are; raises BadInput when they
        cannot be read.
        """
        return None

    def fit_world(self, area: Area, origin_deg: LatLon | None) -> Self:
        """These data in a world, with latitude and longitude of its (0, 0); raises BadInput where
        they are elsewhere.
        """
        return self

    def start(self, n_ue: int, rng: Rng) -> State:
        """Samples that devices hold before the first round; raises BadInput when they cannot be
        given what is asked.
        """
        return None

    def with_days(self, state: State, days: IntArray) -> State:
        """State with the known days (n,) on which UEs may measure: numbers of days of 86,400 s,
        ascending.

        They are public: all days of a world or of a stated extent, and of another replayed trace
        those with rows.
        """
        return state

    @abstractmethod
    def take(
        self, observed: Observations, model_of_cell: IntArray, state: State, rng: Rng
    ) -> tuple[TakenData, State]:
        """Split a window's observations into rows (ue, model). model_of_cell is -1 for cells
        without one.

        `state` is what devices keep of earlier rounds, at first what `start` says.
        """


DATA = OneOf(
    "data",
    places={
        "measured": "fl.data.measured:Measured",
        "segments": "fl.data.measured:Segments",
        "links": "fl.data.links:LinkMeasurements",
        "positions": "fl.data.links:Positions",
        "images": "fl.data.images:Images",
        "samples": "fl.data.own_samples:Samples",
    },
)
