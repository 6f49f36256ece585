"""Images: files read strictly, partitions, classifiers against plain autograd, and runs without
places."""

import dataclasses
import gzip
import re
import struct
from functools import partial

import numpy as np
import pytest
import torch
from local_data import make_local
from numpy.linalg import norm
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal
from pytest import approx, mark
from torch.autograd import grad
from torch.nn import functional

from fl.data.images import Images, load_collection, read_idx
from fl.data.partitions import Dirichlet, LabelSkew
from fl.learners.torch_net import TorchNet
from fl.networks.pooling import pool_max
from fl.networks.stacked import sum_clipped
from fl.optimisers import Momentum
from fl.types import HeldOut, Public, SampleFormat
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.ues import Observations
from scenarios.app.cli.commands import main
from scenarios.app.report.report import write_report
from scenarios.app.result import run
from scenarios.app.results.folder import read_record_table
from scenarios.app.results.summary_keys import find_measure

RNG = Streams(4).derive_rng("data")
DIGITS = SampleFormat((1, 8, 8), 10, 255.0)


def idx(values):
    """The bytes of an IDX file."""
    values = np.asarray(values, np.uint8)
    head = struct.pack(f">{1 + values.ndim}I", 0x0800 + values.ndim, *values.shape)
    return head + values.tobytes()


def write_folder(path, side=16):
    """A folder with random images of three classes: 60 to train, and 30 held out."""
    path.mkdir()
    rng = default_rng(0)
    for name, count in (("train", 60), ("t10k", 30)):
        images = rng.integers(0, 256, (count, side, side))
        for kind, values in (("images-idx3", images), ("labels-idx1", np.arange(count) % 3)):
            (path / f"{name}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx(values)))
    return path


# -- files


@mark.parametrize("end", ["", ".gz"])
def test_an_idx_file_gives_back_its_bytes(tmp_path, end):
    values = default_rng(1).integers(0, 256, (5, 4, 3), np.uint8)
    path = tmp_path / f"some-images-idx3-ubyte{end}"
    path.write_bytes(gzip.compress(idx(values)) if end else idx(values))
    assert_array_equal(read_idx(path, 3), values)


WHOLE = gzip.compress(idx(np.zeros((4, 20, 20))), mtime=0)
AGAIN = "get or write it again"
BODIES = {
    "empty": (b"", AGAIN),
    "header cut": (idx([[[1]]])[:9], "multiple of element size"),
    "labels": (idx(range(9)), "magic number 2049, expected 2051"),
    "cut": (idx([[[1, 2]]])[:-1], "cannot reshape array of size 1"),
    "longer": (idx([[[1, 2]]]) + b"x", "cannot reshape array of size 3"),
    "huge": (
        struct.pack(">4I", 2051, 2**31, 2**31, 2**31),
        r"and 9,903,520.* bytes of \[2147483648, ",
    ),
    "no images": (struct.pack(">4I", 2051, 0, 28, 28), r"and 0 bytes of \[0, 28, 28\]"),
    "gzip cut": (WHOLE[:-12], AGAIN),
    "gzip damaged": (WHOLE[:20] + b"\0" * 9 + WHOLE[29:], AGAIN),
    "no gzip": (b"no gzip", AGAIN),
}


@mark.parametrize("case", BODIES)  # by name: bytes as names would differ between workers
def test_a_damaged_file_is_refused_in_one_line(tmp_path, case):
    body, says = BODIES[case]
    path = tmp_path / ("train-images-idx3-ubyte" + ".gz" * ("gzip" in case))
    path.write_bytes(body)
    with pytest.raises(BadInput, match=says) as caught:
        read_idx(path, 3)
    assert len(caught.value.lines) == 1
    assert str(path) in caught.value.lines[0]


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    names = ("good", "lacks", "mixed", "small")
    good, lacks, mixed, small = (
        write_folder(tmp_path / n, 8 if n == "small" else 16) for n in names
    )
    (lacks / "t10k-labels-idx1-ubyte.gz").unlink()
    (mixed / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros(59))))
    for file in good.glob("t10k-*"):
        (small / file.name).write_bytes(file.read_bytes())
    assert load_collection(str(good)).format == SampleFormat((1, 16, 16), 3, 255.0)
    for folder, reason in (
        (tmp_path / "none", "holds no train-images"),
        (lacks, "holds no t10k-labels"),
        (mixed, "60 train images and 59 labels"),
        (small, "must match exactly"),
    ):
        with pytest.raises(BadInput, match=reason):
            load_collection(str(folder))


