"""What an audit sees of a round: all that noise hides, before and after its noise; it may put other
values in place.
"""

from typing import Any

from fl.data import TakenData
from fl.defenses import Defense
from fl.round.uploads import Uploads
from fl.types import Model, RoundContext, Spend, State, Updates
from netsim.units import FloatArray


class Probe:
    """The observer of a usual run, which sees nothing and changes nothing."""

    def swap_first_sample(self, taken: TakenData) -> TakenData:
        """The data of a round before any UE is asked, of which an audit may swap a sample."""
        return taken

    def replace_updates(
        self, facts: RoundContext, model: Model, updates: Updates, norm: float | None
    ) -> Updates:
        """Updates of a phase, which began from a model, before the first defense; norm : the bound
        that defenses promise.
        """
        return updates

    def record_noise(
        self,
        defense: Defense,
        before: Updates | FloatArray,
        after: Updates | FloatArray,
        spends: list[Spend],
        facts: RoundContext,
        state: State,
    ) -> Any:
        """A defense has done its half on the UEs, or at the server on the merged update (n_model,
        d); its state now.

        Returns what is put in place of a merged update.
        """
        return after

    def replace_model(
        self,
        facts: RoundContext,
        uploads: Uploads,
        fewest: int | None,
        model: Model,
        states: dict[str, State],
    ) -> Model:
        """The model that a merge publishes, and the states of parts after it, which may be
        replaced.

        fewest : updates of a sum that was opened; None where nothing is summed.
        """
        return model

    def forget_draws(self, number: int) -> None:
        """A budget had no room for the round of this number, so that nothing of it is published."""


SILENT = Probe()
