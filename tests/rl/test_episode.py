"""An episode as an animated picture, and environments of several scenarios."""

import math
import re
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from power_problems import allocation
from pytest import fixture, mark, raises
from test_radio_records import record_known
from test_radio_records import study as short_study

from fl.power.search import Limits
from netsim.errors import BadInput
from netsim.geometry import Area
from rl import ALLOCATION, ONLINE
from rl.episode import draw_episode
from rl.rules import build_rule
from rl.ue import UePower, UeRounds
from scenarios import load
from scenarios.app.training.environments import make_online, make_vec

SVG = "{http://www.w3.org/2000/svg}"
SHORT = {"world.duration_s": 240}


@fixture(scope="module")
def city():
    return load("power/city", SHORT)


def read_tracks(path):
    """East, north and radius (n_ue, 3, n_round) of the circles of a picture, and its texts."""
    root = ElementTree.parse(path).getroot()
    circles = [
        [values.get("values").split(";") for values in circle]
        for circle in root.iter(f"{SVG}circle")
    ]
    return np.array(circles, dtype=float), [text.text for text in root.iter(f"{SVG}text")], root


def test_a_picture_shows_the_episode_that_was_played(city, tmp_path):
    def act(seen):
        return np.linspace(-1, 1, 12)

    draw_episode(make_online(city), act, tmp_path / "a.svg", seed=3)
    draw_episode(make_online(city), act, tmp_path / "b.svg", seed=3)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    tracks, (above, below), root = read_tracks(tmp_path / "a.svg")
    env = make_online(city)
    env.reset(seed=3)
    places = []
    rewards = []
    while not env.over:
        places.append(env.world.locate_ues())
        rewards.append(env.step(act(None))[1])
    assert tracks.shape == (12, 3, len(rewards))
    assert_allclose(tracks[:, :2], np.stack(places, axis=2), atol=0.05)
    assert (np.diff(tracks[:, 2, 0]) > 0).all()
    assert tracks[:, 2].max() <= 0.0243 * env.world.area.side_m.max()
    limits = env.task.limits
    assert (
        f"12 of 12 UEs (radius: power, {limits.each_min_w:.3g} to {limits.each_max_w:.3g}" in above
    )
    n = len(rewards)
    assert below == f"reward in {n} of {n} rounds: {min(rewards):.4g} to {max(rewards):.4g}"
    stations, curve = (path.get("d") for path in root.iter(f"{SVG}path"))
    assert stations.count("M") == len(env.world.stations)
    levels = curve.removesuffix("z").replace("h1", "").split("V")[1:-1]
    assert_allclose(np.array(levels, dtype=float), rewards)


class Long:
    """300 UEs and 500 rounds; UE 1 is always away."""

    n_ue = 300
    task = SimpleNamespace(limits=Limits())
    steps = 0

    def reset(self, seed):
        place_m = np.random.default_rng(seed).uniform(0, 1e4, (300, 2))
        place_m[1] = np.nan
        area = Area(-5e3, 0.0, 1e4, 1e4)
        self.world = SimpleNamespace(locate_ues=lambda: place_m, area=area, stations=())
        self.last_w = np.full(300, self.task.limits.each_max_w)
        return np.zeros(3), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(3), -1.0, False, False, {}

    @property
    def over(self):
        return self.steps == 500


def test_a_picture_is_bounded_and_hides_who_is_away(tmp_path):
    draw_episode(Long(), lambda seen: [0.0], tmp_path / "long.svg")
    tracks, texts, _ = read_tracks(tmp_path / "long.svg")
    assert tracks.shape == (100, 3, 200)
    assert texts[0].startswith("100 of 300 UEs")
    assert texts[1] == "reward in 200 of 500 rounds: -1 to -1"
    assert (tmp_path / "long.svg").stat().st_size < 600_000
    assert (tracks[1, :2] > 1e8).all()
    assert_array_equal(tracks[:, 0] > 1e8, tracks[:, 0] == tracks[1, 0])


def test_members_of_a_vector_are_their_own_scenarios(city, tmp_path):
    noisy = load("power/city", SHORT | {"world.radio.uplink.noise_figure_db": 12})
    envs = make_vec(ONLINE, [city, noisy, city])
    seen, _ = envs.reset(seed=5)
    for i, study in enumerate((city, noisy, city)):
        assert_array_equal(seen[i], make_online(study).reset(seed=5 + i)[0])
    fewer = load("power/city", SHORT | {"world.ues.count": 7, "title": "seven"})
    with raises(BadInput, match=rf"\(62,\): '{city.title}', \(37,\): 'seven'.*as many UEs"):
        make_vec(ONLINE, [city, fewer])
    with raises(BadInput, match=r"make_vec: \{\} observe other numbers"):
        make_vec(ONLINE, [])
    with raises(BadInput, match="the scenario trains 'online'"):
        make_vec(ALLOCATION, [city])


def read_table(env_name):
    """Rows of the table of the manual for an environment: pairs of name and text."""
    page = (Path(__file__).parents[2] / "docs/agent.md").read_text()
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in page.splitlines()
        if "|" in line
    ]
    column = rows[0].index(f"`{env_name}`")
    return [(row[0].strip("`"), row[column]) for row in rows[2:12]]


def count_numbers(text, k):
    """Every number of a text such as 5 *K* + 2."""
    terms = text.replace("*K*", str(k)).replace(",", "").replace("or", ",").split(",")
    return {sum(math.prod(map(int, part.split())) for part in term.split("+")) for term in terms}


@mark.parametrize("name", ["UePower", "OnlinePower", "PowerAllocation"])
def test_the_table_of_the_manual_is_that_of_the_spaces(name, city):
    if name == "OnlinePower":
        env = make_online(city)
    elif name == "PowerAllocation":
        env = allocation()
    else:
        recorded = record_known(short_study())
        env = UePower(UeRounds(recorded, build_rule("fractional")))
    rows = read_table(name)
    for space, numbers, bounds in (
        (env.observation_space, *rows[1:3]),
        (env.action_space, *rows[4:6]),
    ):
        assert space.dtype == np.float32
        assert (numbers[0], bounds[0]) == ("numbers", "bounds")
        assert space.shape[0] in count_numbers(numbers[1], env.n_ue)
        low, high = map(float, bounds[1].split(" to "))
        assert (space.low == low).all() and (space.high == high).all()
    (_, steps), (_, info) = rows[8:]
    env.reset(seed=0)
    assert set(env.step(np.zeros(env.action_space.shape, np.float32))[4]) == set(
        re.findall("`(.*?)`", info)
    )
    if steps.isdecimal():
        n = 1
        while not env.over:
            env.step(np.zeros(env.action_space.shape, np.float32))
            n += 1
        assert n == int(steps)
