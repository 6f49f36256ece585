"""Rules of power control, their tuning, and the search that knows everything, against hand-made
rounds."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from numpy import (
    arange,
    array,
    asarray,
    clip,
    full,
    inf,
    log2,
    log10,
    ones,
    select,
    sqrt,
    std,
    zeros,
)
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import mark
from tabled import cases

from fl.power.search import Limits
from netsim.radio.shared_band import Noma
from netsim.rng import Streams
from rl.look import Look
from rl.powers import PARAMETERS
from rl.radio_records import (
    Air,
    Links,
    _compute_leakage,
    build_air,
    build_sent_rows_and_noise,
    compute_lost_noise,
)
from rl.rules import LAWS, Family, expect_rounds, limit_to_w, search_best_powers, tune_rule

RNG = Streams(2).derive_rng("rules")
WIDE = Limits(each_min_w=1e-9, each_max_w=1e3, total_min_w=0.0, total_max_w=1e6)


def look():
    """One round of four UEs, two cells and an eavesdropper; noise 1e-13 W, rho 0.1.

    UE 3 is away. In dB at 1 W: UE 0 has 40 at its station and 20 at the other, UE 1 30 and 10, UE 2
    25 (second station) and 15; at the eavesdropper 5, 12 and 18. Required: 20, 14, and nothing
    known of UE 2.
    """
    at_stations_db = array([[40.0, 20.0], [30.0, 10.0], [15.0, 25.0], [35.0, 35.0]])
    heard_db = array([5.0, 12.0, 18.0, 0.0])
    h, heard = (sqrt(1e-13 * 10 ** (x / 10)).astype(complex) for x in (at_stations_db, heard_db))
    links = Links(
        h[None, :, :, None],
        heard[None, :, None, None],
        array([[0, 0, 1, -1]]),
        full((1, 4), 1e6),
    )
    required = 0.1 / 10 ** (array([[20.0, 14.0, inf, 20.0]]) / 20)
    air = Air(1e-13, 0.0, "all", 99, 1e6, 1.0, 8.0, 0.0, 0.0, 1.0)
    return Look(links, required, array([0.1]), array([1e4]), zeros(1), air, WIDE)


SNR, REQUIRED, OTHER, HEARD, RANK = array(
    cases("""
    40.0, 30.0, 25.0
    20.0, 14.0, 0.0
    20.0, 10.0, 15.0
    5.0, 12.0, 18.0
    0.0, 1.0, 0.0
