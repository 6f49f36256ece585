"""Bundled scenarios are legal at every point of their sweeps (tests/golden plays each of them)."""

import os
import pickle
import re

import pytest

from scenarios.app.cli.ask import STUDIES
from scenarios.app.study.describe import build
from scenarios.app.study.load import AskedStudy, bundled, load
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import read_text


def needs_data(name):
    """Real data are not bundled: scenarios on them run where the data are."""
    if "${NETSIM_DATA}" in bundled()[name].read_text() and "NETSIM_DATA" not in os.environ:
        pytest.skip("NETSIM_DATA is not set: no real data here")


@pytest.mark.parametrize("name", bundled())
def test_bundled_sweeps_are_legal_at_every_point(name):
    from scenarios.app.run.sweep import checked_points, points

    needs_data(name)
    asked = AskedStudy.of(name)
    if asked.study.vary is not None:
        found = checked_points(asked)
        assert [of.seed for _, of in found] == [point.seed for point in points(asked.study, {})]
        assert re.search(
            rf'^"?{name}"? = "run \d.*, sweep of {len(found)}:', STUDIES.read_text(), re.MULTILINE
        )


@pytest.mark.parametrize("name", bundled())
def test_what_is_played_is_what_the_folder_says(name):
    """The study of a job, which travels to workers, is that of its `study.yaml`."""
    from scenarios.app.run.runner import run_job

    needs_data(name)
    job = pickle.loads(pickle.dumps(run_job(load(name), "out")))
    assert build(Study, read_text(job.text)) == job.study
