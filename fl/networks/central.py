"""Training of one network for each model in one place, on the samples of all devices together, with
Adam.
"""

import numpy as np

from fl.networks.mlp import Mlp
from fl.networks.sgd_regression import SgdSettings, train_regression
from fl.optimisers import Adam
from fl.types import Local, compute_bounds
from netsim.rng import Rng
from netsim.units import FloatArray, IntArray

SETTINGS = SgdSettings(1e-3, 64, 20, 0.0, optimiser=Adam(), precision=32)
"""learning rate, samples of a batch, passes over all samples; decays of Adam are 0.9 and 0.999"""


def train_centrally(
    net: Mlp,
    start: FloatArray,
    model_of: IntArray,
    z: FloatArray,
    y: FloatArray,
    settings: SgdSettings,
    rng: Rng,
) -> FloatArray:
    """Parameters (n_model, d) after training from `start`, each on its samples: inputs z (N, p),
    targets y (N,).

    It is local training of a device for each model that holds all samples of it; a model without
    samples stays as it is. `SETTINGS` are in single precision, which is faster and as good [Kingma
    and Ba 2015, Algorithm 1].
    """
    everything = gather_samples(len(start), model_of, z, y)
    return start + train_regression(net, start, everything, settings, rng).values


def gather_samples(n_model: int, model_of: IntArray, x: FloatArray, y: FloatArray) -> Local:
    """Samples (N,) as those of one device for each model."""
    order = np.argsort(model_of, kind="stable")
    model = np.arange(n_model)
    ptr = compute_bounds(np.bincount(model_of, minlength=n_model))
    return Local(np.zeros_like(model), model, ptr, x[order], y[order], np.zeros(len(order)))