""")
)
BY_HAND = {
    "constant": ((-31.0,), full(3, -31.0)),
    "fractional": ((-4.0, 0.7), -4.0 - 0.7 * SNR),
    "equal SNR": ((11.0,), 11.0 - SNR),
    "inverse amplitude": ((-9.0,), -9.0 - SNR / 2),
    "required SNR": ((1.5,), 1.5 + REQUIRED - SNR),
    "capped inversion": ((9.0, -19.0), array([-31.0, -21.0, -19.0])),
    "rank ladder": ((19.0, 2.5), array([-21.0, -13.5, -6.0])),
    "log-linear": (
        (-5.0, -0.8, 0.3, 0.07, -0.11, 1.7),
        -5.0 - 0.8 * SNR + 0.3 * REQUIRED + 0.07 * OTHER - 0.11 * HEARD + 1.7 * RANK,
    ),
}


@mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_laws_by_hand(law):
    parameters, dbw = BY_HAND[law.name]
    assert len(parameters) == len(law.start) == len(law.spread) == len(PARAMETERS[law.name])
    assert_allclose(law.dbw(look(), array(parameters))[0, :3], dbw, atol=1e-9)


def test_what_laws_read_is_the_strongest_other_station_and_the_rank_within_the_cell():
    seen = look()
    result = array(
        [seen.snr_db, seen.required_db, seen.best_other_snr_db, seen.eavesdropper_snr_db, seen.rank]
    )
    assert_allclose(result[:, 0, :3], [SNR, REQUIRED, OTHER, HEARD, RANK], atol=1e-9)


def test_powers_are_the_nearest_within_the_limits_of_one_and_of_all():
    dbw = array([[0.0, -10.0, -20.0, -100.0]])
    assert_allclose(limit_to_w(dbw, WIDE), [[1.0, 0.1, 0.01, 1e-9]])
    capped = Limits(each_min_w=1e-3, each_max_w=0.5, total_min_w=0.0, total_max_w=10.0)
    assert_allclose(limit_to_w(dbw, capped), [[0.5, 0.1, 0.01, 1e-3]])
    shared = Limits(each_min_w=1e-3, each_max_w=0.5, total_min_w=0.0, total_max_w=0.3)
    result = limit_to_w(dbw, shared)
    assert_allclose(result.sum(), 0.3)
    assert (result >= 1e-3).all()
    assert (result <= 0.5).all()
    for tried in (
        default_rng(0).dirichlet(ones(4), 2000) * 0.296 + 1e-3
    ):  # none of that sum is nearer
        expected = norm(tried - [0.5, 0.1, 0.01, 1e-3]) + 1e-9
        assert norm(result - [0.5, 0.1, 0.01, 1e-3]) <= expected


# -- tuning


class Bowl:
    """Rounds on which the cost of one power, in dBW, is its squared distance from the best one."""

    def __init__(self, best_dbw):
        self.look = look()
        self.best_dbw = best_dbw
        self.judged_dbw = []

    def __len__(self):
        return 1

    def compute_costs(self, power_w):
        dbw = float(10 * log10(power_w[0, 0]))
        self.judged_dbw.append(dbw)
        return array([(dbw - self.best_dbw) ** 2])


def test_tuning_is_the_cross_entropy_method_with_the_best_8_of_48():
    """Generation by generation, written out once more; the best parameters so far are tried again
    in each."""
    law = Family("constant", LAWS[0].dbw, (-30.0,), (15.0,))
    bowl = Bowl(-3.0)
    result = tune_rule(law, bowl, 48 * 6, RNG)
    mean = -30.0
    spread = 15.0
    best = -30.0
    tried = []
    for g in range(6):
        drawn = mean + spread * RNG.normal("tune.constant", arange(48), (1,), item=g)[:, 0]
        drawn[0] = best
        by_merit = sorted(drawn.tolist(), key=lambda x: (max(min(x, 30.0), -90.0) + 3.0) ** 2)
        if g:
            best = min([best, by_merit[0]], key=lambda x: (x + 3.0) ** 2)
        else:
            best = by_merit[0]
        mean = np.mean(by_merit[:8])
        spread = max(std(by_merit[:8]), 0.05 * 15.0)
        tried += drawn.tolist()
    assert_allclose(bowl.judged_dbw, clip(tried, -90.0, 30.0), atol=1e-9)
    assert_allclose(result.parameters[0], best, atol=1e-9)
    assert_allclose(result.cost, (best + 3.0) ** 2)
    assert result.evaluations == 48 * 6
    assert abs(best + 3.0) < 1.0


# -- the search that knows everything


class Targets(Bowl):
    """Three rounds; a power vector costs its squared distance in dB from its round's targets (S,
    K)."""

    def __init__(self, target_dbw, limits=WIDE):
        self.look = replace(look(), limits=limits)
        self.target_dbw = asarray(target_dbw, float)

    def __len__(self):
        return len(self.target_dbw)

    def compute_costs(self, power_w, round_index=None):
        place = arange(len(self)) if round_index is None else round_index
        return ((10 * log10(power_w) - self.target_dbw[place]) ** 2).sum(axis=1)


def test_the_search_finds_the_one_optimum_of_every_round_to_half_of_its_least_step():
    known_best = Targets([[-3.3, -20.1, 5.2], [-40.0, 0.0, 11.4], [7.7, 7.7, -30.9]])
    result = search_best_powers(known_best, [zeros((3, 3)), full((3, 3), -20.0)])
    assert_allclose(10 * log10(result.power_w), known_best.target_dbw, atol=0.25 + 1e-9)
    assert_allclose(result.cost, known_best.compute_costs(result.power_w))


def test_an_exchange_leaves_where_steps_alone_are_caught():
    """Only the two orders of two powers cost little, and the wrong one more: no path of steps leads
    from it."""

    class Order(Targets):
        def compute_costs(self, power_w, round_index=None):
            dbw = np.round(10 * log10(power_w), 6)
            wrong = (dbw == [-10.0, -30.0]).all(axis=1)
            right = (dbw == [-30.0, -10.0]).all(axis=1)
            return select([right, wrong], [0.0, 1.0], default=50.0)

    result = search_best_powers(Order(zeros((1, 2))), [array([[-10.0, -30.0]])])
    assert_array_equal(result.cost, [0.0])
    assert_allclose(10 * log10(result.power_w), [[-30.0, -10.0]])


# -- rows of a round that was played live


def test_a_lost_row_weighs_what_the_rows_that_came_for_its_model_weigh_on_average():
    """Model 0: rows of weight 0.2 and 0.6 came, one was lost; of model 1 nothing came: a share each
    of two rows."""
    ue = array([0, 1, 2, 3, 4])
    model = array([0, 0, 0, 1, 1])
    last = SimpleNamespace(
        made=SimpleNamespace(ue=ue, model=model),
        weight=array([0.2, 0.6, 0.0, 0.0, 0.0]),
        ue=ue,
        channel=SimpleNamespace(decoded=array([True, True, False, False, False])),
    )
    setup = SimpleNamespace(learning=SimpleNamespace(defenses=(), round_s=60.0), uplink=Noma())
    outcome = SimpleNamespace(
        merges=[SimpleNamespace(uploads=last)], state=SimpleNamespace(parts={}, played=1)
    )
    by_model = []
    bound = SimpleNamespace(compute_contraction=lambda weights: by_model.append(weights) or 1.0)
    context = SimpleNamespace(snr_per_w=ones(6), scale=0.5, n_bits=1.0)
    rows, drawn_std = build_sent_rows_and_noise(
        SimpleNamespace(bound=bound), setup, outcome, context, 1
    )
    assert_allclose(rows.weight, [[0.2, 0.6, 0.4, 0.5, 0.5]])
    assert_allclose(by_model, [[[0.2, 0.6, 0.4, 0, 0, 0], [0, 0, 0, 0.5, 0.5, 0]]])
    assert not rows.required_std.any()
    assert not drawn_std.any()


def test_leakage_is_the_mean_over_attacks_of_the_share_that_comes_near_and_every_ues_part_of_it():
    """Of attack a two of four estimates come within 50 m, of b the only one: (1/2 + 1) / 2, of UEs
    1/8, 1/8 and 1/2."""
    rows = [
        dict(zip(("ue", "attack", "error_m"), row, strict=True))
        for row in cases("""
            0, "a", 10.0
            0, "a", 90.0
            1, "a", 50.0
            2, "a", 1e999
            2, "b", 0.0
        """)
    ]
    outcome = SimpleNamespace(leakage=rows)
    of_ue = _compute_leakage(outcome, 50.0, 4)
    assert of_ue.sum() == 0.75
    assert_allclose(of_ue, [1 / 8, 1 / 8, 1 / 2, 0.0])
    of_ue = _compute_leakage(SimpleNamespace(leakage=[]), 50.0, 4)
    assert of_ue.sum() == 0.0
    assert not of_ue.any()


def test_a_ue_that_never_sent_is_expected_to_need_what_the_others_need():
    """The root mean square of what is known; what is known of each stays."""
    result = expect_rounds(look(), full(1, 0.9)).rows
    a, b, away = 0.1 / 10 ** (array([20.0, 14.0, 20.0]) / 20)
    usual = sqrt((a**2 + b**2 + away**2) / 3)
    assert_allclose(result.required_std, [[a, b, usual, away]])
    assert_allclose(result.weight, [[1 / 3, 1 / 3, 1 / 3, 0]])
    assert_array_equal(result.ue, [[0, 1, 2, -1]])
    assert result.factor == 0.9
    assert result.lost_noise == compute_lost_noise(look().air, look().n_bits)


@mark.parametrize(
    "deadline_s, round_s",
    cases("""
    0.5, 60.0
    60.0, 0.5
    None, 0.5
