"""How much each setting decides of an objective, by a forest of trees over the finished trials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scenarios.app.tuning.goals import Goals

if TYPE_CHECKING:
    import optuna

_FEWEST = 8  # finished trials below which nothing is said


def importances(tried: optuna.Study, goals: Goals, seed: int) -> dict[str, dict[str, float]]:
    """Objective -> setting -> its share of the variance (functional ANOVA); nothing where trials do not tell.

    [Hutter, Hoos, Leyton-Brown, An Efficient Approach for Assessing Hyperparameter Importance, ICML 2014]
    """
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    done = [t for t in tried.trials if t.state.name == "COMPLETE"]
    told: dict[str, dict[str, float]] = {}
    for k, objective in enumerate(goals.objectives):
        if len(done) < _FEWEST or len({t.values[k] for t in done}) < 2:
            continue

        def target(trial: optuna.trial.FrozenTrial, at: int = k) -> float:
            return float(trial.values[at])

        shares = get_param_importances(
            tried, evaluator=FanovaImportanceEvaluator(seed=seed % 2**32), target=target, normalize=True
        )
        told[objective.key] = {name: round(float(share), 4) for name, share in shares.items()}
    return told
