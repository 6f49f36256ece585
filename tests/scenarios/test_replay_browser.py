"""The replay in a browser."""

import pytest

from scenarios.app.report.report import report
from scenarios.app.run.runner import run


@pytest.fixture(scope="module")
def page_file(tiny, tmp_path_factory):
    folder = tmp_path_factory.mktemp("replay") / "run"
    run(tiny(), folder)
    return report(folder)


def test_the_page_says_and_fetches_nothing(show, page_file):
    page = show(page_file)
    assert page.title() == "tiny"
