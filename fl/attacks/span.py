r"""Places whose activations lie in the span of a layer's update."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Literal, cast

import numpy as np
from pydantic import Field

from fl.attacks.base import View
from fl.attacks.place_maps import AddsMaps, normalise_rows
from fl.learners import LayeredLearner
from fl.tracking.place_grid import MANY_PLACES, PlaceGrid, cross_axes
from fl.types import Model
from netsim.columns import pick_even_indices
from netsim.part import Needs
from netsim.rng import Rng
from netsim.units import AnyFloats, FloatArray, IntArray

_PROJECTED = 2  # directions that are projected out a place,
_AROUND_M = 60.0  # of places so near to it,
_ARMS = 4  # steps to either side at most
_LEFT = 0.15  # least length by which what is left of an activation is divided
_ROUNDING = 1e-10  # shorter than this share of the strongest: no direction,
_ROUNDING_OF_PRODUCTS = 1e-7  # and of those from products
_WIDTH_M = 60.0
_MOST_HEIGHT = 2.0
_FLOOR = 1e-3  # share of an activation outside of the span that counts as none
_NUMBERS = 2_000_000  # of one block of scores
_LAYER = 2
_RANK = 8
_RANK_OF_UE = 4  # a UE's home and work, and where it was beside
_MOST_OF_UE = 20  # directions, that one UE fills
_LEFT_OUTSIDE = 0.03  # of activations: with all of them inside no place stands out,
_MOST_LOOKED_AT = 4096  # and at so many places
_SPARE = 8  # directions beside those asked for, so that the search settles on the strongest
_SWEEPS = 2
_AT_ONCE = 10_000  # places whose activations are computed at once: temporary ones stay in the cache
_REFINED = 128  # places of those looked at first, around which all are
# inputs of a first layer that reads positions alone, and its bias: they tell no places apart
_PLACES = 3

Reads = Callable[[FloatArray], FloatArray]
"""a(x) (n, p) of positions (n, 2)"""


class Span(AddsMaps, kind="span"):
    r"""Names the places whose activations lie in the span of a layer's update.

    With h(x) what layer l reads of a sample at x, one step of gradient descent moves the layer by

        D = [dW_l; db_l] = sum_i [h(x_i); 1] delta_i^T,

    so the left singular vectors of D span the batch's activations and, of places elsewhere, little.
    For every place x of a grid, a(x) = [h(x); 1] / |.| under the model before the round, and U_k
    the k strongest left vectors,

        s(x) = - log(1 - |U_k^T a(x)|^2 + 0.001).

    Several local steps change h a little and blur the span, and so do noise and other UEs in a sum.
    Labels, step size and mass play no part: a place of few records scores as high as one of many.

    `add: peaks` names up to `answers` places in every round and counts in how many rounds a place
    returns: first the highest, then, with `deflate`, the highest once the surroundings of those
    before are projected out. With Q the two strongest singular vectors of a(x) within 60 m of each
    of j places, D (of its k + 2 j strongest triplets) becomes (I - Q Q^T) D, and a(x) becomes (I -
    Q Q^T) a / max(|.|, 0.15). Otherwise the surroundings of the first place score higher than a
    second place wherever activations vary slowly. A peak counts as much as it stands above the mean
    of its map, at most 2: in noise it stands low, and otherwise one round counts as much as
    another. Counts are smoothed by a Gaussian of 60 m.

    Of a grid of more than 200,000 places, every third place of every third row is looked at first
    (second, where every third is further away than the shortest length of the learner's encoding),
    and then all within two rows and columns of the 128 highest; the mean is that of the former.

    `add: scores` adds up s(x) itself over rounds.

    A sum of the updates of m UEs has the places of all of them: `rank: auto` takes k = 4 m, at most
    as many directions as hold 97 % of all a(x), beyond which no place stands out. The largest k
    stands for published models where no attacker says who took part. For sums and published models
    it reads layer 1 unless `layer` says otherwise, if there is an encoding, and adds up scores,
    which is the strong setting there; for single updates it is `rank: 4`.

    Answers: the highest place, then the highest at least `apart_m` from those before. The rounds of
    a UE are added up, of all its models together, also from sums that it is in; those of published
    models by model.
    """

    layer: int | None = Field(None, ge=1, le=9)
    """layer whose update is read (l); the first, 1, needs no weights, and tells places apart with a
    Fourier encoding only; none: 2, with rank: auto 1 for sums and published models"""
    rank: Annotated[int, Field(ge=1, le=256)] | Literal["auto"] = _RANK
    """number of singular vectors (k); auto: 4 a UE that is in the update"""
    add: Literal["peaks", "scores"] | None = None
    """what is added up over rounds: the peaks of each round, or the scores of all places; none:
    peaks, with rank: auto scores for sums and published models"""

    reference = (
        "Subspace test of Schmidt 1986 (MUSIC), on updates with the rank of the batch, "
        "Dimitrov et al. 2024 (SPEAR)"
    )
    space = {
        "layer": (1, 2),
        "rank": ("auto", 4, 8, 20, 40, 80),
        "add": ("scores", "peaks"),
    }

    @property
    def needs(self) -> Needs:  # type: ignore[override]
        """By its layer."""
        layer = self.layer or _LAYER
        needs_layer = {
            "layers": (
                "reads the update of one fully connected layer with biases, which the network has "
                "none of"
            ),
            f"layer {layer}": (
                f"reads the update of layer {layer}, and the network has none that is trained"
            ),
        }
        hidden = {
            "hidden activations": (
                "computes what a hidden layer reads of every place; take layer: 1"
            ),
            "starting weights": (
                "computes activations with them; add weights to threat.knowledge, or take layer: 1"
            ),
        }
        if layer == 1:
            return needs_layer
        return needs_layer | hidden

    @property
    def reads_sums(self) -> bool:  # type: ignore[override]
        return self.rank == "auto" or self.rank > _MOST_OF_UE

    def choose_width_m(self, view: View | None) -> float:
        return _WIDTH_M if self._adds_peaks(view) else 0.0

    def _is_for_many(self, view: View | None) -> bool:
        """Whether updates of several UEs are to be read as such."""
        return self.rank == "auto" and (view is None or view.vantage != "updates")

    def _adds_peaks(self, view: View | None) -> bool:
        return self.add == "peaks" or (self.add is None and not self._is_for_many(view))

    def _choose_layer(self, view: View) -> int:
        """The layer that is read: of many UEs the first, where it is trained and reads an
        encoding.
        """
        if self.layer is not None or not self._is_for_many(view):
            return self.layer or _LAYER
        first = cast(LayeredLearner, view.learner).select_layer(view.update, 1)
        if first.shape[1] > _PLACES and first.any():
            return 1
        return _LAYER

    def _choose_ranks(self, view: View, reader: "LayerReader") -> IntArray:
        """k of each source (n_source,)."""
        n_source = len(view.update)
        if not self._is_for_many(view):
            return np.full(n_source, _RANK_OF_UE if self.rank == "auto" else self.rank)
        looked_at = pick_even_indices(len(reader.grid), _MOST_LOOKED_AT)
        a = reader.read_positions(reader.grid.place_m[looked_at])
        held = np.linalg.eigvalsh(a.T @ a)[::-1].cumsum()  # by directions of what places read
        max_rank = int((held < (1 - _LEFT_OUTSIDE) * held[-1]).sum()) + 1
        if view.n_members is None:
            return np.full(n_source, max_rank)
        return np.minimum(_RANK_OF_UE * view.n_members, max_rank)

    def compute_scores(self, view: View, grid: PlaceGrid, rng: Rng) -> AnyFloats:
        learner = cast(LayeredLearner, view.learner)
        number = self._choose_layer(view)
        peaks = self._adds_peaks(view)
        score: AnyFloats = np.zeros((len(view.update), len(grid)), dtype=np.float32)
        layer = learner.select_layer(view.update, number)
        n_projected = _PROJECTED * (self.answers - 1) if peaks else 0
        step = 1
        if peaks and len(grid) > MANY_PLACES:
            step = 3 if 3 * grid.cell_m.max() <= learner.shortest_m else 2
        place = grid.thin_places(step)
        for model, rows_of_model in view.group_usable_rows():
            reader = LayerReader(learner, view.model_before, model, number, grid)
            a = reader.read_every(step)
            ranks = self._choose_ranks(view, reader)[rows_of_model]
            for rank in np.unique(ranks[ranks > 0]).tolist():
                kept = rank + n_projected  # the span still has k of them when others are out
                same = rows_of_model[ranks == rank]
                n_blocks = len(same) * kept * len(place) // _NUMBERS + 1
                for rows in np.array_split(same, n_blocks):
                    strong = find_principal_columns(_scale(layer[rows]), kept, rng)
                    current = _score_places(strong, rank, a)
                    if not peaks:
                        score[rows] = current
                        continue
                    for peak, height in self._find_peaks(current, strong, rank, reader, place, a):
                        score[rows, peak] += height
        return score

    def _find_peaks(
        self,
        score: AnyFloats,
        strong: FloatArray,
        rank: int,
        reader: "LayerReader",
        place: IntArray,
        a: AnyFloats,
    ) -> Iterator[tuple[IntArray, AnyFloats]]:
        """The peaks of a round, one after the other: places (n,), and how high each stands above
        the mean of its map.

        score (n, M): of the round at places (M,), which read a (M, p); strong (n, p, m): the
        updates' strongest columns; rank: k.
        """
        grid = reader.grid
        n = len(score)
        rows = np.arange(n)
        n_even = len(place)
        if n_even < len(grid):
            best = np.argpartition(-score, _REFINED)[:, :_REFINED]
            extra = np.setdiff1d(grid.find_neighbours(place[best], 2), place)
            near = reader.read_places(extra)
            score = np.concatenate([score, _score_places(strong, rank, near)], axis=1)
            place = np.append(place, extra)
            a = np.concatenate([a, near])
        place_m = grid.place_m[place]
        x_m, y_m = np.ascontiguousarray(place_m.T)
        is_near = np.zeros(score.shape, dtype=np.bool_)
        out = np.zeros((n, strong.shape[1], 0))
        for number in range(self.answers):
            mean = score[:, :n_even].mean(axis=1)
            score[is_near] = -np.inf
            highest = score.argmax(axis=1)
            height = np.minimum(score[rows, highest] - mean, _MOST_HEIGHT)
            height = np.where(np.isfinite(height), height, 0.0)  # no place is far enough: none
            yield place[highest], height
            peak_m = place_m[highest]
            is_near |= (x_m - peak_m[:, :1]) ** 2 + (y_m - peak_m[:, 1:]) ** 2 < self.apart_m**2
            if number + 1 < self.answers:
                columns = rotate_to_principal(_read_around(grid, reader.read_positions, peak_m))
                columns = normalise_columns(columns, _PROJECTED, _ROUNDING_OF_PRODUCTS)
                out = np.concatenate([out, columns], axis=2)
                score = _to_score(_deflate(strong, rank, out, a))


@dataclass(frozen=True)
class LayerReader:
    """What a layer, from 1, of the model numbered model_index reads at places of a grid."""

    learner: LayeredLearner = field(compare=False)
    model: Model
    model_index: int
    layer: int
    grid: PlaceGrid

    def read_positions(self, place_m: FloatArray) -> FloatArray:
        """a(x) (n, p) of positions (n, 2)."""
        return normalise_rows(
            self.learner.compute_layer_input(self.model, self.model_index, place_m, self.layer)
        )

    def read_places(self, place: IntArray) -> AnyFloats:
        """a(x) (n, p) of places (n,): what one shares with a span needs no more than single
        precision.
        """
        pieces = np.array_split(self.grid.place_m[place], len(place) // _AT_ONCE + 1)
        return np.concatenate(
            [self.read_positions(place_m).astype("float32") for place_m in pieces]
        )

    @lru_cache(maxsize=1)  # noqa: B019 - self-tests and shadow UEs of a round ask for the same
    def read_every(self, step: int) -> AnyFloats:
        """a(x) (n, p) of every step-th place of every step-th row."""
        return self.read_places(self.grid.thin_places(step))


def _score_places(strong: FloatArray, rank: int, single: AnyFloats) -> AnyFloats:
    """s(x) (n, G) of the strongest columns (n, p, m) of updates."""
    return _to_score(
        sum_squares(project_vectors(normalise_columns(strong, rank, _ROUNDING), single))
    )


def _to_score(inside: AnyFloats) -> AnyFloats:
    """-log(1 - |U^T a|^2 + 0.001)."""
    return -np.log(np.maximum(1.0 - inside, 0.0) + _FLOOR)


def _deflate(strong: FloatArray, rank: int, out: FloatArray, single: AnyFloats) -> AnyFloats:
    """|U_k^T a|^2 (n, G) once directions `out` (n, p, j) are projected out of the update and of
    every a.
    """
    q = normalise_columns(rotate_to_principal(out), out.shape[2], _ROUNDING_OF_PRODUCTS)
    rest = rotate_to_principal(strong - q @ (q.transpose(0, 2, 1) @ strong))
    part = project_vectors(
        np.concatenate([q, normalise_columns(rest, rank, _ROUNDING_OF_PRODUCTS)], axis=2), single
    )
    inside = sum_squares(part[:, q.shape[2] :])
    left = 1.0 - sum_squares(part[:, : q.shape[2]])
    inside /= np.maximum(left, single.dtype.type(_LEFT**2))
    return inside


def _read_around(grid: PlaceGrid, reads: Reads, place_m: FloatArray) -> FloatArray:
    """What is read, a(x) (n, p, o), of places of the grid within 60 m of each place (n, 2), zero
    outside the area.
    """
    step_m = np.maximum(grid.cell_m, _AROUND_M / _ARMS)  # about 50 places, however fine the grid
    nx, ny = np.floor(_AROUND_M / step_m).astype(int)
    offset_m = cross_axes(np.arange(-nx, nx + 1) * step_m[0], np.arange(-ny, ny + 1) * step_m[1])
    is_near = (offset_m**2).sum(axis=1) <= _AROUND_M**2
    near_m = place_m[:, None] + offset_m[is_near]
    is_inside = grid.area.contains(near_m)
    near = reads(grid.place_m[grid.find_cells(near_m.reshape(-1, 2))])
    near = near.reshape(*is_inside.shape, near.shape[1])
    return (near * is_inside[:, :, None]).transpose(0, 2, 1)


def _scale(matrix: FloatArray) -> FloatArray:
    """Finite matrices (n, p, q) divided by their largest entries: no square overflows or
    vanishes.
    """
    size = np.abs(matrix).max(axis=(1, 2), keepdims=True, initial=0.0)
    return matrix / np.where(size > 0, size, 1.0)


def find_principal_columns(matrix: FloatArray, k: int, rng: Rng) -> FloatArray:
    """u_j s_j of the k strongest singular triplets of matrices (n, p, q), strongest first: (n, p,
    min(k, p, q)).

    Randomised subspace iteration [Halko, Martinsson, Tropp 2011, Algorithm 4.4]: exact to rounding
    for a matrix of rank k or less, and where one has no more than k + 8 rows or columns.
    """
    p, q = matrix.shape[1:]
    if min(p, q) <= k + _SPARE:
        u, s, _ = np.linalg.svd(matrix, full_matrices=False)
        return (u * s[:, None, :])[:, :, :k]
    basis = np.linalg.qr(matrix @ rng.normal("directions", np.arange(q), (k + _SPARE,)))[0]
    for _ in range(_SWEEPS):
        across = np.linalg.qr(matrix.transpose(0, 2, 1) @ basis)[0]
        basis = np.linalg.qr(matrix @ across)[0]
    return basis @ find_principal_columns(basis.transpose(0, 2, 1) @ matrix, k, rng)


def rotate_to_principal(columns: FloatArray) -> FloatArray:
    """u_j s_j of few columns (n, p, m), strongest first, from their products: (n, p, m), exact to
    1e-8 of the first.
    """
    _, turn = np.linalg.eigh(columns.transpose(0, 2, 1) @ columns)
    return columns @ turn[:, :, ::-1]


def normalise_columns(strong: FloatArray, k: int, min_share: float) -> FloatArray:
    """Unit vectors (n, p, k or fewer) of the first k of orthogonal columns (n, p, m), strongest
    first.

    Zero for a column that is shorter than `min_share` of the first one: it holds rounding only.
    """
    strong = strong[:, :, :k]
    length = np.sqrt(np.einsum("npk,npk->nk", strong, strong))[:, None]
    is_kept = length > min_share * length[:, :, :1]
    return np.where(is_kept, strong / np.where(is_kept, length, 1.0), 0.0)


def project_vectors(basis: FloatArray, unit: AnyFloats) -> AnyFloats:
    """U^T a (n, k, G) of bases U (n, p, k) and vectors a (G, p), in the precision of a."""
    n, p, k = basis.shape
    part = basis.transpose(0, 2, 1).reshape(n * k, p).astype(unit.dtype) @ unit.T
    return part.reshape(n, k, len(unit))


def sum_squares(part: AnyFloats) -> AnyFloats:
    """The sum over k of squares of (n, k, G): (n, G)."""
    return np.einsum("nkg,nkg->ng", part, part)
