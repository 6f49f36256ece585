"""Tables and figures for a paper, and sweeps, comparisons and trainings in Python."""

import csv
import io
import json
import re
import shutil
import subprocess

from matplotlib.axes import Axes
from pages import fake_sweep, figures
from pytest import approx, fixture, mark
from refused import catch_line
from test_training_page import several as trained  # noqa: F401 - a fixture

import scenarios
from scenarios.app.report.report import write_report
from scenarios.app.results.shown import HEAD

RMSE = "utility.rmse_db"
KEY = "world.noise"
HOMES = "attack.NAME.home_located.percent"
EVIL = "[*] a_b & 50 % {x} ~^\\ <|> # $ “é” ∞"
VALUES = {("noise=0.1, c=1", 0.1): (2.0, 3.0, 7.0), ("noise=1, c=1", 1.0): (4.0, 4.5, 5.0)}


def make_sweep(run, folder, values):
    """A sweep of a noise, (label, noise) -> RMSE of its seeds; of 4 UEs one home is found."""
    share = {
        "attack.closed-form.home_located.percent": 25.0,
        "attack.closed-form.homes.count": 4,
        "baseline.uniform.home_located.percent": 5.0,
    }
    shuffled = "attack.closed-form.home_located.shuffled.percent"
    rows = [
        (label, seed, {RMSE: rmse, **share, shuffled: 10 * (noise or 1)})
        for (label, noise), own in values.items()
        for seed, rmse in enumerate(own)
    ]
    fake_sweep(run, folder, rows)
    lines = (folder / "runs.csv").read_text().splitlines()
    rest = [f"{KEY},{RMSE}"]
    rest += [f"{noise or ''},{rmse}" for (_, noise), own in values.items() for rmse in own]
    (folder / "runs.csv").write_text(
        "".join(f"{a},{b}\n" for a, b in zip(lines, rest, strict=True))
    )
    return folder


@fixture
def sweep(tiny_run, tmp_path):
    return make_sweep(tiny_run, tmp_path / "s", VALUES)


def test_csv_has_a_row_for_each_label_and_figure_with_its_95_percent_interval(sweep, run_command):
    rows = list(csv.DictReader(io.StringIO(run_command(["compare", sweep], "--table", "csv"))))
    by_figure = {(row["label"], row["key"]): row for row in rows}
    assert len(by_figure) == len(rows)
    rmse = by_figure["noise=0.1, c=1", RMSE]
    # Student's t of 2, 3, 7: mean 4, std sqrt(7), 97.5 % quantile with two degrees 4.3027; an RMSE
    # is at least 0
    half = 4.302652729911275 * (7 / 3) ** 0.5
    assert [float(rmse[name]) for name in ("value", "low", "high")] == approx([4, 0, 4 + half])
    assert {row["few_seeds"] for row in rows} == {""}
    assert (rmse["unit"], rmse["seeds"], rmse["name"]) == ("dB", "3", "map RMSE")
    share = by_figure["noise=1, c=1", "attack.closed-form.home_located.percent"]
    # Wilson of 3 in 12, z = 1.96: (0.25 + 0.16007 -+ 0.29266) / 1.32013
    assert [float(share[name]) for name in ("low", "high")] == approx([8.894, 53.231], abs=0.01)
    assert [share[name] for name in ("value", "hits", "n", "unit")] == ["25", "3", "12", "%"]


def test_every_format_has_the_same_figures(sweep, run_command):
    latex, markdown = (
        run_command(["compare", sweep], "--table", name).splitlines() for name in ("latex", "md")
    )
    heads = next(line for line in markdown if line.startswith("|")).split("|")
    (begin,) = (line for line in latex if line.startswith("\\begin"))
    assert begin.endswith(f"{{l{'r' * (len(heads) - 3)}}}")
    rows = [line for line in latex if line.startswith("noise")]
    assert len(rows) == 2
    assert all(row.endswith(r"\\") and row.count(" & ") == len(heads) - 3 for row in rows)
    assert "3/12 [8.89, 53.2 \\%]" in rows[1]
    assert sum("3/12 \\[8.89, 53.2 %]" in line for line in markdown) == 2


