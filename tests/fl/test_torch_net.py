"""The torch learner against a plain loop over torch's own optimisers, and what it refuses."""

import dataclasses
import re

import numpy as np
import pytest
import torch
from numpy.linalg import norm
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, mark, raises
from torch import nn

from fl.learners.torch_net import TorchNet
from fl.networks.stacked import LOSSES
from fl.optimisers import Adam, Momentum, Sgd
from fl.types import HeldOut, Local, Public, SampleFormat
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams

RNG = Streams(0).derive_rng("learner")
PLACES = Public(Area(0, 0, 500, 400), 1)
COLOUR = SampleFormat((3, 12, 12), 4, 255.0)
NUMBERS = SampleFormat((5,), 0, 2.0)
HEAD = "import torch\nfrom torch import nn\n"

NETS = (
    HEAD
    + """
class Mlp(nn.Sequential):
    def __init__(self, hidden=6, dropout=0.0):
        super().__init__(nn.Linear(2, hidden), nn.ELU(), nn.Dropout(dropout), nn.Linear(hidden, 1), nn.Flatten(0))

class Norm(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(2, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 1), nn.Flatten(0))

class BatchNorm(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(2, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1), nn.Flatten(0))

class Gru(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside, self.gru, self.out = nn.Linear(2, 16), nn.GRU(2, 5, batch_first=True), nn.Linear(5, 1)
    def forward(self, x):
        return self.out(self.gru(self.inside(x).reshape(-1, 8, 2))[0][:, -1]).squeeze(-1)

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inside = nn.Linear(2, 32)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.out = nn.Linear(8, 1)
    def forward(self, x):
        return self.out(self.block(self.inside(x).reshape(-1, 4, 8)).mean(1)).squeeze(-1)

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.b = nn.Linear(2, 2)
        self.b.weight = self.a.weight
        self.scale = nn.Parameter(torch.ones(()), requires_grad=False)
    def forward(self, x):
        return self.scale * self.b(torch.tanh(self.a(x))).sum(-1)

class Cnn(nn.Sequential):
    def __init__(self, shape, classes, norm=False):
        middle = nn.BatchNorm2d(4) if norm else nn.Identity()
        super().__init__(nn.Conv2d(shape[0], 4, 3), middle, nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, classes))

def weigh(outputs, labels):
    return torch.nn.functional.huber_loss(outputs, labels, reduction="none")
"""
)


@pytest.fixture
def nets(tmp_path):
    """Learner of a class in a file."""
    (tmp_path / "nets.py").write_text(NETS)
    return lambda name, **keys: TorchNet(module=f"{tmp_path}/nets.py:{name}", **keys)


def draw_data(counts, samples=None):
    """Random samples of devices."""
    g = np.random.default_rng(7)
    n = sum(counts)
    if samples is None:
        x, y = g.uniform(0, 400, (n, 2)), g.normal(-1, 1, n)
    elif samples.classes:
        x = g.integers(0, 256, (n, int(np.prod(samples.shape))), np.uint8)
        y = g.integers(0, samples.classes, n).astype(float)
    else:
        x, y = g.normal(size=(n, 5)), g.normal(size=n)
    ue = np.arange(len(counts))
    return Local(ue, ue * 0, np.concatenate([[0], np.cumsum(counts)]), x, y, np.zeros(n))


def make_optimiser(learner, parameters):
    rate = learner.learning_rate
    if learner.optimiser.kind == "adam":
        return torch.optim.Adam(parameters, lr=rate, weight_decay=learner.weight_decay)
    momentum = getattr(learner.optimiser, "momentum", 0.0)
    return torch.optim.SGD(
        parameters, lr=rate, momentum=momentum, weight_decay=learner.weight_decay
    )


