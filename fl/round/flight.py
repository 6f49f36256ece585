"""Updates that are under way to a server without rounds, or have come and are not merged yet, as values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fl.round.upload_context import Overheard, UploadContext
from fl.types import DenseUpdates, Local, Model
from netsim.columns import Columns, frozen
from netsim.radio.transmissions import SentUploads
from netsim.radio.uplink import Cohort, Payload
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class Wave:
    """UEs (k,) that were asked at the end of one window, until the last of their updates is merged or lost.

    number: of the window, which names their draws; submission: of the air; version: of the model that they began from,
    which is `base`. measured, local, made, updates: rows of the UEs (n,); of_row (n,): whose row each is (an entry of
    the cohort, which has no links any more). left (k,): whose update is still under way, or not merged yet.
    """

    number: int
    submission: int
    version: int
    requested_s: float
    base: Model
    measured: Local
    local: Local
    made: DenseUpdates
    updates: DenseUpdates
    cohort: Cohort
    of_row: IntArray
    payload: Payload
    context: UploadContext
    overheard: Overheard | None
    left: BoolArray

    @property
    def bits(self) -> FloatArray:
        """Size (k,) of each UE's upload."""
        return self.payload.bits(self.cohort.rows)

    def unlinked(self) -> Wave:
        """Without links to base stations, which are large and no longer needed."""
        n = len(self.cohort.ue)
        return replace(self, cohort=replace(self.cohort, gain=np.zeros((n, 0)), fading=None))


@frozen
class ArrivedUploads(Columns):
    """Uploads (j,) that have ended and are not merged yet, in the order of their ends.

    wave: number of their wave; place: the entry in its cohort; sent: what became of them.
    """

    wave: IntArray
    place: IntArray
    sent: SentUploads


@dataclass(frozen=True)
class Flight:
    """Everything between requests and merges: waves with updates that are not merged, and uploads that have ended."""

    waves: tuple[Wave, ...] = ()
    arrived: ArrivedUploads | None = None

    def busy(self, n_ue: int) -> BoolArray:
        """UEs (n_ue,) of which an update is under way or not merged yet."""
        busy = np.zeros(n_ue, dtype=np.bool_)
        for wave in self.waves:
            busy[wave.cohort.ue[wave.left]] = True
        return busy

    @property
    def under_way(self) -> int:
        """Number of UEs whose updates have not ended."""
        left = sum(int(wave.left.sum()) for wave in self.waves)
        return left if self.arrived is None else left - len(self.arrived.wave)

    def without(self, done: ArrivedUploads, rest: ArrivedUploads) -> Flight:
        """After uploads have been merged or given up, with the rest of those that have ended."""
        waves = []
        for wave in self.waves:
            left = wave.left.copy()
            left[done.place[done.wave == wave.number]] = False
            if left.any():
                waves.append(replace(wave, left=left))
        return Flight(tuple(waves), rest if len(rest.wave) else None)

    def wave(self, number: int) -> Wave:
        """The wave of a window."""
        return next(w for w in self.waves if w.number == number)
