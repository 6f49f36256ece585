"""The ledger: what every UE has spent so far, and the account at the end of a run.

Booked when noise is drawn; never added across units or relations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, field, replace
from math import inf, nan
from typing import TypeVar

import numpy as np

from fl.privacy import rdp
from fl.privacy.compose import (
    ADD_REMOVE,
    Composition,
    RoundKinds,
    compose_rounds,
    compose_with_skellam,
)
from fl.privacy.gaussian import GaussianFilter, compute_gaussian_epsilon
from fl.types import LOCATION, Account, AnySpend
from netsim.columns import frozen, no_ints
from netsim.record import TableRows
from netsim.units import FloatArray, IntArray, TextPair

ALL = "all"
ALL_UES = -1
Group = TextPair
Key = TypeVar("Key")
Known = dict[tuple[object, ...], Composition]


@frozen
class PrivacyStatement(Account):
    """Cost of a mechanism to each UE (n_ue,) up to now: (epsilon, delta) for one unit and relation.

    `with_channel` is the epsilon if the noise of the radio channel counts too: true only against an
    attacker that receives through that channel, and as long as its noise is what the channel law
    says. The mechanism `all` stands for all of one unit and relation together.
    """

    epsilon: FloatArray
    with_channel: FloatArray

    @property
    def account(self) -> Account:
        """Account of the statement."""
        return Account(self.mechanism, self.unit, self.relation, self.delta)


@frozen
class Ledger:
    """Spending of every UE, account by account, as a value.

    Draws that a random part of the users takes part in are paid by all UEs alike, and a round has
    one coin for each user, whatever it then sends to: to all its models, in all phases, through all
    mechanisms. So their mu^2 = sum (sensitivity / std)^2 adds up first, and the coin amplifies that
    one Gaussian: `sampled` (n_orders,) are its Renyi costs by account, `together` those of all
    accounts of one unit and relation.

    sums (2, n_ue) by account : (sensitivity / std)^2 of all other Gaussian draws, or epsilon per
    metre of all moved locations; and the same with the channel's noise.
    """

    n_ue: int
    sums: dict[Account, FloatArray] = field(default_factory=dict)
    sampled: dict[Account, FloatArray] = field(default_factory=dict)
    together: dict[Group, FloatArray] = field(default_factory=dict)

    def add(self, spends: Iterable[AnySpend]) -> Ledger:
        """The ledger after a round: `spends` are all of its draws.

        Raises ValueError for a sampled draw of some users only, and for two rates in one round.
        """
        sums = dict(self.sums)
        on_coin = dict[Account, list[AnySpend]]()
        by_group = dict[Group, list[AnySpend]]()
        for spend in spends:
            account = spend.account
            sums.setdefault(account, np.zeros((2, self.n_ue)))
            if spend.counts_on_sampling or spend.whole:
                on_coin.setdefault(account, []).append(spend)
                by_group.setdefault(account.group, []).append(spend)
            else:
                sums[account] = sums[account] + self._compute_costs(spend)
        sampled = _add_amplified(self.sampled, on_coin)
        together = _add_amplified(self.together, by_group)
        return replace(self, sums=sums, sampled=sampled, together=together)

    def _compute_costs(self, spend: AnySpend) -> FloatArray:
        """Costs (2, n_ue) of the draws of a spend, without and with the channel's noise."""
        plain = spend.compute_cost(with_channel=False)
        cost = np.stack([plain, spend.compute_cost(with_channel=True)])
        is_single = spend.ue >= 0
        shared = cost[:, ~is_single].sum(axis=1, keepdims=True)
        costs = np.repeat(shared, self.n_ue, axis=1)
        np.add.at(costs.T, spend.ue[is_single], cost.T[is_single])
        return costs

    def list_statements(self) -> list[PrivacyStatement]:
        """The epsilon of every UE and account, and of all accounts of one unit and relation where
        there are several.

        Exact for Gaussian draws that all UEs take part in; by RDP where users are sampled; for
        moved locations the sum, per metre by which all of them are displaced. Together they are
        stated at the smallest of their deltas.
        """
        stated = [
            self._state_account(account, [account], self.sampled.get(account))
            for account in self.sums
        ]
        for group, accounts in self._group_accounts().items():
            unit, relation = group
            if len(accounts) > 1 and unit != LOCATION:
                whole = Account(ALL, unit, relation, min(account.delta for account in accounts))
                stated.append(self._state_account(whole, accounts, self.together.get(group)))
        return stated

    def exceeds(self, epsilon: float, delta: float | None) -> bool:
        """Whether any UE has spent more than epsilon on one unit and relation, all mechanisms
        together.

        delta: at which; None: the smallest that a mechanism states. Where all UEs take part it is
        the filter that decides, so that the total also holds for noise that was chosen as one went;
        sampled rounds go by RDP.
        """
        for group, accounts in self._group_accounts().items():
            if group[0] == LOCATION:
                continue
            stated_delta = min(account.delta for account in accounts) if delta is None else delta
            worst = self._sum_accounts(accounts)[0].max(initial=0.0)
            sampled = self.together.get(group)
            if sampled is not None:
                cost = rdp.compute_full_cost(worst) + sampled
                if rdp.compute_renyi_epsilon(cost, stated_delta) > epsilon:
                    return True
            elif not GaussianFilter(epsilon, stated_delta).admits(0.0, worst):
                return True
        return False

    def _group_accounts(self) -> dict[Group, list[Account]]:
        """Accounts that may be added up, by unit and relation."""
        groups: dict[Group, list[Account]] = {}
        for account in self.sums:
            groups.setdefault(account.group, []).append(account)
        return groups

    def _state_account(
        self, account: Account, accounts: list[Account], sampled: FloatArray | None
    ) -> PrivacyStatement:
        """Cost of these accounts together, stated of one of them or of all."""
        stated = self._sum_accounts(accounts)
        if account.unit != LOCATION:
            levels, level_of_sum = np.unique(stated, return_inverse=True)  # one root a level
            if sampled is None:
                mus = np.sqrt(levels).tolist()
                epsilon = np.array([compute_gaussian_epsilon(account.delta, mu) for mu in mus])
            else:
                cost = rdp.compute_full_cost(levels) + sampled
                epsilon = rdp.compute_renyi_epsilon(cost, account.delta)
            stated = epsilon[level_of_sum].reshape(stated.shape)
        return PrivacyStatement(*astuple(account), *stated)

    def _sum_accounts(self, accounts: list[Account]) -> FloatArray:
        """Sums (2, n_ue) of accounts together."""
        return np.sum([self.sums[account] for account in accounts], axis=0)


