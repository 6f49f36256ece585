"""Beliefs on the map in a browser: what is shown is what the tables say, and every control does
what it is called."""

import pytest
from browser import ink, read_state, violations, wait_until_painted, with_replay
from numpy.testing import assert_allclose
from rows import read_yaml
from tracking_rows import CELL_M, believed, square, tracked, write_rows

from scenarios.app.report.report import write_report
from scenarios.app.result import run

TRUTH_M = (200.0, 150.0)
FRAME = "(ue) => { const s = replay.state(); return replayBelief.frame(replay.model, s, ue); }"


@pytest.fixture(scope="module")
def page_file(tiny, tmp_path_factory):
    """Two UEs over three rounds: the filter narrows from 5 x 5 to 3 x 3 cells to one, the smoother
    is one from the first round on; of UE 0 also the estimates without memory, and nothing of UE 0
    in the last round.
    """
    out = tmp_path_factory.mktemp("beliefs") / "run"
    run(
        tiny(
            read_yaml("""
                world.duration_s: 180, learning.attacks: [{kind: dlg, starts: 1, iterations:
                2}, {kind: closed-form}]
            """)
        ),
        out,
    )
    rows = []
    cells = []
    for number, ue in ((1, 0), (1, 1), (2, 0), (2, 1), (3, 1)):
        for hindsight, wide in ((0, 7 - 2 * number), (1, 1)):
            answer_m = (TRUTH_M[0] + 40 * (3 - number) * (1 - hindsight), TRUTH_M[1] + 10 * ue)
            row = tracked(
                number,
                ue,
                hindsight,
                60.0 * number,
                TRUTH_M,
                answer_m,
                probability=0.3 + 0.1 * number,
            )
            rows.append(row)
            cells += believed(row, square(answer_m, wide))
    write_rows(out, "tracking", rows)
    write_rows(out, "beliefs", cells)
    return write_report(out)


@pytest.fixture
def open_page(show, page_file):
    return with_replay(show(page_file))


def seek(page, number):
    """To just after a round, and until it is painted and told."""
    page.evaluate("t => replay.seek(t)", page.evaluate("n => replay.model.told_s[n - 1]", number))
    wait_until_painted(page)


def read_words(page, words):
    """Wait until the words below the map say so."""
    page.wait_for_function(
        "w => document.getElementById('replay-now').textContent.includes(w)", arg=words
    )


@pytest.mark.parametrize("number, wide", [(1, 5), (2, 3)])
def test_cells_are_those_of_the_table_and_the_words_agree(open_page, number, wide):
    open_page.select_option("#replay-ue", "0")
    seek(open_page, number)
    shown = open_page.evaluate(FRAME, 0)
    expected = square((TRUTH_M[0] + 40 * (3 - number), TRUTH_M[1]), wide)
    assert_allclose(
        sorted((round(c["x"], 6), round(c["y"], 6)) for c in shown["cells"]),
        sorted((x, y) for x, y, _ in expected),
    )
    assert shown["wide_m"] == shown["high_m"] == CELL_M
    assert shown["answer"]["x"] == pytest.approx(TRUTH_M[0] + 40 * (3 - number), abs=0.5)
    assert_allclose([c["probability"] for c in shown["cells"]], expected[0][2], atol=2 / 255)
    words = (
        f"belief (filter): {30 + 10 * number} % within 100 m, 90 % in 0.04 km², truth "
        f"{40 * (3 - number)} m from"
    )
    read_words(open_page, words)
    assert words in open_page.get_attribute("#replay-ground", "aria-label")


def test_filter_and_smoother_by_button_and_by_key(open_page):
    open_page.select_option("#replay-ue", "1")
    seek(open_page, 1)
    filtered = ink(open_page, "known")
    open_page.click("#replay-smoother")
    assert read_state(open_page, "hindsight") == 1
    assert len(open_page.evaluate(FRAME, 1)["cells"]) == 1
    assert open_page.get_attribute("#replay-smoother", "aria-pressed") == "true"
    assert open_page.get_attribute("#replay-filter", "aria-pressed") == "false"
    read_words(open_page, "belief (smoother)")
    assert ink(open_page, "known") != filtered
    open_page.focus("#replay-stage")
    open_page.keyboard.press("b")
    assert read_state(open_page, "hindsight") == 0
    assert ink(open_page, "known") == filtered


def test_all_beliefs_or_one_and_the_layer(open_page):
    seek(open_page, 1)
    everyone = ink(open_page, "known")
    read_words(open_page, "belief (filter): 2 of 2 UEs within 100 m of the likeliest place")
    open_page.select_option("#replay-ue", "1")
    assert ink(open_page, "known") != everyone
    item = ink(open_page, "known")
    open_page.select_option("#replay-ue", "2")
    read_words(open_page, "no belief recorded of")
    open_page.select_option("#replay-ue", "1")
    open_page.click("[data-layer=belief]")
    assert ink(open_page, "known") != item
    open_page.click("[data-layer=belief]")
    assert ink(open_page, "known") == item


@pytest.mark.slow
@pytest.mark.parametrize("width, dark", [(400, True), (1280, False)])
def test_map_and_chapter_fit_and_can_be_read_by_everybody(show, page_file, width, dark):
    page = show(page_file, width=width, dark=dark)
    page.evaluate("netsim.replay.then(() => netsim.drawAll())")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#tracking .plot .main-svg").count() > 0
    assert page.is_visible("#replay-cells")
    assert violations(page, "#map") == violations(page, "#tracking") == {}
