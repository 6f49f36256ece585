r"""Audits of privacy noise: two plays of a study with the same draws, compared before all noise, and the noise itself.

A neighbour is the same study without the measurements of one UE, or with other updates of it. Composition is adaptive,
so it goes on from what the first play published: then what it moves in a round is moved by its own update, and the
draws of all rounds that one receiver sees are together one Gaussian with

    mu^2 = sum (moved / std)^2

of which epsilon follows. A server sees rows, or sums of rows; a reader of models sums, and counts with noise at the
server. Noise of a UE's own within a sum moves it as its update does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from fl.data import TakenData
from fl.defenses import Defense
from fl.defenses.budgeted import PRINTED
from fl.learning import Learning
from fl.privacy.banded import coefficients, sensitivity
from fl.privacy.gaussian import epsilon_of
from fl.privacy.ledger import ALL, PrivacyStatement
from fl.round.probe import Probe
from fl.round.uploads import Uploads
from fl.types import LOCATION, Model, RoundContext, Spend, State, Updates
from netsim.columns import row_id
from netsim.record import Row
from netsim.rng import Streams
from netsim.units import FloatArray, IntArray

LEVEL = 0.001
"""at which noise that is as it is booked is called `violated`, all tests of an audit together"""
PAIRS = {"removed": "add-remove", "zeroed": "zero-out", "replaced": "replace"}
"""pair of plays -> the relation whose neighbours they are"""
_LONG = {"zeroed": 0.0, "plus": 10.0, "minus": -10.0}  # clip norms: length of the updates that stand in for a UE's
_MOST = 2000  # draws of noise that are compared with each other,
_HEAD = 256  # and numbers of each
_ROUNDING = 1e-9  # relative


@dataclass(frozen=True, eq=False)
class Draw:
    """What a draw of noise hides: numbers (d,), in the unit of its spend, of which it is entry k.

    view : what an attacker must see to see it; bands : rounds over which the noise is correlated.
    """

    spend: Spend
    k: int
    hidden: FloatArray
    view: str
    bands: int = 1


@dataclass(eq=False)
class Recording(Probe):
    """What one play hides and publishes. ues : whose rows are kept, in a neighbour the one that `change` is about.

    base : the play whose published values are put in place of this one's. draws : by mechanism, round, phase, what is
    hidden, UE (-1: all) and model. public : by name, round and phase what all may see of UEs, and whose it is. noise : of
    mechanisms and rounds, in booked deviations (k, d), and how far its variance may lie above (rounding).
    """

    learning: Learning
    ues: IntArray
    streams: Streams
    change: str = ""
    base: Recording | None = None
    rounds: int = 1
    fewest: float = np.inf
    draws: dict[tuple[str, int, str, str, int, int], Draw] = field(default_factory=dict)
    public: dict[tuple[str, int, str], tuple[IntArray, FloatArray]] = field(default_factory=dict)
    noise: list[tuple[str, int, FloatArray, float]] = field(default_factory=list)
    _published: dict[tuple[int, str], Any] = field(default_factory=dict)
    _now: dict[str, Any] = field(default_factory=dict)

    def taken(self, taken: TakenData) -> TakenData:
        """With other samples in place of all of a UE (`replaced`), or of its first one (`record`)."""
        train = taken.train
        mine = np.isin(train.ue, self.ues)[train.row_of_sample] & (self.change in ("replaced", "record"))
        if self.change == "record":
            mine &= np.cumsum(mine) == 1
        x = np.where(mine[:, None], train.x[::-1], train.x)
        y = None if train.y is None else np.where(mine, train.y[::-1], train.y)
        return replace(taken, train=replace(train, x=x, y=y)) if mine.any() else taken

    def made(self, made: Updates, norm: float | None) -> Updates:
        self._now["phase"] = made.phase
        if self.change not in _LONG or (norm is None and self.change != "zeroed"):
            return made
        values, mine = np.array(made.rows(slice(None)), dtype=float), np.isin(made.ue, self.ues)
        way = self.streams.at("audit").normal("way", made.ue[mine], (made.n_parameters,))
        values[mine] = _LONG[self.change] * (norm or 0.0) * way / np.linalg.norm(way, axis=1, keepdims=True)
        return made.with_values(values, made.bound)

    def protected(
        self, defense: Defense, before: Updates, after: Updates, spends: list[Spend], facts: RoundContext, state: State
    ) -> None:
        chain, now, in_shares = self.learning.defenses, self._now, self.learning.noise_in_shares
        shared = "shared noise" in defense.offers or getattr(defense, "noise", "") == "shares"
        least = self.learning.threat.secagg_threshold or 1
        honest = max(int(getattr(defense, "honest_share", 1.0) * least + _ROUNDING), 1) if shared else 1
        view = "aggregate" if shared else "updates"
        if defense is chain[0] or "central noise" in defense.offers:
            now["var"] = np.zeros(len(before.ue))
        for spend in _true(spends):
            if spend.model[0] < 0:  # of a bit of each UE
                self._add("count", facts, Draw(spend, 0, defense.hidden(before.count, 1.0, state)[0], view))
                continue
            step = state.grain if spend.whole else 1.0
            of = np.full(before.row.max(initial=0) + 1, -1)
            of[row_id(spend.ue, spend.model)] = np.arange(len(spend.ue))
            of = before.model if spend.whole else of[before.row]
            now["before"] = now["before"] if now["var"].any() else before
            now["var"] += np.where(of >= 0, spend.std[of] * step, 0.0) ** 2 / honest
            now |= {"after": after, "name": defense.label, "step": step * spend.whole}
            for i in np.flatnonzero(np.isin(before.ue, self.ues) & (of >= 0)).tolist():
                hidden = before.rows(np.array([i]))[0] / step
                self._add("rows", facts, Draw(spend, int(of[i]), hidden, view), int(before.ue[i]), int(before.model[i]))
        some = np.flatnonzero(now["var"])
        if self.base is None and defense is chain[-1] and len(some):
            update, std = now["before"].rows(some), np.sqrt(now["var"][some])
            unit = ((after if in_shares else now["after"]).rows(some) - update) / std[:, None]
            slack = (now["step"] / std.min()) ** 2 / 4
            along = (unit * update).sum(axis=1) / np.maximum(np.linalg.norm(update, axis=1), 1e-300)
            self.noise.append((now["name"], facts.round, unit, slack))
            if in_shares:
                self.noise.append(
                    (f"{now['name']}, along updates", facts.round, along[update.any(axis=1), None], slack)
                )

    def finished(
        self, defense: Defense, before: FloatArray, after: FloatArray, spends: list[Spend], facts: RoundContext,
        state: State,
    ) -> None:  # fmt: skip
        weight, bands, now = facts.weight or 1.0, getattr(defense, "bands", None) or 1, self._now
        for spend in _true(spends) or now.get(f"banded {defense.label}", []):
            hidden = defense.hidden(before, weight, state)
            quantity = "count" if spend.model[0] < 0 else "sum"
            for k, numbers in enumerate(hidden):
                self._add(quantity, facts, Draw(spend, k, numbers, "model", bands), -1, k)
            unit = (after - before) / (spend.std * weight)[:, None]
            if bands > 1:  # booked once for all rounds; C times the noise of the rounds is white
                now[f"banded {defense.label}"] = [spend]
                unit = unit / sensitivity(facts.rounds, bands, facts.separation)
                past = now["past"] = [unit, *now.get("past", [])][:bands]
                unit = np.tensordot(coefficients(len(past)), np.stack(past), axes=1)
            if quantity == "sum":
                self.noise.append((defense.label, facts.round, unit, 0.0))

    def merged(
        self, facts: RoundContext, uploads: Uploads, fewest: int | None, model: Model, states: dict[str, State]
    ) -> Model:
        key, self.rounds = (facts.round, self._now["phase"]), facts.rounds
        self.fewest = min(self.fewest, np.inf if fewest is None else fewest)
        seen = {
            "who sends to which model": uploads.row, "the losses": uploads.staleness,
            "how many samples weigh in": uploads.weight, "updates of others": uploads.made.norm(),
        }  # fmt: skip
        seen |= {
            f"the norm of {of.label}": np.full(len(uploads.ue), of.promise(states[of.word]) or 0.0)
            for of in self.learning.defenses
            if "spend" not in of.offers
        }
        self.public |= {(name, *key): (uploads.ue, values) for name, values in seen.items()}
        kept = {word: state for word, state in states.items() if word.startswith(("defense", "server", "aggr"))}
        model, kept = (self.base or self)._published.setdefault(key, (model, kept))
        states.update(kept)
        return model

    def _add(self, quantity: str, facts: RoundContext, draw: Draw, ue: int = -1, model: int = -1) -> None:
        self.draws[draw.spend.mechanism, facts.round, self._now["phase"], quantity, ue, model] = draw


def _true(spends: Iterable[Spend]) -> list[Spend]:
    """Spends that guarantee something about users or records."""
    return [spend for spend in spends if spend.unit not in (PRINTED, LOCATION) and len(spend.ue)]


def row_of(**given: object) -> Row:
    """A row of the table `audit`; what is not given is empty, and the verdict `within`."""
    empty = dict.fromkeys(("view", "quantity", "pair", "ue"), "") | dict.fromkeys(("moved", "sensitivity"), np.nan)
    usual = {"mechanism": "all", "round": 0, "half": "neighbours", "lower": np.nan, "upper": np.nan}
    return empty | usual | {"verdict": "within"} | given


def compared(
    one: Recording, other: Recording, pair: str, ue: int, said: Sequence[str], statements: Sequence[PrivacyStatement]
) -> Iterator[Row]:
    """Rows of the table `audit` of two plays that differ in a UE.

    said : warnings of the run, by which a value that moves is a caveat; statements : of the ledger at its end. Where a
    coin amplifies a draw both sides are without it, over the rounds in which the UE took part.
    """
    relations = [*PAIRS.values()][: [*PAIRS].index(pair) + 1]  # presence is hidden from closer neighbours, too
    moved, past = dict[object, tuple[Draw, float]](), dict[object, list[FloatArray]]()
    for key, draw in one.draws.items():
        name, number, phase, quantity, owner, m = key
        spend, k = draw.spend, draw.k
        if spend.relation not in relations or owner not in (ue, -1):
            continue
        difference = draw.hidden - other.draws[key].hidden if key in other.draws else np.array([np.inf])
        size = float(np.linalg.norm(difference.astype(float)))
        of = key
        if draw.bands > 1:  # one release, of C times what moves: so far
            of = name, m
            past[of] = [difference, *past.get(of, [])][: draw.bands]
            now = np.tensordot(coefficients(len(past[of])), np.stack(past[of]), axes=1)
            size = float(np.linalg.norm(now)) / sensitivity(one.rounds, draw.bands, one.learning.separation)
            size = float(np.hypot(size, moved[of][1])) if of in moved else size
        moved[of] = draw, size
        fits = size <= spend.sensitivity[k] * (1 + _ROUNDING)
        caveat = draw.view == "model" and any("losses as given" in line for line in said)
        verdict = "within" if fits else "caveat" if caveat else "violated"
        if spend.relation == PAIRS[pair]:
            booked = {"moved": size, "sensitivity": spend.sensitivity[k], "verdict": verdict}
            yield row_of(mechanism=name, round=number, view=draw.view, quantity=f"{quantity} ({phase})", **booked)
    yield from moved_values(one.public, other.public, ue, said)
    central = any(draw.view == "model" and len(draw.hidden) > 1 for draw, _ in moved.values())
    for view in ("updates", "model"):
        views = ("aggregate", view) if central else ("aggregate", view, "updates")
        seen = [(draw, size) for draw, size in moved.values() if draw.view in views and size]
        if any(draw.spend.relation == PAIRS[pair] for draw, _ in seen):
            yield row_of(view=view, half="ledger", quantity="epsilon", **_cost(seen, ue, statements))


def _cost(seen: Sequence[tuple[Draw, float]], ue: int, statements: Sequence[PrivacyStatement]) -> Row:
    """Epsilon of all draws that a pair moves, and the largest that the ledger states of one unit and relation."""
    upper, delta = 0.0, 0.5
    for of in statements:
        mine = [draw for draw, _ in seen if draw.spend.account.group == of.account.group]
        if not mine or (of.mechanism != ALL and len({draw.spend.mechanism for draw in mine}) > 1):
            continue
        epsilon = float(of.epsilon[ue])
        if any(draw.spend.counts_on_sampling for draw in mine):
            epsilon = epsilon_of(of.delta, float(np.sqrt(sum(draw.spend.cost(False)[draw.k] for draw in mine))))
        upper, delta = max((upper, delta), (epsilon, of.delta))
    mu2 = sum((size / max(draw.spend.std[draw.k], 1e-300)) ** 2 for draw, size in seen)
    lower = epsilon_of(delta, float(np.sqrt(mu2)))
    return {"lower": lower, "upper": upper, "verdict": "within" if lower <= upper * (1 + 1e-6) else "violated"}


def moved_values(one: Any, other: Any, owner: int, said: Sequence[str]) -> Iterator[Row]:
    """Rows on public values (see `Recording`) that differ in UEs other than the owner; a caveat where a warning has
    their name.
    """
    for key in sorted(one.keys() | other.keys()):
        ours, theirs = (of[key][1][of[key][0] != owner] if key in of else np.zeros(0) for of in (one, other))
        if ours.shape != theirs.shape or not np.allclose(ours, theirs, rtol=_ROUNDING, atol=0.0, equal_nan=True):
            stated = any(key[0] in line and ("no epsilon" in line or "as given" in line) for line in said)
            moved = np.abs(ours - theirs).max() if ours.shape == theirs.shape else 1.0
            verdict = "caveat" if stated else "violated"
            yield row_of(mechanism=key[0], round=key[1], view="server", moved=moved, sensitivity=0.0, verdict=verdict)


def of_noise(one: Recording) -> Iterator[Row]:
    """Rows on the noise of a play: its deviation in every round, the pair of draws most alike, and the shares in sums.

    Sums of squares lie within their chi-square interval, the cosine of any two draws within the normal one; LEVEL is
    divided by the number of tests.
    """
    from scipy.stats import chi2, norm

    least = one.learning.threat.secagg_threshold or 1
    noise = [of for of in one.noise if of[2].size]
    heads = np.zeros((sum(len(unit) for _, _, unit, _ in noise if unit.shape[1] > 1), _HEAD))
    level, first = LEVEL / (2 * len(noise) + 2), 0
    for name, number, unit, slack in noise:
        low, high = np.sqrt(chi2.isf([1 - level, level], unit.size) / unit.size)
        ratio = float(np.sqrt((unit**2).mean()))
        yield _noise_row(name, number, "std over booked", ratio, low, high * (1 + slack))
        if unit.shape[1] > 1:
            heads[first : first + len(unit), : unit.shape[1]] = unit[:, :_HEAD]
            first += len(unit)
    some = heads[:_MOST] / np.maximum(np.linalg.norm(heads[:_MOST], axis=1, keepdims=True), 1e-300)
    cosine = float(np.triu(np.abs(some @ some.T), 1).max(initial=0.0))
    numbers = min((min(unit.shape[1], _HEAD) for _, _, unit, _ in noise if unit.shape[1] > 1), default=1)
    high = norm.isf(level / max(len(some), 1) ** 2) / np.sqrt(numbers)
    yield _noise_row("all", 0, "correlation of two draws", cosine, 0.0, min(high, 1 - 1e-6))
    yield _noise_row("all", 0, "updates in a sum", one.fewest, least * one.learning.noise_in_shares, np.inf)


def _noise_row(name: str, number: int, quantity: str, moved: float, low: float, high: float) -> Row:
    verdict = "within" if low <= moved <= high else "violated"
    return row_of(mechanism=name, round=number, half="noise", quantity=quantity, moved=moved, verdict=verdict)
