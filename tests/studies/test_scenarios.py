"""Bundled scenarios are legal at every point of their sweeps (tests/golden plays each of them)."""

import os
import pickle
import re

import pytest
from pytest import mark

from scenarios.app.cli.ask import STUDIES
from scenarios.app.study.describe import build_model
from scenarios.app.study.load import Scenario, list_bundled, load
from scenarios.app.study.study import Study
from scenarios.app.study.yaml_document import parse_document


def needs_data(name):
    """Real data are not bundled: scenarios on them run where the data are."""
    if "${NETSIM_DATA}" in list_bundled()[name].read_text() and "NETSIM_DATA" not in os.environ:
        pytest.skip("NETSIM_DATA is not set: no real data here")


@mark.parametrize("name", list_bundled())
def test_bundled_sweeps_are_legal_at_every_point(name):
    from scenarios.app.run.sweep import plan_points, resolve_points

    needs_data(name)
    sweep = Scenario.from_source(name)
    if sweep.study.vary is not None:
        found = resolve_points(sweep)
        assert [scenario.seed for _, scenario in found] == [
            point.seed for point in plan_points(sweep.study, {})
        ]
        assert re.search(
            rf'^"?{name}"? = "run \d.*, sweep of {len(found)}:', STUDIES.read_text(), re.MULTILINE
        )


@mark.parametrize("name", list_bundled())
def test_what_is_played_is_what_the_folder_says(name):
    """The study of a job, which travels to workers, is that of its `study.yaml`."""
    from scenarios.app.run.runner import build_run_job

    needs_data(name)
    job = pickle.loads(pickle.dumps(build_run_job(load(name), "out")))
    assert build_model(Study, parse_document(job.text)) == job.study