def test_the_digits_are_split_class_by_class():
    digits = load_collection(None)
    assert digits.x.array.shape == (1797, 64)
    assert digits.x.array.max() == 255
    assert 355 <= digits.held_out.sum() <= 359
    share = np.bincount(digits.label[digits.held_out]) / np.bincount(digits.label[~digits.held_out])
    assert (np.abs(share - 0.25) < 0.02).all()


def test_mnist_is_what_it_was_published_as(data_folder):
    """LeCun's counts."""
    mnist = load_collection(str(data_folder / "mnist"))
    assert mnist.x.array.shape == (70_000, 784)
    assert mnist.held_out.sum() == 10_000
    counts = " ".join(map(str, np.bincount(mnist.label[~mnist.held_out])))
    assert counts == "5923 6742 5958 6131 5842 5421 5918 6265 5851 5949"
    assert "".join(map(str, mnist.label[:10])) == "5041921314"


# -- partitions


def deal_hands(data, n_ue, rng=RNG):
    """The images (an index of each) and the number of each class (n_ue, classes) of every
    device."""
    state = data.start(n_ue, rng)
    label = load_collection(None).label
    hands = np.split(state.index, np.searchsorted(state.ue, np.arange(1, n_ue)))
    return hands, np.array([np.bincount(label[hand], minlength=10) for hand in hands])


def test_label_skew_gives_each_device_its_classes_and_its_size():
    size = np.array([96] * 14 + [7])
    counts = LabelSkew(iid=3, labels=2).draw_counts(size, np.full(10, 200), RNG)
    held = counts > 0
    assert_array_equal(counts.sum(axis=1), size)
    assert (held[3:].sum(axis=1) == 2).all()
    assert (held[:3].sum(axis=1) > 8).all()
    assert_array_equal(np.sort(counts[[3, 14]])[:, -2:], [[48, 48], [3, 4]])
    assert np.ptp(held[3:].sum(axis=0)) <= 1


@mark.parametrize(
    "data, n_ue, smallest",
    [
        (Images(partition=LabelSkew(iid=3, labels=2)), 15, 70),
        (Images(partition=Dirichlet(alpha=0.001)), 15, 96),
        (Images(partition=Dirichlet(alpha=1e6), samples=(1, 200)), 14, 1),
        (Images(partition=Dirichlet(alpha=0.001)), 1437, 1),
    ],
)
def test_no_image_is_in_two_hands(data, n_ue, smallest):
    hands, counts = deal_hands(data, n_ue, Streams(0).derive_rng("data"))
    assert len(np.unique(np.concatenate(hands))) == counts.sum()
    assert counts.sum(axis=1).min() >= smallest
    if isinstance(data.partition, LabelSkew):
        assert ((counts[3:] > 0).sum(axis=1) == data.partition.labels).all()


def test_dirichlet_concentrates_as_alpha_falls():
    size = np.full(200, 50)
    per_class = np.full(10, 10_000)
    few, even = (Dirichlet(alpha=a).draw_counts(size, per_class, RNG) for a in (0.01, 1e4))
    assert (few.sum(axis=1) == 50).all()
    assert np.median(few.max(axis=1)) > 45
    assert np.abs(even.mean(axis=0) - 5).max() < 0.5  # 200 devices of Poisson-like counts
    again = Dirichlet(alpha=0.01).draw_counts(size[:50], per_class, RNG)
    assert_array_equal(again, few[:50])  # more devices move nobody's


@mark.parametrize(
    "partition, samples, n_ue, reason",
    [
        (LabelSkew(iid=9), None, 4, "9 IID devices of 4"),
        (LabelSkew(iid=0, labels=11), None, 4, "11 classes a device of 10"),
        (LabelSkew(iid=1), 200, 4, r"ue1 .* hold 200 .* gives it 1\d\d, of those that are left"),
        (LabelSkew(iid=0, labels=1), (1, 80), 20, "take fewer samples"),
        (Dirichlet(), 100, 15, "ue14 .* dirichlet gives it 42, .* fewer samples, or fewer UEs"),
        (Dirichlet(), None, 1500, r"ue1442 .* fewer UEs \(world.ues.count"),
        (LabelSkew(labels=1), None, 1440, r"hold 1 .* gives it 0, of those"),
    ],
)
def test_what_cannot_be_dealt_is_refused(partition, samples, n_ue, reason):
    with pytest.raises(BadInput, match=reason) as caught:
        Images(partition=partition, samples=samples).start(n_ue, RNG)
    if isinstance(partition, Dirichlet):
        assert "labels" not in str(caught.value)
        assert "classes a device" not in str(caught.value)


