"""Updates from the server's request to the merge, as one set of rows that grows by what happens to
them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np

from fl.types import DenseUpdates, Local, Model, Received, Timing, Updates
from netsim.columns import Columns, frozen, no_ints
from netsim.radio.positioning import NetworkFixes
from netsim.radio.transmissions import SentUploads
from netsim.radio.uplink import Channel
from netsim.units import BoolArray, FloatArray, IntArray


@frozen
class Uploads(Columns):
    """Updates of UEs, one row per UE and model (n,), from the request to the merge; None: not known
    yet, or not there.

    Each column is set once, but for weight and staleness, and for made and sent, which are written
    out when they fly. Without a shape a column is (n,).

    When they were asked: window, version, asked_s: of the request, and the version of the model
    that they began from; local: what they learnt from; position_m (n, 2); serving (-1: none),
    distance_m, rsrp_dbm: their base stations, NaN without one; strength (gain and fading),
    antenna_m, los (NaN: unknown): their links to an eavesdropper's antenna; network: what base
    stations measured, where the attacker is granted some of it.

    Updates (n, d): made: as learnt; sent: as protected; got: as the server decoded them; heard: as
    an eavesdropper did. bits: size of the UE's upload, all its rows together; rho: scale of the
    decoder's noise.

    After they were sent: uplink: their channels to the server; overheard: those to an
    eavesdropper's antenna.

    After the merge: weight: in it, 0 before; staleness: versions from the one they began from to
    the one they were merged into, -1 while they are not. Where the server gets sums alone, group:
    whose updates are summed; company: updates in the sum; opened: whether it is opened.
    """

    window: IntArray
    version: IntArray
    asked_s: FloatArray
    local: Local
    position_m: FloatArray
    serving: IntArray
    distance_m: FloatArray
    rsrp_dbm: FloatArray
    # a checkpoint has dense ones alone, and reads back the class that it finds here
    made: DenseUpdates | Updates
    sent: DenseUpdates | Updates
    bits: FloatArray
    rho: FloatArray
    weight: FloatArray
    staleness: IntArray
    strength: FloatArray | None = None
    antenna_m: FloatArray | None = None
    los: BoolArray | FloatArray | None = None
    uplink: SentUploads | Channel | None = None
    got: DenseUpdates | Updates | None = None
    overheard: Channel | None = None
    heard: DenseUpdates | Updates | None = None
    group: IntArray | None = None
    company: IntArray | None = None
    opened: BoolArray | None = None
    network: NetworkFixes | None = None

    @property
    def ue(self) -> IntArray:
        """UE of each row (n,)."""
        return self.made.ue

    @property
    def row(self) -> IntArray:
        """Number of each row's (ue, model) (n,)."""
        return self.made.row

    @property
    def finite(self) -> BoolArray:
        """Rows (n,) that did not overflow on the UE; the others are sent as zeros and have no
        weight.
        """
        return np.isfinite(self.made.norm())

    @property
    def channel(self) -> Channel:
        """The uplink of each row (n,)."""
        if self.uplink is None:
            raise TypeError("these uploads have not ended")
        return self.uplink

    @property
    def end_s(self) -> FloatArray:
        """When the last bit of each row came (n,); infinite for a UE that could not send."""
        return self.asked_s + self.channel.delay_s

    @property
    def arrived_s(self) -> FloatArray:
        """The same as records have it; NaN where the last bit never came."""
        if isinstance(self.uplink, SentUploads):
            has_arrived = self.channel.decoded
        else:
            has_arrived = np.isfinite(self.end_s)
        return np.where(has_arrived, self.end_s, np.nan)

    @property
    def first_rows(self) -> IntArray:
        """The first row of each UE, by UE: what is one per UE is the same in all its rows."""
        return np.unique(self.ue, return_index=True)[1]

    def to_received(self) -> Received:
        """The rows as the server has them: decoded, and in a sum that is opened."""
        decoded = self.channel.decoded
        got = self.sent if self.got is None else self.got
        return Received(got, decoded if self.opened is None else decoded & self.opened)

    def to_observed(self) -> Received:
        """The rows as the attacker has them: those of the server, or as an eavesdropper decodes
        them.
        """
        if self.heard is None or self.overheard is None:
            return self.to_received()
        return Received(self.heard, self.overheard.decoded)

    def build_timing(self, version: int) -> Timing:
        """Times of rows (n,) that are merged into a model of this version."""
        return Timing(
            self.asked_s,
            self.end_s,
            self.serving,
            self.bits,
            version - self.version,
            self.network,
        )

    def sort_rows(self) -> Uploads:
        """By increasing (ue, model)."""
        return self.select(np.argsort(self.row, kind="stable"))


