r"""Inversion by simulation: places on which the learner's own local training gives the observed update."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, cast

import numpy as np
from pydantic import Field

from fl.attacks.base import Attack, View
from fl.attacks.place_maps import usable
from fl.learners.rsrp_net import RsrpNet
from fl.optimisers.momentum import Momentum
from fl.optimisers.sgd import Sgd
from fl.tracking.place_grid import PlaceGrid
from fl.types import Estimates, Facts, State
from netsim.errors import BadInput
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

if TYPE_CHECKING:
    from torch import Tensor

    from fl.attacks.minimise import Minimum
    from fl.attacks.simulation import Devices, KnownTraining

MOST_STEPS = 200  # of one device
MOST_STEPS_OF_ALL = 10_000  # of all devices of a round together
MOST_NUMBERS = 20_000_000  # parameters x steps of one device: all are kept for the gradient
_TOGETHER = 64  # devices that are searched at once: bounds the memory
_APART_CELLS = 2.0  # distance of the places of a start
_EXACT = 1e-12  # a distance that no search needs to make smaller


@dataclass(frozen=True, eq=False)
class _Fits:
    """The best fit of each source: z (n, p, 2), share (n, p), loss (n,), effort (n,), (n,), status words."""

    z: FloatArray
    share: FloatArray
    loss: FloatArray
    iterations: IntArray
    evaluations: IntArray
    status: list[str]


class SimulatedInversion(Attack):
    r"""Fits places, shares and labels on which simulated local training gives the observed update.

    The attacker repeats the training of a device from the weights before the round on p weighted places, and minimises

        D = |u'(x, c, y) - u|^2 / |u|^2     or     D = 1 - cos(u', u)

    over places x_j, shares c_j (which sum to 1) and a label y_j of each, through all steps (L-BFGS on unrolled steps,
    in double precision). u' takes k = epochs * ceil(n / batch) steps with learning rate, momentum and proximal term of
    the learner; n, the number of samples, is taken as public. For batches of all samples that is the training itself if
    the samples lie at p places at most, whatever their labels are: at one place only their mean counts. Of smaller
    batches the order is unknown, so each step takes all places; dropout is left out too. With `step_limit: polyak` the
    labels at a place also count by their spread, which makes steps of the device longer and is left out.

    One step tells c_j and y_j only through c_j (F(x_j) - y_j): the places can be exact, the shares, and with them the
    order of the answers and the centroid, are then a guess from residuals of one size. Several steps tell them apart.

    Starts are places of a grid over the area. The first search compares all places (or pairs of places, to which a
    third is added) by the part of the update that their gradients explain in linear least squares. Later searches
    replace one place of the best fit so far in the same way, in turn with gradients halfway through the round and
    before it.

    Estimates, of each round by itself: `answer`, the places by share; `centroid`, their mean weighted by shares.

    A reference for small cases. At most 200 steps a device, 10,000 a round of all attacked UEs together (`targets` of
    the threat limits UEs), and 20 million parameters x steps; more is refused in the round in which it occurs.
    Departs from the papers: weighted places in place of single images, matched in all parameters at once; each epoch
    has the same batches, so nothing has to be aligned between them.
    """

    kind: Literal["simulated-inversion"] = "simulated-inversion"
    places: int = Field(default=2, ge=1, le=3)
    """number of places that are fitted (p)"""
    distance: Literal["squared", "cosine"] = "squared"
    """distance between updates: squared, relative to the observed one, or 1 - cosine, for updates of unknown scale"""
    starts: int = Field(default=4, ge=1, le=64)
    """number of starts of a search"""
    searches: int = Field(default=3, ge=1, le=20)
    """number of searches per UE and round, one after the other, unless an earlier one fits exactly"""
    iterations: int = Field(default=100, ge=1, le=10_000)
    """largest number of iterations of L-BFGS"""
    candidates: int = Field(default=1600, ge=1, le=2500)
    """number of places on a grid over the area, among which starts are chosen (about)"""

    reference: ClassVar = (
        "Dimitrov et al. 2022, Data Leakage in Federated Averaging (simulation of local steps); Geiping et al. 2020, "
        "Inverting Gradients (cosine distance)"
    )
    example: ClassVar = {"kind": "simulated-inversion", "places": 1, "iterations": 3, "candidates": 100}
    needs: ClassVar = {
        "positions": "the network's inputs must be positions",
        "sample gradient": "repeats local training by gradients of guessed samples, unscaled and of all layers",
        "linear local steps": "differentiates through local steps, which must be linear in gradients",
        "rows": "repeats the training of one device; a sum of several is nobody's",
        "starting weights": "it trains from there; add weights to threat.knows",
        "training details": "it repeats local training; add training to threat.knows",
    }

    def run(self, view: View, facts: Facts, state: State, rng: Rng) -> tuple[Estimates, State]:
        learner = cast(RsrpNet, view.learner)
        area = facts.public.area
        cell_m = float(np.sqrt(np.prod(area.side_m) / self.candidates))
        grid = PlaceGrid.over(area, cell_m, 1, self.label)
        centre, scale = learner.standardisation(view.model_before)
        centre, scale = centre[view.source_model], scale[view.source_model]
        fits = self._fits(view, learner, grid)
        where = centre[:, None] + scale[:, None] * fits.z
        order = np.argsort(-fits.share, axis=1, kind="stable")
        where = np.take_along_axis(where, order[:, :, None], axis=1)
        share = np.take_along_axis(fits.share, order, axis=1)
        every, rank = np.arange(len(where)), np.arange(self.places)
        found = np.isfinite(where).all(axis=2) | (rank == 0)  # without a place, where there is none: it has been heard
        source, rank = np.nonzero(found)
        mean = (share[:, :, None] * where).sum(axis=1)
        named = (("centroid", every, mean, None), ("answer", source, where[source, rank], share[source, rank]))
        estimates = [
            view.spread(
                what, of, position_m, weight=None if weight is None else np.nan_to_num(weight), loss=fits.loss[of],
                iterations=fits.iterations[of], evaluations=fits.evaluations[of], status=[fits.status[i] for i in of],
            )
            for what, of, position_m, weight in named
        ]  # fmt: skip
        return Estimates.join(estimates), state

    def _fits(self, view: View, learner: RsrpNet, grid: PlaceGrid) -> _Fits:
        import torch

        from fl.attacks.simulation import unpacked

        n, p = len(view.update), self.places
        z, share, loss = np.full((n, p, 2), np.nan), np.full((n, p), np.nan), np.full(n, np.nan)
        iterations, evaluations = np.zeros(n, np.int64), np.zeros(n, np.int64)
        good = usable(view.update)
        every, how = np.flatnonzero(good), _training(learner)
        steps = self._steps(view, learner, every)
        centre, scale = (of[:, None] for of in learner.standardisation(view.model_before))
        among = torch.from_numpy((grid.place_m - centre) / scale)
        apart = torch.from_numpy((_APART_CELLS * grid.cell_m / scale[:, 0]).max(axis=1))
        for i in range(0, len(every), _TOGETHER):
            rows = every[i : i + _TOGETHER]
            devices = _devices(view, learner, rows, steps[i : i + _TOGETHER])
            found = self._search(devices, how, among[devices.network], apart[devices.network])
            loss[rows] = found.value[:, 0].numpy()
            fine = np.isfinite(loss[rows])
            at, shares, _ = unpacked(found.x[:, 0])
            z[rows[fine]], share[rows[fine]] = at.numpy()[fine], shares.numpy()[fine]
            iterations[rows], evaluations[rows] = found.iterations.numpy(), found.evaluations.numpy()
        status = [
            "no gradient" if not u else "ok" if np.isfinite(d) else "no finite loss"
            for u, d in zip(good, loss, strict=True)
        ]
        return _Fits(z, share, loss, iterations, evaluations, status)

    def _search(self, devices: "Devices", how: "KnownTraining", among: "Tensor", apart: "Tensor") -> "Minimum":
        """The best guess (n, 1, 4 p) of n devices, from places (n, G, 2), those of a start at least `apart` (n,)."""
        import torch

        from fl.attacks.minimise import Minimum, lbfgs
        from fl.attacks.simulation import guesses_at, simulation_objective, unpacked

        n = len(devices.update)
        guess, value = torch.zeros((n, 4 * self.places), dtype=torch.float64), torch.full((n,), torch.inf).double()
        iterations, evaluations = torch.zeros(n, dtype=torch.int64), torch.zeros(n, dtype=torch.int64)
        for number in range(self.searches):
            rows = torch.nonzero(value > _EXACT).flatten()
            if len(rows) == 0:
                break
            some = devices.only(rows)
            weights = some.before if number % 2 == 0 else some.halfway
            past = None if number == 0 else unpacked(guess[rows])[0]
            begin = guesses_at(self._starts(some, weights, among[rows], apart[rows], past), some, weights, how)
            found = lbfgs(simulation_objective(some, how, self.distance), begin, self.iterations)
            least, at = found.value.min(dim=1)
            won = least < value[rows]
            value[rows[won]], guess[rows[won]] = least[won], found.x[torch.arange(len(rows)), at][won]
            iterations[rows] += found.iterations
            evaluations[rows] += found.evaluations
        return Minimum(guess[:, None], value[:, None], iterations, evaluations)

    def _starts(
        self, devices: "Devices", weights: "Tensor", among: "Tensor", apart: "Tensor", past: "Tensor | None"
    ) -> "Tensor":
        """Places (n, starts, p, 2) at which gradients at weights (n, d) explain the updates best.

        past (n, p, 2): the places of an earlier search, of which one after the other is replaced.
        """
        import torch

        from fl.attacks.candidates import Candidates

        sets = []
        for i, update in enumerate(devices.update):
            known = Candidates(devices.net, weights[i], devices.waves[int(devices.network[i])], among[i])
            if past is None or self.places == 1:
                sets.append(known.best(update, self.places, self.starts, float(apart[i])))
                continue
            turn = torch.arange(self.starts) % self.places
            again = past[i].repeat(self.starts, 1, 1)
            for j in range(self.places):
                kept = past[i, torch.arange(self.places) != j]
                count = int((turn == j).sum())
                if count:
                    again[turn == j, j] = known.added(update, kept, count, float(apart[i]))
            sets.append(again)
        return torch.stack(sets)

    def _steps(self, view: View, learner: RsrpNet, rows: IntArray) -> IntArray:
        """Local steps (k,) of rows (k,) of the update; raises BadInput where they are too many to be repeated."""
        if view.count is None:
            raise ValueError(f"{self.label}: a view of rows has the number of samples behind each")
        batches = np.ones(len(rows), dtype=np.int64)
        if learner.batch_size != "all":
            batches = np.maximum(np.ceil(view.count[rows] / learner.batch_size), 1).astype(np.int64)
        steps = np.asarray(learner.local_epochs * batches)
        most, parameters = int(steps.max(initial=0)), view.update.shape[1]
        for found, bound, what, remedy in (
            (most, MOST_STEPS, "local steps of a UE", "take larger batches or fewer local_epochs"),
            (most * parameters, MOST_NUMBERS, "parameters x local steps of a UE", "take a smaller network"),
            (int(steps.sum()), MOST_STEPS_OF_ALL, "local steps of all attacked UEs", "set a smaller threat.targets"),
        ):
            if found > bound:
                raise BadInput(
                    f"learning.attacks: {self.label}: {found:,} {what} in a round, at most {bound:,} can be repeated; "
                    f"{remedy}, or leave the attack out"
                )
        return steps


def _training(learner: RsrpNet) -> "KnownTraining":
    """What the attacker knows of local training; raises BadInput for an optimiser that it cannot repeat."""
    from fl.attacks.simulation import KnownTraining

    optimiser = learner.optimiser
    if not isinstance(optimiser, Sgd | Momentum):
        raise BadInput(
            f"learning.attacks: simulated-inversion: steps of {optimiser.kind_name()!r} cannot be repeated; possible: "
            "sgd, momentum"
        )
    momentum = optimiser.momentum if isinstance(optimiser, Momentum) else 0.0
    scale = 1.0 if learner.labels == "standardised" else learner.public_rsrp_std_db
    return KnownTraining(learner.learning_rate, momentum, learner.proximal, scale, learner.step_limit == "polyak")


def _devices(view: View, learner: RsrpNet, rows: IntArray, steps: IntArray) -> "Devices":
    """Rows (k,) of the view as tensors."""
    import torch

    from fl.attacks.gradient_matching import Waves
    from fl.attacks.simulation import Devices

    vectors, scale = (torch.from_numpy(view.model_before.constants[name]) for name in ("wave_vectors", "scale_m"))
    return Devices(
        net=learner.net,
        weights=torch.from_numpy(view.model_before.parameters),
        waves=Waves.of(vectors[0], scale).per_z,
        network=torch.from_numpy(view.source_model[rows]),
        update=torch.from_numpy(view.update[rows]),
        steps=torch.from_numpy(steps),
    )
