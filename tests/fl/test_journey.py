"""An update on its way: rows, names and shapes as docs/design.md draws them."""

import inspect
import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tabled import cases

from fl.round import server as server_of_runs
from fl.round.uploads import Flight, Uploads
from netsim.radio.transmissions import SentUploads
from scenarios.app.result import run

PAGE = Path(__file__).parents[2] / "docs" / "design.md"
EAVESDROPPER = {"viewpoint": "eavesdropper", "observes": "updates", "position_m": [30, 40]}
STEPS = ("prepare_uploads", "receive_uploads", "merge_uploads", "run_attacks")
NOISY = {"kind": "noma", "decoding": "noisy", "norm_bound": 1.0}


@pytest.fixture
def play_tiny(tiny, tmp_path, monkeypatch):
    """Of a run with these changes: what each step of its phases was given and gave, by the name of
    the step."""
    steps = {}

    def keep_calls(name):
        step = getattr(server_of_runs, name)

        def watch(*arguments):
            result = step(*arguments)
            steps.setdefault(name, []).append((arguments, result))
            return result

        monkeypatch.setattr(server_of_runs, name, watch)

    def play(changes):
        for name in STEPS:
            keep_calls(name)
        run(tiny(changes), tmp_path)
        return steps

    return play


def test_the_page_has_every_column_of_uploads_once():
    table = PAGE.read_text().partition("| filled in | columns |")[2].partition("\n\n")[0]
    cells = "".join(line.split("|")[2] for line in table.strip().splitlines()[1:])
    expected = sorted(field.name for field in fields(Uploads))
    assert sorted(re.findall(r"`(\w+)`", cells)) == expected


def test_the_page_names_modules_that_are_there_and_steps_in_the_order_of_the_code():
    journey = PAGE.read_text().partition("## The journey of an update")[2].partition("\n## ")[0]
    named = re.findall(r"`((?:fl|netsim|rl|scenarios)/[\w/]+(?:\.py|/))`", journey)
    assert len(named) > 20
    assert not [name for name in named if not (PAGE.parents[1] / name).exists()]
    letters = "".join(dict.fromkeys(re.findall(r"^\| ([a-m]) \w", journey, re.MULTILINE)))
    code = inspect.getsource(server_of_runs.LearningServer.play)
    assert letters == "".join(dict.fromkeys(re.findall(r"\b([a-m])  \w", code))) == "abcdefghijklm"


@pytest.mark.parametrize(
    "enough, ues",
    cases("""
    1, [4]
    2, [4, 7, 2]
    3, None
    """),
)
def test_a_buffer_ends_with_all_rows_of_the_ue_that_fills_it(enough, ues):
    ue = np.array([4, 4, 7, 2, 2, 9])
    decoded = np.array([True, True, False, True, True, False])
    first = np.unique(ue, return_index=True)[1]
    rows = SimpleNamespace(
        ue=ue,
        first_rows=first,
        channel=SimpleNamespace(decoded=decoded),
        select=lambda buffer: ue[buffer],
    )
    buffer = Flight(arrived=rows).find_buffer(enough)
    assert (None if buffer is None else list(dict.fromkeys(buffer.tolist()))) == ues
    assert buffer is None or buffer.tolist() == [
        ue_of_row for ue_of_row in ue.tolist() if ue_of_row in ues
    ]


@pytest.mark.parametrize("air", [False, True])
def test_an_update_keeps_its_row_from_step_to_step(play_tiny, air):
    interface = {"world.radio.dynamic_uplink": {"link_adaptation": "grant"}} if air else {}
    steps = play_tiny({"world.radio.uplink": NOISY, "learning.threat": EAVESDROPPER, **interface})
    phases = list(zip(*(steps[name] for name in STEPS), strict=True))
    assert len(phases) == 2
    for departed, received, merged, attacked in phases:
        (_, phase, local, _), (left, sending, _) = departed
        n = len(local.ue)
        k = len(np.unique(local.ue))
        d = phase.model.parameters.shape[1]
        assert left.made.rows(slice(None)).shape == left.sent.rows(slice(None)).shape == (n, d)
        assert (
            len(sending.cohort.ue) == len(sending.cohort.power_w) == len(sending.at_antenna.ue) == k
        )
        assert (sending.cohort.ue[sending.of_row] == left.ue).all()
        assert (sending.planned is None) == air
        assert air or len(sending.planned.sinr) == k
        assert left.uplink is left.got is left.heard is left.group is None
        arrived = received[1]
        assert arrived.made is left.made
        assert arrived.sent is left.sent
        assert isinstance(arrived.uplink, SentUploads) == air
        assert len(arrived.channel.decoded) == len(arrived.overheard.decoded) == n
        noisy = arrived.channel.noise_std > 0
        for decoded in (arrived.got, arrived.heard):
            assert decoded.rows(slice(None)).shape == (n, d)
            assert ((decoded.rows(noisy) != left.sent.rows(noisy)).any(axis=1)).all()
            assert noisy.any()
        step = merged[1]
        assert step.view is None
        assert step.model.parameters.shape == phase.model.parameters.shape
        assert (step.uploads.weight > 0).tolist() == arrived.channel.decoded.tolist()
        assert step.uploads.got is arrived.got
        expected = (arrived.overheard.decoded.sum(), d)
        assert attacked[1].view.update.shape == expected
