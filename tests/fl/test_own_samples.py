"""Samples of one's own: files and arrays are read or refused in one line, owned, and learnt from as
they arrive."""

import os
import sys
import zipfile
from subprocess import run as run_command

import numpy as np
import pytest
from conftest import write_tiny
from interrupted import run_in_two
from numpy.testing import assert_allclose, assert_array_equal
from refused import catch_line

from fl.data.own_samples import Samples
from fl.data.partitions import Dirichlet, LabelSkew, NearPlace, QuantitySkew
from fl.types import SampleFormat
from netsim.geometry import Area
from netsim.rng import Streams
from netsim.ues import Observations
from scenarios.app.cli.commands import main
from scenarios.app.result import run

RNG = Streams(7).derive_rng("data")
DRAW = np.random.default_rng(3)
PIXELS = DRAW.integers(0, 256, (60, 3, 4, 5), np.uint8)
CLASSES = np.arange(60) % 5
PLACES = DRAW.uniform(0, 100, (60, 2))
AREA = Area(0, 0, 100, 100)


def observe(*ue, time_s=0.0):
    ue = np.array(ue, int)
    times_s = np.full(len(ue), time_s)
    return Observations(ue, times_s, np.zeros((len(ue), 2)), np.zeros_like(ue), np.zeros(len(ue)))


def play_windows(data, n_ue, *windows):
    """What is taken in windows, each the UEs that measure and when."""
    state = data.start(n_ue, RNG)
    for number, (ues, time_s) in enumerate(windows, 1):
        rng = Streams(7).derive_rng("data", number)
        taken, state = data.take(observe(*ues, time_s=time_s), np.zeros(1, int), state, rng)
        yield taken


def take_all(data, n_ue):
    (taken,) = play_windows(data, n_ue, (range(n_ue), 0.0))
    return taken


# -- files


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_of_a_file_are_those_of_python(save, order, tmp_path):
    file = tmp_path / "x.npz"
    arrays = {"x": PIXELS, "y": CLASSES, "ue": np.arange(60) % 4}
    save(file, **{**arrays, "x": np.asarray(PIXELS, order=order)})
    data = Samples(file=str(file))
    assert data.read_sample_format() == SampleFormat((3, 4, 5), 5, 255.0)
    taken = take_all(data, 4)
    same = take_all(Samples.from_arrays(**arrays), 4)
    for one, other in ((taken.train, same.train), (taken.held_out, same.held_out)):
        assert_array_equal(one.x, other.x)
        assert_array_equal(one.y, other.y)
    assert taken.train.ue.tolist() == [0, 1, 2, 3]
    assert taken.train.count.tolist() == [12] * 4
    x = np.asarray(taken.train.x)
    rows = [np.flatnonzero((PIXELS.reshape(60, -1) == row).all(axis=1))[0] for row in x]
    assert_array_equal(np.array(rows) % 4, np.repeat(range(4), 12))
    assert_array_equal(CLASSES[rows], taken.train.y)


def write_member(archive, name, header, content, version=(1, 0)):
    text = (str(header) + "\n").encode()
    size = len(text).to_bytes(2, "little")
    archive.writestr(f"{name}.npy", b"\x93NUMPY" + bytes(version) + size + text + content)


def write_arrays(folder, **arrays):
    np.savez(folder / "x.npz", **arrays)
    return folder / "x.npz"


def write_bomb(folder, shape):
    with zipfile.ZipFile(folder / "x.npz", "w") as archive:
        write_member(archive, "x", {"descr": "|u1", "fortran_order": False, "shape": shape}, b"abc")
        write_member(archive, "y", {"descr": "|u1", "fortran_order": False, "shape": (3,)}, b"abc")
    return folder / "x.npz"


def write_twice(folder):
    file = write_arrays(folder, x=PIXELS, y=CLASSES)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(file, "a") as archive:
        archive.writestr("y.npy", b"")
    return file


def truncate(folder, keep):
    file = write_arrays(folder, x=PIXELS, y=CLASSES)
    file.write_bytes(file.read_bytes()[:keep])
    return file


class Evil:
    def __reduce__(self):
        return (sys.exit, (3,))


OBJECTS = np.array([Evil()] * 60, dtype=object)


