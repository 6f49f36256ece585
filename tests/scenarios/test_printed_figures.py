"""Figures of publications beside our runs: the table of points, how it is filled, and drawings."""

import re
from functools import cache
from xml.etree import ElementTree

import pytest
from pages import read_csv
from refused import catch_line

from scenarios.app.claims.claim import BUNDLED_CLAIMS, read_claims
from scenarios.app.report.plot import assign_styles
from scenarios.app.report.printed_figures import (
    FIGURES,
    NUMBERS,
    draw_figures,
    fill_figures,
    read_figures,
    read_summaries_with_rounds,
)
from scenarios.app.results.folder import to_csv_text
from scenarios.app.results.summary_keys import find_measure
from scenarios.app.run.sweep import plan_points
from scenarios.app.study.load import load

KEY = "attack.closed-form.centroid_error_m.median"
MAP = "utility.rmse_db"
COLUMNS = "file paper where panel x_label y_label series x printed scenario label key against at ours low high seeds"
HEAD = COLUMNS.split()
SIX = [10.0, 20.0, 30.0, 40.0, 50.0, 60.0]


def point(label="a", **cells):
    """A point of a figure, whose other cells are as in `cells`."""
    row = dict.fromkeys(HEAD, "") | {"file": "fig-1", "paper": "A paper", "where": "Fig. 1"}
    row |= {"panel": "Leakage", "x_label": "length (h)", "y_label": "error (m)", "series": "one"}
    row |= {"x": "1", "scenario": "town", "label": label, "key": KEY}
    return row | {name: str(cell) for name, cell in cells.items()}


def runs(key=KEY, **labels):
    """label -> summaries by seed, with values of one key."""
    return {
        "town": {
            label: {seed: {key: value} for seed, value in enumerate(values)}
            for label, values in labels.items()
        }
    }


def fill(row, by_scenario):
    fill_figures([row], by_scenario)
    return [row[name] for name in NUMBERS[1:]]


# -- the table that is kept


def list_attacks(study):
    attacks = study.learning.attacks if study.learning else ()
    return {attack.name or attack.kind for attack in attacks}


@cache
def list_labels(scenario):
    """label -> names of attacks of a bundled scenario."""
    study = load(scenario)
    if study.vary is None:
        return {"as written": list_attacks(study)}
    return {p.label: p.overrides for p in plan_points(study, {})}


@pytest.fixture(scope="module")
def kept():
    return read_figures(BUNDLED_CLAIMS.with_name(FIGURES))


def test_each_point_is_of_a_label_and_a_key(kept, monkeypatch):
    monkeypatch.setenv("NETSIM_DATA", "/nowhere")  # only labels are looked at
    wrong = set()
    for row in kept:
        labels = list_labels(row["scenario"])
        for label in filter(None, (row["label"], row["against"])):
            if label not in labels:
                wrong.add((row["scenario"], label))
        key = re.sub(r"@\d+\.last$", ".last", row["key"])
        measure = find_measure(key)
        if measure is None or key == measure.key != key.replace("NAME", ""):
            wrong.add(row["key"])
    assert not wrong


def test_each_point_is_of_an_attack_of_its_scenario(kept, monkeypatch):
    monkeypatch.setenv("NETSIM_DATA", "/nowhere")
    attacks = {
        scenario: list_attacks(load(scenario)) for scenario in {row["scenario"] for row in kept}
    }
    for row in kept:
        for key in (row["key"], row["x"]):
            if key.startswith("attack."):
                assert key.split(".")[1] in attacks[row["scenario"]], row


def test_places_are_numbers_words_or_keys(kept):
    for row in kept:
        if "." in row["x"] and not re.fullmatch(r"[\d.]+", row["x"]):
            assert find_measure(row["x"]), row["x"]
    panels = {}
    for row in kept:
        panels.setdefault((row["file"], row["panel"]), set()).add((row["x_label"], row["y_label"]))
    assert {len(axes) for axes in panels.values()} == {1}  # of all points of a panel


UNDRAWN = {
    ("Privacy by Projection", "Fig. 6"),
    ("Privacy Preserving Federated RSRP Estimation", "Table I"),
}
"""surfaces of single answers, which have no axes, and a table of settings"""


def list_places(where):
    """Figures and tables that a place names, without the letters of their parts."""
    return {f"{kind} {n}" for kind, n in re.findall(r"(Fig\.|Table) (\d+|[IVX]+)", where)}


def test_every_figure_with_a_verdict_is_drawn(kept):
    drawn = {(row["paper"], place) for row in kept for place in list_places(row["where"])}
    papers = {row["paper"] for row in kept}
    judged = {
        (claim.paper, place)
        for claim in read_claims(BUNDLED_CLAIMS).claims
        for place in list_places(claim.where)
        if claim.paper in papers
    }
    assert judged - drawn <= UNDRAWN


