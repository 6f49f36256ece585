"""Draw the share of each leak that remains: ``python docs/defenses_picture.py docs/_static/published-defenses.svg``.

Its figures are those of the table of docs/studies/published-defenses.md.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

PAGE = Path(__file__).parent / "studies" / "published-defenses.md"
COLUMNS = ("defense", "chance", "no defense", "published attacker", "adapted attacker")


def rows() -> list[tuple[str, list[float]]]:
    """Name of each row of the page's table, and its four figures."""
    table = [line.strip("|").split("|") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    assert [cell.strip() for cell in table[0]][1:5] == list(COLUMNS[1:])
    numbers = r"-?[\d,]+(?:\.\d+)?"
    return [
        (
            re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", r[0]).strip(),
            [float(re.search(numbers, c)[0].replace(",", "")) for c in r[1:5]],
        )
        for r in table[1:]
    ]


def draw(out: Path) -> None:
    """One line a row: the share of the leak without a defense that each attacker still has (0: chance)."""
    found = rows()[::-1]
    plt.rcParams.update({"font.size": 8, "svg.hashsalt": "netsim"})
    figure, axes = plt.subplots(figsize=(7.2, 0.34 * len(found) + 0.9), layout="constrained")
    for y, (_, (chance, nothing, published, knows)) in enumerate(found):
        left = [min(max((of - chance) / (nothing - chance), 0), 1) for of in (published, knows)]
        axes.plot(left, [y, y], color="0.8", zorder=1)
        axes.plot(left[0], y, "o", mfc="white", color="tab:blue", label="published attacker" if y == 0 else None)
        axes.plot(left[1], y, "o", color="tab:red", label="adapted attacker" if y == 0 else None)
    axes.set(yticks=range(len(found)), yticklabels=[name for name, _ in found], xlim=(-0.03, 1.03))
    axes.set_xlabel("share of the leak that remains: 0 chance, 1 no defense")
    figure.legend(loc="outside upper right", ncols=2, frameon=False)
    figure.savefig(out, metadata={"Date": None})


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
