"""The privacy curve against published numbers, the ledger, clipping and noise, and when one record
is bounded."""

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest
from fl_values import build_context, build_local, build_updates
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from noticed import lines as lines_of
from numpy.testing import assert_allclose
from pytest import approx, raises
from tabled import cases

from fl.data.measured import Measured, Segments
from fl.defenses import DEFENSES
from fl.defenses.clip import Clip
from fl.defenses.gaussian import Gaussian
from fl.learners.rsrp_net import RsrpNet
from fl.privacy.gaussian import compute_gaussian_delta, compute_gaussian_epsilon
from fl.privacy.ledger import ALL, Ledger
from fl.round.caveats import collect_caveats
from fl.round.learning import Learning
from fl.types import Bound, Spend
from netsim.errors import BadInput
from netsim.rng import Streams
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.results.shown import describe_accounts

parametrize = pytest.mark.parametrize

RNG = Streams(8).derive_rng("defense.gaussian", 2)
FACTS = build_context()
NOBODY = build_local()


class TestCurve:
    @parametrize("mu", [0.1, 1.0, 5.0])
    @parametrize("epsilon", [0.0, 0.5, 3.0, 20.0])
    def test_delta_is_the_integral_of_the_curve(self, mu, epsilon):
        """delta = integral of (p - e^eps q)+ for the densities p = N(mu, 1) and q = N(0, 1)."""
        x = np.linspace(-12, 12 + mu, 400_001)
        p = np.exp(-((x - mu) ** 2) / 2)
        q = np.exp(-(x**2) / 2)
        integral = (
            np.maximum(p - math.exp(epsilon) * q, 0).sum() * (x[1] - x[0]) / math.sqrt(2 * math.pi)
        )
        assert compute_gaussian_delta(epsilon, mu) == approx(integral, rel=1e-5, abs=1e-14)

    @settings(max_examples=100, deadline=None)
    @given(st.floats(-12, -0.3), st.floats(-3, 6))
    def test_epsilon_is_the_inverse_of_delta(self, log_delta, log_mu):
        delta = 10.0**log_delta
        mu = 10.0**log_mu
        epsilon = compute_gaussian_epsilon(delta, mu)
        assert epsilon >= 0
        if epsilon > 0:
            assert compute_gaussian_delta(epsilon, mu) == approx(delta, rel=1e-6)
        else:
            assert compute_gaussian_delta(0.0, mu) <= delta

    @parametrize("log_mu", range(-300, 151, 25))
    @parametrize("delta, z", [(1e-5, 4.264890793922602), (0.4, 0.2533471031357997)])
    def test_extreme_mu(self, log_mu, delta, z):
        """Between 0 and the zCDP bound, and for large mu at mu^2 / 2 + mu z with Phi(-z) =
        delta."""
        mu = 10.0**log_mu
        epsilon = compute_gaussian_epsilon(delta, mu)
        assert 0 <= epsilon <= mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
        if log_mu < -10:
            assert epsilon == 0
        if log_mu > 6:
            expected = mu * mu / 2 + mu * z
            assert epsilon == approx(expected, rel=1e-12)

    @parametrize("mu", [1e2, 1e3, 1e4, 1e5])
    def test_large_mu_is_accurate(self, mu):
        """delta = Phi(-t) - phi(t) / (mu + t) (1 - 1 / (mu + t)^2 ...) with eps = mu^2 / 2 + mu
        t."""
        t = compute_gaussian_epsilon(1e-5, mu) / mu - mu / 2
        tail = 0.5 * math.erfc(t / math.sqrt(2)) - math.exp(-t * t / 2) / math.sqrt(2 * math.pi) / (
            mu + t
        )
        assert tail == approx(1e-5, rel=2e-4)

    def test_ends(self):
        assert compute_gaussian_epsilon(1e-5, 0.0) == 0
        assert compute_gaussian_delta(1.0, 0.0) == 0
        assert compute_gaussian_epsilon(1e-5, math.inf) == math.inf
        assert compute_gaussian_epsilon(1e-5, 1e200) == math.inf  # beyond the largest number
        assert compute_gaussian_epsilon(0.5, 1e-3) == 0
        assert compute_gaussian_delta(1e6, 1.0) == 0
        assert compute_gaussian_delta(0.0, 1e9) == 1
        assert compute_gaussian_delta(5.0, math.inf) == 1
        # and never 0, which would claim perfect privacy
        assert math.isnan(compute_gaussian_delta(1.0, math.nan))
        with raises(ValueError):
            compute_gaussian_epsilon(1e-5, math.nan)

    @parametrize("delta", [0.0, 1.0, -1e-5, 2.0, math.nan])
    def test_delta_must_be_a_probability(self, delta):
        with raises(ValueError, match="delta must lie in"):
            compute_gaussian_epsilon(delta, 1.0)


