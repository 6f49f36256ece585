"""The frame of every page in a real browser: themes, figures, files saved from them, tables, contents, access."""

import csv
import io
import json
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from scenarios.app.report.html import Chapter, Link, answers, facts, headings, page, paragraphs, table
from scenarios.app.report.packed import packed
from scenarios.app.report.plot import Cell, Look, Panel, band, line, mosaic
from scenarios.app.report.report import report
from scenarios.app.report.series import DATES
from scenarios.app.run.runner import run

EVIL = '<img src=x onerror="alert(1)">'
DAYS = ["2026-01-05", "2026-01-06", "2026-01-07"]


def curves(key="curves", name="error"):
    """A figure of two curves over dates."""
    traces = [
        line(Look(name, "#0072B2"), DAYS, np.array([3.0, np.nan, 1.0])),
        line(Look("=1+1", "#D55E00"), DAYS, np.array([1.0, 2.0, 3.0])),
    ]
    return Panel(key, f"Curves of {name}", "How to read it. And more of it.", mosaic([Cell("m", traces)], DATES, 250))


@pytest.fixture
def written(tmp_path):
    """A page with a figure, two tables and an array: call it with a name that stands everywhere."""

    def write(name="error"):
        rows = [["b", "2", "x"], ["a", "10", Link("page", "a b/report.html")], [name, "–", "z"]]
        chapters = [
            Chapter("figures", "Figures", [curves(name=name), paragraphs([name], "says")]),
            Chapter("tables", "Tables", [table("Runs", ["label", "figure", "page"], rows, key="runs")]),
            Chapter("empty", "Nothing", [Panel("no", "No figure", "There was nothing.")]),
            Chapter("configuration", "Configuration", [facts({name: name})]),
        ]
        top = headings(name, name) + answers([("What leaks", name)]) + paragraphs([name], "warns")
        data = packed({"name": name}, {"u1": np.arange(5, dtype=np.uint8), "f8": np.array([0.5, -1e300])})
        path = tmp_path / "page.html"
        path.write_text(page(name, top, chapters, {"blob": data}), encoding="utf-8")
        return path

    return write


def drawn(shown):
    """All figures, drawn."""
    shown.evaluate("netsim.drawAll()")
    shown.wait_for_selector(".plot .main-svg")
    return shown


def saved(shown, button):
    """Name and bytes of the file that a button saves."""
    with shown.expect_download() as download:
        shown.click(button)
    return download.value.suggested_filename, download.value.path().read_bytes()


def wide(shown):
    """Whether anything sticks out to the right."""
    return shown.evaluate("document.documentElement.scrollWidth > innerWidth")


def test_figures_are_drawn_when_they_come_into_sight(tmp_path, show):
    path = tmp_path / "page.html"
    path.write_text(page("t", paragraphs(["far above"] * 200, "says"), [Chapter("figures", "Figures", [curves()])]))
    shown = show(path)
    shown.wait_for_timeout(300)
    assert shown.evaluate("netsim.ready.size") == 0 and shown.locator(".main-svg").count() == 0
    shown.locator("#curves").scroll_into_view_if_needed()
    shown.wait_for_selector("#plot-curves .main-svg")
    assert shown.locator("#plot-curves .scatterlayer .trace").count() == 2


def test_a_click_in_the_legend_hides_a_curve(written, show):
    shown = drawn(show(written()))
    count = "document.getElementById('plot-curves').data.filter((t) => t.visible === 'legendonly').length"
    assert shown.evaluate(count) == 0
    shown.locator("#plot-curves .legendtoggle").first.click(force=True)
    shown.wait_for_function(f"{count} === 1")


def test_files_of_a_figure(written, show):
    shown = drawn(show(written()))
    name, data = saved(shown, '[data-save="csv"]')
    rows = list(csv.reader(io.StringIO(data.decode())))
    assert name == "curves.csv"
    assert rows[0] == ["axes", "curve", "x", "y", "z"]
    assert rows[1:3] == [["m", "error", "2026-01-05", "3", ""], ["m", "error", "2026-01-06", "", ""]]
    assert rows[-1][1] == "'=1+1"  # what a spreadsheet would take for a formula
    name, data = saved(shown, '[data-save="svg"]')
    assert name == "curves.svg" and ET.fromstring(data).tag.endswith("svg")
    name, data = saved(shown, '[data-save="png"]')
    assert name == "curves.png" and data.startswith(b"\x89PNG")


