"""Random selection: the baseline of the same size for the other selections."""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fl.curation.base import Curation
from fl.types import Curated, Local, RoundContext, State
from netsim.columns import row_id
from netsim.rng import Rng


class RandomBatch(Curation):
    """Keeps `num` samples of each UE, drawn uniformly without replacement (all, if it has fewer)."""

    kind: Literal["random"] = "random"
    num: int = Field(ge=1)
    """number of samples kept per UE and round"""

    reference: ClassVar = "control of Bakopoulou et al., Location Leakage in Federated Signal Maps"
    example: ClassVar = {"kind": "random", "num": 5}

    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        keep = np.zeros(len(local.x), dtype=bool)
        for row, (ue, model) in enumerate(zip(local.ue, local.model, strict=True)):
            start, stop = local.ptr[row], local.ptr[row + 1]
            order = np.argsort(rng.keys("pick", row_id(int(ue), int(model)), stop - start), kind="stable")
            keep[start + order[: self.num]] = True
        return Curated(local.keep(keep), state)
