"""What the update of one image gives away: the image, read in closed form or found by a search.

The step of FedSGD on one image x is -learning_rate times the gradient of its loss. A unit h of a
fully connected first layer has z_h = w_h x + b_h, so dL/dw_h = (dL/dz_h) x and dL/db_h = dL/dz_h:
each row of weights, divided by its bias, is the image [Geiping et al. 2020]. Elsewhere an image is
searched for whose gradient is that of the update [Zhu et al. 2019], with the label read beforehand:
of the last layer's biases, the one of the true class alone has a negative gradient, which is its
probability - 1 [Zhao et al. 2020]. Both read directions alone, so that the learning rate and a clip
drop out.

Networks have their first weights; pixels are 0 to 1. `pytest -m slow -s
tests/studies/test_image_leakage.py` prints the tables of docs/studies/lapa.md.
"""

from copy import copy, deepcopy
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from local_data import make_local
from pytest import approx, fixture, mark
from torch import nn

from fl.data.images import load_collection
from fl.defenses.clip import Clip
from fl.defenses.gaussian import Gaussian
from fl.learners.torch_net import TorchNet
from fl.privacy.gaussian import compute_gaussian_epsilon
from fl.types import Bound, Public, RoundContext
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.results.statistics import (
    compute_median_interval,
    compute_percent_and_wilson_interval,
)

pytestmark = mark.slow

SEEDS = range(10, 16)  # of each its own image and network; searches were tuned on others
STARTS = 4
FOUND = 0.01  # mean squared error of a pixel
TOGETHER = 10  # images of a batch
CANDIDATES = 100
DRAWS = 10  # of the noise
# std of the noise in sensitivities, which are two clips
LEVELS = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0)
CLIP = Clip(norm=0.002)  # below the norm of every update here
PUBLIC = Public(Area(0, 0, 1, 1), 1)


@fixture(params=["digits", "MNIST"])
def images(request):
    """Name and samples of a collection."""
    if request.param == "digits":
        return request.param, load_collection(None)
    return request.param, load_collection(str(request.getfixturevalue("data_folder") / "mnist"))


@fixture
def mnist(data_folder):
    return load_collection(str(data_folder / "mnist"))


