"""The curation slot: processing of a UE's data of the round before training."""

from abc import abstractmethod
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.linalg import norm
from pydantic import Field

from fl.types import Curated, Local, MetricSpend, RoundContext, State
from netsim.columns import split_blocks
from netsim.geometry import compute_ways
from netsim.part import Count, Named, OneOf, Positive, Probability, Share
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray, Ints

# what a study offers until anything but learning depends on true places
UNTOUCHED = "untouched places"


class Curation(Named):
    """One step of a chain on the local data of all UEs; a step that adds noise spends privacy in
    its own unit.
    """

    role = "curation"
    kind: str = ""
    by_place: ClassVar = False
    """whether the selection or the change of a record depends on the positions of the UE's
    records"""

    @property
    def displacement_per_m(self) -> float | None:
        """epsilon of the planar Laplace noise that it adds to places, a public setting; None: it
        adds none.
        """
        return None

    def start(self, n_ue: int) -> State:
        """The first state; None for a step without memory."""
        return None

    @abstractmethod
    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        """The curated data of all devices, with the same rows; they may become empty."""


class RandomBatch(Curation, kind="random"):
    """Keeps `num` samples of each UE, drawn uniformly without replacement (all, if it has
    fewer).
    """

    num: int = Field(ge=1)
    """number of samples kept per UE and round"""

    reference = "control of Bakopoulou et al., Location Leakage in Federated Signal Maps"
    example = {"kind": "random", "num": 5}

    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        keep = np.zeros(len(local.x), bool)
        for row, owner in enumerate(local.row.tolist()):
            order = np.argsort(rng.draw_keys("pick", owner, local.count[row]), kind="stable")
            keep[local.ptr[row] + order[: self.num]] = True
        return Curated(local.keep(keep), state)


class ClusterBatch(Curation):
    """Keeps samples of the DBSCAN clusters of a UE's positions; `choose_samples` of the
    subclass names them.

    A row without any cluster keeps one random sample and counts as `fallback`.
    """

    eps_m: Positive = 50.0
    """eps of DBSCAN: samples at most this far apart are neighbours, m"""
    min_samples: Count = 5
    """min_samples of DBSCAN: number of neighbours, the sample included, of a core sample"""

    by_place = True
    needs = {"positions": "it works on places; these data have none"}

    @abstractmethod
    def choose_samples(
        self, position_m: FloatArray, cluster: IntArray, mean_m: FloatArray, lot: FloatArray
    ) -> IntArray:
        """Indices of samples at positions (n, 2), of clusters (n,) with means (k, 2), -1 for none;
        lot (n,) uniform.
        """

    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        from fl.dbscan import cluster_by_density  # compiled: not for readers of scenarios

        keep = np.zeros(len(local.x), bool)
        clusters, noise = np.zeros((2, len(local.ue)), int)
        owner = local.row.tolist()
        for row in np.flatnonzero(local.count):
            start, stop = local.ptr[row : row + 2]
            position_m = local.x[start:stop]
            cluster = cluster_by_density(position_m, self.eps_m, self.min_samples)
            clusters[row] = cluster.max() + 1
            noise[row] = (cluster < 0).sum()
            if clusters[row] == 0:
                lot = rng.draw_keys("one", owner[row], len(cluster))
                keep[start + lot.argmin()] = True
                continue
            mean_m = np.stack([position_m[cluster == c].mean(axis=0) for c in range(clusters[row])])
            lot = rng.draw_keys("pick", owner[row], len(cluster))
            keep[start + self.choose_samples(position_m, cluster, mean_m, lot)] = True
        fallback = (local.count > 0) & (clusters == 0)
        return Curated(local.keep(keep), state, clusters=clusters, noise=noise, fallback=fallback)


class DiverseBatch(ClusterBatch, kind="diverse-batch"):
    """Keeps, of each DBSCAN cluster of positions, the sample nearest to the mean (of several the
    first).

    Long stays then have the same weight as short ones, and the mean of the kept samples differs
    from that of the measured ones. A row without any cluster keeps one random sample and counts as
    `fallback`.

    The step selects true samples and adds no noise, so there is no privacy guarantee. If `eps_m` is
    too large, all clusters merge, and the one remaining sample is the nearest to the mean, which
    leaks most. The same number of random samples (`random`) has much of the effect.
    """

    reference = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Diverse Batch"

    def choose_samples(
        self, position_m: FloatArray, cluster: IntArray, mean_m: FloatArray, lot: FloatArray
    ) -> IntArray:
        """The sample of each cluster that is nearest to the cluster's mean."""
        away_m = norm(position_m - mean_m[cluster], axis=1)
        order = np.lexsort((away_m, cluster))
        kinds, first = np.unique(cluster[order], return_index=True)
        return order[first[kinds >= 0]]


