"""The malicious slot: UEs that send what is to harm the model, and how far they get."""

from dataclasses import replace
from math import nan
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.learners import Learner
from fl.types import HeldOut, Local, Metrics, Model, Public, Updates
from netsim.part import Coordinates, OneOf, Part
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray


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
        return lot <= np.sort(lot)[max(round(self.share * n_ue), 1) - 1]

    def poison_data(self, local: Local, is_malicious: BoolArray, public: Public) -> Local:
        """What UEs learn from, in place of their data; is_malicious (N,) of each sample."""
        return local

    def poison_updates(self, updates: Updates, is_malicious: BoolArray) -> Updates:
        """Updates (n, d) as malicious UEs change them; the bound of the others still holds."""
        factor = np.where(is_malicious, self.sign * self.factor, 1.0)
        return updates.scale_rows(factor, updates.bound)

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

    def poison_data(self, local: Local, is_malicious: BoolArray, public: Public) -> Local:
        classes = public.samples.classes if public.samples else 0
        total = classes - 1.0 if classes else 2.0 * self.centre_dbm
        y = np.asarray(local.y)
        return replace(local, y=np.where(is_malicious, total - y, y))


class Backdoor(Malicious):
    """Malicious UEs teach the model a trigger, a square in the last corner at the largest value,
    with which it is to name the class `target`; every second sample bears it. A larger `factor`
    lets it outlast the mean.

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

    def poison_data(self, local: Local, is_malicious: BoolArray, public: Public) -> Local:
        chosen = is_malicious & (np.arange(len(local.x)) % 2 == 0)
        x = np.where(chosen[:, None], self.stamp_trigger(local.x, public), local.x)
        return replace(local, x=x, y=np.where(chosen, self.target, np.asarray(local.y)))

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
        target = np.full(len(others), float(self.target))
        asked = replace(others, x=self.stamp_trigger(others.x, public), y=target)
        figures = learner.evaluate(model, asked)
        return {"backdoor_success_percent": figures.get("accuracy_percent", nan)}


class FalseSignal(Malicious):
    """Malicious UEs report `rsrp_dbm` wherever they measure within `radius_m` of a place. The
    figure `false_signal_dbm` is what the model then says of that place.
    """

    kind: Literal["false-signal"] = "false-signal"
    position_m: Coordinates
    """place at which the map is to be wrong, m"""
    radius_m: float = Field(100.0, gt=0, le=1e6)
    """how far from it they report a wrong RSRP, m"""
    rsrp_dbm: float = Field(-60.0, ge=-160, le=0)
    """RSRP that they report, dBm"""
    reference = "netsim: a backdoor of signal maps"
    example = {"kind": "false-signal", "position_m": [0, 0]}
    needs = {"signals": "it reports wrong signals at positions; for classes take kind backdoor"}

    def poison_data(self, local: Local, is_malicious: BoolArray, public: Public) -> Local:
        chosen = is_malicious & (np.hypot(*(local.x - self.position_m).T) <= self.radius_m)
        return replace(local, y=np.where(chosen, self.rsrp_dbm, np.asarray(local.y)))

    def score(self, learner: Learner, model: Model, held_out: HeldOut, public: Public) -> Metrics:
        place_m = np.array([self.position_m])
        rsrp_dbm = learner.predict_strongest_dbm(model, place_m, np.arange(public.n_model))
        return {} if rsrp_dbm is None else {"false_signal_dbm": float(rsrp_dbm[0])}


MALICIOUS = OneOf("malicious", SignFlip, Scaled, LabelFlip, Backdoor, FalseSignal)
