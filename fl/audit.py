r"""Audits of privacy noise: two plays of a study with the same draws, compared before all noise, and the noise itself.

A neighbour is the same study without the measurements of one UE, or with other updates of it. Composition is adaptive,
so it goes on from what the first play published: then what it moves in a round is moved by its own update, and the
draws of all rounds that one receiver sees are together one Gaussian with

    mu^2 = sum (moved / std)^2

of which epsilon follows. A server sees rows, or sums of rows; a reader of models sums, and counts with noise at the
server. Noise of a UE's own within a sum moves it as its update does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
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
from fl.types import LOCATION, DenseUpdates, Model, RoundContext, Spend, State, Updates
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
_WINDOWS, _WHO = "which windows are played", "who sends to which model"
_NO_EPSILON = re.compile("no epsilon|as given")  # what warnings say of what they name


@dataclass(frozen=True, eq=False)
class Draw:
    """What a draw of noise hides: numbers (d,), in the unit of its spend, of which it is entry k.

    view : what an attacker must see to see it; bands : rounds over which the noise is correlated. A public value has no
    spend, and the view `server`.
    """

    hidden: FloatArray
    view: str = "server"
    spend: Spend | None = None
    k: int = 0
    bands: int = 1


Draws = dict[tuple[str, int, str, int, int], Draw]
"""by mechanism or name, round, quantity (and phase), UE (-1: all of them) and model"""
Moved = list[tuple[Draw, float]]
"""draws, and how far they move"""


@dataclass(eq=False)
class Recording(Probe):
    """What one play hides and publishes. ues : whose rows are kept, in a neighbour the one that `change` is about.

    base : the play whose published values are put in place of this one's. noise : of mechanisms and rounds, in booked
    deviations (k, d), and how far its variance may lie above (rounding). fewest : updates in a sum that was opened.
    """

    learning: Learning
    ues: IntArray
    streams: Streams
    change: str = ""
    base: Recording | None = None
    fewest: float = np.inf
    rounds: int = 1
    draws: Draws = field(default_factory=dict)
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

    def drew(
        self, defense: Defense, before: Updates | FloatArray, after: Updates | FloatArray, spends: list[Spend],
        facts: RoundContext, state: State,
    ) -> None:  # fmt: skip
        at_server = isinstance(before, np.ndarray)
        before, after = (_rows_of(of, facts.weight or 1.0) for of in (before, after))
        now, central, label = self._now, "central noise" in defense.offers, defense.label
        chain = self.learning.defenses
        shared = "shared noise" in defense.offers or getattr(defense, "noise", "") == "shares"
        view = "model" if at_server else "aggregate" if shared else "updates"
        least = self.learning.threat.secagg_threshold or 1
        honest = max(int(getattr(defense, "honest_share", 1.0) * least + _ROUNDING), 1) if shared else 1
        bands = getattr(defense, "bands", None) or 1
        if defense is chain[0] or central:
            now["var"] = np.zeros(len(before.ue))
        if bands > 1 and at_server:  # booked once, for all rounds
            spends = now[label] = spends or now[label]
        for spend in spends:
            if spend.unit in (PRINTED, LOCATION) or not len(spend.ue):
                continue
            if spend.model[0] < 0:  # of a bit of each UE
                bits = np.array([state.bits.sum() - len(state.bits) / 2])
                self.draws[label, facts.round, f"count ({now['phase']})", -1, -1] = Draw(bits, view, spend)
                continue
            of, grain = before.model, state.grain if spend.whole else 1.0
            if not spend.whole:
                paid, rows = (spend.model, before.model) if at_server else (row_id(spend.ue, spend.model), before.row)
                entry = {row: k for k, row in enumerate(paid.tolist())}
                of = np.array([entry.get(row, -1) for row in rows.tolist()], dtype=np.int64)
            now["before"] = now["before"] if now["var"].any() else before
            now["var"] = now["var"] + np.where(of >= 0, spend.std[of] * grain, 0.0) ** 2 / honest
            now |= {"after": after, "name": label, "step": grain * spend.whole}
            for i in np.flatnonzero(np.isin(before.ue, [*self.ues, -1]) & (of >= 0)).tolist():
                key = label, facts.round, f"{'sum' if at_server else 'row'} ({now['phase']})"
                hidden = before.rows(np.array([i]))[0] / grain
                self.draws[*key, int(before.ue[i]), int(before.model[i])] = Draw(hidden, view, spend, int(of[i]), bands)
        some = np.flatnonzero(now["var"])
        if self.base is None and len(some) and (central if at_server else defense is chain[-1]):
            sent = after if self.learning.noise_in_shares else now["after"]
            update, std = now["before"].rows(some), np.sqrt(now["var"][some])
            unit, slack = (sent.rows(some) - update) / std[:, None], (now["step"] / std.min()) ** 2 / 4
            if bands > 1:  # C times the noise of the rounds is white
                unit = unit / sensitivity(facts.rounds, bands, facts.separation)
                past = now["past"] = [unit, *now.get("past", [])][:bands]
                unit = np.tensordot(coefficients(len(past)), np.stack(past), axes=1)
            self.noise.append((now["name"], facts.round, unit, slack))
            if self.learning.noise_in_shares:
                along = (unit * update).sum(axis=1) / np.maximum(np.linalg.norm(update, axis=1), 1e-300)
                self.noise.append((f"{label}, along updates", facts.round, along[update.any(axis=1), None], slack))

    def merged(
        self, facts: RoundContext, uploads: Uploads, fewest: int | None, model: Model, states: dict[str, State]
    ) -> Model:
        self.fewest = min(self.fewest, np.inf if fewest is None else fewest)
        self.rounds = facts.rounds
        seen = {
            _WHO: uploads.weight * 0.0, "the losses": uploads.staleness,
            "how many samples weigh in": uploads.weight, "what one UE moves of others": uploads.made.norm(),
        }  # fmt: skip
        norms = [of.promise(states[of.word]) or 0.0 for of in self.learning.defenses if "spend" not in of.offers]
        key = facts.round, self._now["phase"]
        self.draws[_WINDOWS, *key, -1, 0] = Draw(np.array([facts.time_s]))
        self.draws["the clip norm", *key, -1, 0] = Draw(np.array(norms))
        for name, values in seen.items():
            rows = zip(uploads.ue.tolist(), uploads.made.model.tolist(), values, strict=True)
            self.draws |= {(name, *key, *of): Draw(np.array([value])) for *of, value in rows}
        kept = {word: state for word, state in states.items() if word.startswith(("defense", "server", "aggr"))}
        model, kept = (self.base or self)._published.setdefault(key, (model, kept))
        states.update(kept)
        return model


def _rows_of(of: Updates | FloatArray, weight: float) -> Updates:
    """Updates as they are; of merged ones (n_model, d) the sums, which are rows of nobody."""
    if isinstance(of, Updates):
        return of
    n = len(of)
    return DenseUpdates(np.full(n, -1), np.arange(n), np.ones(n), of / weight)


def compared(one: Recording, other: Recording, pair: str, ue: int, said: Sequence[str]) -> tuple[list[Row], Moved]:
    """Rows of the table `audit` of two plays that differ in a UE, and how far each draw moves.

    said : warnings of the run, by which a value that moves is a caveat.
    """
    relations = [*PAIRS.values()][: [*PAIRS].index(pair) + 1]  # presence is hidden from closer neighbours, too
    moved, past, rows = dict[object, tuple[Draw, float]](), dict[object, list[FloatArray]](), list[Row]()
    for key, draw in {**other.draws, **one.draws}.items():
        name, number, quantity, owner, m = key
        spend, both = draw.spend, key in one.draws and key in other.draws
        difference = one.draws[key].hidden - other.draws[key].hidden if both else np.array([np.inf])
        size, booked, of = float(np.linalg.norm(difference.astype(float))), 0.0, key
        if spend is None:
            size = min(size, 1.0)  # a value moves, or does not
            if owner == ue or not (both or name in (_WINDOWS, _WHO)):
                continue
        elif owner not in (ue, -1) or spend.relation not in relations:
            continue
        else:
            booked = float(spend.sensitivity[draw.k])
            if draw.bands > 1:  # one release, of C times what moves: so far
                of = name, m
                past[of] = [difference, *past.get(of, [])][: draw.bands]
                now = np.tensordot(coefficients(len(past[of])), np.stack(past[of]), axes=1)
                now = now / sensitivity(one.rounds, draw.bands, one.learning.separation)
                size = float(np.hypot(np.linalg.norm(now), moved[of][1] if of in moved else 0.0))
            moved[of] = draw, size
        stated = any((name if spend is None else "losses") in line and _NO_EPSILON.search(line) for line in said)
        verdict = "within" if size <= booked * (1 + _ROUNDING) else "caveat" if stated else "violated"
        if spend.relation == PAIRS[pair] if spend else verdict != "within":
            found = {"moved": size, "sensitivity": booked, "verdict": verdict, "half": "neighbours"}
            rows.append({"mechanism": name, "round": number, "view": draw.view, "quantity": quantity, **found})
    return rows, [*moved.values()]


def cost(moved: Moved, pair: str, ue: int, statements: Sequence[PrivacyStatement]) -> Iterator[Row]:
    """Rows that hold all draws that a pair moves, and one receiver sees, against the largest epsilon that the ledger
    states of one unit and relation of them.

    Where a coin amplifies a draw, both are without it, over the rounds in which the UE took part.
    """
    central = any(draw.view == "model" and len(draw.hidden) > 1 for draw, _ in moved)
    for view in ("updates", "model"):
        views = ("aggregate", view) if central else ("aggregate", view, "updates")
        mu2, groups, upper, delta = 0.0, dict[tuple[str, str], dict[str, float]](), 0.0, 0.5
        for draw, size in moved:
            if size and draw.view in views and draw.spend is not None:
                mu2 += (size / max(draw.spend.std[draw.k], 1e-300)) ** 2
                of = groups.setdefault(draw.spend.account.group, {})
                coin = draw.spend.counts_on_sampling * draw.spend.cost(with_channel=False)[draw.k]
                of[draw.spend.mechanism] = of.get(draw.spend.mechanism, 0.0) + float(coin)
        for said in statements:
            booked = groups.get(said.account.group, {})
            if said.mechanism == ALL or booked.keys() == {said.mechanism}:
                coins = epsilon_of(said.delta, float(np.sqrt(sum(booked.values()))))
                upper, delta = max((upper, delta), (max(float(said.epsilon[ue]), coins), said.delta))
        if any(relation == PAIRS[pair] for _, relation in groups):
            lower = epsilon_of(delta, float(np.sqrt(mu2)))
            found = {"lower": lower, "upper": upper, "verdict": "within" if lower <= upper * (1 + 1e-6) else "violated"}
            yield {"mechanism": ALL, "round": 0, "view": view, "half": "ledger", "quantity": "epsilon", **found}


def of_noise(one: Recording) -> Iterator[Row]:
    """Rows on the noise of a play: its deviation in every round, the two draws most alike, and the shares in sums.

    Sums of squares lie within their chi-square interval, the cosine of any two draws within the normal one; LEVEL is
    divided by the number of tests.
    """
    from scipy.stats import chi2, norm

    noise = [of for of in one.noise if of[2].size]
    level, heads = LEVEL / (2 * len(noise) + 2), [np.zeros((0, _HEAD))]
    for name, number, unit, slack in noise:
        low, high = np.sqrt(chi2.isf([1 - level, level], unit.size) / unit.size)
        yield _of_noise(name, number, "std", float(np.sqrt((unit**2).mean())), low, high * (1 + slack))
        if unit.shape[1] > 1:
            heads.append(np.pad(unit[:, :_HEAD], ((0, 0), (0, _HEAD - min(unit.shape[1], _HEAD)))))
    some = np.concatenate(heads)[:_MOST]
    numbers = (some != 0).sum(axis=1).min(initial=_HEAD)
    cosine = np.triu(np.abs(some @ some.T), 1) / np.maximum(np.sqrt(np.outer(*[(some**2).sum(axis=1)] * 2)), 1e-300)
    high = min(float(norm.isf(level / max(len(some), 1) ** 2) / np.sqrt(numbers)), 1 - 1e-6)
    yield _of_noise(ALL, 0, "correlation of two draws", float(cosine.max(initial=0.0)), 0.0, high)
    if one.learning.noise_in_shares:
        least = one.learning.threat.secagg_threshold or 1
        yield _of_noise(ALL, 0, "updates in a sum", one.fewest, least, np.inf)


def _of_noise(name: str, number: int, quantity: str, moved: float, low: float, high: float) -> Row:
    verdict = "within" if low <= moved <= high else "violated"
    booked = {"std": 1.0, "updates in a sum": low}.get(quantity, 0.0)
    found = {"half": "noise", "quantity": quantity, "moved": moved, "sensitivity": booked, "verdict": verdict}
    return {"mechanism": name, "round": number, "view": "", **found}
