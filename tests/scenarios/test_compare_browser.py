"""The page of a comparison in a browser: tables sort and filter, legends toggle, nothing is fetched
or cut off."""

import pytest
from browser import violations
from pages import fake_sweep

from scenarios.app.report.report import write_report

EVIL = '<img src=x onerror="alert(1)">'
ERROR = "attack.closed-form.centroid_error_m.median"
LONG = "a long label that says what it does"
ROWS = [("plain", 12.0, 300.0), ("far off", 30.0, 500.0), (EVIL, 9.0, 80.0), (LONG, None, None)]


@pytest.fixture(scope="module")
def page_file(tiny_run, tmp_path_factory):
    """The page of a sweep whose runs have pages as well."""
    rows = [
        (label, 3, {"utility.rmse_db": rmse, ERROR: m, "utility.constant_rmse_db": 15.0})
        for label, rmse, m in ROWS
    ]
    out = fake_sweep(tiny_run, tmp_path_factory.mktemp("sweep"), rows)
    for k in range(len(ROWS)):
        path = out / f"r{k}" / "study.yaml"
        path.write_text(
            path.read_text().replace(
                "measurement_period_s: 5.0", f"measurement_period_s: {5 + k}.0"
            )
        )
    return write_report(out, pages=True)


def column(shown, k):
    """First lines of a column of the main table, of the rows that are shown; verdicts stand
    below."""
    texts = shown.locator(f"#variants tbody tr:not([hidden]) td:nth-child({k})").all_inner_texts()
    return [text.split("\n")[0] for text in texts]


def test_the_main_table_sorts_by_figures_and_filters(page_file, show):
    shown = show(page_file)
    head = shown.locator("#variants thead th", has_text="RMSE")
    head.get_by_role("button").click()
    assert column(shown, 2) == ["9", "12", "30", "∞"]
    assert head.get_attribute("aria-sort") == "ascending"
    head.get_by_role("button").click()
    assert column(shown, 2) == ["∞", "30", "12", "9"]
    shown.fill("input[data-filter=variants]", "not useful")
    assert column(shown, 1) == ["far off"]
    assert shown.inner_text("#variants-rows") == "1 of 4 rows"
    shown.fill("input[data-filter=variants]", "")
    assert len(column(shown, 1)) == 4


def test_words_are_explained_to_keyboard_pointer_and_finger(page_file, show):
    """Beside the word, inside the window; a tap explains and leads nowhere; readers of screens are
    read the meaning."""
    for width, options in ((1280, {}), (400, {"has_touch": True})):
        shown = show(page_file, width=width, **options)
        word = shown.locator("#variants th a.term", has_text="RMSE")
        meaning = shown.locator(f"#{word.get_attribute('aria-describedby')}").inner_text()
        tip = shown.locator(".tip-term")
        assert "Root mean square error" in meaning
        assert not tip.is_visible()
        for point in (word.tap if options else word.hover, word.focus):
            point()
            assert tip.inner_text() == meaning
            assert "#" not in shown.url
            box = tip.bounding_box()
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
            assert word.evaluate(
                "(a) => document.querySelector('.tip-term').getBoundingClientRect().top"
                " >= a.getBoundingClientRect().bottom"
            )
            shown.keyboard.press("Escape")
            assert not tip.is_visible()
            shown.evaluate("document.activeElement.blur()")
        shown.locator("#variants th", has_text="RMSE").get_by_role(
            "button", name="sort by map RMSE, dB"
        ).click()


def test_every_figure_opens_on_a_click(page_file, show):
    shown = show(page_file)
    assert not shown.locator("#every-figure").is_visible()
    shown.locator("summary", has_text="Every figure").click()
    shown.fill("input[data-filter=every-figure]", "utility.rmse_db")
    result = shown.locator("#every-figure tbody tr:not([hidden])").all()
    rows = [row.locator("td").all_inner_texts() for row in result]
    assert ["utility.rmse_db", "12"] in [row[:2] for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("width, dark", [(1280, False), (400, True)])
def test_nothing_is_cut_off_and_everything_can_be_read(page_file, show, width, dark):
    shown = show(page_file, width=width, dark=dark)
    shown.locator("summary", has_text="Every figure").click()
    shown.evaluate("netsim.drawAll()")
    shown.wait_for_selector("#plot-progress .main-svg")
    assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert shown.locator("img").count() == 0
    assert EVIL in shown.inner_text("#variants")
    assert violations(shown, serious=True) == {}
    shown.set_viewport_size({"width": width - 50, "height": 800})  # figures keep their height
    assert shown.locator("#plot-progress").bounding_box()["height"] > 250