def test_printed_values_are_those_of_the_claims(kept):
    """A claim that gives each label a printed value has the same one in its figure."""
    printed = {}
    for row in kept:
        if row["printed"] and not row["against"]:
            cell = (row["scenario"], row["label"], row["key"])
            printed.setdefault(cell, set()).add(float(row["printed"]))
    compared = 0
    for claim in read_claims(BUNDLED_CLAIMS).claims:
        rule = claim.rule
        values = claim.value if isinstance(claim.value, tuple) else (claim.value,)
        for label, value in zip(rule.labels, values, strict=False):
            cell = (claim.scenario, label, rule.key)
            if (
                value is not None
                and cell in printed
                and len(values) == len(rule.labels)
                and rule.kind != "order"
            ):
                assert value in printed[cell], claim.id
                compared += 1
    assert compared > 30


@pytest.mark.parametrize(
    "change",
    [{"printed": "about 5"}, {"ours": "-"}, {"seeds": "all"}],
    ids=lambda change: next(iter(change)),
)
def test_a_cell_that_is_no_number_is_named_in_one_line(tmp_path, change):
    path = tmp_path / "figures.csv"
    path.write_text(to_csv_text([HEAD, point().values(), point(**change).values()]))
    assert (
        catch_line(read_figures, path)
        == f"{path}:3: {next(iter(change))} must be a number, or empty"
    )


def test_a_damaged_table_is_refused_in_one_line(tmp_path):
    path = tmp_path / "figures.csv"
    assert "figures.csv: damaged (" in catch_line(read_figures, path)
    path.write_text("file,paper\na\n")
    assert "not as many cells as the heading" in catch_line(read_figures, path)
    path.write_text("file,paper\na,b\n")
    assert catch_line(read_figures, path).endswith(":2: printed must be a number, or empty")


# -- our runs


def test_a_point_is_the_median_with_its_interval_over_seeds():
    assert fill(point(), runs(a=SIX)) == ["", "35", "10", "60", "6"]
    values = [*SIX, 70.0, 80.0, 90.0]  # of nine the second and the eighth
    assert fill(point(), runs(a=values)) == ["", "50", "20", "80", "9"]
    assert fill(point(), runs(a=[5.0])) == ["", "5", "5", "5", "1"]


def test_points_without_runs_keep_what_they_have():
    row = point(ours=7, low=6, high=8, seeds=6)
    assert fill(row, {}) == fill(row, runs(b=SIX)) == ["", "7", "6", "8", "6"]
    assert fill(row, runs(a=SIX))[1] == "35"


def test_infinite_and_missing_values_are_told_apart():
    diverged = {KEY: None, "attack.closed-form.diverged.percent": 100.0}
    found = {KEY: 10.0, "attack.closed-form.diverged.percent": 0.0}
    by_seed = dict(enumerate([found, diverged, diverged]))
    assert fill(point(), {"town": {"a": by_seed}}) == ["", "", "10", "", "3"]
    assert fill(point(), {"town": {"a": {1: {}, 2: {}}}}) == ["", "", "", "", "0"]


def test_a_measured_place_is_the_median_of_its_key():
    summaries = {seed: {KEY: 10.0 * seed, MAP: 5.0 + seed} for seed in range(6)}
    assert fill(point(x=MAP), {"town": {"a": summaries}})[:2] == ["7.5", "25"]


def test_a_gain_is_that_of_pairs_of_seeds():
    played = runs(a=[12.0, 23.0, 34.0], b=[10.0, 20.0])  # the third has no other
    assert fill(point(against="b"), played) == ["", "2.5", "2", "3", "2"]
    assert fill(point(against="absent"), played)[1:] == ["", "", "", "0"]


def test_metrics_of_rounds_are_read_beside_the_summary(tiny_run):
    ((label, by_seed),) = read_summaries_with_rounds(tiny_run.parent).items()
    ((seed, summary),) = by_seed.items()
    rows = [row for row in read_csv(tiny_run / "metrics.csv") if row["value"]]
    assert rows
    for row in rows:
        key = f"metric.{row['part']}.{row['name']}@{row['round']}.last"
        assert summary[key] == pytest.approx(float(row["value"]))
    last = rows[-1]
    values = {"town": {label: {seed: summary}}}
    key = f"metric.{last['part']}.{last['name']}@{last['round']}.last"
    assert float(fill(point(label=label, key=key), values)[1]) == pytest.approx(
        float(last["value"])
    )


def test_a_filled_table_is_read_back(tmp_path):
    path = tmp_path / "figures.csv"
    rows = [point(printed=-3.5), point(series="=1+1")]
    fill_figures(rows, runs(a=SIX))
    path.write_text(to_csv_text([HEAD, *(row.values() for row in rows)]))
    assert read_figures(path) == rows


# -- drawings

SVG = "{http://www.w3.org/2000/svg}"


def draw(tmp_path, *rows):
    """The drawing of one figure, its texts, and its marks: (colour, whether hollow, x, y)."""
    ((first, path),) = draw_figures(rows, tmp_path)
    assert first is rows[0]
    root = ElementTree.fromstring(path.read_text())
    texts = [text.text for text in root.iter(f"{SVG}text")]
    marks = []
    for path in root.iter(f"{SVG}path"):
        if place := re.match(r"translate\((.*?),(.*?)\)", path.get("transform") or ""):
            marks.append(
                (path.get("stroke"), path.get("fill") == "none", *map(float, place.groups()))
            )
    return root, texts, marks


