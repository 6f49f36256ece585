"""Rules of power control, their tuning, and the search that knows everything, against hand-made
rounds."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from fl.power.search import Limits
from netsim.radio.shared_band import Noma
from netsim.rng import Streams
from rl.look import Look
from rl.powers import PARAMETERS
from rl.radio_records import ALL, Air, Links, _leakage, air_of, lost_noise, rows_sent
from rl.rules import LAWS, Family, best_powers, expected, tuned, within

RNG = Streams(2).at("rules")
WIDE = Limits(each_min_w=1e-9, each_max_w=1e3, total_min_w=0.0, total_max_w=1e6)


def look():
    """One round of four UEs, two cells and an eavesdropper; noise 1e-13 W, rho 0.1.

    UE 3 is away. In dB at 1 W: UE 0 has 40 at its station and 20 at the other, UE 1 30 and 10, UE 2
    25 (second station) and 15; at the eavesdropper 5, 12 and 18. Required: 20, 14, and nothing
    known of UE 2.
    """
    at_stations_db = np.array([[40.0, 20.0], [30.0, 10.0], [15.0, 25.0], [35.0, 35.0]])
    heard_db = np.array([5.0, 12.0, 18.0, 0.0])
    h, heard = (np.sqrt(1e-13 * 10 ** (x / 10)).astype(complex) for x in (at_stations_db, heard_db))
    links = Links(
        h[None, :, :, None],
        heard[None, :, None, None],
        np.array([[0, 0, 1, -1]]),
        np.full((1, 4), 1e6),
    )
    required = 0.1 / 10 ** (np.array([[20.0, 14.0, np.inf, 20.0]]) / 20)
    air = Air(1e-13, 0.0, ALL, 99, 1e6, 1.0, 8.0, 0.0, 0.0, 1.0)
    return Look(links, required, np.array([0.1]), np.array([1e4]), np.zeros(1), air, WIDE)


SNR, REQUIRED, OTHER, HEARD, RANK = (
    np.array(x, float) for x in ([40, 30, 25], [20, 14, 0], [20, 10, 15], [5, 12, 18], [0, 1, 0])
)
BY_HAND = {
    "constant": ((-31.0,), np.full(3, -31.0)),
    "fractional": ((-4.0, 0.7), -4.0 - 0.7 * SNR),
    "equal SNR": ((11.0,), 11.0 - SNR),
    "inverse amplitude": ((-9.0,), -9.0 - SNR / 2),
    "required SNR": ((1.5,), 1.5 + REQUIRED - SNR),
    "capped inversion": ((9.0, -19.0), np.array([-31.0, -21.0, -19.0])),
    "rank ladder": ((19.0, 2.5), np.array([-21.0, -13.5, -6.0])),
    "log-linear": (
        (-5.0, -0.8, 0.3, 0.07, -0.11, 1.7),
        -5.0 - 0.8 * SNR + 0.3 * REQUIRED + 0.07 * OTHER - 0.11 * HEARD + 1.7 * RANK,
    ),
}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)
def test_laws_by_hand(law):
    parameters, dbw = BY_HAND[law.name]
    assert len(parameters) == len(law.start) == len(law.spread) == len(PARAMETERS[law.name])
    np.testing.assert_allclose(law.dbw(look(), np.array(parameters))[0, :3], dbw, atol=1e-9)


def test_what_laws_read_is_the_strongest_other_station_and_the_rank_within_the_cell():
    seen = look()
    for found, wanted in (
        (seen.snr_db, SNR),
        (seen.required_db, REQUIRED),
        (seen.other_db, OTHER),
        (seen.heard_db, HEARD),
        (seen.rank, RANK),
    ):
        np.testing.assert_allclose(found[0, :3], wanted, atol=1e-9)


def test_powers_are_the_nearest_within_the_limits_of_one_and_of_all():
    dbw = np.array([[0.0, -10.0, -20.0, -100.0]])
    np.testing.assert_allclose(within(dbw, WIDE), [[1.0, 0.1, 0.01, 1e-9]])
    capped = Limits(each_min_w=1e-3, each_max_w=0.5, total_min_w=0.0, total_max_w=10.0)
    np.testing.assert_allclose(within(dbw, capped), [[0.5, 0.1, 0.01, 1e-3]])
    shared = Limits(each_min_w=1e-3, each_max_w=0.5, total_min_w=0.0, total_max_w=0.3)
    found = within(dbw, shared)
    assert found.sum() == pytest.approx(0.3)
    assert (found >= 1e-3).all()
    assert (found <= 0.5).all()
    for tried in (
        np.random.default_rng(0).dirichlet(np.ones(4), 2000) * 0.296 + 1e-3
    ):  # none of that sum is nearer
        assert (
            np.linalg.norm(found - [0.5, 0.1, 0.01, 1e-3])
            <= np.linalg.norm(tried - [0.5, 0.1, 0.01, 1e-3]) + 1e-9
        )


# -- tuning


class Bowl:
    """Rounds on which the cost of one power, in dBW, is its squared distance from the best one."""

    def __init__(self, best_dbw):
        self.look = look()
        self.best_dbw = best_dbw
        self.tried = []

    def __len__(self):
        return 1

    def cost(self, power_w):
        dbw = float(10 * np.log10(power_w[0, 0]))
        self.tried.append(dbw)
        return np.array([(dbw - self.best_dbw) ** 2])


def test_tuning_is_the_cross_entropy_method_with_the_best_8_of_48():
    """Generation by generation, written out once more; the best parameters so far are tried again
    in each."""
    law = Family("constant", LAWS[0].dbw, (-30.0,), (15.0,))
    bowl = Bowl(-3.0)
    found = tuned(law, bowl, 48 * 6, RNG)
    mean = -30.0
    spread = 15.0
    best = -30.0
    tried = []
    for g in range(6):
        drawn = mean + spread * RNG.normal("tune.constant", np.arange(48), (1,), item=g)[:, 0]
        drawn[0] = best
        by_merit = sorted(drawn.tolist(), key=lambda x: (max(min(x, 30.0), -90.0) + 3.0) ** 2)
        if g:
            best = min([best, by_merit[0]], key=lambda x: (x + 3.0) ** 2)
        else:
            best = by_merit[0]
        mean = np.mean(by_merit[:8])
        spread = max(np.std(by_merit[:8]), 0.05 * 15.0)
        tried += drawn.tolist()
    np.testing.assert_allclose(bowl.tried, np.clip(tried, -90.0, 30.0), atol=1e-9)
    assert found.parameters[0] == pytest.approx(best, abs=1e-9)
    assert found.cost == pytest.approx((best + 3.0) ** 2)
    assert found.evaluations == 48 * 6
    assert abs(best + 3.0) < 1.0


# -- the search that knows everything


class Targets(Bowl):
    """Three rounds; a power vector costs its squared distance in dB from its round's targets (S,
    K)."""

    def __init__(self, target_dbw, limits=WIDE):
        self.look = replace(look(), limits=limits)
        self.target_dbw = np.asarray(target_dbw, float)

    def __len__(self):
        return len(self.target_dbw)

    def cost(self, power_w, which=None):
        at = np.arange(len(self)) if which is None else which
        return ((10 * np.log10(power_w) - self.target_dbw[at]) ** 2).sum(axis=1)


def test_the_search_finds_the_one_optimum_of_every_round_to_half_of_its_least_step():
    known_best = Targets([[-3.3, -20.1, 5.2], [-40.0, 0.0, 11.4], [7.7, 7.7, -30.9]])
    found = best_powers(known_best, [np.zeros((3, 3)), np.full((3, 3), -20.0)])
    np.testing.assert_allclose(
        10 * np.log10(found.power_w), known_best.target_dbw, atol=0.25 + 1e-9
    )
    np.testing.assert_allclose(found.cost, known_best.cost(found.power_w))


def test_an_exchange_leaves_where_steps_alone_are_caught():
    """Only the two orders of two powers cost little, and the wrong one more: no path of steps leads
    from it."""

    class Order(Targets):
        def cost(self, power_w, which=None):
            dbw = np.round(10 * np.log10(power_w), 6)
            wrong = (dbw == [-10.0, -30.0]).all(axis=1)
            right = (dbw == [-30.0, -10.0]).all(axis=1)
            return np.select([right, wrong], [0.0, 1.0], default=50.0)

    found = best_powers(Order(np.zeros((1, 2))), [np.array([[-10.0, -30.0]])])
    assert found.cost.tolist() == [0.0]
    np.testing.assert_allclose(10 * np.log10(found.power_w), [[-30.0, -10.0]])


# -- rows of a round that was played live


def test_a_lost_row_weighs_what_the_rows_that_came_for_its_model_weigh_on_average():
    """Model 0: rows of weight 0.2 and 0.6 came, one was lost; of model 1 nothing came: a share each
    of two rows."""
    ue = np.array([0, 1, 2, 3, 4])
    model = np.array([0, 0, 0, 1, 1])
    last = SimpleNamespace(
        made=SimpleNamespace(ue=ue, model=model),
        weight=np.array([0.2, 0.6, 0.0, 0.0, 0.0]),
        ue=ue,
        channel=SimpleNamespace(decoded=np.array([True, True, False, False, False])),
    )
    setup = SimpleNamespace(learning=SimpleNamespace(defenses=(), round_s=60.0), uplink=Noma())
    outcome = SimpleNamespace(
        merges=[SimpleNamespace(uploads=last)], state=SimpleNamespace(parts={}, played=1)
    )
    by_model = []
    bound = SimpleNamespace(factor=lambda weights: by_model.append(weights) or 1.0)
    now = SimpleNamespace(snr_per_w=np.ones(6), scale=0.5, n_bits=1.0)
    rows, drawn_std = rows_sent(SimpleNamespace(bound=bound), setup, outcome, now, 1)
    np.testing.assert_allclose(rows.weight, [[0.2, 0.6, 0.4, 0.5, 0.5]])
    np.testing.assert_allclose(by_model, [[[0.2, 0.6, 0.4, 0, 0, 0], [0, 0, 0, 0.5, 0.5, 0]]])
    assert not rows.required_std.any()
    assert not drawn_std.any()


def test_leakage_is_the_mean_over_attacks_of_the_share_that_comes_near_and_every_ues_part_of_it():
    """Of attack a two of four estimates come within 50 m, of b the only one: (1/2 + 1) / 2, of UEs
    1/8, 1/8 and 1/2."""
    said = [(0, "a", 10.0), (0, "a", 90.0), (1, "a", 50.0), (2, "a", np.inf), (2, "b", 0.0)]
    rows = [{"ue": ue, "attack": attack, "error_m": away} for ue, attack, away in said]
    outcome = SimpleNamespace(leakage=rows)
    of_ue = _leakage(outcome, 50.0, 4)
    total = of_ue.sum()
    assert total == 0.75
    np.testing.assert_allclose(of_ue, [1 / 8, 1 / 8, 1 / 2, 0.0])
    of_ue = _leakage(SimpleNamespace(leakage=[]), 50.0, 4)
    total = of_ue.sum()
    assert total == 0.0
    assert not of_ue.any()


def test_a_ue_that_never_sent_is_expected_to_need_what_the_others_need():
    """The root mean square of what is known; what is known of each stays."""
    found = expected(look(), np.full(1, 0.9)).rows
    a, b, away = 0.1 / 10 ** (np.array([20.0, 14.0, 20.0]) / 20)
    usual = np.sqrt((a**2 + b**2 + away**2) / 3)
    np.testing.assert_allclose(found.required_std, [[a, b, usual, away]])
    np.testing.assert_allclose(found.weight, [[1 / 3, 1 / 3, 1 / 3, 0]])
    assert found.of.tolist() == [[0, 1, 2, -1]]
    assert found.factor == 0.9
    assert found.lost_noise == lost_noise(look().air, look().n_bits)


@pytest.mark.parametrize(("deadline_s", "round_s"), [(0.5, 60.0), (60.0, 0.5), (None, 0.5)])
def test_lost_noise_is_one_over_the_snr_at_which_a_row_just_arrives(deadline_s, round_s):
    """In the shorter of deadline and round; of few bits the least SINR at which anything is
    decoded."""
    uplink = Noma(deadline_s=deadline_s, bandwidth_hz=1e4)
    n_bits = np.array([100.0, 2e4])
    snr = 1.0 / lost_noise(air_of(uplink, round_s), n_bits)
    law = uplink.rate.law
    np.testing.assert_allclose(snr[0], law.min_sinr)
    np.testing.assert_allclose(0.5 * 1e4 * law.attenuation * np.log2(1.0 + snr[1]), n_bits[1])


def test_what_one_ue_leaves_in_the_combining_for_another_is_its_snr_at_that_station():
    """UE k beside UE j: whether in one cell, and with a single antenna all of j at the station of
    k; of two antennas the part along the channel of k.
    """
    seen = look()
    cross_db = np.array([[40, 30, 15], [40, 30, 15], [20, 10, 25]])
    np.testing.assert_allclose(10 * np.log10(seen._crossing[0, :3, :3]), cross_db, atol=1e-9)
    assert seen.same_cell[0, :3, :3].tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1]]
    assert not seen.same_cell[0, 3].any()
    towards = np.array([[1, 0], [0.6, 0.8j], [1, 0], [0, 1]])  # of unit size
    two = replace(seen, links=replace(seen.links, h=seen.links.h * towards[:, None]))
    share = np.abs(towards.conj() @ towards.T) ** 2
    np.testing.assert_allclose(two._crossing[0, :3, :3], (share[:3, :3] * 10 ** (cross_db / 10)))
