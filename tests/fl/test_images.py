"""Images: files read strictly, partitions, classifiers against plain autograd, and runs without
places."""

import dataclasses
import gzip
import re
import struct
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional

from fl.data.images import Dirichlet, Images, LabelSkew, collection, read_idx
from fl.learners.image_net import ImageNet
from fl.networks.classifiers import Cnn, Perceptron
from fl.networks.pooling import max_pooled
from fl.networks.sgd_classification import Classifier, DeviceSteps, _cut
from fl.types import HeldOut, ImageFormat, Local, Public
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.ues import Observations
from scenarios.app.cli.commands import main
from scenarios.app.report.report import report
from scenarios.app.result import run
from scenarios.app.results.folder import read_table
from scenarios.app.results.summary_keys import declaration

RNG = Streams(4).at("data")
DIGITS = ImageFormat(8, 8, 10)
CPU = torch.device("cpu")


def idx(values):
    """The bytes of an IDX file."""
    values = np.asarray(values, dtype=np.uint8)
    return (
        struct.pack(f">{1 + values.ndim}I", 0x0800 + values.ndim, *values.shape) + values.tobytes()
    )


def folder_of(path, side=16):
    """A folder with random images of three classes: 60 to train, and 30 held out."""
    path.mkdir()
    rng = np.random.default_rng(0)
    for name, count in (("train", 60), ("t10k", 30)):
        images = gzip.compress(idx(rng.integers(0, 256, (count, side, side))))
        (path / f"{name}-images-idx3-ubyte.gz").write_bytes(images)
        (path / f"{name}-labels-idx1-ubyte.gz").write_bytes(
            gzip.compress(idx(np.arange(count) % 3))
        )
    return path


# -- files


@pytest.mark.parametrize("end", ["", ".gz"])
def test_an_idx_file_gives_back_its_bytes(tmp_path, end):
    values = np.random.default_rng(1).integers(0, 256, (5, 4, 3), dtype=np.uint8)
    path = tmp_path / f"some-images-idx3-ubyte{end}"
    path.write_bytes(gzip.compress(idx(values)) if end else idx(values))
    np.testing.assert_array_equal(read_idx(path, 3), values)


WHOLE = gzip.compress(idx(np.zeros((4, 20, 20))), mtime=0)
AGAIN = "fetch the file again"
BODIES = {
    "empty": (b"", "damaged"),
    "header cut": (idx([[[1]]])[:9], "damaged"),
    "labels": (idx([1, 2, 3]), "magic number 2049, expected 2051"),
    "cut": (idx([[[1, 2]]])[:-1], "damaged"),
    "longer": (idx([[[1, 2]]]) + b"x", "damaged"),
    "huge": (struct.pack(">4I", 2051, 2**31, 2**31, 2**31), "damaged"),
    "no images": (struct.pack(">4I", 2051, 0, 28, 28), "damaged"),
    "gzip cut": (WHOLE[:-12], AGAIN),
    "gzip damaged": (WHOLE[:20] + b"\0" * 9 + WHOLE[29:], AGAIN),
    "no gzip": (b"no gzip", AGAIN),
}


@pytest.mark.parametrize("case", BODIES)  # by name: bytes as names would differ between workers
def test_a_damaged_file_is_refused_in_one_line(tmp_path, case):
    body, says = BODIES[case]
    path = tmp_path / ("train-images-idx3-ubyte" + ".gz" * (says == AGAIN))
    path.write_bytes(body)
    with pytest.raises(BadInput, match=says) as caught:
        read_idx(path, 3)
    assert len(caught.value.lines) == 1
    assert str(path) in caught.value.lines[0]


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    good = folder_of(tmp_path / "good")
    assert collection(str(good)).format == ImageFormat(16, 16, 3)
    with pytest.raises(BadInput, match="no such folder"):
        collection(str(tmp_path / "none"))
    lacks = folder_of(tmp_path / "lacks")
    (lacks / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(BadInput, match="holds no t10k-labels"):
        collection(str(lacks))
    mixed = folder_of(tmp_path / "mixed")
    (mixed / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros(59))))
    with pytest.raises(BadInput, match="60 train images and 59 labels"):
        collection(str(mixed))
    other = folder_of(tmp_path / "other", side=8)
    for name in ("images-idx3", "labels-idx1"):
        (other / f"t10k-{name}-ubyte.gz").write_bytes((good / f"t10k-{name}-ubyte.gz").read_bytes())
    with pytest.raises(BadInput, match="differ in size"):
        collection(str(other))


