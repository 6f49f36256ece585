"""A sample of mutated inputs; the whole of them is played by `python tests/fuzz/fuzz.py`."""

import fuzz_cases
from fuzz_cases import FAMILIES
from fuzz_workers import findings
from pytest import fixture, mark
from valid_inputs import make_inputs

SAMPLE = 100


@fixture(scope="module")
def valid(tmp_path_factory):
    return make_inputs(tmp_path_factory.mktemp("valid"))


def test_a_sample_of_mutated_inputs_runs_or_gives_one_line(valid, tmp_path):
    assert findings(valid, "sample", range(SAMPLE), tmp_path) == []


@mark.slow
@mark.parametrize("family", sorted(FAMILIES.keys() - {"command line"}))
def test_what_is_not_changed_is_taken(family, valid, tmp_path, monkeypatch):
    """Or nothing behind the first line of a reader would ever be tried."""
    monkeypatch.setattr(fuzz_cases, "changed", lambda data, draw, ways: data)
    monkeypatch.setattr(fuzz_cases, "tree_saved", lambda data, draw: data)
    ends = {}
    findings(
        valid,
        "as it is",
        range(8),
        tmp_path,
        family,
        lambda number, code, message: ends.update({number: (code, message)}),
    )
    taken = [number for number, (code, message) in ends.items() if code == 0 and not message]
    assert len(taken) >= 4, ends
