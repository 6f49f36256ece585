"""`netsim epsilon`: its figures, its words, what it refuses, and how long it takes."""

import pytest

from fl.privacy.gaussian import epsilon_of
from scenarios.app.cli.commands import main


def ask(capsys, *words):
    assert main(["epsilon", *words]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return out


def row(text, line=0):
    """The cells of a line below the header of the table."""
    lines = text.splitlines()
    header = next(i for i, x in enumerate(lines) if x.split()[:2] == ["noise", "multiplier"])
    return lines[header + 1 + line].split()


def test_a_published_figure(capsys):
    out = ask(capsys, "--noise-multiplier", "1", "--rounds", "100", "--delta", "1e-5")
    assert row(out)[-1] == "91.817"
    for word in (
        "naive",
        "zCDP",
        "RDP",
        "exact",
        "one user",
        "add-remove",
        "zero-out",
        "no meaningful guarantee",
    ):
        assert word in out


def test_sampled_says_which_accountant(capsys):
    out = ask(
        capsys,
        "--noise-multiplier",
        "1",
        "--rounds",
        "100",
        "--delta",
        "1e-7",
        "--sampling-rate",
        "0.2631578947",
    )
    naive, zcdp, rdp, pld = map(float, row(out)[2:])
    assert rdp == pytest.approx(25.4, abs=0.3)
    assert pld == pytest.approx(23.61, abs=0.01)
    assert naive > zcdp > rdp
    assert "state PLD" in out
    assert "dp-accounting" in out
    assert "takes no account of sampling" in " ".join(out.split())


def test_sampled_without_pld_says_why(capsys):
    out = ask(
        capsys,
        "--noise-multiplier",
        "90",
        "--rounds",
        "1000000",
        "--delta",
        "1e-7",
        "--sampling-rate",
        "0.5",
    )
    assert row(out)[-1] == "-"
    assert "state RDP" in out
    assert "more sampled rounds" in out


def test_target(capsys):
    """The analytic Gaussian mechanism at (1, 1e-5)."""
    out = ask(capsys, "--target-epsilon", "1", "--rounds", "1", "100", "--delta", "1e-5")
    assert [row(out, i)[0] for i in range(2)] == ["3.730632", "37.30632"]
    assert epsilon_of(1e-5, 1 / 3.730632) <= 1


@pytest.mark.parametrize("draws, epsilon", [("1", 1.315), ("3", 3.216)])
def test_draws_on_one_coin_are_one_gaussian(capsys, draws, epsilon):
    """Three models a round: z / sqrt(3) at q = 0.1, and not three rounds of z each (2.25)."""
    words = "--rounds", "31", "--delta", "1e-5", "--sampling-rate", "0.1", "--draws", draws
    out = ask(capsys, "--noise-multiplier", "2", *words)
    assert float(row(out)[-1]) == pytest.approx(epsilon, abs=2e-3)
    assert ("draws of noise per round on one coin" in out) == (draws != "1")
    back = ask(capsys, "--target-epsilon", row(out)[-1], *words)
    assert float(row(back)[0]) == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize(
    "people, delta, warned",
    [
        ("5", "0.3", True),
        ("5", "0.2", True),
        ("5", "0.19", False),
        ("1000", "1e-3", True),
        ("1000", "9e-4", False),
    ],
)
def test_a_delta_of_one_in_n_people_is_worth_nothing(capsys, people, delta, warned):
    words = "--noise-multiplier", "10", "--rounds", "1", "--delta", delta
    out = ask(capsys, *words, "--people", people)
    assert ("so no epsilon at it is worth stating" in " ".join(out.split())) == warned
    assert out.startswith(ask(capsys, *words).rstrip("\n"))


GOOD = {"--noise-multiplier": "1", "--rounds": "100", "--delta": "1e-5"}
TARGET = {"--target-epsilon": "1", "--rounds": "100", "--delta": "1e-5"}
BAD = [
    ({**GOOD, "--delta": "0"}, "--delta"),
    ({**GOOD, "--delta": "nan"}, "--delta"),
    ({**GOOD, "--people": "0"}, "--people 0: must be a whole number from 1"),
    ({**GOOD, "--delta": "1"}, "--delta 1: must be a number above 0 and below 1"),
    ({**GOOD, "--draws": "0"}, "--draws"),
    ({**GOOD, "--noise-multiplier": "0"}, "--noise-multiplier"),
    ({**GOOD, "--noise-multiplier": "inf"}, "--noise-multiplier"),
    ({**GOOD, "--rounds": "0"}, "--rounds"),
    ({**GOOD, "--rounds": "9" * 400}, "--rounds"),
    ({**GOOD, "--sampling-rate": "0"}, "--sampling-rate"),
    ({**GOOD, "--sampling-rate": "1.1"}, "--sampling-rate"),
    ({**GOOD, "--sampling-rate": "nan"}, "--sampling-rate"),
    ({**GOOD, **TARGET}, "either --noise-multiplier or --target-epsilon"),
    ({"--rounds": "100", "--delta": "1e-5"}, "either --noise-multiplier or --target-epsilon"),
    ({**TARGET, "--target-epsilon": "0"}, "must be a number"),
    ({**TARGET, "--target-epsilon": "inf"}, "--target-epsilon"),
    ({**TARGET, "--target-epsilon": "1e250"}, "out of reach"),
    ({**TARGET, "--target-epsilon": "1e9", "--sampling-rate": "0.5"}, "no multiplier between"),
    ({**TARGET, "--delta": "0.01", "--sampling-rate": "1e-5"}, "holds without noise"),
]


@pytest.mark.parametrize("words, says", BAD)
def test_impossible_requests_get_one_line(capsys, words, says):
    assert main(["epsilon", *(x for pair in words.items() for x in pair)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 1
    assert says in err