def train_plainly(learner, model, data):
    """Rows (n, d) of a loop: a module, an optimiser and batches of each device."""
    net = learner.build_net(model)
    number = torch.float64 if learner.precision == 64 else torch.float32
    z, target = learner._prepare_samples(model, data.model[data.row_of_sample], data.x, data.y)
    x = torch.from_numpy(z).to(number).view(-1, *net.samples.shape) / net.samples.largest
    y = torch.from_numpy(target)
    y = y.long() if net.samples.classes else y.to(number)
    rows = []
    for i, n in enumerate(data.count):
        module = net._make().to(number).train()
        parameters = [p for p in module.parameters() if p.requires_grad]
        start = torch.from_numpy(model.parameters[0])
        for p, piece in zip(
            parameters, torch.split(start, [p.numel() for p in parameters]), strict=True
        ):
            p.data = piece.to(number).view(p.shape).clone()
        before = [p.detach().clone() for p in parameters]
        optimiser = make_optimiser(learner, parameters)
        size = learner.compute_batch_sizes(data.count)[i]
        for epoch in range(learner.local_epochs):
            order = np.arange(n)
            if n > size:
                order = RNG.draw_orders(f"order{epoch}m", data.row[[i]], data.count[[i]])
            for batch in np.split(order, range(size, n, size)):
                picked = torch.from_numpy(data.ptr[i] + batch)
                optimiser.zero_grad()
                net.loss(module(x[picked]), y[picked]).mean().backward()
                for p, w in zip(parameters, before, strict=True):
                    p.grad += learner.proximal * (p.detach() - w)
                optimiser.step()
        moved = [(p.detach() - w).flatten() for p, w in zip(parameters, before, strict=True)]
        rows.append(torch.cat(moved).double().numpy())
    return np.array(rows)


def measure_difference(learner, data, samples=None):
    model = learner.init(dataclasses.replace(PLACES, samples=samples), RNG)
    found = learner.train_locally(model, "all", data, RNG).values
    expected = train_plainly(learner, model, data)
    return (norm(found - expected, axis=1) / norm(expected, axis=1)).max()


COUNTS = [13, 5, 31, 8]
BOUNDS = {(64, "sgd"): 1e-12, (64, "adam"): 1e-12, (32, "sgd"): 3e-5, (32, "adam"): 3e-4}


class TestAgainstALoop:
    @mark.parametrize("bits", [32, 64])
    @mark.parametrize("optimiser", [Sgd(), Momentum(), Adam()])
    @mark.parametrize("keys", [{}, {"proximal": 0.3, "weight_decay": 0.1}])
    def test_of_optimisers(self, nets, bits, optimiser, keys):
        keys = {"batch_size": 4, "local_epochs": 2, "labels": "standardised", **keys}
        learner = nets("Mlp", optimiser=optimiser, precision=bits, **keys)
        bound = BOUNDS[bits, "adam" if optimiser.kind == "adam" else "sgd"]
        assert measure_difference(learner, draw_data(COUNTS)) < bound

    @mark.parametrize(
        "name, is_stacked",
        [
            ("Norm", True),
            ("BatchNorm", False),
            ("Gru", False),
            ("Attention", False),
            ("Tied", True),
        ],
    )
    def test_of_modules(self, nets, name, is_stacked):
        learner = nets(name, batch_share=0.5, precision=64)
        assert measure_difference(learner, draw_data(COUNTS)) < 1e-12
        net = learner.prepare(None, True)._net
        assert (net.one_by_one == "") is is_stacked
        assert net.mixes is (name == "BatchNorm")

    @mark.parametrize("batch_norm", [False, True])
    def test_of_images_in_colour(self, nets, batch_norm):
        learner = nets("Cnn", arguments={"norm": batch_norm}, batch_size=6, precision=64)
        assert measure_difference(learner, draw_data(COUNTS, COLOUR), COLOUR) < 1e-12

    def test_of_a_loss_and_of_numbers(self, nets):
        learner = nets("Mlp", loss=nets("weigh").module, precision=64)
        assert measure_difference(learner, draw_data(COUNTS)) < 1e-12
        learner = TorchNet(module="perceptron", batch_size=4, precision=64)
        assert measure_difference(learner, draw_data(COUNTS, NUMBERS), NUMBERS) < 1e-12

    def test_an_offset_is_added_to_every_gradient(self, nets):
        learner = nets("Mlp", precision=64, learning_rate=0.1, local_epochs=3)
        model = learner.init(PLACES, RNG)
        data = draw_data(COUNTS)
        offset = np.random.default_rng(0).normal(size=(4, model.parameters.shape[1]))
        moved = learner.train(model, dataclasses.replace(data, y=data.y), RNG, offset).values
        one = nets("Mlp", precision=64, learning_rate=0.1)
        step = model.parameters[0] - 0.1 * offset
        plain = one.train(model, data, RNG).values
        assert_allclose(one.train(model, data, RNG, offset).values, plain - 0.1 * offset)
        assert norm(moved) > norm(step - model.parameters)


