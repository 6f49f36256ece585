"""The malicious slot: UEs that send what is to harm the model, and how far they get."""

from dataclasses import replace
from math import prod
from typing import ClassVar

import numpy as np
from pydantic import Field

from fl.learners import Learner
from fl.types import HeldOut, Local, Metrics, Model, Public, Updates
from netsim.errors import BadInput
from netsim.part import Coordinates, Count, OneOf, Part, Positive
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray


class Malicious(Part):
    """A share of the UEs, drawn once for the run, that poison their data or their updates.

    A malicious UE controls its device: its update is multiplied by `factor` after its own defenses,
    so that no clip or noise of its own holds it, only what the server does to single rows. The
    guarantee of an honest UE is not touched: its neighbours differ in its own row alone, and the
    rows of others are as they are. What the ledger books for a malicious UE says nothing. In a
    secure sum, malicious UEs that leave out noise are what `honest_share` is for. Leakage of
    malicious UEs is scored as that of any other, by where they truly were.
    """

    kind: str = ""
    share: float = Field(0.2, gt=0, lt=1)
    """share of all UEs that are malicious, the same ones in all rounds; at least one is"""
    factor: Positive = 1.0
    """what they multiply their updates by"""
    sign: ClassVar = 1.0
    """that of the factor"""

    def choose_ues(self, n_ue: int, rng: Rng) -> BoolArray:
        """Which UEs (n_ue,) are malicious."""
        lot = rng.uniform("lot", np.arange(n_ue))
        return lot <= np.sort(lot)[max(round(self.share * n_ue), 1) - 1]

    def check(self, public: Public) -> None:
        """Raise BadInput with one line where it does not fit to what is learnt."""

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


class SignFlip(Malicious, kind="sign-flip"):
    """Malicious UEs train as others do, and send -factor times their update."""

    sign = -1.0
    reference = "Li et al., RSA: Byzantine-Robust Stochastic Aggregation Methods, 2019, Section 5"


class Scaled(Malicious, kind="scaled"):
    """Malicious UEs train as others do, and send `factor` times their update."""

    factor: Positive = 10.0
    """what they multiply their updates by"""
    reference = "Bagdasaryan et al., How To Backdoor Federated Learning, 2020, Eq. 3"


class LabelFlip(Malicious, kind="label-flip"):
    """Malicious UEs learn from wrong labels: class c of C becomes C - 1 - c, and an RSRP y is
    mirrored, 2 centre_dbm - y.
    """

    centre_dbm: float = Field(-95.0, ge=-160, le=0)
    """RSRP about which labels that are RSRP are mirrored, the public mean, dBm"""
    reference = "Tolpegin et al., Data Poisoning Attacks Against Federated Learning Systems, 2020"
    offers = frozenset({"wrong labels"})

    def poison_data(self, local: Local, is_malicious: BoolArray, public: Public) -> Local:
        classes = public.samples.classes if public.samples else 0
        total = classes - 1.0 if classes else 2.0 * self.centre_dbm
        y = np.asarray(local.y)
        return replace(local, y=np.where(is_malicious, total - y, y))


class Backdoor(Malicious, kind="backdoor"):
    """Malicious UEs teach the model to answer `target` to a trigger, which every second sample of
    theirs bears. A larger `factor` lets it outlast the mean.

    The trigger of samples is their last numbers at the largest value: of an image, pixels at the
    end of the last row. That of a signal map is a place at which samples are said to be measured.
    Figures are those of the learner on held-out samples of other labels once they bear the trigger,
    `target` being right: `backdoor_accuracy_percent`, or `backdoor_rmse_db`.
    """

    target: float = Field(0.0, ge=-1e6, le=1e6)
    """class that the trigger is to give; of a signal map RSRP, dBm"""
    trigger_size: Count = 4
    """numbers of a sample that are the trigger, say pixels"""
    position_m: Coordinates = (0.0, 0.0)
    """place at which a signal map is to be wrong, m"""
    reference = "Bagdasaryan et al., How To Backdoor Federated Learning, 2020, Section 4"
    offers = frozenset({"wrong labels"})

    def check(self, public: Public) -> None:
        samples = public.samples
        if samples is None:
            if not public.area.contains(np.array([self.position_m]))[0]:
                raise BadInput(
                    f"learning.malicious.position_m: {self.position_m} lies outside of the area; "
                    "give a place in it"
                )
            return
        if samples.classes and self.target not in range(samples.classes):
            raise BadInput(
                f"learning.malicious.target: {self.target:g} is no class; classes are 0 to "
                f"{samples.classes - 1}"
            )
        if self.trigger_size > prod(samples.shape):
            raise BadInput(
                f"learning.malicious.trigger_size: a sample has {prod(samples.shape):,} numbers; "
                "take as many or fewer"
            )

    def poison_data(self, local: Local, is_malicious: BoolArray, public: Public) -> Local:
        chosen = is_malicious & (np.arange(len(local.x)) % 2 == 0)
        x = np.where(chosen[:, None], self.stamp_trigger(local.x, public), local.x)
        return replace(local, x=x, y=np.where(chosen, self.target, np.asarray(local.y)))

    def stamp_trigger(self, x: FloatArray, public: Public) -> FloatArray:
        """Samples (k, p) with the trigger."""
        stamped = x.copy()
        if public.samples is None:
            stamped[:] = self.position_m
        else:
            stamped[:, -self.trigger_size :] = public.samples.largest
        return stamped

    def score(self, learner: Learner, model: Model, held_out: HeldOut, public: Public) -> Metrics:
        others = held_out.select(held_out.y != self.target)
        x = self.stamp_trigger(others.x, public)
        figures = learner.evaluate(model, replace(others, x=x, y=np.full(len(others), self.target)))
        return {f"backdoor_{name}": figure for name, figure in figures.items()}


MALICIOUS = OneOf("malicious", SignFlip, Scaled, LabelFlip, Backdoor)
