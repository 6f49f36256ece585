r"""Places whose activations lie in the span of a layer's update."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Annotated, Literal, cast

import numpy as np
from pydantic import Field

from fl.attacks.base import View
from fl.attacks.place_maps import AddsMaps, PlaceMaps, unit_rows
from fl.learners import LayeredLearner
from fl.tracking.place_grid import MANY, PlaceGrid, crossed
from fl.types import Model, Public
from netsim.columns import evenly
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
_LEFT_OUTSIDE = 0.03  # of activations: with all of them inside no place stands out,
_MOST_LOOKED_AT = 4096  # and at so many places
_SPARE = 8  # directions beside those asked for, so that the search settles on the strongest
_SWEEPS = 2
_AT_ONCE = 10_000  # places whose activations are computed at once: temporary ones stay in the cache
_REFINED = 128  # places of those looked at first, around which all are
_PLACES = (
    3  # inputs of a first layer that reads positions alone, and its bias: they tell no places apart
)

Reads = Callable[[FloatArray], FloatArray]
"""a(x) (n, p) of positions (n, 2)"""


class Span(AddsMaps):
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

    kind: Literal["span"] = "span"
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
    def needs(self) -> dict[str, str]:  # type: ignore[override]
        """By its layer."""
        layer = self.layer or _LAYER
        own = {
            "layers": "reads the update of one fully connected layer",
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
            return own
        return own | hidden

    def width(self, view: View | None) -> float:
        return _WIDTH_M if self._adds_peaks(view) else 0.0

    def listed(self, state: PlaceMaps, public: Public, count: int) -> FloatArray:
        return self.best_of_all(state, public.area, count)

    def _of_many(self, view: View | None) -> bool:
        """Whether updates of several UEs are to be read as such."""
        return self.rank == "auto" and (view is None or view.vantage != "updates")

    def _adds_peaks(self, view: View | None) -> bool:
        return self.add == "peaks" or (self.add is None and not self._of_many(view))

    def _layer(self, view: View) -> int:
        """The layer that is read: of many UEs the first, where it is trained and reads an
        encoding.
        """
        if self.layer is not None or not self._of_many(view):
            return self.layer or _LAYER
        first = cast(LayeredLearner, view.learner).layer(view.update, 1)
        if first.shape[1] > _PLACES and first.any():
            return 1
        return _LAYER

    def _ranks(self, view: View, looks: "LayerReader") -> IntArray:
        """k of each source (n_source,)."""
        if not self._of_many(view):
            return np.full(len(view.update), _RANK_OF_UE if self.rank == "auto" else self.rank)
        most = _dimensions(
            looks.reads(looks.grid.place_m[evenly(len(looks.grid), _MOST_LOOKED_AT)])
        )
        if view.members is None:
            return np.full(len(view.update), most)
        return np.minimum(_RANK_OF_UE * view.members, most)

    def scores(self, view: View, grid: PlaceGrid, rng: Rng) -> AnyFloats:
        learner = cast(LayeredLearner, view.learner)
        number = self._layer(view)
        peaks = self._adds_peaks(view)
        score: AnyFloats = np.zeros((len(view.update), len(grid)), dtype=np.float32)
        good = view.usable
        layer = learner.layer(view.update, number)
        deflated = self.answers - 1 if peaks else 0
        step = 1
        if peaks and len(grid) > MANY:
            step = 3 if 3 * grid.cell_m.max() <= learner.shortest_m else 2
        place = grid.thinned(step)
        for model in np.unique(view.source_model[good]).tolist():
            looks = LayerReader(learner, view.model_before, model, number, grid)
            a = looks.at_every(step)
            ranks = np.where(good & (view.source_model == model), self._ranks(view, looks), 0)
            for rank in np.unique(ranks[ranks > 0]).tolist():
                kept = (
                    rank + _PROJECTED * deflated
                )  # the span still has k of them when others are out
                same = np.flatnonzero(ranks == rank)
                for rows in np.array_split(same, len(same) * kept * len(place) // _NUMBERS + 1):
                    strong = principal(_scaled(layer[rows]), kept, rng)
                    own = _scored(strong, rank, a)
                    if peaks:
                        for at, height in self._peaks(own, strong, rank, looks, place, a):
                            score[rows, at] += height
                    else:
                        score[rows] = own
        return score

    def _peaks(
        self,
        own: AnyFloats,
        strong: FloatArray,
        rank: int,
        looks: "LayerReader",
        place: IntArray,
        a: AnyFloats,
    ) -> Iterator[tuple[IntArray, AnyFloats]]:
        """The peaks of a round, one after the other: places (n,), and how high each stands above
        the mean of its map.

        own (n, M): scores of the round at places (M,), which read a (M, p); strong (n, p, m): the
        updates' strongest columns; rank: k.
        """
        n = len(own)
        every = np.arange(len(own))
        even = len(place)
        if even < len(looks.grid):
            best = np.argpartition(-own, _REFINED)[:, :_REFINED]
            more = np.setdiff1d(looks.grid.around(place[best], 2), place)
            near = looks.at(more)
            own = np.concatenate([own, _scored(strong, rank, near)], axis=1)
            place = np.append(place, more)
            a = np.concatenate([a, near])
        place_m = looks.grid.place_m[place]
        found_m = np.zeros((n, 0, 2))
        out = np.zeros((n, strong.shape[1], 0))
        for number in range(self.answers):
            mean = own[:, :even].mean(axis=1)
            away2 = ((place_m - found_m[:, :, None]) ** 2).sum(axis=3)
            own[(away2 < self.apart_m**2).any(axis=1)] = -np.inf
            at = own.argmax(axis=1)
            height = np.minimum(own[every, at] - mean, _MOST_HEIGHT)
            yield (
                place[at],
                np.where(np.isfinite(height), height, 0.0),
            )  # no place is far enough: none
            found_m = np.concatenate([found_m, place_m[at][:, None]], axis=1)
            if number + 1 < self.answers:
                around = principal_of_columns(_around(looks.grid, looks.reads, found_m[:, -1]))
                out = np.concatenate(
                    [out, directions(around, _PROJECTED, _ROUNDING_OF_PRODUCTS)], axis=2
                )
                own = _outside(_deflated(strong, rank, out, a))


@dataclass(frozen=True)
class LayerReader:
    """What a layer, from 1, of the model `of` reads at places of a grid."""

    learner: LayeredLearner = field(compare=False)
    model: Model
    of: int
    layer: int
    grid: PlaceGrid

    def reads(self, place_m: FloatArray) -> FloatArray:
        """a(x) (n, p) of positions (n, 2)."""
        return unit_rows(self.learner.layer_input(self.model, self.of, place_m, self.layer))

    def at(self, place: IntArray) -> AnyFloats:
        """a(x) (n, p) of places (n,): what one shares with a span needs no more than single
        precision.
        """
        some = np.array_split(self.grid.place_m[place], len(place) // _AT_ONCE + 1)
        return np.concatenate([self.reads(place_m).astype("float32") for place_m in some])

    @lru_cache(maxsize=1)  # noqa: B019 - self-tests and shadow UEs of a round ask for the same
    def at_every(self, step: int) -> AnyFloats:
        """a(x) (n, p) of every step-th place of every step-th row."""
        return self.at(self.grid.thinned(step))


def _scored(strong: FloatArray, rank: int, single: AnyFloats) -> AnyFloats:
    """s(x) (n, G) of the strongest columns (n, p, m) of updates."""
    return _outside(squares(parts(directions(strong, rank, _ROUNDING), single)))


def _outside(inside: AnyFloats) -> AnyFloats:
    """-log(1 - |U^T a|^2 + 0.001)."""
    return -np.log(np.maximum(1.0 - inside, 0.0) + _FLOOR)


def _deflated(strong: FloatArray, rank: int, out: FloatArray, single: AnyFloats) -> AnyFloats:
    """|U_k^T a|^2 (n, G) once directions `out` (n, p, j) are projected out of the update and of
    every a.
    """
    q = directions(principal_of_columns(out), out.shape[2], _ROUNDING_OF_PRODUCTS)
    rest = principal_of_columns(strong - q @ (q.transpose(0, 2, 1) @ strong))
    basis = directions(rest, rank, _ROUNDING_OF_PRODUCTS)
    part = parts(np.concatenate([q, basis], axis=2), single)
    inside = squares(part[:, q.shape[2] :])
    inside /= np.maximum(1.0 - squares(part[:, : q.shape[2]]), single.dtype.type(_LEFT**2))
    return inside


def _dimensions(a: FloatArray) -> int:
    """Number of directions that hold 97 % of what places read (n, p)."""
    held = np.linalg.eigvalsh(a.T @ a)[::-1].cumsum()
    return int((held < (1 - _LEFT_OUTSIDE) * held[-1]).sum()) + 1


def _around(grid: PlaceGrid, reads: Reads, place_m: FloatArray) -> FloatArray:
    """What is read, a(x) (n, p, o), of places of the grid within 60 m of each place (n, 2), zero
    outside the area.
    """
    step_m = np.maximum(grid.cell_m, _AROUND_M / _ARMS)  # about 50 places, however fine the grid
    arms = (
        np.arange(-n, n + 1) * s
        for n, s in zip(np.floor(_AROUND_M / step_m).astype(int), step_m, strict=True)
    )
    offset_m = crossed(*arms)
    near_m = place_m[:, None] + offset_m[(offset_m**2).sum(axis=1) <= _AROUND_M**2]
    there = grid.area.contains(near_m)
    near = reads(grid.place_m[grid.nearest(near_m.reshape(-1, 2))])
    near = near.reshape(*there.shape, near.shape[1])
    return (near * there[:, :, None]).transpose(0, 2, 1)


def _scaled(matrix: FloatArray) -> FloatArray:
    """Finite matrices (n, p, q) divided by their largest entries: no square overflows or
    vanishes.
    """
    size = np.abs(matrix).max(axis=(1, 2), keepdims=True, initial=0.0)
    return matrix / np.where(size > 0, size, 1.0)


def principal(matrix: FloatArray, k: int, rng: Rng) -> FloatArray:
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
    u, s, _ = np.linalg.svd(basis.transpose(0, 2, 1) @ matrix, full_matrices=False)
    return (basis @ (u * s[:, None, :]))[:, :, :k]


def principal_of_columns(columns: FloatArray) -> FloatArray:
    """u_j s_j of few columns (n, p, m), strongest first, from their products: (n, p, m), exact to
    1e-8 of the first.
    """
    _, turn = np.linalg.eigh(columns.transpose(0, 2, 1) @ columns)
    return columns @ turn[:, :, ::-1]


def directions(strong: FloatArray, k: int, least: float) -> FloatArray:
    """Unit vectors (n, p, k or fewer) of the first k of orthogonal columns (n, p, m), strongest
    first.

    Zero for a column that is shorter than `least` of the first one: it holds rounding only.
    """
    strong = strong[:, :, :k]
    length = np.sqrt(np.einsum("npk,npk->nk", strong, strong))[:, None]
    there = length > least * length[:, :, :1]
    return np.where(there, strong / np.where(there, length, 1.0), 0.0)


def parts(basis: FloatArray, unit: AnyFloats) -> AnyFloats:
    """U^T a (n, k, G) of bases U (n, p, k) and vectors a (G, p), in the precision of a."""
    n, p, k = basis.shape
    part = basis.transpose(0, 2, 1).reshape(n * k, p).astype(unit.dtype) @ unit.T
    return part.reshape(n, k, len(unit))


def squares(part: AnyFloats) -> AnyFloats:
    """The sum over k of squares of (n, k, G): (n, G)."""
    return np.einsum("nkg,nkg->ng", part, part)
