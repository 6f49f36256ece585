"""Clipping of updates, which bounds their sensitivity."""

from dataclasses import field, replace
from typing import Literal

import numpy as np
from pydantic import Field

from fl.defenses import WHOLE_BOUND, Defense, Finished, Protected
from fl.notice import Prepared, notice
from fl.types import (
    Bound,
    LastFigures,
    Local,
    Metrics,
    Received,
    RoundContext,
    Spend,
    State,
    Updates,
)
from netsim.columns import frozen, no_floats
from netsim.notice import Notices
from netsim.part import Amount, Fraction, Needs, Probability, Share
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray


class Clip(Defense, kind="clip"):
    """Scales every update to L2 norm at most `norm`: u * min(1, norm / |u|), over all parameters
    together.

    A non-finite update becomes zero, so the bound always holds. `relation` is the neighbouring
    relation for later noise: `replace` (a UE's data replaced by any other; sensitivity 2 norm) or
    `add-remove` (a UE takes part or not, or sends zeros where UEs draw the noise themselves;
    sensitivity norm). With `phase` only the updates of that phase of the learner are clipped; the
    others have no bound, so noise that needs a bound cannot follow. The table `metrics` has
    `clipped_percent`, the share of updates with a larger norm.
    """

    norm: float = Field(1.0, ge=1e-12, le=1e12)
    """largest L2 norm of an update"""
    relation: Literal["replace", "add-remove"] = "replace"
    """neighbouring relation: a user's data replaced, or the user added or removed"""
    phase: str | None = Field(None, min_length=1, max_length=40)
    """only updates of this phase of the learner; none: all"""

    reference = "McMahan et al., Learning Differentially Private Recurrent Language Models, 2018"
    example = {"kind": "clip", "norm": 1.0}
    contracts = True

    @property
    def offers(self) -> frozenset[str]:  # type: ignore[override]
        """A bound, where it covers all phases."""
        if self.phase is not None:
            return frozenset()
        return frozenset({"bound", WHOLE_BOUND})

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """The phase that it names."""
        if self.phase is None:
            return {}
        return {f"phase {self.phase}": "no learner here has a phase of that name"}

    def start(self, n_ue: int) -> LastFigures:
        return LastFigures()

    @property
    def bounded_phase(self) -> str | None:
        return self.phase

    def promise_norm(self, state: State) -> float | None:
        if self.phase is not None:
            return None
        return self.norm

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: LastFigures, rng: Rng
    ) -> Protected:
        if self.phase not in (None, updates.phase):
            return updates, state, []
        size = updates.norm()
        # rounding of a sum of d squares, of its root and of the product must not exceed the bound
        limit = self.norm * (1 - (updates.n_parameters + 8) * np.finfo(np.float64).eps)
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.minimum(1.0, limit / size)
        factor = np.where(np.isfinite(size), factor, 0.0)
        clipped = (100.0 * (factor < 1.0)).mean() if len(factor) else 0.0
        bound = Bound(self.norm, "user", self.relation)
        return updates.scale_rows(factor, bound), LastFigures({"clipped_percent": clipped}), []


_SMALLEST = 1e-12  # as the norm of a fixed clip
_LARGEST = 1e12


@frozen
class NormState:
    """norm: of the next round; figures: with that of the last one; bits (n,): b_k of the
    UEs that sent, or with noise in shares of rows, of which each sum has one; excess: the noisy sum
    of b_k - 1/2 that moved it last.
    """

    norm: float
    bits: FloatArray = field(default_factory=no_floats)
    excess: float | None = None
    figures: Metrics = field(default_factory=dict)