def test_a_table_says_what_is_uncertain_and_of_which_runs(tiny_run, tmp_path, run_command):
    """Two seeds, a share that is no more than chance, and attackers that were tuned."""
    folder = make_sweep(tiny_run, tmp_path / "s", {("a", 1.0): (2.0, 3.0), ("b", 2.0): (4.0, 5.0)})
    note = {"rows": [dict.fromkeys(HEAD, "homes, % (max)")], "note": "The best of 8 attacks"}
    (folder / "sweep.json").write_text(
        json.dumps(json.loads((folder / "sweep.json").read_text()) | {"adapted": note})
    )
    latex, markdown, table = (
        run_command(["compare", folder], "--table", form) for form in ("latex", "md", "csv")
    )
    for text in (latex, markdown):
        assert "Seeds: 0, 1." in text
        assert "The best of 8 attacks; tuned for homes, % (max)." in text
        assert "?: inconclusive; " in text
        assert "fewer than three seeds" in text
    (row,) = (line for line in latex.splitlines() if line.startswith("a &"))
    # Student's t of 2 and 3 reaches 2.5 - 6.35
    assert "& 2.5 [0, 8.85] &" in row
    assert "2/8 [7.15, 59.1 \\%] ? &" in row
    assert row.endswith("& 2 * \\\\")
    (row,) = (line for line in latex.splitlines() if line.startswith("baseline"))
    assert "& chance 10-20 \\% &" in row  # of each label the larger of its two
    assert {row["few_seeds"] for row in csv.DictReader(io.StringIO(table))} == {"yes"}


def test_any_label_is_a_cell(tiny_run, tmp_path, run_command):
    folder = make_sweep(tiny_run, tmp_path / "s", {(EVIL, 1.0): (1.0,), ("b", 2.0): (2.0,)})
    latex = run_command(["compare", folder], "--table", "latex")
    (row,) = (line for line in latex.splitlines() if "a\\_b" in line)
    assert row.startswith(r"{}[*] a\_b \& 50 \% \{x\} \textasciitilde{}\textasciicircum{}")
    assert len(re.findall(r"(?<!\\)&", row)) == latex.splitlines()[5].count(" & ")
    (row,) = (
        r for r in run_command(["compare", folder], "--table", "md").splitlines() if "50" in r
    )
    assert r"\[\*] a\_b & 50 % {x} ~^\\ \<\|> # $" in row
    (tmp_path / "t.tex").write_text(
        "\\documentclass{article}\\usepackage[utf8]{inputenc}\\usepackage{booktabs}"
        f"\\begin{{document}}{latex}\\end{{document}}"
    )
    if shutil.which("pdflatex"):
        command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "t.tex"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout[-800:]


def test_a_file_takes_the_place_of_ours_alone(sweep, tmp_path, run_command, refuse_command):
    mine = tmp_path / "mine.tex"
    words = ["compare", sweep, "--table", "latex", "--out", mine]
    assert run_command(words) == ""
    first = mine.read_text()
    run_command(words)
    assert mine.read_text() == first
    mine.write_text("\\section{Mine}")
    assert "is not a file of ours" in refuse_command(words)
    assert mine.read_text() == "\\section{Mine}"


