"""References of a signal map: closed forms, another implementation, and that they touch nothing
else of a run."""

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import shapely
import torch
from numpy.random import default_rng
from numpy.testing import assert_allclose

from fl.learners.rsrp_net import RsrpNet
from fl.references import (
    Baselines,
    Reference,
    References,
    find_antenna,
    fit_covariance,
    map_kriging,
    map_path_loss,
    predict_by_neighbours,
)
from fl.round.final import measure_references
from fl.types import NEW_PLACE, Antennas, HeldOut, Local, Public
from netsim.city.buildings import Buildings
from netsim.columns import number_row
from netsim.geometry import Area
from netsim.rng import Streams

AREA = Area(0.0, 0.0, 800.0, 600.0)
RNG = Streams(4).derive_rng("references")
PLACED = {"signals", "positions"}
LEARNER = RsrpNet(hidden=(8,), labels="standardised")
MODEL = LEARNER.init(Public(AREA, 1), Streams(1).derive_rng("learner.init"))


def places(n, seed=0):
    return default_rng(seed).uniform([0, 0], [800, 600], (n, 2))


def law(x, antenna, n=3.5, intercept=-20.0):
    return intercept - 10 * n * np.log10(
        np.sqrt(((x - antenna[:2]) ** 2).sum(axis=1) + antenna[2] ** 2)
    )


class TestPathLoss:
    def test_a_known_antenna_gives_the_law_back(self):
        antenna = np.array([100.0, 500.0, 23.5])
        x = places(50)
        place_m = places(200, 1)
        expected = law(place_m, antenna)
        assert_allclose(
            map_path_loss(x, law(x, antenna), place_m, AREA, antenna[None]),
            expected,
            atol=1e-9,
        )

    @pytest.mark.parametrize("antenna", [(250.0, 130.0, 10.0), (-150.0, 900.0, 10.0)])
    def test_an_unknown_one_is_found_also_outside(self, antenna):
        x = places(300)
        place_m = places(200, 1)
        y = law(x, np.array(antenna))
        assert np.linalg.norm(find_antenna(x, y, AREA)[:2] - antenna[:2]) < 15.0
        expected = law(place_m, np.array(antenna))
        assert_allclose(map_path_loss(x, y, place_m, AREA), expected, atol=0.5)

    def test_three_numbers_are_least_squares_to_the_nearest_site_inside_and_outside(self):
        antennas = np.array([[100.0, 500.0, 23.5], [650.0, 90.0, 23.5], [400.0, 300.0, 8.5]])
        block = Buildings(np.array([shapely.box(0, 0, 400, 600)], dtype=object), np.array([3.0]))
        x = places(300)
        place_m = places(40, 1)
        noise = default_rng(3).normal(0, 7, 300)

        def terms(place):
            distance = np.sqrt(
                ((place[:, None] - antennas[:, :2]) ** 2).sum(-1) + antennas[:, 2] ** 2
            ).min(axis=1)
            return np.column_stack(
                [np.ones(len(place)), np.log10(distance), (place[:, 0] < 400).astype(float)]
            )

        y = terms(x) @ [-40.0, -30.0, -20.0] + noise
        numbers = np.linalg.lstsq(terms(x), y, rcond=None)[0]
        result = map_path_loss(x, y, place_m, AREA, antennas, block)
        assert_allclose(result, terms(place_m) @ numbers, atol=1e-9)
        assert abs(numbers[2] + 20) < 3  # walls


class TestKriging:
    def test_agrees_with_scikit_learn(self):
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import Matern, WhiteKernel

        x = places(120)
        place_m = places(50, 1)
        y = -90 + 6 * np.sin(x[:, 0] / 150) + default_rng(2).normal(0, 1, 120)
        length_m, noise = fit_covariance(x, y)
        k = np.exp(-np.linalg.norm(x[:, None] - x[None], axis=2) / length_m) + noise * np.eye(120)
        points = np.linalg.solve(k, np.ones(120))
        mean = points @ y / points.sum()
        targets = GaussianProcessRegressor(
            Matern(length_m, nu=0.5) + WhiteKernel(noise), optimizer=None
        ).fit(x, y - mean)
        expected = mean + targets.predict(place_m)
        assert_allclose(map_kriging(x, y, place_m), expected, rtol=1e-9)

    def test_the_covariance_of_a_field_is_found(self):
        x = places(200, 3)
        k = np.exp(-np.linalg.norm(x[:, None] - x[None], axis=2) / 100.0) + 0.1 * np.eye(200)
        result = [
            fit_covariance(x, -90 + 8 * np.linalg.cholesky(k) @ default_rng(s).normal(size=200))
            for s in range(20)
        ]
        length_m, noise = np.array(result).T
        assert 50 <= np.median(length_m) <= 200
        assert 0.03 <= np.median(noise) <= 0.3