def test_a_device_alone_trains_as_with_others(nets):
    learner = nets("Mlp", batch_share=0.3, local_epochs=2, precision=64)
    model = learner.init(PLACES, RNG)
    data = draw_data([*COUNTS, 0])
    together = learner.train_locally(model, "all", data, RNG).values
    for i in range(5):
        alone = learner.train_locally(model, "all", data.select(np.array([i])), RNG).values[0]
        assert_allclose(together[i], alone, rtol=1e-9, atol=1e-14)
    assert not together[4].any()


def test_random_numbers_are_the_run_s_own(nets):
    learner = nets("Mlp", arguments={"dropout": 0.5}, local_epochs=2)
    model = learner.init(PLACES, RNG)
    data = draw_data(COUNTS)
    first = learner.train_locally(model, "all", data, RNG).values
    torch.manual_seed(99)
    assert_array_equal(first, learner.train_locally(model, "all", data, RNG).values)
    assert_array_equal(model.parameters, learner.init(PLACES, RNG).parameters)
    later = learner.train_locally(model, "all", data, Streams(0).derive_rng("learner", 2)).values
    assert np.abs(first - later).max() > 1e-6
    two = learner.init(dataclasses.replace(PLACES, n_model=2), RNG).parameters
    assert np.abs(two[0] - two[1]).min() > 0
    whole = nets("Mlp").train_locally(model, "all", data, RNG).values
    assert norm(first - whole) > 0.1 * norm(whole)


def test_records_have_their_own_losses_and_gradients(nets):
    learner = nets("Mlp", precision=64, learning_rate=1.0)
    model = learner.init(PLACES, RNG)
    data = draw_data([1] * 6)
    asked = model, data.model, data.x, data.y
    gradients = learner.compute_record_gradients(*asked)
    assert_allclose(gradients, -learner.train_locally(model, "all", data, RNG).values, rtol=1e-9)
    assert_allclose(learner.compute_record_gradient_norms(*asked), norm(gradients, axis=1))
    error = learner.predict_dbm(*asked[:3]) - data.y
    assert_allclose(learner.compute_record_losses(*asked), error**2)


def test_layers_are_read_from_updates(nets):
    """A step is the sum of outer products of a layer's inputs and deltas: it lies in their span."""
    learner = nets("Mlp", precision=64, learning_rate=1.0).prepare(None, True)
    assert {"biased first layer", "layer 1", "layer 2", "layers"} <= learner.offers
    model = learner.init(PLACES, RNG)
    data = draw_data([3])
    updates = learner.train_locally(model, "all", data, RNG).values
    for layer in (1, 2):
        inputs = learner.compute_layer_input(model, 0, data.x, layer)
        moved = learner.select_layer(updates, layer)[0]
        assert moved.shape == (inputs.shape[1], 6 if layer == 1 else 1)
        inside = inputs.T @ np.linalg.lstsq(inputs.T, moved, rcond=None)[0]
        assert_allclose(inside, moved, atol=1e-12)
    dw, db = learner.first_layer(updates)
    assert_array_equal(np.concatenate([dw[0].T, db]), learner.select_layer(updates, 1)[0])
    assert "record gradients" not in nets("BatchNorm").prepare(None, True).offers


