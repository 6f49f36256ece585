"""The ledger: what every UE has spent so far, and the account at the end of a run.

Booked when noise is drawn; never added across units or relations.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from fl.privacy import rdp
from fl.privacy.compose import ADD_REMOVE, Composition, RoundKinds, compose, with_skellam
from fl.privacy.gaussian import GaussianFilter, epsilon_of
from fl.types import LOCATION, Account, AnySpend
from netsim.columns import frozen, no_ints
from netsim.record import Row
from netsim.units import FloatArray

if TYPE_CHECKING:
    import pandas as pd

ALL = "all"
ALL_UES = -1
Group = tuple[str, str]
Key = TypeVar("Key")
Known = dict[tuple[object, ...], Composition]


@frozen
class PrivacyStatement:
    """Cost of a mechanism to each UE (n_ue,) up to now: (epsilon, delta) for one unit and relation.

    `with_channel` is the epsilon if the noise of the radio channel counts too: true only against an
    attacker that receives through that channel, and as long as its noise is what the channel law
    says. The mechanism `all` stands for all of one unit and relation together.
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
                sums[account] = sums[account] + self._costs(spend)
        sampled = _amplified(self.sampled, on_coin)
        together = _amplified(self.together, by_group)
        return replace(self, sums=sums, sampled=sampled, together=together)

    def _costs(self, spend: AnySpend) -> FloatArray:
        """Costs (2, n_ue) of the draws of a spend, without and with the channel's noise."""
        cost = np.stack([spend.cost(with_channel=False), spend.cost(with_channel=True)])
        one = spend.ue >= 0
        costs = np.repeat(cost[:, ~one].sum(axis=1, keepdims=True), self.n_ue, axis=1)
        np.add.at(costs.T, spend.ue[one], cost.T[one])
        return costs

    def statements(self) -> list[PrivacyStatement]:
        """The epsilon of every UE and account, and of all accounts of one unit and relation where
        there are several.

        Exact for Gaussian draws that all UEs take part in; by RDP where users are sampled; for
        moved locations the sum, per metre by which all of them are displaced. Together they are
        stated at the smallest of their deltas.
        """
        stated = [
            self._statement(account, [account], self.sampled.get(account)) for account in self.sums
        ]
        for group, accounts in self._groups().items():
            unit, relation = group
            if len(accounts) > 1 and unit != LOCATION:
                whole = Account(ALL, unit, relation, min(account.delta for account in accounts))
                stated.append(self._statement(whole, accounts, self.together.get(group)))
        return stated

    def exceeds(self, epsilon: float, delta: float | None) -> bool:
        """Whether any UE has spent more than epsilon on one unit and relation, all mechanisms
        together.

        delta: at which; None: the smallest that a mechanism states. Where all UEs take part it is
        the filter that decides, so that the total also holds for noise that was chosen as one went;
        sampled rounds go by RDP.
        """
        for group, accounts in self._groups().items():
            if group[0] == LOCATION:
                continue
            at = min(account.delta for account in accounts) if delta is None else delta
            worst = self._total(accounts)[0].max(initial=0.0)
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

    def _statement(
        self, of: Account, accounts: list[Account], sampled: FloatArray | None
    ) -> PrivacyStatement:
        """Cost of these accounts together, stated of account `of`."""
        stated = self._total(accounts)
        if of.unit != LOCATION:
            stated = _epsilons(stated, of.delta, sampled)
        return PrivacyStatement(of.mechanism, of.unit, of.relation, of.delta, *stated)

    def _total(self, accounts: list[Account]) -> FloatArray:
        """Sums (2, n_ue) of accounts together."""
        return np.sum([self.sums[account] for account in accounts], axis=0)


def _amplified(
    costs: Mapping[Key, FloatArray], on_coin: Mapping[Key, list[AnySpend]]
) -> dict[Key, FloatArray]:
    """The Renyi costs with those of one round added: the Gaussian draws of a key are one Gaussian,
    on one coin.
    """
    grown = dict(costs)
    for key, every in on_coin.items():
        for spend in every:
            if spend.whole:
                if np.any(spend.ue >= 0):
                    raise ValueError(
                        f"{spend.mechanism}: noise on whole numbers is paid by all UEs together"
                    )
                drawn_of = (spend.std, spend.sensitivity, spend.l1_sensitivity)
                grown[key] = grown.get(key, 0.0) + rdp.skellam(*map(np.asarray, drawn_of))
        drawn = [spend for spend in every if not spend.whole]
        if not drawn:
            continue
        rates = {spend.sampling_rate for spend in drawn}
        if len(rates) > 1 or any(np.any(spend.ue >= 0) for spend in drawn):
            raise ValueError(
                f"{drawn[0].mechanism}: only noise that hides all UEs, at one rate per "
                f"round, can count on sampling"
            )
        mu2 = float(sum(spend.cost(with_channel=False).sum() for spend in drawn))
        grown[key] = grown.get(key, 0.0) + rdp.renyi(
            1 / math.sqrt(mu2) if mu2 > 0 else math.inf, rates.pop()
        )
    return grown


def _epsilons(mu2: FloatArray, delta: float, renyi: FloatArray | None) -> FloatArray:
    """Epsilon of sums mu2, in their shape."""
    levels, where = np.unique(mu2, return_inverse=True)  # one root a level, not one a UE
    if renyi is None:
        epsilon = np.array([epsilon_of(delta, float(np.sqrt(level))) for level in levels])
    else:
        epsilon = rdp.epsilon_of(rdp.full(levels) + renyi, delta)
    return epsilon[where].reshape(mu2.shape)


