"""How far runs of several are while they are played."""

import json
from types import SimpleNamespace

from pytest import approx, mark

from scenarios.app.run.job import Job


@mark.parametrize(
    ("rows", "share"),
    [("1,86400\n2,172800\n", 0.2), ("", 0.0), ("1\n", 0.0), ("1,\n", 0.0), (None, 0.0)],
)
def test_a_run_under_way_is_as_far_as_its_records(tmp_path, rows, share):
    (tmp_path / "manifest.json").write_text(json.dumps({"duration_s": 864_000.0}))
    if rows is not None:
        (tmp_path / "rounds.csv").write_text("round,time_s\n" + rows)
    job = SimpleNamespace(folder=tmp_path, kind=SimpleNamespace(record="manifest.json"))
    assert Job.measure_share(job) == approx(share)
