"""Homes and workplaces that attacks name in twelve commuters' daily rounds, beside another
person's."""

from pytest import mark

from scenarios.app.result import run
from scenarios.app.study.load import load

RECIPES = {
    "one step": {"learning_rate": 0.1, "batch_size": "all", "local_epochs": 1},
    "several epochs": {"learning_rate": 0.01, "batch_size": 50, "local_epochs": 5},
}


def make_study(recipe, seed):
    learner = {
        "kind": "rsrp-net",
        "hidden": [256, 128],
        "activation": "relu",
        "labels": "standardised",
    }
    return load(
        "town",
        {
            "seed": seed,
            "world.duration_s": 24 * 86400,
            "world.ues.mobility": {"kind": "commuter"},
            "learning.learner": {**learner, **RECIPES[recipe]},
            "learning.defenses": [],
            "learning.attacks": [{"kind": "span"}, {"kind": "neuron-votes"}],
        },
    )


@mark.slow
@mark.parametrize("recipe", RECIPES)
def test_most_homes_and_workplaces_are_named_and_another_persons_are_not(recipe, tmp_path):
    summary = [run(make_study(recipe, seed), tmp_path / str(seed)) for seed in (1, 2, 3)]

    def mean(key):
        return sum(summary[key] for summary in summary) / len(summary)

    assert mean("attack.span.home_located.percent") >= 95
    assert mean("attack.span.both_located.percent") >= 70
    assert mean("attack.neuron-votes.home_located.percent") >= 70
    for attack in ("span", "neuron-votes"):
        assert mean(f"attack.{attack}.home_located.shuffled.percent") <= 10
    for chance in ("uniform", "others"):
        assert mean(f"baseline.{chance}.both_located.percent") <= 10
