"""Rounds of a world and a section `learning:`, with nothing of the application."""

import json
import subprocess
import sys

from conftest import ROOT
from refused import catch_line

from fl.round.assembly import prepare_rounds
from netsim.rng import Streams
from netsim.world.build import build_world
from scenarios.app.result import run

ALONE = """
import json, sys
from pathlib import Path

from fl.round.assembly import prepare_rounds
from fl.round.learning import Learning
from fl.round.server import LearningServer
from fl.round.state import start_state
from netsim.rng import Streams
from netsim.world.build import build_world
from netsim.world.setting import WorldSetting

world, learning, seed = json.loads(sys.argv[1])
setting = WorldSetting.model_validate_json(json.dumps(world))
learning = Learning.model_validate_json(json.dumps(learning))


class Watcher:
    def report_round(self, state, figures, now_s):
        pass

    def report_state(self, state):
        self.last = state


world = build_world(setting, Streams(seed), learning.round_s)
setup = prepare_rounds(world, learning, Path(sys.argv[2]))
watcher = Watcher()
server = LearningServer(world, setup, start_state(setup, len(world.ues)), watcher)
world.env.run(until=world.env.process(server.serve()))
print(watcher.last.played, [name for name in sys.modules if name.startswith("scenarios")])
"""


def test_rounds_need_nothing_of_the_application(tiny, tmp_path):
    """The tables of rounds that are played by `fl` alone are those of a run of the same study."""
    study = tiny()
    values = json.dumps(
        [study.world.model_dump(mode="json"), study.learning.model_dump(mode="json"), study.seed]
    )
    alone = tmp_path / "alone"
    alone.mkdir()
    printed = subprocess.run(
        [sys.executable, "-c", ALONE, values, alone],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    ).stdout
    assert printed == "2 []\n"
    whole = run(study, tmp_path / "whole").folder
    names = {path.name for path in alone.iterdir()}
    assert {"rounds.csv", "leakage.csv", "updates.csv"} <= names
    for name in names:
        assert (whole / name).read_bytes().startswith((alone / name).read_bytes())


def test_a_world_in_which_rounds_cannot_be_played_is_refused_in_a_line(tiny, tmp_path):
    study = tiny({"learning.leakage": {"target": "ue9"}})
    world = build_world(study.world, Streams(study.seed), study.round_s)
    line = catch_line(prepare_rounds, world, study.learned, tmp_path)
    assert line.startswith("learning.leakage.target: no UE is called 'ue9'")