def test_numbers_of_a_figure_say_which_axes_and_which_is_a_band(tmp_path, show):
    look = Look("error", "#0072B2")
    low, high = np.array([1.0, 2.0, 3.0]), np.array([2.0, 3.0, 4.0])
    cells = [
        Cell("m", [line(look, DAYS, low)], "Home"),
        Cell("m", [band(look, DAYS, low, high), line(look, DAYS, high)], "Work"),
    ]
    path = tmp_path / "page.html"
    path.write_text(page("t", "", [Chapter("c", "C", [Panel("two", "Two", "Read.", mosaic(cells, DATES, 250))])]))
    for width in (400, 1280):  # one above another, and side by side
        _, data = saved(drawn(show(path, width=width)), '[data-save="csv"]')
        rows = list(csv.reader(io.StringIO(data.decode())))[1:]
        assert list(dict.fromkeys((axes, curve) for axes, curve, *_ in rows)) == [
            ("Home", "error"), ("Work", "error (band)"), ("Work", "error"),
        ]  # fmt: skip


def test_the_theme_follows_the_system_and_the_button(written, show):
    shown = drawn(show(written(), dark=True))
    theme = "document.documentElement.dataset.theme"
    ink = "getComputedStyle(document.querySelector('#plot-curves .xtick text')).fill"
    assert shown.evaluate(theme) == "dark"
    assert shown.evaluate(ink) == "rgb(231, 234, 238)"
    shown.click("#theme")
    assert shown.evaluate(theme) == "light"
    shown.wait_for_function(f"{ink} === 'rgb(34, 34, 34)'")
    assert show(written()).evaluate(theme) == "light"


def test_a_curve_keeps_its_name_in_the_dark(written, show):
    shown = drawn(show(written("constructor"), dark=True))
    assert shown.locator("#plot-curves .legendtext").first.text_content() == "constructor"


@pytest.mark.parametrize("name", ["a<b and c>d", "<b>bold</b>", "&lt;", "R&D"])
def test_a_curve_has_its_own_name_in_files(name, written, show):
    _, data = saved(drawn(show(written(name))), '[data-save="csv"]')
    assert list(csv.reader(io.StringIO(data.decode())))[1][1] == name


def test_tables_sort_by_value_and_filter_by_words(written, show):
    shown = show(written())
    column = "[...document.querySelectorAll('#runs tbody tr:not([hidden])')].map((r) => r.cells[1].textContent)"
    head = shown.locator("#runs th button").nth(1)
    head.click()
    assert shown.evaluate(column) == ["2", "10", "–"]
    head.click()
    assert shown.evaluate(column) == ["10", "2", "–"]  # what has no value comes last either way
    assert shown.locator("#runs th").nth(1).get_attribute("aria-sort") == "descending"
    shown.fill('[data-filter="runs"]', "page a")
    assert shown.evaluate(column) == ["10"]
    assert shown.locator("#runs-rows").text_content() == "1 of 3 rows"
    assert shown.locator("#runs a").get_attribute("href") == "a%20b/report.html"


def test_arrays_come_back_bit_for_bit(written, show):
    read = show(written()).evaluate(
        "netsim.unpacked('blob').then(({meta, arrays}) => [meta.name, [...arrays.u1], [...arrays.f8]])"
    )
    assert read == ["error", [0, 1, 2, 3, 4], [0.5, -1e300]]


@pytest.mark.parametrize("n", range(9))
def test_headers_of_any_length_leave_arrays_in_place(n, tmp_path, show):
    values = np.arange(-n, n + 1, dtype=np.int32)
    text = packed({"pad": "x" * n}, {"a": np.arange(n, dtype=np.uint8), "b": values})
    path = tmp_path / "page.html"
    path.write_text(page("t", "", [], {"blob": text}))
    read = show(path).evaluate("netsim.unpacked('blob').then((r) => [[...r.arrays.a], [...r.arrays.b]])")
    assert read == [list(range(n)), values.tolist()]


