"""Rows of SUMO FCD that compiled code reads are those that the parser reads, whatever the file holds."""

import numpy as np
import pytest

from netsim.errors import BadInput
from netsim.traces import source
from netsim.traces.files import read_table
from netsim.traces.formats import fcd_rows, sumo_fcd

MORE = ' angle="90.00" type="car" speed="13.89" pos="5.10" lane="E0_0" slope="0.00"'
OTHER = ' a="1" b-2.c="3"'


def step(time, *rows):
    return f'    <timestep time="{time}">\n' + "".join(f"        {row}\n" for row in rows) + "    </timestep>\n"


def car(name, x, y, more=MORE, tag="vehicle"):
    return f'<{tag} id="{name}" x="{x}" y="{y}"{more}/>'


def document(*steps):
    return '<?xml version="1.0" encoding="UTF-8"?>\n<fcd-export>\n' + "".join(steps) + "</fcd-export>\n"


PLAIN = [step(f"{t}.00", *(car(f"v{v}", f"{t + v}.25", f"-{v}.5") for v in range(t % 4))) for t in range(30)]
FIRST = step("0.00", car("first", "1.5", "2.5"))
ODD = {
    "plain": PLAIN,
    "person": [FIRST, *(step(t, car("p", t, 2 * t, tag="person"), car("c", 1, t, "", "container")) for t in range(9))],
    "empty steps": [FIRST, *(f'<timestep time="{t}"/>\n' if t % 2 else step(t, car("v", t, 1)) for t in range(20))],
    "hours": [FIRST, *(step(f"0:00:0{t}", car("v", t, 1)) for t in range(9))],
    "long numbers": [FIRST, *(step(t, car("v", f"{t}.12345678901234567", f"{t}e2")) for t in range(9))],
    "fifteen digits": [FIRST, *(step(t, car("v", f"{t}23456789.012345", "-0.000")) for t in range(9))],
    "spaces and signs": [FIRST, *(step(t, car("v", f" {t}", f"+{t}"), car("w", f"{t}.", f".{t}")) for t in range(9))],
    "entities": [FIRST, *(step(t, car("a&amp;b", t, 1), car("ü", t, 2), car("a>b", t, 3)) for t in range(9))],
    "single quotes": [FIRST, *(step(t, f"<vehicle id='v' x='{t}' y='1'/>", car("w", 1, t)) for t in range(9))],
    "another order": [FIRST, *(step(t, f'<vehicle x="{t}" y="1" id="v"/>', car("w", 1, t)) for t in range(9))],
    "children": [FIRST, *(step(t, car("v", t, 1, "><p a=''/></vehicle")[:-2] + ">", car("w", 1, t)) for t in range(9))],
    "comments": [FIRST, *(step(t, f"<!-- {car('no', 1, 1)} -->", car("v", t, 1)) for t in range(9))],
    "sections": [FIRST, *(step(t, f"<![CDATA[ {car('no', 1, 1)} ]]>", car("v", t, 1)) for t in range(9))],
    "a long comment": [FIRST, "<!--", *PLAIN, "-->", *PLAIN],
    "a tag of our own": [FIRST, *(step(t, car("v", t, 1), f"<netsim>{FIRST}</netsim>") for t in [0] * 9)],
    "attributes differ": [
        FIRST, *(step(t, car("v", t, 1), car("w", 1, 1, OTHER), car("u", 1, t, "")) for t in range(9)),
    ],
    "one line": ["".join(PLAIN).replace("\n", "").replace("    ", "")],
    "many users": [FIRST, *(step(t, *(car(f"{t}-{k}", t, k) for k in range(40))) for t in range(20))],
}  # fmt: skip
BAD = {
    "x": [*PLAIN, step(90, car("v", "east", 1))],
    "a name twice": [*PLAIN, step(90, car("v", 1, 1), car("v", 1, 1, ' a="1" a="2"'))],
    "x twice": [*PLAIN, step(90, car("v", 1, 1, ' x="1"'))],
    "an open tag": [*PLAIN, step(90, '<vehicle id="v" x="1" y="1">')],
    "a wrong end": [*PLAIN, '<timestep time="90">\n', car("v", 1, 1), "</step>\n"],
    "no space": [*PLAIN, step(90, '<vehicle id="v" x="1"y="1"/>')],
    "a control character": [*PLAIN, step(90, car("v\x01", 1, 1))], "less than": [*PLAIN, step(90, car("v<", 1, 1))],
    "an entity": [*PLAIN, step(90, car("&x;", 1, 1))], "a time": [*PLAIN, step(-1, car("v", 1, 1))],
    "no id": [*PLAIN, step(90, '<vehicle x="1" y="1"/>')], "no end": [*PLAIN, "<timestep"],
    "in an attribute": [*PLAIN, "<timestep time='5' a='>\n", *PLAIN, "'/>"],
}  # fmt: skip


def read_both(path, monkeypatch, piece_bytes):
    """The table, or what is wrong, by the parser alone and with compiled rows; and how many rows these were."""
    monkeypatch.setattr(source, "CHUNK_BYTES", piece_bytes)
    found, compiled = [], []

    def counted(*arguments):
        rows = fcd_rows_read(*arguments)
        compiled.append(len(rows.x))
        return rows

    fcd_rows_read = fcd_rows.read
    monkeypatch.setattr(fcd_rows, "read", counted)
    for by_parser in (10**9, 0):
        monkeypatch.setattr(sumo_fcd, "_BY_PARSER", by_parser)
        try:
            table = read_table(path, format="sumo-fcd", crs="local")
            found.append((table.users, table.time_s, table.user, table.points))
        except BadInput as error:
            found.append(str(error))
    return *found, sum(compiled)


@pytest.mark.parametrize("piece_bytes", [150, 700, 2**20])
@pytest.mark.parametrize("name", ODD)
def test_the_rows_are_those_of_the_parser(tmp_path, monkeypatch, name, piece_bytes):
    (tmp_path / "t.xml").write_text(document(FIRST + " " * piece_bytes, *ODD[name]))
    parsed, mixed, compiled = read_both(tmp_path / "t.xml", monkeypatch, piece_bytes)
    assert not isinstance(parsed, str) and parsed[0] == mixed[0]
    for theirs, ours in zip(parsed[1:3], mixed[1:3], strict=True):
        assert theirs.tobytes() == ours.tobytes()
    assert repr(parsed[3]) == repr(mixed[3]) and np.array_equal(parsed[3].x_m, mixed[3].x_m)
    if name in ("plain", "person", "empty steps", "attributes differ", "fifteen digits") and piece_bytes > 150:
        assert compiled > len(parsed[1]) / 2


@pytest.mark.parametrize("piece_bytes", [150, 700])
@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_told_as_by_the_parser(tmp_path, monkeypatch, name, piece_bytes):
    (tmp_path / "t.xml").write_text(document(*BAD[name]))
    parsed, mixed, _ = read_both(tmp_path / "t.xml", monkeypatch, piece_bytes)
    assert isinstance(parsed, str) and mixed == parsed


def test_numbers_are_the_nearest_doubles():
    rng = np.random.default_rng(3)
    text = [f"{x:.{d}f}" for x, d in zip(rng.uniform(-1e5, 1e5, 500), rng.integers(0, 10, 500), strict=True)]
    data = "".join(f'<vehicle id="v" x="{x}" y="0"/>\n' for x in text).encode()
    assert fcd_rows.read(np.frombuffer(data, dtype=np.uint8), 0, 0.0).x.tolist() == [float(x) for x in text]
