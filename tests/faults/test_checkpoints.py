"""What may befall a checkpoint: cut off anywhere, of other versions, studies and seeds, or written
by somebody else."""

import copy
import gc
import itertools
import shutil
import weakref

import numpy as np
import pytest
from accidents import check_refusal, commands, forge_checkpoint, interrupt_command, places_of_arrays
from pytest import fixture, mark
from thinned import one_in

from netsim.checkpoint import load_tree, save_tree
from scenarios.app.cli.commands import main
from scenarios.app.run import simulate

KINDS = ("run", "radio")
CUTS = {"empty": lambda n: 0, "middle": lambda n: n // 2, "last byte": lambda n: n - 1}


@fixture(scope="module")
def stops(tmp_path_factory):
    """Kind -> the words of a command that was interrupted, its folder, and that of one which was
    not."""
    root = tmp_path_factory.mktemp("stopped")
    result = {}
    with pytest.MonkeyPatch.context() as patch:
        for kind, words in commands(root).items():
            assert main([*words, "--out", str(root / f"whole-{kind}")]) == 0
            interrupt_command([*words, "--out", str(root / f"cut-{kind}")], patch)
            result[kind] = words, root / f"cut-{kind}", root / f"whole-{kind}"
    return result


@fixture
def take_copy(stops, tmp_path):
    """Words and folder of a command that was interrupted, which a test may change; and the whole
    one's."""

    def take(kind):
        words, cut, whole = stops[kind]
        shutil.copytree(cut, tmp_path / kind)
        return [*words, "--out", str(tmp_path / kind)], tmp_path / kind, whole

    return take


def same_results(folder, whole):
    names = [p.name for p in sorted(whole.glob("*.csv"))] + ["summary.json"]
    assert len(names) > 2
    assert [n for n in names if (folder / n).read_bytes() != (whole / n).read_bytes()] == []


@mark.parametrize("cut", CUTS)
@mark.parametrize("kind", [*KINDS, "training"])
def test_a_checkpoint_that_is_cut_off_is_refused(kind, cut, take_copy, capsys):
    words, folder, _ = take_copy(kind)
    path = folder / "checkpoint.npz"
    path.write_bytes(path.read_bytes()[: CUTS[cut](path.stat().st_size)])
    check_refusal(words, folder, capsys, str(path), "damaged", "--replace")


@mark.parametrize("kind", KINDS)
@mark.parametrize(
    "change, message",
    [
        ({"program": "0.0.1"}, "is of netsim 0.0.1, this is"),
        ({"key": "another"}, "is of another study or seed); delete it"),
        ({"time_s": "soon"}, "does not fit this study (could not convert"),
        ({"time_s": 1e9}, "does not fit this study (time_s is 1e+09, and this study holds 0 to"),
        ({"world": {}}, "does not fit this study (the tree is not the fields"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(kind, change, message, take_copy, capsys):
    words, folder, whole = take_copy(kind)
    forge_checkpoint(folder / "checkpoint.npz", lambda tree: tree.update(change))
    check_refusal(words, folder, capsys, str(folder / "checkpoint.npz"), message, "--replace")
    assert main([*words, "--replace"]) == 0
    same_results(folder, whole)


@mark.parametrize("kind", KINDS)
@mark.parametrize("way", [["--seed", "9"], ["--set", "world.duration_s=180"]])
def test_another_seed_or_study_leaves_an_unfinished_run_alone(kind, way, take_copy, capsys):
    words, folder, _ = take_copy(kind)
    check_refusal(
        [*words, *way],
        folder,
        capsys,
        str(folder),
        "another study, seed or program version",
        "--replace",
    )


def find_node(tree, way):
    for key in way[:-1]:
        tree = tree[key]
    return tree, way[-1]


FORGERIES = {
    "another type": lambda a: a.astype(complex),
    "text": lambda a: np.full(a.shape, "x"),
    "one more row": lambda a: np.zeros((len(a) + 1, *a.shape[1:]), a.dtype) if a.size else None,
    "another dimension": lambda a: a[..., None],
    "no dimension": lambda a: a.reshape(-1)[:1].reshape(()) if a.size else None,
    "nothing": lambda a: a[:0] if a.size else None,
}


@mark.parametrize("kind, forgery", one_in(4, itertools.product(KINDS, FORGERIES)))
def test_forged_arrays_are_one_line_or_change_nothing_but_figures(
    kind, forgery, take_copy, out, capsys
):
    """A sample of all arrays, each by itself; one that may have any number of rows may have any
    other."""
    words, folder, _ = take_copy(kind)
    whole = load_tree(folder / "checkpoint.npz")
    refusals = 0
    ways = list(places_of_arrays(whole))[:: 6 if kind == "run" else 2]
    for way in ways:
        tree = copy.deepcopy(whole)
        node, key = find_node(tree, way)
        if (second := FORGERIES[forgery](node[key])) is None:
            continue
        node[key] = second
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(folder, out)
        save_tree(out / "checkpoint.npz", tree)
        capsys.readouterr()
        code = main([*words[:-1], str(out)])
        printed = capsys.readouterr().err
        assert (
            code in (0, 2) and printed.count("\n") == (code == 2) and "Traceback" not in printed
        ), (
            way,
            code,
            printed,
        )
        refusals += code == 2
    assert refusals > len(ways) / 4


def test_a_checkpoint_that_fails_in_play_is_refused(take_copy, monkeypatch, capsys):
    words, folder, whole = take_copy("run")
    with monkeypatch.context() as patch:
        patch.setattr(
            simulate.LearningServer, "serve", lambda *part: iter([1 / 0]) if part else None
        )
        check_refusal(
            words,
            folder,
            capsys,
            "cannot go on from it, ZeroDivisionError (division by zero); delete it",
        )
    (folder / "checkpoint.npz").unlink()
    assert main(words) == 0
    same_results(folder, whole)


def test_saving_and_loading_keep_no_array(tmp_path):
    """A cycle would hold the whole state of a run until garbage is looked for, which is seldom."""
    gc.collect()
    gc.disable()
    try:
        saved = np.arange(100.0)
        save_tree(tmp_path / "c.npz", {"a": [saved, {"b": saved[::2]}]})
        tree = load_tree(tmp_path / "c.npz")
        loaded = tree["a"][0]
        assert np.array_equal(loaded, saved)
        assert np.array_equal(tree["a"][1]["b"], saved[::2])
        seen = [weakref.ref(saved), weakref.ref(loaded)]
        del saved, loaded, tree
        assert [ref() for ref in seen] == [None, None]
    finally:
        gc.enable()