def _add_amplified(
    costs: Mapping[Key, FloatArray], on_coin: Mapping[Key, list[AnySpend]]
) -> dict[Key, FloatArray]:
    """The Renyi costs with those of one round added: the Gaussian draws of a key are one Gaussian,
    on one coin.
    """
    grown = dict(costs)
    for key, spends in on_coin.items():
        for spend in spends:
            if not spend.whole:
                continue
            if (spend.ue >= 0).any():
                raise ValueError(
                    f"{spend.mechanism}: noise on whole numbers is paid by all UEs together"
                )
            figures = (spend.std, spend.sensitivity, spend.l1_sensitivity)
            grown[key] = grown.get(key, 0.0) + rdp.compute_skellam_cost(*map(np.asarray, figures))
        gaussian = [spend for spend in spends if not spend.whole]
        if not gaussian:
            continue
        rates = {spend.sampling_rate for spend in gaussian}
        if len(rates) > 1 or any((spend.ue >= 0).any() for spend in gaussian):
            raise ValueError(
                f"{gaussian[0].mechanism}: only noise that hides all UEs, at one rate per "
                f"round, can count on sampling"
            )
        mu2 = sum(spend.compute_cost(with_channel=False).sum() for spend in gaussian)
        z = 1 / math.sqrt(mu2) if mu2 > 0 else inf
        grown[key] = grown.get(key, 0.0) + rdp.compute_renyi_cost(z, rates.pop())
    return grown


def tabulate_account(
    spends: Mapping[str, Sequence[object] | np.ndarray], switching: Sequence[str] = ()
) -> TableRows:
    """One row an account and UE, from the columns of the table `spends`.

    Noise that hides all UEs makes one row, ue = -1, unless some UE spends more in the same account.
    `all` adds up the mechanisms of one unit and relation, at the smallest of their deltas. Every
    row has the epsilon of naive, zCDP and RDP composition and the best known one, with the
    accountant that says it, and `with_channel`, the exact epsilon if the noise of the channel
    counts too (NaN in an account where users are sampled, or where no channel adds any).

    switching : mechanisms whose draws the channel's noise may replace; where it never did,
    `with_channel` is epsilon.
    """
    table = {name: np.asarray(column) for name, column in spends.items()}
    table.setdefault("l1_sensitivity", np.full(len(table["unit"]), nan))
    rows_of_account: dict[Account, list[int]] = {}
    rows_of_group: dict[Group, list[int]] = {}
    names = ("mechanism", "unit", "relation", "delta")
    for k, account in enumerate(map(Account, *(table[name].tolist() for name in names))):
        if account.unit != LOCATION:
            rows_of_account.setdefault(account, []).append(k)
            rows_of_group.setdefault(account.group, []).append(k)
    for group, draws in rows_of_group.items():
        deltas = [account.delta for account in rows_of_account if account.group == group]
        if len(deltas) > 1:
            rows_of_account[Account(ALL, *group, min(deltas))] = draws
    figures = np.stack([table[name].astype(float) for name in _FIGURES], axis=1)
    compositions: Known = {}
    rows = []
    for account, draws in rows_of_account.items():
        may_switch = not set(switching).isdisjoint(table["mechanism"][draws])
        ue = table["ue"][draws].astype(float).astype(int)
        rows += _tabulate_ues(account, ue, figures[draws], compositions, may_switch)
    return rows