def observe(*ue):
    ue = np.array(ue, int)
    zero = np.zeros(len(ue))
    return Observations(ue, zero, np.zeros((len(ue), 2)), np.zeros_like(ue), zero)


def test_devices_keep_their_images_and_take_part_when_they_measure():
    data = Images(partition=LabelSkew(iid=1), samples=(5, 1))
    state = data.start(4, RNG)
    taken, state = data.take(observe(2, 0, 0, 3), np.zeros(1), state, RNG)
    assert taken.train.ue.tolist() == [0, 2, 3]
    assert taken.train.count.tolist() == [5, 5, 1]
    assert len(taken.held_out) == load_collection(None).held_out.sum()
    assert np.asarray(taken.train.x).dtype == np.uint8
    later, _ = data.take(observe(3, 1), np.zeros(1), state, RNG)
    assert later.train.ue.tolist() == [1, 3]
    assert len(later.held_out) == 0
    assert_array_equal(
        later.train.x[np.arange(1, 2)], taken.train.x[np.arange(10, 11)]
    )  # ue3's one image


# -- networks


def draw_images(counts, image):
    """Random images; every UE's own depend on its id only."""
    ue = np.arange(len(counts))
    x = []
    y = []
    for u, n in zip(ue, counts, strict=True):
        g = default_rng([7, u])
        x.append(g.integers(0, 256, (n, image.shape[-2] * image.shape[-1]), np.uint8))
        y.append(g.integers(0, image.classes, n).astype(float))
    return make_local(counts, np.concatenate(x), np.concatenate(y), ue)