def test_figures_of_positions_classes_and_numbers():
    def score(samples, **keys):
        learner = TorchNet(module="perceptron", precision=64, **keys)
        model = learner.init(dataclasses.replace(PLACES, samples=samples), RNG)
        data = draw_data([40], samples)
        none = np.zeros(40, int)
        y = data.y if samples else data.y - 95.0  # signals lie near their public mean
        held = HeldOut(none, none, data.x, y, none)
        better = learner.train_from_scratch(model, held, 100, RNG)
        return learner, better, held, learner.evaluate(model, held), learner.evaluate(better, held)

    learner, model, held, before, after = score(None)
    error = learner.predict_dbm(model, held.model, held.x) - held.y
    assert after["rmse_db"] == approx((error**2).mean() ** 0.5)
    assert after["rmse_db"] < before["rmse_db"]
    strongest = learner.predict_strongest_dbm(model, held.x, np.array([0]))
    assert_array_equal(strongest - held.y, error)
    *_, before, after = score(NUMBERS)
    assert list(after) == ["rmse"]
    assert after["rmse"] < before["rmse"]
    *_, before, after = score(COLOUR)
    assert after["accuracy_percent"] > before["accuracy_percent"]
    assert after["cross_entropy_nats"] < before["cross_entropy_nats"]


def test_gradients_are_clipped_sample_by_sample():
    learner = TorchNet(module="perceptron", sample_clip=0.1, learning_rate=1.0, precision=64)
    samples = dataclasses.replace(PLACES, samples=COLOUR)
    model = learner.init(samples, RNG)
    data = draw_data([7, 4], COLOUR)
    updates = learner.train_locally(model, "all", data, RNG)
    row = data.row_of_sample
    g = learner.compute_record_gradients(model, data.model[row], data.x, data.y)
    cut = g * np.minimum(1, 0.1 / norm(g, axis=1))[:, None]
    expected = [-cut[row == i].mean(axis=0) for i in range(2)]
    assert_allclose(updates.values, expected, rtol=1e-8, atol=1e-12)
    assert updates.bound.norm == approx(0.1 / 4)
    with raises(BadInput, match="no gradient belongs to one sample alone"):
        TorchNet(module="cnn", sample_clip=0.1).prepare(SampleFormat((1, 16, 16), 4, 255.0), True)


WRONG = {
    "return self.a(x)": r"returns the shape \[4, 1\].*nets.py:\d+; return \[4\], as out.squeeze\(-1\)",
    "return self.a(x)[:, 0].half()": "make tensors with x.dtype",
    "return self.a(x)[:, 0] / 0": "not finite",
    "raise KeyError('mine')": r"nets.py:7: its forward raised KeyError: 'mine'",
    "return self.a(x)[:, 0].detach()": "depends on no parameter",
    "self.n += 1; return self.a(x)[:, 0]": "changes its buffer n",
    "self.m = self.m + 1; return self.a(x)[:, 0] + self.m": "returns other numbers when called again",
}


@mark.parametrize("line", WRONG)
def test_wrong_modules_are_blamed_by_their_line(tmp_path, line):
    text = f"""{HEAD}class Net(nn.Module):
    def __init__(self): super().__init__(); self.a = nn.Linear(2, 1); self.m = 0; self.register_buffer("n", torch.zeros(1))

    def forward(self, x):
        {line}
"""
    (tmp_path / "nets.py").write_text(text)
    with raises(BadInput, match=WRONG[line]) as refused:
        TorchNet(module=f"{tmp_path}/nets.py:Net").prepare(None, True)
    assert len(refused.value.lines) == 1


