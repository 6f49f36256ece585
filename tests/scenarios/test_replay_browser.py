"""The replay in a browser: what it shows is what the tables say, and every control does what it is
called."""

import re
import shutil
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from browser import ink, read_state, state, violations, with_replay
from numpy.testing import assert_allclose
from rows import read_cells, read_yaml
from tabled import cases

from scenarios.app.report.charts import QUANTITIES
from scenarios.app.report.replay import FINEST_M
from scenarios.app.report.report import write_report
from scenarios.app.result import run
from scenarios.app.results.read import load_finished_run

HOME_M = [300, 800]  # of the last UE
EVIL = "<img src=x onerror=alert(1)>"
COMPOSED = """() => {
    const parts = ["ground", "known", "moving"].map((name) => document.getElementById(`replay-${name}`));
    const {width, height} = parts[0];
    const own = Object.assign(document.createElement("canvas"), {width, height}).getContext("2d");
    parts.forEach((part) => own.drawImage(part, 0, 0));
    return [...own.getImageData(0, 0, width, height).data];
}"""
RASTER = """async (svg, {width, height}) => {
    const image = new Image(width, height);
    image.src = "data:image/svg+xml," + encodeURIComponent(new XMLSerializer().serializeToString(svg));
    await image.decode();
    const own = Object.assign(document.createElement("canvas"), {width, height}).getContext("2d");
    own.drawImage(image, 0, 0, width, height);
    return [...own.getImageData(0, 0, width, height).data];
}"""


@pytest.fixture(scope="module")
def folder(commuters, tmp_path_factory):
    out = shutil.copytree(commuters, tmp_path_factory.mktemp("replay") / "run")
    path = out / "ues.csv"
    path.write_text(re.sub("(?m)^0,[^,]*", f"0,{EVIL}", path.read_text()))
    return out


@pytest.fixture(scope="module")
def page_file(folder):
    return write_report(folder)


@pytest.fixture
def open_page(show, page_file):
    """The page with a replay, and its state on demand."""
    return with_replay(show(page_file))


def true_places(folder, time_s):
    """Where the recorded tracks are, on straight lines between rows (n_ue, 2)."""
    rows = load_finished_run(folder).tables["tracks"]
    places = []
    for ue in range(3):
        is_of_ue = rows["ue"] == ue
        t, x, y = (rows[name][is_of_ue] for name in ("time_s", "x_m", "y_m"))
        places.append([np.interp(time_s, t, x), np.interp(time_s, t, y)])
    return places


def count_named(loaded, attack, place):
    """Count the UEs whose place an attack names in the last round."""
    rows = loaded.get_rows("leakage", "attack", attack)
    hits = (rows["round"] == rows["round"].max()) & (rows[f"{place}_named_m"] <= 100)
    return len(np.unique(rows["ue"][hits]))


@pytest.mark.slow
def test_it_begins_at_the_end_and_answers(open_page, folder):
    current = state(open_page)
    assert current["time_s"] == current["end_s"]
    assert not current["playing"]
    loaded = load_finished_run(folder)
    homes = count_named(loaded, loaded.attacks[current["attack"]], "home")
    assert current["named"]["home"] == homes
    text = open_page.text_content("#replay-now")
    assert f"round 6 of 6 · {homes} of 3 homes and" in text
    assert re.search(r" · map [\d.]+ dB", text)
    assert f"{homes} of 3 homes" in open_page.get_attribute("#replay-ground", "aria-label")


@pytest.mark.parametrize("share", [0.0, 0.1234, 1.0])
def test_ues_are_where_the_tracks_say(open_page, folder, share):
    time_s = share * 3 * 86_400
    open_page.evaluate("t => replay.seek(t)", time_s)
    shown = [p[:2] for p in read_state(open_page, "positions")]
    within_m = 2 * FINEST_M  # simplified, and rounded
    assert np.abs(np.array(shown) - true_places(folder, time_s)).max() <= within_m


def test_play_moves_them_and_the_end_stops_it(open_page):
    open_page.click("#replay-play")
    open_page.wait_for_timeout(400)
    first = state(open_page)
    assert first["playing"]
    assert 0 < first["time_s"] < first["end_s"]
    open_page.wait_for_function("t => replay.state().time_s > t", arg=first["time_s"])
    open_page.click("#replay-play")
    paused = state(open_page)
    open_page.wait_for_timeout(150)
    assert not paused["playing"]
    assert read_state(open_page, "time_s") == paused["time_s"]
    open_page.evaluate(
        "replay.seek(replay.state().end_s - 0.05 * replay.state().speed); replay.play()"
    )
    open_page.wait_for_function("!replay.state().playing")
    assert read_state(open_page, "time_s") == read_state(open_page, "end_s")


