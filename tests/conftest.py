"""Shared small studies. One thread everywhere: what a run promises of itself."""

import copy
import gc
import json
import os
import sys
from functools import cache
from importlib import metadata
from pathlib import Path

import pytest

from netsim.compiled import compute_code_digest, find_cache_folder

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("NETSIM_WORKERS", "1")
if not os.environ.get("NETSIM_DATA"):
    os.environ.pop("NETSIM_DATA", None)  # set to nothing it names no folder
# Hundreds of processes are started: without byte code each compiles all modules anew, for most of a
# second, and each worker rewrites the assertions of all test modules anew, for twenty.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Every run states versions of libraries, whose metadata never change here: a twentieth of a small one.
metadata.version = cache(metadata.version)
# Tests put their caches elsewhere, and each process with another one compiles for half a minute.
# Not among those of states of the code: whoever makes one there removes the oldest. Of each state
# its own, for numba sees no change of a function in another file.
COMPILED = find_cache_folder() / "tests" / compute_code_digest("netsim", "fl", word=b"compiled")
os.environ.setdefault("NUMBA_CACHE_DIR", str(COMPILED))


def pytest_configure(config):
    """Warnings that tests cause fail, as those of the packages do."""
    names = "|".join(sorted(path.stem for path in Path(__file__).parent.rglob("*.py")))
    config.addinivalue_line("filterwarnings", rf"error:::({names})\Z")


def pytest_collection():
    """Nothing of what is collected is garbage: looking for it takes a seventh of the time."""
    gc.disable()


def pytest_collection_finish():
    """What there is by now stays: who looks for garbage passes over it."""
    gc.freeze()
    gc.enable()


ROOT = Path(__file__).parents[1]
SHORT = [
    "--set",
    "world.duration_s=259200",
    "--set",
    "learning.round_s=86400",
    "--set",
    "learning.learner.hidden=[8]",
]
"""Words that make a run of campus last three rounds."""
TINY = {
    "title": "tiny",
    "seed": 3,
    "world": {
        "duration_s": 120,
        "tick_s": 10,
        "city": {"kind": "open-field", "width_m": 400, "height_m": 300},
        "base_stations": [
            {"name": "a", "position_m": [100, 100]},
            {"name": "b", "position_m": [300, 200]},
        ],
        "ues": {"count": 4, "mobility": {"kind": "random-waypoint"}, "measurement_period_s": 5},
        "radio": {"shadowing": {"kind": "correlated"}, "measurement_noise_db": 1.0},
    },
    "learning": {
        "round_s": 60,
        "learner": {"kind": "rsrp-net", "hidden": [6, 4], "activation": "tanh"},
        "attacks": [{"kind": "closed-form"}],
        "leakage": {"random_baseline_draws": 20, "directions": 12},
        "references": {"central": False, "kriging_samples": 0},
    },
}


def build_study_world(study):
    """The world of a study, at time 0."""
    from netsim.rng import Streams
    from netsim.world.build import build_world

    return build_world(study.world, Streams(study.seed), study.round_s)


def write_tiny(path, changes=None):
    """Write the tiny study as a file, with changes by dotted path; returns its path."""
    from scenarios.app.study.load import set_value
    from scenarios.app.study.yaml_document import parse_document

    document = parse_document(json.dumps(TINY), "tiny")
    for key, value in copy.deepcopy(changes or {}).items():
        set_value(document, key, value)
    path.write_text(json.dumps(document.data, indent=1))
    return path


def write_campus(path, text):
    """Write campus of two days as a file, with more text; returns its path."""
    campus = (ROOT / "scenarios/campus.yaml").read_text()
    path.write_text(campus.replace("6652800", "172800").replace("604800", "86400") + text)
    return path


@pytest.fixture(scope="session", autouse=True)
def coarse_maps():
    """Maps among results are coarse, where some test may play a run: fine ones are a third of the
    time of a tiny one."""
    yield from set_cells(20) if "scenarios" in sys.modules else [None]


@pytest.fixture(scope="module")
def fine_maps():
    """Maps among results as they are outside of tests, in a module that asks for them."""
    yield from set_cells(100)


def set_cells(number):
    """Set the number of cells along the longer side of a map, and back in the end."""
    from scenarios.app.run import play

    before = play.MAX_CELLS
    play.MAX_CELLS = number
    yield
    play.MAX_CELLS = before


@pytest.fixture(scope="session")
def tiny():
    """A study of two rounds that runs in a fraction of a second: call it with changes by dotted
    path."""
    from scenarios.app.study.describe import build_model
    from scenarios.app.study.load import set_value
    from scenarios.app.study.study import Study
    from scenarios.app.study.yaml_document import parse_document

    def make(changes=None):
        document = parse_document(json.dumps(copy.deepcopy(TINY)), "tiny")
        for path, value in (changes or {}).items():
            set_value(document, path, value)
        return build_model(Study, document)

    return make


