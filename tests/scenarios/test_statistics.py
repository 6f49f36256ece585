"""Figures in print: three digits for people, whatever the size."""

import pytest

from scenarios.app.results.statistics import figure_text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.12345, "0.123"), (26.64, "26.6"), (1010.4, "1,010"), (6.7e109, "6.7e+109"), (-2e9, "-2e+09"),
        (float("nan"), "–"), (float("inf"), "∞"),
    ],
)  # fmt: skip
def test_a_figure_has_three_digits(value, text):
    assert figure_text(value) == text
