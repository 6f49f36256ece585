"""Words, numbers and values that seldom belong where they are put, and texts that would never end."""

from itertools import pairwise

ODD_NUMBERS = [
    "0", "-0.0", "-1", "1e-308", "5e-324", "1e308", "1e309", "-1e309", "nan", "NaN", "inf", "-inf", "Infinity", ".nan",
    "2147483648", "9223372036854775808", "-9223372036854775809", "1" * 400, "1" * 5000, "0x1F", "0o17", "1_000", "1e",
    "+5", "0.1.2", "360.5", "91", "1.7976931348623157e308", "4294967296", "1e15", "1e22", "-273.16", "٣", "½", "1e-400",
    "0" * 60 + "1",
]  # fmt: skip
ODD_WORDS = [
    "", " ", "null", "~", "true", "off", "none", "all", "auto", "known", "é", "日本", "\u202e", "\ufeff", "\x1b[2J",
    "\x00", "\x85", "a" * 300, "a" * 70_000, "../up", "/dev/null", "/proc/none", "${HOME_OF_NOBODY}", "${PATH}",
    "<script>", "&amp;", "&a;", "*a", "&a", "!!python/object:os.system", "!!binary", "- -", "%s%n", "=1+1", "kind",
    "[]", "{}", "'", '"', "\\", "\ud7ff", "1970-01-01", "::", "a.b[0]",
]  # fmt: skip
YAML_BOMB = "a: &a [x, x, x]\n" + "".join(f"{c}: &{c} [{', '.join([f'*{p}'] * 9)}]\n" for p, c in pairwise("abcdefgh"))
XML_BOMB = (
    '<?xml version="1.0"?>\n<!DOCTYPE z [<!ENTITY a "aaaaaaaaaa">'
    + "".join(f'<!ENTITY {c} "{f"&{p};" * 10}">' for p, c in pairwise("abcdefghi"))
    + "]>\n"
)
XML_OUTSIDE = '<?xml version="1.0"?>\n<!DOCTYPE z [<!ENTITY a SYSTEM "file:///etc/passwd">]>\n'


def odd_value(draw):
    """A value that seldom belongs where it is put."""
    nested = []
    for _ in range(draw.choice([1, 3, 40, 200])):
        nested = [nested]
    return draw.choice(
        [
            None, True, False, 0, -1, 1, 2, 1e-300, -1e-9, 1e9, 1e18, 2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 0.5,
            1e308, float("nan"), float("inf"), -float("inf"), [], {}, [[]], [0], [1, 2], [1, 2, 3], [None], ["a"],
            {"kind": "none"}, {"kind": "x"}, {"": 0}, nested, *ODD_WORDS[:-6],
        ]
    )  # fmt: skip