def test_the_slider_the_figures_and_the_words_agree(open_page):
    open_page.evaluate("""() => {
        window.heard = [];
        document.addEventListener("netsim:time", (event) => heard.push(event.detail));
        const slider = document.getElementById("replay-time");
        slider.value = 500;
        slider.dispatchEvent(new Event("input"));
    }""")
    current = state(open_page)
    assert current["time_s"] == pytest.approx(current["end_s"] / 2)
    heard = open_page.evaluate("heard.at(-1)")
    assert heard["time_s"] == current["time_s"]
    assert re.fullmatch(r"2026-01-06 1\d:\d\d:\d\d", heard["date"])
    open_page.wait_for_function(
        "document.getElementById('replay-now').textContent.startsWith('Tue 6 Jan 2026, 1')"
    )
    assert open_page.get_attribute("#replay-time", "aria-valuetext").startswith("Tue 6 Jan 2026, 1")


def test_keys(open_page):
    open_page.focus("#replay-stage")
    messages = open_page.evaluate("[...replay.model.told_s]")
    first, second, *_, before_last, last = messages
    keys = "Home ArrowRight ArrowRight ArrowLeft ArrowLeft ArrowLeft Shift+ArrowRight End ArrowLeft"
    times_s = (0.0, first, second, first, 0.0, 0.0, last / 100, last, before_last)
    for key, time_s in zip(keys.split(), times_s, strict=True):
        open_page.keyboard.press(key)
        assert read_state(open_page, "time_s") == pytest.approx(time_s)
    speed = read_state(open_page, "speed")
    press = open_page.keyboard.press
    press("]")
    assert read_state(open_page, "speed") > speed
    press("[")
    assert read_state(open_page, "speed") == speed
    press("+")
    assert read_state(open_page, "view")["zoom"] > 1
    press("0")
    assert read_state(open_page, "view")["zoom"] == 1
    press("Space")
    assert read_state(open_page, "playing")
    press("Space")
    open_page.focus("#replay-speed")  # another control has the focus: keys are its own
    before = read_state(open_page, "time_s")
    press("Home")
    assert read_state(open_page, "time_s") == before


@pytest.mark.parametrize(
    "layer, canvas",
    read_cells("""
        ues        moving
        home       known
        work       known
        named      known
        estimates  known
        stations   ground
    """),
)
def test_layers_switch(open_page, layer, canvas):
    box = f"[data-layer={layer}]"
    before = ink(open_page, canvas)
    open_page.click(box)
    assert read_state(open_page, "layers")[layer] == open_page.is_checked(box)
    assert ink(open_page, canvas) != before
    open_page.click(box)
    assert ink(open_page, canvas) == before


def test_the_ground_is_coloured_by_coverage_with_a_scale(open_page):
    plain = seen = ink(open_page, "ground")
    for layer in open_page.evaluate(
        "[...document.querySelectorAll('#replay-coverage option')].map((o) => o.value)"
    )[1:]:
        open_page.select_option("#replay-coverage", layer)
        assert ink(open_page, "ground") != seen
        seen = ink(open_page, "ground")
        if layer.endswith(("_dbm", "_db")):
            assert re.search(r"-?\d+ dB", open_page.text_content("#replay-scale"))
    open_page.select_option("#replay-coverage", "")
    assert ink(open_page, "ground") == plain
    assert not open_page.is_visible("#replay-scale")


def test_a_ue_is_singled_out_by_list_and_by_click(open_page):
    open_page.select_option("#replay-ue", "1")
    assert read_state(open_page, "ue") == 1
    item = ink(open_page, "known")
    open_page.focus("#replay-stage")
    open_page.keyboard.press("Escape")
    assert read_state(open_page, "ue") == -1
    assert ink(open_page, "known") != item
    stage = open_page.locator("#replay-stage")
    box = stage.bounding_box()
    view = read_state(open_page, "view")
    x = box["width"] / 2 + (HOME_M[0] - view["cx"]) * view["scale"]
    y = box["height"] / 2 - (HOME_M[1] - view["cy"]) * view["scale"]
    stage.click(position={"x": x, "y": y})  # waits until figures above have their places
    assert read_state(open_page, "ue") == 2
    assert "ue2" in open_page.text_content("#replay-tip")
    assert "RSRP -" in open_page.text_content("#replay-tip")


