"""Changes that make a valid input wrong, or right in an unusual way: of bytes, of text, of trees,
of archives.

Every function takes a `random.Random`, so that a case is a function of its seed and its number.
"""

import copy
import gzip
import io
import json
import tempfile
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np

ODD_NUMBERS = [
    "0",
    "-0.0",
    "-1",
    "1e-308",
    "5e-324",
    "1e308",
    "1e309",
    "-1e309",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "Infinity",
    ".nan",
    "2147483648",
    "9223372036854775808",
    "-9223372036854775809",
    "1" * 400,
    "1" * 5000,
    "0x1F",
    "0o17",
    "1_000",
    "1e",
    "+5",
    "0.1.2",
    "360.5",
    "91",
    "1.7976931348623157e308",
    "4294967296",
    "1e15",
    "1e22",
    "-273.16",
    "٣",
    "½",
    "1e-400",
    "0" * 60 + "1",
]
ODD_WORDS = [
    "",
    " ",
    "null",
    "~",
    "true",
    "off",
    "none",
    "all",
    "auto",
    "known",
    "é",
    "日本",
    "\u202e",
    "\ufeff",
    "\x1b[2J",
    "\x00",
    "\x85",
    "a" * 300,
    "a" * 70_000,
    "../up",
    "/dev/null",
    "/proc/none",
    "${HOME_OF_NOBODY}",
    "${PATH}",
    "<script>",
    "&amp;",
    "&a;",
    "*a",
    "&a",
    "!!python/object:os.system",
    "!!binary",
    "- -",
    "%s%n",
    "=1+1",
    "kind",
    "[]",
    "{}",
    "'",
    '"',
    "\\",
    "\ud7ff",
    "1970-01-01",
    "::",
    "a.b[0]",
]
YAML_BOMB = "a: &a [x, x, x]\n" + "".join(
    f"{c}: &{c} [{', '.join([f'*{p}'] * 9)}]\n" for p, c in pairwise("abcdefgh")
)
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


def bytes_changed(data, draw):
    """Bits turned, a piece cut out, doubled or put in, the end lost, another encoding, packed."""
    index = draw.randrange(len(data) + 1)
    to = min(len(data), index + draw.choice([1, 2, 8, 64, 1000]))
    choice = draw.randrange(12)
    if choice < 3 and data:
        turned = bytearray(data)
        for _ in range(draw.choice([1, 1, 4, 32])):
            turned[draw.randrange(len(turned))] ^= 1 << draw.randrange(8)
        return bytes(turned)
    return {
        3: lambda: data[:index],
        4: lambda: data[:index] + data[to:],
        5: lambda: data[:to] + data[index:to] * draw.choice([1, 3, 200]) + data[to:],
        6: lambda: data[:index] + draw.randbytes(draw.choice([1, 4, 300])) + data[index:],
        7: lambda: data[:index] + bytes(to - index) + data[to:],
        8: lambda: gzip.compress(data[: max(1, index)]),
        9: lambda: data.decode("utf-8", "replace").encode(
            draw.choice(["utf-16", "utf-32", "utf-8-sig"])
        ),
        10: lambda: draw.randbytes(draw.choice([0, 1, 100, 5000])),
        11: lambda: data[index:] + data[:index],
    }.get(choice, lambda: data[:index])()


def _words(text):
    """Where words and numbers stand: [(from, to)]."""
    spans = []
    start = None
    for i, character in enumerate(text + " "):
        if character.isalnum() or character in "._-+":
            start = i if start is None else start
        elif start is not None:
            spans.append((start, i))
            start = None
    return spans


def text_changed(data, draw):
    """A word replaced by an odd or another one of the file, lines lost, doubled or exchanged, deep
    nesting."""
    text = data.decode("utf-8", "surrogateescape")
    choice = draw.randrange(10)
    if choice < 6:
        spans = _words(text)
        if not spans:
            return data + draw.choice(ODD_WORDS).encode()
        a, b = draw.choice(spans)
        second = slice(*draw.choice(spans))
        new = [
            draw.choice(ODD_NUMBERS),
            draw.choice(ODD_NUMBERS),
            draw.choice(ODD_WORDS),
            text[second],
        ][draw.randrange(4)]
        text = text[:a] + new + text[b:]
    else:
        lines = text.split("\n")
        k = draw.randrange(len(lines))
        second = draw.randrange(len(lines))
        if choice == 6:
            del lines[k]
        elif choice == 7:
            lines[k:k] = [lines[second]] * draw.choice([1, 2, 50])
        elif choice == 8:
            lines[k], lines[second] = lines[second], lines[k]
        else:
            deep = draw.choice(["[", "{a: ", "- ", "<a>", "(", '{"a":', '"']) * draw.choice(
                [30, 3000]
            )
            lines[k] = lines[k][: draw.randrange(len(lines[k]) + 1)] + deep
        text = "\n".join(lines)
    return text.encode("utf-8", "surrogateescape")


