"""The link budget: received power of every base station at any place, and links at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from netsim.columns import copy_with, frozen
from netsim.compiled import compiled
from netsim.radio.antenna import Antenna
from netsim.radio.indoor_links import Environment, PenetrationLaw
from netsim.radio.path_loss import LossLaw, Pairs, PathLoss
from netsim.radio.shadowing import Shadow
from netsim.radio.sight import SightLaw
from netsim.ues import STOREY_M, Indoors
from netsim.units import BoolArray, FloatArray, IntArray, ratio_from_db, w_from_dbm

BLOCK_PAIRS = 2**18  # of which one array of numbers has 2 MiB
_MAX_MOVED = 0.6  # share of UEs up to which keeping the links of the others saves time


def split_positions(n: int, n_bs: int) -> list[slice]:
    """Rows of n positions in blocks of about as many pairs as a cache holds; no block has one row
    of several.

    Every pair is calculated by itself, so blocks change no number; they bound the memory that laws
    work in.
    """
    count = max(1, min(n * n_bs // BLOCK_PAIRS, n // 2))
    bounds = np.arange(count + 1) * n // count
    return [slice(a, b) for a, b in pairwise(bounds.tolist())]


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
    def received_w(self) -> FloatArray:
        """`rsrp_dbm` in watts."""
        return self.gain * w_from_dbm(self.power_dbm)

    @cached_property
    def serving(self) -> IntArray:
        """The strongest base station of each UE (n_ue,), -1 for none."""
        return find_strongest_stations(self.received_w)

    @cached_property
    def interference_w(self) -> FloatArray:
        """Sum of the received powers of all other cells (n_ue, n_bs), W."""
        return sum_interference_w(self.received_w, self.serving)

    def compute_sinr(self, noise_dbm: float) -> FloatArray:
        """Downlink SINR (n_ue, n_bs), linear: interference from all other cells at full load, and
        noise.

        noise_dbm is the noise in the bandwidth of RSRP (one resource element).
        """
        return self.received_w / (self.interference_w + w_from_dbm(noise_dbm))


def find_strongest_stations(received_w: FloatArray) -> IntArray:
    """The first of the strongest base stations (n,) by powers received (n, n_bs); -1 for an absent
    UE.
    """
    n, n_bs = received_w.shape
    if not n_bs:
        return np.full(n, -1)
    is_absent = np.isnan(received_w[:, 0])
    return np.where(is_absent, -1, np.argmax(received_w, axis=1))


@compiled
def sum_interference_w(received_w: FloatArray, strongest: IntArray) -> FloatArray:
    """Sum of the powers of all other base stations (n, n_bs), W, of powers received (n, n_bs).

    Of the strongest one (n,) it is the sum of the others: a difference of sums would lose weak
    interference.
    """
    sums_w = np.empty(received_w.shape)
    n_bs = received_w.shape[1]
    for i in range(len(received_w)):
        best = max(strongest[i], 0)
        others_w = 0.0
        for b in range(n_bs):
            if b != best:
                others_w += received_w[i, b]
        for b in range(n_bs):
            sums_w[i, b] = others_w + (received_w[i, best] - received_w[i, b])
    return sums_w


@frozen
class Budget:
    """Base stations at_m (n_bs, 2), height_m, power_dbm, azimuth_deg (n_bs,) (NaN: no sector), and
    the laws of loss.

    path_loss, loss_db : the law of path loss, and its loss (n, n_bs) to these base stations.
    penetration, environment : loss of walls and car bodies, and effective environment heights, of
    UEs inside. antennas : patterns and the base stations (k,) that have them. shifts_m (k, 2) :
    displacements of the images of each base station, the nearest of which counts; None: no images.
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
    shifts_m: FloatArray | None

    def compute_pairs(self, position_m: FloatArray, indoors: Indoors | None = None) -> Pairs:
        """The geometry of all links from positions (n, 2), line of sight included; indoors: one row
        a position.
        """
        pairs = self._compute_distances(position_m, indoors)
        if indoors is not None and self.environment is not None:
            pairs = replace(pairs, environment_m=self.environment(pairs, indoors))
        return replace(pairs, los=self.sight(pairs, position_m))

    def _compute_distances(self, position_m: FloatArray, indoors: Indoors | None) -> Pairs:
        """The geometry of all links without line of sight."""
        square, north = self._offset_m(position_m)
        square *= square  # in place: new arrays of this size are what a tick spends its time on
        north *= north
        square += north
        flat = np.sqrt(square, out=north)
        ue_height_m: float | FloatArray = self.ue_height_m
        if indoors is not None:
            ue_height_m = (self.ue_height_m + np.asarray(STOREY_M * indoors.floor))[:, None]
        rise = self.height_m - ue_height_m
        square += rise * rise
        slant = np.sqrt(square, out=square)
        outdoor_m = None if indoors is None else np.maximum(flat - indoors.depth_m[:, None], 0.0)
        return Pairs(
            flat,
            slant,
            ue_height_m,
            self.height_m,
            distance_out_m=outdoor_m,
            indoors=indoors,
            position_m=position_m,
        )

    def _offset_m(self, position_m: FloatArray) -> tuple[FloatArray, FloatArray]:
        """East and north (n, n_bs) of the nearest image of every base station, towards positions
        (n, 2).
        """
        east = position_m[:, 0, None] - self.at_m[:, 0]
        north = position_m[:, 1, None] - self.at_m[:, 1]
        if self.shifts_m is None:
            return east, north
        best = east.copy(), north.copy()
        nearest = np.full(east.shape, np.inf)
        for shift_m in self.shifts_m:
            image_east = east - shift_m[0]
            image_north = north - shift_m[1]
            square = image_east * image_east + image_north * image_north
            nearer = square < nearest
            for kept, new in zip((nearest, *best), (square, image_east, image_north), strict=True):
                kept[nearer] = new[nearer]
        return best

    def gain_db(self, position_m: FloatArray, pairs: Pairs) -> FloatArray:
        """Power gain of all links (n, n_bs) in dB: antenna, path loss, shadowing and penetration;
        no fast fading.
        """
        gain = self.shadow(position_m, pairs) - self.loss_db(pairs)
        if pairs.indoors is not None and self.penetration is not None:
            gain -= self.penetration(pairs.indoors)[:, None]
        if not np.isnan(self.azimuth_deg).all():  # there are sectors
            gain += self._antenna_db(position_m, pairs)
        return gain

    def compute_unshadowed_dbm(
        self, position_m: FloatArray, indoors: Indoors, los: bool
    ) -> tuple[Pairs, FloatArray]:
        """RSRP (n, n_bs) without shadowing and walls, were all links in sight, or none."""
        pairs = self._compute_distances(position_m, indoors)
        pairs = replace(pairs, los=np.full(pairs.distance_2d_m.shape, los))
        return pairs, self.power_dbm + self._antenna_db(position_m, pairs) - self.loss_db(pairs)

    def _antenna_db(self, position_m: FloatArray, pairs: Pairs) -> FloatArray:
        """Gain of the antennas (n, n_bs) towards UEs at positions (n, 2)."""
        offset_m = np.stack(self._offset_m(position_m), axis=-1)
        drop_m = self.height_m - pairs.ue_height_m
        gain = np.zeros(offset_m.shape[:2])
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
        rows = np.flatnonzero(moved)
        if self._last is None or len(rows) > _MAX_MOVED * len(moved):
            self._last = None  # its memory is that of the next
            links = self.budget.compute_links(time_s, position_m, indoors)
        elif not len(rows):
            return copy_with(self._last[2], time_s=time_s)
        else:
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
        stays_away = np.isnan(before_m) & np.isnan(position_m)
        moved = ~((before_m == position_m) | stays_away).all(axis=1)
        if indoors is not inside:
            for f in fields(Indoors):
                moved |= getattr(indoors, f.name) != getattr(inside, f.name)
        if moved.any():
            moved[:2] = True  # a single link would be summed in another order
        return moved