def test_the_attack_is_chosen(open_page, folder):
    loaded = load_finished_run(folder)
    for k, name in enumerate(loaded.attacks):
        open_page.select_option("#replay-attack", str(k))
        assert read_state(open_page, "attack") == k
        assert f"named by {name}" in open_page.text_content("#replay-now")
        for place in ("home", "work"):
            hits = count_named(loaded, name, place)
            assert read_state(open_page, "named")[place] == hits


def test_the_map_zooms_and_moves(open_page):
    open_page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    open_page.evaluate("document.getElementById('replay-stage').scrollIntoView({block: 'center'})")
    open_page.focus("#replay-stage")
    box = open_page.locator("#replay-stage").bounding_box()
    x = box["x"] + box["width"] / 3
    y = box["y"] + box["height"] / 3
    open_page.mouse.move(x, y)
    whole = read_state(open_page, "view")
    open_page.mouse.wheel(0, -300)
    open_page.wait_for_function("replay.state().view.zoom > 1.2")
    open_page.mouse.down()
    open_page.mouse.move(x + 60, y, steps=4)
    open_page.mouse.up()
    # a drag is no click
    assert read_state(open_page, "view")["cx"] < whole["cx"]
    assert read_state(open_page, "ue") == -1
    open_page.click("#replay-fit")
    assert read_state(open_page, "view") == whole
    open_page.evaluate(
        "document.activeElement.blur(); document.documentElement.style.scrollBehavior = 'auto'"
    )
    open_page.evaluate("document.getElementById('replay-stage').scrollIntoView({block: 'start'})")
    before = open_page.evaluate("scrollY")
    open_page.mouse.move(x, 300)
    open_page.mouse.wheel(0, -100)  # the page scrolls
    open_page.wait_for_function("y => scrollY < y", arg=before)
    assert before > 100
    assert read_state(open_page, "view")["zoom"] == 1


def test_names_of_strangers_are_text(open_page):
    assert open_page.locator("#replay img").count() == 0
    assert open_page.locator("#replay-ue option").nth(1).text_content() == EVIL
    open_page.select_option("#replay-ue", "0")
    assert f"singled out: {EVIL}" in open_page.text_content("#replay-now")
    assert open_page.locator("#replay img").count() == 0


@pytest.mark.slow
def test_the_map_as_a_vector_picture_looks_like_the_map(open_page, show, tmp_path):
    open_page.select_option("#replay-coverage", "rsrp_dbm")
    open_page.select_option("#replay-ue", "0")
    with open_page.expect_download() as got:
        open_page.click("#replay-svg")
    ET.fromstring(got.value.path().read_bytes())
    sizes = open_page.evaluate(
        "(({clientWidth: w, clientHeight: h}) => [w, h])(document.getElementById('replay-stage'))"
    )
    (tmp_path / "svg.html").write_text(
        "<!doctype html><link rel=icon "
        "href='data:,'><style>body{margin:0}svg{display:block}</style>"
        + got.value.path().read_text()
    )
    vector = show(tmp_path / "svg.html")
    size = {"width": sizes[0], "height": sizes[1]}
    vector.set_viewport_size(size)
    open_page.add_style_tag(
        content=".replay .zoom, .replay .here, .replay .tip { display: none !important }"
    )
    composed = np.array(open_page.locator("#replay-moving").evaluate(COMPOSED), dtype=int)
    away = np.abs(composed - vector.locator("svg").evaluate(RASTER, size))
    away = away.reshape(-1, 4)[:, :3].max(axis=1)
    assert len(away) == sizes[0] * sizes[1]
    assert (away > 60).mean() < 0.02  # edges are smoothed otherwise


@pytest.mark.slow
@pytest.mark.parametrize(
    "width, dark",
    cases("""
400, True
900, False
1280, True
"""),
)
def test_it_fits_and_can_be_read_by_everybody(show, page_file, width, dark):
    page = with_replay(show(page_file, width=width, dark=dark))
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = page.locator("#replay-stage").bounding_box()
    assert 250 <= box["height"] <= 740
    assert box["width"] <= width
    ground = page.evaluate(
        "getComputedStyle(document.documentElement).getPropertyValue('--map-ground').trim()"
    )
    assert ground == ("#15191e" if dark else "#fbfbf9")
    assert (
        violations(page, "#answer") == violations(page, "#map") == violations(page, "#words") == {}
    )


