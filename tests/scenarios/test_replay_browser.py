"""The replay in a browser: what it shows is what the tables say, and every control does what it is
called."""

import re
import shutil
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from browser import ink, state, violations, with_replay

from scenarios.app.report.charts import HOME, WORK
from scenarios.app.report.replay import FINEST_M
from scenarios.app.report.report import report
from scenarios.app.result import run
from scenarios.app.results.read import load

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
    path.write_text(re.sub("^0,[^,]*", f"0,{EVIL}", path.read_text(), flags=re.MULTILINE))
    return out


@pytest.fixture(scope="module")
def page_file(folder):
    return report(folder)


@pytest.fixture
def opened(show, page_file):
    """The page with a replay, and its state on demand."""
    return with_replay(show(page_file))


def true_places(folder, time_s):
    """Where the recorded tracks are, on straight lines between rows (n_ue, 2)."""
    rows = load(folder).rows("tracks")
    return [
        [
            np.interp(time_s, rows["time_s"][rows["ue"] == ue], rows[f"{axis}_m"][rows["ue"] == ue])
            for axis in "xy"
        ]
        for ue in range(3)
    ]


@pytest.mark.slow
def test_it_begins_at_the_end_and_answers(opened, folder):
    now = state(opened)
    assert now["time_s"] == now["end_s"]
    assert not now["playing"]
    rows = load(folder).rows("leakage", "attack", load(folder).attacks[now["attack"]])
    last = rows["round"] == rows["round"].max()
    homes = len(np.unique(rows["ue"][last & (rows["home_named_m"] <= 100)]))
    assert now["named"]["home"] == homes
    said = opened.text_content("#replay-now")
    assert f"round 6 of 6 · {homes} of 3 homes and" in said
    assert re.search(r" · map [\d.]+ dB", said)
    assert f"{homes} of 3 homes" in opened.get_attribute("#replay-ground", "aria-label")


@pytest.mark.parametrize("share", [0.0, 0.1234, 1.0])
def test_ues_are_where_the_tracks_say(opened, folder, share):
    time_s = share * 3 * 86_400
    opened.evaluate("t => replay.seek(t)", time_s)
    shown = [p[:2] for p in state(opened)["positions"]]
    within_m = 2 * FINEST_M  # simplified, and rounded
    assert np.abs(np.array(shown) - true_places(folder, time_s)).max() <= within_m


def test_play_moves_them_and_the_end_stops_it(opened):
    opened.click("#replay-play")
    opened.wait_for_timeout(400)
    first = state(opened)
    assert first["playing"]
    assert 0 < first["time_s"] < first["end_s"]
    opened.wait_for_function("t => replay.state().time_s > t", arg=first["time_s"])
    opened.click("#replay-play")
    paused = state(opened)
    opened.wait_for_timeout(150)
    assert not paused["playing"]
    assert state(opened)["time_s"] == paused["time_s"]
    opened.evaluate(
        "replay.seek(replay.state().end_s - 0.05 * replay.state().speed); replay.play()"
    )
    opened.wait_for_function("!replay.state().playing")
    assert state(opened)["time_s"] == state(opened)["end_s"]


def test_the_slider_the_figures_and_the_words_agree(opened):
    opened.evaluate("""() => {
        window.heard = [];
        document.addEventListener("netsim:time", (event) => heard.push(event.detail));
        const slider = document.getElementById("replay-time");
        slider.value = 500;
        slider.dispatchEvent(new Event("input"));
    }""")
    now = state(opened)
    assert now["time_s"] == pytest.approx(now["end_s"] / 2)
    heard = opened.evaluate("heard.at(-1)")
    assert heard["time_s"] == now["time_s"]
    assert re.fullmatch(r"2026-01-06 1\d:\d\d:\d\d", heard["date"])
    opened.wait_for_function(
        "document.getElementById('replay-now').textContent.startsWith('Tue 6 Jan 2026, 1')"
    )
    assert opened.get_attribute("#replay-time", "aria-valuetext").startswith("Tue 6 Jan 2026, 1")


def test_keys(opened):
    opened.focus("#replay-stage")
    told = opened.evaluate("[...replay.model.told_s]")
    for key, time_s in (
        ("Home", 0.0),
        ("ArrowRight", told[0]),
        ("ArrowRight", told[1]),
        ("ArrowLeft", told[0]),
        ("ArrowLeft", 0.0),
        ("ArrowLeft", 0.0),
        ("Shift+ArrowRight", told[-1] / 100),
        ("End", told[-1]),
        ("ArrowLeft", told[-2]),
    ):
        opened.keyboard.press(key)
        assert state(opened)["time_s"] == pytest.approx(time_s), key
    speed = state(opened)["speed"]
    opened.keyboard.press("]")
    assert state(opened)["speed"] > speed
    opened.keyboard.press("[")
    assert state(opened)["speed"] == speed
    opened.keyboard.press("+")
    assert state(opened)["view"]["zoom"] > 1
    opened.keyboard.press("0")
    assert state(opened)["view"]["zoom"] == 1
    opened.keyboard.press("Space")
    assert state(opened)["playing"]
    opened.keyboard.press("Space")
    opened.focus("#replay-speed")  # another control has the focus: keys are its own
    before = state(opened)["time_s"]
    opened.keyboard.press("Home")
    assert state(opened)["time_s"] == before