def spend(
    ue, std=1.0, sensitivity=1.0, mechanism="gaussian", unit="user", relation="replace", delta=1e-5
):
    ue = np.asarray(ue, dtype=np.int64)
    ones = np.ones(len(ue))
    model = np.zeros_like(ue)
    return Spend(mechanism, ue, model, std * ones, sensitivity * ones, unit, relation, delta)


class TestLedger:
    def epsilon(self, state, **match):
        result = [
            s for s in state.list_statements() if all(getattr(s, k) == v for k, v in match.items())
        ]
        assert len(result) == 1
        return result[0].epsilon

    def test_rounds_compose_exactly(self):
        state = Ledger(3)
        for _ in range(100):
            state = state.add([spend([0, 2])])
        assert self.epsilon(state).tolist() == approx([91.817, 0.0, 91.817], abs=5e-4)

    def test_rows_of_one_ue_compose(self):
        """One UE in two models spends twice: mu^2 adds up."""
        state = Ledger(2).add([spend([0, 0, 1], std=[1.0, 2.0, 1.0], sensitivity=[3.0, 2.0, 3.0])])
        expected = [
            compute_gaussian_epsilon(1e-5, math.sqrt(9 + 1)),
            compute_gaussian_epsilon(1e-5, 3.0),
        ]
        assert_allclose(self.epsilon(state), expected, rtol=1e-12)

    def test_mechanisms_units_relations_and_deltas_stay_apart(self):
        kinds = [
            {},
            {"mechanism": "radio"},
            {"unit": "record"},
            {"relation": "add-remove"},
            {"delta": 1e-7},
        ]
        state = Ledger(1).add([spend([0], **k) for k in kinds])
        state = state.add([spend([0])])
        apart = [s for s in state.list_statements() if s.mechanism != ALL]
        assert len(apart) == 5
        twice = self.epsilon(
            state, mechanism="gaussian", unit="user", relation="replace", delta=1e-5
        )
        assert twice[0] == approx(compute_gaussian_epsilon(1e-5, math.sqrt(2)), rel=1e-12)
        for costs in ({"mechanism": "radio"}, {"unit": "record"}, {"relation": "add-remove"}):
            result = self.epsilon(state, **costs)[0]
            assert result == approx(compute_gaussian_epsilon(1e-5, 1.0), rel=1e-12)
        second = self.epsilon(state, mechanism="gaussian", delta=1e-7)[0]
        assert second == approx(compute_gaussian_epsilon(1e-7, 1.0), rel=1e-12)

    def test_noise_at_the_server_counts_for_everybody(self):
        """ue = -1 is the server's draw on behalf of all."""
        state = Ledger(4).add([spend([-1]), spend([2])])
        shared = compute_gaussian_epsilon(1e-5, 1.0)
        two = compute_gaussian_epsilon(1e-5, math.sqrt(2))
        assert_allclose(self.epsilon(state), [shared, shared, two, shared], rtol=1e-12)


def build_sent(values, bound=None):
    values = np.atleast_2d(np.asarray(values, dtype=np.float64))
    return build_updates(values, bound=bound)


def protect(defense, updates, rng=RNG):
    result, _, spends = defense.protect(updates, NOBODY, FACTS, defense.start(0), rng)
    return result, spends


def exact_norm(row):
    """L2 norm with 60 digits."""
    getcontext().prec = 60
    return sum(Decimal(float(v)) ** 2 for v in row).sqrt()


WILD = st.floats(allow_nan=True, allow_infinity=True, allow_subnormal=True)


