"""Settings of transmissions that take time."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from netsim.part import Part
from netsim.radio.schedulers import SCHEDULERS
from netsim.radio.schedulers.base import Scheduler
from netsim.radio.schedulers.simultaneous import Simultaneous


class AirInterface(Part):
    """Sharing of the band over time.

    link_adaptation: rates follow every coming and going of a transmitter (change), or are held until the next grant or
    block (grant), as if UEs that have sent went on with padding.
    """

    scheduler: Annotated[Scheduler, SCHEDULERS] = Simultaneous()
    """rule by which UEs of a cell may send"""
    link_adaptation: Literal["change", "grant"] = "change"
    """when rates follow the interference: with each coming and going, or only with grants and blocks"""
    block_s: float | None = Field(default=None, ge=1e-3, le=1e6)
    """length of a block, after which links are looked at again, s; none: links stay as they were at the request"""
    step_s: float | None = Field(default=None, ge=1e-6, le=1e6)
    """grants and changes of interference happen at multiples of it, s; none: at any time"""
    retransmissions: int = Field(default=0, ge=0, le=1000)
    """how often a block that was not decoded is sent again, without combining; then the update is lost"""
    client_dropout_per_s: float = Field(default=0.0, ge=0, le=1e3)
    """rate at which UEs leave for good between request and last bit, 1/s"""

    renamed: ClassVar = {"adapt": "link_adaptation", "dropout_per_s": "client_dropout_per_s"}

    @model_validator(mode="after")
    def _whole_steps(self) -> Self:
        if self.block_s is not None and self.step_s is not None:
            steps = self.block_s / self.step_s
            if steps < 1 or abs(steps - round(steps)) > 1e-9 * steps:
                raise ValueError(f"block_s {self.block_s:g} must be a multiple of step_s {self.step_s:g}")
        return self