class FarthestBatch(ClusterBatch, kind="farthest-batch"):
    """Keeps `num` samples of each UE from the DBSCAN clusters farthest from the mean of its data of
    the round.

    Clusters in order of decreasing distance from their mean to the mean of all samples, noise
    included; in a cluster samples in random order. If all clusters together have fewer than `num`
    samples, all of those are kept; a row without any cluster keeps one random sample and counts as
    `fallback`.

    The step selects true samples and adds no noise, so there is no privacy guarantee. It moves an
    estimate of the mean towards another true place: between home and work towards one of the two.
    Compare it with `random`.
    """

    num: int = Field(ge=1)
    """number of samples kept per UE and round"""

    reference = "Bakopoulou et al., Location Leakage in Federated Signal Maps, Farthest Batch"
    example = {"kind": "farthest-batch", "num": 5}

    def choose_samples(
        self, position_m: FloatArray, cluster: IntArray, mean_m: FloatArray, lot: FloatArray
    ) -> IntArray:
        away_m = norm(mean_m - position_m.mean(axis=0), axis=1)
        rank = np.argsort(np.argsort(-away_m, kind="stable"))
        member = np.flatnonzero(cluster >= 0)
        order = np.lexsort((lot[member], rank[cluster[member]]))
        return member[order[: self.num]]


class GeoIndistinguishable(Curation, kind="geo-indistinguishable"):
    r"""Adds planar Laplace noise to every position, independently of all others.

    Density (epsilon^2 / 2 pi) e^(-epsilon |noise|): the radius is Gamma(2, 1 / epsilon_per_m), 2 /
    epsilon_per_m metres in the mean, the angle uniform.

    One location: for two true places d metres apart the probabilities of any output differ by at
    most a factor e^(epsilon_per_m d), so places up to about 1 / epsilon_per_m apart are hard to
    distinguish. All locations of a UE: displaced by d_1, d_2, ... metres, the factor is
    e^(epsilon_per_m sum d_i); the ledger adds epsilon_per_m for each. The guarantee is per
    location, not per user: the error of the mean of n noisy positions is smaller by sqrt(n).

    It covers positions only. Labels, times and the number of samples do not change, and a label
    (RSRP) measured at the true place depends on it. After a step that selects samples by position
    it would not cover the selection, so such a chain is refused. It holds for real numbers;
    rounding to doubles is not analysed.
    """

    epsilon_per_m: float = Field(ge=1e-9, le=1e9)
    """privacy level of one location, per metre"""

    reference = (
        "Andrés, Bordenabe, Chatzikokolakis, Palamidessi, Geo-Indistinguishability, CCS 2013"
    )
    example = {"kind": "geo-indistinguishable", "epsilon_per_m": 0.01}
    needs = {
        "positions": "it works on places; these data have none",
        UNTOUCHED: (
            "what is learnt from depends on the true places, and its epsilon does not cover "
            "that; put it first, "
            "without availability at-home, withholding home-zone or data.hold_out_by: block"
        ),
    }
    offers = frozenset({"location spend"})

    @property
    def displacement_per_m(self) -> float:
        return self.epsilon_per_m

    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        row = local.row_of_sample
        owner = local.row[row]
        item = np.arange(len(row)) - local.ptr[row]
        x = local.x + draw_planar_laplace(self.epsilon_per_m, owner, item, rng)
        epsilon_per_m = np.full(len(local.ue), self.epsilon_per_m)
        spend = MetricSpend(self.label, local.ue, local.model, local.count, epsilon_per_m)
        return Curated(replace(local, x=x), state, [spend])


def draw_planar_laplace(
    epsilon_per_m: float, owner: IntArray, item: IntArray, rng: Rng
) -> FloatArray:
    """Displacements in metres (n, 2), one for each owner and item [Andrés 2013, Sec. 4.1]."""
    radius_m = rng.exponential("radius", owner, (2,), item).sum(axis=1) / epsilon_per_m
    angle = 2 * np.pi * rng.uniform("angle", owner, (), item)
    return radius_m[:, None] * compute_ways(angle)


if TYPE_CHECKING:
    from torch import Tensor

_NOISE = 2  # random numbers that the generator is given with each position
_ADVERSARY_STEPS = 2  # for each of the generator
_ROWS = 512  # devices trained at once
_SMALLEST_M = 1.0  # scale of an axis along which a device did not move


