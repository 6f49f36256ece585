"""The ledger: what every UE has spent so far, and the account at the end of a run.

Booked when noise is drawn; never added across kinds of unit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from typing import Any, TypeVar

import numpy as np

from fl.privacy import rdp
from fl.privacy.compose import ADD_REMOVE, Composition, RoundKinds, compose
from fl.privacy.gaussian import GaussianFilter, epsilon_of
from fl.types import LOCATION, Account, AnySpend
from netsim.columns import frozen, no_ints
from netsim.record import Row
from netsim.units import FloatArray

ALL = "all"
ALL_UES = -1
_WHO = ("mechanism", "unit", "relation", "delta")
Group = tuple[str, str]
Key = TypeVar("Key")


@frozen
class PrivacyStatement:
    """Cost of a mechanism to each UE (n_ue,) up to now: (epsilon, delta) for one unit and relation.

    `with_channel` is the epsilon if the noise of the radio channel counts too: true only against an attacker that
    receives through that channel, and as long as its noise is what the channel law says. The mechanism `all` stands for
    all of one unit and relation together.
    """

    mechanism: str
    unit: str
    relation: str
    delta: float
    epsilon: FloatArray
    with_channel: FloatArray

    @property
    def account(self) -> Account:
        """Account of the statement."""
        return Account(self.mechanism, self.unit, self.relation, self.delta)


@frozen
class DrawSums:
    """Sums of the draws of an account, for each UE.

    total (n_ue,): (sensitivity / std)^2 of all Gaussian draws, or epsilon per metre of all moved locations;
    with_channel (n_ue,): the same with the channel's noise.
    """

    total: FloatArray
    with_channel: FloatArray

    def plus(self, spend: AnySpend) -> DrawSums:
        """With the draws of one more spend."""
        all_ues = spend.ue < 0

        def grown(sums: FloatArray, cost: FloatArray) -> FloatArray:
            grown = sums.copy()
            np.add.at(grown, spend.ue[~all_ues], cost[~all_ues])
            grown += cost[all_ues].sum()
            return grown

        with_channel = grown(self.with_channel, spend.cost(with_channel=True))
        return DrawSums(grown(self.total, spend.cost(with_channel=False)), with_channel)


@frozen
class Ledger:
    """Spending of every UE, account by account, as a value.

    Draws that a random part of the users takes part in are paid by all UEs alike, and a round has one coin for each
    user, whatever it then sends to: to all its models, in all phases, through all mechanisms. So their mu^2 = sum
    (sensitivity / std)^2 adds up first, and the coin amplifies that one Gaussian: `sampled` (n_orders,) are its Renyi
    costs by account, `together` those of all accounts of one unit and relation.
    """

    n_ue: int
    sums: dict[Account, DrawSums] = field(default_factory=dict)
    sampled: dict[Account, FloatArray] = field(default_factory=dict)
    together: dict[Group, FloatArray] = field(default_factory=dict)

    @classmethod
    def empty(cls, n_ue: int) -> Ledger:
        """Before any spend."""
        return cls(n_ue)

    def add(self, spends: Iterable[AnySpend]) -> Ledger:
        """The ledger after a round: `spends` are all of its draws.

        Raises ValueError for a sampled draw of some users only, and for two rates in one round.
        """
        sums = dict(self.sums)
        on_coin = dict[Account, list[AnySpend]]()
        by_group = dict[Group, list[AnySpend]]()
        for spend in spends:
            account = spend.account
            before = sums.get(account) or DrawSums(np.zeros(self.n_ue), np.zeros(self.n_ue))
            sums[account] = before
            if spend.counts_on_sampling:
                on_coin.setdefault(account, []).append(spend)
            else:
                sums[account] = before.plus(spend)
        for account, drawn in on_coin.items():
            by_group.setdefault(account.group, []).extend(drawn)
        sampled = _amplified(self.sampled, on_coin)
        together = _amplified(self.together, by_group)
        return replace(self, sums=sums, sampled=sampled, together=together)

    def statements(self) -> list[PrivacyStatement]:
        """The epsilon of every UE and account, and of all accounts of one unit and relation where there are several.

        Exact for Gaussian draws that all UEs take part in; by RDP where users are sampled; for moved locations the
        sum, per metre by which all of them are displaced. Together they are stated at the smallest of their deltas.
        """
        stated = [self._statement(account, [account], self.sampled.get(account)) for account in self.sums]
        for group, accounts in self._groups().items():
            unit, relation = group
            if len(accounts) > 1 and unit != LOCATION:
                whole = Account(ALL, unit, relation, min(account.delta for account in accounts))
                stated.append(self._statement(whole, accounts, self.together.get(group)))
        return stated

    def exceeds(self, epsilon: float, delta: float | None) -> bool:
        """Whether any UE has spent more than epsilon on one unit and relation, all mechanisms together.

        delta: at which; None: the smallest that a mechanism states. Where all UEs take part it is the filter that
        decides, so that the total also holds for noise that was chosen as one went; sampled rounds go by RDP.
        """
        for group, accounts in self._groups().items():
            if group[0] == LOCATION:
                continue
            at = min(account.delta for account in accounts) if delta is None else delta
            worst = reduce(np.add, (self.sums[account].total for account in accounts)).max(initial=0.0)
            sampled = self.together.get(group)
            if sampled is not None:
                over = float(rdp.epsilon_of(rdp.full(float(worst)) + sampled, at)) > epsilon
            else:
                over = not GaussianFilter(epsilon, at).admits(0.0, float(worst))
            if over:
                return True
        return False

    def _groups(self) -> dict[Group, list[Account]]:
        """Accounts that may be added up, by unit and relation."""
        groups: dict[Group, list[Account]] = {}
        for account in self.sums:
            groups.setdefault(account.group, []).append(account)
        return groups

    def _statement(self, of: Account, accounts: list[Account], sampled: FloatArray | None) -> PrivacyStatement:
        """Cost of these accounts together, stated of account `of`."""
        total = reduce(np.add, (self.sums[account].total for account in accounts))
        channel = reduce(np.add, (self.sums[account].with_channel for account in accounts))
        if of.unit != LOCATION:
            total, channel = (_epsilons(mu2, of.delta, sampled) for mu2 in (total, channel))
        return PrivacyStatement(of.mechanism, of.unit, of.relation, of.delta, total, channel)


def _amplified(costs: Mapping[Key, FloatArray], on_coin: Mapping[Key, list[AnySpend]]) -> dict[Key, FloatArray]:
    """The Renyi costs with those of one round added: the draws of a key are one Gaussian, on one coin."""
    grown = dict(costs)
    for key, drawn in on_coin.items():
        rates = {spend.sampling_rate for spend in drawn}
        if len(rates) > 1 or any(np.any(spend.ue >= 0) for spend in drawn):
            raise ValueError(
                f"{drawn[0].mechanism}: only noise that hides all UEs, at one rate per round, can count on sampling"
            )
        mu2 = float(sum(spend.cost(with_channel=False).sum() for spend in drawn))
        grown[key] = grown.get(key, 0.0) + rdp.renyi(1 / math.sqrt(mu2) if mu2 > 0 else math.inf, rates.pop())
    return grown


def _epsilons(mu2: FloatArray, delta: float, renyi: FloatArray | None) -> FloatArray:
    levels, where = np.unique(mu2, return_inverse=True)  # one root a level, not one a UE
    if renyi is None:
        epsilon = np.array([epsilon_of(delta, float(np.sqrt(level))) for level in levels])
    else:
        epsilon = rdp.epsilon_of(rdp.full(levels) + renyi, delta)
    return epsilon[where]


def final_account(spends: Mapping[str, Sequence[Any] | np.ndarray]) -> list[Row]:
    """One row an account and UE, from the columns of the table `spends`.

    Noise that hides all UEs makes one row, ue = -1, unless some UE spends more in the same account. `all` adds up the
    mechanisms of one unit and relation, at the smallest of their deltas. Every row has the epsilon of naive, zCDP and
    RDP composition and the best known one, with the accountant that says it, and `with_channel`, the exact epsilon if
    the noise of the channel counts too (NaN in an account where users are sampled, or where no channel adds any).
    """
    column = {k: np.asarray(v) for k, v in spends.items()}
    ours = np.flatnonzero(column["unit"] != LOCATION) if len(column["unit"]) else no_ints()
    accounts: dict[tuple[Any, ...], list[int]] = {}
    for i in ours:
        accounts.setdefault(tuple(column[k][i] for k in _WHO), []).append(int(i))
    groups: dict[tuple[Any, Any], list[tuple[Any, ...]]] = {}
    for who in accounts:
        groups.setdefault((who[1], who[2]), []).append(who)
    for (unit, relation), members in groups.items():
        if len(members) > 1:
            rows = [i for who in members for i in accounts[who]]
            accounts[ALL, unit, relation, min(float(who[3]) for who in members)] = rows
    known: dict[bytes, Composition] = {}
    return [row for who, rows in accounts.items() for row in _rows(column, who, np.array(rows, dtype=np.int64), known)]


def _rows(
    column: Mapping[str, np.ndarray], who: tuple[Any, ...], rows: np.ndarray, known: dict[bytes, Composition]
) -> list[Row]:
    """The rows of one account, a UE each."""
    mechanism, unit, relation, delta = who
    ue = column["ue"][rows].astype(np.int64)
    believed = _channel_counts(column, rows, str(relation))
    stated = []
    for each in np.unique(ue[ue >= 0]) if np.any(ue >= 0) else [ALL_UES]:
        mine = rows[(ue == each) | (ue == ALL_UES)]
        said = _composed(_draws(column, mine, str(relation)), float(delta), str(relation), known)
        with_channel = math.nan
        if believed:
            counted = _draws(column, mine, str(relation), column["channel_std"])
            with_channel = _composed(counted, float(delta), str(relation), known).best.epsilon
        stated.append(
            {
                "mechanism": mechanism,
                "ue": int(each),
                "unit": unit,
                "relation": relation,
                "delta": float(delta),
                "draws": len(mine),
                "naive": said.naive.epsilon,
                "zcdp": said.zcdp.epsilon,
                "rdp": said.rdp.epsilon,
                "epsilon": said.best.epsilon,
                "accountant": said.best.accountant,
                "with_channel": with_channel,
            }
        )
    return stated


def _composed(draws: RoundKinds, delta: float, relation: str, known: dict[bytes, Composition]) -> Composition:
    """Compose some draws, once for all UEs that paid alike."""
    key = b"".join((draws.z.tobytes(), draws.q.tobytes(), draws.count.tobytes(), repr((relation, delta)).encode()))
    if key not in known:
        known[key] = compose(draws, delta, relation)
    return known[key]


def _draws(
    column: Mapping[str, np.ndarray], mine: np.ndarray, relation: str, more: np.ndarray | None = None
) -> RoundKinds:
    """Composition of one UE's rows; `more` is noise beside the drawn one.

    Those of a round that depend on the same coin are one Gaussian before the coin amplifies it: their 1 / z^2 add up.
    """
    std, sensitivity, q = (column[k][mine].astype(np.float64) for k in ("std", "sensitivity", "sampling_rate"))
    if more is not None:
        std = np.hypot(std, np.nan_to_num(more[mine].astype(np.float64)))
    z = std / sensitivity
    coin = (q < 1) & (relation == ADD_REMOVE)
    tossed = np.stack([column["round"][mine][coin].astype(np.float64), q[coin]])
    rounds, which = np.unique(tossed, axis=1, return_inverse=True)
    with np.errstate(divide="ignore", over="ignore"):
        together = 1 / np.sqrt(np.bincount(which.reshape(-1), weights=z[coin] ** -2.0, minlength=rounds.shape[1]))
    pairs = [*zip(z[~coin], q[~coin], strict=True), *zip(_down(together), rounds[1], strict=True)]
    return RoundKinds.of((z_, q_, 1.0) for z_, q_ in pairs)


def _down(z: FloatArray) -> FloatArray:
    """Multipliers (n,) cut to nine significant digits: what differs by rounding alone is one kind of round."""
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = 10.0 ** (np.floor(np.log10(z)) - 8)
        cut = np.floor(z / unit * (1 + 1e-12)) * unit
    return np.where(np.isfinite(cut) & (unit > 0), cut, z)


def _channel_counts(column: Mapping[str, np.ndarray], rows: np.ndarray, relation: str) -> bool:
    """Whether an account has a figure with the channel's noise: some UE's draw met some, and no coin is counted on.

    Then every UE of the account has one; that of a UE whose channel never added any is its epsilon.
    """
    noise, q = (column[k][rows].astype(np.float64) for k in ("channel_std", "sampling_rate"))
    return bool(np.any(noise > 0)) and not (relation == ADD_REMOVE and bool(np.any(q < 1)))