def test_the_digits_are_split_class_by_class():
    digits = collection(None)
    assert len(digits.train) + len(digits.held_out) == 1797
    assert digits.train.max() == 255
    assert 355 <= len(digits.held_out) <= 359
    share = np.bincount(digits.held_out_label) / np.bincount(digits.label)
    assert (np.abs(share - 0.25) < 0.02).all()


def test_mnist_is_what_it_was_published_as(data_folder):
    mnist = collection(str(data_folder / "mnist"))
    assert mnist.train.shape == (60_000, 784)
    assert mnist.held_out.shape == (10_000, 784)
    assert mnist.per_class.tolist() == [
        5923,
        6742,
        5958,
        6131,
        5842,
        5421,
        5918,
        6265,
        5851,
        5949,
    ]  # LeCun's counts
    assert mnist.label[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]


# -- partitions


def hands(data, n_ue, rng=RNG):
    """The images (an index of each) and the number of each class (n_ue, classes) of every
    device."""
    state = data.start(n_ue, rng)
    label = collection(None).label
    found = [state.index[a:b] for a, b in pairwise(state.ptr)]
    return found, np.array([np.bincount(label[hand], minlength=10) for hand in found])


def test_label_skew_gives_each_device_its_classes_and_its_size():
    per_class = np.full(10, 200)
    size = np.array([96] * 14 + [7])
    counts = LabelSkew(iid=3, labels=2).counts(size, per_class, RNG)
    np.testing.assert_array_equal(counts.sum(axis=1), size)
    assert ((counts[3:] > 0).sum(axis=1) == 2).all()
    assert ((counts[:3] > 0).sum(axis=1) > 8).all()
    np.testing.assert_array_equal(np.sort(counts[3])[-2:], [48, 48])
    np.testing.assert_array_equal(np.sort(counts[14])[-2:], [3, 4])
    holders = (counts[3:] > 0).sum(axis=0)
    assert holders.max() - holders.min() <= 1


@pytest.mark.parametrize(
    ("data", "n_ue", "least"),
    [
        (Images(partition=LabelSkew(iid=3, labels=2)), 15, 70),
        (Images(partition=Dirichlet(alpha=0.001)), 15, 96),
        (Images(partition=Dirichlet(alpha=1e6), samples=(1, 200)), 14, 1),
        (Images(partition=Dirichlet(alpha=0.001)), 1437, 1),
    ],
)
def test_no_image_is_in_two_hands(data, n_ue, least):
    found, counts = hands(data, n_ue, Streams(0).at("data"))
    assert len(np.unique(np.concatenate(found))) == counts.sum()
    assert counts.sum(axis=1).min() >= least
    if isinstance(data.partition, LabelSkew):
        assert ((counts[3:] > 0).sum(axis=1) == data.partition.labels).all()


def test_dirichlet_concentrates_as_alpha_falls():
    size = np.full(200, 50)
    per_class = np.full(10, 10_000)
    few, even = (Dirichlet(alpha=a).counts(size, per_class, RNG) for a in (0.01, 1e4))
    assert (few.sum(axis=1) == 50).all()
    assert np.median(few.max(axis=1)) > 45
    assert np.abs(even.mean(axis=0) - 5).max() < 0.5  # 200 devices of Poisson-like counts
    again = Dirichlet(alpha=0.01).counts(size[:50], per_class, RNG)
    np.testing.assert_array_equal(again, few[:50])  # more devices move nobody's


@pytest.mark.parametrize(
    ("changes", "n_ue", "says"),
    [
        ({"partition": LabelSkew(iid=9)}, 4, "9 IID devices of 4"),
        ({"partition": LabelSkew(iid=0, labels=11)}, 4, "11 classes a device, the images have 10"),
        (
            {"partition": LabelSkew(iid=1), "samples": 200},
            4,
            "ue1 is to hold 200 .* gives it 1[0-9][0-9] are left",
        ),
        ({"partition": LabelSkew(iid=0, labels=1), "samples": (1, 80)}, 20, "leave samples out"),
        (
            {"partition": Dirichlet(), "samples": 100},
            15,
            "ue14 .* dirichlet gives it 42 .* fewer samples or UEs",
        ),
        ({"partition": Dirichlet()}, 1500, r"world\.ues\.count: ue1442 .* take fewer UEs"),
        (
            {"partition": LabelSkew(labels=1)},
            1440,
            r"world\.ues\.count: .* gives it 0 are left that no other UE holds",
        ),
    ],
)
def test_what_cannot_be_dealt_is_refused(changes, n_ue, says):
    with pytest.raises(BadInput, match=says) as caught:
        Images(**changes).start(n_ue, RNG)
    if isinstance(changes["partition"], Dirichlet):
        assert "labels" not in str(caught.value)
        assert "classes a device" not in str(caught.value)


