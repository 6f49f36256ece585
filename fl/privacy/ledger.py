"""The ledger: what every UE has spent so far. Booked when noise is drawn; never added across kinds of unit."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from functools import reduce
from typing import TypeVar

import numpy as np

from fl.privacy import rdp
from fl.privacy.filter import GaussianFilter
from fl.privacy.gaussian import epsilon_of
from fl.types import LOCATION, Account, AnySpend
from netsim.columns import frozen
from netsim.units import FloatArray

ALL = "all"
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
        sums, on_coin, by_group = dict(self.sums), dict[Account, list[AnySpend]](), dict[Group, list[AnySpend]]()
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
        sampled, together = _amplified(self.sampled, on_coin), _amplified(self.together, by_group)
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
