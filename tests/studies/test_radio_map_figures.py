"""Radio maps at full size: how near attackers come, what noise does to them and to the map (bands
over two seeds)."""

import csv

import numpy as np
import pytest
from pytest import approx

from scenarios.app.result import run
from scenarios.app.study.load import load

pytestmark = pytest.mark.slow

CLIP = {"kind": "clip", "norm": 1.0, "phase": "heights"}


def leak(folder, *noise):
    """Summaries of two seeds of the first gradient, with noise or without."""
    figures = []
    for seed in (1, 2):
        study = load("radio-maps/noise", {"seed": seed, "learning.defenses": [CLIP, *noise]})
        figures.append(run(study, folder / str(seed)))
    return figures


def average(summaries, key):
    return float(np.mean([s[key] for s in summaries]))


def test_the_first_gradient_gives_everybody_away(tmp_path):
    figures = leak(tmp_path)
    assert average(figures, "attack.nu-1.centroid_error_m.inside.rms") == approx(6.1, abs=1.5)
    assert average(figures, "attack.nu-inf.centroid_error_m.inside.rms") < 3


def test_uniform_noise_leads_to_the_middle_and_not_who_takes_the_strongest_cell(tmp_path):
    figures = leak(tmp_path, {"kind": "uniform-noise", "mu": 50.0})
    assert average(figures, "attack.nu-2.centroid_error_m.inside.mean") == approx(114, abs=6)
    assert average(figures, "attack.nu-inf.centroid_error_m.inside.mean") < 10


def test_aligned_noise_leads_astray_less_with_rho_more_with_mu_and_not_who_knows_its_shape(
    tmp_path,
):
    def error(mu, rho, attack="nu-2"):
        noise = {"kind": "geometry-aligned", "mu": float(mu), "rho": float(rho)}
        return average(
            leak(tmp_path / f"{mu}-{rho}", noise), f"attack.{attack}.centroid_error_m.inside.mean"
        )

    by_rho = [error(50, rho) for rho in (1, 10, 50, 100)]
    for figures, (want, give) in zip(
        by_rho, ((284, 15), (243, 15), (186, 12), (150, 12)), strict=True
    ):
        assert figures == approx(want, abs=give)
    assert error(1, 1) < error(10, 1) < by_rho[0]
    # the same folder: a finished run is not computed twice
    assert error(50, 50, "link-filter") < 0.7


def test_a_map_is_learnt_and_noise_costs_decibels(tmp_path):
    def rounds(label, *noise):
        changes = {"seed": 2, "learning.defenses": [CLIP, *noise], "learning.attacks": []}
        run(load("radio-maps/train", changes), tmp_path / label)
        with (tmp_path / label / "metrics.csv").open() as f:
            rows = [r for r in csv.DictReader(f) if r["name"] == "mae_links_db"]
        return {int(r["round"]): float(r["value"]) for r in rows}

    plain = rounds("none")
    for last, (want, give) in {1: (15, 3), 50: (5.8, 2), 100: (3.6, 1), 200: (2.8, 0.8)}.items():
        assert plain[last] == approx(want, abs=give)
    aligned = rounds("aligned", {"kind": "geometry-aligned", "mu": 50.0, "rho": 50.0})
    uniform = rounds("uniform", {"kind": "uniform-noise", "mu": 50.0})
    assert aligned[200] == approx(4.8, abs=1)
    assert abs(aligned[200] - uniform[200]) < 0.8
