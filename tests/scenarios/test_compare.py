"""Comparisons of run folders: what may stand side by side, its labels, its page and its tables."""

import json
import re
import shutil
from pathlib import Path

import pytest
from pages import body, change_json, fake_sweep, figures, find_missing, read_json
from refused import catch_line
from rows import read_cells
from tabled import cases

from scenarios.app.cli.commands import main
from scenarios.app.report.report import write_comparison, write_report
from scenarios.app.result import run
from scenarios.app.results.folder import Failed, write_failures
from scenarios.app.results.gathered import gather_runs

EVIL = "<img src=x onerror=alert(1)>"
SHARE = {"attack.closed-form.home_located.percent": 25.0, "attack.closed-form.homes.count": 4}
FASTER = {"round_s: 60.0": "round_s: 30.0"}
RMSE = "utility.rmse_db"
RADIO = {"learning": None, "world.radio": {}}


@pytest.fixture
def runs(tiny_run, tmp_path):
    """Copies of the run: call it with names, and the changes of each summary and study."""

    def make(**changes):
        folders = []
        for name, (summary, study) in changes.items():
            folder = Path(shutil.copytree(tiny_run, tmp_path / "runs" / name))
            change_json(folder / "summary.json", **summary)
            text = (folder / "study.yaml").read_text()
            for old, new in study.items():
                assert old in text
                text = text.replace(old, new)
            (folder / "study.yaml").write_text(text)
            seed = int(re.search(r"(?m)^seed: (\d+)", text)[1])
            change_json(folder / "manifest.json", seed=seed)
            folders.append(folder)
        return folders

    return make


def swept(tiny_run, folder, rows, **options):
    """A sweep of copies: (label, changes of the summary) each."""
    return fake_sweep(
        tiny_run,
        folder,
        [(label, k, summary) for k, (label, summary) in enumerate(rows)],
        **options,
    )


def list_labels(*folders):
    """List the label of every run that the folders give."""
    return [label for label, _ in gather_runs(folders).runs]


# -- which folders


def test_labels_are_as_much_of_a_path_as_tells_runs_apart(runs, tmp_path):
    a, b = runs(a=({}, {}), b=({}, FASTER))
    assert list_labels(a, b) == ["a", "b"]
    second = Path(shutil.copytree(b, tmp_path / "more/a"))
    assert list_labels(a, second) == ["runs/a", "more/a"]


def test_seeds_of_one_study_share_a_label_unless_nothing_else_differs(runs):
    a, b, c = runs(a=({}, {}), b=({}, {"seed: 3": "seed: 4"}), c=({}, FASTER))
    assert list_labels(a, c, b) == ["a and 1 more of other seeds"] * 2 + ["c"]
    assert list_labels(a, b) == ["a", "b"]


def test_a_sweep_beside_a_run_keeps_the_name_of_its_folder(tiny_run, runs, tmp_path):
    (a,) = runs(a=({}, FASTER))
    out = swept(tiny_run, tmp_path / "s", [("x", {}), ("x", {}), ("y", {})])
    assert list_labels(a, out) == ["a", "s: x", "s: x", "s: y"]
    assert list_labels(out) == ["x", "x", "y"]


def test_a_folder_of_runs_stands_for_them_and_unfinished_ones_are_left_out(runs):
    seeds = [{"seed: 3": f"seed: {k}"} for k in (4, 5)]
    a, _, c = runs(a=({}, {}), b=({}, seeds[0]), c=({}, seeds[1]))
    (c / "summary.json").unlink()
    values = gather_runs([a.parent])
    assert [label for label, _ in values.runs] == ["a", "b"]
    assert values.missing == 1


