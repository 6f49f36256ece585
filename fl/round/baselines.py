"""Baselines without learning and without privacy: the ends that every utility figure needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from fl.data.hold_out import blocks_of, in_new_blocks
from fl.evenly import evenly
from fl.learners import Learner
from fl.references import References, thinned
from fl.references.maps import kriging_map, nearest_neighbours, path_loss_map
from fl.types import NEW_PLACE, HeldOut, Local, Metrics, Model, Public
from netsim.columns import Columns, frozen, no_ints, no_places
from netsim.rng import Rng
from netsim.units import BoolArray, FloatArray, IntArray

NEIGHBOURS = 5
KRIGED = 20_000  # samples of all models together, and places, that kriging looks at
FEW = 5_000  # samples up to which baselines are measured in every round,
GROWN = 50  # and beyond which they are measured when samples have grown by one such part
LEAST_BLOCKS = 20  # without a training sample, of which a map is scored by place: of fewer a room or two decide
CENTRAL_MODELS = 3  # factor of samples in central training of all models together


@frozen
class Reference(Columns):
    """Training samples, as a value: the constant predictor, and the map of raw uploads.

    x (N, 2), y (N,), model (N,), cell (N,). Raw upload: inverse-distance mean of the 5 nearest uploaded measurements,
    which a server could draw if every UE simply sent its data.
    """

    bounds: ClassVar[dict[str, tuple[float, float]]] = dict.fromkeys(("x", "y"), (-1e9, 1e9))
    x: FloatArray
    y: FloatArray
    model: IntArray
    cell: IntArray

    @classmethod
    def empty(cls) -> Self:
        """No samples."""
        nothing = no_ints()
        return cls(no_places(), np.zeros(0), nothing, nothing)

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
        """The samples as records without owners."""
        return HeldOut(np.zeros(len(self.y), dtype=np.int64), self.model, self.x, self.y, self.cell)

    def evaluate(self, held_out: HeldOut) -> Metrics:
        """`constant_rmse_db`, `constant_mape_percent` and `raw_upload_rmse_db` on held-out samples; NaN without any."""
        constant = _guessed(self, held_out, _constant)
        return {
            "constant_rmse_db": _rmse(constant, held_out.y),
            "constant_mape_percent": _mape(constant, held_out.y),
            "raw_upload_rmse_db": _rmse(_guessed(self, held_out, _raw_upload), held_out.y),
        }


@dataclass(frozen=True)
class Baselines:
    """Figures of maps without learning (see `Reference.evaluate`), and of how many samples they are.

    They are measured in every round while there are few samples; then whenever those that were trained on, or
    those held out, have grown by a fiftieth. All measurements of a run together then take O(n log n).
    """

    trained: int = 0
    held: int = 0
    figures: Metrics = field(default_factory=dict)

    def after(self, reference: Reference, held_out: HeldOut, most: int) -> Baselines:
        """Baselines of the samples so far, scored on some held-out ones; unchanged after few new samples."""
        trained, held = len(reference), len(held_out)
        few = trained <= FEW and held <= FEW
        if self.figures and not (few or _grown(self.trained, trained) or _grown(self.held, held)):
            return self
        return Baselines(trained, held, reference.evaluate(held_out.thinned(most).usual))


def _grown(before: int, now: int) -> bool:
    return now > before and GROWN * (now - before) >= before


@frozen
class FinalComparison:
    """Samples from which the references at the end of a run are drawn.

    cells_of_model: for each model the indices of the cells that it learns; model: the final one, whose shape and public
    constants central training takes over; block_m: side of the blocks that are new without a training sample.
    """

    how: References
    public: Public
    cells_of_model: list[IntArray]
    learner: Learner
    model: Model
    block_m: float

    def antennas_m(self, model: int) -> FloatArray | None:
        """Places and heights above the UEs (g, 3) of the antennas of a model's cells; None where unknown."""
        if self.public.antennas is None:
            return None
        at_m = self.public.antennas.at_m[self.cells_of_model[model]]
        return np.unique(at_m - np.array([0.0, 0.0, self.public.ue_height_m]), axis=0)


