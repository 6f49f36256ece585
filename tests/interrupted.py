"""Runs that are interrupted, and then go on from their checkpoint."""

import pytest

from scenarios.app.result import run


def run_in_two(study, folder, stops):
    """Plays a study until `stops` holds of its progress, then to its end by the same call. Returns
    the summary."""

    def stop_there(progress):
        if stops(progress):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(study, folder, stop_there)
    return run(study, folder)
