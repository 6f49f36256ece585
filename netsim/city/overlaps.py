"""Footprints that overlap: copies, outlines beside their parts, and shapes that do not stand on the ground.

A map may hold a building twice, or an outline (`building`) and its parts (`building:part`) at the same place (Simple 3D
Buildings, OpenStreetMap wiki). They become prisms that do not overlap:

- The parts of an outline take its place where they lie, if some stand on the ground; the rest of it stays.
- A shape with a `min_height` is solid where something below reaches that height. Elsewhere it is over open ground.
- Where shapes overlap, the highest counts; of equally high ones the first.

Shapes belong to one house where they share half of the smaller one. What is equally high of a house becomes one prism.
"""

from __future__ import annotations

import numpy as np

from netsim.columns import blocks, frozen
from netsim.errors import BadInput
from netsim.maps import Shapes
from netsim.units import BoolArray, FloatArray, IntArray

_TOUCHING_M2 = 1.0  # of neighbours whose walls were drawn across each other
_OF_ONE_HOUSE = 0.5  # of the smaller shape
_THIN_M = 0.2  # what is left of a shape and narrower is an inaccuracy of drawing
_REACH_M = 0.5  # below a min_height, and still reached
_AT_ONCE = 16  # shapes that are compared with all, to bound memory
_MAX_PAIRS = 2_000_000


@frozen
class MapShapes:
    """n shapes of a map: valid polygons, the heights base_m and height_m between which they are solid, and which of
    them are parts of outlines; all (n,).
    """

    footprint: Shapes
    base_m: FloatArray
    height_m: FloatArray
    is_part: BoolArray


@frozen
class SolidShapes:
    """Prisms on the ground that do not overlap by more than 1 m2: footprint, height_m and number of the house (k,).

    Of the shapes of the map, n_overlapping overlap others, n_covered of them have no place left, and n_raised are over
    open ground.
    """

    footprint: Shapes
    height_m: FloatArray
    house: IntArray
    n_overlapping: int
    n_covered: int
    n_raised: int


def solid_shapes(file: str, shapes: MapShapes) -> SolidShapes:
    """The prisms that the shapes of a file are. Raises BadInput where too many of them are near each other."""
    import shapely

    near, house = _neighbours(file, shapes.footprint)
    raised = shapes.base_m > 0
    piece = shapes.footprint.copy()
    piece[raised] = shapely.Polygon()
    for k, others in near.items():
        parts = others[shapes.is_part[others] & (house[others] == house[k])]
        if not (shapes.is_part[k] or raised[k] or raised[parts].all()):
            piece[k] = shapely.difference(piece[k], shapely.union_all(shapes.footprint[parts]))
    for k in sorted(near, key=lambda k: shapes.base_m[k]):
        if raised[k]:
            reached = near[k][shapes.height_m[near[k]] >= shapes.base_m[k] - _REACH_M]
            piece[k] = shapely.intersection(shapes.footprint[k], shapely.union_all(piece[reached]))
    rank = np.argsort(np.argsort(-shapes.height_m, kind="stable"))
    for k in sorted(near, key=lambda k: int(rank[k])):
        higher = shapely.union_all(piece[near[k][rank[near[k]] < rank[k]]])
        if shapely.intersects(piece[k], higher):
            piece[k] = shapely.difference(piece[k], higher)
    part, shape = _parts(piece, np.array([*near], dtype=np.int64))
    left = np.isin(np.arange(len(piece)), shape)
    footprint, first = _merged(part, house[shape], shapes.height_m[shape])
    return SolidShapes(
        footprint=footprint,
        height_m=shapes.height_m[shape[first]],
        house=house[shape[first]],
        n_overlapping=len(near),
        n_covered=int((~left & ~raised).sum()),
        n_raised=int((~left & raised).sum()),
    )


def _neighbours(file: str, shape: Shapes) -> tuple[dict[int, IntArray], IntArray]:
    """The shapes that each overlaps, for those that overlap others, and the house (n,) of each."""
    import shapely
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    tree = shapely.STRtree(shape)
    box = shapely.bounds(shape)
    area_m2 = shapely.area(shape)
    pairs = [np.zeros((2, 0), dtype=np.int64)]
    shared = [np.zeros(0)]
    n_near = 0
    for some in blocks(len(shape), _AT_ONCE):
        first, second = tree.query(shape[some])
        pair = np.stack([first + some.start, second])
        pair = pair[:, pair[0] < pair[1]]
        n_near += pair.shape[1]
        if n_near > _MAX_PAIRS:
            raise BadInput(f"{file}: more than {_MAX_PAIRS:,} pairs of buildings may overlap; remove copies of them")
        one, other = box[pair]
        side_m = np.minimum(one[:, 2:], other[:, 2:]) - np.maximum(one[:, :2], other[:, :2])
        pair = pair[:, side_m.prod(axis=1) > _TOUCHING_M2]
        pair = pair[:, shapely.relate_pattern(*shape[pair], "T********")]  # far faster than to intersect all
        shared_m2 = shapely.area(shapely.intersection(*shape[pair]))
        overlap = shared_m2 > _TOUCHING_M2
        pairs.append(pair[:, overlap])
        shared.append(shared_m2[overlap])
    pair = np.concatenate(pairs, axis=1)
    of_one = pair[:, np.concatenate(shared) >= _OF_ONE_HOUSE * area_m2[pair].min(axis=0)]
    ones = np.ones(of_one.shape[1], dtype=np.int8)
    _, house = connected_components(coo_array((ones, of_one), shape=(len(shape), len(shape))), directed=False)
    both = np.concatenate([pair, pair[::-1]], axis=1)
    both = both[:, np.lexsort(both[::-1])]
    which, begins = np.unique(both[0], return_index=True)
    return dict(zip(which.tolist(), np.split(both[1], begins[1:]), strict=False)), house.astype(np.int64)


def _parts(piece: Shapes, changed: IntArray) -> tuple[Shapes, IntArray]:
    """The polygons (p,) of pieces (n,), and the piece of each; of those that may have changed without thin ones."""
    import shapely

    part, shape = shapely.get_parts(piece, return_index=True)
    solid = shapely.get_type_id(part) == shapely.GeometryType.POLYGON
    solid &= ~shapely.is_empty(part)
    doubtful = np.flatnonzero(solid & np.isin(shape, changed))
    solid[doubtful] = ~shapely.is_empty(shapely.buffer(part[doubtful], -_THIN_M / 2))
    return part[solid], shape[solid]


def _merged(part: Shapes, house: IntArray, height_m: FloatArray) -> tuple[Shapes, IntArray]:
    """The polygons (k,) of parts (p,), those equally high of a house as one, and the first part of each, in order."""
    import shapely

    _, first, group, count = np.unique(
        np.stack([house, height_m]), axis=1, return_index=True, return_inverse=True, return_counts=True
    )
    whole = part[first]
    rows = np.split(np.argsort(group.ravel(), kind="stable"), np.cumsum(count)[:-1])
    for k in np.flatnonzero(count > 1):
        whole[k] = shapely.union_all(part[rows[k]])
    order = np.argsort(first)
    polygon, row = shapely.get_parts(whole[order], return_index=True)
    return polygon, first[order][row]
