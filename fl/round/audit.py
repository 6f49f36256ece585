r"""Audits of privacy noise: two plays of a study with the same draws, compared before all noise,
and the noise itself.

A neighbour is the same study without the measurements of one UE, or with other updates of it.
Composition is adaptive, so it goes on from what the first play published: then what it moves in a
round is moved by its own update, and the draws of all rounds that one receiver sees are together
one Gaussian with

    mu^2 = sum (moved / std)^2

of which epsilon follows. A server reads rows, or sums of rows; a reader of models sums, and counts
with noise at the server. Noise of a UE's own within a sum moves it as its update does.
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
from fl.privacy.banded import coefficients, sensitivity
from fl.privacy.gaussian import epsilon_of
from fl.privacy.ledger import ALL, Ledger
from fl.round.learning import Learning
from fl.round.probe import Probe
from fl.round.uploads import Uploads
from fl.types import LOCATION, Account, Model, RoundContext, Spend, State, Updates
from netsim.record import Row
from netsim.rng import Streams
from netsim.units import FloatArray, IntArray

LEVEL = 0.001
"""at which noise that is as it is booked is called `violated`, all tests of an audit together"""
PAIRS = {"removed": "add-remove", "zeroed": "zero-out", "replaced": "replace"}
"""pair of plays -> the relation whose neighbours they are"""
_LONG = {
    "zeroed": 0.0,
    "plus": 10.0,
    "minus": -10.0,
}  # clip norms of an update that stands in for that of a UE
# draws of noise that are compared with each other, and numbers of each
_MOST = 2000
_HEAD = 256
_ROUNDING = 1 + 1e-9
_NO_EPSILON = re.compile("no epsilon|as given")  # what warnings say of what they name


@dataclass(eq=False)
class Draw:
    """Noise on rows of a UE, or on the sums or a count of all: hidden (k, d), and the noise (k, d)
    itself, none where it is not known.

    std, sensitivity : of each row as they are booked; parts : in how many shares the noise is
    drawn; view : what an attacker must see to see it; coin : whether one amplifies it; bands :
    rounds over which it is correlated; alike : whether the noise is the same for each update, not
    so where numbers are rounded at random.
    """

    account: Account
    hidden: FloatArray
    noise: FloatArray
    std: FloatArray
    sensitivity: float
    parts: int
    view: str
    coin: bool
    bands: int
    alike: bool


@dataclass(eq=False)
class Recording(Probe):
    """What one play hides and publishes. ues : whose rows are kept, in a neighbour the one that
    `change` is about.

    base : the play whose published values are put in place of this one's. draws : by mechanism,
    round, what is hidden, and UE, -1 for all. public : by name, round and phase what all may see of
    UEs (n,), and whose it is. fewest : updates in a sum that was opened; rounds : of the run at
    most.
    """

    learning: Learning
    ues: list[int]
    streams: Streams
    change: str = ""
    base: Recording | None = None
    draws: dict[tuple[str, int, str, int], Draw] = field(default_factory=dict)
    public: dict[tuple[str, int, str], tuple[IntArray, Any]] = field(default_factory=dict)
    fewest: float = np.inf
    rounds: int = 1
    _phase: str = ""
    _open: list[tuple[int, float, Draw]] = field(default_factory=list)
    _booked: list[Spend] = field(default_factory=list)
    _published: dict[object, Any] = field(default_factory=dict)

    def taken(self, taken: TakenData) -> TakenData:
        """With another sample in place of the first one of a UE (`record`)."""
        train = taken.train
        which = np.arange(len(taken.train.x))
        if self.change == "record":
            which[np.flatnonzero(np.isin(train.ue, self.ues)[train.row_of_sample])[:1]] = (
                len(which) - 1
            )
        y = None if train.y is None else train.y[which]
        return replace(taken, train=replace(train, x=train.x[which], y=y))

    def made(self, made: Updates, norm: float | None) -> Updates:
        self._phase = made.phase
        self._open = []
        length = _LONG.get(self.change, np.nan) * (1.0 if norm is None else norm)
        if np.isnan(length):
            return made
        values = np.array(made.rows(slice(None)), dtype=float)
        mine = np.isin(made.ue, self.ues)
        way = self.streams.at("audit").normal("way", made.ue[mine], (made.n_parameters,))
        values[mine] = length * way / np.linalg.norm(way, axis=1, keepdims=True)
        return made.with_values(values, made.bound)

    def drew(
        self,
        defense: Defense,
        before: Updates | FloatArray,
        after: Updates | FloatArray,
        spends: list[Spend],
        facts: RoundContext,
        state: State,
    ) -> Any:
        """Keep what each spend hides and its noise, as a `Draw`; a noisy sum becomes the one that
        `base` published.
        """
        learning = self.learning
        bands = getattr(defense, "bands", None) or 1
        at_server = isinstance(before, np.ndarray)
        shares = learning.noise_in_shares
        if bands > 1 and at_server:  # booked once, for all rounds
            spends = self._booked = spends or self._booked
        view = "model" if at_server else "aggregate" if shares else "updates"
        honest = getattr(defense, "honest_share", 0.0) * (learning.threat.secagg_threshold or 1)
        parts = max(int(honest * _ROUNDING), 1) if view == "aggregate" else 1
        for ue in [-1] if at_server else self.ues:
            rows = _rows_of(before, ue, facts)
            noise = _rows_of(after, ue, facts) - _rows_of(before, ue, facts)
            for (
                owner,
                grain,
                draw,
            ) in self._open:  # steps after shares of noise change what is in the sum
                draw.noise = draw.noise + noise / grain if owner == ue else draw.noise
            for spend in spends:
                mine = np.flatnonzero((spend.ue == ue) | (spend.ue < 0) | at_server)
                if spend.unit in (PRINTED, LOCATION) or not len(mine) or not len(rows):
                    continue
                grain = state.grain if spend.whole else 1.0
                if spend.model[0] < 0:  # of a bit of each UE
                    owner = -1
                    what = "count"
                    hidden = np.array([[state.bits.sum() - len(state.bits) / 2]])
                    drawn = state.excess - hidden if at_server else hidden[:0]
                else:
                    owner = ue
                    what = "sum" if at_server else "row"
                    hidden = rows / grain
                    drawn = noise / grain
                std = spend.std[mine[: len(hidden)]]
                booked = spend.sensitivity[mine[0]]
                coin = spend.counts_on_sampling
                draw = Draw(
                    spend.account,
                    hidden,
                    drawn,
                    std,
                    booked,
                    parts,
                    view,
                    coin,
                    bands,
                    defense.bits_per_number is None,
                )
                key = spend.mechanism, facts.round, f"{what} ({self._phase})", owner
                self.draws[key] = draw
                self._open += [(ue, grain, draw)] if view == "aggregate" and what == "row" else []
                if what == "sum":  # then what follows it is the same
                    after = (self.base or self)._published.setdefault(key, after)
        return after

    def merged(
        self,
        facts: RoundContext,
        uploads: Uploads,
        fewest: int | None,
        model: Model,
        states: dict[str, State],
    ) -> Model:
        key = (facts.round, self._phase)
        self.rounds = facts.rounds
        self.fewest = min(self.fewest, np.inf if fewest is None else fewest)
        seen = {
            "which windows are played": [facts.time_s] * len(uploads.ue),
            "who sends to which model": uploads.row,
        }
        seen |= {
            "how many samples weigh in" if facts.weight is None else "the losses": uploads.weight
        }
        kept = {
            word: state
            for word, state in states.items()
            if word.startswith(("defense", "server", "aggr"))
        }
        known, kept = (self.base or self)._published.setdefault(key, (model.parameters, kept))
        alike = not self.learning.hides_who_came or np.allclose(
            model.parameters, known, equal_nan=True
        )
        seen |= {
            "what one UE moves of others": uploads.made.norm(),
            "the model beside its noise": uploads.row + alike,
        }
        self.public |= {
            (name, *key): (uploads.ue, np.asarray(values)) for name, values in seen.items()
        }
        states.update(kept)
        return replace(model, parameters=known)

    def discarded(self, number: int) -> None:
        self.draws = {key: draw for key, draw in self.draws.items() if key[1] != number}


def _rows_of(of: Updates | FloatArray, ue: int, facts: RoundContext) -> FloatArray:
    """Rows (k, d) of a UE; of merged updates the sums (M, d), in units of one update."""
    if isinstance(of, Updates):
        return of.rows(np.flatnonzero(of.ue == ue))
    return of / (facts.weight or 1.0)


def compared(
    one: Recording, other: Recording, pair: str, ue: int, said: Sequence[str], ledger: Ledger
) -> Iterator[Row]:
    """Rows of the table `audit` of two plays that differ in a UE: what each draw moves, and what
    all of them prove.

    said : warnings of the run, by which a value that moves is a caveat; ledger : at its end, of
    which the largest epsilon of one unit and relation is the bound. Draws that a coin amplifies are
    compared one by one only.
    """
    relations = [*PAIRS.values()][
        : [*PAIRS].index(pair) + 1
    ]  # presence is hidden from closer neighbours, too
    # draw (banded: all of a mechanism) -> itself, the last of them, and the norms (k,) by which its
    # rows move
    moved = dict[object, tuple[Draw, FloatArray]]()
    past = list[FloatArray]()
    for key, draw in one.draws.items():
        if key[3] not in (ue, -1) or draw.account.relation not in relations:
            continue
        there = other.draws.get(key)
        of = key if draw.bands == 1 else key[0]
        found = {
            "mechanism": key[0],
            "round": key[1],
            "view": draw.view,
            "half": "neighbours",
            "quantity": key[2],
        }
        difference = np.full((1, 1), np.inf)  # where the other play draws nothing
        if there is not None and there.hidden.shape == draw.hidden.shape:
            difference = draw.hidden - there.hidden
            if draw.alike and not np.allclose(
                draw.noise, there.noise, 1e-6, 1e-6 * draw.std.max(), equal_nan=True
            ):
                yield found | {"quantity": f"noise of {key[2]}", "verdict": "violated"}
        if draw.bands > 1:  # one release, of C times what moves: so far
            past = [difference, *past][: draw.bands]
            worst = sensitivity(one.rounds, draw.bands, one.learning.separation)
            difference = np.tensordot(coefficients(len(past)), np.stack(past), axes=1) / worst
        size = np.linalg.norm(difference, axis=1)
        moved[of] = draw, np.hypot(size, moved[of][1]) if of in moved else size
        largest = moved[of][1].max()
        if draw.account.relation == PAIRS[pair]:
            beyond = _verdict("losses", said) if key[2].startswith("sum") else "violated"
            verdict = "within" if largest <= draw.sensitivity * _ROUNDING else beyond
            yield {**found, "moved": largest, "sensitivity": draw.sensitivity, "verdict": verdict}
    yield from moved_values(one.public, other.public, ue, said)
    yield from _proven([*moved.values()], ue, said, ledger)


def _proven(
    moved: list[tuple[Draw, FloatArray]], ue: int, said: Sequence[str], ledger: Ledger
) -> Iterator[Row]:
    """Rows on the epsilon that all draws of a view prove, and by how much (k,) they move, beside
    that of the ledger.
    """
    central = any(draw.view == "model" and draw.hidden.size > 1 for draw, _ in moved)
    for view in ("updates", "model"):
        views = ("aggregate", view) if central else ("aggregate", view, "updates")
        seen = [
            (draw, size)
            for draw, size in moved
            if draw.view in views and size.any() and not draw.coin
        ]
        names = {(draw.account.group, draw.account.mechanism) for draw, _ in seen}
        groups = [group for group, _ in names]
        bounds = [
            (float(of.epsilon[ue]), of.delta)
            for of in ledger.statements()
            if of.account.group in groups and of.mechanism in (ALL, *dict(names).values())
            if of.mechanism == ALL or groups.count(of.account.group) == 1
        ]
        if bounds and all(draw.std.all() for draw, _ in seen):
            upper, delta = max(bounds)
            mu2 = sum(((size / draw.std) ** 2).sum() for draw, size in seen)
            lower = epsilon_of(delta, np.sqrt(mu2))
            if lower <= upper * (1 + 1e-6):
                verdict = "within"
            else:
                verdict = _verdict("losses" if central else ALL, said)
            yield {
                "mechanism": ALL,
                "round": 0,
                "view": view,
                "half": "ledger",
                "quantity": "epsilon",
                "lower": lower,
                "upper": upper,
                "verdict": verdict,
            }


def _verdict(name: str, said: Sequence[str]) -> str:
    """Whether a warning says that what has this name may move."""
    if any(name in line and _NO_EPSILON.search(line) for line in said):
        return "caveat"
    return "violated"


def moved_values(one: Any, other: Any, owner: int, said: Sequence[str]) -> Iterator[Row]:
    """Rows on public values (see `Recording`) that differ in UEs other than the owner."""
    for key in sorted(one.keys() | other.keys()):
        ours, theirs = (
            of[key][1][of[key][0] != owner] if key in of else np.zeros(0) for of in (one, other)
        )
        if ours.shape != theirs.shape or not np.allclose(
            ours, theirs, rtol=1e-9, atol=0.0, equal_nan=True
        ):
            found = {
                "mechanism": key[0],
                "round": key[1],
                "view": "server",
                "half": "neighbours",
                "quantity": "value",
            }
            yield {**found, "moved": 1.0, "sensitivity": 0.0, "verdict": _verdict(key[0], said)}


def of_noise(one: Recording) -> Iterator[Row]:
    """Rows on the noise of a play: its deviation in every round, the two draws most alike, and the
    shares in sums.

    Sums of squares of all numbers and of the quietest part of them lie above the lower end of a
    chi-square interval, the cosine of any two draws within the normal one; LEVEL is divided by the
    number of tests.
    """
    from scipy.stats import chi2, norm

    level = LEVEL / (9 * len(one.draws) + 2)
    units = list[FloatArray]()
    past = list[FloatArray]()
    tests: list[Any] = []
    for (name, number, quantity, _), draw in one.draws.items():
        if not draw.noise.size * draw.std.all():
            continue
        unit = draw.noise / draw.std[:, None] * np.sqrt(draw.parts)
        if draw.bands > 1:  # C times the noise of the rounds is white
            past = [unit / sensitivity(one.rounds, draw.bands, one.learning.separation), *past][
                : draw.bands
            ]
            unit = np.tensordot(coefficients(len(past)), np.stack(past), axes=1)
        for some in (
            unit,
            min(np.array_split(unit, 8, axis=1)[: unit.shape[1]], key=np.linalg.norm),
        ):
            least = np.sqrt(chi2.isf(1 - level, some.size) / some.size)
            tests.append(
                (name, number, f"std of {quantity}", np.sqrt((some**2).mean()), least, np.inf)
            )
        units += [] if quantity.startswith("count") else [*unit[:, :_HEAD]]
    d = min(map(len, units), default=0)
    firsts = np.array([unit[:d] / np.linalg.norm(unit[:d]) for unit in units[:_MOST]])
    cosine = np.triu(np.abs(firsts @ firsts.T), 1).max(initial=0.0)
    if d:
        high = min(norm.isf(level / len(firsts) ** 2) / np.sqrt(d), 1 - 1e-6)
    else:
        high = 1.0
    tests.append((ALL, 0, "correlation of two draws", cosine, 0.0, high))
    if one.learning.noise_in_shares:
        tests.append(
            (
                ALL,
                0,
                "updates in a sum",
                one.fewest,
                one.learning.threat.secagg_threshold or 1,
                np.inf,
            )
        )
    for name, number, quantity, moved, low, high in tests:
        verdict = "within" if low <= moved <= high else "violated"
        found = {
            "mechanism": name,
            "round": number,
            "half": "noise",
            "quantity": quantity,
            "moved": moved,
        }
        yield {**found, "sensitivity": low or high, "verdict": verdict}
