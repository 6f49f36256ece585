"""The malicious slot: UEs that send what is to harm the model, and how far they get."""

from abc import abstractmethod
from dataclasses import replace
from math import nan
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.learners import Learner
from fl.types import HeldOut, Local, Metrics, Model, Public, Updates
from netsim.part import Coordinates, OneOf, Part
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray


class Malicious(Part):
    """A share of the UEs, drawn once for the run, that poison their data or their updates.

    A malicious UE controls its device. Its update is multiplied by `factor` before its own
    defenses, or with `past_defenses` after them: then no clip or noise of its own holds it, only
    what the server does to single rows. The guarantee of an honest UE is not touched: its
    neighbours differ in its own row alone, and the rows of others are as they are. What the ledger
    books for a malicious UE beside `past_defenses` says nothing. In a secure sum, malicious UEs
    that leave out noise are what `honest_share` is for. Leakage of malicious UEs is scored as that
    of any other, by where they truly were.
    """

    kind: str
    share: float = Field(0.2, gt=0, lt=1)
    """share of all UEs that are malicious, the same ones in all rounds; at least one is"""
    factor: float = Field(1.0, gt=0, le=1e6)
    """what they multiply their updates by"""
    past_defenses: bool = False
    """whether they do so after their own defenses, which then do not hold them"""
    sign: ClassVar = 1.0
    """that of the factor"""

    def choose_ues(self, n_ue: int, rng: Rng) -> BoolArray:
        """Which UEs (n_ue,) are malicious."""
        lot = rng.uniform("lot", np.arange(n_ue))
        rank = np.argsort(np.argsort(lot, kind="stable"))
        return rank < max(1, round(self.share * n_ue))

    def poison_data(self, local: Local, is_malicious: BoolArray, public: Public, rng: Rng) -> Local:
        """What UEs learn from, in place of their data; is_malicious (n,) says whose row it is."""
        return local

    def poison_updates(self, updates: Updates, is_malicious: BoolArray) -> Updates:
        """Updates (n, d) as malicious UEs change them; the bound of the others still holds."""
        factor = self.sign * self.factor
        if factor == 1.0:
            return updates
        return updates.scale_rows(np.where(is_malicious, factor, 1.0), updates.bound)

    def score(self, learner: Learner, model: Model, held_out: HeldOut, public: Public) -> Metrics:
        """How far they got, besides what the model has lost; names with units."""
        return {}


class SignFlip(Malicious):
    """Malicious UEs train as others do, and send -factor times their update."""

    kind: Literal["sign-flip"] = "sign-flip"
    sign = -1.0
    reference = "Li et al., RSA: Byzantine-Robust Stochastic Aggregation Methods, 2019, Section 5"


class Scaled(Malicious):
    """Malicious UEs train as others do, and send `factor` times their update."""

    kind: Literal["scaled"] = "scaled"
    factor: float = Field(10.0, gt=0, le=1e6)
    """what they multiply their updates by"""
    reference = "Bagdasaryan et al., How To Backdoor Federated Learning, 2020, Eq. 3"


class LabelFlip(Malicious):
    """Malicious UEs learn from wrong labels: class c of C becomes C - 1 - c, and an RSRP y is
    mirrored, 2 centre_dbm - y.
    """

    kind: Literal["label-flip"] = "label-flip"
    centre_dbm: float = Field(-95.0, ge=-160, le=0)
    """RSRP about which labels that are RSRP are mirrored, the public mean, dBm"""
    reference = "Tolpegin et al., Data Poisoning Attacks Against Federated Learning Systems, 2020"

    def poison_data(self, local: Local, is_malicious: BoolArray, public: Public, rng: Rng) -> Local:
        if public.samples is not None and public.samples.classes:
            total = public.samples.classes - 1.0
        else:
            total = 2.0 * self.centre_dbm
        y = np.asarray(local.y)
        return replace(local, y=np.where(is_malicious[local.row_of_sample], total - y, y))