class AdaptiveClip(Defense, kind="adaptive-clip"):
    r"""Clips at C, which the server adapts after every round towards the `quantile` of the norms of
    the updates.

    With b_k = 1 where |u_k| <= C (the mean over its rows where a UE sends several), m UEs and
    quantile gamma::

        b = 1/2 + (sum_k (b_k - 1/2) + N(0, sigma_b^2)) / m       cut to [0, 1]
        C <- C exp(-learning_rate (b - gamma))

    The bit of every UE that sends counts, also where its update is lost: otherwise one UE that
    disturbs others would move the count by more than its own bit. m is 1 / weight if the
    aggregation has a fixed weight; otherwise the number of UEs that send, which is then public, and
    `relation: add-remove` is refused. The noisy share is a query of its own in the ledger, under
    this part's name with sensitivity 1/2 (add-remove) or 1 (replace; zero-out, since the bit of an
    update of zeros is 1); C is post-processing of it. Noise on the updates is recorded by the part
    that draws it, with the C of its round; the account `all` composes both, for neighbours that are
    `zero-out` where cohorts take turns or UEs draw noise. With `sampling: poisson` and
    `central-gaussian` both are on one coin.

    With `noise: shares` every UE adds N(0, sigma_b^2 / floor(h m)) to its b_k - 1/2, which is one
    more number of its update in the secure sum of `distributed-gaussian`, whose m it has, and an
    `honest_share` h of its own. Of a UE with several models the first has it, and the others 0,
    each with a share of its own: of two sums with almost the same UEs the difference tells nothing.
    Only bits of opened sums count then, each UE pays for its own, and none is told in clear.
    """

    norm: float = Field(0.1, ge=1 / _LARGEST, le=_LARGEST)
    """clip norm of the first round"""
    quantile: Fraction = 0.5
    """target share of updates that are not clipped (gamma)"""
    learning_rate: float = Field(0.2, gt=0, le=10)
    """learning rate of the norm, which changes by at most a factor exp(learning_rate) in a round
    (eta_C)"""
    count_noise: Amount = 1.0
    """standard deviation of the noise on the number of updates below the norm (sigma_b); m / 20 in
    the paper"""
    noise: Literal["server", "shares"] = "server"
    """who draws the noise on that number: the server, or each UE its share, in the secure sum of
    the updates"""
    honest_share: Share = 1.0
    """share of the UEs of a sum whose noise the server does not know (h), with noise: shares"""
    relation: Literal["replace", "add-remove"] = "replace"
    """neighbouring relation: a user's data replaced, or the user added or removed"""
    delta: Probability = 1e-7
    """delta at which the epsilon of the count is stated"""

    reference = (
        "Andrew, Thakkar, McMahan, Ramaswamy, Differentially Private Learning with Adaptive "
        "Clipping, 2021, Algorithm 1"
    )
    offers = frozenset({"bound", WHOLE_BOUND, "spend"})
    contracts = True

    needs_rounds = "its norm follows what all UEs of a round tell the server"

    def notices(self, prepared: Prepared) -> Notices:
        """The bit in clear where the server draws its noise, and later noise on the device promises
        more.
        """
        index = prepared.defenses.index(self)
        later = [d.label for d in prepared.defenses[index + 1 :] if d.noise_on_device]
        if self.noise == "server" and later:
            yield notice("bit-in-clear", self.label, others=", ".join(later))

    @property
    def noise_on_device(self) -> bool:
        """Its noise is drawn at the server, on a count, unless UEs draw shares of it."""
        return self.noise == "shares"

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """A fixed weight, where the number of participants is secret."""
        if self.relation == "replace":
            return {}
        reason = (
            "with relation: add-remove the number of those who came is no public knowledge; "
            "take aggregation uniform"
        )
        return {"fixed weight": reason}

    def start(self, n_ue: int) -> NormState:
        return NormState(self.norm)

    def promise_norm(self, state: NormState) -> float:
        return state.norm

    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: NormState, rng: Rng
    ) -> Protected:
        ue, first, of_row, rows = np.unique(
            updates.ue, return_index=True, return_inverse=True, return_counts=True
        )
        bits = np.bincount(of_row, weights=updates.norm() <= state.norm) / rows
        clip = Clip(norm=state.norm, relation=self.relation)
        clipped, _, spends = clip.protect(updates, local, facts, clip.start(0), rng)
        if self.noise == "shares":
            std = self.count_noise / np.sqrt(facts.count_honest(self.honest_share))
            sent = 0.5 + std * rng.normal("count", updates.row)
            sent[first] += bits - 0.5
            bits = sent
            spends = [*spends, self._account_count(ue, Bound(0.5, "user", self.relation).zeroed)]
        figures = {"clip_norm": state.norm}
        return clipped, replace(state, bits=bits, figures=figures), spends

    def finish(
        self, total: FloatArray, n_expected: int, facts: RoundContext, state: NormState, rng: Rng
    ) -> Finished:
        n_ue = len(state.bits) if facts.weight is None else 1.0 / facts.weight
        if n_ue == 0 or self.noise == "shares":
            return total, state, []
        noise = self.count_noise * rng.normal("count", [0])[0]
        spend = self._account_count(
            facts.cohort, facts.adapt_bound(Bound(0.5, "user", self.relation))
        )
        spend = replace(spend, sampling_rate=facts.sampling_rate)
        excess = (state.bits - 0.5).sum() + noise
        return total, self._adapt_norm(state, excess, n_ue), [spend]

    def _account_count(self, ue: IntArray, of_bit: Bound) -> Spend:
        """Cost of the count to UEs (n,): the bit of an update of zeros is 1, so beside a bit of 0
        it moves by 1.
        """
        if of_bit.relation == "zero-out":
            of_bit = replace(of_bit, norm=1.0)
        std = np.full(len(ue), self.count_noise)
        return of_bit.spend(self.label, ue, np.full(len(ue), -1), std, self.delta)

    def observe(
        self, received: Received, weights: FloatArray, facts: RoundContext, state: NormState
    ) -> NormState:
        if self.noise == "server":
            return state
        is_received = received.decoded
        _, first = np.unique(received.updates.ue, return_index=True)
        # a UE with several models has one bit, which comes with the first
        n_bits = is_received[first].sum()
        if n_bits:
            return self._adapt_norm(state, (state.bits[is_received] - 0.5).sum(), n_bits)
        return state

    def _adapt_norm(self, state: NormState, excess: float, n_ue: float) -> NormState:
        """The next state, of the noisy sum of b_k - 1/2 over UEs, and their number."""
        share = np.clip(0.5 + excess / n_ue, 0.0, 1.0)
        norm = state.norm * np.exp(-self.learning_rate * (share - self.quantile))
        return replace(state, norm=float(np.clip(norm, _SMALLEST, _LARGEST)), excess=excess)
