"""Copies of frozen dataclasses, and modules that are loaded later."""

import sys
from dataclasses import dataclass

import numpy as np
import pytest

from netsim.altered import altered
from netsim.later import Later


@dataclass(frozen=True)
class Pair:
    a: int
    b: int = 2


def test_a_copy_has_the_new_fields_and_the_others_as_they_were():
    first = Pair(1, 5)
    copy = altered(first, a=7)
    assert copy == Pair(7, 5) and first == Pair(1, 5) and type(copy) is Pair
    with pytest.raises(AttributeError):
        copy.a = 8


def test_a_module_is_loaded_when_something_of_it_is_first_asked_for(tmp_path, monkeypatch):
    (tmp_path / "made_up_later.py").write_text("VALUE = [3]\n")
    monkeypatch.syspath_prepend(tmp_path)
    later = Later("made_up_later")
    assert "made_up_later" not in sys.modules
    value = later.VALUE
    assert value == [3] and later.VALUE is value is sys.modules.pop("made_up_later").VALUE
    with pytest.raises(AttributeError, match="NOTHING"):
        _ = Later("netsim.units").NOTHING


def test_powers_of_another_number_than_ues_are_refused_for_a_copy_too():
    from netsim.errors import BadInput
    from netsim.radio.uplink import Cohort

    n = np.zeros(2)
    cohort = Cohort(np.arange(2), np.zeros(2, dtype=int), np.ones((2, 1)), None, n, np.ones(2, dtype=int), n, n, n)
    assert cohort.at_power(n + 1).power_w.tolist() == [1, 1]
    with pytest.raises(BadInput, match="shape"):
        cohort.at_power(np.zeros(3))