def test_what_cannot_be_compared_is_refused_in_one_line(tiny_run, runs, tiny, tmp_path):
    a, b = runs(a=({}, {}), b=({}, {}))
    for second, text in (
        ([], "nothing to compare it with"),
        ([a], "given twice"),
        ([a / "../a"], "given twice"),
        ([tmp_path / "nothing"], "no such folder"),
        ([tmp_path], "neither the folder of a run"),
    ):
        assert text in catch_line(gather_runs, [a, *second])
    run(tiny(RADIO), tmp_path / "radio")
    line = catch_line(gather_runs, [a, tmp_path / "radio"])
    assert find_missing(line, "is a radio study and", str(tmp_path / "radio"), str(a)) == []
    (b / "summary.json").unlink()
    assert "is not finished; the same command goes on" in catch_line(gather_runs, [a, b])
    (tmp_path / "t").mkdir()
    (tmp_path / "t/training.json").write_text("{}")
    assert "holds a training" in catch_line(gather_runs, [tiny_run, tmp_path / "t"])


def copy_run(folder, *names):
    return [Path(shutil.copytree(folder, folder.with_name(name))) for name in names]


@pytest.mark.parametrize("n", [1, 3])
def test_copies_of_a_run_count_once_and_are_told(n, runs, tmp_path, capsys):
    """Beside another study they would share a label as other seeds: 1 of 4 homes would be 2 of 8,
    or 4 of 16."""
    a, second = runs(a=(SHARE, {}), other=(SHARE, FASTER))
    copies = copy_run(a, *"xyz"[:n])
    values = gather_runs([a, *copies, second])
    assert values.runs == [("a", a), ("other", second)]
    assert [f"{copy} is a copy of {a}" in values.notes[-1] for copy in copies] == [True] * n
    # nothing else
    assert main(["compare", *map(str, (a, *copies)), "--out", str(tmp_path / "c.html")]) == 0
    text = capsys.readouterr().out
    assert "one run, which counts once" in " ".join(text.split())
    assert "1/4" in text
    assert "a and" not in text
    assert "one run, which counts once" in body(tmp_path / "c.html")
    for k in range(2):
        shutil.copytree(a, tmp_path / "d" / str(k))
    assert len(gather_runs([tmp_path / "d"]).runs) == 1


def test_seeds_that_read_other_content_are_no_other_seeds(runs):
    a, b, c, d = runs(
        a=({}, {}),
        b=({}, {"seed: 3": "seed: 4"}),
        c=({}, {"seed: 3": "seed: 5"}),
        d=({}, FASTER),
    )
    for folder, digest in ((a, "1" * 64), (b, "2" * 64), (c, "1" * 64)):
        change_json(folder / "manifest.json", files={"/data/walk.csv": digest})
    labels = list_labels(a, b, c, d)
    second = "b, walk.csv with other content (22222222)"
    assert labels == ["a and 1 more of other seeds"] * 2 + [second, "d"]
    change_json(c / "manifest.json", files={"/data/walk.csv": "2" * 64})
    assert (
        list_labels(a, b, c, d)[1:3]
        == ["b and 1 more of other seeds, walk.csv with other content (22222222)"] * 2
    )
    assert list_labels(a, b) == ["a", second]


def test_a_copy_in_a_sweep_is_no_other_seed(tiny_run, tmp_path, capsys):
    out = swept(tiny_run, tmp_path / "s", [("A", SHARE)] * 3 + [("B", SHARE)])
    for name, seed in (("r0", 0), ("r1", 1), ("r2", 1)):
        change_json(out / name / "manifest.json", seed=seed, files={"/t.csv": "1"})
    assert list_labels(out) == ["A", "A", "B"]
    assert main(["show", str(out)]) == 0
    text = capsys.readouterr().out
    assert "2/8" in text
    assert "3/12" not in text
    assert f"{out / 'r2'} is a copy of {out / 'r1'}" in " ".join(text.split())


# -- the command


