"""From artificial noise to the channel's: when what the radio adds is enough."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.defenses.arb import Arb
from fl.defenses.base import Defense, Standing
from fl.defenses.budgeted import Budgeted, newest
from fl.defenses.lapa import Lapa
from fl.defenses.uniform_dp import UniformDp
from fl.types import Facts, Local, Received, Spend, State, Updates
from netsim.part import OneOf
from netsim.rng import Rng
from netsim.units import FloatArray

BUDGETED = OneOf("budgeted", Lapa, Arb, UniformDp)


class NoiseSwitch(Defense):
    r"""Draws the noise that a budget asks for only as long, or as far, as the channel does not bring it.

    With sigma_k what `noise` asks for and sigma_ch,k what the uplink leaves on each number of the update::

        planned          artificial noise in rounds up to `until_round` (T_th), none afterwards
        first-crossing   none from the first round on in which the criterion holds: fires early on a noisy trajectory
        top-up           sqrt(max(0, sigma_k^2 - sigma_ch,k^2)) in every round: the two together are what was asked for

        aggregate        sum_k sigma_ch,k >= sum_k sigma_k    (23); one starved device can meet it for all
        per-device       sigma_ch,k >= sigma_k for every k that sends

    What is not drawn is not booked: without artificial noise the account says that nothing is guaranteed, and beside it
    `with_channel` what would be if the channel's noise counted, which holds against nobody with a better receiver. The
    uplink must decode noisily (`noma` or `oma` with decoding: noisy).
    """

    kind: Literal["noise-switch"] = "noise-switch"
    noise: Annotated[Budgeted, BUDGETED]
    """whose noise it is"""
    mode: Literal["planned", "top-up", "first-crossing"] = "top-up"
    """when artificial noise is drawn"""
    until_round: int | None = Field(default=None, ge=0, le=1_000_000)
    """last round with artificial noise, of mode planned (T_th)"""
    criterion: Literal["aggregate", "per-device"] = "per-device"
    """what the channel must bring, of mode first-crossing"""

    reference: ClassVar[str] = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eq. 23"
    example: ClassVar[dict[str, Any]] = {
        "kind": "noise-switch", "noise": {"kind": "uniform-dp", "epsilon_system_total": 60.0, "rounds": 20},
    }  # fmt: skip
    contracts: ClassVar[bool] = True
    offers: ClassVar[frozenset[str]] = frozenset({"spend"})

    @property
    def needs(self) -> dict[str, str]:  # type: ignore[override]
        """Those of the noise."""
        return self.noise.needs

    @model_validator(mode="after")
    def _planned(self) -> Self:
        if (self.mode == "planned") != (self.until_round is not None):
            raise ValueError("noise-switch: give until_round with mode: planned, and only then")
        return self

    def start(self, n_ue: int) -> State:
        return {"noise": self.noise.start(n_ue), "played": 0, "crossed": None, "until": 0}

    def protect(
        self, updates: Updates, local: Local, facts: Facts, state: State, rng: Rng
    ) -> tuple[Updates, State, list[Spend]]:
        asked, inner = self.noise.noise(updates, facts, state["noise"], rng)
        channel = np.zeros(len(asked.std)) if facts.channel is None else facts.channel.noise_std
        played, crossed = state["played"] + 1, state["crossed"]
        enough = self._enough(channel, asked.std) and len(asked.std) > 0
        if crossed is None and self.mode == "first-crossing" and enough:
            crossed = played
        if self.mode == "planned":
            drawn = asked.std if self.until_round is None or played <= self.until_round else np.zeros_like(asked.std)
        elif self.mode == "top-up":
            drawn = np.sqrt(np.maximum(asked.std**2 - channel**2, 0.0))
        else:
            drawn = asked.std if crossed is None else np.zeros_like(asked.std)
        protected, spends = self.noise.add(updates, asked, drawn, facts, rng, self.label)
        inner["drawn"] = newest(inner["drawn"], updates.ue, drawn)
        inner["drawn_var"] = np.where(asked.silent, 0.0, drawn**2) + channel**2
        said = {
            "artificial_percent": float(100 * np.mean(drawn > 0)) if len(drawn) else 0.0,
            "enough_percent": float(100 * np.mean(channel >= asked.std)) if len(drawn) else 0.0,
            "noise_asked_sum": float(asked.std[~asked.silent].sum()),
            "noise_channel_sum": float(channel.sum()),
        }
        until = played if (drawn > 0).any() else state["until"]
        said["artificial_until_round"] = float(until)
        known = {"noise": inner, "played": played, "crossed": crossed, "until": until, "said": said}
        return protected, known, spends

    def standing(self, state: State) -> Standing:
        return self.noise.standing(state["noise"])

    def observe(self, received: Received, weights: FloatArray, facts: Facts, state: State) -> State:
        return {**state, "noise": self.noise.observe(received, weights, facts, state["noise"])}

    def figures(self, state: State) -> dict[str, float]:
        own = dict(state.get("said", {}))
        if state["crossed"] is not None:
            own["switch_round"] = float(state["crossed"])
        return self.noise.figures(state["noise"]) | own

    def _enough(self, channel: FloatArray, asked: FloatArray) -> bool:
        """The criterion."""
        if self.criterion == "aggregate":
            return bool(channel.sum() >= asked.sum())
        return bool(np.all(channel >= asked))