BLUE, RED = (look.color for look in assign_styles(["one", "two"]))


def test_a_panel_shows_each_series_and_what_is_printed(tmp_path):
    rows = [
        point(x=1, printed=10, ours=20, low=15, high=30, seeds=6),
        point(x=3, printed=30, ours=30, low=20, high=40, seeds=6),
        point(series="two", x=1, ours=15, low=12, high=18, seeds=6),
    ]
    root, texts, marks = draw(tmp_path, *rows)
    assert {"Leakage", "length (h)", "error (m)", "one", "two"} <= {*texts}
    assert "no values in print" not in texts
    assert root.find(f"{SVG}title").text == "A paper, Fig. 1"
    hollow = [mark for mark in marks if mark[1]]
    assert [mark[0] for mark in hollow] == [BLUE, BLUE]
    assert hollow[0][3] > hollow[1][3]  # 10 lies below 30
    ours = [mark for mark in marks if not mark[1] and mark[3] < 260]  # others are of the legend
    assert [mark[0] for mark in ours] == [BLUE, BLUE, RED]
    assert ours[1][2:] == hollow[1][2:]  # 30 beside 30
    bars = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "2"]
    assert len(bars) == 3


def test_values_stand_where_the_ticks_say(tmp_path):
    rows = [point(x=x, printed=y) for x, y in ((0, 0), (10, 100), (5, 50))]
    root, _, marks = draw(tmp_path, *rows)
    ticks = {
        text.text: (float(text.get("x")), float(text.get("y")))
        for text in root.iter(f"{SVG}text")
        if text.get("x") and re.fullmatch(r"\d+", text.text)
    }
    places = [mark[2:] for mark in marks if mark[1]]
    assert places[2] == pytest.approx(
        [(a + b) / 2 for a, b in zip(*places[:2], strict=True)], abs=0.2
    )
    assert ticks["10"][0] == pytest.approx(places[1][0], abs=0.2)
    assert ticks["100"][1] - 4 == pytest.approx(places[1][1], abs=0.2)


def test_wide_values_have_decades(tmp_path):
    _, texts, marks = draw(tmp_path, *(point(x=x, printed=x) for x in (1, 10, 100)))
    xs = [mark[2] for mark in marks if mark[1]]
    assert xs[1] - xs[0] == pytest.approx(xs[2] - xs[1], abs=0.2)
    assert {"1", "10", "100"} <= {*texts}


def test_a_panel_says_what_it_lacks(tmp_path):
    ours = point(ours=5, low=4, high=6, seeds=6)
    assert "no values in print" in draw(tmp_path, ours)[1]
    assert "not played" in draw(tmp_path, point(printed=5))[1]
    assert "no values in print; not played" in draw(tmp_path, point())[1]
    _, texts, _ = draw(tmp_path, ours, point(panel="Map", printed=3))
    assert {"Leakage", "no values in print", "Map", "not played"} <= {*texts}
    few = point(printed=5, ours=5, low=4, high=6, seeds=5)
    assert "bars: ranges of few seeds" in draw(tmp_path, few)[1]  # and no 95 % intervals


def test_an_infinite_median_is_marked_and_an_infinite_end_reaches_the_top(tmp_path):
    rows = [point(x=1, ours=5, low=4, seeds=6), point(x=2, low=3, seeds=6)]
    root, texts, _ = draw(tmp_path, *rows)
    assert texts.count("∞") == 1
    bars = [path.get("d") for path in root.iter(f"{SVG}path") if path.get("stroke-width") == "2"]
    assert [bar.endswith("V44") for bar in bars] == [True]


def test_words_are_places_and_measured_places_have_a_printed_line(tmp_path):
    _, texts, marks = draw(tmp_path, point(x="alone", printed=5), point(x="with <one>", printed=6))
    assert {"alone", "with <one>"} <= {*texts}
    assert marks[1][2] - marks[0][2] == pytest.approx(366 / 2, abs=0.2)
    row = point(x=MAP, at=7, printed=20, ours=10, low=9, high=12, seeds=6)
    root, texts, _ = draw(tmp_path, row)
    assert any(
        "h366" in path.get("d") and path.get("stroke-dasharray") for path in root.iter(f"{SVG}path")
    )
    assert MAP not in texts


def test_every_kept_figure_is_drawn_anew_but_no_file_of_others(tmp_path, kept):
    drawn = draw_figures(kept, tmp_path)
    assert [row["file"] for row, _ in drawn] == [path.stem for _, path in drawn]
    for _, path in drawn:
        ElementTree.fromstring(path.read_text())
    before = {path: path.read_bytes() for _, path in drawn}
    draw_figures(kept, tmp_path)
    assert {path: path.read_bytes() for path in before} == before
    (tmp_path / "fig-1.svg").write_text("mine")
    assert "fig-1.svg" in catch_line(draw_figures, [point()], tmp_path)
    assert (tmp_path / "fig-1.svg").read_text() == "mine"