class SamplePoison(Malicious):
    """Malicious UEs put made-up samples in place of some of their own, evenly spaced among them."""

    poisoned: float = Field(0.5, gt=0, le=1)
    """share of their samples that malicious UEs replace"""

    def poison_data(self, local: Local, is_malicious: BoolArray, public: Public, rng: Rng) -> Local:
        row = local.row_of_sample
        number = np.arange(len(row)) - local.ptr[row]  # within its row
        due = np.floor((number + 1) * self.poisoned) > np.floor(number * self.poisoned)
        chosen = np.flatnonzero(due & is_malicious[row])
        x = local.x.copy()
        y = np.array(local.y)
        owner = local.row[row[chosen]]
        x[chosen], y[chosen] = self.make_samples(x[chosen], owner, number[chosen], public, rng)
        return replace(local, x=x, y=y)

    @abstractmethod
    def make_samples(
        self, x: FloatArray, row: IntArray, number: IntArray, public: Public, rng: Rng
    ) -> tuple[FloatArray, float]:
        """Inputs (k, p) in place of those of samples x (k, p), and their label; row, number (k,):
        whose they are (see `Local.row`), and which of its samples.
        """


class Backdoor(SamplePoison):
    """Malicious UEs teach the model a trigger, a square in the last corner at the largest value,
    with which it is to name the class `target`; `factor` is what lets it outlast the mean.

    The figure `backdoor_success_percent` is the share of held-out samples of other classes that
    the model gives to `target` once they bear the trigger. Of samples without a shape of two
    dimensions the trigger is the last `trigger_size` numbers.
    """

    kind: Literal["backdoor"] = "backdoor"
    target: int = Field(0, ge=0, le=1_000_000)
    """class that the trigger is to give"""
    trigger_size: int = Field(2, ge=1, le=1000)
    """side of the trigger, in pixels"""
    reference = "Bagdasaryan et al., How To Backdoor Federated Learning, 2020, Section 4"
    needs = {"class labels": "its trigger gives a class; for signals take kind false-signal"}

    def make_samples(
        self, x: FloatArray, row: IntArray, number: IntArray, public: Public, rng: Rng
    ) -> tuple[FloatArray, float]:
        return self.stamp_trigger(x, public), self.target

    def stamp_trigger(self, x: FloatArray, public: Public) -> FloatArray:
        """Samples (k, p) with the trigger."""
        if public.samples is None:
            raise ValueError("backdoor: the format of samples is unknown")
        stamped = x.reshape(-1, *public.samples.shape).copy()
        sides = (slice(-self.trigger_size, None),) * min(len(public.samples.shape), 2)
        corner: tuple[Any, ...] = (..., *sides)
        stamped[corner] = public.samples.largest
        return stamped.reshape(x.shape)

    def score(self, learner: Learner, model: Model, held_out: HeldOut, public: Public) -> Metrics:
        others = held_out.select(held_out.y != self.target)
        asked = replace(
            others,
            x=self.stamp_trigger(others.x, public),
            y=np.full(len(others), float(self.target)),
        )
        accuracy = learner.evaluate(model, asked).get("accuracy_percent", nan)
        return {"backdoor_success_percent": accuracy}


class FalseSignal(SamplePoison):
    """Malicious UEs report a signal that is not there: samples at random within `radius_m` of a
    place, all of `rsrp_dbm`. The figure `false_signal_dbm` is what the model then says of it.
    """

    kind: Literal["false-signal"] = "false-signal"
    position_m: Coordinates
    """place at which the map is to be wrong, m"""
    radius_m: float = Field(50.0, gt=0, le=1e6)
    """how far from it the made-up samples lie, m"""
    rsrp_dbm: float = Field(-60.0, ge=-160, le=0)
    """RSRP of the made-up samples, dBm"""
    reference = "netsim: a backdoor of signal maps"
    example = {"kind": "false-signal", "position_m": [0, 0]}
    needs = {"signals": "it makes up signals at positions; for classes take kind backdoor"}

    def make_samples(
        self, x: FloatArray, row: IntArray, number: IntArray, public: Public, rng: Rng
    ) -> tuple[FloatArray, float]:
        square, turn = rng.uniform("place", row, (2,), item=number).T
        angle = 2.0 * np.pi * turn
        away_m = self.radius_m * np.sqrt(square)
        offset_m = away_m * np.stack([np.cos(angle), np.sin(angle)])
        return self.position_m + offset_m.T, self.rsrp_dbm

    def score(self, learner: Learner, model: Model, held_out: HeldOut, public: Public) -> Metrics:
        place_m = np.array([self.position_m])
        rsrp_dbm = learner.predict_strongest_dbm(model, place_m, np.arange(public.n_model))
        return {} if rsrp_dbm is None else {"false_signal_dbm": float(rsrp_dbm[0])}


MALICIOUS = OneOf("malicious", SignFlip, Scaled, LabelFlip, Backdoor, FalseSignal)