def _tabulate_ues(
    account: Account, ue: IntArray, figures: FloatArray, compositions: Known, may_switch: bool
) -> TableRows:
    """The rows of one account, a UE each, of draws (n, figures) of UEs (n,).

    It has figures with the channel's noise where some UE's draw met some or may have, and no coin
    is counted on; that of a UE whose channel never added any is its epsilon.
    """
    _, _, _, q, noise, l1_sensitivity = figures.T
    is_sampled = account.relation == ADD_REMOVE and (q < 1).any()
    counts_channel = (noise > 0).any() or may_switch
    counts_channel &= not is_sampled and np.isnan(l1_sensitivity).all()
    ues, first = np.unique(np.sort(ue), return_index=True)
    pieces = np.split(np.argsort(ue, kind="stable"), first[1:])
    rows_of_ue = dict(zip(ues.tolist(), pieces, strict=True))
    shared = rows_of_ue.get(ALL_UES, no_ints())
    stated = []
    for payer in sorted(rows_of_ue.keys() - {ALL_UES}) or [ALL_UES]:
        draws_of_ue = figures[np.union1d(rows_of_ue[payer], shared)]
        composition = _compose_draws(draws_of_ue, account, compositions, channel=False)
        with_channel = nan
        if counts_channel:
            combined = _compose_draws(draws_of_ue, account, compositions, channel=True)
            with_channel = combined.best.epsilon
        row = {
            **asdict(account),
            "ue": payer,
            "draws": len(draws_of_ue),
            "naive": composition.naive.epsilon,
            "zcdp": composition.zcdp.epsilon,
            "rdp": composition.rdp.epsilon,
            "epsilon": composition.best.epsilon,
            "accountant": composition.best.accountant,
            "with_channel": with_channel,
        }
        stated.append(row)
    return stated


_FIGURES = ("round", "std", "sensitivity", "sampling_rate", "channel_std", "l1_sensitivity")


def _compose_draws(
    draws_of_ue: FloatArray, account: Account, compositions: Known, channel: bool
) -> Composition:
    """Composition of one UE's rows (n, figures), once for all that paid alike; channel : with the
    channel's noise.

    Those of a round that depend on the same coin are one Gaussian before the coin amplifies it:
    their 1 / z^2 add up.
    """
    round_, std, sensitivity, q, noise, l1_sensitivity = draws_of_ue.T
    delta = float(account.delta)
    is_whole = np.isfinite(l1_sensitivity)
    if is_whole.any():
        multipliers = std[~is_whole] / sensitivity[~is_whole]
        gaussian = RoundKinds.from_rounds((z, 1.0, 1.0) for z in multipliers)
        whole = np.stack([std, sensitivity, l1_sensitivity], axis=1)[is_whole]
        return compose_with_skellam(gaussian, whole, delta)
    z = np.hypot(std, np.nan_to_num(noise) * channel) / sensitivity
    has_coin = (q < 1) & (account.relation == ADD_REMOVE)
    tossed = np.stack([round_[has_coin], q[has_coin]])
    (_, rate), toss_of_draw = np.unique(tossed, axis=1, return_inverse=True)
    toss = toss_of_draw.reshape(-1)
    with np.errstate(divide="ignore", over="ignore"):
        mu2 = np.bincount(toss, weights=z[has_coin] ** -2.0, minlength=len(rate))
        together = _round_down(1 / np.sqrt(mu2))
    pairs = zip(np.append(z[~has_coin], together), np.append(q[~has_coin], rate), strict=True)
    draws = RoundKinds.from_rounds((z_, q_, 1.0) for z_, q_ in pairs)
    columns = (draws.z.tobytes(), draws.q.tobytes(), draws.count.tobytes())
    key = (account.relation, account.delta, *columns)
    if key not in compositions:
        compositions[key] = compose_rounds(draws, delta, account.relation)
    return compositions[key]


def _round_down(z: FloatArray) -> FloatArray:
    """Multipliers (n,) cut to nine significant digits: what differs by rounding alone is one kind
    of round.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = 10.0 ** (np.floor(np.log10(z)) - 8)
        cut = np.floor(z / unit * (1 + 1e-12)) * unit
    return np.where(np.isfinite(cut) & (unit > 0), cut, z)
