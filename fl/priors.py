"""Priors: public laws of RSRP, to which a network learns the difference."""

from abc import abstractmethod
from functools import lru_cache

import numpy as np
from pydantic import Field

from fl.types import Public
from netsim.city.buildings import Buildings
from netsim.errors import BadInput
from netsim.geometry import measure_lengths
from netsim.part import Coordinates, OneOf, Part
from netsim.ues import STOREY_M
from netsim.units import FloatArray, Floats, IntArray

Constants = dict[str, FloatArray]
"""what a prior knows of the world, by the names under which a model keeps it"""


class Prior(Part):
    """RSRP as expected from public constants. Labels are differences to it, and it is added to
    predictions.
    """

    kind: str = ""

    @abstractmethod
    def compute_constants(self, public: Public) -> Constants:
        """Constants of the model; raises BadInput where something is unknown."""

    @abstractmethod
    def predict_dbm(
        self, constants: Constants, model_of: IntArray, place_m: FloatArray
    ) -> FloatArray:
        """RSRP (N,) at places (N, 2) for the models model_of (N,)."""


class NoPrior(Prior, kind="none"):
    """Labels are RSRP itself."""

    reference = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Section 3"

    def compute_constants(self, public: Public) -> Constants:
        return {}

    def predict_dbm(
        self, constants: Constants, model_of: IntArray, place_m: FloatArray
    ) -> FloatArray:
        return np.zeros(len(place_m))


class LogDistancePrior(Prior, kind="log-distance"):
    """rsrp_dbm - 10 exponent log10(max(d, reference_m) / reference_m) at horizontal distance d.

    d is the distance to the base station of the model's cell, and to the nearest of them where a
    model learns several.
    """

    position_m: Coordinates | None = None
    """place of the base station, metres east and north; none: where the world has it"""
    exponent: float = Field(3.5, gt=0, le=10)
    """path-loss exponent"""
    reference_m: float = Field(100.0, ge=1, le=1e5)
    """reference distance, m; nearer places have its RSRP"""
    rsrp_dbm: float = Field(-80.0, ge=-160, le=20)
    """RSRP at the reference distance, dBm"""

    reference = "Rappaport 2002, Wireless Communications, Section 4.9.1"

    def compute_constants(self, public: Public) -> Constants:
        """prior_at_m (n_cell, 2) and prior_model (n_cell,): base stations, and the model of each
        (-1: none).
        """
        model = public.models
        learnt = (model >= 0).sum()
        if self.position_m is not None and learnt > 1:
            raise BadInput(
                f"learning.learner.prior.position_m: one place, and {learnt} cells are learnt; "
                "learn one cell (learning.data.cell), or leave position_m out where base "
                "stations are known"
            )
        if self.position_m is not None:
            at_m = np.tile(self.position_m, (len(model), 1))
        elif public.antennas is not None:
            at_m = public.antennas.at_m[:, :2]
        else:
            raise BadInput(
                "learning.learner.prior: the places of base stations are not known here (a trace "
                "brings cells without places); give position_m, or take prior: {kind: none}"
            )
        return {"prior_at_m": at_m, "prior_model": model.astype(float)}

    def compute_rsrp_dbm(self, distance_m: FloatArray) -> FloatArray:
        """The law of distance."""
        ratio = np.maximum(distance_m, self.reference_m) / self.reference_m
        return self.rsrp_dbm - 10.0 * self.exponent * np.log10(ratio)

    def predict_dbm(
        self, constants: Constants, model_of: IntArray, place_m: FloatArray
    ) -> FloatArray:
        nearest_m = np.full(len(place_m), np.inf)
        for at_m, model in zip(constants["prior_at_m"], constants["prior_model"], strict=True):
            is_of_model = model_of == model
            distance_m = measure_lengths(place_m[is_of_model] - at_m)
            nearest_m[is_of_model] = np.minimum(nearest_m[is_of_model], distance_m)
        return self.compute_rsrp_dbm(nearest_m)


# of the grid on which the law is computed, wider where it would have more numbers than
_STEP_M = 20.0
_NUMBERS = 4_000_000
_DEPTH = 6.0  # a place in a square of side s is s / 6 from its nearest side, on average