"""),
)
def test_lost_noise_is_one_over_the_snr_at_which_a_row_just_arrives(deadline_s, round_s):
    """In the shorter of deadline and round; of few bits the least SINR at which anything is
    decoded."""
    uplink = Noma(deadline_s=deadline_s, bandwidth_hz=1e4)
    n_bits = array([100.0, 2e4])
    snr = 1.0 / compute_lost_noise(build_air(uplink, round_s), n_bits)
    law = uplink.rate.law
    assert_allclose(snr[0], law.min_sinr)
    assert_allclose(0.5 * 1e4 * law.attenuation * log2(1.0 + snr[1]), n_bits[1])


def test_what_one_ue_leaves_in_the_combining_for_another_is_its_snr_at_that_station():
    """UE k beside UE j: whether in one cell, and with a single antenna all of j at the station of
    k; of two antennas the part along the channel of k.
    """
    seen = look()
    cross_db = array([[40, 30, 15], [40, 30, 15], [20, 10, 25]])
    assert_allclose(10 * log10(seen._crossing[0, :3, :3]), cross_db, atol=1e-9)
    assert_array_equal(seen.same_cell[0, :3, :3], [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    assert not seen.same_cell[0, 3].any()
    towards = array([[1, 0], [0.6, 0.8j], [1, 0], [0, 1]])  # of unit size
    two = replace(seen, links=replace(seen.links, h=seen.links.h * towards[:, None]))
    share = abs(towards.conj() @ towards.T) ** 2
    assert_allclose(two._crossing[0, :3, :3], (share[:3, :3] * 10 ** (cross_db / 10)))