def test_neighbours_weigh_by_distance():
    x = np.array([[0.0, 0.0], [3.0, 0.0], [100.0, 0.0]])
    y = np.array([-80.0, -90.0, 0.0])
    expected = (-80 / 2 - 90 / 3) / (1 / 2 + 1 / 3)
    assert_allclose(predict_by_neighbours(2, 0, x, y, np.array([[1.0, 0.0]])), expected)
    assert_allclose(predict_by_neighbours(25, 0, x[:1], y[:1], x), -80.0)


def test_places_are_looked_up_alike_in_pieces_and_together(monkeypatch):
    draw = default_rng(0)
    x = draw.uniform(0, 100, (50, 2))
    y = draw.normal(size=50)
    place_m = draw.uniform(0, 100, (20, 2))
    place_m[7] = np.nan
    houses = Buildings(np.array([shapely.box(10, 10, 60, 90)]), np.array([9.0]))
    together = predict_by_neighbours(5, 0, x, y, place_m[:7]), houses.is_indoors(place_m)
    assert together[1].any()
    assert not together[1].all()
    monkeypatch.setattr("fl.references._AT_ONCE", 3)
    monkeypatch.setattr("netsim.city.buildings._TABLE", 3)
    assert (predict_by_neighbours(5, 0, x, y, place_m[:7]) == together[0]).all()
    assert (houses.is_indoors(place_m) == together[1]).all()


def test_central_training_is_adam_of_torch():
    """It starts anew in each pass, at a rate that falls; raw labels are learnt from their level."""
    learner = RsrpNet(hidden=(7, 4), activation="tanh")
    net = learner.net
    model = learner.init(Public(Area(-1, -1, 1, 1), 2), RNG)
    start = model.parameters
    place_m = default_rng(0).normal(size=(150, 2))
    z = place_m * np.sqrt(3)
    y = np.sin(z[:, 0]) + z[:, 1] - 95.0
    none = np.zeros(150, int)
    held = HeldOut(none, none + 1, place_m, y, none)
    result = learner.train_from_scratch(model, held, 3, RNG)
    np.testing.assert_array_equal(result.parameters[0], start[0])  # which has no samples
    w = torch.tensor(start[1:], dtype=torch.float64, requires_grad=True)
    for epoch in range(3):
        adam = torch.optim.Adam([w], lr=2e-3 * (5 - 2 * epoch) / 6)
        order = replace(RNG, round=epoch).draw_orders(
            "order0m", number_row(np.array([0]), np.array([1])), np.array([150])
        )
        for first in range(0, 150, 64):
            batch = order[first : first + 64]
            adam.zero_grad()
            out = net.forward(w, torch.from_numpy(z[batch])[None])[0][0] - 95.0
            ((out - torch.from_numpy(y[batch])) ** 2).mean().backward()
            adam.step()
    assert_allclose(result.parameters[1], w.detach().numpy()[0], atol=2e-5)
    expected = net.forward(w, torch.from_numpy(z)[None])[0][0].detach().numpy() - 95.0
    assert_allclose(learner.predict_dbm(result, none + 1, place_m), expected, atol=1e-4)


def build_held_out(n):
    x = places(n, 9)
    zero = np.zeros(n, dtype=np.int64)
    return HeldOut(zero, zero, x, law(x, np.array([300.0, 200.0, 20.0])), zero)