def test_a_moment_is_marked_on_figures_over_time(written, show):
    shown = drawn(show(written()))
    shown.evaluate(
        "document.dispatchEvent(new CustomEvent('netsim:time', {detail: {time_s: 0, date: '2026-01-06 00:00:00'}}))"
    )
    x, axis = shown.evaluate(
        "[parseFloat(document.querySelector('#plot-curves .cursor').style.left),"
        " (({_offset, _length, range}) => [_offset, _length, ...range.map((d) => Date.parse(d.replace(' ', 'T')))])"
        "(document.getElementById('plot-curves')._fullLayout.xaxis)]"
    )
    offset, length, first, last = axis
    at = shown.evaluate("Date.parse('2026-01-06T00:00:00')")
    assert x == pytest.approx(offset + length * (at - first) / (last - first), abs=1.5)


def test_contents_lead_to_chapters_and_none_is_empty(written, show):
    shown = show(written())
    assert shown.locator(".bar nav a").all_text_contents() == ["Figures", "Tables", "Configuration"]
    for link in shown.locator(".bar nav a").all():
        assert shown.locator(link.get_attribute("href")).count() == 1
    assert shown.locator("#empty").count() == 0
    assert "There was nothing." in shown.locator("details").last.text_content()
    assert all(text.strip() for text in shown.locator("main > section").all_text_contents())


def test_hostile_text_stays_text(written, show):
    shown = drawn(show(written(EVIL)))
    assert shown.locator("main img").count() == 0
    assert shown.locator("h1").text_content() == EVIL


@pytest.mark.parametrize(("width", "dark"), [(400, True), (1280, False)])
def test_a_run_fits_is_accessible_and_opens_at_once(tiny, tmp_path, show, width, dark):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is missing").Axe()
    folder = tmp_path / "run"
    run(
        tiny({"learning.defenses": [{"kind": "clip", "norm": 0.5}, {"kind": "gaussian", "noise_multiplier": 0.1}]}),
        folder,
    )
    shown = drawn(show(report(folder), width=width, dark=dark))
    assert not wide(shown)
    took_ms = shown.evaluate("performance.getEntriesByType('navigation')[0].domContentLoadedEventEnd")
    assert took_ms < 2000
    found = axe.run(shown, options={"runOnly": ["wcag2a", "wcag2aa", "wcag21aa"]}).response["violations"]
    assert {
        v["id"]: [n["html"][:200] for n in v["nodes"]] for v in found if v["impact"] in ("serious", "critical")
    } == {}


def test_a_page_on_paper_has_no_buttons(written, show):
    shown = drawn(show(written()))
    shown.emulate_media(media="print")
    assert not shown.locator(".save").first.is_visible()
    assert not shown.locator(".bar").is_visible()
    assert shown.locator("#plot-curves .main-svg").first.is_visible()


def test_paper_is_light_and_has_all_figures_even_those_that_were_never_in_sight(written, show):
    shown = show(written(), height=200, dark=True)
    shown.wait_for_function("window.Plotly !== undefined")
    printed = shown.evaluate(
        "() => { dispatchEvent(new Event('beforeprint')); return new Promise((done) => queueMicrotask(() => done("
        "[document.documentElement.dataset.theme, document.querySelectorAll('.scatterlayer .trace').length]))); }"
    )
    assert printed == ["light", 2]
    shown.evaluate("dispatchEvent(new Event('afterprint'))")
    assert shown.evaluate("document.documentElement.dataset.theme") == "dark"
    shown.wait_for_function(
        "getComputedStyle(document.querySelector('#plot-curves .xtick text')).fill === 'rgb(231, 234, 238)'"
    )


def test_contents_follow_on_a_narrow_page(tmp_path, show):
    chapters = [Chapter(f"c{k}", f"A long chapter {k}", [paragraphs([f"words {i}" for i in range(60)], "says")])
                for k in range(6)]  # fmt: skip
    path = tmp_path / "page.html"
    path.write_text(page("t", "", chapters))
    shown = show(path, width=400)
    shown.locator("#c5").evaluate("(e) => e.scrollIntoView({behavior: 'instant'})")
    shown.wait_for_function(
        "() => { const a = document.querySelector('.bar a[aria-current]'), nav = document.querySelector('.bar nav');"
        " return a.hash === '#c5' && a.getBoundingClientRect().right <= nav.getBoundingClientRect().right + 1; }"
    )


def test_figures_of_a_page_can_be_read_back(written):
    text = written().read_text()
    read = json.loads(re.search(r'id="drawn">(.*?)</script>', text)[1])
    assert set(read) == {"curves"}
