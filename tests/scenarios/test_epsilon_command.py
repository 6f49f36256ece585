"""`netsim epsilon`: its figures, its words, what it refuses, and how long it takes."""

from pytest import approx, mark
from refused import read_cases

from fl.privacy.gaussian import compute_gaussian_epsilon


def row(text, line=0):
    """The cells of a line below the header of the table."""
    lines = text.splitlines()
    header = next(i for i, x in enumerate(lines) if x.split()[:2] == ["noise", "multiplier"])
    return lines[header + 1 + line].split()


def test_a_published_figure(run_command):
    out = run_command("epsilon --noise-multiplier 1 --rounds 100 --delta 1e-5")
    assert row(out)[-1] == "91.817"
    for word in ("naive", "zCDP", "RDP", "exact", "add-remove", "zero-out", "no meaningful"):
        assert word in out


def test_sampled_says_which_accountant(run_command):
    words = "--noise-multiplier 1 --rounds 100 --delta 1e-7 --sampling-rate 0.2631578947"
    out = run_command(f"epsilon {words}")
    naive, zcdp, rdp, pld = map(float, row(out)[2:])
    assert rdp == approx(25.4, abs=0.3)
    assert pld == approx(23.61, abs=0.01)
    assert naive > zcdp > rdp
    assert "state PLD" in out


def test_sampled_without_pld_says_why(run_command):
    words = "--noise-multiplier 90 --rounds 1000000 --delta 1e-7 --sampling-rate 0.5"
    out = run_command(f"epsilon {words}")
    assert row(out)[-1] == "-"
    assert "state RDP" in out


def test_target(run_command):
    """The analytic Gaussian mechanism at (1, 1e-5)."""
    out = run_command("epsilon --target-epsilon 1 --rounds 1 100 --delta 1e-5")
    assert [row(out, i)[0] for i in range(2)] == ["3.730632", "37.30632"]
    assert compute_gaussian_epsilon(1e-5, 1 / 3.730632) <= 1


@mark.parametrize("draws, epsilon", [("1", 1.315), ("3", 3.216)])
def test_draws_on_one_coin_are_one_gaussian(run_command, draws, epsilon):
    """Three models a round: z / sqrt(3) at q = 0.1, and not three rounds of z each (2.25)."""
    words = f"--rounds 31 --delta 1e-5 --sampling-rate 0.1 --draws {draws}"
    out = run_command(f"epsilon --noise-multiplier 2 {words}")
    assert float(row(out)[-1]) == approx(epsilon, abs=2e-3)
    assert ("draws of noise per round on one coin" in out) == (draws != "1")
    back = run_command(f"epsilon --target-epsilon {row(out)[-1]} {words}")
    assert float(row(back)[0]) == approx(2.0, rel=1e-3)


@mark.parametrize(
    "people, delta, warned",
    [
        ("5", "0.3", True),
        ("5", "0.2", True),
        ("5", "0.19", False),
        ("1000", "1e-3", True),
        ("1000", "9e-4", False),
    ],
)
def test_a_delta_of_one_in_n_people_is_worth_nothing(run_command, people, delta, warned):
    words = f"epsilon --noise-multiplier 10 --rounds 1 --delta {delta}"
    out = run_command(f"{words} --people {people}")
    assert ("so no epsilon at it is worth stating" in " ".join(out.split())) == warned
    assert out.startswith(run_command(words).rstrip("\n"))


BAD = [
    *read_cases(r"""
--noise-multiplier 1 --rounds 100 --delta 0
    --delta
--noise-multiplier 1 --rounds 100 --delta nan
    --delta
--noise-multiplier 1 --rounds 100 --delta 1e-5 --people 0
    --people 0: must be a whole number from 1
--noise-multiplier 1 --rounds 100 --delta 1
    --delta 1: must be a number above 0 and below 1
--noise-multiplier 1 --rounds 100 --delta 1e-5 --draws 0
    --draws
--noise-multiplier 0 --rounds 100 --delta 1e-5
    --noise-multiplier
--noise-multiplier inf --rounds 100 --delta 1e-5
    --noise-multiplier
--noise-multiplier 1 --rounds 0 --delta 1e-5
    --rounds
--noise-multiplier 1 --rounds 100 --delta 1e-5 --sampling-rate 0
    --sampling-rate
--noise-multiplier 1 --rounds 100 --delta 1e-5 --sampling-rate 1.1
    --sampling-rate
--noise-multiplier 1 --rounds 100 --delta 1e-5 --sampling-rate nan
    --sampling-rate
--noise-multiplier 1 --rounds 100 --delta 1e-5 --target-epsilon 1
    either --noise-multiplier or --target-epsilon
--rounds 100 --delta 1e-5
    either --noise-multiplier or --target-epsilon
--target-epsilon 0 --rounds 100 --delta 1e-5
    must be a number
--target-epsilon inf --rounds 100 --delta 1e-5
    --target-epsilon
--target-epsilon 1e250 --rounds 100 --delta 1e-5
    out of reach
--target-epsilon 1e9 --rounds 100 --delta 1e-5 --sampling-rate 0.5
    no multiplier between
--target-epsilon 1 --rounds 100 --delta 0.01 --sampling-rate 1e-5
    holds without noise
"""),
    ("--noise-multiplier 1 --rounds " + "9" * 400 + " --delta 1e-5", "--rounds"),
]


@mark.parametrize("words, says", BAD)
def test_impossible_requests_get_one_line(refuse_command, words, says):
    assert says in refuse_command(f"epsilon {words}")