class TestClip:
    @settings(max_examples=100, deadline=None)
    @given(arrays(np.float64, (3, 4), elements=WILD), st.floats(1e-6, 1e6))
    def test_never_exceeds_the_bound_whatever_the_row(self, values, norm):
        result, _ = protect(Clip(norm=norm), build_sent(values))
        assert np.isfinite(result.values).all()
        for row in result.values:
            assert exact_norm(row) <= Decimal(norm)

    @parametrize("d", [100, 33_793])
    def test_never_exceeds_the_bound_with_many_numbers(self, d):
        """Rounding of a long sum must not leave the row a hair too long."""
        rng = np.random.default_rng(d)
        rows = [
            rng.normal(size=d),
            rng.exponential(size=d),
            np.full(d, 0.1),
            np.geomspace(1e-8, 1e3, d),
        ]
        result, _ = protect(Clip(norm=1.0), build_sent(rows))
        for row in result.values:
            assert math.fsum(v * v for v in row) <= 1.0 + 2e-16
            assert exact_norm(row) <= 1

    def test_what_is_not_finite_becomes_zero(self):
        result, _ = protect(
            Clip(norm=1.0), build_sent([[np.nan, 1.0], [np.inf, 1.0], [1.0, 1e308]])
        )
        assert not result.values[:2].any()
        assert np.isfinite(result.values).all()

    def test_promises_what_it_holds(self):
        clip = Clip(norm=0.7, relation="add-remove")
        result, _ = protect(clip, build_sent([[1.0, 1.0]]))
        assert result.bound == Bound(0.7, "user", "add-remove")
        assert clip.promise_norm({}) == 0.7


class TestGaussian:
    def test_empirical_deviation(self):
        # one moves by 4 when its data are replaced
        bounded = build_sent(np.zeros((40, 5000)), Bound(2.0))
        result, spends = protect(Gaussian(noise_multiplier=0.75), bounded)
        assert result.values.std() == approx(3.0, rel=0.02)
        assert result.values.mean() == approx(0, abs=5 * 3 / math.sqrt(200_000))
        assert spends[0].std.tolist() == [3.0] * 40

    def test_rows_and_rounds_draw_apart(self):
        bounded = build_sent(np.zeros((2, 50)), Bound(1.0))
        draw = [
            protect(Gaussian(noise_multiplier=1.0), bounded, Streams(8).derive_rng(p, r))[0].values
            for p, r in (("a", 1), ("a", 2), ("b", 1))
        ]
        assert len(np.unique(np.concatenate([d.ravel() for d in draw]))) == 300
        again = protect(Gaussian(noise_multiplier=1.0), bounded, Streams(8).derive_rng("a", 1))[
            0
        ].values
        np.testing.assert_array_equal(again, draw[0])

    @parametrize("multiplier", [1e-300, 1e-160, 1e-9, 1e9])
    def test_absurd_multipliers_are_booked_without_a_warning(self, multiplier):
        _, (cost,) = protect(
            Gaussian(noise_multiplier=multiplier), build_sent(np.ones((1, 3)), Bound(1.0))
        )
        epsilon = Ledger(1).add([cost]).list_statements()[0].epsilon[0]
        assert epsilon >= 0
        assert math.isinf(epsilon) == (multiplier < 1e-150)


CLIP = {"kind": "clip", "norm": 1.0}
NOISE = {"kind": "gaussian", "noise_multiplier": 1.0}


class TestChain:
    def test_a_second_noise_is_refused_unless_clipped_again(self, tiny):
        second = {**NOISE, "name": "again"}
        with raises(BadInput, match=r"defenses\[2\].*needs a bound.*put a clip before it"):
            tiny({"learning.defenses": [CLIP, NOISE, second]})
        tiny({"learning.defenses": [CLIP, NOISE, {**CLIP, "name": "reclip"}, second]})


