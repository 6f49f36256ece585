"""Texts of templates: a value never breaks a line, and nothing of a value is lost."""

from netsim.texts import render_facts, render_lines
from netsim.trace_files.inspect import inspect_trace


def test_no_value_breaks_a_line_of_a_summary(tmp_path):
    def inspect(cell):
        path = tmp_path / "log.csv"
        rows = [f'{60 * k},{k},{k},"{cell}",-90' for k in range(40)]
        path.write_text("\n".join(["time_s,x_m,y_m,cell,rsrp_dbm", *rows]))
        return inspect_trace(path).splitlines()

    one, two = inspect("a b"), inspect("a\nb")
    # but for the command, whose name of a cell is as the file has it
    assert one[:-1] == two[: len(one) - 1]
    assert "positions        40 distinct of cell a b" in two


def test_facts_keep_bars_and_braces_of_values():
    card = {"uplink": "a|b {{ c }}", "not modelled": "x"}
    assert "uplink a|b {{ c }}" in render_lines("netsim.world", "card_lines.txt", card=card)[0]


def test_a_fact_is_split_at_its_first_bar(tmp_path, monkeypatch):
    package = tmp_path / "told"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "facts.txt").write_text("name|{{ value }}\n|{{ count(2, 'row') }}")
    monkeypatch.syspath_prepend(tmp_path)
    facts = render_facts("told", "facts.txt", value="a|b\nc")
    assert facts == [("name", "a|b c"), ("", "2 rows")]
