"""What one would get without learning, and without privacy: the ends that every utility figure needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from fl.learners.base import Learner
from fl.references.kriging import kriging_map
from fl.references.neighbours import nearest_neighbours
from fl.references.path_loss import path_loss_map
from fl.references.references import References, thinned
from fl.types import HeldOut, Local, Model, Public
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

NEIGHBOURS = 5
KRIGED = 20_000  # samples of all models together, and places, that kriging looks at
CENTRAL_MODELS = 3  # central training of all models together uses so many times the samples of one


@dataclass(frozen=True, eq=False)
class Reference:
    """Training samples, as a value: the constant predictor, and the map of raw uploads.

    x (N, 2), y (N,), model (N,), cell (N,). Raw upload: inverse-distance mean of the 5 nearest uploaded measurements,
    which a server could draw if every UE simply sent its data.
    """

    equal_rows: ClassVar[bool] = True
    bounds: ClassVar[dict[str, tuple[float, float]]] = dict.fromkeys(("x", "y"), (-1e9, 1e9))
    x: FloatArray
    y: FloatArray
    model: IntArray
    cell: IntArray

    @classmethod
    def empty(cls) -> Self:
        """No samples."""
        nothing = np.zeros(0, dtype=np.int64)
        return cls(np.zeros((0, 2)), np.zeros(0), nothing, nothing)

    @classmethod
    def of(cls, train: Local) -> Self:
        """A round's training samples."""
        y = np.zeros(len(train.x)) if train.y is None else train.y
        cell = np.zeros(len(train.x), dtype=np.int64) if train.cell is None else train.cell
        return cls(train.x, y, train.model[train.row_of_sample], cell)

    def __len__(self) -> int:
        return len(self.y)

    @property
    def samples(self) -> HeldOut:
        """The samples as records of nobody in particular."""
        return HeldOut(np.zeros(len(self.y), dtype=np.int64), self.model, self.x, self.y, self.cell)

    def evaluate(self, held_out: HeldOut) -> dict[str, float]:
        """`constant_rmse_db`, `constant_mape_percent` and `raw_upload_rmse_db` on held-out samples; NaN without any."""
        constant, raw = np.full(len(held_out), np.nan), np.full(len(held_out), np.nan)
        for m in np.unique(held_out.model):
            mine, theirs = self.model == m, held_out.model == m
            if mine.any():
                constant[theirs] = self.y[mine].mean()
                raw[theirs] = nearest_neighbours(self.x[mine], self.y[mine], held_out.x[theirs], NEIGHBOURS)
        return {
            "constant_rmse_db": _rmse(constant, held_out.y),
            "constant_mape_percent": _mape(constant, held_out.y),
            "raw_upload_rmse_db": _rmse(raw, held_out.y),
        }


@dataclass(frozen=True, eq=False)
class Final:
    """What the references at the end of a run are drawn from.

    cells_of_model: for each model the indices of the cells that it learns; model: the final one, whose shape and public
    constants central training takes over.
    """

    how: References
    public: Public
    cells_of_model: list[IntArray]
    learner: Learner
    model: Model


def final_references(reference: Reference, final: Final, held_out: HeldOut, rng: Rng) -> dict[str, float]:
    """`neighbours_rmse_db`, `path_loss_rmse_db`, `kriging_rmse_db` and `central_rmse_db`, those that are asked for.

    NaN where nothing was held out or trained on. `federated_over_central` compares both networks on the held-out
    samples of models that somebody trained; NaN where central training failed, with a map worse than a constant.
    """
    how, figures = final.how, dict[str, float]()
    laws: dict[str, Any] = {}
    if how.neighbours is not None:
        most = how.neighbours
        laws["neighbours_rmse_db"] = lambda m, x, y, at: nearest_neighbours(x, y, at, most)
    if how.path_loss:
        laws["path_loss_rmse_db"] = lambda m, x, y, at: path_loss_map(x, y, at, final.public.area, _antenna(final, m))
    for name, law in laws.items():
        figures[name] = _scored(reference, held_out, law)
    if how.kriging_samples:
        few = _thinned(reference, how.kriging_samples, KRIGED)
        figures["kriging_rmse_db"] = _scored(few, held_out.thinned(KRIGED), lambda m, x, y, at: kriging_map(x, y, at))
    if how.central:
        few = _thinned(reference, how.central_samples, CENTRAL_MODELS * how.central_samples)
        trained = final.learner.trained_centrally(final.model, few.samples, how.central_epochs, rng)
        if trained is not None:
            known = held_out.only(np.isin(held_out.model, few.model))
            here, there = (final.learner.evaluate(m, known).get("rmse_db", np.nan) for m in (final.model, trained))
            constant = _scored(few, known, lambda m, x, y, at: np.full(len(at), y.mean()))
            fits = 0 < there <= constant  # worse than a constant, it has failed and measures nothing
            figures |= {"central_rmse_db": there, "federated_over_central": here / there if fits else np.nan}
    return figures


def _antenna(final: Final, model: int) -> FloatArray | None:
    """Place and height above the UEs (3,) of the antenna of a model's cell; None where unknown, or of several cells."""
    cells, antennas = final.cells_of_model[model], final.public.antennas
    if antennas is None or len(cells) != 1:
        return None
    return np.asarray(antennas.at_m[cells[0]] - np.array([0.0, 0.0, final.public.ue_height_m]))


def _scored(reference: Reference, held_out: HeldOut, law: Any) -> float:
    """RMSE of law(model, x, y, places) of each model's samples."""
    guess = np.full(len(held_out), np.nan)
    for m in np.unique(held_out.model).tolist():
        mine, theirs = reference.model == m, held_out.model == m
        if mine.any():
            guess[theirs] = law(m, reference.x[mine], reference.y[mine], held_out.x[theirs])
    return _rmse(guess, held_out.y)


def _thinned(reference: Reference, most: int, together: int) -> Reference:
    """At most so many samples of each model, and `together` of all, evenly spaced in their order."""
    models = np.unique(reference.model)
    each = min(most, max(together // max(len(models), 1), 1))
    rows = [np.flatnonzero(reference.model == m) for m in models]
    keep = np.concatenate([np.zeros(0, dtype=np.int64), *(row[thinned(len(row), each)] for row in rows)])
    return Reference(reference.x[keep], reference.y[keep], reference.model[keep], reference.cell[keep])


def _rmse(guess: Any, truth: Any) -> float:
    known = np.isfinite(guess)
    return float(np.sqrt(np.mean((guess[known] - truth[known]) ** 2))) if known.any() else float("nan")


def _mape(guess: Any, truth: Any) -> float:
    known = np.isfinite(guess) & (truth != 0)
    return float(100 * np.mean(np.abs((guess - truth)[known] / truth[known]))) if known.any() else float("nan")
