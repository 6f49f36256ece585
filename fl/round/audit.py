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
from fl.privacy.banded import compute_banded_sensitivity, compute_coefficients
from fl.privacy.gaussian import compute_gaussian_epsilon
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

    def swap_first_sample(self, taken: TakenData) -> TakenData:
        """With another sample in place of the first one of a UE (`record`)."""
        train = taken.train
        n = len(train.x)
        index = np.arange(n)
        if self.change == "record":
            is_own = np.isin(train.ue, self.ues)[train.row_of_sample]
            index[np.flatnonzero(is_own)[:1]] = n - 1
        y = None if train.y is None else train.y[index]
        return replace(taken, train=replace(train, x=train.x[index], y=y))

    def replace_updates(
        self, facts: RoundContext, model: Model, updates: Updates, norm: float | None
    ) -> Updates:
        self._phase = updates.phase
        self._open = []
        length = _LONG.get(self.change, np.nan) * (1.0 if norm is None else norm)
        if np.isnan(length):
            return updates
        values = np.array(updates.all_rows, dtype=float)
        is_own = np.isin(updates.ue, self.ues)
        rng = self.streams.derive_rng("audit")
        way = rng.normal("way", updates.ue[is_own], (updates.n_parameters,))
        values[is_own] = length * way / np.linalg.norm(way, axis=1, keepdims=True)
        return updates.with_values(values, updates.bound)

    def record_noise(
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
        if bands > 1 and at_server:  # booked once, for all rounds
            spends = self._booked = spends or self._booked
        view = "model" if at_server else "updates"
        parts = 1
        if learning.noise_in_shares and not at_server:
            view = "aggregate"
            honest = getattr(defense, "honest_share", 0.0) * (learning.threat.secagg_threshold or 1)
            parts = max(int(honest * _ROUNDING), 1)
        for ue in [-1] if at_server else self.ues:
            rows = _get_rows_or_sums(before, ue, facts)
            noise = _get_rows_or_sums(after, ue, facts) - rows
            # steps after shares of noise change what is in the sum
            for owner, grain, draw in self._open:
                if owner == ue:
                    draw.noise = draw.noise + noise / grain
            for spend in spends:
                if spend.unit in (PRINTED, LOCATION):
                    continue
                is_paid = (spend.ue == ue) | (spend.ue < 0) | at_server
                rows_of_spend = np.flatnonzero(is_paid)
                if not len(rows_of_spend) or not len(rows):
                    continue
                grain = state.grain if spend.whole else 1.0
                if spend.model[0] < 0:  # of a bit of each UE
                    owner = -1
                    kind = "count"
                    hidden = np.array([[state.bits.sum() - len(state.bits) / 2]])
                    drawn = state.excess - hidden if at_server else hidden[:0]
                else:
                    owner = ue
                    kind = "sum" if at_server else "row"
                    hidden = rows / grain
                    drawn = noise / grain
                draw = Draw(
                    spend.account,
                    hidden,
                    drawn,
                    spend.std[rows_of_spend[: len(hidden)]],
                    spend.sensitivity[rows_of_spend[0]],
                    parts,
                    view,
                    spend.counts_on_sampling,
                    bands,
                    defense.bits_per_number is None,
                )
                key = spend.mechanism, facts.round, f"{kind} ({self._phase})", owner
                self.draws[key] = draw
                if view == "aggregate" and kind == "row":
                    self._open.append((ue, grain, draw))
                if kind == "sum":  # then what follows it is the same
                    after = self._publish(key, after)
        return after

    def _publish(self, key: object, value: Any) -> Any:
        """Return what the base play has published by this key, or else publish this value."""
        return (self.base or self)._published.setdefault(key, value)

    def replace_model(
        self,
        facts: RoundContext,
        uploads: Uploads,
        fewest: int | None,
        model: Model,
        states: dict[str, State],
    ) -> Model:
        key = (facts.round, self._phase)
        self.rounds = facts.rounds
        if fewest is not None:
            self.fewest = min(self.fewest, fewest)
        prefixes = ("defense", "server", "aggr")
        kept = {word: state for word, state in states.items() if word.startswith(prefixes)}
        published, kept = self._publish(key, (model.parameters, kept))
        is_alike = True
        if self.learning.hides_who_came:
            is_alike = np.allclose(model.parameters, published, equal_nan=True)
        weights = "how many samples weigh in" if facts.weight is None else "the losses"
        seen = {
            "which windows are played": [facts.time_s] * len(uploads.ue),
            "who sends to which model": uploads.row,
            weights: uploads.weight,
            "what one UE moves of others": uploads.made.norm(),
            "the model beside its noise": uploads.row + is_alike,
        }
        for name, values in seen.items():
            self.public[(name, *key)] = (uploads.ue, np.asarray(values))
        states.update(kept)
        return replace(model, parameters=published)

    def forget_draws(self, number: int) -> None:
        self.draws = {key: draw for key, draw in self.draws.items() if key[1] != number}


def _get_rows_or_sums(updates: Updates | FloatArray, ue: int, facts: RoundContext) -> FloatArray:
    """Rows (k, d) of a UE; of merged updates the sums (M, d), in units of one update."""
    if isinstance(updates, Updates):
        return updates.rows(np.flatnonzero(updates.ue == ue))
    return updates / (facts.weight or 1.0)


def compare_plays(
    play: Recording,
    neighbour: Recording,
    pair: str,
    ue: int,
    warnings: Sequence[str],
    ledger: Ledger,
) -> Iterator[Row]:
    """Rows of the table `audit` of two plays that differ in a UE: what each draw moves, and what
    all of them prove.

    warnings : of the run, by which a value that moves is a caveat; ledger : at its end, of
    which the largest epsilon of one unit and relation is the bound. Draws that a coin amplifies are
    compared one by one only.
    """
    n_relations = [*PAIRS].index(pair) + 1
    relations = [*PAIRS.values()][:n_relations]  # presence is hidden from closer neighbours, too
    # draw (banded: all of a mechanism) -> itself, the last of them, and the norms (k,) by which its
    # rows move
    moved = dict[object, tuple[Draw, FloatArray]]()
    past = list[FloatArray]()
    for key, draw in play.draws.items():
        if key[3] not in (ue, -1) or draw.account.relation not in relations:
            continue
        other_draw = neighbour.draws.get(key)
        release = key if draw.bands == 1 else key[0]
        row = {
            "mechanism": key[0],
            "round": key[1],
            "view": draw.view,
            "half": "neighbours",
            "quantity": key[2],
        }
        difference = np.full((1, 1), np.inf)  # where the other play draws nothing
        if other_draw is not None and other_draw.hidden.shape == draw.hidden.shape:
            difference = draw.hidden - other_draw.hidden
            tolerance = 1e-6 * draw.std.max()
            if draw.alike and not np.allclose(
                draw.noise, other_draw.noise, 1e-6, tolerance, equal_nan=True
            ):
                yield row | {"quantity": f"noise of {key[2]}", "verdict": "violated"}
        if draw.bands > 1:  # one release, of C times what moves: so far
            past = [difference, *past][: draw.bands]
            worst = compute_banded_sensitivity(play.rounds, draw.bands, play.learning.separation)
            difference = _apply_band(past) / worst
        size = np.linalg.norm(difference, axis=1)
        if release in moved:
            size = np.hypot(size, moved[release][1])
        moved[release] = draw, size
        largest = size.max()
        if draw.account.relation == PAIRS[pair]:
            verdict = "violated"
            if largest <= draw.sensitivity * _ROUNDING:
                verdict = "within"
            elif key[2].startswith("sum"):
                verdict = _judge_moved("losses", warnings)
            yield {**row, "moved": largest, "sensitivity": draw.sensitivity, "verdict": verdict}
    yield from compare_public_values(play.public, neighbour.public, ue, warnings)
    yield from _compare_epsilon_with_ledger([*moved.values()], ue, warnings, ledger)


def _apply_band(past: list[FloatArray]) -> FloatArray:
    """Return the last row of C times rounds (k, d), newest first."""
    return np.tensordot(compute_coefficients(len(past)), np.stack(past), axes=1)


def _compare_epsilon_with_ledger(
    moved: list[tuple[Draw, FloatArray]], ue: int, warnings: Sequence[str], ledger: Ledger
) -> Iterator[Row]:
    """Rows on the epsilon that all draws of a view prove, and by how much (k,) they move, beside
    that of the ledger.
    """
    central = any(draw.view == "model" and draw.hidden.size > 1 for draw, _ in moved)
    for view in ("updates", "model"):
        views = ("aggregate", view) if central else ("aggregate", view, "updates")
        in_view = [(draw, size) for draw, size in moved if draw.view in views]
        seen = [(draw, size) for draw, size in in_view if size.any() and not draw.coin]
        names = {(draw.account.group, draw.account.mechanism) for draw, _ in seen}
        groups = [group for group, _ in names]
        mechanisms = dict(names).values()
        bounds = []
        for statement in ledger.list_statements():
            n_mechanisms = groups.count(statement.account.group)
            is_single = n_mechanisms == 1 and statement.mechanism in mechanisms
            if is_single or (n_mechanisms and statement.mechanism == ALL):
                bounds.append((float(statement.epsilon[ue]), statement.delta))
        if not bounds or not all(draw.std.all() for draw, _ in seen):
            continue
        upper, delta = max(bounds)
        mu2 = sum(((size / draw.std) ** 2).sum() for draw, size in seen)
        lower = compute_gaussian_epsilon(delta, np.sqrt(mu2))
        if lower <= upper * (1 + 1e-6):
            verdict = "within"
        else:
            verdict = _judge_moved("losses" if central else ALL, warnings)
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


def _judge_moved(name: str, warnings: Sequence[str]) -> str:
    """Whether a warning says that what has this name may move."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    if any(word.search(line) and _NO_EPSILON.search(line) for line in warnings):
        return "caveat"
    return "violated"


def compare_public_values(
    public: Any, other_public: Any, owner: int, warnings: Sequence[str]
) -> Iterator[Row]:
    """Rows on public values (see `Recording`) that differ in UEs other than the owner."""
    for key in sorted(public.keys() | other_public.keys()):
        values = _get_values_of_others(public, key, owner)
        other_values = _get_values_of_others(other_public, key, owner)
        if values.shape == other_values.shape and np.allclose(
            values, other_values, rtol=1e-9, atol=0.0, equal_nan=True
        ):
            continue
        yield {
            "mechanism": key[0],
            "round": key[1],
            "view": "server",
            "half": "neighbours",
            "quantity": "value",
            "moved": 1.0,
            "sensitivity": 0.0,
            "verdict": _judge_moved(key[0], warnings),
        }


def _get_values_of_others(public: Any, key: Any, owner: int) -> FloatArray:
    """Return the public values (k,) of this key of UEs other than the owner; none without it."""
    if key not in public:
        return np.zeros(0)
    ue, values = public[key]
    return values[ue != owner]


def check_noise(play: Recording) -> Iterator[Row]:
    """Rows on the noise of a play: its deviation in every round, the two draws most alike, and the
    shares in sums.

    Sums of squares of all numbers and of the quietest part of them lie above the lower end of a
    chi-square interval, the cosine of any two draws within the normal one; LEVEL is divided by the
    number of tests.
    """
    from scipy.stats import chi2, norm

    level = LEVEL / (9 * len(play.draws) + 2)
    units = list[FloatArray]()
    past = list[FloatArray]()
    tests: list[Any] = []
    for (name, number, quantity, _), draw in play.draws.items():
        if not draw.noise.size * draw.std.all():
            continue
        unit = draw.noise / draw.std[:, None] * np.sqrt(draw.parts)
        if draw.bands > 1:  # C times the noise of the rounds is white
            worst = compute_banded_sensitivity(play.rounds, draw.bands, play.learning.separation)
            past = [unit / worst, *past][: draw.bands]
            unit = _apply_band(past)
        parts = np.array_split(unit, 8, axis=1)[: unit.shape[1]]
        quietest = min(parts, key=np.linalg.norm)
        for part in (unit, quietest):
            lowest = np.sqrt(chi2.isf(1 - level, part.size) / part.size)
            std = np.sqrt((part**2).mean())
            tests.append((name, number, f"std of {quantity}", std, lowest, np.inf))
        if not quantity.startswith("count"):
            units += [*unit[:, :_HEAD]]
    d = min(map(len, units), default=0)
    firsts = np.array([unit[:d] / np.linalg.norm(unit[:d]) for unit in units[:_MOST]])
    cosine = np.triu(np.abs(firsts @ firsts.T), 1).max(initial=0.0)
    high = 1.0
    if d:
        high = min(norm.isf(level / len(firsts) ** 2) / np.sqrt(d), 1 - 1e-6)
    tests.append((ALL, 0, "correlation of two draws", cosine, 0.0, high))
    if play.learning.noise_in_shares:
        threshold = play.learning.threat.secagg_threshold or 1
        tests.append((ALL, 0, "updates in a sum", play.fewest, threshold, np.inf))
    for name, number, quantity, moved, low, high in tests:
        yield {
            "mechanism": name,
            "round": number,
            "half": "noise",
            "quantity": quantity,
            "moved": moved,
            "sensitivity": low or high,
            "verdict": "within" if low <= moved <= high else "violated",
        }