def final_references(reference: Reference, final: FinalComparison, held_out: HeldOut, rng: Rng) -> Metrics:
    """`neighbours_rmse_db`, `path_loss_rmse_db`, `kriging_rmse_db` and `central_rmse_db`, those that are asked for.

    NaN where nothing was held out or trained on. `federated_over_central` compares both networks on the held-out
    samples of trained models; NaN where central training failed, with a map worse than a constant.

    With the suffix `.place` the same, and `rmse_db` and `constant_rmse_db`, of the samples in blocks without a training
    sample, where there are LEAST_BLOCKS of these; `place.samples` and `place.blocks` count all. Kriging is of what the
    law of path loss leaves where antennas are known, else of the signals.
    """
    how, learner, y = final.how, final.learner, held_out.y
    new = in_new_blocks(held_out.model, held_out.x, reference.model, reference.x, final.block_m)
    new &= np.isin(held_out.model, reference.model)
    blocks = np.unique(np.column_stack([held_out.model, blocks_of(held_out.x, final.block_m)])[new], axis=0)
    figures = {"place.samples": float(new.sum()), "place.blocks": float(len(blocks))}
    place = {".place": new} if len(blocks) >= LEAST_BLOCKS else {}
    both = {"": held_out.group != NEW_PLACE} | place

    def scores(name: str, law: Any, few: Reference = reference, some: Mapping[str, BoolArray] = both) -> None:
        kept = slice(None) if few is reference else evenly(len(held_out), KRIGED)
        guess = np.full(len(y), np.nan)
        guess[kept] = _guessed(few, held_out if few is reference else held_out.thinned(KRIGED), law)
        figures.update({name + suffix: _rmse(guess[of], y[of]) for suffix, of in some.items()})

    def of_network(model: Model, suffix: str, known: BoolArray) -> float:
        return learner.evaluate(model, held_out.select(both[suffix] & known)).get("rmse_db", np.nan)

    every = np.ones(len(y), dtype=np.bool_)
    figures |= {f"rmse_db{suffix}": of_network(final.model, suffix, every) for suffix in place}
    scores("constant_rmse_db", _constant, some=place)
    if (most := how.neighbours) is not None:
        scores("neighbours_rmse_db", lambda m, x, y, at: nearest_neighbours(x, y, at, most))
    if how.path_loss:
        scores("path_loss_rmse_db", lambda m, x, y, at: _law(final, m, x, y, at))
    if how.kriging_samples:
        few = _thinned(reference, how.kriging_samples, KRIGED)
        scores("kriging_rmse_db", lambda m, x, y, at: _kriged(final, m, x, y, at), few)
    if how.central:
        few = _thinned(reference, how.central_samples, CENTRAL_MODELS * how.central_samples)
        trained = learner.trained_centrally(final.model, few.samples, how.central_epochs, rng)
        known = np.isin(held_out.model, few.model)
        if trained is not None:
            central = {suffix: of_network(trained, suffix, known) for suffix in both}
            usual = held_out.select(both[""] & known)
            constant, there = _rmse(_guessed(few, usual, _constant), usual.y), central[""]
            fits = 0 < there <= constant  # worse than a constant, it has failed and measures nothing
            figures |= {f"central_rmse_db{suffix}": error for suffix, error in central.items()}
            figures["federated_over_central"] = of_network(final.model, "", known) / there if fits else np.nan
    return figures


def _constant(model: int, x: FloatArray, y: FloatArray, at: FloatArray) -> FloatArray:
    return np.full(len(at), y.mean())


def _raw_upload(model: int, x: FloatArray, y: FloatArray, at: FloatArray) -> FloatArray:
    return nearest_neighbours(x, y, at, NEIGHBOURS)


def _law(final: FinalComparison, model: int, x: FloatArray, y: FloatArray, at: FloatArray) -> FloatArray:
    """The law of path loss fitted to samples, at places; NaN of several cells whose places are unknown."""
    antennas_m = final.antennas_m(model)
    if antennas_m is None and len(final.cells_of_model[model]) > 1:
        return np.full(len(at), np.nan)
    return path_loss_map(x, y, at, final.public.area, antennas_m, final.public.buildings)


def _kriged(final: FinalComparison, model: int, x: FloatArray, y: FloatArray, at: FloatArray) -> FloatArray:
    """Kriging of samples, at places; of what their law leaves, added to it, where antennas are known."""
    if final.public.antennas is None:
        return kriging_map(x, y, at)
    law = _law(final, model, x, y, np.concatenate([x, at]))
    return law[len(x) :] + kriging_map(x, y - law[: len(x)], at)


def _guessed(reference: Reference, held_out: HeldOut, law: Any) -> FloatArray:
    """Predict the held-out samples (N,) by law(model, x, y, places) from each model's samples; NaN without samples."""
    guess = np.full(len(held_out), np.nan)
    for m in np.unique(held_out.model).tolist():
        mine, theirs = reference.model == m, held_out.model == m
        if mine.any():
            guess[theirs] = law(m, reference.x[mine], reference.y[mine], held_out.x[theirs])
    return guess


def _thinned(reference: Reference, most: int, together: int) -> Reference:
    """At most `most` samples of each model, and `together` of all, evenly spaced in their order."""
    models = np.unique(reference.model)
    each = min(most, max(together // max(len(models), 1), 1))
    rows = [np.flatnonzero(reference.model == m) for m in models]
    keep = np.concatenate([no_ints(), *(row[thinned(len(row), each)] for row in rows)])
    return reference.select(keep)


def _rmse(guess: Any, truth: Any) -> float:
    known = np.isfinite(guess)
    return float(np.sqrt(np.mean((guess[known] - truth[known]) ** 2))) if known.any() else float("nan")


def _mape(guess: Any, truth: Any) -> float:
    known = np.isfinite(guess) & (truth != 0)
    return float(100 * np.mean(np.abs((guess - truth)[known] / truth[known]))) if known.any() else float("nan")
