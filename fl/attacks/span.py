r"""Places whose activations lie in the span of a layer's update."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self, cast

import numpy as np
from pydantic import Field, model_validator

from fl.attacks.base import Attack, View
from fl.attacks.place_maps import Naming, PlaceGrid, PlaceMaps, answers, told, usable
from fl.attacks.subspace import AnyFloats, directions, principal, principal_of_columns, share_inside
from fl.learners.base import LayeredLearner
from fl.types import Estimates, Facts
from netsim.part import Part
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

_SPARE = 8  # directions of an update that are kept beside the k strongest, for when some are projected out
_PROJECTED = 2  # directions that are projected out a place,
_AROUND_M = 60.0  # of places so near to it,
_ARMS = 4  # in so many steps to either side at most
_LEFT = 0.15  # least length by which what is left of an activation is divided
_ROUNDING, _ROUNDING_OF_PRODUCTS = 1e-10, 1e-7  # shorter than this share of the strongest: no direction
_NUMBERS = 2_000_000  # of one block of scores


class _Needs:
    """What the attack needs by its layer; of the class itself: what its default needs."""

    def __get__(self, part: Span | None, owner: type[Part]) -> dict[str, str]:
        layer = Span.model_fields["layer"].default if part is None else part.layer
        own = {
            "layers": "reads the update of one fully connected layer",
            f"layer {layer}": f"reads the update of layer {layer}, and the network has none; take a smaller layer",
        }
        if layer == 1:
            return own
        return {
            **own,
            "hidden activations": "computes what a hidden layer reads of every place; take layer: 1",
            "starting weights": "computes hidden activations with them; add weights to threat.knows, or take layer: 1",
        }


class Span(Attack):
    r"""Names the places whose activations lie in the span of a layer's update.

    With h(x) what layer l reads of a sample at x, one step of gradient descent moves the layer by

        D = [dW_l; db_l] = sum_i [h(x_i); 1] delta_i^T,

    so the left singular vectors of D span the batch's activations and, of places elsewhere, little. For every place x
    of a grid, a(x) = [h(x); 1] / |.| under the model before the round, and U_k the k strongest left vectors,

        s(x) = - log(1 - |U_k^T a(x)|^2 + floor).

    Several local steps change h a little and blur the span, and so do noise and other UEs in a sum. Labels, step size
    and mass play no part: a place of few records scores as high as one of many.

    `add: peaks` names up to `answers` places in every round, and counts in how many rounds a place returns: the highest
    place p, and with `deflate` the highest after the surroundings of those before are projected out. With Q the two
    strongest singular vectors of a(x) within 60 m of each, D becomes (I - Q Q^T) D (of its k + 8 strongest triplets),
    and a(x) becomes (I - Q Q^T) a / max(|.|, 0.15). Without that, an activation that varies slowly with the place lets
    the surroundings of p score higher than a second place. A peak counts by how far it stands above the median of its
    map; counts are smoothed by a Gaussian of `width_m`.

    `add: scores` adds up s(x) itself over rounds.

    Answers: the highest place, then the highest at least `apart_m` from those before. The rounds of a UE are added up,
    of all its models together, also from sums that it is in; those of published models by model.
    """

    kind: Literal["span"] = "span"
    layer: int = Field(default=2, ge=1, le=9)
    """layer whose update is read (l); the first, 1, needs no weights, and tells places apart with a Fourier encoding
    only"""
    rank: int = Field(default=8, ge=1, le=256)
    """number of singular vectors (k)"""
    cell_m: float = Field(default=25.0, ge=0.1, le=1e6)
    """largest distance between the places that are scored, m"""
    floor: float = Field(default=1e-3, gt=0, le=1)
    """share of an activation outside of the span that is not told from none"""
    add: Literal["peaks", "scores"] = "peaks"
    """what is added up over rounds: the peaks of each round, or the scores of all places"""
    deflate: bool | None = None
    """for peaks: project out the surroundings of a round's peaks before the next is looked for; none: yes"""
    width_m: float | None = Field(default=None, gt=0, le=1e6)
    """for peaks: standard deviation of the Gaussian that smooths their map, m; none: 40"""
    answers: int = Field(default=2, ge=1, le=8)
    """number of places that are named of each UE"""
    apart_m: float = Field(default=200.0, ge=0, le=1e6)
    """smallest distance between two answers, m"""

    reference: ClassVar[str] = (
        "Subspace test of Schmidt, Multiple Emitter Location, 1986 (MUSIC), on the low rank of updates, see Dimitrov "
        "et al., SPEAR, 2024"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "span"}
    needs: ClassVar[dict[str, str]] = cast(dict[str, str], _Needs())

    @model_validator(mode="after")
    def _of_peaks(self) -> Self:
        if self.add == "scores" and (self.deflate is not None or self.width_m is not None):
            raise ValueError("deflate and width_m: scores are added up as they are; leave both out, or take add: peaks")
        return self

    def start(self) -> PlaceMaps:
        return PlaceMaps.empty()

    def run(self, view: View, facts: Facts, state: PlaceMaps, rng: Rng) -> tuple[Estimates, PlaceMaps]:
        owner, source = told(view)
        grid = PlaceGrid.over(facts.public.area, self.cell_m, len(np.union1d(owner, state.owner)), self.label)
        state = state.plus(owner, self.scores(view, grid, rng)[source])
        width_m = 0.0 if self.add == "scores" else 40.0 if self.width_m is None else self.width_m
        return answers(view, state, grid, Naming(self.answers, self.apart_m, width_m)), state

    def scores(self, view: View, grid: PlaceGrid, rng: Rng) -> AnyFloats:
        """What this round adds to each source's map (n_source, G); 0 of a source that sent nothing."""
        learner = cast(LayeredLearner, view.learner)
        score: AnyFloats = np.zeros((len(view.update), len(grid)), dtype=np.float32)
        good = usable(view.update)
        for model in np.unique(view.source_model[good]).tolist():
            a = learner.layer_input(view.model_before, model, grid.place_m, self.layer)
            a = a / np.linalg.norm(a, axis=1, keepdims=True)
            single = a.astype(np.float32)  # what a place shares with a span needs no more than this
            for rows in _blocks(np.flatnonzero(good & (view.source_model == model)), self.rank * len(grid)):
                strong = principal(learner.layer(view.update[rows], self.layer), self.rank + _SPARE, rng)
                inside = share_inside(directions(strong, self.rank, _ROUNDING), single)
                if self.add == "scores":
                    score[rows] = self._outside(inside)
                else:
                    self._peaks(score, rows, strong, inside, grid, a, single)
        return score

    def _outside(self, inside: AnyFloats) -> AnyFloats:
        """-log(1 - |U^T a|^2 + floor)."""
        score: AnyFloats = -np.log(np.maximum(1.0 - inside, 0.0) + np.asarray(self.floor, dtype=inside.dtype))
        return score

    def _peaks(
        self,
        score: AnyFloats,
        rows: IntArray,
        strong: FloatArray,
        inside: AnyFloats,
        grid: PlaceGrid,
        a: FloatArray,
        single: AnyFloats,
    ) -> None:
        """Add the peaks of a round to rows of score; of updates whose strongest columns are `strong`."""
        own = self._outside(inside)
        found_m = np.zeros((len(rows), 0, 2))
        around = np.zeros((len(rows), a.shape[1], 0))
        for number in range(self.answers):
            far = _far(grid, found_m, self.apart_m)
            if not far.any():
                break
            at = np.where(far, own, -np.inf).argmax(axis=1)
            height = own[np.arange(len(rows)), at] - np.median(own, axis=1)
            score[rows, at] += np.where(far.any(axis=1), height, 0.0)
            found_m = np.concatenate([found_m, grid.place_m[at][:, None]], axis=1)
            if self.deflate is not False and number + 1 < self.answers:
                near = directions(
                    principal_of_columns(_around(grid, a, found_m[:, -1])), _PROJECTED, _ROUNDING_OF_PRODUCTS
                )
                around = np.concatenate([around, near], axis=2)
                own = self._outside(self._deflated(strong, around, single))

    def _deflated(self, strong: FloatArray, around: FloatArray, single: AnyFloats) -> AnyFloats:
        """What a place shares with the span once directions `around` (n, inputs + 1, j) are projected out of both."""
        out = directions(principal_of_columns(around), around.shape[2], _ROUNDING_OF_PRODUCTS)
        rest = strong - out @ (out.transpose(0, 2, 1) @ strong)
        basis = directions(principal_of_columns(rest), self.rank, _ROUNDING_OF_PRODUCTS)
        left = np.maximum(1.0 - share_inside(out, single), np.asarray(_LEFT**2, dtype=single.dtype))
        inside: AnyFloats = share_inside(basis, single) / left
        return inside