SENT = """() => {
    const {link_ue: ue, link_begin: begin, link_airtime: airtime} = replay.model.sent;
    return ue.map((k, i) => [k, begin[i], airtime[i]]);
}"""
GUESSED = """([attack, ue]) => {
    const seen = [];
    replay.model.estimates(attack, ue, 0, 99, (at, true_m, round) => {
        seen.push([at.x, at.y, true_m.x, true_m.y, round + 1]);
    });
    return seen;
}"""


def test_links_estimates_and_curves_are_those_of_the_tables(open_page, folder):
    loaded = load_finished_run(folder)
    links = loaded.tables["links"]
    result = np.array(open_page.evaluate(SENT))
    sends = np.isfinite(links["airtime_s"])
    order = np.lexsort([links["time_s"], links["ue"]])
    begin_s = links["time_s"] + np.where(sends, links["latency_s"] - links["airtime_s"], 0)
    assert_allclose(result[:, 1][sends[order]], begin_s[order][sends[order]], atol=0.01)
    assert_allclose(result[:, 2], np.where(sends, links["airtime_s"], 0)[order], atol=0.01)
    truth = loaded.get_rows("updates")

    def find_nearest_m(table, number, x, y):
        """Find how far the nearest row of UE 0 in a round is."""
        is_of_ue = (table["ue"] == 0) & (table["round"] == number)
        return np.hypot(table["x_m"] - x, table["y_m"] - y)[is_of_ue].min()

    for k, name in enumerate(loaded.attacks):
        guesses = loaded.get_rows("estimates", "attack", name)
        for x, y, true_x, true_y, number in open_page.evaluate(GUESSED, [k, 0]):
            assert find_nearest_m(guesses, number, x, y) < 0.5
            assert find_nearest_m(truth, number, true_x, true_y) < 0.5
    curves = open_page.evaluate("replay.model.curves.map((c) => ({...c, values: [...c.values]}))")
    for curve in curves:
        if curve["key"] in ("home", "work"):
            _, share = QUANTITIES[{"home": "homes", "work": "workplaces"}[curve["key"]]].law(
                loaded, loaded.attacks[curve["attack"]]
            )
            assert curve["of"] == 3
            assert curve["values"] == pytest.approx(3 * share[:, 0] / 100)
    by_key = {curve["key"]: curve["values"] for curve in curves}
    updates = loaded.tables["updates"]
    decoded = [100 * np.mean(updates["decoded"][updates["round"] == r + 1]) for r in range(6)]
    assert_allclose(by_key["decoded"], decoded)
    assert_allclose(by_key["map"], loaded.get_rows("rounds")["rmse_db"], atol=1e-3)


def frame_ms(page):
    """Time of a frame, the shortest of five looks at 12 frames: others may use the machine
    meanwhile."""
    return min(
        page.evaluate("netsim.replay.then((replay) => replay.benchmark(12))") for _ in range(5)
    )


def test_two_hundred_ues_move_smoothly(show, tiny, tmp_path):
    small = read_yaml("""
        world.ues.count: 200, world.duration_s: 1200, learning.attacks: [],
        learning.round_s: 600, world.ues.measurement_period_s: 60, world.city.width_m: 2000,
        world.city.height_m: 2000
    """)
    run(tiny(small), tmp_path / "r")
    page = show(write_report(tmp_path / "r"))
    each_ms = frame_ms(page)
    print(f"a frame of 200 UEs takes {each_ms:.1f} ms")
    assert each_ms < 1000 / 15
    assert "homes" not in page.text_content("#replay-now")
    assert page.locator("#replay-attack").count() == 0


def test_a_radio_study(show, tiny, tmp_path):
    changes = read_yaml("""
        world.radio.handover: {time_to_trigger_s: 10.0, hysteresis_db: 0.0}, learning: null,
        world.duration_s: 600, world.radio.measurement_noise_db: 0.0
    """)
    run(tiny(changes), tmp_path / "r")
    page = show(write_report(tmp_path / "r"))
    with_replay(page).evaluate("replay.seek(301)")
    shown = state(page)
    number = len(load_finished_run(tmp_path / "r").get_rows("handovers")["ue"])
    page.evaluate("replay.seek(600)")
    assert number > 0
    page.wait_for_function(
        "n => document.getElementById('replay-now').textContent.includes(`${n} handovers`)",
        arg=number,
    )
    assert len(shown["positions"]) == 4
    assert all(shown["positions"])
    before = ink(page, "moving")
    page.click("[data-layer=serving]")
    assert ink(page, "moving") != before
    page.focus("#replay-stage")
    page.keyboard.press("ArrowLeft")
    assert read_state(page, "time_s") == pytest.approx(594)