@dataclass(frozen=True)
class Flight:
    """Everything between requests and merges of a server without rounds.

    flying: uploads on the air; arrived: those that have ended and are not merged yet, in the order
    of their ends, all rows of a UE together; measured: measurements of their UEs; bases: version ->
    the model that some of them began from.
    """

    flying: Uploads | None = None
    arrived: Uploads | None = None
    measured: Local | None = None
    bases: dict[int, Model] = field(default_factory=dict)

    @property
    def ue(self) -> IntArray:
        """UEs of which an update is under way or not merged yet, each once."""
        ues = [part.ue for part in (self.flying, self.arrived) if part is not None]
        return np.unique(np.concatenate([no_ints(), *ues]))

    @property
    def under_way(self) -> int:
        """Number of UEs whose updates have not ended."""
        if self.flying is None:
            return 0
        return len(self.flying.first_rows)

    def with_sent(self, uploads: Uploads, measured: Local, base: Model) -> Flight:
        """With uploads that have begun from a model."""
        bases = self.bases | {int(uploads.version[0]): base}
        flying = _join(self.flying, uploads)
        measured = _join(self.measured, measured)
        return replace(self, flying=flying, measured=measured, bases=bases)

    def with_ended(self, ended: Uploads) -> Flight:
        """After uploads have ended."""
        return replace(
            self, flying=_drop_rows(self.flying, ended.ue), arrived=_join(self.arrived, ended)
        )

    def find_buffer(self, enough: int) -> Uploads | None:
        """Rows of `arrived` up to the last of the UE with which those of `enough` UEs were decoded;
        None before.
        """
        if self.arrived is None:
            return None
        first = np.sort(self.arrived.first_rows)  # of each UE, in the order of ends
        # of each that was decoded, where the rows of the next one begin
        after = np.append(first[1:], len(self.arrived.ue))[self.arrived.channel.decoded[first]]
        if len(after) >= enough:
            return self.arrived.select(slice(0, after[enough - 1]))
        return None

    def drop_ues(self, ue: IntArray) -> Flight:
        """After updates of UEs that had ended have been merged or given up."""
        arrived = _drop_rows(self.arrived, ue)
        measured = _drop_rows(self.measured, ue)
        versions = {
            v for part in (self.flying, arrived) if part is not None for v in part.version.tolist()
        }
        return Flight(
            self.flying,
            arrived,
            measured,
            {version: self.bases[version] for version in sorted(versions)},
        )

    def select_measured(self, ue: IntArray) -> Local:
        """Measurements of UEs, by increasing (ue, model)."""
        if self.measured is None:
            raise TypeError("no UE was asked")
        measured = self.measured.select(np.isin(self.measured.ue, ue))
        return measured.select(np.argsort(measured.row, kind="stable"))


_Rows = TypeVar("_Rows", Uploads, Local)


def _join(before: _Rows | None, added: _Rows) -> _Rows:
    if before is None:
        return added
    return before.join([before, added])


def _drop_rows(rows: _Rows | None, ue: IntArray) -> _Rows | None:
    is_kept = np.zeros(0, dtype=bool) if rows is None else ~np.isin(rows.ue, ue)
    if rows is not None and is_kept.any():
        return rows.select(is_kept)
    return None
