"""Places told by which numbers of an update were sent: by loops, planted places, nulls, views, and resuming."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from test_place_attacks import AREA, FOURIER, PEOPLE, RNG, days_of, learner_of, of, played, run

from fl.attacks.place_maps import KeptNumbers
from fl.defenses.compression import Quantise, TopK
from fl.tracking.place_grid import PlaceGrid
from fl.types import DenseUpdates
from netsim.checkpoint import from_tree, load_tree, save_tree, to_tree
from netsim.rng import Streams

LEARNER = learner_of(**FOURIER, learning_rate=0.1, batch_size="all", local_epochs=4)
GRID = PlaceGrid.over(AREA, 25.0, 1, "")


def compressed(rounds, defense):
    """The same rounds, as the server observes them behind a defense."""
    made = []
    for view, facts in rounds:
        updates = DenseUpdates(view.ue, view.model, np.ones(len(view.ue)), view.update)
        kept, _, _ = defense.protect(updates, None, facts, None, Streams(5).at("defense", facts.round))
        made.append((type(view)(**{**vars(view), "update": kept.values}), facts))
    return made


def test_the_map_is_a_cosine_by_loops():
    ((view, _),) = compressed(played(LEARNER, days_of(1)), TopK(share=0.05))
    score = KeptNumbers().scores(view, GRID, RNG)
    layer = LEARNER.layer(view.update, 2)
    h = LEARNER.layer_input(view.model_before, 0, GRID.place_m, 2)
    for u in range(2):
        q = np.array([sum(number != 0 for number in layer[u, i]) for i in range(layer.shape[1] - 1)], dtype=float)
        s = np.array([np.sqrt(q) @ np.abs(x[:-1]) / (np.sqrt(q.sum()) * np.linalg.norm(x[:-1])) for x in h])
        assert_allclose(score[u], (s - s.mean()) / s.std(), atol=1e-10)


@pytest.mark.parametrize("defense", [TopK(share=0.02), Quantise(bits=2)], ids=["top-k", "two bits"])
def test_planted_places_are_named_and_those_of_others_are_not(defense):
    found, _ = run(KeptNumbers(), compressed(played(LEARNER, days_of(8)), defense))
    for u, mine in enumerate(PEOPLE):
        away = [[np.hypot(*(of(found, u) - place).T).min() for place in PEOPLE[k]] for k in (u, 1 - u)]
        assert min(away[0]) < 75 and min(away[1]) > 100, (u, away, mine)


def test_company_in_a_sum_is_named_together_and_models_by_model():
    for observes, owners in (("aggregate", 2), ("model", 1)):
        found, state = run(KeptNumbers(), played(LEARNER, days_of(2), observes=observes))
        assert len(state.owner) == owners
        assert_array_equal(of(found, 0), of(found, 1))


def test_what_is_remembered_survives_a_checkpoint(tmp_path):
    rounds = compressed(played(LEARNER, days_of(4)), TopK(share=0.05))
    whole, _ = run(KeptNumbers(), rounds)
    _, half = run(KeptNumbers(), rounds[:2])
    save_tree(tmp_path / "state", to_tree(half))
    again, _ = run(KeptNumbers(), rounds[2:], from_tree(load_tree(tmp_path / "state"), KeptNumbers().start()))
    assert_array_equal(again.position_m, whole.position_m)
