"""Powers of a policy that all UEs share, as one more policy of the slot."""

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from netsim.radio.power import PowerContext
from rl.ddpg_power import Decision, FromFolder, kept

if TYPE_CHECKING:
    from rl.shared_folder import SharedCard
    from rl.shared_policy import SharedPolicy


class Shared(FromFolder):
    """What `netsim train` learnt on recorded rounds: a network for every UE, for any number of them.

    In every round it looks at the links of all UEs, also to the eavesdropper if there is one, and at the noise that was
    required last. Powers keep the limits of the training for the UEs that send.
    """

    kind: Literal["shared"] = "shared"

    reference: ClassVar = "Gilmer et al., Neural Message Passing for Quantum Chemistry, 2017"
    example: ClassVar = {"kind": "shared", "policy": "runs/power"}

    def check(self, n_ue: int) -> None:
        try:
            self.learnt()[1].limits.check(n_ue)
        except ValueError as error:
            raise ValueError(f"power.policy: {error}") from None

    def learnt(self) -> "tuple[SharedPolicy, SharedCard]":
        """The policy of the folder; BadInput where there is none."""
        return _read(self.policy, self.stamps())

    def update_context(self, context: PowerContext, state: Decision) -> Decision:
        from rl.look import Look

        policy, card = self.learnt()
        power_w = np.asarray(policy.power_w(Look.of(context, card.limits))[0])
        return Decision(kept(power_w, context.sends, card.limits), context.sends)


@lru_cache(maxsize=8)
def _read(folder: Path, stamps: tuple[int, ...]) -> "tuple[SharedPolicy, SharedCard]":
    """A policy, read once as long as its files stay the same."""
    from rl.shared_folder import load_shared

    return load_shared(folder)