@pytest.fixture
def play_tiny(tiny, out):
    """Plays the tiny study with changes, into `out` or another folder: call it, and it returns the
    result."""
    from scenarios.app.result import run

    return lambda changes=None, folder=out: run(tiny(changes), folder)


@pytest.fixture
def check_resumed(whole, cut, table_bytes):
    """Plays a study whole, and once more interrupted after a step of this number: call it with
    both; tables and summary are the same bytes."""
    from interrupted import run_in_two

    from scenarios.app.result import run

    def check(study, number):
        run(study, whole)
        run_in_two(study, cut, lambda event: event.done == number)
        assert table_bytes(cut) == table_bytes(whole)

    return check


@pytest.fixture(scope="session")
def tiny_run(tiny, tmp_path_factory):
    """The folder of a finished run of the tiny study; who changes it, or draws its page, takes a
    copy."""
    from scenarios.app.result import run

    folder = tmp_path_factory.mktemp("tiny") / "one"
    run(tiny(), folder)
    return folder


@pytest.fixture(scope="session")
def commuters(tiny, tmp_path_factory):
    """The folder of three commuters' run: six rounds in three days, a shared uplink; take a copy to
    change."""
    from scenarios.app.result import run

    changes = {
        "world.duration_s": 3 * 86_400,
        "world.tick_s": 1200,
        "world.ues.measurement_period_s": None,
        "world.ues.count": 3,
        "world.ues.mobility": {
            "kind": "commuter",
            "home_m": [[100, 100], [1000, 700], [300, 800]],
            "work_m": [[600, 400], [150, 700], [900, 300]],
        },
        "world.city.width_m": 1200,
        "world.city.height_m": 900,
        "learning.round_s": 43_200,
        "world.radio.uplink": {
            "kind": "noma",
            "sic_residual": 0.01,
            "decoding": "error-free",
            "deadline_s": 60,
        },
        "learning.attacks": [
            {"kind": "closed-form"},
            {"kind": "dlg", "starts": 1, "iterations": 3},
        ],
    }
    folder = tmp_path_factory.mktemp("commuters") / "run"
    run(tiny(changes), folder)
    return folder


@pytest.fixture
def out(tmp_path):
    """A folder for results, which is not there yet."""
    return tmp_path / "results"


@pytest.fixture
def whole(tmp_path):
    """A folder for a run that nothing interrupts."""
    return tmp_path / "whole"


@pytest.fixture
def cut(tmp_path):
    """A folder for a run that is interrupted."""
    return tmp_path / "cut"


@pytest.fixture
def run_command(capsys):
    """Runs a command line that is well, its first words in a text or a list: call it, and it
    returns what stands on stdout."""
    from scenarios.app.cli.commands import main

    def call(words, *rest):
        capsys.readouterr()
        assert main(split_words(words, rest)) == 0
        return capsys.readouterr().out

    return call


@pytest.fixture
def refuse_command(capsys):
    """Runs a command line that is bad input: call it as `run_command`, and it returns the one line
    on stderr."""
    from scenarios.app.cli.commands import main

    def call(words, *rest):
        capsys.readouterr()
        assert main(split_words(words, rest)) == 2
        line = capsys.readouterr().err
        assert line.count("\n") == 1, line
        return line

    return call


def split_words(words, rest):
    """The words of a command line: those of a text or a list, and more of them."""
    words = words.split() if isinstance(words, str) else words
    return [str(word) for word in (*words, *rest)]


@pytest.fixture
def data_folder():
    """The folder of real measurements, or a skip with the reason."""
    if "NETSIM_DATA" not in os.environ:
        pytest.skip("NETSIM_DATA is not set: no real data here")
    return Path(os.environ["NETSIM_DATA"])


@pytest.fixture
def table_bytes():
    """Bytes of every CSV and of the summary of a run folder, by name: call it with the folder."""

    def read(folder):
        names = [*sorted(p.name for p in Path(folder).glob("*.csv")), "summary.json"]
        return {name: (Path(folder) / name).read_bytes() for name in names}

    return read


@pytest.fixture(scope="module")
def browser():
    """A browser for the tests of a module, or a skip with the reason; as long as it lives, so does
    its event loop."""
    from browser import start_browser

    with start_browser() as opened:
        yield opened


@pytest.fixture
def show(browser):
    """Opens a file as a page: call it with its path. At the end no page may have said or fetched
    anything."""
    from browser import Pages

    pages = Pages(browser)
    yield pages
    pages.close()
