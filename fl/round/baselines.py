"""What one would get without learning, and without privacy: the two ends that every utility figure needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fl.types import HeldOut, Local
from netsim.units import FloatArray, IntArray

NEIGHBOURS = 5


@dataclass(frozen=True)
class Reference:
    """Training samples so far, as a value: the constant predictor, and the map of raw uploads.

    x (N, 2), y (N,), model (N,). Raw upload: inverse-distance mean of the 5 nearest uploaded measurements, which a
    server could draw if every UE simply sent its data.
    """

    x: FloatArray
    y: FloatArray
    model: IntArray

    @classmethod
    def empty(cls) -> Self:
        """No samples."""
        return cls(np.zeros((0, 2)), np.zeros(0), np.zeros(0, dtype=np.int64))

    def plus(self, train: Local) -> Reference:
        """With a round's training samples."""
        y = np.zeros(len(train.x)) if train.y is None else train.y
        model = train.model[train.row_of_sample]
        return Reference(
            np.concatenate([self.x, train.x]), np.concatenate([self.y, y]), np.concatenate([self.model, model])
        )

    def evaluate(self, held_out: HeldOut) -> dict[str, float]:
        """`constant_rmse_db`, `constant_mape_percent` and `raw_upload_rmse_db` on held-out samples; NaN without any."""
        constant, raw = np.full(len(held_out), np.nan), np.full(len(held_out), np.nan)
        for m in np.unique(held_out.model):
            mine, theirs = self.model == m, held_out.model == m
            if mine.any():
                constant[theirs] = self.y[mine].mean()
                raw[theirs] = _neighbours(self.x[mine], self.y[mine], held_out.x[theirs])
        return {
            "constant_rmse_db": _rmse(constant, held_out.y),
            "constant_mape_percent": _mape(constant, held_out.y),
            "raw_upload_rmse_db": _rmse(raw, held_out.y),
        }


def _neighbours(x: Any, y: Any, at: Any) -> Any:
    from scipy.spatial import cKDTree

    distance, index = cKDTree(x).query(at, k=min(NEIGHBOURS, len(x)))
    distance, index = distance.reshape(len(at), -1), index.reshape(len(at), -1)
    weight = 1.0 / (distance + 1.0)  # a metre keeps an exact repeat from silencing its neighbours
    return (weight * y[index]).sum(axis=1) / weight.sum(axis=1)


def _rmse(guess: Any, truth: Any) -> float:
    known = np.isfinite(guess)
    return float(np.sqrt(np.mean((guess[known] - truth[known]) ** 2))) if known.any() else float("nan")


def _mape(guess: Any, truth: Any) -> float:
    known = np.isfinite(guess) & (truth != 0)
    return float(100 * np.mean(np.abs((guess - truth)[known] / truth[known]))) if known.any() else float("nan")