@mark.parametrize(
    "text, reason",
    [
        ("class Other: pass", "defines no Net; it defines Other"),
        ("def Net(:", r"nets.py:3: .*; mend it"),
        ("class Net: pass", "let it make a torch.nn.Module"),
        ("class Net(nn.Module): pass", "has no parameters to train"),
        (
            "class Net(nn.Module):\n  def __init__(self): 1 / 0",
            r"nets.py:4: its construction raised Zero",
        ),
        ("import absent\nclass Net: pass", r"nets.py:3: its import raised ModuleNotFoundError"),
        ("import sys\nsys.exit(3)\nclass Net: pass", r"nets.py:4: its import raised SystemExit"),
        (
            "class Net(nn.LazyLinear):\n  def __init__(self): super().__init__(1)",
            "has a lazy parameter",
        ),
    ],
)
def test_wrong_files_are_blamed_by_their_line(tmp_path, text, reason):
    (tmp_path / "nets.py").write_text(HEAD + text)
    with raises(BadInput, match=reason):
        TorchNet(module=f"{tmp_path}/nets.py:Net").prepare(None, True)


def test_nan_later_is_blamed_unless_weights_have_diverged(tmp_path):
    text = f"{HEAD}class Net(nn.Linear):\n  def __init__(self): super().__init__(2, 1)\n"
    text += (
        "  def forward(self, x):\n    return super().forward(x)[:, 0] + torch.log(2 - x[:, 0])\n"
    )
    (tmp_path / "nets.py").write_text(text)
    learner = TorchNet(module=f"{tmp_path}/nets.py:Net")
    model = learner.init(PLACES, RNG)
    far = draw_data([3])
    learner.train_locally(model, "all", far, RNG)
    far.x[0] = 5000
    with raises(BadInput, match=r"returns NaN, see .*nets.py:5; mend it"):
        learner.train_locally(model, "all", far, RNG)
    huge = dataclasses.replace(model, parameters=model.parameters * 1e30)
    assert np.isnan(learner.train_locally(huge, "all", far, RNG).values).any()


def test_a_loss_is_one_number_of_each_sample(tmp_path):
    (tmp_path / "loss.py").write_text(
        "def mean(outputs, labels):\n  return ((outputs - labels) ** 2).mean()\n"
    )
    with raises(BadInput, match=r"learning\.learner\.loss: it returns the shape"):
        TorchNet(module="perceptron", loss=f"{tmp_path}/loss.py:mean").prepare(None, True)
    with raises(BadInput, match="mse does not fit to labels that are classes"):
        TorchNet(module="perceptron", loss="mse").prepare(COLOUR, True)


def test_a_check_runs_no_code_and_finds_the_name(tmp_path):
    mark_file = tmp_path / "ran"
    (tmp_path / "nets.py").write_text(f"open({str(mark_file)!r}, 'w')\nclass Net: pass\n")
    learner = TorchNet(module=f"{tmp_path}/nets.py:Net")
    assert learner.prepare(None, False).offers == learner.offers
    assert not mark_file.exists()
    with raises(BadInput, match=re.escape("no package has 'unknown'")):
        TorchNet(module="unknown").prepare(None, False)


def test_batches_are_stated_once():
    with raises(ValueError, match="leave one of them out"):
        TorchNet(module="cnn", batch_size=3, batch_share=0.1)
    assert TorchNet(module="cnn", batch_share=0.1).compute_batch_sizes(
        np.array([0, 1, 25])
    ).tolist() == [1, 1, 3]


def test_an_object_trains_from_its_weights_and_stays_as_it_is():
    module = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1), nn.Flatten(0))
    state = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    learner = TorchNet.from_module(module, learning_rate=0.1).prepare(None, True)
    model = learner.init(PLACES, RNG)
    expected = torch.cat([p.detach().flatten() for p in module.parameters()])
    assert_array_equal(model.parameters[0], expected.double().numpy())
    learner.train_locally(model, "all", draw_data(COUNTS), RNG)
    assert all(torch.equal(tensor, state[name]) for name, tensor in module.state_dict().items())


def test_losses_are_torch_s():
    out, y = torch.tensor([[1.0, 2.0]]), torch.tensor([1])
    assert LOSSES["cross-entropy"](out, y).item() == approx(np.log1p(np.exp(-1)))