@pytest.mark.parametrize(
    "write, words",
    [
        (lambda f: f / "none.npz", "none.npz: cannot be read (No such file"),
        (lambda f: write_arrays(f, x=PIXELS, y=OBJECTS), "cannot be read ("),
        (lambda f: write_arrays(f, x=OBJECTS[:, None], y=CLASSES), "cannot be read ("),
        (lambda f: write_arrays(f, x=PIXELS, y=CLASSES, z=CLASSES), "'z' is none of y, ue"),
        (
            lambda f: write_twice(f),
            "'y' is none of y, ue, time_s, lat, lon, x_m, y_m, held_out, x, or stands twice",
        ),
        (lambda f: truncate(f, 2000), "File is not a zip file"),
        (lambda f: truncate(f, 0), "File is not a zip file"),
        (
            lambda f: write_bomb(f, (3, 10**12)),
            "cannot reshape array of size 3 into shape (3,1000000000000)",
        ),
        (lambda f: write_bomb(f, (3, 2)), "cannot reshape array of size 3 into shape (3,2)"),
        (lambda f: write_bomb(f, (-3, -1)), "cannot be read ("),
    ],
)
def test_a_file_that_is_not_what_it_says_is_refused(write, words, tmp_path):
    file = write(tmp_path)
    line = catch_line(Samples(file=str(file)).load)
    assert words in line
    assert str(file) in line