def observed(*ue):
    ue = np.array(ue, dtype=np.int64)
    return Observations(
        ue, np.zeros(len(ue)), np.zeros((len(ue), 2)), np.zeros_like(ue), np.zeros(len(ue))
    )


def test_devices_keep_their_images_and_take_part_when_they_measure():
    data = Images(partition=LabelSkew(iid=1), samples=(5, 1))
    state = data.start(4, RNG)
    taken, state = data.take(observed(2, 0, 0, 3), np.zeros(1), state, RNG)
    assert taken.train.ue.tolist() == [0, 2, 3]
    assert taken.train.count.tolist() == [5, 5, 1]
    assert len(taken.held_out) == len(collection(None).held_out)
    assert taken.train.x.dtype == np.uint8
    later, _ = data.take(observed(3, 1), np.zeros(1), state, RNG)
    assert later.train.ue.tolist() == [1, 3]
    assert len(later.held_out) == 0
    np.testing.assert_array_equal(later.train.x[1:], taken.train.x[10:])  # ue3's one image


# -- networks


def plain(net, w, x, y, batches, learning_rate, image):
    """Local SGD of one device, written out with torch's own layers."""
    w = torch.from_numpy(w).float()
    for batch in batches:
        w = w.detach().requires_grad_()
        layers = [p[0] for p in net.unpack(w[None], image)]
        z = torch.from_numpy(x[batch]).float().view(-1, image.height, image.width) / 255
        if isinstance(net, Cnn):
            k1, b1, k2, b2, *gain_offset, w3, b3, w4, b4 = layers
            h = functional.max_pool2d(functional.conv2d(z[:, None], k1, b1), 2)
            h = functional.max_pool2d(functional.conv2d(h, k2, b2), 2)
            if net.batch_norm:
                h = functional.batch_norm(h, None, None, *gain_offset, training=True)
            out = functional.linear(
                functional.relu(functional.linear(h.flatten(1), w3, b3)), w4, b4
            )
        else:
            w1, b1, w2, b2 = layers
            out = (z.flatten(1) @ w1 + b1).relu() @ w2 + b2
        loss = functional.cross_entropy(out, torch.from_numpy(y[batch]).long())
        w = w - learning_rate * torch.autograd.grad(loss, w)[0]
    return w.detach().numpy()


def local_of(counts, image, ue=None):
    """Random images; every UE's own depend on its id only."""
    if ue is None:
        ue = np.arange(len(counts))
    else:
        ue = np.asarray(ue)
    draw = [np.random.default_rng([7, u]) for u in ue]
    pixels = image.height * image.width
    x = [g.integers(0, 256, (n, pixels), dtype=np.uint8) for g, n in zip(draw, counts, strict=True)]
    y = [g.integers(0, image.classes, n).astype(float) for g, n in zip(draw, counts, strict=True)]
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Local(
        ue,
        np.zeros(len(ue), np.int64),
        ptr,
        np.concatenate(x),
        np.concatenate(y),
        np.zeros(ptr[-1]),
    )


NETS = [(Perceptron(hidden=(6,)), DIGITS), (Cnn(channels=(2, 3), hidden=4), ImageFormat(16, 16, 5))]


@pytest.mark.parametrize(("net", "image"), NETS, ids=["mlp", "cnn"])
def test_a_full_batch_step_is_autograd_s(net, image):
    data = local_of([9, 4], image)
    start = net.start(1, image, RNG)
    made = Classifier(net, image, CPU).train(start, data, DeviceSteps(0.1, 1.0, 1), RNG)
    for k in range(2):
        mine = slice(*data.ptr[k : k + 2])
        after = plain(
            net, start[0], data.x[mine], data.y[mine], [np.arange(data.count[k])], 0.1, image
        )
        np.testing.assert_allclose(made.values[k], after - start[0].astype(np.float32), atol=2e-6)