@mark.parametrize("shape", [(3, 2, 8, 6), (3, 2, 9, 7), (1, 1, 2, 3)])
@mark.parametrize("number", [torch.float32, torch.float64])
def test_pooling_is_that_of_torch_also_of_equal_numbers(shape, number):
    whole = torch.randn(shape, dtype=number, generator=torch.Generator().manual_seed(0)).round()
    pulls = torch.randn((*shape[:2], shape[2] // 2, shape[3] // 2), dtype=number)

    def pool(law):
        x = whole.clone().requires_grad_()
        return law(x), grad((law(x) * pulls).sum(), x)[0]

    expected = pool(partial(functional.max_pool2d, kernel_size=2))
    assert all(map(torch.equal, pool(pool_max), expected))
    broken = whole.clone()
    broken[0, 0, 1, 0] = torch.nan
    assert torch.isnan(pool_max(broken))[0, 0, 0, 0]


@mark.parametrize("bits", [32, 64])
@mark.parametrize("hidden, rate, clip", [(6, 0.5, 0.3), (64, 1e-3, 1e-3), (64, 1e-4, 1e-12)])
def test_an_image_moves_an_update_by_its_bound_at_most(hidden, rate, clip, bits):
    """However small a step is beside the weights, which round to 3e-9 at 32 bits, and to 6e-18 at
    64."""
    settings = {"learning_rate": rate, "batch_share": 1.0, "sample_clip": clip, "precision": bits}
    learner = TorchNet(module="perceptron", arguments={"hidden": [hidden]}, **settings)
    model = learner.init(Public(Area(0, 0, 1, 1), 1, samples=DIGITS), RNG)
    data = draw_images([140, 40], DIGITS)
    updates = learner.train_locally(model, "all", data, RNG)
    assert updates.bound.unit == "record"
    assert updates.bound.norm == approx(rate * clip / 40, rel=1e-3, abs=2e-15)
    for i in range(0, 180, 15):
        x = data.x.copy()
        y = data.y.copy()
        x[i] = 255 - x[i]
        y[i] = (y[i] + 3) % 10
        changed = learner.train_locally(model, "all", dataclasses.replace(data, x=x, y=y), RNG)
        away = norm(changed.values - updates.values, axis=1)
        row = int(i >= 140)
        assert away[1 - row] == 0 < away[row] <= 2 * (rate * clip / data.count[row] + 2e-15)


def test_an_image_whose_gradient_overflows_moves_no_more():
    inf = torch.inf
    gradients = torch.tensor([[3.0, 4.0], [inf, 0.0], [torch.nan, 0.0], [0.3, 0.4], [3e38, 3e38]])
    finite = np.array([0.6 + 0.3 + 0.5**0.5, 0.8 + 0.4 + 0.5**0.5])
    assert norm(sum_clipped(gradients, 1.0).numpy() - finite) <= 1.0 + 1e-6


def test_no_bound_on_records_where_none_is_proven():
    bounded = {"module": "perceptron", "batch_share": 1.0, "sample_clip": 1.0}
    assert "record bound" in TorchNet(**bounded).offers
    for changes in ({"batch_share": 0.1}, {"local_epochs": 2}, {"sample_clip": None}):
        assert "record bound" not in TorchNet(**bounded | changes).offers
    for changes in ({"weight_decay": 0.1}, {"optimiser": Momentum()}):
        assert "record bound" not in TorchNet(**bounded | changes).offers


def test_a_classifier_learns_the_digits():
    learner = TorchNet(module="perceptron", learning_rate=0.2, batch_share=0.1)
    digits = load_collection(None)
    model = learner.init(Public(Area(0, 0, 1, 1), 1, samples=digits.format), RNG)
    out = digits.held_out
    pixels = digits.x.array
    data = make_local([(~out).sum()], pixels[~out], digits.y[~out])
    nobody = np.zeros(out.sum(), int)
    held = HeldOut(nobody, nobody, pixels[out], digits.y[out], nobody)
    for r in range(30):
        updates = learner.train_locally(model, "all", data, Streams(1).derive_rng("learner", r))
        model = learner.step(model, "all", updates.sum_weighted(np.ones(1), 1))
    figures = learner.evaluate(model, held)
    assert figures["accuracy_percent"] > 93
    assert figures["cross_entropy_nats"] < 0.4
    assert figures["constant_accuracy_percent"] < 11


# -- runs


IMAGES = {
    "learning.data": {
        "kind": "images",
        "partition": {"kind": "label-skew", "iid": 1},
        "samples": 40,
    },
    "learning.learner": {
        "kind": "torch",
        "module": "perceptron",
        "arguments": {"hidden": [12]},
        "batch_share": 0.1,
        "learning_rate": 0.1,
    },
    "learning.attacks": [],
}


def test_a_run_on_images_says_nothing_of_places(tiny, tmp_path):
    summary = run(tiny(IMAGES), tmp_path / "r")
    accuracy = summary["utility.accuracy_percent"]
    assert accuracy is not None
    assert summary["samples.count"] == 2 * 4 * 40
    assert summary["metric.learner.accuracy_percent.last"] == accuracy
    assert not any(k.startswith(("attack.", "baseline.", "users.", "theorem.")) for k in summary)
    assert "utility.rmse_db" not in summary
    assert "utility.NAME" not in {find_measure(k).key for k in summary if k.startswith("utility.")}
    updates = read_record_table(tmp_path / "r", "updates")
    assert_allclose(updates["weight"], 0.25)
    assert np.isnan(updates["x_m"]).all()
    assert not len(read_record_table(tmp_path / "r", "leakage")["ue"])
    page = write_report(tmp_path / "r").read_text()
    for part in (  # meanings of words, and captions of maps that have such data
        r"<(script|style).*?</\1>",
        r'<section id="words">.*?</section>',
        r'<p class="caption" data-needs.*?</p>',
    ):
        page = re.sub(part, "", page, flags=re.DOTALL)
    page = page.lower()
    assert "accuracy" in page
    assert [word for word in ("nan", "centroid", "home of", "a home", "rmse") if word in page] == []


def test_bad_folders_leave_with_one_line_and_no_run(tmp_path, capsys):
    out = tmp_path / "r"
    for setting, reason in (
        (f"learning.data.folder={tmp_path / 'none'}", "learning.data.folder"),
        (f"learning.data.folder={tmp_path}", "learning.data.folder"),
        ("learning.learner={kind: torch, module: cnn}", "take module"),
    ):
        arguments = ["run", "lapa/aggregation", "--set", setting, "--out", str(out), "--quiet"]
        assert main(arguments) == 2
        text = capsys.readouterr().err.strip()
        assert "\n" not in text
        assert reason in text
        assert not out.exists()
