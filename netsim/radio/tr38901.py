r"""3GPP TR 38.901 V17.0.0: path loss and deviations (Table 7.4.1-1), line-of-sight probability (Table 7.4.2-1).

Distances in m, carrier f_c in GHz inside the formulas. The tables hold from d_2D = 10 m; nearer links take the
loss at 10 m. NLOS is max(PL_LOS, PL'_NLOS). Beyond the largest tabulated distance the formulas are extrapolated.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import lru_cache
from math import log10
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from netsim.errors import BadInput
from netsim.radio.base import Pairs, PathLoss
from netsim.units import BoolArray, FloatArray

_LIGHT_M_S = 3.0e8  # [TR 38.901, Table 7.4.1-1, Note 1] c as the breakpoints have it
_DECADES = 1.0 / np.log(10.0)
MIN_2D_M = 10.0  # [TR 38.901, Table 7.4.1-1] where the formulas begin


class _Scenario(PathLoss):
    """Common base of the three scenarios: line-of-sight states, smallest distance, ranges of validity."""

    needs_sight: ClassVar[bool] = True
    offers: ClassVar[frozenset[str]] = frozenset({"probability of sight"})
    carrier_ghz: ClassVar[tuple[float, float]] = (0.5, 100.0)
    ue_heights_m: ClassVar[tuple[float, float]] = (1.5, 22.5)
    bs_heights_m: ClassVar[tuple[float, float]] = (0.0, 0.0)
    longest_m: ClassVar[float] = 5000.0

    def check(self, carrier_hz: float, ue_height_m: float, bs_height_m: FloatArray) -> None:
        name = f"radio.path_loss: {self.kind_name()}"
        low, high = self.carrier_ghz
        if not low <= carrier_hz / 1e9 <= high:
            raise BadInput(
                f"{name} holds for carriers of {low:g} to {high:g} GHz, got {carrier_hz / 1e9:g} GHz; set carrier_hz"
            )
        low, high = self.ue_heights_m
        if not low <= ue_height_m <= high:
            raise BadInput(
                f"{name} holds for UE heights of {low:g} to {high:g} m, got {ue_height_m:g} m; set ues.height_m"
            )
        low, high = self.bs_heights_m
        wrong = bs_height_m[(bs_height_m < low) | (bs_height_m > high)]
        if len(wrong):
            raise BadInput(
                f"{name} holds for base stations {low:g} to {high:g} m high, got {wrong[0]:g} m; set height_m, or take "
                "another law"
            )

    def loss_db(self, pairs: Pairs, carrier_hz: float) -> FloatArray:
        rise = pairs.bs_height_m - pairs.ue_height_m
        distance = np.maximum(pairs.distance_3d_m, np.sqrt(MIN_2D_M**2 + rise * rise))
        decades = np.log(distance)  # the natural logarithm is the fast one
        decades *= _DECADES
        los = self._los(distance, decades, pairs, carrier_hz)
        if pairs.los is not None and pairs.los.all():
            return los
        nlos = self._nlos(decades, pairs, carrier_hz / 1e9)
        if pairs.los is None:
            return np.maximum(los, nlos)
        nlos -= los  # what the lack of sight adds; `where` stumbles over a mask without pattern
        np.maximum(nlos, 0.0, out=nlos)
        nlos *= ~pairs.los
        los += nlos
        return los

    @abstractmethod
    def _los(self, distance: FloatArray, decades: FloatArray, pairs: Pairs, carrier_hz: float) -> FloatArray:
        """PL_LOS from the 3D distance and its log10."""

    @abstractmethod
    def _nlos(self, decades: FloatArray, pairs: Pairs, carrier_ghz: float) -> FloatArray:
        """PL'_NLOS from log10 of the 3D distance."""


