"""`netsim epsilon`: its figures, its words, what it refuses, and how long it takes."""

import pytest

from fl.privacy.gaussian import epsilon_of, multiplier_of
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
    for word in ("naive", "zCDP", "RDP", "exact", "one user", "add-remove", "zero-out", "no meaningful guarantee"):
        assert word in out


def test_sampled_says_which_accountant(capsys):
    out = ask(
        capsys, "--noise-multiplier", "1", "--rounds", "100", "--delta", "1e-7", "--sampling-rate", "0.2631578947"
    )
    naive, zcdp, rdp, pld = map(float, row(out)[2:])
    assert rdp == pytest.approx(25.4, abs=0.3)
    assert pld == pytest.approx(23.61, abs=0.01)
    assert naive > zcdp > rdp
    assert "state PLD" in out
    assert "dp-accounting" in out
    assert "takes no account of sampling" in " ".join(out.split())


def test_sampled_without_pld_says_why(capsys):
    out = ask(capsys, "--noise-multiplier", "90", "--rounds", "1000000", "--delta", "1e-7", "--sampling-rate", "0.5")
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


@pytest.mark.parametrize("people, delta, warned", [("5", "0.3", True), ("5", "0.2", True), ("5", "0.19", False),
                                                   ("1000", "1e-3", True), ("1000", "9e-4", False)])  # fmt: skip
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


def test_mechanisms_for_one_epsilon(capsys):
    words = ("--people", "1000", "--epsilon", "8", "--rounds", "28", "--participation", "4")
    lines = ask(capsys, *words).splitlines()
    cells = {line[:24].strip(): line[44:].split() for line in lines[3:9]}
    z = {name: float(of[0]) for name, of in cells.items()}
    assert epsilon_of(1e-7, 2 / z["each UE, by itself"]) == pytest.approx(8, rel=1e-3)
    assert epsilon_of(1e-7, 1 / z["server, banded (7)"]) == pytest.approx(8, rel=1e-3)
    assert z["server, sampled"] < z["server"] == z["shares in a secure sum"]
    assert z["the same in 16 bits"] == pytest.approx(1.05 * multiplier_of(8, 1e-7) * 28**0.5, rel=0.01)  # all rounds
    mean = {name: float(of[1]) for name, of in cells.items()}
    together = 1000 * 4 / 28
    assert mean["each UE, by itself"] == pytest.approx(z["server"] / together**0.5, rel=1e-2)
    assert mean["server"] == pytest.approx(z["server"] / together, rel=1e-2)
    # on the model: prefix sums of 28 rounds, i.i.d. against banded (specified: 7.615773 and 4.212777 for z 1)
    model = {name: float(of[2]) for name, of in cells.items()}
    assert model["server"] / model["server, banded (7)"] == pytest.approx(7.615773 / 4.212777, rel=1e-2)


@pytest.mark.parametrize(("rounds", "k", "turns"), [(28, 4, 4), (30, 4, 5), (12, 12, 12)])
def test_a_server_that_asks_by_turns_draws_for_the_ue_that_is_asked_most(capsys, rounds, k, turns):
    """Of 30 windows in which 7 cohorts take turns some are asked in 5; what they are asked for is what they pay."""
    words = ("--people", "1000", "--epsilon", "8", "--rounds", str(rounds), "--participation", str(k))
    row = next(x for x in ask(capsys, *words).splitlines() if x.startswith("server  "))
    z, mean = (float(x) for x in row[44:].split()[:2])
    asked = max(len(range(first, rounds, rounds // k)) for first in range(rounds // k))
    assert asked == turns and epsilon_of(1e-7, turns**0.5 / z) == pytest.approx(8, rel=1e-3)
    assert mean == pytest.approx(z * (rounds // k) / 1000, rel=1e-2)


def test_a_sum_of_fewer_has_more_noise(capsys):
    words = ("--people", "300", "--epsilon", "8", "--rounds", "28", "--participation", "28", "--bits", "12")
    found = []
    for more in ((), ("--secagg-threshold", "75")):
        lines = ask(capsys, *words, *more).splitlines()
        found.append({line[:24].strip(): [float(x) for x in line[44:].split()] for line in lines[3:7]})
    every, quarter = found
    assert quarter["server"] == every["server"]
    assert quarter["shares in a secure sum"][0] == every["shares in a secure sum"][0]
    assert quarter["shares in a secure sum"][1] == pytest.approx(2 * every["shares in a secure sum"][1], rel=5e-3)
    assert quarter["the same in 12 bits"][0] > every["the same in 12 bits"][0]  # coarser steps


def test_sampling_alone_may_be_enough(capsys):
    words = ("--people", "10", "--epsilon", "8", "--rounds", "28", "--participation", "4", "--delta", "0.99")
    assert next(x for x in ask(capsys, *words).splitlines() if x.startswith("server, sampled")).split()[3] == "0"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--participation 4 --rounds 28 --epsilon 8", "give --people"),
        ("--participation 4 --rounds 28 --people 10", "--target-epsilon"),
        ("--participation 4 --rounds 28 200001 --people 10 --epsilon 8", "3,000 rounds"),
        ("--participation 40 --rounds 28 --people 10 --epsilon 8", "28 at most"),
        ("--participation 4 --rounds 28 --people 10 --epsilon 8 --noise-multiplier 1", "no noise multiplier"),
        ("--participation 4 --rounds 28 --people 10 --epsilon 8 --draws 3", "--draws"),
        ("--participation 4 --rounds 28 --people 10 --epsilon 8 --sampling-rate 0.5", "--sampling-rate"),
        ("--participation 1 --rounds 28 --people 10 --epsilon 8", "0.357 UEs in a round"),
        ("--participation 28 --rounds 28 --people 10 --epsilon 8 --secagg-threshold 11", "a sum needs, 11"),
        ("--participation 4 --rounds 28 --people 10 --epsilon 1e-12 --delta 1e-300", "--target-epsilon 1e-12"),
        ("--rounds 28 --epsilon 8 --bits 12", "--bits"),
        ("--rounds 28 --epsilon 8 --secagg-threshold 12", "--secagg-threshold"),
    ],
)
def test_what_cannot_be_compared_is_refused(words, line, capsys):
    assert main(["epsilon", *words.split()]) == 2
    err = capsys.readouterr().err
    assert line in err and err.count("\n") == 1
