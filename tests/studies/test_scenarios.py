"""Bundled scenarios are legal at every point of their sweeps (tests/golden plays each of them)."""

import os
import re

import pytest

from scenarios.app.cli.ask import STUDIES
from scenarios.app.study.load import bundled, load


def needs_data(name):
    """Real data are not bundled: scenarios on them run where the data are."""
    if "${NETSIM_DATA}" in bundled()[name].read_text() and "NETSIM_DATA" not in os.environ:
        pytest.skip("NETSIM_DATA is not set: no real data here")


@pytest.mark.parametrize("name", bundled())
def test_bundled_sweeps_are_legal_at_every_point(name):
    from scenarios.app.run.sweep import checked_points, points

    needs_data(name)
    study = load(name)
    if study.vary is not None:
        found = checked_points(name, study, {})
        assert [of.seed for _, of in found] == [point.seed for point in points(study, {})]
        assert re.search(rf'^"?{name}"? = "run \d.*, sweep of {len(found)}:', STUDIES.read_text(), re.MULTILINE)
