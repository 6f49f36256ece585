"""The digest of code under which results are cached."""

import os
import sys

from netsim.compiled import code_digest


def test_it_hangs_on_contents_and_names_and_not_on_times(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    package = tmp_path / "made_up_package" / "inner"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("raise RuntimeError('it is imported')\n")
    (package / "a.py").write_text("A = 1\n")

    def digest():
        code_digest.cache_clear()
        return code_digest("made_up_package")

    first = digest()
    time_ns = (package / "a.py").stat().st_mtime_ns
    os.utime(package / "a.py", ns=(0, 0))
    assert digest() == first
    (package / "a.py").write_text("A = 2\n")  # of the same size
    os.utime(package / "a.py", ns=(time_ns, time_ns))
    changed = digest()
    assert changed != first
    (package / "a.py").rename(package / "b.py")
    assert digest() not in (first, changed)
    code_digest.cache_clear()


def test_sources_are_read_once_a_process():
    assert code_digest("netsim", "fl") == code_digest("netsim", "fl")
    assert code_digest.cache_info().hits >= 1
    assert code_digest("netsim") != code_digest("fl")
