"""A probe that records what noise hides in a play, and puts in place what a neighbour sends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from fl.audit.noise import NoiseLog
from fl.data import TakenData
from fl.defenses import Defense
from fl.defenses.budgeted import PRINTED
from fl.learning import Learning
from fl.privacy.banded import coefficients, sensitivity
from fl.round.probe import Probe
from fl.round.uploads import Uploads
from fl.types import LOCATION, Local, Model, RoundContext, Spend, State, Updates
from netsim.columns import row_id
from netsim.rng import Streams
from netsim.units import BoolArray, FloatArray, IntArray

FACTOR = 10.0
"""of the clip norm: how long the updates are that stand in for those of a UE, so that each is clipped"""
Key = tuple[int, str]
"""round and phase"""
Change = Literal["", "removed", "zeroed", "replaced", "record", "plus", "minus"]


@dataclass(eq=False)
class Draw:
    """What one draw hides, before its noise.

    hidden (k, d) : sums of models, a count, or the rows of audited UEs, in the unit of the spend (k,); beside (k,) :
    variance of other noise on them; bands : of noise correlated over rounds.
    """

    spend: Spend
    key: Key
    view: str
    quantity: str
    hidden: FloatArray
    beside: FloatArray
    bands: int = 1


@dataclass(frozen=True, eq=False)
class Merge:
    """Public facts of a merge: the rows (n,) that were asked for, which of them counted (n,), and their weights (n,)."""

    row: IntArray
    decoded: BoolArray
    weight: FloatArray


@dataclass(eq=False)
class Recording(Probe):
    """What one play hid. audited : UEs whose rows are kept, of a neighbour the one that `change` is about.

    base : the play whose published values are put in place of this one's, as composition takes them: noise makes up the
    difference. middle_m : of the area, about which other data are mirrored. log : of the noise, where it is audited.
    """

    learning: Learning
    audited: IntArray
    streams: Streams
    middle_m: FloatArray
    change: Change = ""
    base: Recording | None = None
    log: NoiseLog | None = None
    draws: list[Draw] = field(default_factory=list)
    merges: dict[Key, Merge] = field(default_factory=dict)
    others: dict[tuple[str, int, str], dict[int, float]] = field(default_factory=dict)
    norms: dict[tuple[str, int, str], float | None] = field(default_factory=dict)
    ended_s: dict[int, float] = field(default_factory=dict)
    published: dict[Key, tuple[Model, dict[str, State]]] = field(default_factory=dict)
    rounds: int = 1
    _own: FloatArray = field(default_factory=lambda: np.zeros(0))
    _start: FloatArray = field(default_factory=lambda: np.zeros((0, 0)))
    _shares: str = ""
    _phase: str = ""
    _known: dict[str, Spend] = field(default_factory=dict)
    _past: dict[tuple[str, str], list[FloatArray]] = field(default_factory=dict)
    _record: FloatArray | None = None

    # -- what a neighbour sends

    def taken(self, taken: TakenData) -> TakenData:
        if self.change not in ("replaced", "record"):
            return taken
        return replace(taken, train=self._other(taken.train))

    def _other(self, local: Local) -> Local:
        """Other values at the same times, of the audited UE or of one record of it: places mirrored, labels moved."""
        mine = np.isin(local.ue, self.audited)[local.row_of_sample]
        if self.change == "record" and mine.any():
            content = np.column_stack([local.time_s, local.x])
            if self._record is None:
                self._record = content[np.flatnonzero(mine)[0]]
            mine &= (content == self._record).all(axis=1)
        some, x = mine[:, None], local.x
        is_image = x.dtype == np.uint8
        y = local.y
        if y is not None:
            y = np.where(mine, np.where(y == 0, 1.0, 0.0) if is_image else -150.0 - y, y)
        other = 255 - x if is_image else 2 * self.middle_m - x
        return replace(local, x=np.where(some, other, x), y=y)

    def made(self, made: Updates, norm: float | None) -> Updates:
        self._phase = made.phase
        of = {"zeroed": 0.0, "plus": FACTOR, "minus": -FACTOR}.get(self.change)
        if of is None or (of and norm is None):
            return made
        values = np.array(made.rows(slice(None)), dtype=float)
        mine = np.isin(made.ue, self.audited)
        way = self.streams.at("audit").normal("direction", made.ue[mine], (made.n_parameters,))
        values[mine] = of * (norm or 0.0) * way / np.linalg.norm(way, axis=1, keepdims=True)
        return made.with_values(values, made.bound)

    # -- what noise hides

    def protected(
        self, defense: Defense, before: Updates, after: Updates, spends: list[Spend], facts: RoundContext, state: State
    ) -> None:
        key, name = (facts.round, before.phase), defense.label
        chain = self.learning.defenses
        if defense is chain[0] or "central noise" in defense.offers:
            self._own = np.zeros(len(before.ue))
            self._shares = ""
        shared = "shared noise" in defense.offers or getattr(defense, "noise", "") == "shares"
        honest = self._honest(defense) if shared else 1
        for spend in _true(spends):
            if (spend.model < 0).any():
                self._count(defense, before, spend, key, state, honest)
                continue
            if "shared noise" in defense.offers:
                self._start = before.rows(slice(None))
                self._shares = name
                self._known[name] = spend
            self._rows(defense, before, after, spend, key, state, honest, "aggregate" if shared else "updates")
        if defense is chain[-1] and self._shares and self.log is not None:
            noise, size = after.rows(slice(None)) - self._start, np.linalg.norm(self._start, axis=1)
            some = (size > 0) & (self._own > 0)
            along = np.einsum("nd,nd->n", noise, self._start)[some] / (size * np.sqrt(self._own))[some]
            self.log.along.setdefault(self._shares, []).append(along)
            unit = noise[some] / np.sqrt(self._own)[some, None]
            if defense.label != self._shares:
                self.log.add(f"{self._shares} as sent", key, before.ue[some], before.model[some], unit)

    def _honest(self, defense: Defense) -> int:
        """UEs of the smallest sum that is opened whose noise the server does not know, of the study's own numbers."""
        least = self.learning.threat.secagg_threshold or 1
        return max(int(getattr(defense, "honest_share", 1.0) * least + 1e-9), 1)

    def _rows(
        self, defense: Defense, before: Updates, after: Updates, spend: Spend, key: Key, state: State, honest: int,
        view: str,
    ) -> None:  # fmt: skip
        """Noise on rows: of one spend for each, or for each model."""
        grain = state.grain if spend.whole else 1.0
        wanted = row_id(spend.ue, spend.model)
        order = np.argsort(wanted, kind="stable")
        at = np.arange(len(before.ue))
        paid = before.model
        if not spend.whole:
            at = np.flatnonzero(np.isin(before.row, wanted))
            paid = order[np.searchsorted(wanted[order], before.row[at])]
        std = spend.std[paid]
        self._own[at] += (std * grain) ** 2 / honest
        mine = np.isin(before.ue[at], self.audited)
        of = replace(
            spend, ue=before.ue[at][mine], model=before.model[at][mine], std=std[mine],
            sensitivity=spend.sensitivity[paid][mine],
        )  # fmt: skip
        hidden = np.array(before.rows(at[mine]), dtype=float) / grain
        self.draws.append(Draw(of, key, view, "rows", hidden, np.zeros(len(hidden))))
        values = before.rows(slice(None))
        way = self.streams.at("audit").normal("look", [0], (values.shape[1],))[0]
        self.others[spend.mechanism, *key] = dict(zip(before.row.tolist(), (values @ way).tolist(), strict=True))
        if self.log is not None and (std > 0).all():
            share = std * grain / np.sqrt(honest)
            unit = (after.rows(at) - values[at]) / share[:, None]
            steps = float((share / grain).min(initial=np.inf)) if spend.whole else np.inf
            self.log.add(
                spend.mechanism, key, before.ue[at], before.model[at], unit,
                slack=0.25 / steps**2, spread=float(np.sqrt(1 + 1 / steps**2)),
            )  # fmt: skip

    def _count(self, defense: Defense, before: Updates, spend: Spend, key: Key, state: State, honest: int) -> None:
        """Noise in shares on a count of bits, of which every UE has one."""
        if not len(spend.ue):
            return
        one = replace(
            spend, ue=np.array([-1]), model=spend.model[:1], std=spend.std[:1], sensitivity=spend.sensitivity[:1]
        )
        hidden = defense.hidden(np.zeros((1, 1)), 1.0, state)
        self.draws.append(Draw(one, key, "aggregate", "count", hidden, np.zeros(1)))
        if self.log is not None:
            _, row, rows = np.unique(before.ue, return_inverse=True, return_counts=True)
            raw = np.bincount(row, weights=before.norm() <= state.used) / rows
            unit = (state.bits - raw) / spend.std * np.sqrt(honest)
            self.log.add(spend.mechanism, key, spend.ue, spend.model, unit[:, None])

    def finished(
        self, defense: Defense, before: FloatArray, after: FloatArray, spends: list[Spend], facts: RoundContext,
        state: State,
    ) -> None:  # fmt: skip
        name, weight, bands = defense.label, facts.weight or 1.0, getattr(defense, "bands", None) or 1
        key = facts.round, self._phase
        drawn = _true(spends)
        if (bands > 1 or "shared noise" in defense.offers) and name in self._known:
            drawn = drawn or [self._known[name]]
        for spend in drawn:
            self._known[name] = spend
            hidden, view = defense.hidden(before, weight, state), "model"
            if "shared noise" in defense.offers:
                if spend.whole or not len(spend.ue):
                    continue
                view, n = "aggregate", len(before)
                spend = replace(
                    spend, ue=np.full(n, -1), model=np.arange(n), std=np.full(n, spend.std.max()),
                    sensitivity=np.full(n, spend.sensitivity.max()),
                )  # fmt: skip
            quantity = "count" if spend.model[0] < 0 else "sum"
            self.draws.append(Draw(spend, key, view, quantity, hidden, np.zeros(len(hidden)), bands))
            if self.log is not None and view == "model":
                self._noise_at_server(defense, spend, after - before, key, facts, state, hidden)

    def _noise_at_server(
        self, defense: Defense, spend: Spend, noise: FloatArray, key: Key, facts: RoundContext, state: State,
        hidden: FloatArray,
    ) -> None:  # fmt: skip
        if self.log is None:
            return
        if spend.model[0] < 0:
            if not 0 < state.share < 1:
                return  # cut off: the noise is unknown
            most = float(len(state.bits)) if facts.weight is None else 1.0 / facts.weight
            unit = ((state.share - 0.5) * most - hidden) / spend.std
        else:
            unit = noise / (spend.std * (facts.weight or 1.0))[:, None]
        bands = getattr(defense, "bands", None)
        if bands is not None:  # C times the noise of the rounds is white
            unit = unit / sensitivity(facts.rounds, bands, facts.separation)
            past = self._past.setdefault((spend.mechanism, key[1]), [])
            past.insert(0, unit)
            del past[bands:]
            unit = np.tensordot(coefficients(bands)[: len(past)], np.stack(past), axes=1)
        self.log.add(spend.mechanism, key, spend.ue, spend.model, unit)

    def merged(
        self, facts: RoundContext, phase: str, uploads: Uploads, decoded: BoolArray, weights: FloatArray,
        opened: IntArray | None, model: Model, states: dict[str, State],
    ) -> Model:  # fmt: skip
        key, self.rounds = (facts.round, phase), facts.rounds
        self.merges[key] = Merge(uploads.row, decoded, weights)
        if self.log is not None and self._shares and opened is not None and len(opened):
            least = self.learning.threat.secagg_threshold or 1
            self.log.fewest[self._shares, facts.round] = float(opened.min()) / least
        for draw in self.draws[::-1]:
            if draw.key != key:
                break
            if draw.view == "model" and draw.quantity == "sum":
                counted = (weights != 0) & (len(self._own) == len(weights))
                var = (self._own if counted.any() else np.zeros(len(weights))) + uploads.channel.noise_std**2
                share = np.where(counted, (weights / (facts.weight or 1.0)) ** 2 * var, 0.0)
                draw.beside = np.bincount(uploads.made.model, weights=share, minlength=len(draw.hidden))
        for defense in self.learning.defenses:
            self.norms[defense.label, *key] = defense.promise(states[defense.word])
        kept = {
            word: states[word] for word in states if word.startswith(("defense.", "server_optimiser.", "aggregation"))
        }
        if self.base is None:
            self.published[key] = model, kept
        elif key in self.base.published:
            model, known = self.base.published[key]
            states.update(known)
        return model


def _true(spends: list[Spend]) -> list[Spend]:
    """Spends that guarantee something about users or records."""
    return [spend for spend in spends if spend.unit not in (PRINTED, LOCATION)]