def yaml_changed(data, draw):
    """Aliases that stand for a billion words before it, or what befalls any text."""
    if draw.random() > 0.05:
        return text_changed(data, draw)
    return YAML_BOMB.encode() + data


def xml_changed(data, draw):
    """A document type, which may be an entity bomb, or what befalls any text."""
    if draw.random() > 0.12:
        return text_changed(data, draw)
    if b"?>" in data:
        body = data[data.find(b"?>") + 2 :]
    else:
        body = data
    if draw.random() < 0.5:
        body = body.replace(b">", f">&{draw.choice('ai')};".encode(), 1)
    else:
        body = body
    return draw.choice([XML_BOMB, XML_OUTSIDE]).encode() + body


def _nodes(tree, path=()):
    """The paths to all values of a tree."""
    yield path
    if isinstance(tree, dict):
        pairs = tree.items()
    elif isinstance(tree, list):
        pairs = enumerate(tree)
    else:
        pairs = ()
    for key, value in pairs:
        yield from _nodes(value, (*path, key))


def tree_changed(tree, draw):
    """A copy in which one value is odd, gone, moved here from elsewhere, or has another key."""
    tree = copy.deepcopy(tree)
    paths = list(_nodes(tree))[1:]
    if not paths:
        return odd_value(draw)
    *way, key = draw.choice(paths)
    node = tree
    for step in way:
        node = node[step]
    choice = draw.randrange(8)
    if choice < 4:
        node[key] = odd_value(draw)
    elif choice == 4:
        del node[key]
    elif choice == 5:
        second = tree
        for step in draw.choice(paths):
            second = second[step]
        node[key] = copy.deepcopy(second)
    elif choice == 6 and isinstance(node, dict):
        node[draw.choice([str(key) + "x", *ODD_WORDS[:20]])] = node.pop(key)
    elif isinstance(node[key], int | float) and not isinstance(node[key], bool):
        node[key] = node[key] * draw.choice([-1, 1e3, 1e-3, 1e9, 0.5])
    else:
        node[key] = [node[key]]
    return tree


def tree_saved(data, draw):
    """A checkpoint whose digest is right and whose tree is not."""
    from netsim.checkpoint import load_tree, save_tree

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "c.npz"
        path.write_bytes(data)
        tree = load_tree(path)
        for _ in range(draw.choice([1, 1, 2])):
            tree = tree_changed(tree, draw)
        try:
            save_tree(path, tree if isinstance(tree, dict) else {"study": tree})
        except (TypeError, ValueError, UnicodeError, np.exceptions.AxisError):
            return data[: len(data) // 2]
        return path.read_bytes()


def json_changed(data, draw):
    """The tree of a JSON file changed, some times its text as well; of what is no JSON any more,
    the text."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return text_changed(data, draw)
    for _ in range(draw.choice([1, 1, 2, 4])):
        tree = tree_changed(tree, draw) if isinstance(tree, dict | list) else tree
    text = json.dumps(tree, indent=draw.choice([None, 1])).encode("utf-8", "surrogatepass")
    if draw.random() < 0.2:
        return draw.choice([text_changed, bytes_changed])(text, draw)
    return text


def zip_changed(data, draw):
    """A member of an archive changed, lost, doubled or grown, with sums that fit; or the bytes of
    the archive."""
    if draw.random() < 0.4:
        return bytes_changed(data, draw)
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as old:
            kept = {name: old.read(name) for name in old.namelist()}
    except Exception:  # changed before, and no archive any more
        return bytes_changed(data, draw)
    if not kept:
        return data
    name = draw.choice(sorted(kept))
    choice = draw.randrange(6)
    if choice == 0:
        del kept[name]
    elif choice == 1:
        kept[name] = kept[draw.choice(sorted(kept))]
    elif choice == 2:
        kept[draw.choice(["../up", "a/b", "x.npy", name + "x", "/abs"])] = kept.pop(name)
    elif choice == 3:
        kept[name] = kept[name] + bytes(draw.choice([1, 10**6, 3 * 10**7]))
    else:
        kept[name] = draw.choice([bytes_changed, text_changed])(kept[name], draw)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", draw.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])) as new:
        for member, content in kept.items():
            new.writestr(member, content)
    return out.getvalue()


def change_content(data, draw, ways):
    """One to three changes, each in one of these ways."""
    for _ in range(draw.choice([1, 1, 2, 3])):
        data = draw.choice(ways)(data, draw)
    return data
