"""Footprints that overlap: copies, outlines beside their parts, and shapes that do not stand on the
ground.

A map may hold a building twice, or an outline (`building`) and its parts (`building:part`) at the
same place (Simple 3D Buildings, OpenStreetMap wiki). They become prisms that do not overlap: a part
takes the place of an outline, else the higher shape that of the lower one, and of equally high ones
the first. What is left of an outline keeps its height. Shapes that share half of the smaller one
are of one house.

A shape that begins above the ground counts as solid where half of it lies over others that stand
there, as the top of a tower does. Else there is open ground below, and it is left out.
"""

import numpy as np

from netsim.columns import frozen
from netsim.errors import BadInput
from netsim.maps import Shapes
from netsim.streets.assembly import label_components
from netsim.units import BoolArray, FloatArray, IntArray

_TOUCHING_M2 = 1.0  # of neighbours whose walls were drawn across each other
_OF_ONE_HOUSE = 0.5  # of the smaller shape
_MAX_PAIRS = 1_000_000
_PAIRS_OF_EACH = 30  # that may be near each other besides
_SAMPLE = 1000  # shapes


@frozen
class SeparateFootprints:
    """Polygons (k,) that overlap by at most 1 m2: the shape of the map that each is of, and the
    number of its house.

    Of the shapes of the map n_overlapping overlap others, and n_raised are over open ground.
    """

    footprint: Shapes
    shape: IntArray
    house: IntArray
    n_overlapping: int
    n_raised: int


def separate_footprints(
    file: str, shape: Shapes, height_m: FloatArray, is_part: BoolArray, is_raised: BoolArray
) -> SeparateFootprints:
    """Take overlaps out of valid polygons (n,). Raises BadInput where there are too many."""
    import shapely

    n = len(shape)
    tree = shapely.STRtree(shape)
    step = 1 + n // _SAMPLE
    n_sampled = tree.query(shape[::step]).shape[1]
    if n_sampled * step > _MAX_PAIRS + _PAIRS_OF_EACH * n:
        raise BadInput(f"{file}: most buildings lie over many others; remove the copies")
    rank = np.argsort(np.lexsort((-height_m, ~is_part)))
    pair = tree.query(shape)
    pair = pair[:, rank[pair[0]] > rank[pair[1]]]
    # far faster than to intersect all
    pair = pair[:, shapely.relate_pattern(*shape[pair], "T********")]
    shared_m2 = shapely.area(shapely.intersection(*shape[pair]))
    is_one = shared_m2 >= _OF_ONE_HOUSE * shapely.area(shape[pair]).min(axis=0)
    above = is_raised[pair] & ~is_raised[pair[::-1]]
    over_m2 = np.bincount(pair[above], np.tile(shared_m2, (2, 1))[above], n)
    is_raised = is_raised & (over_m2 < _OF_ONE_HOUSE * shapely.area(shape))
    is_grounded = ~is_raised[pair].any(axis=0)
    shared = pair[:, is_one & is_grounded]
    house = label_components(shared[0], shared[1], n, "weak")
    pair = pair[:, (shared_m2 > _TOUCHING_M2) & is_grounded]
    piece = np.where(is_raised, shapely.Polygon(), shape)
    for lower, higher in pair.T:
        piece[lower] = shapely.difference(piece[lower], shape[higher])
    part, source = shapely.get_parts(piece, return_index=True)
    solid = shapely.area(part) > _TOUCHING_M2 * np.isin(source, pair[0])
    return SeparateFootprints(
        part[solid], source[solid], house[source[solid]], len(np.unique(pair)), is_raised.sum()
    )
