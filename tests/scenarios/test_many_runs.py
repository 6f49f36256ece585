"""Sweeps of very many runs: what is read of each is bounded, pages draw a sample and say so."""

import re
from collections import Counter
from pathlib import Path

import pytest
from pages import fake_sweep

import netsim.safe
from scenarios.app.report.report import write_report
from scenarios.app.results import gathered as sampling
from scenarios.app.results.gathered import Gathered
from scenarios.app.study.study import to_study_yaml
from scenarios.app.study.yaml_document import dump_yaml

SMALL = ("manifest.json", "summary.json")


@pytest.fixture
def swept(tiny_run, tmp_path):
    """A sweep of three labels with four seeds each, copies of one run."""
    rows = [(f"label {k // 4}", k, {}) for k in range(12)]
    return fake_sweep(tiny_run, tmp_path / "sweep", rows)


def count_opened(monkeypatch, work):
    """(folder, name) -> how often a file was opened while `work` ran."""
    counted = Counter()
    real = netsim.safe._open_descriptor

    def descriptor(path, flags, is_ours):
        counted[Path(path).parent.name, Path(path).name] += 1
        return real(path, flags, is_ours)

    monkeypatch.setattr(netsim.safe, "_open_descriptor", descriptor)
    work()
    return counted


def test_of_a_run_that_is_not_drawn_only_manifest_and_summary_are_read_a_few_times(
    swept, monkeypatch
):
    monkeypatch.setattr(sampling, "MOST_DRAWN", 6)
    counted = count_opened(monkeypatch, lambda: write_report(swept))
    tables = {
        folder
        for folder, name in counted
        if re.fullmatch(r"r\d+/.*\.(csv|npz)", f"{folder}/{name}")
    }
    assert sorted(tables) == ["r0", "r11", "r2", "r4", "r7", "r9"]
    studies = {folder for folder, name in counted if name == "study.yaml"}
    assert sorted(studies) == ["r0", "r4", "r9"]  # of a label once
    for k in (1, 3, 5, 10):
        group = {name: n for (folder, name), n in counted.items() if folder == f"r{k}"}
        assert set(group) == set(SMALL)
        assert sum(group.values()) <= 6
    tables = [n for (folder, name), n in counted.items() if folder == "r0" and ".csv" in name]
    assert max(tables) == 1  # every table once
    text = (swept / "report.html").read_text()
    assert "are of a sample: 6 of 12 runs, evenly spaced" in text
    assert all(f"label {k}" in text for k in range(3))  # the table with a row a label has all


def test_all_runs_of_a_sweep_of_usual_size_are_drawn(swept, monkeypatch):
    counted = count_opened(monkeypatch, lambda: write_report(swept))
    assert {folder for folder, name in counted if name == "leakage.csv"} == {
        f"r{k}" for k in range(12)
    }
    assert "are of a sample" not in (swept / "report.html").read_text()


def test_a_sample_is_evenly_spaced_from_the_first_run_to_the_last():
    few, many = (Gathered("", [("a", Path())] * n).drawn_indices for n in (100, 1000))
    assert few == list(range(100))
    assert len(set(many)) == 100
    assert (many[0], many[-1]) == (0, 999)


def test_the_text_of_a_study_is_that_of_its_values_whatever_the_seed(tiny):
    for seed in (0, 1, 12345):
        study = tiny({"seed": seed, "title": "a\nseed: 0\nb"})
        assert to_study_yaml(study).partition("\n")[2] == dump_yaml(study.model_dump(mode="json"))