class TestByPlace:
    """Training samples west of 400 m, held-out ones everywhere: 24 of 48 blocks of 100 m are
    new."""

    KNOWN = Antennas(
        np.array([[300.0, 200.0, 21.5], [300.0, 200.0, 21.5], [3000.0, 3000.0, 21.5]]), np.zeros(3)
    )

    def score_parts(self, settings, held):
        x = places(2000)
        x[:, 0] /= 2
        none = np.zeros(len(x), dtype=np.int64)
        reference = Reference(x, law(x, np.array([300.0, 200.0, 20.0])), none, none)
        public = Public(AREA, 1, antennas=self.KNOWN)
        data = SimpleNamespace(offers=PLACED, new_block_m=100.0)
        learning = SimpleNamespace(data=data, learner=LEARNER, references=settings)
        setup = SimpleNamespace(
            learning=learning, public=public, model_of_cell=np.zeros(3, int), streams=Streams(4)
        )
        return measure_references(
            setup, SimpleNamespace(model=MODEL, held_out=held, reference=reference)
        )

    def test_samples_in_blocks_without_training_are_scored_apart(self):
        held = build_held_out(1000)
        result = self.score_parts(References(neighbours=1, central=False), held)
        new = held.x[:, 0] >= 400
        assert result["place.samples"] == new.sum()
        assert result["place.blocks"] == 24
        assert result["neighbours_rmse_db.place"] > result["neighbours_rmse_db"]  # nothing near
        # the nearest of two sites
        assert result["path_loss_rmse_db"] < 1e-9
        assert result["path_loss_rmse_db.place"] < 1e-9
        assert result["kriging_rmse_db.place"] < 1e-9  # of what the law leaves
        x = places(2000) / [2, 1]
        mean = law(x, np.array([300.0, 200.0, 20.0])).mean()
        expected = np.sqrt(((held.y[new] - mean) ** 2).mean())
        assert result["constant_rmse_db.place"] == pytest.approx(expected)
        assert result["rmse_db.place"] == LEARNER.evaluate(MODEL, held.select(new))["rmse_db"]

    def test_those_held_out_with_their_block_score_it_by_place_alone(self):
        held = build_held_out(1000)
        grouped = replace(held, group=np.where(held.x[:, 0] >= 400, NEW_PLACE, 0))
        expected = held.select(held.x[:, 0] < 400)
        settings = References()
        blocks_of_all = self.score_parts(settings, grouped)
        west = self.score_parts(settings, expected)
        result = {k: v for k, v in blocks_of_all.items() if "place" not in k}
        assert result == pytest.approx({k: v for k, v in west.items() if "place" not in k})
        assert "central_rmse_db.place" in blocks_of_all
        assert "central_rmse_db.place" not in west
        assert len(grouped.usual) == len(expected)


# -- baselines of samples of many rounds are measured again where samples have grown


def number_samples(n, first=0):
    number = np.arange(first, first + n)
    return HeldOut(
        number, number % 3, np.column_stack([number, -number]).astype(float), number / 2, number % 5
    )


def build_training(n, first=0):
    x = np.column_stack([np.arange(first, first + n), np.zeros(n)]).astype(float)
    return Local(
        np.array([1]),
        np.array([0]),
        np.array([0, n]),
        x,
        x[:, 0] / 7,
        np.zeros(n),
        np.zeros(n, int),
    )


def play(monkeypatch, rounds, n):
    """Rounds of so many samples each: after which of them baselines were measured, and the last
    figures."""
    measured = []
    evaluate = Reference.evaluate

    def count(self, held_out):
        measured.append(len(self))
        return evaluate(self, held_out)

    monkeypatch.setattr(Reference, "evaluate", count)
    reference = Reference.empty()
    held_out = number_samples(50)
    result = Baselines()
    for k in range(rounds):
        reference = Reference.join([reference, Reference.from_training(build_training(n, k * n))])
        held_out = HeldOut.join([held_out, number_samples(5, 5 * k)])
        result = result.update(reference, held_out, 2000)
    return [m // n for m in measured], result


@pytest.mark.slow
def test_the_samples_that_baselines_read_grow_no_faster_than_the_run(monkeypatch):
    read = {rounds: sum(play(monkeypatch, rounds, 400)[0]) for rounds in (500, 2000)}
    assert read[2000] / read[500] < 4.7  # in every round: 16


def test_baselines_stand_within_a_fiftieth_of_the_samples(monkeypatch):
    place_m, result = play(monkeypatch, 300, 400)
    assert all(b - a <= max(1, a / 50 + 1) for a, b in pairwise(place_m))
    assert 51 * result.trained >= 50 * 300 * 400 - 51 * 400
    current = Reference.from_training(build_training(result.trained)).evaluate(number_samples(50))
    assert result.figures.keys() == current.keys()
