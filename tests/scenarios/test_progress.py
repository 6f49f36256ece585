"""Progress: on a terminal of any width, in a log, as JSON; the time left; what is left behind when
a command ends."""

import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import termios
import time

import numpy as np
from forked import fork_on_terminal
from pytest import approx, fixture, mark, raises

from fl.round.records import compute_homes_named_percent
from scenarios.app.cli.outcome import Meter, describe_event, name_unit
from scenarios.app.run.events import Event
from scenarios.app.run.simulate import _collect_figures
from scenarios.app.study.load import parse_value

SHORT = [
    "--set",
    "world.duration_s=432000",
    "--set",
    "learning.round_s=86400",
    "--set",
    "learning.learner.hidden=[8]",
    "--set",
    "learning.attacks=[{kind: closed-form}]",
    "--set",
    "learning.references={central: false, kriging_samples: 0}",
]
CODES = re.compile(r"\033\[[?0-9;]*[a-zA-Z]")


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    encoding = "utf-8"

    def isatty(self):
        return True


def event(number, part, figures, last=False, **changes):
    return Event(
        "round",
        number,
        part,
        last,
        {"clock": f"2026-01-0{number} 00:00", **changes, **_collect_figures(figures)},
    )


def a_round(number, part=4, **figures):
    printed = {
        "scores": {"rmse_db": 11.23, "constant_rmse_db": 19.7},
        "sent": 40,
        "decoded": 36,
        "epsilon_max": None,
        "leakage": {"span": float("nan"), "dlg": 220.4},
        "homes_named_percent": {"span": 95.0, "dlg": float("nan")},
    }
    return event(number, part, printed | figures, number == part)


def replay_screen(text, columns, rows=24):
    """What a terminal shows after a text: characters, returns, cursor up, erase to the end of the
    line or below."""
    screen = [""]
    index = 0
    x = 0
    for piece in re.findall(r"\033\[[?0-9;]*[a-zA-Z]|\r|\n|[^\033\r\n]+", text):
        if piece == "\n":
            index = index + 1
            x = 0
            screen += [""] * (index + 1 - len(screen))
        elif piece == "\r":
            x = 0
        elif piece.endswith("A"):
            index = max(index - int(piece[2:-1]), len(screen) - rows, 0)
        elif piece.endswith("K"):
            screen[index] = screen[index][:x]
        elif piece.endswith("J"):
            screen[index] = screen[index][:x]
            screen[index + 1 :] = []
        elif not piece.startswith("\033"):
            assert len(piece) + x < columns, f"wraps: {piece!r}"
            screen[index] = screen[index][:x] + piece + screen[index][x + len(piece) :]
            x = x + len(piece)
    return screen


@fixture
def terminal(monkeypatch):
    """A block on a terminal of so many columns, with a clock that stands until it is set."""

    def make(columns, lines=24, quiet=False, encoding="utf-8", **environment):
        printed = {
            "TERM": "xterm",
            "NO_COLOR": "",
            "COLUMNS": str(columns),
            "LINES": str(lines),
            **environment,
        }
        for name, value in printed.items():
            monkeypatch.setenv(name, value)
        stream = Terminal()
        clock = [0.0]
        stream.encoding = encoding
        return Meter("city", quiet, stream=stream, clock=lambda: clock[0]), stream, clock

    return make


@mark.parametrize("columns", [10, 20, 60, 120])
def test_a_block_is_rewritten_in_place_and_never_wraps(terminal, columns):
    block, stream, clock = terminal(columns)
    with block:
        for number in range(1, 5):
            clock[0] += 1.0
            block.show_event(a_round(number))
        shown = replay_screen(stream.getvalue(), columns + 1)
        assert shown[0].startswith("c")
        assert len(shown) <= 24
        if columns >= 60:
            text = " ".join("\n".join(shown).split())
            assert "round 4 of 4, 100 %" in text
            assert "homes named: span 95 %; centroid error: dlg 220 m" in text
    over = replay_screen(stream.getvalue(), columns + 1)
    assert columns < 60 or not "".join(over[1:]).strip()  # a line stays of all of it
    assert columns < 60 or "city: round 4 of 4, 100 % in 0:00:04" in over[0]
    assert stream.getvalue().rindex("\033[?25h") > stream.getvalue().rindex("\033[?25l")


def test_an_ended_command_leaves_its_last_state(terminal):
    block, stream, clock = terminal(80)
    with raises(KeyboardInterrupt), block:
        clock[0] = 1.0
        block.show_event(a_round(2))
        raise KeyboardInterrupt
    assert any("round 2 of 4, 50 %" in line for line in replay_screen(stream.getvalue(), 81))
    block, stream, clock = terminal(80)
    with raises(ValueError), block:  # before the first round: nothing is left
        raise ValueError
    assert not "".join(replay_screen(stream.getvalue(), 81)).strip()


