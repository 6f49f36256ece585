"""A sample of mutated inputs; the whole of them is played by `python tests/fuzz/fuzz.py`."""

import fuzz_cases
import pytest
from fuzz_cases import FAMILIES
from fuzz_workers import findings
from valid_inputs import made

SAMPLE = 100


@pytest.fixture(scope="module")
def valid(tmp_path_factory):
    return made(tmp_path_factory.mktemp("valid"))


def test_a_sample_of_mutated_inputs_runs_or_gives_one_line(valid, tmp_path):
    assert findings(valid, "sample", range(SAMPLE), tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("family", sorted(FAMILIES.keys() - {"command line"}))
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
        lambda number, code, said: ends.update({number: (code, said)}),
    )
    taken = [number for number, (code, said) in ends.items() if code == 0 and not said]
    assert len(taken) >= 4, ends
