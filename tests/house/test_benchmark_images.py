"""The images' benchmark: its rows say everything, and bars decide."""

import json

import torch

from benchmarks import __main__ as command
from benchmarks import images
from fl.power.bound import Convergence, Objective

TINY = images.Bench(3, 40, 10, 50, round_s=1e9, vectors_s=1e-12, plan_s=1e9)


def test_every_row_is_there_and_the_bar_decides(monkeypatch, capsys):
    monkeypatch.setitem(command.IMAGES, "small", TINY)
    monkeypatch.setattr(command, "one_core", lambda: None)  # the test's own process is not to be bound
    threads = torch.get_num_threads()
    command.main(["images", "--seconds", "0", "--sizes", "small"])
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert torch.get_num_threads() == threads and all(row["subject"] == "images" for row in found)
    assert [row["met"] for row in found] == [True, False, False, False, True]
    assert "21,880 parameters" in found[0]["work"] and "50 power vectors" in found[1]["work"]


def test_the_full_size_is_the_study_s_and_its_plan_is_no_corner():
    full = command.IMAGES["full"]
    assert (full.devices, full.images, full.rounds, full.round_s) == (15, 4000, 100, 9.0)
    objective = Objective(images.trajectory(full), Convergence())
    switch = images.plateaus(objective, images.Limits()).switch
    assert 0 < switch < full.rounds