@pytest.mark.parametrize(
    ("layer", "canvas"),
    [
        ("ues", "moving"),
        ("home", "known"),
        ("work", "known"),
        ("named", "known"),
        ("estimates", "known"),
        ("stations", "ground"),
    ],
)
def test_layers_switch(opened, layer, canvas):
    box = f"[data-layer={layer}]"
    before = ink(opened, canvas)
    opened.click(box)
    assert state(opened)["layers"][layer] == opened.is_checked(box)
    assert ink(opened, canvas) != before
    opened.click(box)
    assert ink(opened, canvas) == before


def test_the_ground_is_coloured_by_coverage_with_a_scale(opened):
    plain = seen = ink(opened, "ground")
    for layer in opened.evaluate(
        "[...document.querySelectorAll('#replay-coverage option')].map((o) => o.value)"
    )[1:]:
        opened.select_option("#replay-coverage", layer)
        assert ink(opened, "ground") != seen, layer
        seen = ink(opened, "ground")
        if layer.endswith(("_dbm", "_db")):
            assert re.search(r"-?\d+ dB", opened.text_content("#replay-scale"))
    opened.select_option("#replay-coverage", "")
    assert ink(opened, "ground") == plain
    assert not opened.is_visible("#replay-scale")


def test_a_ue_is_singled_out_by_list_and_by_click(opened):
    opened.select_option("#replay-ue", "1")
    assert state(opened)["ue"] == 1
    one = ink(opened, "known")
    opened.focus("#replay-stage")
    opened.keyboard.press("Escape")
    assert state(opened)["ue"] == -1
    assert ink(opened, "known") != one
    stage = opened.locator("#replay-stage")
    box = stage.bounding_box()
    view = state(opened)["view"]
    at = {
        "x": box["width"] / 2 + (HOME_M[0] - view["cx"]) * view["scale"],
        "y": box["height"] / 2 - (HOME_M[1] - view["cy"]) * view["scale"],
    }
    stage.click(position=at)  # waits until figures above have their places
    assert state(opened)["ue"] == 2
    assert "ue2" in opened.text_content("#replay-tip")
    assert "RSRP -" in opened.text_content("#replay-tip")


def test_the_attack_is_chosen(opened, folder):
    names = load(folder).attacks
    for k, name in enumerate(names):
        opened.select_option("#replay-attack", str(k))
        assert state(opened)["attack"] == k
        assert f"named by {name}" in opened.text_content("#replay-now")
        table = load(folder).rows("leakage", "attack", name)
        end = table["round"] == table["round"].max()
        for place in ("home", "work"):
            hits = len(np.unique(table["ue"][end & (table[f"{place}_named_m"] <= 100)]))
            assert state(opened)["named"][place] == hits


def test_the_map_zooms_and_moves(opened):
    opened.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    opened.evaluate("document.getElementById('replay-stage').scrollIntoView({block: 'center'})")
    opened.focus("#replay-stage")
    box = opened.locator("#replay-stage").bounding_box()
    x = box["x"] + box["width"] / 3
    y = box["y"] + box["height"] / 3
    opened.mouse.move(x, y)
    whole = state(opened)["view"]
    opened.mouse.wheel(0, -300)
    opened.wait_for_function("replay.state().view.zoom > 1.2")
    opened.mouse.down()
    opened.mouse.move(x + 60, y, steps=4)
    opened.mouse.up()
    moved = state(opened)["view"]
    # a drag is no click
    assert moved["cx"] < whole["cx"]
    assert state(opened)["ue"] == -1
    opened.click("#replay-fit")
    assert state(opened)["view"] == whole
    opened.evaluate(
        "document.activeElement.blur(); document.documentElement.style.scrollBehavior = 'auto'"
    )
    opened.evaluate("document.getElementById('replay-stage').scrollIntoView({block: 'start'})")
    before = opened.evaluate("scrollY")
    opened.mouse.move(x, 300)
    opened.mouse.wheel(0, -100)  # the page scrolls
    opened.wait_for_function("y => scrollY < y", arg=before)
    assert before > 100
    assert state(opened)["view"]["zoom"] == 1


def test_names_of_strangers_are_text(opened):
    assert opened.locator("#replay img").count() == 0
    assert opened.locator("#replay-ue option").nth(1).text_content() == EVIL
    opened.select_option("#replay-ue", "0")
    assert f"singled out: {EVIL}" in opened.text_content("#replay-now")
    assert opened.locator("#replay img").count() == 0


