"""The link budget: received power of every base station at any place, and links at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from types import EllipsisType
from typing import NamedTuple

import numpy as np

from netsim.columns import copy_with, frozen
from netsim.compiled import compiled
from netsim.radio.antenna import Antenna
from netsim.radio.indoor_links import Environment, PenetrationLaw
from netsim.radio.path_loss import LossLaw, Pairs, PathLoss
from netsim.radio.shadowing import Shadow
from netsim.radio.sight import SightLaw
from netsim.ues import STOREY_M, Indoors
from netsim.units import (
    BoolArray,
    FloatArray,
    IntArray,
    IntArrayPair,
    find_ratio,
    ratio_from_db,
    w_from_dbm,
)

BLOCK_PAIRS = 2**18  # of which one array of numbers has 2 MiB
_MAX_MOVED = 0.6  # share of UEs up to which keeping the links of the others saves time


def split_positions(n: int, n_bs: int) -> list[slice]:
    """Rows of n positions in blocks of about as many pairs as a cache holds; no block has one row
    of several.

    Every pair is calculated by itself, so blocks change no number; they bound the memory that laws
    work in.
    """
    count = max(1, min(n * n_bs // BLOCK_PAIRS, n // 2))
    return [slice(k * n // count, (k + 1) * n // count) for k in range(count)]


@frozen
class RadioLinks:
    """The radio links between all UEs and all base stations at one time.

    time_s; distance_m (n_ue, n_bs), 3D; gain_db (n_ue, n_bs) of path loss, shadowing, penetration
    and antenna; los (n_ue, n_bs); power_dbm (n_bs,) of reference signals. NaN for an absent UE. A
    world without base stations (a replayed measurement trace) has n_bs = 0.
    """

    time_s: float
    distance_m: FloatArray
    gain_db: FloatArray
    los: BoolArray
    power_dbm: FloatArray

    def with_rows(self, rows: IntArray, new_links: RadioLinks) -> RadioLinks:
        """These links with the rows of others in place of rows (k,), at their time."""
        new_columns = (new_links.distance_m, new_links.gain_db, new_links.los)
        columns = self.distance_m.copy(), self.gain_db.copy(), self.los.copy()
        for column, new in zip(columns, new_columns, strict=True):
            column[rows] = new
        return RadioLinks(new_links.time_s, *columns, self.power_dbm)

    @cached_property
    def gain(self) -> FloatArray:
        """Power gain (n_ue, n_bs), linear."""
        return ratio_from_db(self.gain_db)

    @cached_property
    def rsrp_dbm(self) -> FloatArray:
        """Mean received reference-signal power (n_ue, n_bs)."""
        return self.power_dbm + self.gain_db

    @cached_property
    def powers(self) -> Powers:
        """The received powers."""
        gain = self.gain
        n = len(gain)
        powers = Powers(np.empty(gain.shape), np.empty(n, int), np.empty(n), np.empty(n))
        _measure_powers(gain, w_from_dbm(self.power_dbm), *powers)
        return powers

    @property
    def serving(self) -> IntArray:
        """The strongest base station of each UE (n_ue,), -1 for none."""
        return self.powers.strongest

    def compute_sinr(
        self, noise_dbm: float, pairs: IntArrayPair | EllipsisType = ...
    ) -> FloatArray:
        """Downlink SINR (n_ue, n_bs), linear: interference from all other cells at full load, and
        noise; or that of some pairs (n,) of UE and base station.

        noise_dbm is the noise in the bandwidth of RSRP (one resource element).
        """
        received_w, _, strongest_w, others_w = self.powers
        if pairs is not ...:
            ue, _ = pairs
            received_w = received_w[pairs][:, None]
            strongest_w, others_w = strongest_w[ue], others_w[ue]
        sinr = np.empty(received_w.shape)
        _write_sinr(strongest_w, others_w, 1e-3 * find_ratio(noise_dbm), received_w, sinr)
        return sinr if pairs is ... else sinr[:, 0]


class Powers(NamedTuple):
    """received_w (n_ue, n_bs): RSRP in watts; strongest (n_ue,): the first of the strongest base
    stations, -1 for an absent UE; strongest_w, others_w (n_ue,): its power, and the sum of the
    powers of all others.
    """

    received_w: FloatArray
    strongest: IntArray
    strongest_w: FloatArray
    others_w: FloatArray


@compiled
def _measure_powers(
    gain: FloatArray,
    power_w: FloatArray,
    received_w: FloatArray,
    strongest: IntArray,
    strongest_w: FloatArray,
    others_w: FloatArray,
) -> None:
    """Write `Powers` of gains (n, n_bs) and powers sent (n_bs,)."""
    for i in range(len(gain)):
        row_w = received_w[i]
        best = -1
        best_w = -1.0
        for b in range(len(power_w)):
            row_w[b] = gain[i, b] * power_w[b]
            if row_w[b] > best_w:
                best_w = row_w[b]
                best = b
        rest_w = 0.0
        for b in range(len(power_w)):
            if b != best:
                rest_w += row_w[b]
        strongest[i] = best
        strongest_w[i] = best_w
        others_w[i] = rest_w


@compiled
def _write_sinr(
    strongest_w: FloatArray,
    others_w: FloatArray,
    noise_w: float,
    received_w: FloatArray,
    sinr: FloatArray,
) -> None:
    """Write the SINR (n, k) of UEs from base stations that they receive with powers (n, k); the
    rest as in `Powers`.

    Of the strongest one interference is the sum of the others: a difference of sums would lose weak
    interference.
    """
    for i in range(len(sinr)):
        for b in range(sinr.shape[1]):
            interference_w = others_w[i] + (strongest_w[i] - received_w[i, b])
            sinr[i, b] = received_w[i, b] / (interference_w + noise_w)


@compiled
def _measure_distances(
    position_m: FloatArray,
    at_m: FloatArray,
    square_rise_m2: FloatArray,
    shifts_m: FloatArray,
    flat_m: FloatArray,
    slant_m: FloatArray,
    offset_m: FloatArray,
) -> None:
    """Write distances (n, n_bs) in the plane and in space from the nearest image of every base
    station to positions (n, 2), with the squares of their heights above (1 or n, n_bs); and offsets
    (n, n_bs, 2) east and north, unless that is empty.
    """
    n, n_bs = flat_m.shape
    keeps_offsets = len(offset_m) > 0
    for i in range(n):
        for k in range(len(shifts_m)):
            for b in range(n_bs):
                east = position_m[i, 0] - at_m[b, 0] - shifts_m[k, 0]
                north = position_m[i, 1] - at_m[b, 1] - shifts_m[k, 1]
                square = east * east + north * north
                if k == 0 or square < flat_m[i, b]:
                    flat_m[i, b] = square
                    if keeps_offsets:
                        offset_m[i, b, 0] = east
                        offset_m[i, b, 1] = north
        row = min(i, len(square_rise_m2) - 1)
        for b in range(n_bs):
            slant_m[i, b] = np.sqrt(flat_m[i, b] + square_rise_m2[row, b])
            flat_m[i, b] = np.sqrt(flat_m[i, b])


@frozen
class Budget:
    """Base stations at_m (n_bs, 2), height_m, power_dbm, azimuth_deg (n_bs,) (NaN: no sector), and
    the laws of loss.

    path_loss, loss_db : the law of path loss, and its loss (n, n_bs) to these base stations.
    penetration, environment : loss of walls and car bodies, and effective environment heights, of
    UEs inside. antennas : patterns and the base stations (k,) that have them. shifts_m (k, 2) :
    displacements of the images of each base station, the nearest of which counts.
    """

    at_m: FloatArray
    height_m: FloatArray
    power_dbm: FloatArray
    azimuth_deg: FloatArray
    ue_height_m: float
    path_loss: PathLoss
    loss_db: LossLaw
    sight: SightLaw
    shadow: Shadow
    penetration: PenetrationLaw | None
    environment: Environment | None
    antennas: tuple[tuple[Antenna, IntArray], ...]
    shifts_m: FloatArray

    def compute_pairs(self, position_m: FloatArray, indoors: Indoors | None = None) -> Pairs:
        """The geometry of all links from positions (n, 2), line of sight included; indoors: one row
        a position.
        """
        pairs = self._compute_distances(position_m, indoors)
        if indoors is not None and self.environment is not None:
            pairs = copy_with(pairs, environment_m=self.environment(pairs, indoors))
        return copy_with(pairs, los=self.sight(pairs, position_m))

    def _compute_distances(self, position_m: FloatArray, indoors: Indoors | None) -> Pairs:
        """The geometry of all links without line of sight."""
        ue_height_m: float | FloatArray = self.ue_height_m
        square_m2 = self._square_rise_m2
        if indoors is not None:
            ue_height_m = (self.ue_height_m + np.asarray(STOREY_M * indoors.floor))[:, None]
            square_m2 = (self.height_m - ue_height_m) ** 2
        flat, slant = (np.empty((len(position_m), len(self.at_m))) for _ in range(2))
        offset_m = np.empty((len(position_m) if self.has_sectors else 0, len(self.at_m), 2))
        _measure_distances(position_m, self.at_m, square_m2, self.shifts_m, flat, slant, offset_m)
        outdoor_m = None if indoors is None else np.maximum(flat - indoors.depth_m[:, None], 0.0)
        return Pairs(
            flat,
            slant,
            ue_height_m,
            self.height_m,
            distance_out_m=outdoor_m,
            indoors=indoors,
            position_m=position_m,
            offset_m=offset_m if self.has_sectors else None,
        )

    @cached_property
    def _square_rise_m2(self) -> FloatArray:
        """Squares of the heights (1, n_bs) above a UE on the ground."""
        return (self.height_m - self.ue_height_m)[None] ** 2

    @cached_property
    def has_sectors(self) -> bool:
        """Whether an antenna has an azimuth."""
        return not np.isnan(self.azimuth_deg).all()

    def gain_db(self, position_m: FloatArray, pairs: Pairs) -> FloatArray:
        """Power gain of all links (n, n_bs) in dB: antenna, path loss, shadowing and penetration;
        no fast fading.
        """
        gain = self.shadow.subtract_loss(position_m, pairs, self.loss_db(pairs))
        if pairs.indoors is not None and self.penetration is not None:
            gain -= self.penetration(pairs.indoors)[:, None]
        if self.has_sectors:
            gain += self._antenna_db(pairs)
        return gain

    def compute_unshadowed_dbm(
        self, position_m: FloatArray, indoors: Indoors, los: bool
    ) -> tuple[Pairs, FloatArray]:
        """RSRP (n, n_bs) without shadowing and walls, were all links in sight, or none."""
        pairs = self._compute_distances(position_m, indoors)
        pairs = copy_with(pairs, los=np.full(pairs.distance_2d_m.shape, los))
        return pairs, self.power_dbm + self._antenna_db(pairs) - self.loss_db(pairs)

    def _antenna_db(self, pairs: Pairs) -> FloatArray:
        """Gain of the antennas (n, n_bs) towards UEs."""
        gain = np.zeros(pairs.distance_2d_m.shape)
        offset_m = pairs.offset_m
        if offset_m is None:
            return gain
        drop_m = self.height_m - pairs.ue_height_m
        for antenna, columns in self.antennas:
            gain[:, columns] = antenna.gain_db(
                offset_m[:, columns], drop_m[..., columns], self.azimuth_deg[columns]
            )
        return gain

    def rsrp_dbm(self, position_m: FloatArray, indoors: Indoors | None = None) -> FloatArray:
        """Mean received reference-signal power (n, n_bs), without small-scale fading or
        clipping.
        """
        # rays past buildings are expensive: they are left out where no law asks for them
        looks = self.path_loss.needs_sight or self.shadow.depends_on_sight
        gains = self._compute_gains(position_m, indoors, looks)
        gain_db = np.concatenate([gain for _, gain in gains])
        return np.add(self.power_dbm, gain_db, out=gain_db)

    def _compute_gains(
        self, position_m: FloatArray, indoors: Indoors | None, looks: bool = True
    ) -> Iterator[tuple[Pairs, FloatArray]]:
        """Geometry, with sight if it looks, and gain of all links, a block of positions after
        another.
        """
        for rows in split_positions(len(position_m), len(self.at_m)):
            at_m = position_m[rows]
            inside = None if indoors is None else indoors.select(rows)
            pairs = (
                self.compute_pairs(at_m, inside) if looks else self._compute_distances(at_m, inside)
            )
            yield pairs, self.gain_db(at_m, pairs)

    def compute_links(
        self, time_s: float, position_m: FloatArray, indoors: Indoors | None = None
    ) -> RadioLinks:
        """The `RadioLinks` of all pairs at a time; indoors: one row a position, None: all
        outdoors.
        """
        gains = self._compute_gains(position_m, indoors)
        blocks = [(pairs.distance_3d_m, gain, np.asarray(pairs.los)) for pairs, gain in gains]
        distance_m, gain_db, los = (
            blocks[0] if len(blocks) == 1 else map(np.concatenate, zip(*blocks, strict=True))
        )
        return RadioLinks(time_s, distance_m, gain_db, los, self.power_dbm)


@dataclass(eq=False)
class KeptLinks:
    """The links of UEs over one budget. Links of UEs that are where they were at the last call are
    kept, to the bit.
    """

    budget: Budget
    _last: tuple[FloatArray, Indoors | None, RadioLinks] | None = None

    def compute_links(
        self, time_s: float, position_m: FloatArray, indoors: Indoors | None
    ) -> RadioLinks:
        """The links (n, n_bs) at a time."""
        moved = self._find_moved(position_m, indoors)
        count = np.count_nonzero(moved)
        if self._last is None or count > _MAX_MOVED * len(moved):
            self._last = None  # its memory is that of the next
            links = self.budget.compute_links(time_s, position_m, indoors)
        elif not count:
            return copy_with(self._last[2], time_s=time_s)
        else:
            rows = np.flatnonzero(moved)
            inside = None if indoors is None else indoors.select(rows)
            new_links = self.budget.compute_links(time_s, position_m[rows], inside)
            links = self._last[2].with_rows(rows, new_links)
        self._last = position_m, indoors, links
        return links

    def _find_moved(self, position_m: FloatArray, indoors: Indoors | None) -> BoolArray:
        """Which UEs (n,) are elsewhere than at the last call, or inside otherwise."""
        if self._last is None or (self._last[1] is None) != (indoors is None):
            return np.ones(len(position_m), bool)
        before_m, inside, _ = self._last
        stays = (before_m == position_m) | (np.isnan(before_m) & np.isnan(position_m))
        moved = ~(stays[:, 0] & stays[:, 1])
        if indoors is not inside:
            for f in fields(Indoors):
                moved |= getattr(indoors, f.name) != getattr(inside, f.name)
        if np.count_nonzero(moved):
            moved[:2] = True  # a single link would be summed in another order
        return moved