@pytest.mark.parametrize("shape", [(3, 2, 8, 6), (3, 2, 9, 7), (1, 1, 2, 3)])
@pytest.mark.parametrize("number", [torch.float32, torch.float64])
def test_pooling_is_that_of_torch_also_of_equal_numbers(shape, number):
    whole = torch.randn(shape, dtype=number, generator=torch.Generator().manual_seed(0)).round()
    pulls = torch.randn((*shape[:2], shape[2] // 2, shape[3] // 2), dtype=number)
    found = []
    expected = []
    for law, to in (
        (max_pooled, found),
        (partial(torch.nn.functional.max_pool2d, kernel_size=2), expected),
    ):
        x = whole.clone().requires_grad_()
        to += [law(x), torch.autograd.grad((law(x) * pulls).sum(), x)[0]]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    broken = whole.clone()
    broken[0, 0, 1, 0] = torch.nan
    assert torch.isnan(max_pooled(broken))[0, 0, 0, 0]


FREE = [NETS[0], (Cnn(channels=(2, 3), hidden=4, batch_norm=False), ImageFormat(16, 16, 5))]


@pytest.mark.parametrize(("net", "image"), FREE, ids=["mlp", "cnn"])
def test_gradients_are_clipped_image_by_image(net, image):
    """The mean of the images' own steps, each cut to the norm: by hand, image by image."""
    data = local_of([9, 4], image)
    start = net.start(1, image, RNG)
    clip = 0.7
    made = Classifier(net, image, CPU).train(start, data, DeviceSteps(0.1, 1.0, 1, clip), RNG)
    for k in range(2):
        rows = range(*data.ptr[k : k + 2])
        begin = start[0].astype(np.float32)
        each = [
            plain(net, start[0], data.x[[i]], data.y[[i]], [np.zeros(1, int)], 1.0, image) - begin
            for i in rows
        ]
        norms = np.linalg.norm(each, axis=1)
        assert norms.min() < clip < norms.max() or norms.min() > clip
        cut = [e * min(1.0, clip / n) for e, n in zip(each, norms, strict=True)]
        np.testing.assert_allclose(made.values[k], 0.1 * np.mean(cut, axis=0), atol=2e-6)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize(
    ("hidden", "rate", "clip"), [(6, 0.5, 0.3), (64, 1e-3, 1e-3), (64, 1e-4, 1e-12)]
)
def test_an_image_moves_an_update_by_its_bound_at_most(hidden, rate, clip, bits):
    """However small a step is beside the weights, which round to 3e-9 at 32 bits, and to 6e-18 at
    64."""
    net = Perceptron(hidden=(hidden,))
    learner = ImageNet(
        network=net, learning_rate=rate, batch_share=1.0, sample_clip=clip, precision=bits
    )
    model = learner.init(Public(Area(0, 0, 1, 1), 1, images=DIGITS), RNG)
    data = local_of([140, 40], DIGITS)
    made = learner.local(model, "all", data, RNG)
    assert made.bound.unit == "record"
    assert made.bound.norm == pytest.approx(rate * clip / 40, rel=1e-3, abs=2e-15)
    for i in range(0, 180, 15):
        x = data.x.copy()
        y = data.y.copy()
        x[i] = 255 - x[i]
        y[i] = (y[i] + 3) % 10
        other = learner.local(model, "all", dataclasses.replace(data, x=x, y=y), RNG)
        away = np.linalg.norm(other.values - made.values, axis=1)
        assert away[int(i < 140)] == 0 < away[int(i >= 140)]
        assert away[int(i >= 140)] <= 2 * (rate * clip / data.count[int(i >= 140)] + 2e-15)


def test_an_image_whose_gradient_overflows_moves_no_more():
    each = torch.tensor([[3.0, 4.0], [torch.inf, 0.0], [torch.nan, 0.0], [0.3, 0.4], [3e38, 3e38]])
    others = np.array([0.6 + 0.3 + 0.5**0.5, 0.8 + 0.4 + 0.5**0.5])
    assert np.linalg.norm(_cut(each, 1.0).numpy() - others) <= 1.0 + 1e-6


def test_no_bound_on_records_where_none_is_proven():
    mlp = Perceptron(hidden=(6,))
    for other in ({"batch_share": 0.1}, {"local_epochs": 2}, {"sample_clip": None}):
        learner = ImageNet(**({"network": mlp, "batch_share": 1.0, "sample_clip": 1.0} | other))
        assert "record bound" not in learner.offers
    with pytest.raises(ValueError, match="batch_norm: off, or kind: mlp"):
        ImageNet(network=Cnn(), sample_clip=1.0)


@pytest.mark.parametrize(("net", "image"), NETS, ids=["mlp", "cnn"])
def test_cohorts_train_as_solo_devices_do(net, image):
    """Devices of different size together, and each alone: the same steps, padding touches
    nobody."""
    counts = [13, 1, 40, 7]
    start = net.start(1, image, RNG)
    how = DeviceSteps(0.1, 0.3, 2)
    together = Classifier(net, image, CPU).train(start, local_of(counts, image), how, RNG)
    assert how.batch(np.array(counts)).tolist() == [4, 1, 12, 3]
    for k, n in enumerate(counts):
        alone = Classifier(net, image, CPU).train(start, local_of([n], image, ue=[k]), how, RNG)
        np.testing.assert_allclose(together.values[k], alone.values[0], atol=2e-6)
    again = Classifier(net, image, CPU).train(start, local_of(counts, image), how, RNG)
    np.testing.assert_array_equal(together.values, again.values)
    other = Classifier(net, image, CPU).train(
        start, local_of(counts, image), how, Streams(5).at("data")
    )
    assert np.abs(together.values - other.values).max() > 1e-4


def test_a_classifier_learns_the_digits():
    learner = ImageNet(network=Perceptron(), learning_rate=0.2)
    digits = collection(None)
    public = Public(Area(0, 0, 1, 1), 1, images=digits.format)
    model = learner.init(public, RNG)
    n = len(digits.label)
    one = Local(
        np.array([0]),
        np.array([0]),
        np.array([0, n]),
        digits.train,
        digits.label.astype(float),
        np.zeros(n),
    )
    nobody = np.zeros(len(digits.held_out_label), dtype=np.int64)
    held = HeldOut(nobody, nobody, digits.held_out, digits.held_out_label.astype(float), nobody)
    for r in range(30):
        made = learner.local(model, "all", one, Streams(1).at("learner", r))
        model = learner.step(model, "all", made.weighted_sum(np.ones(1), 1))
    found = learner.evaluate(model, held)
    assert found["accuracy_percent"] > 93
    assert found["cross_entropy_nats"] < 0.4
    assert found["constant_accuracy_percent"] < 11


# -- runs


IMAGES = {
    "learning.data": {
        "kind": "images",
        "partition": {"kind": "label-skew", "iid": 1},
        "samples": 40,
    },
    "learning.learner": {
        "kind": "image-net",
        "network": {"kind": "mlp", "hidden": [12]},
        "learning_rate": 0.1,
    },
    "learning.attacks": [],
}


def test_a_run_on_images_says_nothing_of_places(tiny, tmp_path):
    summary = run(tiny(IMAGES), tmp_path / "r")
    assert summary["utility.accuracy_percent"] is not None
    assert summary["samples.count"] == 2 * 4 * 40
    assert summary["metric.learner.accuracy_percent.last"] == summary["utility.accuracy_percent"]
    of_places = [k for k in summary if k.startswith(("attack.", "baseline.", "users.", "theorem."))]
    assert not of_places
    assert "utility.rmse_db" not in summary
    assert "utility.NAME" not in {declaration(k).key for k in summary if k.startswith("utility.")}
    updates = read_table(tmp_path / "r", "updates")
    np.testing.assert_allclose(updates["weight"], 0.25)
    assert np.isnan(updates["x_m"]).all()
    assert not len(read_table(tmp_path / "r", "leakage")["ue"])
    page = re.sub(
        r"<(script|style).*?</\1>", "", report(tmp_path / "r").read_text(), flags=re.DOTALL
    )
    page = re.sub(
        r'<section id="words">.*?</section>', "", page, flags=re.DOTALL
    )  # meanings of words
    page = re.sub(
        r'<p class="caption" data-needs.*?</p>', "", page, flags=re.DOTALL
    )  # of maps that have such data
    assert "accuracy" in page.lower()
    for word in ("nan", "centroid", "home of", "a home", "rmse"):
        assert word not in page.lower(), word


def test_bad_folders_leave_with_one_line_and_no_run(tmp_path, capsys):
    out = tmp_path / "r"
    for folder in (tmp_path / "none", tmp_path):
        arguments = [
            "run",
            "lapa/aggregation",
            "--set",
            f"learning.data.folder={folder}",
            "--out",
            str(out),
        ]
        assert main([*arguments, "--quiet"]) == 2
        said = capsys.readouterr().err.strip()
        assert "\n" not in said
        assert "learning.data.folder" in said
        assert not out.exists()
    arguments = [
        "run",
        "lapa/aggregation",
        "--set",
        "learning.learner.network={kind: cnn}",
        "--out",
        str(out),
    ]
    assert main([*arguments, "--quiet"]) == 2
    assert not out.exists()
    assert "take network" in capsys.readouterr().err
