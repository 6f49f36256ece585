r"""Recorded rounds of the radio, without learning: costs of powers, millions of evaluations a
minute.

A federated round is slow because devices train. The cost of its uplink depends only on links,
senders and the noise that budgets require, so rounds are recorded once and evaluated again at other
powers. With sigma_r the noise that is required of row r, C_k = rho^2 / SNR_k the receiver's thermal
noise on it and N_k = rho^2 / SINR_k all noise of the decoder,

    d_r^2   = max(0, sigma_r^2 - C_k), sigma_r^2 or 0                   artificial noise (see
    `compute_artificial_var`),
    v_r     = d_r^2 + N_k,  or  sigma_r^2 + kappa rho^2 where the row is lost,
    noise   = A^(T-1-t) ln( sum_r w_r^2 v_r / sum_r w_r^2 sigma_r^2 ),
    lost    = share of rows that do not arrive,
    leak    = mean_r z_r / (h + z_r),    1 / z_r = d_r^2 / rho^2 + 1 / SINR of the UE at the
    eavesdropper,
    energy  = sum of what UEs spend, J.

kappa is the noise, over rho^2, of a row that comes just in time: one over the SINR that the rate
law needs for bits / (B deadline), with link adaptation 2^(bits / (a B deadline)) - 1 and at least
its floor. h is `leak_half_at`. `leak` has the shape of what a closed-form attack gives away as
noise grows, and no variance: it is the cost that agents are trained on. [the bound of
`fl.power.bound`, round by round]

A live round costs the same by its own radio, and besides its loss, leakage and named homes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple, Self, get_args

import numpy as np

from fl.defenses import Drawing
from fl.defenses.lapa import compute_artificial_var
from fl.leakage.leakage import list_home_hits
from fl.round.learning import Learning
from fl.round.send import collect_budget_rows
from fl.round.setup import Setup
from fl.round.state import RoundOutcome, collect_standings
from netsim.columns import Columns, divide_or, frozen, number_row
from netsim.errors import BadInput
from netsim.mobility.base import Places
from netsim.radio import reception
from netsim.radio.power import PowerContext
from netsim.radio.rate import Adaptation
from netsim.radio.shared_band import Noma, SharedBand
from netsim.radio.uplink import Cohort, Uplink, compute_outer_products, sum_strength
from netsim.units import BoolArray, ComplexArray, FloatArray, IntArray
from rl.reward import FIGURES, Figures, compute_reward_cost
from rl.settings import Online

_NO_GROUPS = int(np.iinfo(np.int64).max)  # all UEs of a cell at once
_MAX_LOST = 1e6  # kappa at most, of rows so short that hardly any noise would make them late
DRAWINGS = get_args(Drawing)


class Air(NamedTuple):
    """Sharing of a band: thermal noise_w, the residual of cancellation, the interfering signals
    (`none`, `intra` or `all`), UEs of a group at most, hertz, the rate law (see `Adaptation`), the
    SINR below which no UE is decoded, the deadline, the noise floor of base stations over thermal
    noise, and the share of the time of uplinks, by which bandwidth_hz is multiplied.
    """

    noise_w: float
    residual: float
    interference: str
    group_size: int
    bandwidth_hz: float
    attenuation: float
    max_bps_per_hz: float
    floor_sinr: float
    min_sinr: float
    deadline_s: float
    over_thermal: float = 1.0
    share_of_time: float = 1.0


@frozen
class Links(Columns):
    """Links of K UEs in S rounds. h (S, K, n_bs, antennas), heard (S, K, 1, antennas) : amplitudes
    at base stations and at an eavesdropper, of path and fading; serving (S, K), -1 : absent;
    downlink_bps (S, K).
    """

    h: ComplexArray
    heard: ComplexArray
    serving: IntArray
    downlink_bps: FloatArray

    @cached_property
    def own_strength(self) -> FloatArray:
        """||h||^2 (S, K) of the links to the own base stations, 0 without one."""
        return _sum_own_strength(self.h, np.arange(len(self.h)), self.serving)

    @classmethod
    def from_cohorts(cls, cohort: Cohort, overheard: Cohort | None, uplink: Uplink) -> Self:
        """The links of one round. Without an eavesdropper the server listens: `heard` has no
        antenna.
        """
        h = _compute_amplitudes(cohort)
        if overheard is None:
            heard = np.zeros((len(h), 0, h.shape[2]), np.complex128)
        else:
            heard = _compute_amplitudes(overheard)
        return cls(
            h[None],
            heard[None],
            cohort.serving[None],
            get_shared_band(uplink).downlink_bps(cohort)[None],
        )


@frozen
class Rows(Columns):
    """Rows of S rounds, filled up to R. of (S, R) : the UE, -1 for none; weight, required_std (S,
    R); rho, factor, lost_noise (S,) : A^(T-1-t) and kappa; drawing (S,) : how noise is drawn, a
    place in `DRAWINGS`.
    """

    ue: IntArray
    weight: FloatArray
    required_std: FloatArray
    rho: FloatArray
    factor: FloatArray
    lost_noise: FloatArray
    drawing: IntArray

    def pad_rows(self, n_rows: int) -> Self:
        """The same with room for so many rows."""
        room = ((0, 0), (0, n_rows - self.ue.shape[1]))
        filled = {name: np.pad(getattr(self, name), room) for name in ("weight", "required_std")}
        return replace(self, ue=np.pad(self.ue, room, constant_values=-1), **filled)


@frozen
class Rounds(Columns):
    """S rounds that were played. count (S, K) : rows that each UE sends, of n_bits (S,); compute_s,
    compute_j (S, K) : time and energy of training before.
    """

    links: Links
    rows: Rows
    count: IntArray
    n_bits: FloatArray
    compute_s: FloatArray
    compute_j: FloatArray

    def __len__(self) -> int:
        return len(self.n_bits)

    @classmethod
    def stack(cls, rounds: Sequence[Self]) -> Self:
        """Rounds of the same UEs and base stations, one after the other."""
        n_rows = max(r.rows.ue.shape[1] for r in rounds)
        return cls.join([replace(r, rows=r.rows.pad_rows(n_rows)) for r in rounds])


@frozen
class RadioCosts:
    """Figures (B,) of power vectors that follow from the radio; drawn (B, R): whether artificial
    noise was drawn on a row.
    """

    figures: Figures
    drawn: BoolArray


def get_shared_band(uplink: Uplink) -> SharedBand:
    """The uplink as a shared band. Raises BadInput for an ideal uplink."""
    if not isinstance(uplink, SharedBand):
        raise BadInput(
            "world.radio.uplink: power changes nothing over an ideal uplink; take kind: noma or oma"
        )
    return uplink


def build_air(uplink: Uplink, round_s: float = np.inf) -> Air:
    """Sharing of a band in numbers: those of `noma`, and of other bands without interference."""
    band = get_shared_band(uplink)
    share = band.share_of_time()
    air = Air(
        band.band_noise_w(),
        0.0,
        "none",
        _NO_GROUPS,
        band.bandwidth_hz * share,
        *band.rate.law,
        0.0,
        min(band.limit_s(), round_s),
        band.compute_noise_rise(),
        share,
    )
    if not isinstance(uplink, Noma):
        return air
    return air._replace(
        residual=uplink.sic_residual,
        interference=uplink.interference,
        group_size=uplink.group_size or _NO_GROUPS,
        min_sinr=uplink.min_sinr(),
    )


def compute_lost_noise(air: Air, n_bits: FloatArray) -> FloatArray:
    """kappa of rows of n_bits."""
    with np.errstate(divide="ignore", over="ignore"):
        hertz_s = air.bandwidth_hz * air.deadline_s
        min_snr = np.maximum(
            np.expm1(np.log(2.0) * n_bits / (air.attenuation * hertz_s)), air.floor_sinr
        )
        return np.minimum(1.0 / min_snr, _MAX_LOST)


@frozen
class Sent:
    """Of rows (B, R): SINR, SNR and whether decoded at base stations, and SINR at the listener."""

    sinr: FloatArray
    snr: FloatArray
    decoded: BoolArray
    heard: FloatArray


def compute_radio_costs(
    sent: Sent,
    energy_j: FloatArray,
    rows: Rows,
    drawn_std: FloatArray | None = None,
    half_at: float = 1.0,
) -> RadioCosts:
    """The law of costs, of B rounds; energy_j (B, K); drawn_std (B, R) of artificial noise, none:
    as rows draw it; half_at : h of `leak`.
    """
    is_row = rows.ue >= 0
    rho = rows.rho[:, None]
    required = np.where(is_row, rows.required_std**2, 0.0)
    variance = rho**2
    with np.errstate(divide="ignore", invalid="ignore"):
        thermal = np.where(is_row & (sent.snr > 0), variance / sent.snr, 0.0)
        if drawn_std is None:
            drawn = _compute_drawn_variance(rows, required, thermal)
        else:
            drawn = drawn_std**2
        drawn = np.where(is_row, drawn, 0.0)
        decoder = variance / np.maximum(sent.sinr, 1e-30)
        lost = is_row & ~sent.decoded
        share = np.where(is_row, rows.weight**2, 0.0)
        lost_variance = required + rows.lost_noise[:, None] * variance
        suffered = share * np.where(lost, lost_variance, drawn + decoder)
        demand = share * required
        demand = np.where(demand.sum(axis=1, keepdims=True) > 0, demand, share * variance)
        ratio = divide_or(suffered.sum(axis=1), demand.sum(axis=1), 1.0)
        hidden = np.where(rho > 0, drawn / variance, 0.0)
        hidden = hidden + 1.0 / np.maximum(sent.heard, 1e-30)
        leak = np.where(is_row & (sent.heard > 0), 1.0 / (1.0 + half_at * hidden), 0.0)
    n = np.maximum(is_row.sum(axis=1), 1)
    figures = {
        "noise": np.where(is_row.any(axis=1), rows.factor * np.log(np.maximum(ratio, 1e-12)), 0.0),
        "lost": lost.sum(axis=1) / n,
        "leak": leak.sum(axis=1) / n,
        "energy_j": energy_j.sum(axis=1),
    }
    return RadioCosts(figures, drawn > 0)


def _compute_drawn_variance(rows: Rows, required: FloatArray, thermal: FloatArray) -> FloatArray:
    """Variance (B, R) of artificial noise; rows that are not there require none."""
    drawn = np.zeros_like(required)
    for drawing in np.unique(rows.drawing):
        is_drawn = rows.drawing == drawing
        drawn[is_drawn] = compute_artificial_var(
            DRAWINGS[drawing], required[is_drawn], thermal[is_drawn]
        )
    return drawn


def compute_sinrs(
    power_w: FloatArray,
    round_index: IntArray,
    h: ComplexArray,
    serving: IntArray,
    group_of: IntArray,
    air: Air,
) -> FloatArray:
    """SINR (B, K) at the receivers `serving` (S, K) of power vectors (B, K), each in the round
    which (B,) of S.

    h (S, K, n, antennas); group_of (B, K): UEs that send together. The law is that of
    `SharedBand.receive_granted`; an eavesdropper cancels alike.
    """
    cell = serving[round_index]
    floor_w = air.noise_w * air.over_thermal
    if air.interference == "none":
        return power_w * _sum_own_strength(h, round_index, cell) / floor_w
    n_groups = group_of.max(initial=0) + 1
    band = (group_of + np.arange(len(cell))[:, None] * n_groups).reshape(-1)
    links = h[round_index].reshape(-1, *h.shape[2:])
    outer = compute_outer_products(np.ones(links.shape[:2]), links)
    receiver = reception.Cancellation(
        floor_w, air.residual, air.interference == "all", air.min_sinr
    )
    sent = (power_w.reshape(-1), outer, cell.reshape(-1))
    received_w = power_w * _sum_own_strength(h, round_index, cell)
    order = reception.sort_for_decoding(received_w.reshape(-1), cell.reshape(-1))
    sinr = reception.compute_noma_sinr(order, *sent, band, receiver)
    refused = sinr < air.floor_sinr
    if refused.any():  # the others have a higher SINR than before
        again = reception.compute_noma_sinr(order[~refused[order]], *sent, band, receiver)
        sinr = np.where(refused, sinr, again)
    return sinr.reshape(cell.shape)


def _sum_own_strength(h: ComplexArray, round_index: IntArray, cell: IntArray) -> FloatArray:
    """||h||^2 (B, K) of the links to the cells (B, K), 0 without one."""
    h_own = h[round_index[:, None], np.arange(cell.shape[1]), np.maximum(cell, 0)]
    return np.where(cell >= 0, sum_strength(h_own), 0.0)


def _group_vectors(power_w: FloatArray, round_index: IntArray, links: Links, air: Air) -> IntArray:
    """The group (B, K) of each UE in its cell."""
    cell = links.serving[round_index]
    if air.group_size >= cell.shape[1]:
        return np.zeros_like(cell)
    received_w = power_w * links.own_strength[round_index]
    apart = _number_cells_apart(cell, links)
    return reception.group_by_power(received_w.reshape(-1), apart, air.group_size).reshape(
        cell.shape
    )


def _number_cells_apart(cell: IntArray, links: Links) -> IntArray:
    """Cells (B * K,) with other numbers in each vector, -1 for none."""
    first = links.h.shape[2] * np.arange(len(cell))[:, None]
    return np.where(cell >= 0, first + cell, -1).reshape(-1)


def _compute_vector_ends(
    rounds: Rounds,
    air: Air,
    power_w: FloatArray,
    round_index: IntArray,
    sinr: FloatArray,
    group_of: IntArray,
) -> tuple[FloatArray, BoolArray, FloatArray]:
    """SNR (B, K) of power vectors (B, K), each in one of S rounds, which UEs are decoded in time
    (B, K), and their energy in J (B, K), in groups group_of (B, K).
    """
    links = rounds.links
    cell = links.serving[round_index]
    received_w = power_w * links.own_strength[round_index]
    downlink_bps = links.downlink_bps[round_index]
    law = Adaptation(air.attenuation, air.max_bps_per_hz, air.floor_sinr)
    bits = rounds.n_bits[round_index][:, None] * rounds.count[round_index]
    terms = (
        bits,
        downlink_bps,
        law.rate_bps(sinr, air.bandwidth_hz),
        rounds.compute_s[round_index],
        rounds.compute_j[round_index],
        power_w * air.share_of_time,
    )
    demands = reception.Demands(*(term.reshape(-1) for term in terms))
    received = reception.is_received(sinr, air.min_sinr).reshape(-1)
    wait_s = np.zeros(cell.size)
    if air.group_size < cell.shape[1]:
        apart = _number_cells_apart(cell, links)
        alone = reception.compute_ends(demands, received, wait_s, np.inf)
        wait_s = reception.compute_waits_s(alone, apart, group_of.reshape(-1), air.deadline_s)
    ends = reception.compute_ends(demands, received, wait_s, air.deadline_s)
    shape = cell.shape
    return received_w / air.noise_w, ends.decoded.reshape(shape), ends.energy_j.reshape(shape)


def compute_received_sinrs(
    power_w: FloatArray, round_index: IntArray, links: Links, air: Air
) -> tuple[FloatArray, FloatArray, IntArray]:
    """SINR (B, K) of power vectors at the base stations, and at the eavesdropper, 0 without one;
    and the group (B, K) of each UE in its cell.
    """
    can = links.downlink_bps > 0  # a UE without the model has nothing to send
    group_of = _group_vectors(power_w, round_index, links, air)
    serving = np.where(can, links.serving, -1)
    sinr = compute_sinrs(power_w, round_index, links.h, serving, group_of, air)
    if not links.heard.shape[2]:
        return sinr, np.zeros_like(sinr), group_of
    alone = air._replace(floor_sinr=0.0, min_sinr=0.0, deadline_s=np.inf, over_thermal=1.0)
    sent_w = np.where((sinr >= air.floor_sinr) & can[round_index], power_w, 0.0)
    band = group_of
    if air.interference == "intra":  # UEs of other cells do not interfere
        band = group_of + (group_of.max(initial=0) + 1) * np.maximum(links.serving[round_index], 0)
    cell = np.minimum(links.serving, 0)
    return sinr, compute_sinrs(sent_w, round_index, links.heard, cell, band, alone), group_of


def judge_vectors(
    rounds: Rounds, air: Air, power_w: FloatArray, round_index: IntArray, half_at: float = 1.0
) -> RadioCosts:
    """Costs of power vectors (B, K) in rounds which (B,); half_at : h of `leak`."""
    links = rounds.links
    sinr, heard, group_of = compute_received_sinrs(power_w, round_index, links, air)
    snr, decoded, energy_j = _compute_vector_ends(rounds, air, power_w, round_index, sinr, group_of)
    listener = heard if links.heard.shape[2] else sinr
    rows = rounds.rows.select(round_index)
    row_ue = np.maximum(rows.ue, 0)

    def select_rows(values: np.ndarray) -> np.ndarray:
        return np.take_along_axis(values, row_ue, axis=1)

    sent = Sent(select_rows(sinr), select_rows(snr), select_rows(decoded), select_rows(listener))
    return compute_radio_costs(sent, energy_j, rows, half_at=half_at)


def _compute_amplitudes(cohort: Cohort) -> ComplexArray:
    gain = np.where(np.isnan(cohort.gain), 0.0, cohort.gain)  # NaN: an absent UE
    root = np.sqrt(gain)[:, :, None]
    fading = np.ones_like(root) if cohort.fading is None else cohort.fading
    return (root * fading).astype(np.complex128)


# -- live rounds


@frozen
class Costs:
    """The figures of a round, the cost `total` that a reward makes of them, and whether artificial
    noise was drawn.

    rows : that were sent; None where no UE sent.
    """

    figures: Mapping[str, float]
    total: float
    artificial: bool
    rows: Rows | None = None


def compute_round_costs(
    task: Online,
    setup: Setup,
    outcome: RoundOutcome | None,
    context: PowerContext,
    n_rounds: int,
    places: Places,
    last_loss: float,
) -> Costs:
    """The costs of a round. context : before it; n_rounds : that are planned; places : homes of
    UEs; last_loss : of the last model that was scored, which stands where this one has no score.

    A round without a UE has no outcome, and costs nothing.
    """
    reward = task.reward
    n = len(context.snr_per_w)
    if outcome is None:
        return Costs(dict.fromkeys(FIGURES, 0.0) | {"loss": last_loss}, 0.0, False)
    rows, drawn_std = build_sent_rows_and_noise(task, setup, outcome, context, n_rounds)
    radio = _judge_round(outcome, context, rows, drawn_std, reward.leak_half_at)
    loss = np.array([_compute_loss(setup.learning, outcome, last_loss)])
    sums = {
        "leakage": _compute_leakage(outcome, reward.leakage_within_m, n).sum(keepdims=True),
        "named": _compute_named_share(setup, outcome, places, n).sum(keepdims=True),
    }
    figures = {**radio.figures, "loss": loss, **sums}
    return Costs(
        {name: figures[name][0] for name in FIGURES},
        compute_reward_cost(reward, figures)[0],
        bool(radio.drawn.any()),
        rows,
    )


def build_sent_rows_and_noise(
    task: Online, setup: Setup, outcome: RoundOutcome, context: PowerContext, n_rounds: int
) -> tuple[Rows, FloatArray]:
    """The rows of a round, and the noise drawn on each (1, R). A lost one weighs as the mean that
    came of its model.
    """
    last = outcome.merges[-1].uploads
    ue = last.ue
    model = last.made.model
    weight = last.weight.astype(float)
    has_arrived = last.channel.decoded & (weight > 0)
    for m in np.unique(model):
        is_of_model = model == m
        is_kept = is_of_model & has_arrived
        weight[is_of_model & ~has_arrived] = (
            weight[is_kept].mean() if is_kept.any() else 1.0 / is_of_model.sum()
        )
    by_model = np.zeros((model.max(initial=0) + 1, len(context.snr_per_w)))
    by_model[model, ue] = weight
    budgets = collect_standings(setup.learning, outcome.state.parts)
    own_ue, own_model, required, drawn = collect_budget_rows(budgets)
    required_std, drawn_std = np.zeros((2, len(ue)))
    if len(own_ue):
        position = np.searchsorted(number_row(own_ue, own_model), number_row(ue, model))
        required_std = required[position]
        drawn_std = drawn[position]
    factor = task.bound.compute_contraction(by_model) ** (n_rounds - outcome.state.played)
    kappa = compute_lost_noise(
        build_air(setup.uplink, setup.learning.round_s), np.array([context.n_bits])
    )
    rho = np.array([context.scale])
    drawing = np.array([DRAWINGS.index(budgets[0].drawing if budgets else "all")])
    rows = Rows(ue[None], weight[None], required_std[None], rho, np.array([factor]), kappa, drawing)
    return rows, drawn_std[None]


def _judge_round(
    outcome: RoundOutcome, context: PowerContext, rows: Rows, drawn_std: FloatArray, half_at: float
) -> RadioCosts:
    last = outcome.merges[-1].uploads
    channel = last.channel
    listener = channel if last.overheard is None else last.overheard
    ue, first = np.unique(last.ue, return_index=True)
    energy_j = np.zeros((1, len(context.snr_per_w)))
    energy_j[0, ue] = channel.energy_j[first]
    with np.errstate(
        divide="ignore", invalid="ignore"
    ):  # noise also of one whose SINR changed while it sent
        sinr = np.where(channel.noise_std > 0, (context.scale / channel.noise_std) ** 2, np.inf)
    snr = context.snr_per_w[last.ue] * channel.power_w
    heard = np.zeros(len(last.ue)) if listener is None else listener.sinr
    sent = Sent(sinr[None], snr[None], channel.decoded[None], heard[None])
    return compute_radio_costs(sent, energy_j, rows, drawn_std, half_at)


def _compute_loss(learning: Learning, outcome: RoundOutcome, last_loss: float) -> float:
    """Error of a map in dB, cross-entropy of a classifier in nats; the last one where nothing is
    held out yet, the figure is not finite, or another learner has none.
    """
    learner = learning.learner
    scores = learner.evaluate(
        outcome.state.model, outcome.state.held_out.thin(learner.most_held_out)
    )
    loss = float(scores.get("rmse_db", scores.get("cross_entropy_nats", last_loss)))
    return loss if np.isfinite(loss) else last_loss


def _compute_leakage(outcome: RoundOutcome, within_m: float, n: int) -> FloatArray:
    """Each UE's part (K,) of the share of estimates of a round that come near enough, mean over
    attacks; 0 without.
    """
    ue, attack, error_m = (
        np.array([row[name] for row in outcome.leakage]) for name in ("ue", "attack", "error_m")
    )
    of_ue = np.zeros(n)
    attacks = np.unique(attack)
    for a in attacks:
        is_of_attack = attack == a
        near = error_m[is_of_attack].astype(float) <= within_m
        of_ue += np.bincount(ue[is_of_attack].astype(int), near / len(near), n) / len(attacks)
    return of_ue


def _compute_named_share(setup: Setup, outcome: RoundOutcome, places: Places, n: int) -> FloatArray:
    """Each UE's part (K,) of the share of homes of attacked UEs that are named so far, mean over
    attacks.
    """
    named_homes = list_home_hits(
        setup.learning.leakage, outcome.state.leakage, setup.public.area, places
    )
    of_ue = np.zeros(n)
    for ue, _, hit in named_homes:
        of_ue[ue] += hit / len(named_homes)
    return of_ue
