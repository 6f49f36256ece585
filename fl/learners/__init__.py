"""The learner slot: the model, local training, and evaluation."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from fl.notice import Prepared, notice
from fl.tracking.place_grid import PlaceGrid
from fl.types import (
    HeldOut,
    Local,
    Metrics,
    Model,
    Public,
    Request,
    SampleFormat,
    State,
    Updates,
)
from netsim.geometry import Area
from netsim.notice import Notices
from netsim.part import OneOf, Part
from netsim.rng import Rng
from netsim.units import ArrayPair, FloatArray, IntArray, Texts

if TYPE_CHECKING:
    from fl.networks.mlp import Mlp
    from fl.radio_map.link_patterns import LinkPatterns
    from netsim.world.world import World


PLACE_GRADIENTS = "place gradients"
"""the gradient of the output in all parameters belongs to one place, and can be had at any"""
PUBLIC_LEVEL = "public level"
"""labels depend on `public_rsrp_mean_dbm` and `public_rsrp_std_db`"""


class Learner(Part):
    """A learning task. The `phases` of a round take place one after the other, each with its own
    upload.
    """

    kind: str = ""
    phases: ClassVar[Texts] = ("all",)
    grid_phase: ClassVar = ""
    """the phase whose updates lie on a grid (see `GridLearner`); empty for a learner without one"""
    most_held_out: ClassVar = 2000
    """samples on which a round is scored; the end of a run takes all"""
    loss_in_nats: ClassVar = False
    """whether the loss of a record is -log of its probability; otherwise it is a squared error"""

    @property
    def has_several_phases(self) -> bool:
        """Whether UEs upload more than once a round."""
        return len(self.phases) > 1

    @property
    def trained(self) -> "Learner":
        """The learner of a run: itself, or the one that made the updates that this one reads."""
        return self

    def attach(self, trained: "Learner", world: "World", round_s: float, last: int) -> "Learner":
        """What makes the updates of a run of `last` rounds in this world: `trained`, the same ready
        for the data. Raises BadInput where it does not fit.
        """
        return trained

    def start_round(self, number: int, model: Model, local: Local) -> tuple[Model, Local]:
        """The models that a round publishes, and the data of UEs that take part in it."""
        return model, local

    @property
    def shortest_m(self) -> float:
        """Length of the shortest structure that its inputs resolve, m; infinite where they have
        none.
        """
        return inf

    @property
    def passes(self) -> float:
        """Number of passes over every sample in local training, which determines compute time and
        energy.
        """
        return 1.0

    @property
    def wants_sampled_places(self) -> bool:
        """Whether it needs `public.sampled_m`, which a deployment could not publish without
        leaking.
        """
        return False

    @property
    def wants_dataset_statistics(self) -> bool:
        """Whether it needs `public.dataset`, which a deployment could not publish without
        leaking.
        """
        return False

    @property
    def discloses(self) -> str:
        """Statistics of the data that are published before the first round, in words; empty:
        none.
        """
        return ""

    def notices(self, prepared: Prepared) -> Notices:
        if self.discloses and prepared.has_epsilon:
            yield notice("data-published", kind=self.kind_name(), what=self.discloses)

    def prepare(self, samples: SampleFormat | None, may_import: bool) -> Self:
        """The learner ready for samples of a format, None for positions; BadInput with one line
        where it cannot learn from them.

        may_import : whether code that a user brings may be run; otherwise it is only parsed.
        """
        return self

    @abstractmethod
    def init(self, public: Public, rng: Rng) -> Model:
        """The first global models."""

    @abstractmethod
    def train_locally(self, model: Model, phase: str, data: Local, rng: Rng) -> Updates:
        """The whole cohort's local work, from the global models to updates (n rows)."""

    def start_ues(self, n_ue: int) -> State:
        """The first state of all UEs; None where they remember nothing from round to round.

        The numbers of an update are not known yet: a `netsim.columns.ByKey`, by the number of each
        row (see `Local.row`), takes values of any length when the first are written.
        """
        return None

    def train_with_state(
        self, model: Model, phase: str, data: Local, state: State, rng: Rng
    ) -> tuple[Updates, State]:
        """Local work as in `train_locally`, by UEs that remember, and the next state of all UEs.

        A UE does not learn whether its update arrived, so its state must not depend on that.
        """
        return self.train_locally(model, phase, data, rng), state

    def step(self, model: Model, phase: str, merged: FloatArray) -> Model:
        """The next global models from the merged update (n_model, d): their sum, unless a learner
        says otherwise.
        """
        return replace(model, parameters=model.parameters + merged)

    @abstractmethod
    def evaluate(self, model: Model, held_out: HeldOut) -> Metrics:
        """Utility figures, names with units; NaN where nothing was held out."""

    def predict_dbm(
        self, model: Model, model_of: IntArray, position_m: FloatArray
    ) -> FloatArray | None:
        """RSRP (N,) at positions (N, 2) by the models model_of (N,); None for a learner that
        predicts no RSRP.
        """
        return None

    def predict_strongest_dbm(
        self, model: Model, place_m: FloatArray, models: IntArray
    ) -> FloatArray | None:
        """The largest RSRP (N,) that some models (k,), by number, predict at places (N, 2), NaN for
        none.

        None for a learner that predicts no RSRP.
        """
        return None

    def train_from_scratch(
        self, model: Model, samples: HeldOut, epochs: int, rng: Rng
    ) -> Model | None:
        """Model trained centrally on the samples of all UEs; None: not defined.

        `model` gives the public constants; training starts afresh.
        """
        return None

    def compute_record_losses(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        """Loss (N,) of records x (N, p), y (N,) under models model_of (N,): of learners that offer
        `record loss`.
        """
        raise NotImplementedError

    def compute_record_gradient_norms(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        """L2 norm (N,) of each record's gradient in all parameters: of learners that offer `record
        gradient`.
        """
        raise NotImplementedError

    def compute_record_gradients(
        self, model: Model, model_of: IntArray, x: FloatArray, y: FloatArray
    ) -> FloatArray:
        """Gradient (N, d) of each record's loss in all parameters: of learners that offer `record
        gradients`.
        """
        raise NotImplementedError

    def get_dense_network(
        self, model: Model, model_index: int
    ) -> "tuple[Mlp, FloatArray, FloatArray] | None":
        """A fully connected network that predicts by position: its shape, parameters (d,), and
        waves (2, J), cosines and sines of z waves being what it reads beside a standardised
        position z. None: the learner has another network.
        """
        return None

    def form_place_gradients(
        self, model: Model, model_index: int, place_m: FloatArray
    ) -> FloatArray:
        """Gradients (G, d) of the output in all parameters at places (G, 2), each but for a factor:
        those of the loss of a record there, whatever its label. Of learners that offer `record
        gradients`.
        """
        of_model = np.full(len(place_m), model_index)
        return self.compute_record_gradients(model, of_model, place_m, np.ones(len(place_m)))

    def evaluate_against(
        self, model: Model, held_out: HeldOut, density: Callable[[FloatArray], FloatArray | None]
    ) -> Metrics:
        """Utility figures against the law of where UEs are: density(places (k, 2)) is per square
        metre, or None.
        """
        return {}

    def get_update_grid(self, model: Model) -> PlaceGrid | None:
        """The cells of updates in `grid_phase`; None for a learner without them."""
        return None

    def compute_bias_rms(self, updates: Updates) -> FloatArray:
        """RMS of each row's gradient in the first layer's biases (n,); NaN for a learner without
        such a layer.
        """
        return np.full(len(updates.ue), nan)

    def compute_centroid_bound_m(self, model: Model, data: Local) -> FloatArray:
        """Largest error of a closed-form centroid of each row (n,), metres; NaN where no theorem
        holds.
        """
        return np.full(len(data.ue), nan)

    def list_answer_axes_m(self, area: Area) -> ArrayPair | None:
        """Coordinates x (n,) and y (m,) of the places in the area that answers name, thinned; None:
        they name any.
        """
        return None

    def build_request(self, model: Model) -> Request | None:
        """The server's request, for learners with which a query policy can be used; None for
        others.
        """
        return None

    def diagnose(self, model: Model, data: Local) -> Metrics:
        """Figures of the model that a round started from, on the data of the round; names with
        units.
        """
        return {}


class GridLearner(Learner):
    """A learner whose updates in `grid_phase` have one number for each cell of a square grid over
    the area.

    These numbers come first among the parameters of a model. This is what attacks read that look
    where an update is strong, and what noise with a shape in space is added to.
    """

    @abstractmethod
    def get_update_grid(self, model: Model) -> PlaceGrid:
        """The cells."""

    @abstractmethod
    def compute_link_patterns(
        self, model: Model, place_m: FloatArray, links: int, error_db: float
    ) -> "LinkPatterns":
        """Updates of devices at places (n, 2) by an error of `error_db` on one link each, of the
        nearest stations.

        Anyone with the model can compute this: a device's measurements are taken as unknown.
        """


class FirstLayerLearner(Learner):
    """A learner whose first layer is fully connected with a bias and reads standardised positions.

    This is what makes the batch centroid recoverable: see `fl.attacks.closed_form`.
    """

    @abstractmethod
    def first_layer(self, updates: FloatArray) -> ArrayPair:
        """dW (n, hidden, 2) and db (n, hidden) of update rows (n, d)."""

    @property
    def update_over_gradient(self) -> float:
        """Size of an update over that of the gradient it was made from: the learning rate, where
        there is one.
        """
        return 1.0

    def compute_bias_rms(self, updates: Updates) -> FloatArray:
        """Root mean square of bias gradients, by which the closed-form attack divides."""
        _, db = self.first_layer(updates.all_rows)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.sqrt((db**2).mean(axis=1)) / self.update_over_gradient

    @abstractmethod
    def standardisation(self, model: Model) -> ArrayPair:
        """Centre and scale (n_model, 2) in metres: z = (x - centre) / scale."""


class LayeredLearner(FirstLayerLearner):
    """A learner of fully connected layers, each with biases, that reads an encoded position.

    Layers count from 1. With h(x) what layer l reads of a sample at x, the layer's weights and
    biases move in one step, and under any linear optimiser, by

        D_l = [dW_l; db_l] = sum_i [h(x_i); 1] delta_i^T,

    so the columns of D_l lie in the span of the batch's [h(x_i); 1].
    """

    @property
    @abstractmethod
    def layers(self) -> int:
        """Number of layers, the output's included."""

    @abstractmethod
    def select_layer(self, updates: FloatArray, layer: int) -> FloatArray:
        """D_l (n, inputs + 1, units) of update rows (n, d), the bias last; inputs that the place
        alone determines.
        """

    @abstractmethod
    def compute_layer_input(
        self, model: Model, model_index: int, place_m: FloatArray, layer: int
    ) -> FloatArray:
        """[h(x); 1] (G, inputs + 1) of places (G, 2) in metres under the parameters of model
        `model_index`.
        """


class SurfaceLearner(Learner):
    """A learner whose updates are answers about a grid of points: surfaces, one for each bandwidth
    asked for.

    Its model's constants hold the grid, x_m (P,) and y_m (Q,), evenly spaced, and bandwidth_m (H,).
    On a line Q is 1.
    """

    @abstractmethod
    def to_surfaces(self, model: Model, rows: FloatArray) -> FloatArray:
        """Rows (n, d) of updates or parameters as surfaces (n, H, P, Q)."""

    @abstractmethod
    def compare(self, model: Model, held_out: HeldOut, law: FloatArray) -> Metrics:
        """Utility against the law of where UEs are, at the grid points (P, Q)."""

    def evaluate_against(
        self, model: Model, held_out: HeldOut, density: Callable[[FloatArray], FloatArray | None]
    ) -> Metrics:
        grid = self.build_grid_m(model)
        law = density(grid.reshape(-1, 2))
        if law is None:
            return {}
        return self.compare(model, held_out, law.reshape(grid.shape[:2]))

    @abstractmethod
    def compute_reference_map(
        self, model: Model, held_out: HeldOut, model_index: int = 0
    ) -> FloatArray:
        """Map of model `model_index` drawn from all true places, at the first bandwidth: (P, Q)."""

    @staticmethod
    def build_grid_m(model: Model) -> FloatArray:
        """The grid points (P, Q, 2)."""
        x, y = np.meshgrid(model.constants["x_m"], model.constants["y_m"], indexing="ij")
        return np.stack([x, y], axis=-1)


LEARNERS = OneOf(
    "learner",
    places={
        "rsrp-net": "fl.learners.rsrp_net:RsrpNet",
        "radio-map": "fl.learners.radio_map:RadioMap",
        "density": "fl.learners.density:Density",
        "torch": "fl.learners.torch_net:TorchNet",
        "scaffold": "fl.learners.scaffold:Scaffold",
        "recorded": "fl.learners.recorded:Recorded",
        "flower": "fl.learners.flower:Flower",
    },
)