class Coverage(Prior, kind="coverage"):
    """Expected RSRP of the strongest cell of a model: the laws of path loss, sight, shadowing and
    walls, integrated.

    m(x) = E clip(M - W + e) of `netsim.world.coverage_law`: W is 0 outside; inside a public
    footprint m is the mean over the building's floors, at the mean depth of the city's buildings
    (square root of the ground floor over 6). Fields, walls and floors that were drawn are not known
    to it. It is computed on a grid of 20 m, of each number of floors, and interpolated bilinearly.
    UEs in vehicles, and indoors where no footprint stands, count as outside.

    This is the law that the simulator draws from, so a map is better for it than one in the field:
    compare with the law of three numbers, which is fitted to measurements.
    """

    reference = "3GPP TR 38.901 V17.0.0, Sections 7.4.1 to 7.4.3"

    def compute_constants(self, public: Public) -> Constants:
        """prior_map_dbm (n_model, 1 + floors, ny, nx): outside, and in buildings of 1, 2, ...
        floors.

        prior_frame_m (3,): first node and step; prior_shapes (k,): footprints, WKB; prior_floors
        (n,).
        """
        import shapely

        if public.coverage is None:
            raise BadInput(
                "learning.learner.prior: the laws of the radio are not known here (a trace "
                "brings what was measured); take prior: {kind: none}"
            )
        public.coverage.check()
        buildings = public.buildings or Buildings.none()
        floors = np.maximum(np.round(buildings.height_m / STOREY_M), 1.0)
        layers = int(floors.max(initial=0.0)) + 1
        model = public.models
        area = public.area
        coarsest_m = np.sqrt(np.prod(area.side_m) * public.n_model * layers / _NUMBERS)
        step_m = max(_STEP_M, coarsest_m)
        n_x, n_y = np.ceil(area.side_m / step_m).astype(int) + 1
        x_m = area.low_m[0] + step_m * np.arange(n_x)
        y_m = area.low_m[1] + step_m * np.arange(n_y)
        place_m = np.stack([np.tile(x_m, len(y_m)), np.repeat(y_m, len(x_m))], axis=1)
        depth_m = _measure_mean_depth_m(buildings)
        table = np.empty((public.n_model, layers, len(place_m)))
        for m in range(public.n_model):
            cells = np.flatnonzero(model == m)
            table[m, 0] = public.coverage.compute_mean_dbm(place_m, cells, 0, None)
            for k in range(1, layers):
                table[m, k] = public.coverage.compute_mean_dbm(place_m, cells, k - 1, depth_m)
            n_floors = np.arange(1, layers)[:, None]
            table[m, 1:] = np.cumsum(table[m, 1:], axis=0) / n_floors
        footprints_wkb = shapely.to_wkb(shapely.multipolygons(buildings.footprint))
        return {
            "prior_map_dbm": table.reshape(public.n_model, layers, len(y_m), len(x_m)),
            "prior_frame_m": np.array([*area.low_m, step_m]),
            "prior_shapes": np.frombuffer(footprints_wkb, np.uint8) + 0.0,
            "prior_floors": floors,
        }

    def predict_dbm(
        self, constants: Constants, model_of: IntArray, place_m: FloatArray
    ) -> FloatArray:
        from scipy.ndimage import map_coordinates

        table = constants["prior_map_dbm"]
        (low_x, low_y, step_m) = constants["prior_frame_m"]
        footprints_wkb = constants["prior_shapes"].astype(np.uint8).tobytes()
        buildings = _restore_buildings(footprints_wkb, tuple(constants["prior_floors"].tolist()))
        floor = buildings.find_height_m(place_m)  # floors, which are as high as 1 here
        column, row = ((place_m - [low_x, low_y]) / step_m).T
        node = np.stack([floor, row, column])
        expected = np.zeros(len(place_m))
        for m in np.unique(model_of):
            is_of_model = model_of == m
            expected[is_of_model] = map_coordinates(
                table[m], node[:, is_of_model], order=1, mode="nearest"
            )
        return expected


def _measure_mean_depth_m(buildings: Buildings) -> float:
    """Mean distance from the facade, of places all over the buildings."""
    import shapely

    square_m2 = shapely.area(buildings.footprint)
    if len(buildings):
        return (square_m2**1.5).sum() / square_m2.sum() / _DEPTH
    return 0.0


@lru_cache(maxsize=1)  # one town, whose footprints are looked at in every round
def _restore_buildings(footprints_wkb: bytes, floors: Floats) -> Buildings:
    """Return the buildings, as high as they have floors, of what is kept of them."""
    import shapely

    return Buildings(shapely.get_parts(shapely.from_wkb(footprints_wkb)), np.array(floors))


PRIORS = OneOf("prior", NoPrior, Coverage, LogDistancePrior)
"""The slot of a public law of RSRP, to which a network learns the difference."""
