"""Names linked to people whose homes are known: the law beside closed forms, the attack in runs,
what is measured."""

import copy
import itertools
import json
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conftest import TINY
from interrupted import run_in_two

from fl.attacks.known_homes import HomeLinker, Residents, read_directory
from fl.leakage.linking import identification
from fl.tracking.error_model import ErrorModel
from fl.tracking.linking import NO_PERSON, Identities, NameLinks, identified, log_odds
from fl.tracking.place_grid import PlaceGrid
from fl.tracking.pseudonyms import Names, PerRound
from fl.types import Directory, Public, RoundContext
from netsim.clock import DAY_S
from netsim.errors import BadInput
from netsim.geometry import Area
from netsim.rng import Streams
from scenarios.app.cli.commands import main
from scenarios.app.result import run

AREA = Area(0.0, 0.0, 10_000.0, 10_000.0)
HOUR_S = 3600.0


class TestLaw:
    grid = PlaceGrid(AREA, 20, 20)

    def test_odds_are_those_of_the_definition(self):
        """(1 - o) / n G p(h_u) over o, cell by cell."""
        rng = np.random.default_rng(0)
        p = rng.dirichlet(np.ones(400), 3).astype(np.float32)
        home_m = rng.uniform(0, 1e4, (5, 2))
        odds = log_odds(p, home_m, self.grid, 0.2)
        for j, u in itertools.product(range(3), range(5)):
            column, row = (home_m[u] // 500).astype(int)
            assert odds[j, u] == pytest.approx(
                np.log(0.8 / 5 * 400 * p[j, row * 20 + column] / 0.2), rel=1e-5
            )

    def test_probability_and_entropy_are_those_of_bayes(self):
        odds = np.log(np.array([[3.0, 1.0], [1.0, 1.0]]))
        person, probability, bits = identified(odds, np.arange(2))
        assert person.tolist()[0] == 0
        assert probability[0] == pytest.approx(3 / 5)
        assert bits[0] == pytest.approx(-(0.6 * np.log2(0.6) + 0.4 * np.log2(0.2)))
        assert bits[1] == pytest.approx(np.log2(3))
        nobody = identified(np.full((1, 2), -3.0), np.arange(2))
        assert nobody[0].tolist() == [NO_PERSON]
        assert nobody[1][0] == pytest.approx(1 / (1 + 2 * np.exp(-3)))


AT_NIGHT = RoundContext(1, 3 * HOUR_S, Public(AREA, 1), round_s=HOUR_S, week_s=3 * HOUR_S)


def rng_of(number):
    return Streams(3).at("attack", number)


def links_of(n):
    """Names of a round that are tracks of their own."""
    return NameLinks(1, np.arange(n), np.arange(n), np.ones(n, dtype=bool), np.full(n, np.nan))


class Town:
    """People who live apart, in different cells, and estimates of their nights with a Gaussian
    error."""

    def __init__(self, n, seed=0):
        self.rng = np.random.default_rng(seed)
        cells = self.rng.choice(100 * 100, n, replace=False)
        self.home_m = np.stack([cells % 100, cells // 100], axis=1) * 100.0 + 25.0
        self.directory = Directory(tuple(f"p{i}" for i in range(n)), self.home_m)

    def played(self, sigma_m, outside=0.0):
        linker = HomeLinker(self.directory, (0.0, 6.0), outside, ErrorModel.plain(sigma_m, 0.01))
        z_m = self.home_m + sigma_m * self.rng.standard_normal(self.home_m.shape)
        links = links_of(len(z_m))
        return linker.linked(Residents(), links, z_m[:, None], None, AT_NIGHT, rng_of(1)).identities


class TestLinker:
    def test_exact_estimates_link_everybody_right(self):
        said = Town(60).played(5.0)
        assert (said.person == np.arange(60)).all()
        assert (said.probability > 0.99).all()
        assert (said.entropy_bits < 0.1).all()

    def test_estimates_that_say_nothing_link_by_chance(self):
        """Over 60 draws of 20 people: one in 20, and every person once."""
        linker = HomeLinker(Town(20).directory, (0.0, 6.0), 0.0, ErrorModel.plain(1e5, 0.5))
        right = []
        z_m = np.full((20, 1, 2), 5000.0)
        for draw in range(1, 61):
            said = linker.linked(
                Residents(), links_of(20), z_m, None, AT_NIGHT, rng_of(draw)
            ).identities
            assert sorted(said.person.tolist()) == list(range(20))
            right.append(float(np.mean(said.person == np.arange(20))))
        assert np.mean(right) == pytest.approx(1 / 20, abs=4 * np.sqrt(0.05 * 0.95 / 1200))
        assert said.entropy_bits == pytest.approx(np.log2(20), abs=0.01)

    def test_who_is_not_in_the_directory_is_nobody(self):
        town = Town(40)
        town.directory = Directory(town.directory.user[:25], town.home_m[:25])
        said = town.played(5.0, outside=0.1)
        assert (said.person[:25] == np.arange(25)).all()
        assert (said.person[25:] == NO_PERSON).all()


class TestMeasures:
    def test_a_hand_case(self):
        """Names 0 to 3 are of UEs c, a, b, d; the directory has a, b and c, not d."""
        directory = Directory(("a", "b", "c"), np.zeros((3, 2)))
        person = np.array([2, 1, NO_PERSON, 0])
        probability = np.array([0.9, 0.5, 0.8, 0.4])
        said = Identities(5, np.arange(4), person, probability, np.array([0.0, 1.0, 2.0, 3.0]))
        names = replace(
            Names.start(PerRound(), 4), of=np.array([2, 0, 1, 3]), now=np.array([1, 2, 0, 3])
        )
        row = identification(said, directory, ("a", "b", "c", "d"), names)
        assert [row[k] for k in ("people", "names", "given", "told", "others")] == [3, 3, 3, 4, 1]
        assert row["right_share"] == pytest.approx(1 / 3)
        assert row["chance_share"] == pytest.approx(1 / 3)
        assert row["probability"] == pytest.approx((0.9 + 0.5 + 0.4) / 3)
        assert row["anonymity_set"] == pytest.approx((1 + 2 + 4 + 8) / 4)


# -- the attack in runs

COMMUTERS = {
    "world.duration_s": 2 * DAY_S,
    "world.tick_s": 600,
    "world.first_day": "2026-01-05",
    "world.city": {"kind": "open-field", "width_m": 2400, "height_m": 1800},
    "world.ues": {"count": 8, "mobility": {"kind": "commuter"}},
    "world.radio.uplink": {"kind": "oma", "decoding": "error-free"},
    "learning.round_s": 3 * HOUR_S,
}
NEW = {"kind": "per-round"}


def attack(**more):
    return [{"kind": "re-identify", "sigma_m": 30, "outlier": 0.05, "home_hours": [20, 8], **more}]


def table(folder, name):
    return pd.read_csv(folder / f"{name}.csv")


def commuters(tiny, threat=None, **more):
    threat = {"knowledge": ["weights", "training", "homes"], **(threat or {})}
    return tiny(COMMUTERS | {"learning.attacks": attack(**more), "learning.threat": threat})


class TestRuns:
    def test_known_homes_name_everybody_under_names_of_a_round(self, tiny, tmp_path):
        summary = run(commuters(tiny, {"pseudonyms": NEW}, homes="known"), tmp_path)
        rows = table(tmp_path, "identities")
        nights = rows[(rows["round"] % 8 == 0) & (rows.names > 0)]
        assert len(nights) >= 2
        assert (nights.right_share == 1.0).all()
        assert (rows.chance_share == 1 / 8).all()
        assert summary["identities.re-identify.chance_right.percent"] == 12.5

    @pytest.mark.slow
    @pytest.mark.parametrize("rule", [NEW, {"kind": "permanent"}])
    def test_a_run_goes_on_to_the_same_bytes(self, rule, tiny, tmp_path, table_bytes):
        study = commuters(tiny, {"pseudonyms": rule}, homes="known")

        run(study, tmp_path / "whole")
        run_in_two(study, tmp_path / "cut", lambda progress: progress.values["time_s"] >= DAY_S)
        assert table_bytes(tmp_path / "cut") == table_bytes(tmp_path / "whole")
        assert table(tmp_path / "whole", "identities").given.sum() > 8


class TestFiles:
    @pytest.mark.slow
    @pytest.mark.parametrize("cut", [False, True])
    def test_a_run_of_other_homes_is_another_run(self, cut, tiny, tmp_path, table_bytes):
        """Finished or not: refused as the file has other content, and begun anew where it may be
        replaced."""

        def stopped(progress):
            if cut and progress.values["time_s"] >= DAY_S:
                raise KeyboardInterrupt

        path = tmp_path / "homes.csv"
        folder = tmp_path / "run"
        study = commuters(tiny, homes=str(path))
        path.write_text("user,x_m,y_m\na,100,100\n")
        with pytest.raises(KeyboardInterrupt) if cut else nullcontext():
            run(study, folder, stopped)
        before = {file.name: file.read_bytes() for file in folder.iterdir()}
        path.write_text("user,x_m,y_m\na,100,100\nb,200,100\n")
        with pytest.raises(
            BadInput, match=r"finished run that read .*homes.csv with other content; add --replace"
        ):
            run(study, folder)
        assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
        run(study, folder, replace=True)
        run(study, tmp_path / "fresh")
        assert table_bytes(folder) == table_bytes(tmp_path / "fresh")
        assert (table(folder, "identities").people == 2).all()
        run(study, folder)  # the same content is welcome

    def test_degrees_and_metres_name_the_same_places(self, tmp_path):
        """A degree of latitude is 110.6 km at the equator, one of longitude 111.3 km."""
        path = tmp_path / "h.csv"
        path.write_text("user,lat,lon\nann,0.01,0\nbob,0,0.01\n")
        directory = read_directory(str(path), (0.0, 0.0))
        assert directory.user == ("ann", "bob")
        np.testing.assert_allclose(directory.home_m, [[0, 1105.74], [1113.19, 0]], atol=0.02)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("user,x_m\na,1\n", "give either columns x_m and y_m, or lat and lon, beside user"),
            (
                "x_m,y_m\n1,2\n",
                "no column user; a file of homes has user, and x_m and y_m, or lat and lon",
            ),
            (
                "user,lat,lon\na,1,2\n",
                "lat and lon mean nothing in a world of local metres; give x_m and y_m",
            ),
            ("user,x_m,y_m\n", "has a header but no rows"),
            (
                "user,x_m,y_m\na,1,two\n",
                "line 2, column y_m: 'two' is not a number in [-1e+08, 1e+08]",
            ),
            (
                "user,x_m,y_m\na,1,2\n,1,2\n",
                "line 3, column user: 0 characters; give a name of 1 to 200",
            ),
            ("user,x_m,y_m\na,1,2\na,3,4\n", "user 'a' stands twice; give each user one home"),
            (
                "user,x_m,y_m\na,-1,-2\n",
                "none of 1 homes lies in the area of the world; give homes within it",
            ),
            (
                "user,x_m,y_m\n" + "".join(f"u{i},1,2\n" for i in range(20_001)),
                "more than 20,000 people",
            ),
        ],
    )
    def test_a_bad_file_is_refused_in_one_line(self, text, said, tmp_path, capsys):
        """By the path that stands in the scenario, relative to it; nothing is written."""
        (tmp_path / "homes.csv").write_text(text)
        study = copy.deepcopy(TINY)
        study["learning"]["attacks"] = attack(homes="homes.csv")
        (tmp_path / "study.yaml").write_text(json.dumps(study))
        for command in (["validate"], ["run", "--out", str(tmp_path / "out")]):
            assert main([command[0], str(tmp_path / "study.yaml"), *command[1:]]) == 2
            line = capsys.readouterr().err
            assert len(line.splitlines()) == 1
            assert said in line
            assert "Traceback" not in line
        assert sorted(path.name for path in tmp_path.iterdir()) == ["homes.csv", "study.yaml"]

    def test_what_is_no_file_is_refused(self, tmp_path):
        with pytest.raises(BadInput, match="cannot be read"):
            read_directory(str(tmp_path), None)
