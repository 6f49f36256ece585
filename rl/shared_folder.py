"""A shared policy as data: a card in JSON, weights in safetensors. Nothing that is read here can run."""

from pathlib import Path
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fl.power.search import Limits
from netsim.part import Part
from netsim.record import write_text
from netsim.safe import replacing
from rl.policy_files import CARD, WEIGHTS, checked, read_card, read_tensors
from rl.rules import LAWS, Tuned
from rl.shared_policy import SHAPES, SharedPolicy

Finite = Annotated[float, Field(allow_inf_nan=False)]


class SharedCard(Part):
    """Whom a shared policy is for, and where it comes from."""

    format: Literal[2] = 2
    """version of these files"""
    program: str = Field(max_length=40)
    """version of the program that trained it"""
    task: Literal["shared"] = "shared"
    """one network for every UE"""
    limits: Limits
    """what its powers may be"""
    rule: str = Field(max_length=40)
    """the rule that it adds to"""
    parameters: tuple[Finite, ...] = Field(max_length=16)
    """of the rule"""
    scenario: str = Field(default="", max_length=300)
    """title of the scenario that it was trained in"""
    seed: int = Field(default=0, ge=0)
    """of its training"""
    steps: int = Field(default=0, ge=0)
    """of its training, when it was kept"""

    @model_validator(mode="after")
    def _known_rule(self) -> Self:
        laws = {law.name: len(law.start) for law in LAWS}
        if laws.get(self.rule) != len(self.parameters):
            raise ValueError(
                f"rule {self.rule!r} with {len(self.parameters)} parameters is none of this program's; there are "
                + ", ".join(f"{name} ({n})" for name, n in laws.items())
            )
        return self


def save_shared(policy: SharedPolicy, card: SharedCard, folder: Path) -> None:
    """Write a policy into a folder, weights first, so that a card never stands without them."""
    from safetensors.numpy import save

    folder.mkdir(parents=True, exist_ok=True)
    with replacing(folder / WEIGHTS) as file:
        file.write(save({name: np.ascontiguousarray(w) for name, w in policy.weights.items()}))
    write_text(folder / CARD, card.model_dump_json(indent=1) + "\n")


def load_shared(folder: Path) -> tuple[SharedPolicy, SharedCard]:
    """The policy of a folder. Raises BadInput with one line for whatever is wrong with it."""
    card = read_card(folder / CARD, SharedCard)
    weights = read_tensors(folder / WEIGHTS)
    checked(folder / WEIGHTS, weights, SHAPES, set())
    law = next(law for law in LAWS if law.name == card.rule)
    tuned = Tuned(law, np.array(card.parameters), float("nan"), 0)
    return SharedPolicy({name: w.astype(np.float32) for name, w in weights.items()}, tuned), card