def final_account(
    spends: Mapping[str, Sequence[object] | np.ndarray], switching: Sequence[str] = ()
) -> list[Row]:
    """One row an account and UE, from the columns of the table `spends`.

    Noise that hides all UEs makes one row, ue = -1, unless some UE spends more in the same account.
    `all` adds up the mechanisms of one unit and relation, at the smallest of their deltas. Every
    row has the epsilon of naive, zCDP and RDP composition and the best known one, with the
    accountant that says it, and `with_channel`, the exact epsilon if the noise of the channel
    counts too (NaN in an account where users are sampled, or where no channel adds any).

    switching : mechanisms whose draws the channel's noise may replace; where it never did,
    `with_channel` is epsilon.
    """
    import pandas as pd  # here, since it loads for long

    table = pd.DataFrame({name: np.asarray(column) for name, column in spends.items()})
    table = table[table["unit"] != LOCATION]
    if "l1_sensitivity" not in table:
        table = table.assign(l1_sensitivity=math.nan)
    accounts = list(table.groupby(["mechanism", "unit", "relation", "delta"], sort=False))
    for (unit, relation), draws in table.groupby(["unit", "relation"], sort=False):
        if len(draws[["mechanism", "delta"]].drop_duplicates()) > 1:
            accounts.append(((ALL, unit, relation, draws["delta"].min()), draws))
    known: Known = {}
    return [row for who, draws in accounts for row in _rows(Account(*who), draws, known, switching)]


def _rows(
    account: Account, draws: pd.DataFrame, known: Known, switching: Sequence[str]
) -> list[Row]:
    """The rows of one account, a UE each.

    It has figures with the channel's noise where some UE's draw met some or may have, and no coin
    is counted on; that of a UE whose channel never added any is its epsilon.
    """
    amplified = account.relation == ADD_REMOVE and bool((draws["sampling_rate"] < 1).any())
    amplified |= bool(draws["l1_sensitivity"].astype(float).notna().any())
    counted = (draws["channel_std"].astype(float) > 0) | draws["mechanism"].isin(switching)
    noisy = not amplified and bool(counted.any())
    figures = draws[list(_FIGURES)].to_numpy(dtype=float)
    ue_of = draws["ue"].to_numpy(dtype=float).astype(int)
    ues, first = np.unique(np.sort(ue_of), return_index=True)
    rows_of = dict(
        zip(ues.tolist(), np.split(np.argsort(ue_of, kind="stable"), first[1:]), strict=True)
    )
    shared = rows_of.get(ALL_UES, no_ints())
    stated = list[Row]()
    for ue in sorted(rows_of.keys() - {ALL_UES}) or [ALL_UES]:
        mine = figures[np.union1d(rows_of[ue], shared)]
        said = _composed(mine, account, known, channel=False)
        row = {
            "mechanism": account.mechanism,
            "ue": ue,
            "unit": account.unit,
            "relation": account.relation,
            "delta": float(account.delta),
            "draws": len(mine),
            "naive": said.naive.epsilon,
            "zcdp": said.zcdp.epsilon,
            "rdp": said.rdp.epsilon,
            "epsilon": said.best.epsilon,
            "accountant": said.best.accountant,
            "with_channel": _composed(mine, account, known, channel=True).best.epsilon
            if noisy
            else math.nan,
        }
        stated.append(row)
    return stated


_FIGURES = ("round", "std", "sensitivity", "sampling_rate", "channel_std", "l1_sensitivity")


def _composed(mine: FloatArray, account: Account, known: Known, channel: bool) -> Composition:
    """Composition of one UE's rows (n, figures), once for all that paid alike; channel : with the
    channel's noise.

    Those of a round that depend on the same coin are one Gaussian before the coin amplifies it:
    their 1 / z^2 add up.
    """
    whole = np.isfinite(mine[:, 5])
    if whole.any():
        others = RoundKinds.of((z, 1.0, 1.0) for z in mine[~whole, 1] / mine[~whole, 2])
        return with_skellam(others, mine[whole][:, [1, 2, 5]], float(account.delta))
    round_, std, sensitivity, q, noise, _ = mine.T
    z = np.hypot(std, np.nan_to_num(noise) * channel) / sensitivity
    coin = (q < 1) & (account.relation == ADD_REMOVE)
    tossed = np.stack([round_[coin], q[coin]])
    rounds, which = np.unique(tossed, axis=1, return_inverse=True)
    with np.errstate(divide="ignore", over="ignore"):
        together = 1 / np.sqrt(
            np.bincount(which.reshape(-1), weights=z[coin] ** -2.0, minlength=rounds.shape[1])
        )
    pairs = [*zip(z[~coin], q[~coin], strict=True), *zip(_down(together), rounds[1], strict=True)]
    draws = RoundKinds.of((z_, q_, 1.0) for z_, q_ in pairs)
    key = (
        account.relation,
        account.delta,
        *(column.tobytes() for column in (draws.z, draws.q, draws.count)),
    )
    if key not in known:
        known[key] = compose(draws, float(account.delta), account.relation)
    return known[key]


def _down(z: FloatArray) -> FloatArray:
    """Multipliers (n,) cut to nine significant digits: what differs by rounding alone is one kind
    of round.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        unit = 10.0 ** (np.floor(np.log10(z)) - 8)
        cut = np.floor(z / unit * (1 + 1e-12)) * unit
    return np.where(np.isfinite(cut) & (unit > 0), cut, z)
