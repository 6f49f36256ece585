"""The walk of docs/own.md, as a reader types it: in a folder outside the repository."""

import re
import runpy

from conftest import ROOT
from forked import fork_work

PAGE = (ROOT / "docs/own.md").read_text()


def read_file_block(name):
    comments = r"(?:<!--[^\n]*-->\n)*"
    pattern = rf"<!-- test: file {re.escape(name)} -->\n{comments}```python\n(.*?)```"
    return re.search(pattern, PAGE, re.DOTALL)[1]


def walk():
    runpy.run_path("walk.py", run_name="__main__")


def test_the_walk_runs_from_outside_the_repository(tmp_path):
    """Own module, own samples, noise and an attack over NOMA, in less than 60 lines."""
    files = {name: read_file_block(name) for name in ("nets.py", "walk.py")}
    lines = [line for text in files.values() for line in text.splitlines() if line.strip()]
    assert len(lines) < 60
    assert f"\n{len(lines)} lines" in PAGE
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    done = fork_work(tmp_path, walk)
    assert done.returncode == 0, done.stderr[-2000:]
    named, errors = (
        [float(value) for value in re.findall(pattern, done.stdout)]
        for pattern in (r"([\d.]+) % of the homes", r"map error ([\d.]+) dB")
    )
    assert named[0] >= 75 > 40 > named[1]
    assert len(errors) == 2
    assert max(errors) < 10
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix) == ["nets.py", "walk.py"]