def _far(grid: PlaceGrid, found_m: FloatArray, apart_m: float) -> FloatArray:
    """Which places are at least so far from all found (n, j, 2): (n, G)."""
    away = ((grid.place_m[None, None] - found_m[:, :, None]) ** 2).sum(axis=3)
    return np.asarray((away >= apart_m**2).all(axis=1))


def _around(grid: PlaceGrid, a: FloatArray, place_m: FloatArray) -> FloatArray:
    """Activations (n, inputs + 1, o) of places of the grid within 60 m of each place (n, 2), zero outside the area."""
    step_m = np.maximum(grid.cell_m, _AROUND_M / _ARMS)  # about 50 places, however fine the grid
    arms = (np.arange(-n, n + 1) * s for n, s in zip(np.floor(_AROUND_M / step_m).astype(int), step_m, strict=True))
    offset_m = np.stack(np.meshgrid(*arms), axis=-1).reshape(-1, 2)
    near_m = place_m[:, None] + offset_m[(offset_m**2).sum(axis=1) <= _AROUND_M**2]
    there = grid.area.contains(near_m)
    near = a[grid.nearest(near_m.reshape(-1, 2))].reshape(*there.shape, -1)
    return np.asarray((near * there[:, :, None]).transpose(0, 2, 1))


def _blocks(rows: IntArray, numbers: int) -> list[IntArray]:
    """Rows in blocks of so many numbers each that memory stays small."""
    size = max(1, _NUMBERS // numbers)
    return [rows[i : i + size] for i in range(0, len(rows), size)]
