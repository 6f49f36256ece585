"""The defense slot: clipping, noise and compression between a UE's update and the published
model.
"""

from abc import abstractmethod
from dataclasses import field
from typing import ClassVar, Literal

from fl.types import Local, Metrics, Received, RoundContext, Spend, State, Updates
from netsim.columns import frozen, no_floats, no_ints
from netsim.part import Named, OneOf
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

Drawing = Literal["top-up", "all", "none", "aggregate", "per-device"]


@frozen
class Standing:
    """Status of a defense with a budget: the noise required for each UE (n_ue,) in its last round
    and the noise drawn, both 0 before the first; and the remaining share of the budget. row_ue,
    row_model, row_required_std, row_drawn_std (n,): the same of each row of the last round, for a
    UE may send several. drawing: how noise was drawn there: all that is required, none, what the
    channel lacks (top-up), or all unless the channel's noise is enough, summed over rows
    (aggregate) or on each of them (per-device).
    """

    required_std: FloatArray
    drawn_std: FloatArray
    budget_left: float
    row_ue: IntArray = field(default_factory=no_ints)
    row_model: IntArray = field(default_factory=no_ints)
    row_required_std: FloatArray = field(default_factory=no_floats)
    row_drawn_std: FloatArray = field(default_factory=no_floats)
    drawing: Drawing = "all"


NEEDS_BOUND = {
    "bound": (
        "noise without a bound on the update protects nothing that can be stated; put a "
        "clip before it"
    )
}
WHOLE_BOUND = "bound on the whole update"

Protected = tuple[Updates, State, list[Spend]]
"""updates after a defense, its next state, and the noise that it drew"""
Finished = tuple[FloatArray, State, list[Spend]]
"""the sum after the server's half of a defense, its next state, and the noise that it drew"""


class Defense(Named):
    """A step between the learner and the server. Steps are chained in the order written.

    A step that limits row norms sets `Updates.bound`; noise reads it. `facts.channel` is the
    planned uplink, so a defense may count on its noise. A step that changes rows withdraws the
    bound unless it says `keeps_bound`. A defense that does nothing in a half keeps the default of
    that half.
    """

    role = "defense"
    kind: str = ""
    keeps_bound: ClassVar = False
    """whether row norms that were bounded before stay within the same bound"""

    contracts: ClassVar = False
    """whether it never moves two updates further apart: cutting down to a norm does not,
    independent noise does not"""

    adds_noise_only: ClassVar = False
    """whether it adds noise that does not depend on the update, and changes nothing else: what a
    sum of noisy updates hides, it still hides then. Cutting down to a norm cuts noise in a sum too,
    so it does not"""

    ties_ues: ClassVar = ""
    """why what a UE sends after it hangs on other UEs, in words; empty: it does not"""

    needs_rounds: ClassVar = ""
    """why it counts on rounds, in which all UEs are asked at once and merged together; empty: it
    does not"""

    needs_plan: ClassVar = False
    """whether it draws less noise where the channel has some, which only planned transmissions tell
    beforehand"""

    @property
    def noise_on_device(self) -> bool:
        """Whether it draws noise on the update before that leaves the UE: then it holds against the
        server too.
        """
        return "spend" in self.offers and "central noise" not in self.offers

    @property
    def noises_updates(self) -> bool:
        """Whether it draws noise on updates: that of a clip is on a count."""
        return "spend" in self.offers and "bound" not in self.offers

    @property
    def most_updates_a_day(self) -> int | None:
        """Number of updates of a UE and a local day that its noise is set for; None: it counts no
        days.
        """
        return None

    @property
    def bounded_phase(self) -> str | None:
        """The one phase of the learner whose updates it bounds; None: it bounds none, or those of
        all phases.
        """
        return None

    @property
    def bits_per_number(self) -> int | None:
        """Bits of each number that a UE sends after it; None: it does not say."""
        return None

    waits: ClassVar = False
    """whether its round of the switch must still be determined by the plan of a study"""

    def draw_all_noise(self) -> "Defense":
        """A copy that draws all required noise and does not rely on channel noise."""
        return self

    def set_switch_round(self, until_round: int) -> "Defense":
        """A copy with the round of the switch that a plan determined."""
        return self

    def start(self, n_ue: int) -> State:
        """The first state; None for a defense without memory."""
        return None

    def promise_norm(self, state: State) -> float | None:
        """The L2 bound of this round's updates, known beforehand, by which an uplink may scale;
        None without one.
        """
        return None

    @abstractmethod
    def protect(
        self, updates: Updates, local: Local, facts: RoundContext, state: State, rng: Rng
    ) -> Protected:
        """Device half: the whole cohort in one call."""

    def finish(
        self, total: FloatArray, n_expected: int, facts: RoundContext, state: State, rng: Rng
    ) -> Finished:
        """Server half: on the merged update (n_model, d), in reverse order of the chain."""
        return total, state, []

    def collect_figures(self, state: State) -> Metrics:
        """Figures of the last round for the table `metrics`; names with units."""
        return dict(getattr(state, "figures", {}))

    def get_standing(self, state: State) -> Standing | None:
        """Status of its budget, for power policies; None without a budget."""
        return None

    def observe(
        self, received: Received, weights: FloatArray, facts: RoundContext, state: State
    ) -> State:
        """The next state, from public information only."""
        return state


DEFENSES = OneOf(
    "defense",
    places={
        "clip": "fl.defenses.clip:Clip",
        "adaptive-clip": "fl.defenses.clip:AdaptiveClip",
        "gaussian": "fl.defenses.gaussian:Gaussian",
        "central-gaussian": "fl.defenses.gaussian:CentralGaussian",
        "distributed-gaussian": "fl.defenses.gaussian:DistributedGaussian",
        "skellam": "fl.defenses.skellam:Skellam",
        "uniform-noise": "fl.defenses.shaped_noise:UniformNoise",
        "geometry-aligned": "fl.defenses.shaped_noise:GeometryAligned",
        "edge-noise": "fl.defenses.shaped_noise:EdgeNoise",
        "uniform-dp": "fl.defenses.budgeted:UniformDp",
        "arb": "fl.defenses.budgeted:Arb",
        "lapa": "fl.defenses.lapa:Lapa",
        "noise-switch": "fl.defenses.lapa:NoiseSwitch",
        "projection": "fl.defenses.compression:Projection",
        "top-k": "fl.defenses.compression:TopK",
        "quantise": "fl.defenses.compression:Quantise",
    },
)
