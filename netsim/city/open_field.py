"""A city without buildings."""

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from netsim.city.base import City
from netsim.errors import BadInput
from netsim.geometry import Area

_MIN_M = 1.0  # longer side of a trace's area


class OpenField(City):
    """An empty rectangle from (0, 0) to (width_m, height_m).

    Without a size it is the bounding box of the replayed trace, extended by `margin` on every side. The area is public,
    so its border must not coincide with the extreme positions of the users.
    """

    kind: Literal["open-field"] = "open-field"
    width_m: float | None = Field(default=None, gt=0, le=1e6)
    """east-west side, m; none: from the replayed trace"""
    height_m: float | None = Field(default=None, gt=0, le=1e6)
    """north-south side, m; none: from the replayed trace"""
    margin: float = Field(default=0.1, ge=0, le=10)
    """extension at each end of a side of the bounding box of a replayed trace, as a share of that side"""

    reference: ClassVar = "no obstacle: every link is in line of sight"
    example: ClassVar = {"kind": "open-field", "width_m": 500, "height_m": 400}

    @model_validator(mode="after")
    def _both(self) -> Self:
        if (self.width_m is None) != (self.height_m is None):
            raise ValueError("give both width_m and height_m, or neither to take a replayed trace's area")
        return self

    @property
    def has_size(self) -> bool:
        return self.width_m is not None

    def area(self, trace_area: Area | None) -> Area:
        if self.width_m is not None and self.height_m is not None:
            return Area(0.0, 0.0, self.width_m, self.height_m)
        if trace_area is None:
            raise BadInput("world.city: open-field has no size; give width_m and height_m")
        if max(trace_area.side_m) < _MIN_M:
            raise BadInput(
                f"world.city: the trace covers {trace_area.side_m[0]:g} x {trace_area.side_m[1]:g} m: too small "
                "for any location to leak; take a trace that moves, or give width_m and height_m"
            )
        grow = self.margin * trace_area.side_m
        low = trace_area.low_m - grow
        high = trace_area.high_m + grow
        return Area(float(low[0]), float(low[1]), float(high[0]), float(high[1]))