@pytest.mark.slow
def test_the_map_as_a_vector_picture_looks_like_the_map(opened, show, tmp_path):
    opened.select_option("#replay-coverage", "rsrp_dbm")
    opened.select_option("#replay-ue", "0")
    with opened.expect_download() as got:
        opened.click("#replay-svg")
    ET.fromstring(got.value.path().read_bytes())
    sizes = opened.evaluate(
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
    opened.add_style_tag(
        content=".replay .zoom, .replay .here, .replay .tip { display: none !important }"
    )
    seen = [
        opened.locator("#replay-moving").evaluate(COMPOSED),
        vector.locator("svg").evaluate(RASTER, size),
    ]
    away = (
        np.abs(np.array(seen[0], dtype=int) - np.array(seen[1], dtype=int))
        .reshape(-1, 4)[:, :3]
        .max(axis=1)
    )
    assert len(away) == sizes[0] * sizes[1]
    assert (away > 60).mean() < 0.02  # edges are smoothed otherwise


@pytest.mark.slow
@pytest.mark.parametrize(("width", "dark"), [(400, True), (900, False), (1280, True)])
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


def test_links_estimates_and_curves_are_those_of_the_tables(opened, folder):
    loaded = load(folder)
    links = loaded.rows("links")
    found = np.array(opened.evaluate(SENT))
    sends = np.isfinite(links["airtime_s"])
    order = np.lexsort([links["time_s"], links["ue"]])
    begin_s = links["time_s"] + np.where(sends, links["latency_s"] - links["airtime_s"], 0)
    np.testing.assert_allclose(found[:, 1][sends[order]], begin_s[order][sends[order]], atol=0.01)
    np.testing.assert_allclose(
        found[:, 2], np.where(sends, links["airtime_s"], 0)[order], atol=0.01
    )
    truth = loaded.rows("updates")
    guesses = loaded.rows("estimates")
    for k, name in enumerate(loaded.attacks):
        for x, y, true_x, true_y, number in opened.evaluate(GUESSED, [k, 0]):
            own = (guesses["attack"] == name) & (guesses["ue"] == 0) & (guesses["round"] == number)
            assert np.hypot(guesses["x_m"] - x, guesses["y_m"] - y)[own].min() < 0.5
            own = (truth["ue"] == 0) & (truth["round"] == number)
            assert np.hypot(truth["x_m"] - true_x, truth["y_m"] - true_y)[own].min() < 0.5
    curves = opened.evaluate("replay.model.curves.map((c) => ({...c, values: [...c.values]}))")
    for curve in curves:
        if curve["key"] in ("home", "work"):
            law = {"home": HOME, "work": WORK}[curve["key"]].law
            _, share = law(loaded, loaded.attacks[curve["attack"]])
            assert curve["of"] == 3
            assert curve["values"] == pytest.approx(3 * share[:, 0] / 100)
    by_key = {curve["key"]: curve["values"] for curve in curves}
    updates = loaded.tables["updates"]
    decoded = [100 * np.mean(updates["decoded"][updates["round"] == r + 1]) for r in range(6)]
    np.testing.assert_allclose(by_key["decoded"], decoded)
    np.testing.assert_allclose(by_key["map"], loaded.rows("rounds")["rmse_db"], atol=1e-3)


def frame_ms(page):
    """Time of a frame, the shortest of five looks at 12 frames: others may use the machine
    meanwhile."""
    look = "netsim.replay.then((replay) => replay.benchmark(12))"
    return min(page.evaluate(look) for _ in range(5))


def test_two_hundred_ues_move_smoothly(show, tiny, tmp_path):
    small = {
        "world.ues.count": 200,
        "world.duration_s": 1200,
        "learning.attacks": [],
        "learning.round_s": 600,
        "world.ues.measurement_period_s": 60,
        "world.city.width_m": 2000,
        "world.city.height_m": 2000,
    }
    run(tiny(small), tmp_path / "r")
    page = show(report(tmp_path / "r"))
    each_ms = frame_ms(page)
    print(f"a frame of 200 UEs takes {each_ms:.1f} ms")
    assert each_ms < 1000 / 15
    assert "homes" not in page.text_content("#replay-now")
    assert page.locator("#replay-attack").count() == 0


def test_a_radio_study(show, tiny, tmp_path):
    changes = {
        "world.radio.handover": {"time_to_trigger_s": 10.0, "hysteresis_db": 0.0},
        "world.duration_s": 600,
    }
    run(tiny(changes | {"learning": None, "world.radio.measurement_noise_db": 0.0}), tmp_path / "r")
    page = show(report(tmp_path / "r"))
    with_replay(page).evaluate("replay.seek(301)")
    shown = state(page)
    number = len(load(tmp_path / "r").rows("handovers")["ue"])
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
    assert state(page)["time_s"] == pytest.approx(594)