@mark.parametrize("ending, beginning", [("pdf", b"%PDF"), ("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_a_figure_is_a_file_of_its_format(sweep, tmp_path, run_command, ending, beginning):
    path = tmp_path / f"f.{ending}"
    for _ in range(2):  # the second takes the place of the first
        run_command(["compare", sweep], "--figure", path, "--x", KEY, "--y", HOMES)
        assert path.read_bytes().startswith(beginning)


def test_lines_join_labels_that_differ_in_x_alone(tiny_run, tmp_path, run_command, monkeypatch):
    values = {(f"noise={x}, c={c}", x): (x, 2 * x) for x in (1.0, 0.1) for c in (1, 2)}
    values |= {("no noise", None): (1.0, 2.0)}
    folder = make_sweep(tiny_run, tmp_path / "s", values)
    drawn = {}
    plain = Axes.errorbar

    def draw(axes, x, y, bars, label):
        drawn[label] = [*zip(x, y, *bars, strict=True)]
        return plain(axes, x, y, bars, label=label)

    monkeypatch.setattr(Axes, "errorbar", draw)
    said = run_command(["compare", folder], "--figure", tmp_path / "f.pdf", "--x", KEY, "--y", RMSE)
    assert said.endswith("left out, without finite numbers: 1\n")
    # of x and 2 x: mean 1.5 x, half an interval 12.7062 x / 2, of which an RMSE takes what is above 0
    half = 12.706204736432095 / 2
    points = [approx((x, 1.5 * x, 1.5 * x, half * x)) for x in (0.1, 1.0)]
    assert drawn == {", c=1": points, ", c=2": points}


def test_axes_say_words(sweep, tmp_path, run_command):
    for x, words in ((KEY, "noise"), (RMSE, "map RMSE, dB")):
        path = tmp_path / f"{x}.svg"
        run_command(["compare", sweep], "--figure", path, "--x", x, "--y", HOMES)
        assert re.search(f"<!-- [^.]*{words} -->", path.read_text())
        assert "<!-- homes within 100 m, % -->" in path.read_text()


@mark.parametrize(
    "options, words",
    [
        (f"--figure f.pdf --x {KEY} --y utility.rmse", "'utility.rmse'; did you mean 'utility.rmse_db'"),
        (f"--figure f.pdf --x world.nois --y {RMSE}", "did you mean 'world.noise'"),
        (f"--figure f.doc --x {KEY} --y {RMSE}", "must end with .pdf, .svg, .png"),
        (f"--figure f.pdf --x label --y {RMSE}", "no label has finite numbers"),
        ("--figure f.pdf", "no such key ''; give one as label, seed, world.noise, utility.rmse_db"),
        (f"--figure f.pdf --x {KEY}", "no such key ''; give one as attack.NAME.home_located.percent"),
        (f"--x {KEY}", "must end with"),
        ("--table md --pages", "leave --pages"),
        ("--table csv --out {folder}/none/t.csv", "cannot be written"),
    ],
)  # fmt: skip
def test_bad_options_are_one_line(options, words, sweep, tmp_path, monkeypatch, refuse_command):
    monkeypatch.chdir(tmp_path)
    line = refuse_command(["compare", sweep], *options.format(folder=tmp_path).split())
    assert words in line
    assert [path.name for path in tmp_path.iterdir()] == ["s"]


def test_a_sweep_opens_with_its_tables_and_the_figures_of_its_page(sweep):
    opened = scenarios.open_sweep(sweep)
    runs = opened.tables["runs"]
    assert runs.groupby("label")[RMSE].mean().to_dict() == {
        "noise=0.1, c=1": 4,
        "noise=1, c=1": 4.5,
    }
    assert runs[KEY].tolist() == [0.1] * 3 + [1.0] * 3
    assert set(opened.tables["figures"]["label"]) == set(runs["label"])
    assert list(opened.figures) == list(figures(write_report(sweep)))


def test_folders_open_as_a_comparison(sweep):
    opened = scenarios.open_sweep(sweep / "r0", sweep / "r1")
    assert opened.tables["runs"]["label"].tolist() == ["r0", "r1"]
    assert opened.tables["runs"]["ues.count"].tolist() == [4, 4]
    assert "tradeoff" in opened.figures


def test_trainings_open_with_their_curves_by_seed(trained):  # noqa: F811
    opened = scenarios.open_training(trained)
    assert opened.tables["curve"].loc[1, "score"].tolist() == [5.0, 4.0, 1.4]
    assert (
        opened.tables["evaluations"].loc[2].query("policy == 'ddpg'")["cost"].tolist() == [1.3] * 2
    )
    assert list(opened.figures) == ["curve"]


def test_another_folder_is_refused_with_what_it_is(sweep, trained, tmp_path):  # noqa: F811
    for opens, folder, words in (
        (scenarios.open_run, trained, "holds a training and no run"),
        (scenarios.open_run, sweep, "holds several runs"),
        (scenarios.open_sweep, trained, "holds a training"),
        (scenarios.open_sweep, sweep / "r0", "one finished run, and nothing to compare it with"),
        (scenarios.open_sweep, tmp_path / "none", "no such folder"),
        (scenarios.open_training, sweep, "holds no finished training"),
    ):
        assert words in catch_line(opens, folder)
