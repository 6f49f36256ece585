"""Whether a model has exploded: its numbers, or its predictions, have left what any data could have taught it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fl.learning import Learning
from fl.round.state import RoundState


def exploded(state: RoundState, figures: Mapping[str, Any]) -> bool:
    """Whether a model is not finite after a round, or its RMSE beyond what the held-out signals span.

    They span their range, or the largest of their absolute values, where that is more: a network that has learnt
    nothing may predict 0, and one that predicts a value between that and any of them errs by no more.
    """
    if not np.isfinite(state.model.parameters).all():
        return True
    y = state.held_out.usual.y  # what the error is of
    scores = figures.get("scores", {})
    if "rmse_db" not in scores or not len(y):
        return False
    least, most = float(y.min()), float(y.max())
    return not scores["rmse_db"] <= max(most, 0.0) - min(least, 0.0)


def explosion_warning(learning: Learning, number: int) -> str:
    """Warning of a run whose model exploded in round `number`: since when, and the remedies that the study has."""
    learner, server = learning.learner, learning.server_optimiser
    rate, limit = getattr(learner, "learning_rate", None), getattr(learner, "step_limit", "polyak")
    optimiser = getattr(learner, "optimiser", None)
    noisy = any("spend" in d.offers for d in learning.defenses)
    clips = any("bound" in d.offers for d in learning.defenses)
    remedies = ["less noise"] if noisy else ["a smaller norm of the clip" if clips else "the defense clip"]
    remedies += [] if rate is None else [f"a smaller learning.learner.learning_rate (here {rate:g})"]
    if limit == "none" and (optimiser is None or optimiser.linear):
        remedies.append("learning.learner.step_limit: polyak")
    if server.kind_name() != "fedavg" or getattr(server, "learning_rate", 1.0) > 1:
        remedies.append("a smaller learning_rate or momentum of learning.server_optimiser, such as {kind: fedavg}")
    return (
        f"the model exploded in round {number}: it is not finite, or errs by more than the signals span; neither its "
        f"error nor what leaks since means anything. Take {', or '.join(remedies)}"
    )