def _two_slopes(
    first: float, near: float, last: float, decades: FloatArray, pairs: Pairs, carrier_hz: float
) -> FloatArray:
    """PL1 = first + near log10 d + 20 log10 f up to the breakpoint, PL2 with slope 40 beyond it.

    d'_BP = 4 h'_BS h'_UT f / c with effective heights h' = h - 1 m (the table's h_E; for UMa and UEs above 13 m
    the table draws h_E at random: 1 m is taken there too).
    """
    first += 20.0 * log10(carrier_hz / 1e9)
    drop = _beyond(last, pairs.ue_height_m, pairs.bs_height_m.tobytes(), carrier_hz)
    # the larger of the two is PL2 exactly beyond the breakpoint, where they meet
    loss_db = near * decades
    loss_db += first
    np.maximum(loss_db, 40.0 * decades + (first - drop), out=loss_db)
    return loss_db


@lru_cache(maxsize=64)
def _beyond(last: float, ue_height_m: float, bs_heights_m: bytes, carrier_hz: float) -> FloatArray:
    """last log10(d'_BP^2 + rise^2) of the base stations (n_bs,)."""
    bs_height_m = np.frombuffer(bs_heights_m)
    breakpoint_m = 4.0 * (bs_height_m - 1.0) * (ue_height_m - 1.0) * carrier_hz / _LIGHT_M_S
    return np.asarray(last * np.log10(breakpoint_m**2 + (bs_height_m - ue_height_m) ** 2))


def _urban_sight(distance_m: FloatArray, decay_m: float) -> FloatArray:
    """18 / d + exp(-d / decay) (1 - 18 / d), and 1 up to 18 m."""
    share = 18.0 / np.maximum(distance_m, 18.0)
    probability = np.exp(distance_m * (-1.0 / decay_m))
    probability *= 1.0 - share
    probability += share
    return probability


class UrbanMacro(_Scenario):
    """3GPP TR 38.901 UMa: base stations above the roofs, 25 m."""

    kind: Literal["uma"] = "uma"
    reference: ClassVar[str] = "3GPP TR 38.901 V17.0.0, Tables 7.4.1-1 and 7.4.2-1 (UMa)"
    example: ClassVar[dict[str, Any]] = {"kind": "uma"}
    bs_heights_m: ClassVar[tuple[float, float]] = (20.0, 30.0)
    std_db: ClassVar[tuple[float, float] | None] = (4.0, 6.0)  # [Table 7.4.1-1]
    decorrelation_m: ClassVar[float] = 37.0  # [Table 7.5-6]

    def _los(self, distance: FloatArray, decades: FloatArray, pairs: Pairs, carrier_hz: float) -> FloatArray:
        return _two_slopes(28.0, 22.0, 9.0, decades, pairs, carrier_hz)

    def _nlos(self, decades: FloatArray, pairs: Pairs, carrier_ghz: float) -> FloatArray:
        return 39.08 * decades + (13.54 + 20.0 * log10(carrier_ghz) - 0.6 * (pairs.ue_height_m - 1.5))

    def los_probability(self, pairs: Pairs) -> FloatArray:
        d = pairs.distance_2d_m
        probability = _urban_sight(d, 63.0)
        if pairs.ue_height_m > 13.0:
            c = ((min(pairs.ue_height_m, 23.0) - 13.0) / 10.0) ** 1.5
            high = 1.0 + c * 1.25 * (d / 100.0) ** 3 * np.exp(-d / 150.0)
            probability = np.where(d <= 18.0, 1.0, np.minimum(probability * high, 1.0))
        return probability


class UrbanMicro(_Scenario):
    """3GPP TR 38.901 UMi street canyon: base stations below the roofs, 10 m."""

    kind: Literal["umi"] = "umi"
    reference: ClassVar[str] = "3GPP TR 38.901 V17.0.0, Tables 7.4.1-1 and 7.4.2-1 (UMi - Street Canyon)"
    example: ClassVar[dict[str, Any]] = {"kind": "umi"}
    bs_heights_m: ClassVar[tuple[float, float]] = (5.0, 20.0)
    std_db: ClassVar[tuple[float, float] | None] = (4.0, 7.82)  # [Table 7.4.1-1]
    decorrelation_m: ClassVar[float] = 10.0  # [Table 7.5-6]

    def _los(self, distance: FloatArray, decades: FloatArray, pairs: Pairs, carrier_hz: float) -> FloatArray:
        return _two_slopes(32.4, 21.0, 9.5, decades, pairs, carrier_hz)

    def _nlos(self, decades: FloatArray, pairs: Pairs, carrier_ghz: float) -> FloatArray:
        return np.asarray(22.4 + 35.3 * decades + 21.3 * np.log10(carrier_ghz) - 0.3 * (pairs.ue_height_m - 1.5))

    def los_probability(self, pairs: Pairs) -> FloatArray:
        return _urban_sight(pairs.distance_2d_m, 36.0)