def test_a_run_books_every_round(tiny, tmp_path):
    """Noise as large as the sensitivity under replacement: mu = 1 for every round taken part in."""
    one_model = {"learning.data": {"kind": "measured", "cell": "strongest"}, "learning.round_s": 24}
    study = tiny(one_model | {"learning.defenses": [{**CLIP, "norm": 0.1}, NOISE]})
    summary = run(study, tmp_path / "run")
    spends = read_record_table(tmp_path / "run", "spends")
    updates = read_record_table(tmp_path / "run", "updates")
    expected = [compute_gaussian_epsilon(1e-5, math.sqrt(r)) for r in range(1, 6)]
    assert_allclose(spends["epsilon"], np.repeat(expected, 4), rtol=1e-8)
    assert summary["privacy.gaussian.epsilon.max"] == approx(expected[-1], rel=1e-8)
    assert (spends["std"] == 0.2).all()
    assert (spends["sensitivity"] == 0.2).all()
    assert (spends["noise_multiplier"] == study.learning.defenses[1].noise_multiplier).all()
    assert (updates["norm"] > 0.1).all()  # it was clipped ...
    d = study.learning.learner.net.n_parameters
    # ... and drowned
    assert updates["sent_norm"] == approx(np.full(20, 0.2 * math.sqrt(d)), rel=0.5)


@parametrize("kind", ["gaussian", "uniform-dp", "arb", "lapa", "noise-switch"])
@parametrize("relation, stated", [("add-remove", "zero-out"), ("replace", "replace")])
def test_noise_on_a_ue_hides_no_presence_from_a_server_that_sees_its_row(
    tiny, tmp_path, kind, relation, stated
):
    noise = NOISE if kind == "gaussian" else DEFENSES.parts[kind].example
    run(tiny({"learning.defenses": [CLIP | {"relation": relation}, noise]}), tmp_path)
    assert set(read_record_table(tmp_path, "spends")["relation"]) == {stated}
    (lines,) = describe_accounts(read_record_table(tmp_path, "privacy"))
    assert f"unit user, {stated};" in lines


class TestRecordsByThemselves:
    def learning(self, data):
        learner = RsrpNet(hidden=(4,), sample_clip=1.0)
        noise = Gaussian(noise_multiplier=1.0)
        return Learning(round_s=60.0, data=data, learner=learner, defenses=(noise,))

    @parametrize(
        "data",
        [
            Measured(),
            Measured(memory="all", participants="holding"),
            Measured(hold_out_by="day"),
            Segments(hold_out=0.0, cell="all"),
        ],
        ids=str,
    )
    def test_noise_may_follow(self, data):
        self.learning(data)

    @parametrize(
        "data",
        [
            Measured(memory=5),
            Measured(hold_out_by="session"),
            Measured(cell="strongest"),
            Segments(cell="all"),
            Measured(memory="all"),
            Measured(hold_out_by="block"),
            Measured(hold_out_by=("sample", "block")),
        ],
        ids=str,
    )
    def test_where_one_record_changes_which_others_are_learnt_from_there_is_no_bound(self, data):
        with raises(ValueError, match="gaussian needs a bound"):
            self.learning(data)

    def test_a_cohort_of_nobody_has_the_bound_of_a_device_with_one_record(self):
        learner = RsrpNet(hidden=(4,), sample_clip=0.5, learning_rate=0.01)
        updates = learner.train_locally(learner.init(FACTS.public, RNG), "all", NOBODY, RNG)
        assert updates.bound.norm == approx(0.01 * 0.5)


@parametrize(
    "data, ties",
    cases("""
    {}, "the round in which a UE measures first"
    {"memory": "round"}, ""
    {"memory": "round", "hold_out_ues": 1}, "one UE takes the place of another"
    """),
)
def test_noise_of_ues_beside_data_that_tie_them_together_says_what_it_does_not_cover(
    tiny, data, ties
):
    changes = {
        "world.ues.measure": "all",
        "learning.attacks": [],
        "learning.data": {"kind": "links", **data},
        "learning.learner": {"kind": "radio-map", "cell_m": 25},
        "learning.defenses": [{"kind": "clip"}, {"kind": "gaussian", "noise_multiplier": 1.0}],
    }
    lines = [
        line
        for line in lines_of(collect_caveats(tiny(changes).learning, False))
        if line.startswith("data:")
    ]
    assert len(lines) == bool(ties)
    assert all(ties in line and "no epsilon here" in line for line in lines)
