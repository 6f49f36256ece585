"""Homes and workplaces that attacks name in twelve commuters' daily rounds, beside another person's."""

import pytest

from scenarios.app.run.runner import run
from scenarios.app.study.load import load

RECIPES = {
    "one step": {"learning_rate": 0.1, "batch_size": "all", "local_epochs": 1},
    "several epochs": {"learning_rate": 0.01, "batch_size": 50, "local_epochs": 5},
}
# a fix every five minutes wherever they are, about 200 a day
FIXES = {"dwell_fixes_per_h": 12.0, "work_fixes_per_h": 12.0, "walk_fix_every_s": 300.0}


def study_of(recipe, seed):
    learner = {"kind": "rsrp-net", "hidden": [256, 128], "activation": "relu", "labels": "standardised"}
    return load(
        "town",
        {
            "seed": seed,
            "world.duration_s": 24 * 86400,
            "world.ues.mobility": {"kind": "commuter", **FIXES},
            "learning.learner": {**learner, **RECIPES[recipe]},
            "learning.defenses": [],
            "learning.attacks": [{"kind": "span"}, {"kind": "neuron-votes"}],
        },
    )


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_most_homes_and_workplaces_are_named_and_another_persons_are_not(recipe, tmp_path):
    found = [run(study_of(recipe, seed), tmp_path / str(seed)) for seed in (1, 2, 3)]

    def mean(key):
        return sum(summary[key] for summary in found) / len(found)

    named = "located"
    assert mean(f"attack.span.both_{named}.percent") >= 85
    assert mean(f"attack.span.first_{named}.percent") >= 95
    assert mean(f"attack.neuron-votes.first_{named}.percent") >= 90
    for attack in ("span", "neuron-votes"):
        assert mean(f"attack.{attack}.first_{named}.shuffled.percent") <= 10
    for chance in ("uniform", "others"):
        assert mean(f"baseline.{chance}.both_{named}.percent") <= 10