class RuralMacro(_Scenario):
    """3GPP TR 38.901 RMa: high masts over villages and fields."""

    kind: Literal["rma"] = "rma"
    building_height_m: float = Field(default=5.0, ge=5, le=50)
    """average height of buildings (h of the table)"""
    street_width_m: float = Field(default=20.0, ge=5, le=50)
    """average width of streets (W of the table)"""

    reference: ClassVar[str] = "3GPP TR 38.901 V17.0.0, Tables 7.4.1-1 and 7.4.2-1 (RMa)"
    example: ClassVar[dict[str, Any]] = {"kind": "rma"}
    carrier_ghz: ClassVar[tuple[float, float]] = (0.5, 30.0)
    ue_heights_m: ClassVar[tuple[float, float]] = (1.0, 10.0)
    bs_heights_m: ClassVar[tuple[float, float]] = (10.0, 150.0)
    std_db: ClassVar[tuple[float, float] | None] = (4.0, 8.0)  # [Table 7.4.1-1]
    far_std_db: ClassVar[float | None] = 6.0  # [Table 7.4.1-1] beyond the breakpoint
    decorrelation_m: ClassVar[float] = 37.0  # [Table 7.5-6]
    sight_decorrelation_m: ClassVar[float] = 60.0  # [Table 7.6.3.1-2]

    def _los(self, distance: FloatArray, decades: FloatArray, pairs: Pairs, carrier_hz: float) -> FloatArray:
        breakpoint_m = self._breakpoint_m(pairs, carrier_hz)
        near = self._near(distance, decades, carrier_hz / 1e9)
        edge = np.maximum(breakpoint_m, MIN_2D_M)
        far = self._near(edge, np.log10(edge), carrier_hz / 1e9) + 40.0 * (decades - np.log10(edge))
        return np.asarray(np.where(pairs.distance_2d_m <= breakpoint_m, near, far))

    def is_far(self, pairs: Pairs, carrier_hz: float) -> BoolArray:
        return np.asarray(pairs.distance_2d_m > self._breakpoint_m(pairs, carrier_hz))

    @staticmethod
    def _breakpoint_m(pairs: Pairs, carrier_hz: float) -> FloatArray:
        """d_BP (n_bs,) = 2 pi h_BS h_UT f / c."""
        return np.asarray(2.0 * np.pi * pairs.bs_height_m * pairs.ue_height_m * carrier_hz / _LIGHT_M_S)

    def _near(self, distance: FloatArray, decades: FloatArray, carrier_ghz: float) -> FloatArray:
        h = self.building_height_m
        return np.asarray(
            20.0 * np.log10(40.0 * np.pi * carrier_ghz / 3.0)
            + (20.0 + min(0.03 * h**1.72, 10.0)) * decades
            - min(0.044 * h**1.72, 14.77)
            + 0.002 * np.log10(h) * distance
        )

    def _nlos(self, decades: FloatArray, pairs: Pairs, carrier_ghz: float) -> FloatArray:
        h, w, mast = self.building_height_m, self.street_width_m, np.log10(pairs.bs_height_m)
        return np.asarray(
            161.04
            - 7.1 * np.log10(w)
            + 7.5 * np.log10(h)
            - (24.37 - 3.7 * (h / pairs.bs_height_m) ** 2) * mast
            + (43.42 - 3.1 * mast) * (decades - 3.0)
            + 20.0 * np.log10(carrier_ghz)
            - (3.2 * np.log10(11.75 * pairs.ue_height_m) ** 2 - 4.97)
        )

    def los_probability(self, pairs: Pairs) -> FloatArray:
        return np.exp(-np.maximum(pairs.distance_2d_m - 10.0, 0.0) / 1000.0)