@pytest.mark.parametrize(
    "changes, words",
    [
        (
            {"y": CLASSES[:59]},
            "x is of shape (60, 3, 4, 5) and type uint8; give a number",
        ),
        (
            {"y": np.where(CLASSES == 3, 7, CLASSES)},
            "5 classes from 0 to 7; number two or more from",
        ),
        ({"y": CLASSES * 0}, "1 classes from 0 to 0"),
        ({"y": np.where(CLASSES, 1.5, np.nan)}, "y: sample 0 has nan, which is no number"),
        ({"y": CLASSES.astype(complex)}, "y is of shape (60,) and type complex128"),
        ({"x": np.where(CLASSES == 2, np.nan, 0.0)}, "x: sample 2 has nan, which is no number"),
        ({"x": np.where(CLASSES == 2, np.inf, 0.0)[:, None]}, "x: sample 2 has inf"),
        ({"x": np.array(["a"] * 60)}, "x is of shape (60,) and type <U1"),
        ({"y": np.zeros(0), "x": PIXELS[:0]}, "is of shape (0"),
        ({"x": PLACES.astype(np.float16) + np.float16(np.inf)}, "x: sample 0 has inf"),
        ({"time_s": -1.0 * CLASSES}, "time_s: sample 1 has -1, which is no number from 0 to"),
        ({"ue": CLASSES - 1}, "ue: sample 0 has -1, which is no number from 0 to"),
        ({"ue": PIXELS}, "ue is of shape (60, 3, 4, 5)"),
        ({"lat": CLASSES}, "has places by ['lat']; give inputs x, or lat and lon"),
        ({"x": None, "y": CLASSES * 1.0}, "has places by []; give inputs x"),
        (
            {"lat": CLASSES + 90, "lon": CLASSES},
            "lat: sample 1 has 91, which is no number from -90",
        ),
        ({"held_out": CLASSES}, "held_out: sample 2 has 2"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(changes, words):
    arrays = {"x": PIXELS, "y": CLASSES} | changes
    arrays = {name: array for name, array in arrays.items() if array is not None}
    assert words in catch_line(lambda: Samples.from_arrays(**arrays))


def test_a_large_file_is_mapped(tmp_path):
    """Two gibibytes, sparse: a process that reads 64 rows of them stays small."""
    file = tmp_path / "x.npz"
    shape = (2**15, 2**16)
    header = {"descr": "|u1", "fortran_order": False, "shape": shape}
    with zipfile.ZipFile(file, "w") as archive:
        with archive.open("x.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, header)
            member._file_size += 2**31  # a hole
            archive.fp.seek(2**31, 1)
        write_member(archive, "y", header | {"shape": shape[:1]}, b"\0\1" * 2**14)
    program = f"""
import resource
import numpy as np
from fl.data.own_samples import Samples
from test_own_samples import take_all
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
data = Samples(file={str(file)!r}, samples=20)
train = take_all(data, 4).train
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 60_000
x = np.asarray(train.x)
assert x.shape == (64, 2**16) and not x.any()
assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 80_000
"""
    folders = os.pathsep.join(sys.path)
    environment = os.environ | {"PYTHONPATH": folders}
    command = [sys.executable, "-c", program]
    done = run_command(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def save_images(folder, mode="RGB", side=6):
    Image = pytest.importorskip("PIL.Image")
    for i in range(12):
        path = folder / f"{('cat', 'dog', 'emu')[i % 3]}/{i:02}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        shape = (side, 5, 3) if mode == "RGB" else (side, 5)
        Image.fromarray(np.full(shape, i, np.uint8)).convert(mode).save(path)
    return folder


def test_a_folder_of_images_has_its_classes(tmp_path):
    data = Samples(file=str(save_images(tmp_path / "a")), hold_out=0.0)
    assert data.read_sample_format() == SampleFormat((3, 6, 5), 3, 255.0)
    train = take_all(data, 2).train
    x = np.asarray(train.x)
    assert sorted(x[:, 0]) == [*range(12)]
    assert_array_equal(x[:, 0] % 3, train.y)
    assert (x == x[:, :1]).all()
    grey = Samples(file=str(save_images(tmp_path / "b", "L")))
    assert grey.read_sample_format().shape == (1, 6, 5)
    (tmp_path / "c").mkdir()
    assert "y is of shape (0,)" in catch_line(Samples(file=str(tmp_path / "c")).load)
    Image = pytest.importorskip("PIL.Image")
    pairs = [(Image.fromarray(pixels.transpose(1, 2, 0)), i % 5) for i, pixels in enumerate(PIXELS)]
    assert Samples.from_dataset(pairs).digest == Samples.from_arrays(x=PIXELS, y=CLASSES).digest


def test_images_of_other_colours_and_sizes_are_refused(tmp_path):
    save_images(tmp_path, "RGBA")
    assert "colours are RGBA" in catch_line(Samples(file=str(tmp_path)).load)
    save_images(tmp_path)
    (tmp_path / "cat/00.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    assert "00.png: cannot be read" in catch_line(Samples(file=str(tmp_path)).load)
    save_images(tmp_path / "other", side=7)
    (tmp_path / "other/cat/00.png").rename(tmp_path / "cat/00.png")
    assert "inhomogeneous shape" in catch_line(Samples(file=str(tmp_path)).load)


FRAME = {"x_0": PLACES[:, 0], "x_1": PLACES[:, 1], "rsrp": -CLASSES * 1.0, "ue": ["b", "a"] * 30}


def test_a_table_is_its_arrays():
    pd = pytest.importorskip("pandas")
    same = Samples.from_arrays(x=PLACES, y=FRAME["rsrp"], ue=FRAME["ue"])
    frame = pd.DataFrame(FRAME | {"other": "text"})
    data = Samples.from_table(frame, features=("x_0", "x_1"), label="rsrp")
    assert data.digest == same.digest
    assert data.read_sample_format() == SampleFormat((2,), 0)
    assert_array_equal(take_all(data, 2).train.x, take_all(same, 2).train.x)
    listed = pd.DataFrame({"x": list(PIXELS), "y": CLASSES})
    assert Samples.from_table(listed).digest == Samples.from_arrays(x=PIXELS, y=CLASSES).digest
    hugging = type("Table", (dict,), {"column_names": ["x", "y"]})(
        x=PIXELS.tolist(), y=CLASSES.tolist()
    )
    train = take_all(Samples.from_table(hugging), 4).train
    assert_array_equal(train.x, take_all(Samples.from_arrays(x=PIXELS, y=CLASSES), 4).train.x)
    ragged = pd.DataFrame({"x": [np.zeros(i % 2 + 1) for i in range(60)], "y": CLASSES})
    assert "inhomogeneous shape" in catch_line(lambda: Samples.from_table(ragged))
    assert "no column rsrp, z beside x, y" in catch_line(
        lambda: Samples.from_table(listed, features=("z",), label="rsrp")
    )


def test_a_parquet_file_is_its_table(tmp_path, monkeypatch):
    pd = pytest.importorskip("pandas")
    file = tmp_path / "x.parquet"
    file.write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    line = catch_line(Samples(file=str(file)).load)
    assert " is not installed; pip install 'netsim-fl[samples]'" in line
    monkeypatch.undo()
    pytest.importorskip("pyarrow")
    assert "cannot be read" in catch_line(Samples(file=str(file)).load)
    pd.DataFrame(FRAME).to_parquet(file)
    columns = {"features": ("x_0", "x_1"), "label": "rsrp"}
    data = Samples(file=str(file), **columns)
    same = Samples.from_table(pd.DataFrame(FRAME), **columns)
    assert_array_equal(take_all(data, 2).train.x, take_all(same, 2).train.x)
    pd.DataFrame({"x": PLACES.tolist(), "y": np.array(["a", "b"])[CLASSES % 2]}).to_parquet(file)
    listed = Samples(file=str(file)).load()
    assert_array_equal(listed.x, PLACES)
    assert_array_equal(listed.label, CLASSES % 2)


def test_a_data_set_of_torch_is_its_arrays():
    torch = pytest.importorskip("torch")
    pairs = torch.utils.data.TensorDataset(torch.from_numpy(PIXELS), torch.from_numpy(CLASSES))
    assert Samples.from_dataset(pairs).digest == Samples.from_arrays(x=PIXELS, y=CLASSES).digest


# -- owners


DATA = {"x": PIXELS, "y": CLASSES, "x_m": PLACES[:, 0], "y_m": PLACES[:, 1]}
DIVISIONS = [
    LabelSkew(iid=1),
    Dirichlet(alpha=0.1),
    QuantitySkew(),
    QuantitySkew(alpha=0.3),
    NearPlace(),
]


@pytest.mark.parametrize("division", DIVISIONS, ids=repr)
@pytest.mark.parametrize("n_ue", [1, 7, 60])
def test_no_sample_has_two_owners(division, n_ue):
    if n_ue == 60 and isinstance(division, LabelSkew):
        return
    data = Samples.from_arrays(**DATA, partition=division)
    state = data.start(n_ue, RNG)
    assert len(np.unique(state.index)) == len(state.index)
    assert set(state.ue) == set(range(n_ue))
    if isinstance(division, QuantitySkew | NearPlace) and division != QuantitySkew():
        assert len(state.index) == 60
    assert_array_equal(data.start(n_ue, RNG).index, state.index)


def test_a_small_alpha_gives_few_ues_most_samples():
    count = 20_000
    arrays = {"x": np.zeros((count, 1)), "y": np.arange(count) % 2}
    sizes = []
    for alpha in (0.05, 1e4, None):
        data = Samples.from_arrays(**arrays, partition=QuantitySkew(alpha=alpha), hold_out=0.0)
        sizes.append(np.sort(np.bincount(data.start(100, RNG).ue)))
    few, many, equal = sizes
    assert few[-10:].sum() > 0.5 * count
    assert few[0] >= 1
    assert few.sum() == many.sum() == count
    assert_allclose(many, 200, rtol=0.35)
    assert_array_equal(equal, 200)


def test_samples_belong_to_the_nearest_seed():
    data = Samples.from_arrays(**DATA, partition=NearPlace(), hold_out=0.0)
    state = data.start(6, RNG)
    owner = state.ue[np.argsort(state.index)]
    away = np.linalg.norm(PLACES[:, None] - PLACES[None], axis=2)
    seeds = [
        [s for s in range(60) if owner[s] == k] for k in range(6)
    ]  # some choice of one sample each makes the cells of all
    found = 0
    import itertools

    for choice in itertools.islice(itertools.product(*seeds), 200_000):
        if (owner == away[:, choice].argmin(axis=1)).all():
            found += 1
            break
    assert found


def test_what_divides_nothing_is_refused():
    numbers = {"x": PIXELS, "y": CLASSES * 0.5}
    data = Samples.from_arrays(**numbers, partition=Dirichlet())
    assert "labels are numbers; take quantity" in catch_line(data.start, 4, RNG)
    data = Samples.from_arrays(**numbers, partition=NearPlace())
    assert "no places; take quantity" in catch_line(data.start, 4, RNG)
    data = Samples.from_arrays(**numbers)
    assert "learning.data.samples: ue60 is to hold 1 of 60" in catch_line(data.start, 61, RNG)
    data = Samples.from_arrays(**numbers, ue=np.arange(60) // 6)
    line = catch_line(data.start, 4, RNG)
    assert line.startswith("world.ues.count: samples belong to 10 UEs, and the world has 4")


def test_held_out_samples_train_nobody():
    data = Samples.from_arrays(**DATA, hold_out=0.25)
    taken = take_all(data, 5)
    assert taken.train.count.tolist() == [9] * 5
    assert np.bincount(taken.held_out.ue).tolist() == [3] * 5
    _, later = play_windows(data, 5, (range(5), 0.0), (range(5), 60.0))
    assert_array_equal(later.train.x, taken.train.x)
    assert len(later.held_out) == 0
    both = np.concatenate([taken.train.x, taken.held_out.x])
    assert len(np.unique(both, axis=0)) == 60
    marked = Samples.from_arrays(**DATA, held_out=CLASSES == 2)
    taken = take_all(marked, 4)
    assert set(taken.held_out.y) == {2}
    assert set(taken.held_out.ue) == {-1}
    assert taken.train.count.sum() == 48
    assert 2 not in taken.train.y
    owned = take_all(Samples.from_arrays(**DATA, held_out=CLASSES == 2, ue=CLASSES % 2), 2)
    assert set(owned.held_out.ue) == {0}


# -- time


def test_samples_arrive():
    """UE 0 owns 0 to 9, one a second in any order; UE 1 is away at first."""
    order = DRAW.permutation(20)
    arrays = {"x": np.arange(20.0)[order], "y": 0.5 * order, "ue": order // 10}
    arrays["time_s"] = order % 10
    windows = [([0], 3.0), ([0, 1], 6.5), ([0, 1], 6.9), ([], 8.0), ([0, 1], 99.0)]

    def list_inputs(**keys):
        data = Samples.from_arrays(**arrays, hold_out=0.0, **keys)
        return [
            [np.asarray(x)[:, 0].tolist() for _, x in taken.train.list_samples()]
            for taken in play_windows(data, 2, *windows)
        ]

    first, late = [*range(4)], [*range(10, 17)]
    assert list_inputs(memory="round") == [
        [first],
        [[4, 5, 6], late],
        [],
        [],
        [[7, 8, 9], [17, 18, 19]],
    ]
    whole = [*range(7)], late
    assert list_inputs() == [
        [first],
        [*whole],
        [*whole],
        [],
        [[*range(10)], [*range(10, 20)]],
    ]
    some = list_inputs(memory=2)
    assert [len(rows) for rows in some] == [1, 2, 2, 0, 2]
    assert some[1][0][2:] == [4, 5, 6]
    for a, b, middle in (*some[1][0][:2], 2), (*some[4][0][:2], 3), (*some[4][1][:2], 13):
        assert a < middle <= b  # one of each half of the time before
    assert len(some[4][1]) == 5


# -- worlds


def test_degrees_become_metres_of_the_world():
    lat = 52.0 + np.arange(4) * 1e-4
    lon = np.full(4, 4.0)
    signals = Samples.from_arrays(lat=lat, lon=lon, y=-90.0 - np.arange(4))
    assert {"positions", "signals"} <= signals.offers
    made_up = signals.fit_world(AREA, None).load()
    assert made_up.format is None
    assert_allclose(made_up.x[:, 0], 50, atol=1e-6)
    assert_allclose(np.diff(made_up.x[:, 1]), 11.127, atol=2e-3)
    assert_allclose(made_up.x[:, 1].mean(), 50, atol=1e-6)
    placed = signals.fit_world(AREA, (52.0, 4.0)).load()
    assert_allclose(placed.x[0], 0, atol=1e-6)
    line = catch_line(signals.fit_world, AREA, (52.01, 4.0))
    assert "4 of 4 places are outside of the area of the world (x 0 to 100 m" in line
    beside = Samples.from_arrays(x=PIXELS[:4], y=CLASSES[:4], lat=lat, lon=lon)
    assert not {"positions", "signals"} & beside.offers
    assert len(beside.fit_world(AREA, (52.01, 4.0)).load().place) == 4


def test_a_part_says_what_it_has(tmp_path):
    classes = Samples.from_arrays(x=PIXELS, y=CLASSES)
    numbers = Samples.from_arrays(x=PIXELS, y=CLASSES * 1.0)
    named = Samples.from_arrays(x=PIXELS, y=np.array(["b", "a", "c"])[CLASSES % 3])
    assert "class labels" in classes.offers
    assert "real labels" in numbers.offers
    assert numbers.read_sample_format().classes == 0
    assert_array_equal(named.load().y, np.array([1, 0, 2])[CLASSES % 3])
    assert classes.digest != numbers.digest
    changed = PIXELS.copy()
    changed[7, 1, 2, 3] ^= 1
    assert Samples.from_arrays(x=changed, y=CLASSES).digest != classes.digest
    assert "arrays of Python are not kept" in catch_line(Samples().load)
    file = write_arrays(tmp_path, x=PIXELS, y=CLASSES)
    data = Samples(file=str(file))
    assert data.digest == ""
    assert data.read_sample_format().classes == 5
    np.savez(file, x=PIXELS, y=CLASSES % 2, ue=CLASSES)
    assert data.read_sample_format().classes == 2  # the file has changed


def test_attacks_on_maps_run_on_signals_of_ones_own(tiny, tmp_path):
    places = DRAW.uniform(10, 190, (400, 2))
    rsrp_dbm = -60 - 20 * np.log10(1 + np.linalg.norm(places - 100, axis=1))
    arrays = {"x_m": places[:, 0], "y_m": places[:, 1], "y": rsrp_dbm}
    file = write_arrays(tmp_path, **arrays, time_s=np.arange(400) % 100)
    changes = {
        "learning.data": {"kind": "samples", "file": str(file), "partition": {"kind": "place"}}
    }
    summary = run(tiny(changes), tmp_path / "r")
    assert summary["rounds.played"] == 2
    assert np.isfinite(summary["utility.rmse_db"])
    run(tiny(changes), tmp_path / "again")
    for name in ("rounds", "leakage", "estimates", "updates"):
        tables = [(tmp_path / r / f"{name}.csv").read_bytes() for r in ("r", "again")]
        assert tables[0] == tables[1]
    assert len((tmp_path / "r/leakage.csv").read_text().splitlines()) > 1


def test_a_module_learns_classes_of_ones_own_with_every_partition(tiny, tmp_path):
    """Bytes of colour images; interrupted, a run goes on to the same bytes."""
    x = DRAW.integers(0, 100, (200, 3, 6, 5), np.uint8)
    y = np.arange(200) % 3
    x[:, 0] += (50 * y)[:, None, None].astype(np.uint8)
    places = {"x_m": y * 100.0, "y_m": np.arange(200.0)}
    file = write_arrays(tmp_path, x=x, y=y, **places, time_s=np.arange(200) % 90)
    learner = {"kind": "torch", "module": "perceptron", "batch_share": 0.5, "learning_rate": 0.1}
    accuracies = []
    for kind in ("dirichlet", "label-skew", "quantity", "place"):
        partition = {"kind": kind} | ({"iid": 1} if kind == "label-skew" else {})
        data = {"kind": "samples", "file": str(file), "partition": partition, "memory": 50}
        changes = {"learning.data": data, "learning.learner": learner, "learning.attacks": []}
        study = tiny(changes | {"world.duration_s": 300})
        summary = run(study, tmp_path / kind)
        accuracies.append(summary["utility.accuracy_percent"])
        assert summary["samples.count"] > 200
    assert max(accuracies) > 60
    run_in_two(study, tmp_path / "halved", lambda current: current.done >= 2)
    for name in ("rounds", "updates", "final"):
        tables = [(tmp_path / r / f"{name}.csv").read_bytes() for r in ("place", "halved")]
        assert tables[0] == tables[1]
    places = {"learning.attacks": [{"kind": "closed-form"}]}
    with pytest.raises(ValueError, match="network's inputs must be positions"):
        tiny(changes | places)


def test_a_missing_file_is_named_before_a_run(tiny, tmp_path, capsys):
    file = write_tiny(
        tmp_path / "study.yaml", {"learning.data": {"kind": "samples", "file": "no.npz"}}
    )
    assert main(["run", str(file), "--out", str(tmp_path / "r"), "--quiet"]) == 2
    line = capsys.readouterr().err
    assert "no.npz: cannot be read (No such file" in line
    assert line.count("\n") == 1
    assert not (tmp_path / "r").exists()