def test_colours_only_where_they_are_wanted(terminal):
    texts = {}
    for expected in ("", "1"):
        block, stream, _ = terminal(100, NO_COLOR=expected)
        with block:
            block.show_event(a_round(1))
        texts[expected] = stream.getvalue()
    assert re.search(r"\033\[3\d", texts[""])
    assert not re.search(r"\033\[3\d", texts["1"])


def test_a_terminal_without_unicode_gets_ascii(terminal):
    block, stream, _ = terminal(60, encoding="ascii")
    with block:
        block.show_event(a_round(2))
    assert stream.getvalue().isascii()
    assert "---" in stream.getvalue()


@mark.parametrize("term", ["dumb", ""])
def test_a_dumb_terminal_gets_plain_lines(terminal, term):
    block, stream, _ = terminal(20, TERM=term)
    with block:
        block.show_event(a_round(1))
    assert "\033" not in stream.getvalue()
    assert stream.getvalue().startswith("city: round 1/4, 2026-01-01 00:00, RMSE")


def test_a_log_has_few_whole_lines():
    clock = [0.0]
    stream = io.StringIO()
    with Meter("city", stream=stream, clock=lambda: clock[0]) as block:
        for number in range(1, 3_001):
            clock[0] += 2.9
            block.show_event(a_round(1 if number < 3_000 else 4))
    lines = stream.getvalue().splitlines()
    assert 30 < len(lines) < 300
    assert "round 4/4" in lines[-1]
    assert "left" not in lines[-1]
    assert all(line.startswith("city: round") for line in lines)


def test_a_log_begins_before_the_first_step_where_that_takes_long(monkeypatch):
    monkeypatch.setattr("scenarios.app.cli.outcome.FIRST_S", 0.0)
    for quiet, message in ((False, "city: preparing\n"), (True, "")):
        with Meter("city", quiet, stream=(stream := io.StringIO())) as block:
            if not quiet:
                block.first.join(10)
        assert stream.getvalue() == message


def test_quiet_says_nothing(terminal):
    block, stream, _ = terminal(80, quiet=True)
    with block:
        block.show_event(a_round(1))
    assert stream.getvalue() == ""


def test_control_characters_and_markup_of_names_steer_no_terminal(terminal):
    block, stream, _ = terminal(100)
    with block:
        name = "a\033[5mb\n[red]"
        printed = a_round(1, leakage={name: 3.0}, homes_named_percent={name: 9.0})
        block.show_event(printed._replace(part="ci\033[2Jty"))
        assert "\033[2J" not in stream.getvalue()
        assert "\033[5m" not in stream.getvalue()
        assert "ci\\x1b[2Jty" in stream.getvalue()
        assert "[red]" in stream.getvalue()


def measure_left(steps):
    """Seconds left after each (time, done, of), as JSON lines tell them."""
    clock = [0.0]
    printed = []
    block = Meter("x", as_json=True, clock=lambda: clock[0])
    for clock[0], done, part in steps:
        block.show_event(Event("world", done, part, done == part, {"label": "a"}))
        printed.append(block.tasks[0].time_remaining)
    return printed


def test_time_left_counts_neither_the_world_nor_what_was_there_before():
    assert measure_left([(50.0, 1, 101), (52.0, 2, 101), (54.0, 3, 101)]) == [None, 198, 196]
    assert measure_left([(40.0, 5, 9), (70.0, 6, 9), (80.0, 9, 9)]) == [None, 90, 0]
    assert measure_left([(7200.0 * k, k, 9) for k in (1, 2)])[-1] == 7200 * 7  # hours a round


def test_words_of_each_kind_of_model_and_of_noise():
    def rows(**figures):
        return describe_event(a_round(1, **figures).to_json("x"))

    assert rows(scores={"accuracy_percent": 86.12})["model"] == "accuracy 86.1 %"
    assert rows(scores={"rank_correlation": 0.4321})["model"] == "rank correlation 0.432"
    assert "model" not in rows(scores={"rmse_db": float("nan")})
    assert rows(epsilon_max=9.21)["privacy"] == "epsilon 9.21"
    assert rows(epsilon_max=float("inf"))["privacy"] == "epsilon inf"
    nobody = describe_event(event(1, 4, {}).to_json("x"))
    assert nobody == {"time": "2026-01-01 00:00", "updates": "no updates"}
    stopped = describe_event(event(1, 4, {}, True, stopped=True).to_json("x"))
    assert stopped["updates"] == "not played: it would exceed learning.privacy_budget"
    window = Event(
        "window", 3, 20, False, {"clock": "now", "sinr_db": float("nan"), "handovers": 1200}
    )
    assert describe_event(window.to_json("x"))["radio"] == "no UE is present, 1,200 handovers"
    assert describe_event({"event": "step", "cost": 1.5, "seed": 0}) == {
        "cost": "cost 1.5",
        "last": "seed 0",
    }