def test_the_command_draws_a_page_and_prints_the_answer(runs, tmp_path, capsys, monkeypatch):
    a, b = runs(a=({RMSE: 5.0}, {}), b=({RMSE: 7.5}, FASTER))
    monkeypatch.chdir(tmp_path)
    assert main(["compare", str(a), str(b)]) == 0
    out = capsys.readouterr().out
    assert find_missing(out, "centroid error: found with “a”", "RMSE", "page  compare.html") == []
    text = body(tmp_path / "compare.html")
    assert "learning.round_s" in text
    assert text.count('class="text changed"') == 1
    before = (tmp_path / "compare.html").read_bytes()
    assert main(["compare", str(a), str(b)]) == 0
    assert (tmp_path / "compare.html").read_bytes() == before
    assert main(["compare", str(a), str(b), "--out", "cmp"]) == 2
    assert not Path("cmp").exists()
    assert "--out cmp: give the name of a page, such as compare.html" in capsys.readouterr().err


@pytest.mark.parametrize(
    "present, says",
    cases("""
"mine", "is not a file of ours"
None, "is a folder"
"", "is not a file of ours"
"""),
)
def test_no_page_of_somebody_else_is_replaced(present, says, runs, tmp_path, capsys):
    a, b = runs(a=({}, {}), b=({}, {}))
    out = tmp_path / "page.html"
    out.mkdir() if present is None else out.write_text(present)
    assert main(["compare", str(a), str(b), "--out", str(out)]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert says in line
    assert str(out) in line
    assert present is None or out.read_text() == present


def test_report_says_of_runs_in_one_folder_that_no_sweep_played_them(runs):
    a, _ = runs(a=({}, {}), b=({}, FASTER))
    shown = body(write_report(a.parent))
    assert "No sweep played these runs" in shown
    assert "learning.round_s" in shown
    for folder in (a, a.parent / "b"):
        change_json(folder / "manifest.json", command="netsim replay people.csv --published")
    assert "No sweep played" not in body(write_report(a.parent))


def test_pages_of_runs_are_linked_where_they_are_drawn(runs, tmp_path):
    a, b = runs(a=({}, {}), b=({}, {"seed: 3": "seed: 4"}))
    page = tmp_path / "out/c.html"
    page.parent.mkdir()
    assert 'href="..' not in body(write_comparison([a, b], page))
    targets = re.findall(r'href="(\.\.[^"]+)"', body(write_comparison([a, b], page, pages=True)))
    assert len(targets) == 2
    assert all((page.parent / target).is_file() for target in targets)
    (b / "report.html").unlink()
    assert len(re.findall(r'href="(\.\.[^"]+)"', body(write_comparison([a, b], page)))) == 1


# -- the page


def test_a_sweep_is_compared_by_label(tiny_run, tmp_path):
    good = {"utility.useful": True}
    rows = [
        ("</script><b>", good),
        ("</script><b>", {RMSE: 77.0, "utility.useful": False}),
        ("B", good),
    ]
    out = swept(tiny_run, tmp_path / "s", rows, command=f"netsim sweep s.yaml --jobs 2 {EVIL}")
    (out / "open").mkdir()
    (out / "runs.csv").write_text((out / "runs.csv").read_text() + "open,C,0\n")
    page = write_report(out)
    shown = body(page)
    assert (
        find_missing(
            shown,
            "1 of 4 runs is not finished",
            "netsim sweep s.yaml --jobs 2",
            "&lt;/script&gt;&lt;b&gt;",
            "&lt;img src=x",
        )
        == []
    )
    assert not any(text in page.read_text() for text in ("</script><b>", EVIL))  # nor in a script
    assert {"progress", "tradeoff", "leakage-0"} <= set(figures(page))
    names = [t["name"] for t in figures(page)["progress"]["data"]]
    assert names.count("&lt;/script&gt;&lt;b&gt;") >= 2
    assert "B" in names
    assert "a constant map" in names
    assert page.read_bytes() == write_report(out).read_bytes()


def test_runs_of_a_sweep_that_failed_are_told_on_the_terminal_and_on_the_page(
    tiny_run, runs, tmp_path, capsys
):
    (a,) = runs(a=({RMSE: 5.0}, {}))
    out = swept(tiny_run, tmp_path / "s", [("A", {}), ("B", {})])
    (out / "runs.csv").write_text((out / "runs.csv").read_text() + "r2,C,0\n")
    write_failures(out, [Failed("r2", "C", 0, 1, "RuntimeError", "it broke <b>")])
    for folders, n in (([out], 3), ([out, a], 4)):
        command = ["compare", *map(str, folders), "--out", str(tmp_path / "c.html")]
        assert main(command) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert (
            find_missing(
                text,
                f"1 of {n} runs is not finished and left out.",
                "1 run failed:",
                "C, seed 0: RuntimeError: it broke <b> (r2/error.txt)",
            )
            == []
        )
        shown = body(tmp_path / "c.html")
        assert f"1 of {n} runs is not finished and left out." in shown
        assert "it broke &lt;b&gt;" in shown
        assert main([*command, "--json"]) == 0
        event = json.loads(capsys.readouterr().out)
        assert event["left_out"] == 1
        assert "it broke" in "".join(event["notes"])
        says = [item["says"] for item in event["notices"] if item["key"] == "runs-compared"]
        assert says == event["notes"]


def test_the_trade_off_has_means_with_their_range(tiny_run, tmp_path):
    key = "attack.closed-form.centroid_error_m.median"
    table = read_cells("""
        A    10  4
        A    20  6
        B    30  5
        far  40  50
    """)
    rows = [
        (label, {key: float(error), RMSE: float(rmse), "utility.constant_rmse_db": 10.0})
        for label, error, rmse in table
    ]
    rows.append(("none", {key: None, "utility.constant_rmse_db": 10.0}))
    panel = figures(write_report(swept(tiny_run, tmp_path / "s", rows)))["tradeoff"]
    marks = {t["name"]: t for t in panel["data"] if t["mode"] == "markers" and t["yaxis"] == "y"}
    assert set(marks) == {"A", "B", "far"}
    assert (marks["A"]["x"], marks["A"]["y"]) == ([5.0], [15.0])
    assert marks["A"]["error_x"]["array"] == marks["A"]["error_x"]["arrayminus"] == [1.0]
    assert marks["A"]["error_y"]["array"] == [5.0]
    assert marks["B"]["error_y"]["array"] == [0.0]
    assert "better model" in panel["layout"]["xaxis"]["title"]["text"]
    assert "less is known" in panel["layout"]["yaxis"]["title"]["text"]


def test_the_main_table_has_the_figures_of_the_terminal_and_the_last_all_with_meaning(
    tiny_run, tmp_path, capsys
):
    rows = [("A", {RMSE: 4.0}), ("A", {RMSE: 6.0}), ("B", {RMSE: None})]
    out = swept(tiny_run, tmp_path / "s", rows)
    shown = body(write_report(out))
    table = shown[shown.index('id="variants"') :]
    assert '<td data-value="5">5 <span class="range">[4, 6]</span><small class="held">' in table
    assert '<small class="not-held">diverged</small></td>' in table
    assert main(["compare", str(out), "--out", str(tmp_path / "c.html")]) == 0
    assert re.search(r"(?m)^ *A +5 ", capsys.readouterr().out)
    table = shown[shown.index('id="every-figure"') :].partition("</table>")[0]
    keys = re.findall(r'<tr><td class="text">([^<]+)</td>', table)
    assert sorted(keys) == sorted(read_json(tiny_run / "summary.json"))
    assert "RMSE of the final model" in table


def test_radio_studies_are_compared(tiny, tmp_path):
    for name, height in (("low", 1.5), ("high", 10.0)):
        run(tiny({**RADIO, "world.ues.height_m": height}), tmp_path / "w" / name)
    page = write_comparison([tmp_path / "w"], tmp_path / "c.html")
    shown = body(page)
    assert "world.ues.height_m" in shown
    assert set(figures(page)) == {"distributions"}
    table = shown[shown.index('id="variants"') :]
    summary = read_json(tmp_path / "w/low/summary.json")
    assert f'data-value="{summary["radio.sinr_db.median"]:.9g}"' in table