class Smooth(nn.Sequential):
    """Two convolutions with smooth activations, and the logits."""

    def __init__(self, shape, classes, activation):
        side, stride = (3, 1) if shape[1] < 16 else (5, 2)
        super().__init__(
            nn.Conv2d(shape[0], 6, side, stride, side // 2),
            getattr(nn, activation)(),
            nn.Conv2d(6, 6, side, 1, side // 2),
            getattr(nn, activation)(),
            nn.Flatten(),
            nn.Linear(6 * (shape[1] // stride) * (shape[2] // stride), classes),
        )


@cache
def make_smooth(activation):
    return TorchNet.from_module(Smooth, arguments={"activation": activation}, precision=64)


def make_bundled(module="perceptron", precision=64, **arguments):
    return TorchNet(module=module, arguments=arguments, precision=precision)


@dataclass
class Step:
    """Of one step: its learner and network, and updates of devices, each with its images.

    data : what the devices learn from. x (N, p) : pixels, 0 to 1.
    """

    learner: TorchNet
    model: object
    data: object
    updates: object

    @property
    def net(self):
        return self.learner.build_net(self.model)

    @property
    def x(self):
        return self.data.x / 255.0

    @property
    def gradient(self):
        """Mean gradient (d,) of the first device's images, from its update."""
        return -self.updates.values[0] / self.learner.learning_rate

    def defend(self, seed, *defenses):
        """Updates (n, d) behind defenses."""
        updates, rng = self.updates, Streams(seed).derive_rng("defense")
        for part in defenses:
            updates = part.protect(
                updates, self.data, RoundContext(1, 0.0, PUBLIC), part.start(len(updates.ue)), rng
            )[0]
        return updates.values

    def read_rows(self, update, layer=0):
        """Rows (units, inputs) of a layer's weights and its biases (units,) in an update (d,)."""
        arrays = self.net.select_layer(update[None], self.net.layers[layer])[0]
        return arrays[:-1].T, arrays[-1]


def take_step(samples, seed, learner, counts=(1,), repeats=1):
    """Of devices with so many images each; images and network are those of the seed. The first
    image belongs to as many devices as it repeats."""
    rows = np.random.default_rng(seed).permutation(len(samples))[: sum(counts)]
    rows = np.concatenate([rows[:1].repeat(repeats - 1), rows])
    rng = Streams(seed).derive_rng("learner")
    model = learner.init(Public(PUBLIC.area, 1, samples=samples.format), rng)
    counts = (1,) * (repeats - 1) + counts
    data = make_local(counts, np.asarray(samples.x[rows]), samples.y[rows])
    return Step(learner, model, data, learner.train_locally(model, "all", data, rng))


def read_image(rows, biases):
    """The reading (p,) of all units, each weighed by the square of its bias."""
    return biases @ rows / (biases @ biases)


def compare(a, b):
    """Mean squared errors of images (..., p)."""
    return np.square(a - b).mean(axis=-1)


def tell(name, *columns):
    print(f"| {name} | {' | '.join(columns)} |")


def tell_median(values):
    """Median and range, of six values its 95 % interval."""
    interval = compute_median_interval(np.array(values))
    return f"{np.median(values):.2g} ({interval.low:.2g} to {interval.high:.2g})"


def tell_share(hits, n):
    percent, low, high = compute_percent_and_wilson_interval(hits, n)
    return f"{percent:.0f} % ({low:.0f} to {high:.0f})"


# -- searching


def infer_label(gradient):
    """The class whose bias in the last layer has a negative gradient; no other has."""
    negative = np.flatnonzero(gradient[-10:] < 0)
    assert len(negative) == 1
    return int(negative[0])


def open_net(net):
    """The network with a pooling that can be differentiated twice."""
    opened = copy(net)
    opened.module = deepcopy(net.module)
    for name, part in opened.module.named_children():
        if type(part).__name__ == "MaxPooling":
            setattr(opened.module, name, nn.MaxPool2d(2))
    return opened


class Match:
    """Half the squared distance of two directions: of the gradient at an image, and the given.

    The label is read from the step's update without noise, to the attacker's favour.
    """

    def __init__(self, step, gradient):
        self.net = open_net(step.net)
        self.w = torch.from_numpy(step.model.parameters)
        self.shape = (1, 1, *self.net.samples.shape)
        self.goal = torch.from_numpy(gradient / np.linalg.norm(gradient))
        self.label = torch.tensor([[infer_label(step.gradient)]])
        assert self.label.item() == step.data.y[0]

    def measure(self, image):
        w = self.w.clone().requires_grad_()
        loss = self.net.compute_losses(w, image, self.label).sum()
        (g,) = torch.autograd.grad(loss, w, create_graph=True)
        return (g[0] / g.norm() - self.goal).square().sum() / 2

    def start(self, seed, start):
        pixels = np.random.default_rng([seed, start]).uniform(size=self.shape)
        return torch.from_numpy(pixels).requires_grad_()

    def search_smoothly(self, image, iterations=300):
        """By L-BFGS, with pixels cut to 0 to 1 in the end."""
        optimiser = torch.optim.LBFGS(
            [image],
            max_iter=iterations,
            history_size=50,
            tolerance_grad=1e-12,
            tolerance_change=1e-16,
            line_search_fn="strong_wolfe",
        )

        def close():
            distance = self.measure(image)
            (image.grad,) = torch.autograd.grad(distance, image)
            return distance.detach()

        optimiser.step(close)
        return image.detach().numpy().ravel().clip(0, 1)

    def search_by_signs(self, image, iterations=1500, variation=0.01):
        """By Adam on signs, with a cost of the total variation [Geiping et al. 2020]."""
        optimiser = torch.optim.Adam([image], lr=0.05)
        marks = [iterations * i // 8 for i in (3, 5, 7)]
        rates = torch.optim.lr_scheduler.MultiStepLR(optimiser, marks, 0.1)
        for _ in range(iterations):
            slopes = image.diff(dim=-1).abs().mean() + image.diff(dim=-2).abs().mean()
            (slope,) = torch.autograd.grad(self.measure(image) + variation * slopes, image)
            image.grad = slope.sign()
            optimiser.step()
            rates.step()
            with torch.no_grad():
                image.clamp_(0, 1)
        return image.detach().numpy().ravel()


def search(samples, learner, how="search_smoothly", starts=STARTS, **keys):
    """Mean squared errors (images, starts)."""
    errors = []
    for seed in SEEDS:
        step = take_step(samples, seed, learner)
        match = Match(step, step.gradient)
        found = [getattr(match, how)(match.start(seed, i), **keys) for i in range(starts)]
        errors.append(compare(np.array(found), step.x[0]))
    return np.array(errors)


def tell_search(name, errors):
    """Share of starts that find the image, as if each were one draw; median and range over images
    of the median over starts."""
    tell(name, tell_share((errors < FOUND).sum(), errors.size), tell_median(np.median(errors, 1)))


# -- tests


def test_the_update_of_a_perceptron_is_its_image(images):
    """Of every unit that is not silent; as blind guesses, another image and the mean one."""
    name, samples = images
    for precision, bound in ((64, 1e-9), (32, 1e-2)):
        largest = []
        for seed in SEEDS:
            step = take_step(samples, seed, make_bundled(precision=precision))
            rows, biases = step.read_rows(step.updates.values[0])
            live = biases != 0
            assert 0 < live.sum() < len(live)
            if precision == 64:
                assert rows[live] / biases[live, None] == approx(step.x.repeat(live.sum(), 0))
            largest.append(abs(read_image(rows, biases) - step.x[0]).max())
        tell(f"{name}, perceptron, {precision} bits: largest error", tell_median(largest))
        assert max(largest) < bound
    pixels = np.asarray(samples.x[:1600]) / 255.0
    others, mean = compare(pixels[:800], pixels[800:]), compare(pixels, pixels.mean(axis=0))
    tell(f"{name}, another; the mean image", f"{np.median(others):.2g}; {np.median(mean):.2g}")
    assert np.quantile(mean, 0.05) > FOUND


def test_a_batch_gives_mixtures_of_its_images(images):
    """Weighed by each image's share of the unit's bias: of a unit that only one image wakes, it is
    that image."""
    name, samples = images
    nearest, alone = [], []
    for seed in SEEDS:
        step = take_step(samples, seed, make_bundled(), (TOGETHER,))
        gradients = step.learner.compute_record_gradients(
            step.model, np.zeros(TOGETHER, int), step.data.x, step.data.y
        )
        share = np.array([step.read_rows(g)[1] for g in gradients])  # (images, units)
        rows, biases = step.read_rows(-step.updates.values[0])
        live = share.any(axis=0)
        read = rows[live] / biases[live, None]
        weight = share[:, live] / share[:, live].sum(axis=0)
        np.testing.assert_allclose(read, weight.T @ step.x, rtol=1e-6, atol=1e-8)
        error = compare(read[:, None], step.x).min(axis=1)
        nearest.append(np.median(error))
        alone.append(100 * (error < FOUND).mean())
        one = (share[:, live] != 0).sum(axis=0) == 1
        assert (error[one] < 1e-9).all()
    tell(f"{name}, batch of {TOGETHER}: error to its nearest image", tell_median(nearest))
    tell(f"{name}, batch of {TOGETHER}: units that read one image, %", tell_median(alone))
    assert min(nearest) > FOUND


@mark.parametrize("activation", ["Sigmoid", "Tanh"])
def test_a_search_finds_the_image_of_a_smooth_network(images, activation):
    name, samples = images
    errors = search(samples, make_smooth(activation))
    tell_search(f"{name}, smooth ({activation}), L-BFGS", errors)
    assert compute_percent_and_wilson_interval((errors < FOUND).sum(), errors.size)[1] > 80
    assert compute_median_interval(np.median(errors, 1)).high < FOUND / 100


def test_max_pooling_misleads_one_search_and_not_another(mnist):
    """Of our cnn, which has ReLU and max pooling, what its first full layer reads is read in closed
    form; L-BFGS, which asks for smoothness, finds no image, and signs of slopes do."""
    for norm in (False, True):
        learner = make_bundled("cnn", batch_norm=norm)
        for seed in SEEDS:
            step = take_step(mnist, seed, learner)
            name = step.net.layers[0]
            read = step.net.compute_layer_input(step.model.parameters[0], step.data.x, name)
            features = read_image(*step.read_rows(step.updates.values[0]))
            np.testing.assert_allclose(features, read[0], rtol=1e-6, atol=1e-9)
        word = f"MNIST, cnn {'with' if norm else 'without'} batch normalisation"
        smooth = search(mnist, learner, iterations=100)
        tell_search(f"{word}, L-BFGS", smooth)
        signs = search(mnist, learner, "search_by_signs", starts=1)
        tell_search(f"{word}, signs", signs)
        assert (smooth > FOUND).all()
        assert (np.median(smooth, 1) > 2 * signs[:, 0]).all()
        if not norm:
            assert compute_median_interval(signs[:, 0]).high < FOUND


def test_a_clip_hides_nothing(images):
    """The direction stays, and with it all that is read."""
    _, samples = images
    for seed in SEEDS:
        step = take_step(samples, seed, make_bundled())
        (clipped,) = step.defend(seed, CLIP)
        assert np.linalg.norm(clipped) == approx(CLIP.norm)
        assert np.linalg.norm(step.updates.values) > 2 * CLIP.norm
        assert read_image(*step.read_rows(clipped)) == approx(step.x[0], abs=1e-9)
        step = take_step(samples, seed, make_smooth("Sigmoid"))
        (clipped,) = step.defend(seed, CLIP)
        match = Match(step, -clipped)
        found = match.search_smoothly(match.start(seed, 0))
        assert compare(found, step.x[0]) < FOUND / 100


def test_noise_hides_as_predicted(images):
    """Noise s on each number of an update moves a pixel x of the reading of all units by s sqrt(1 +
    x^2) / |b|, b their biases in the update, while s is small beside |b|.

    Candidates are told apart far longer: by the nearest of their clipped updates.
    """
    name, samples = images
    perceptrons = [take_step(samples, s, make_bundled(), repeats=DRAWS) for s in SEEDS]
    candidates = [
        take_step(samples, s, make_bundled(), (1,) * CANDIDATES).defend(s, CLIP) for s in SEEDS
    ]
    smooth = [take_step(samples, seed, make_smooth("Sigmoid")) for seed in SEEDS]
    rows = []
    for z in LEVELS:
        noise = Gaussian(noise_multiplier=z)
        std = noise.compute_std(Bound(CLIP.norm))
        assert std == approx(2 * z * CLIP.norm)
        law, errors, found, hits = [], [], [], []
        for seed, step, known in zip(SEEDS, perceptrons, candidates, strict=True):
            x = step.x[0]
            size = np.linalg.norm(step.read_rows(known[0])[1])
            law.append(std * np.sqrt(1 + np.square(x).mean()) / size)
            noisy = step.defend(seed, CLIP, noise)
            read = np.array([read_image(*step.read_rows(update)) for update in noisy])
            errors.append([compare(read, x), compare(read.clip(0, 1), x)])
            distance = np.square(known - noisy[:, None]).sum(axis=-1)
            hits.append(distance.argmin(axis=1) == 0)
        for seed, step in zip(SEEDS, smooth, strict=True):
            match = Match(step, -step.defend(seed, CLIP, noise)[0])
            image = match.search_smoothly(match.start(seed, 0), 100)
            found.append(compare(image, step.x[0]))
        raw, cut = np.mean(errors, axis=2).T
        if max(law) < 0.03:
            assert np.sqrt(raw) == approx(law, rel=0.2)
            assert np.mean(np.sqrt(raw) / law) == approx(1, abs=0.05)
        rows.append([np.median(raw), np.median(cut), np.median(found), np.sum(hits)])
        epsilon = compute_gaussian_epsilon(1e-5, 1 / z)
        tell(
            f"{name}, z {z:g}, epsilon {epsilon:.3g}",
            f"{np.median(law):.2g}",
            f"{np.median(np.sqrt(raw)):.2g}",
            tell_median(cut),
            tell_median(found),
            tell_share(np.sum(hits), np.size(hits)),
        )
    raw, cut, found, hits = np.array(rows).T
    assert (np.diff(raw)[:4] > 0).all() and (np.diff(cut) > 0).all()
    assert cut[0] < FOUND < cut[-2] and found[0] < FOUND < found[-2]
    assert (hits[:4] == len(SEEDS) * DRAWS).all()
    assert compute_percent_and_wilson_interval(int(hits[-2]), len(SEEDS) * DRAWS)[1] > 50
    assert compute_percent_and_wilson_interval(int(hits[-1]), len(SEEDS) * DRAWS)[2] < 20