def test_without_rounds_windows_are_counted_and_merges_told():
    merged = a_round(2)._replace(values={**a_round(2).values, "merge": 1_152}).to_json("x")
    assert (name_unit(merged), describe_event(merged)["updates"]) == (
        "window",
        "merge 1,152: 36 of 40 updates decoded",
    )


def test_rows_keep_their_place_and_their_last_text(terminal):
    block, stream, clock = terminal(100)
    with block:
        block.show_event(a_round(1, scores={}))
        clock[0] = 1.0
        block.show_event(a_round(2))
        clock[0] = 2.0
        block.show_event(event(3, 4, {}))
        shown = replay_screen(stream.getvalue(), 101)[1:]
        assert [line.split()[0] for line in shown if line.strip()] == [
            "time",
            "model",
            "leakage",
            "updates",
        ]
        assert "no updates" in shown[3]


def test_homes_are_counted_once_and_only_where_there_is_one():
    home_m = np.array([[0.0, 0.0], [1.0, 1.0], [np.nan, np.nan], [2.0, 2.0]])
    rows = [
        {"ue": ue, "home_named_m": away}
        for ue, away in ((0, 100.0), (0, 100.0), (1, 100.1), (2, np.nan), (3, np.nan))
    ]
    assert compute_homes_named_percent(rows, home_m, 100.0) == approx(100 / 3)
    assert compute_homes_named_percent(rows, home_m, 101.0) == approx(200 / 3)
    assert np.isnan(compute_homes_named_percent(rows[3:4], home_m, 100.0))
    assert np.isnan(compute_homes_named_percent([], home_m, 100.0))


def test_json_lines_have_the_time_left_and_no_number_that_json_lacks(capsys):
    clock = [0.0]
    with Meter("city", as_json=True, clock=lambda: clock[0]) as block:
        for number in (1, 2):
            clock[0] += 3.0
            block.show_event(a_round(number, epsilon_max=float("inf")))
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert first["left_s"] is None
    assert second["left_s"] == 6.0
    assert second["epsilon"] is None
    assert second["attacks"] == parse_value(
        "{span: {centroid_error_m: null, "
        "homes_named_percent: 95.0}, "
        "dlg: {centroid_error_m: 220.4, "
        "homes_named_percent: null}}"
    )


def on_terminal(words, columns, environment, until=None):
    """Output and exit code of a command on a terminal of so many columns; interrupted once it has
    shown `until`."""
    ours, measured = pty.openpty()
    fcntl.ioctl(measured, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = fork_on_terminal(os.ttyname(measured), words, environment)
    seen = b""
    printed = False
    ends = time.monotonic() + 120
    while time.monotonic() < ends:
        if select.select([ours], [], [], 0.2)[0]:
            seen += os.read(ours, 65_536)
        elif process.exitcode is not None:
            break
        if until is not None and not printed and until.encode() in seen:
            os.kill(process.pid, signal.SIGINT)
            printed = True
    os.close(measured)
    os.close(ours)
    process.join(30)
    return seen.decode().replace("\r\n", "\n"), process.exitcode


def test_a_run_on_a_terminal(out):
    words = ["run", "campus", "--out", str(out), *SHORT]
    text, code = on_terminal(words, 100, {"TERM": "xterm", "NO_COLOR": "1"})
    progress = text[: text.index("campus, seed")]
    assert code == 0
    assert "campus: round 5 of 5" in "\n".join(replay_screen(progress, 101))
    assert "centroid error" in CODES.sub("", text[text.rindex("\033[?25h") :])
    assert "\033[?25l" not in text[text.rindex("\033[?25h") :]


def test_interrupting_a_run_on_a_terminal(out):
    words = ["run", "town", "--out", str(out)]
    text, code = on_terminal(words, 80, {"TERM": "xterm"}, until=" of 21")
    assert code == 130
    assert text.rindex("\033[?25h") > text.rindex("\033[?25l")
    assert text.rstrip().endswith("netsim: interrupted; the same command goes on where it stopped")


def test_a_log_is_never_silent_for_long(monkeypatch):
    monkeypatch.setattr("scenarios.app.cli.outcome.AGAIN_S", 0.05)
    stream = io.StringIO()
    with Meter("city", stream=stream) as block:
        block.show_event(a_round(2))
        block.tell_again()
        block.again.join(5)
        time.sleep(0.2)
    lines = stream.getvalue().splitlines()
    assert len(lines) >= 3
    assert set(lines[1:]) == {"city: round 2 of 4, 50 %"}


def test_each_run_of_several_has_its_line():
    clock = [0.0]
    stream = io.StringIO()
    with Meter("city", stream=stream, clock=lambda: clock[0]) as block:
        for k in (1, 2, 3):  # at once
            values = {"label": f"row {k}", "seed": k, "summary": {}}
            block.show_event(Event("run", k, 3, k == 3, values))
    assert [line.split(", ")[1] for line in stream.getvalue().splitlines()] == [
        "row 1",
        "row 2",
        "row 3",
    ]
