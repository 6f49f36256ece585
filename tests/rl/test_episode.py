"""An episode as an animated picture, environments of several scenarios, and what the manual says of
them."""

import re
import sys
from pathlib import Path
from xml.etree import ElementTree

import gymnasium
import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from power_problems import allocation
from pytest import fixture, raises
from test_radio_records import record_known
from test_radio_records import study as short_study

from netsim.errors import BadInput
from rl import ONLINE
from rl.episode import draw_episode
from rl.look import FEATURES, OUTLOOK
from rl.policy import compute_ue_features
from rl.rules import build_rule
from rl.ue import UePower, UeRounds
from scenarios import load
from scenarios.app.training.environments import make_online, make_vec

SHORT = {"world.duration_s": 240}
MANUAL = Path(__file__).parents[2] / "docs/agent.md"


@fixture(scope="module")
def city():
    return load("power/city", SHORT)


class Watched(gymnasium.Wrapper):
    """An environment in which UE 1 is away, for pictures alone."""

    def reset(self, **options):
        result = super().reset(**options)
        self.places = []
        world = self.unwrapped.world
        locate = world.locate_ues

        def locate_for_pictures():
            if sys._getframe(1).f_globals["__name__"] != "rl.episode":
                return locate()
            self.places.append(locate().copy())
            self.places[-1][1] = np.nan
            return self.places[-1]

        world.locate_ues = locate_for_pictures
        return result


def test_a_picture_shows_the_episode_that_was_played(city, tmp_path, monkeypatch):
    """Of four rounds three are drawn, and of twelve UEs ten."""
    monkeypatch.setattr("rl.episode._MOST_ROUNDS", 3)
    monkeypatch.setattr("rl.episode._MOST_UES", 10)
    env = Watched(make_online(city))
    draw_episode(env, lambda seen: np.linspace(-1, 1, 12), tmp_path / "a.svg", seed=3)
    root = ElementTree.parse(tmp_path / "a.svg").getroot()
    circles = [
        [line.get("values").split(";") for line in e]
        for e in root.iter()
        if e.tag.endswith("circle")
    ]
    tracks = np.array(circles, dtype=float)
    assert tracks.shape == (10, 3, 3)
    drawn_m = np.nan_to_num(np.stack(env.places, axis=2)[:10, :, :3], nan=1e9)
    assert_allclose(tracks[:, :2], drawn_m, atol=0.05)
    assert drawn_m.max() == 1e9
    assert (np.diff(tracks[:, 2, 0]) > 0).all()
    texts = [e.text for e in root.iter() if e.tag.endswith("text")]
    assert texts[0].startswith("10 of 12 UEs")
    assert texts[2].startswith(f"reward in 3 of {len(env.places)} rounds")
    captions = [e.text for e in root.iter() if e.tag.endswith("tspan")]
    assert captions == [f"after {k} rounds, {(k + 1) / 60:.1f} h" for k in range(3)]
    assert "M250.0 190.0h0" in (tmp_path / "a.svg").read_text()  # the eavesdropper


def test_what_cannot_be_drawn_is_refused_in_one_line(city, tmp_path):
    for env, name, said in (
        (allocation(), "a.svg", "PowerAllocation, .*give netsim/OnlinePower-v0"),
        (make_online(city), "a.png", r"a\.png; give .* a name that ends in \.svg"),
        (make_online(city), "no/a.svg", "in a folder that exists"),
    ):
        with raises(BadInput, match=said):
            draw_episode(env, None, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_members_of_a_vector_are_their_own_scenarios(city):
    noisy = load("power/city", SHORT | {"world.radio.uplink.noise_figure_db": 12})
    seen, _ = make_vec(ONLINE, [city, noisy]).reset(seed=5)
    for i, study in enumerate((city, noisy)):
        assert_array_equal(seen[i], make_online(study).reset(seed=5 + i)[0])
    for nothing in ("power/city", []):
        with raises(BadInput, match="make_vec: give a list of scenarios"):
            make_vec(ONLINE, nothing)
    fewer = load("power/city", SHORT | {"world.ues.count": 7, "title": "seven"})
    with raises(BadInput, match=rf"\(62,\): '{city.title}', \(37,\): 'seven'.*as many UEs"):
        make_vec(ONLINE, [city, fewer])


def test_the_table_of_the_manual_is_that_of_the_spaces(city):
    recorded = UeRounds(record_known(short_study()), build_rule("fractional"))
    rows = [line.split("|")[2:-1] for line in MANUAL.read_text().splitlines() if line[:1] == "|"]
    for column, env in enumerate((UePower(recorded), make_online(city), allocation())):
        cells = [row[column].strip() for row in rows]
        assert cells[0] == f"`{type(env).__name__}`"
        env.reset(seed=0)
        *_, info = env.step(np.zeros(env.action_space.shape))
        assert set(info) == set(re.findall("`(.*?)`", cells[11]))
        for space, first in ((env.observation_space, 3), (env.action_space, 6)):
            sizes = cells[first].replace("*K*", f"*{env.n_ue}").split(", or ")
            assert space.shape[0] in [eval(size.lstrip("*")) for size in sizes]
            assert f"{space.low[0]:g} to {space.high[0]:g}" == cells[first + 1]


def test_the_numbers_of_a_ue_in_the_manual_are_those_of_the_code():
    """All names in order; and the scale of those in decibels that are known by themselves."""
    known = record_known(short_study())
    look = known.look
    dbw = np.full(look.snr_db.shape, -25.0)
    seen = compute_ue_features(look, dbw, dbw - 3.0)
    lines = MANUAL.read_text().splitlines()
    rows = [[cell.strip() for cell in x.split("|")[1:-1]] for x in lines if x.count("|") == 6]
    names = [row[0].strip("`") for row in rows[2:]]
    assert names == [*FEATURES, *OUTLOOK, "moved"]
    assert len(names) == seen.shape[2] == 22
    values = {
        "snr": look.snr_db,
        "required": look.required_db,
        "other": look.best_other_snr_db,
        "heard": look.eavesdropper_snr_db,
        "power": dbw,
        "margin": np.clip(dbw + look.snr_db - look.required_db, -50, 50),
        "moved": np.full(dbw.shape, 3.0),
    }
    for name, x in values.items():
        k = names.index(name)
        expected = np.clip(eval(rows[2 + k][3], {"x": x}), -5, 5)
        assert_allclose(seen[look.is_served][:, k], expected[look.is_served], rtol=1e-5, atol=1e-6)