class Gan(Curation, kind="gan"):
    """Displaces every position with a generator that is trained against an adversary on the UE.

    On each UE, from its own data of the round: x' = x + G(x, noise), an adversary A predicts x from
    x', and

        min_G  rho E|x' - x|^2 - (1 - rho) min(E|A(x') - x|^2, cap),    min_A  E|A(x') - x|^2,

    with positions standardised by the UE's own mean and deviation (at least 1 m) of each axis. A
    takes two steps for each step of G; both have one hidden layer (tanh) and are trained with Adam.
    A smaller `rho` gives larger displacements, with a sharp transition: for a commuter about 10 m
    at 0.5 and 400 m at 0.4.

    There is no privacy guarantee and no spend: another adversary that knows the generator or
    averages may do better. The protection is weak, because displacements have all directions and
    the mean hardly changes. Labels, times and the number of samples do not change.
    """

    rho: Probability = 0.2
    """weight of small displacements; 1 - rho is the weight of the adversary's error"""
    cap: Positive = 4.0
    """upper limit of the adversary's squared error in the loss (an adversary without information
    has 2)"""
    hidden: int = Field(32, ge=1, le=4096)
    """hidden units of each network"""
    steps: int = Field(500, ge=1, le=100_000)
    """training steps of the generator"""
    batch_size: int = Field(128, ge=1, le=65_536)
    """samples of a training step, drawn with replacement"""
    learning_rate: Share = 1e-3
    """learning rate of Adam for the generator"""
    adversary_learning_rate: Share = 3e-3
    """learning rate of Adam for the adversary"""

    reference = "Bakopoulou et al., Location Leakage in Federated Signal Maps, GAN baseline"
    example = {"kind": "gan", "steps": 20}
    by_place = True
    needs = {"positions": "it works on places; these data have none"}

    def apply(self, local: Local, facts: RoundContext, state: State, rng: Rng) -> Curated:
        x = local.x[:0]
        rows = np.flatnonzero(local.count)
        pieces = np.split(local.x, local.ptr[rows[1:]])
        for block in split_blocks(len(rows), _ROWS):
            moved = self._displace(pieces[block], local.row[rows[block]], rng)
            x = np.concatenate([x, *moved])
        return Curated(replace(local, x=x), state)

    def _displace(self, pieces: list[FloatArray], owner: IntArray, rng: Rng) -> list[FloatArray]:
        """Each device's positions (count, 2), moved. Networks are stacked (k, ...) and do not touch
        each other.
        """
        import torch

        mean = [p.mean(axis=0) for p in pieces]
        scale = [np.maximum(p.std(axis=0), _SMALLEST_M) for p in pieces]
        z = [(p - m) / s for p, m, s in zip(pieces, mean, scale, strict=True)]
        count = np.array([len(p) for p in z])
        first = np.cumsum(count) - count
        flat = torch.from_numpy(np.concatenate(z))
        generator = _draw_network("generator", (2 + _NOISE, self.hidden, 2), owner, rng)
        adversary = _draw_network("adversary", (2, self.hidden, 2), owner, rng)
        improve = torch.optim.Adam(generator, self.learning_rate, fused=True)
        predict = torch.optim.Adam(adversary, self.adversary_learning_rate, fused=True)
        turns = (1 + _ADVERSARY_STEPS, self.batch_size)
        for step in range(self.steps):
            unit = rng.uniform("batch", owner, turns, step) * count[:, None, None]
            index = torch.from_numpy(first[:, None, None] + unit.astype(int))
            noise = torch.from_numpy(rng.normal("noise", owner, (*turns, _NOISE), step))
            for turn in range(1, turns[0]):
                seen = flat[index[:, turn]]
                with torch.no_grad():
                    shown = seen + _run_network(generator, seen, noise[:, turn])
                predict.zero_grad()
                torch.autograd.backward(_measure_error(_run_network(adversary, shown), seen).sum())
                predict.step()
            x = flat[index[:, 0]]
            shown = x + _run_network(generator, x, noise[:, 0])
            misled = _measure_error(_run_network(adversary, shown), x).clamp(max=self.cap)
            improve.zero_grad()
            loss = self.rho * _measure_error(shown, x) - (1 - self.rho) * misled
            torch.autograd.backward(loss.sum())
            improve.step()
        moved = []
        for i, p in enumerate(pieces):
            noise = torch.from_numpy(rng.normal("moved", owner[i : i + 1], (len(p), _NOISE)))
            network = [w[i : i + 1] for w in generator]
            with torch.no_grad():
                shift = _run_network(network, torch.from_numpy(z[i][None]), noise)[0]
            moved.append(p + scale[i] * shift.numpy())
        return moved


def _draw_network(purpose: str, sizes: Ints, owner: IntArray, rng: Rng) -> "list[Tensor]":
    """Glorot-uniform weights and zero biases, one network an owner: [W (k, in, out), b (k, 1, out),
    ...].
    """
    import torch

    layers = []
    for i, (a, b) in enumerate(pairwise(sizes)):
        unit = rng.uniform(purpose, owner, (a, b), i)
        weight = torch.from_numpy((2 * unit - 1) * np.sqrt(6 / (a + b)))
        bias = torch.zeros(len(owner), 1, b, dtype=torch.float64)
        layers += [weight.requires_grad_(), bias.requires_grad_()]
    return layers


def _run_network(network: "list[Tensor]", x: "Tensor", noise: "Tensor | None" = None) -> "Tensor":
    """The networks' outputs (k, B, 2) for inputs x (k, B, 2), with noise beside them."""
    import torch

    if noise is not None:
        x = torch.cat([x, noise], dim=2)
    w1, b1, w2, b2 = network
    hidden = torch.tanh(torch.baddbmm(b1, x, w1))
    return torch.baddbmm(b2, hidden, w2)


def _measure_error(guess: "Tensor", truth: "Tensor") -> "Tensor":
    """Mean squared distance of each device (k,)."""
    return ((guess - truth) ** 2).sum(dim=2).mean(dim=1)


CURATIONS = OneOf("curation", RandomBatch, DiverseBatch, FarthestBatch, GeoIndistinguishable, Gan)
