"""From artificial noise to the channel's: when what the radio adds is enough."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.defenses.arb import Arb
from fl.defenses.base import Defense, Standing
from fl.defenses.budgeted import Budgeted, newest, radio_std
from fl.defenses.lapa import Lapa
from fl.defenses.uniform_dp import UniformDp
from fl.types import Facts, Local, Received, Spend, State, Updates
from netsim.part import OneOf
from netsim.rng import Rng
from netsim.units import FloatArray

BUDGETED = OneOf("budgeted", Lapa, Arb, UniformDp)


class NoiseSwitch(Defense):
    r"""Draws the noise that a budget asks for only as long, or as far, as the channel does not bring it.

    With sigma_k what `noise` asks for and sigma_ch,k the receiver's thermal noise on each number of the update (other
    UEs' signals hide nobody: whoever decodes them subtracts them)::

        planned          artificial noise in rounds up to `until_round` (T_th), none afterwards; a study's `plan` may
                         find that round
        first-crossing   none from the first round on in which the criterion holds: fires early on a noisy trajectory
        top-up           sqrt(max(0, sigma_k^2 - sigma_ch,k^2)) in every round: the two together are what was asked for

        aggregate        sum_k sigma_ch,k >= sum_k sigma_k    (23); one starved device can meet it for all
        per-device       sigma_ch,k >= sigma_k for every k that sends

    What is not drawn is not booked: without artificial noise the account says that nothing is guaranteed. Beside it,
    `with_channel` counts the channel's noise only where it takes the place of artificial noise, device by device: it
    holds for the receiver of the scenario, and against nobody with a better one. The uplink must decode noisily (`noma`
    or `oma` with decoding: noisy). The figure `switch_round` is the last round in which anybody drew noise (T_th).

    Nothing is promised beforehand with `planned` and `first-crossing`: what `noise` would promise ends where its noise
    ends. With `top-up` thermal and artificial noise together are never less than what was asked for, so the total that
    was fixed before the first round holds with this receiver: figure `epsilon_promised_with_channel`.
    """

    kind: Literal["noise-switch"] = "noise-switch"
    noise: Annotated[Budgeted, BUDGETED]
    """whose noise it is"""
    mode: Literal["planned", "top-up", "first-crossing"] = "top-up"
    """when artificial noise is drawn"""
    until_round: int | None = Field(default=None, ge=0, le=1_000_000)
    """last round with artificial noise, of mode planned (T_th); none: the study's plan finds it"""
    criterion: Literal["aggregate", "per-device"] = "per-device"
    """what the channel must bring, of mode first-crossing"""

    reference: ClassVar[str] = "LAPA-based Dynamic Privacy Optimization for Wireless Federated Learning, Eq. 23"
    example: ClassVar[dict[str, Any]] = {
        "kind": "noise-switch", "noise": {"kind": "uniform-dp", "epsilon_system_total": 60.0, "rounds": 20},
    }  # fmt: skip
    contracts: ClassVar[bool] = True
    offers: ClassVar[frozenset[str]] = frozenset({"spend"})

    @property
    def caveat(self) -> str:  # type: ignore[override]
        """Whom the channel's noise does not hold against, and what is promised."""
        said = "with_channel counts the channel's noise, which holds against nobody with a better receiver"
        if self.mode == "top-up":
            total = "epsilon_promised_with_channel holds with this receiver only; without its noise nothing is promised"
        else:
            total = "nothing is promised once artificial noise ends"
        return "; ".join(filter(None, (said, total, self.noise.claim_caveat)))

    @property
    def needs(self) -> dict[str, str]:  # type: ignore[override]
        """Those of the noise."""
        return self.noise.needs

    @model_validator(mode="after")
    def _planned(self) -> Self:
        if self.mode != "planned" and self.until_round is not None:
            raise ValueError("noise-switch: until_round goes with mode: planned; leave it out, or set the mode")
        return self

    @property
    def waits(self) -> bool:
        """Whether its round is still to be found."""
        return self.mode == "planned" and self.until_round is None

    def start(self, n_ue: int) -> State:
        return {"noise": self.noise.start(n_ue), "played": 0, "crossed": None, "switch": 0}

    def protect(
        self, updates: Updates, local: Local, facts: Facts, state: State, rng: Rng
    ) -> tuple[Updates, State, list[Spend]]:
        asked, inner = self.noise.noise(updates, facts, state["noise"], rng)
        channel, decoder = radio_std(facts, len(asked.std))
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
        counted = np.where(drawn < asked.std, channel, 0.0)
        protected, spends = self.noise.add(updates, asked, drawn, counted, rng, self.label)
        inner["drawn"] = newest(inner["drawn"], updates.ue, drawn)
        inner["drawn_var"] = np.where(asked.silent, 0.0, drawn**2) + decoder**2
        said = {
            "artificial_percent": float(100 * np.mean(drawn > 0)) if len(drawn) else 0.0,
            "enough_percent": float(100 * np.mean(channel >= asked.std)) if len(drawn) else 0.0,
            "noise_asked_sum": float(asked.std[~asked.silent].sum()),
            "noise_channel_sum": float(channel.sum()),
        }
        switch = played if np.any(drawn[~asked.silent] > 0) else state["switch"]
        said["switch_round"] = float(switch)
        return protected, {"noise": inner, "played": played, "crossed": crossed, "switch": switch, "said": said}, spends

    def standing(self, state: State) -> Standing:
        return self.noise.standing(state["noise"])

    def observe(self, received: Received, weights: FloatArray, facts: Facts, state: State) -> State:
        return {**state, "noise": self.noise.observe(received, weights, facts, state["noise"])}

    def figures(self, state: State) -> dict[str, float]:
        found = self.noise.figures(state["noise"]) | dict(state.get("said", {}))
        promised = found.pop("epsilon_promised", None)
        if self.mode == "top-up" and promised is not None:
            found["epsilon_promised_with_channel"] = promised
        return found

    def _enough(self, channel: FloatArray, asked: FloatArray) -> bool:
        """The criterion."""
        if self.criterion == "aggregate":
            return bool(channel.sum() >= asked.sum())
        return bool(np.all(channel >= asked))
