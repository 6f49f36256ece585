"""Names linked to people whose homes are known: the law beside closed forms, the attack in runs,
what is measured."""

import copy
import json
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from conftest import TINY
from linked import play_cut, table
from numpy.random import default_rng
from numpy.testing import assert_allclose
from pytest import approx, mark

from fl.attacks.known_homes import HomeLinker, Residents, read_directory
from fl.leakage.linking import tabulate_identification
from fl.tracking.error_model import ErrorModel
from fl.tracking.linking import NO_PERSON, Identities, NameLinks, compute_log_odds, identify_senders
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
        rng = default_rng(0)
        p = rng.dirichlet(np.ones(400), 3).astype(np.float32)
        home_m = rng.uniform(0, 1e4, (5, 2))
        odds = compute_log_odds(p, home_m, self.grid, 0.2)
        column, row = (home_m // 500).astype(int).T
        expected = 0.8 / 5 * 400 * p[:, row * 20 + column] / 0.2
        assert_allclose(odds, np.log(expected), rtol=1e-5)

    def test_probability_and_entropy_are_those_of_bayes(self):
        odds = np.log(np.array([[3.0, 1.0], [1.0, 1.0]]))
        person, probability, bits = identify_senders(odds, np.arange(2))
        assert person.tolist()[0] == 0
        assert probability[0] == approx(3 / 5)
        assert bits[0] == approx(-(0.6 * np.log2(0.6) + 0.4 * np.log2(0.2)))
        assert bits[1] == approx(np.log2(3))
        nobody = identify_senders(np.full((1, 2), -3.0), np.arange(2))
        assert nobody[0].tolist() == [NO_PERSON]
        assert nobody[1][0] == approx(1 / (1 + 2 * np.exp(-3)))


AT_NIGHT = RoundContext(1, 3 * HOUR_S, Public(AREA, 1), round_s=HOUR_S, week_s=3 * HOUR_S)


def make_links(n):
    """Names of a round that are tracks of their own."""
    return NameLinks(1, np.arange(n), np.arange(n), np.ones(n, bool), np.full(n, np.nan))


class Town:
    """People who live apart, in different cells, and estimates of their nights with a Gaussian
    error."""

    def __init__(self, n, seed=0):
        self.rng = default_rng(seed)
        cells = self.rng.choice(100 * 100, n, replace=False)
        self.home_m = np.stack([cells % 100, cells // 100], axis=1) * 100.0 + 25.0
        self.directory = Directory(tuple(f"p{i}" for i in range(n)), self.home_m)

    def play(self, sigma_m, outside=0.0):
        z_m = self.home_m + sigma_m * self.rng.standard_normal(self.home_m.shape)
        return identify(self.directory, z_m, ErrorModel.from_sigma(sigma_m, 0.01), outside)


def identify(directory, z_m, error, outside=0.0, number=1):
    """People of the directory that estimates (n, 2) of one night name."""
    linker = HomeLinker(directory, (0.0, 6.0), outside, error)
    rng = Streams(3).derive_rng("attack", number)
    links = make_links(len(z_m))
    return linker.link_tracks(Residents(), links, z_m[:, None], None, AT_NIGHT, rng).identities


class TestLinker:
    def test_exact_estimates_link_everybody_right(self):
        identities = Town(60).play(5.0)
        assert (identities.person == np.arange(60)).all()
        assert (identities.probability > 0.99).all()
        assert (identities.entropy_bits < 0.1).all()

    def test_estimates_that_say_nothing_link_by_chance(self):
        """Over 60 draws of 20 people: one in 20, and every person once."""
        directory = Town(20).directory
        error = ErrorModel.from_sigma(1e5, 0.5)
        right = []
        for draw in range(1, 61):
            identities = identify(directory, np.full((20, 2), 5000.0), error, number=draw)
            assert sorted(identities.person.tolist()) == list(range(20))
            right.append(np.mean(identities.person == np.arange(20)))
        assert np.mean(right) == approx(1 / 20, abs=4 * np.sqrt(0.05 * 0.95 / 1200))
        assert identities.entropy_bits == approx(np.log2(20), abs=0.01)

    def test_who_is_not_in_the_directory_is_nobody(self):
        town = Town(40)
        town.directory = Directory(town.directory.user[:25], town.home_m[:25])
        identities = town.play(5.0, outside=0.1)
        assert (identities.person[:25] == np.arange(25)).all()
        assert (identities.person[25:] == NO_PERSON).all()


class TestMeasures:
    def test_a_hand_case(self):
        """Names 0 to 3 are of UEs c, a, b, d; the directory has a, b and c, not d."""
        directory = Directory(("a", "b", "c"), np.zeros((3, 2)))
        person = np.array([2, 1, NO_PERSON, 0])
        probability = np.array([0.9, 0.5, 0.8, 0.4])
        identities = Identities(5, np.arange(4), person, probability, np.arange(4.0))
        names = Names.start(PerRound(), 4)
        names = replace(names, owner=np.array([2, 0, 1, 3]), name_of_ue=np.array([1, 2, 0, 3]))
        row = tabulate_identification(identities, directory, ("a", "b", "c", "d"), names)
        assert [row[k] for k in ("people", "names", "given", "told", "others")] == [3, 3, 3, 4, 1]
        assert row["right_share"] == row["chance_share"] == approx(1 / 3)
        assert row["probability"] == approx((0.9 + 0.5 + 0.4) / 3)
        assert row["anonymity_set"] == approx((1 + 2 + 4 + 8) / 4)


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


def attack(**changes):
    settings = {"kind": "re-identify", "sigma_m": 30, "outlier": 0.05, "home_hours": [20, 8]}
    return [settings | changes]


def commuters(tiny, threat=None, **changes):
    threat = {"knowledge": ["weights", "training", "homes"]} | (threat or {})
    return tiny(COMMUTERS | {"learning.attacks": attack(**changes), "learning.threat": threat})


class TestRuns:
    def test_known_homes_name_everybody_under_names_of_a_round(self, tiny, tmp_path):
        summary = run(commuters(tiny, {"pseudonyms": NEW}, homes="known"), tmp_path)
        rows = table(tmp_path, "identities")
        nights = rows[(rows["round"] % 8 == 0) & (rows.names > 0)]
        assert len(nights) >= 2
        assert (nights.right_share == 1.0).all()
        assert (rows.chance_share == 1 / 8).all()
        assert summary["identities.re-identify.chance_right.percent"] == 12.5

    @mark.slow
    @mark.parametrize("rule", [NEW, {"kind": "permanent"}])
    def test_a_run_goes_on_to_the_same_bytes(self, rule, tiny, tmp_path, table_bytes):
        study = commuters(tiny, {"pseudonyms": rule}, homes="known")
        whole = play_cut(study, tmp_path, table_bytes, DAY_S)
        assert table(whole, "identities").add_new.sum() > 8


class TestFiles:
    @mark.slow
    @mark.parametrize("cut", [False, True])
    def test_a_run_of_other_homes_is_another_run(self, cut, tiny, tmp_path, table_bytes):
        """Finished or not: refused as the file has other content, and begun anew where it may be
        replaced."""

        def stop(progress):
            if cut and progress.values["time_s"] >= DAY_S:
                raise KeyboardInterrupt

        def read():
            return {file.name: file.read_bytes() for file in folder.iterdir()}

        path = tmp_path / "homes.csv"
        folder = tmp_path / "run"
        study = commuters(tiny, homes=str(path))
        path.write_text("user,x_m,y_m\na,100,100\n")
        with pytest.raises(KeyboardInterrupt) if cut else nullcontext():
            run(study, folder, stop)
        before = read()
        path.write_text("user,x_m,y_m\na,100,100\nb,200,100\n")
        with pytest.raises(BadInput, match=r"homes.csv with other content; add --replace"):
            run(study, folder)
        assert read() == before
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
        assert_allclose(directory.home_m, [[0, 1105.74], [1113.19, 0]], atol=0.02)

    @mark.parametrize(
        "text, reason",
        [
            ("user,x_m\na,1\n", "x_m and y_m, or lat and lon, beside user"),
            ("x_m,y_m\n1,2\n", "no column user"),
            ("user,lat,lon\na,1,2\n", "lat and lon mean nothing in a world of local metres"),
            ("user,x_m,y_m\n", "has a header but no rows"),
            ("user,x_m,y_m\na,1,two\n", "line 2, column y_m: 'two'"),
            ("user,x_m,y_m\na,1,2\n,1,2\n", "line 3, column user: 0 characters"),
            ("user,x_m,y_m\na,1,2\na,3,4\n", "user 'a' stands twice"),
            ("user,x_m,y_m\na,-1,-2\n", "none of 1 homes lies in the area"),
            ("user,x_m,y_m\n" + "u,1,2\n" * 20_001, "more than 20,000 people"),
        ],
    )
    def test_a_bad_file_is_refused_in_one_line(self, text, reason, tmp_path, capsys):
        """By the path that stands in the scenario, relative to it; nothing is written."""
        (tmp_path / "homes.csv").write_text(text)
        study = copy.deepcopy(TINY)
        study["learning"]["attacks"] = attack(homes="homes.csv")
        path = tmp_path / "study.yaml"
        path.write_text(json.dumps(study))
        for command in (
            ["validate", str(path)],
            ["run", str(path), "--out", str(tmp_path / "out")],
        ):
            assert main(command) == 2
            line = capsys.readouterr().err
            assert len(line.splitlines()) == 1
            assert reason in line
            assert "Traceback" not in line
        assert sorted(path.name for path in tmp_path.iterdir()) == ["homes.csv", "study.yaml"]

    def test_what_is_no_file_is_refused(self, tmp_path):
        with pytest.raises(BadInput, match="cannot be read"):
            read_directory(str(tmp_path), None)
