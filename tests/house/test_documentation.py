"""What README.md and docs/*.md show is run: shell, Python and YAML blocks; printed output and links
are compared.

A block is an indented or flush ``` block with a language. HTML comments directly before it steer
the test, unseen by readers:

    <!-- test: skip REASON -->       not run (what needs a network, or somebody's own files)
    <!-- test: slow -->              run by `pytest -m slow` only
    <!-- test: needs MODULE -->      left out where that is not installed
    <!-- test: data -->              needs real measurements (NETSIM_DATA)
    <!-- test: set PATH=VALUE -->    shortens every netsim command of the block that plays a
    scenario
    <!-- test: replace OLD => NEW -->  shortens a Python block
    <!-- test: copy FROM TO -->      a file of the repository under another name, before the block
    <!-- test: file NAME -->         the block is kept as a file of that name
    <!-- test: into NAME -->         a YAML fragment that belongs into this scenario (default:
    campus)
    <!-- test: output -->            lines that the block before has printed; `...` stands for
    anything, and numbers
                                     are those of any machine (see `alike`); where the block before
                                     is slow they are compared by `pytest -m slow`. A text block
                                     with figures is one of these, or says why it is not (skip)

The blocks of a page share a folder and are run in order; Python blocks also share their names.
"""

import contextlib
import importlib.util
import io
import os
import re
import shlex
import shutil
import site
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from thinned import one_in

from scenarios.app.cli.commands import build_parser, main
from scenarios.app.results.folder import EVERY
from scenarios.app.results.summary_keys import find_measure
from scenarios.app.study.load import list_bundled, load, parse_value
from scenarios.app.study.yaml_document import parse_document

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(p for p in sorted(DOCS.rglob("*.md")) if not {"_build", "generated"} & set(p.parts)),
]
NAMES = [str(p.relative_to(ROOT)) for p in PAGES]
PLAYS = ("run", "sweep", "replay", "train", "validate")
LANGUAGES = {"bash", "python", "yaml", "text", "toml", "csv"}


@dataclass
class Block:
    """A block of code: where it stands, its language and text, and what the comments before it
    say."""

    page: str
    line: int
    language: str
    text: str
    told: dict[str, list[str]] = field(default_factory=dict)

    @property
    def place(self):
        return f"{self.page}:{self.line}"


def blocks(name):
    """All blocks of a page, in order."""
    lines = (ROOT / name).read_text().split("\n")
    result = []
    messages = {}
    i = 0
    while i < len(lines):
        comment = re.fullmatch(r"\s*<!-- test: (\w+) ?(.*?) -->", lines[i])
        fence = re.fullmatch(r"(\s*)(`{3,})(.*)", lines[i])
        if comment:
            messages.setdefault(comment[1], []).append(comment[2])
        elif fence:
            end = lines.index(fence[1] + fence[2], i + 1)
            text = "\n".join(line.removeprefix(fence[1]) for line in lines[i + 1 : end])
            if not fence[3].startswith("{"):  # a directive of Sphinx
                result.append(Block(name, i + 1, fence[3], text, messages))
            messages = {}
            i = end
        elif lines[i].strip() and not lines[i].lstrip().startswith("<!--"):
            assert not messages
        i += 1
    return result


def commands(text):
    """The commands of a shell block as lists of words; a line that ends with a backslash goes
    on."""
    joined = text.replace("\\\n", " ")
    return [
        line for line in joined.split("\n") if line.strip() and not line.lstrip().startswith("#")
    ]


class Page:
    """Runs the blocks of a page in a folder of their own."""

    def __init__(self, folder):
        self.folder = folder
        self.names = {"__name__": "__main__"}
        self.printed = ""

    def play(self, block):
        for pair in block.told.get("copy", []):
            source, target = pair.split()
            (self.folder / target).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, self.folder / target)
        for name in block.told.get("file", []):
            (self.folder / name).write_text(block.text + "\n")
        if block.language == "bash":
            self.printed = "".join(self.command(line, block) for line in commands(block.text))
        elif block.language == "python":
            self.printed = self.python(block)
        elif block.language == "yaml":
            self.scenario(block)
        elif "output" in block.told:
            self.compare(block)

    def command(self, line, block):
        words = shlex.split(os.path.expandvars(line), comments=True)
        if words[0] != "netsim" or {"|", "&&"} & set(words):
            return play_in_bash(line, self.folder, shell())
        target = None
        if ">" in words:
            *words, _, target = words
        if words[1] in PLAYS:
            words += [w for text in block.told.get("set", []) for w in ("--set", text)]
        out = io.StringIO()
        errors = io.StringIO()
        with (
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(errors),
        ):
            code = main(words[1:])
        assert code == 0, f"{block.place}: {shlex.join(words)}\n{errors.getvalue()[-2000:]}"
        if target is not None:
            (self.folder / target).write_text(out.getvalue())
        return out.getvalue()

    def python(self, block):
        text = block.text
        for change in block.told.get("replace", []):
            old, new = change.split(" => ")
            assert old in text
            text = text.replace(old, new)
        out = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(out):
            exec(compile(text, block.place, "exec"), self.names)
        return out.getvalue()

    def scenario(self, block):
        """A whole scenario is loaded as it is, a fragment in its place in another."""
        data = parse_document(block.text, block.place).data
        if "claims" in data:
            return  # read by the next block
        if "title" in data:
            path = self.folder / "block.yaml"
            path.write_text(block.text)
            with contextlib.chdir(self.folder):
                load(path)
            return
        for base in block.told.get("into", ["campus"]):
            load(base, flat(data))

    def compare(self, block):
        for line in filter(None, map(str.strip, block.text.split("\n"))):
            if line.startswith("memory  peak"):  # of this process, which has played other pages
                continue
            assert is_printed(line, self.printed), (
                f"{block.place}: not printed: {line}\n{self.printed}"
            )


NUMBER = re.compile(r"((?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?)")


def is_printed(line, printed):
    """Whether the words of a line stand in what was printed, one after another, wherever lines are
    broken."""
    present = printed.split()
    pieces = line.split("...")
    index = 0
    for k, words in enumerate(piece.split() for piece in pieces):
        cut = k > 0, k < len(pieces) - 1
        n = len(words)
        starts = range(index, len(present) - n + 1)
        result = (i for i in starts if stand(words, present[i : i + n], *cut))
        if (start := next(result, None)) is None:
            return False
        index = start + n
    return True


def stand(words, present, after, before):
    """Whether words stand there; after, before: `...` may cut off the beginning of the first, the
    end of the last."""
    last = len(words) - 1
    return all(
        alike(shown, word)
        or (before and k == last and word.startswith(shown))
        or (after and k == 0 and word.endswith(shown))
        for k, (shown, word) in enumerate(zip(words, present, strict=True))
    )


def alike(shown, word):
    """Whether a word is the same on some machine: processors sum in other orders, and training
    amplifies last digits.

    Numbers may differ by 5 %, or by two units of their last shown digit; all else is the same.
    """
    own_rows = NUMBER.split(shown)
    rest = NUMBER.split(word)
    return own_rows[::2] == rest[::2] and all(map(is_near, own_rows[1::2], rest[1::2]))


def is_near(shown, number):
    digits = shown.partition("e")[0].partition(".")[2]
    unit = 10.0 ** (int(shown.partition("e")[2] or 0) - len(digits))
    shown, number = (float(text.replace(",", "")) for text in (shown, number))
    return abs(shown - number) <= 1.0001 * max(2 * unit, 0.05 * abs(shown))


def flat(data, path=""):
    """Dotted path -> value; a part (a mapping with a kind) is one value."""
    result = {}
    for key, value in data.items():
        inner = isinstance(value, dict) and "kind" not in value and key not in ("set", "space")
        result |= flat(value, f"{path}{key}.") if inner else {f"{path}{key}": value}
    return result


def shell():
    """The environment of a command: this Python and this checkout."""
    paths = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    python_path = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PATH": os.pathsep.join(paths),
        "PYTHONPATH": os.pathsep.join(filter(None, python_path)),
    }


def play_in_bash(text, folder, env):
    """Play commands, of which none may fail; returns what they print."""
    command = ["bash", "-euo", "pipefail", "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, check=False)
    assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout


def is_left_out(block, slow):
    """Why a block is not run now."""
    if "skip" in block.told or ("slow" in block.told and not slow):
        return True
    if any(importlib.util.find_spec(name) is None for name in block.told.get("needs", [])):
        return True
    return "data" in block.told and "NETSIM_DATA" not in os.environ


def play_page(name, folder, slow):
    page = Page(folder)
    before = None
    for block in blocks(name):
        out = is_left_out(block, slow) or ("output" in block.told and before is None)
        if not out:
            page.play(block)
        before = None if out and block.language in ("bash", "python") else block


def drop_uncompared(page):
    """Places of text blocks of a page with figures that neither the fast nor the slow run compares
    with anything."""
    result = []
    before = None
    for block in page:
        settled = {"skip", "file"}
        if before and before.language in ("bash", "python") and "skip" not in before.told:
            settled |= {"output"}
        has_figures = block.language == "text" and re.search(r"\d", block.text)
        if has_figures and settled.isdisjoint(block.told):
            result.append(block.place)
        before = before if "output" in block.told else block
    return result


def test_every_printed_figure_is_compared_in_the_fast_or_the_slow_run():
    assert not [place for name in NAMES for place in drop_uncompared(blocks(name))]
    readme = [b for b in blocks("README.md") if "output" in b.told]
    # nothing is left out there
    assert readme
    assert not any("..." in b.text for b in readme)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """Reference runs are kept here, not in the home of whoever tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    folder = tmp_path / "page"
    folder.mkdir()
    return folder


def quick(name):
    return any(
        not {"skip", "slow"} & set(b.told) and b.language in ("bash", "python", "yaml")
        for b in blocks(name)
    )


def long(name):
    return any("slow" in b.told for b in blocks(name))


@pytest.mark.parametrize(
    "name", one_in(4, sorted(filter(quick, NAMES), key=lambda n: "studies" in n))
)
def test_blocks_of_a_page_run(name, cache):
    play_page(name, cache, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in NAMES if long(n)])
def test_long_blocks_of_a_page_run(name, cache):
    play_page(name, cache, slow=True)


def list_commands():
    """Every netsim command of blocks and of running text, with where it stands."""
    for name in NAMES:
        text = (ROOT / name).read_text()
        for block in blocks(name):
            if block.language == "bash" and "skip" not in block.told:
                yield from (
                    (block.place, line)
                    for line in commands(block.text)
                    if line.startswith("netsim ")
                )
        prose = re.sub(r"(?ms)^\s*```.*?^\s*```$", "", text)
        for result in re.finditer(
            rf"`(netsim (?:{'|'.join([*PLAYS, 'list', 'epsilon', 'claims'])})\b[^`]*)`", prose
        ):
            yield name, " ".join(result[1].split())


def test_every_command_that_is_shown_is_understood():
    """The parser takes it, its scenario exists, and every --set fits into that scenario."""
    expected = list_bundled()
    count = 0
    for place, line in list_commands():
        words = shlex.split(line, comments=True)[1:]
        words = words[: next((i for i, w in enumerate(words) if w in (">", "|", "&&")), len(words))]
        if len(words) < 2 or any(word.isupper() or word == "..." for word in words):
            continue  # the name of a command, or a form with placeholders
        args = build_parser().parse_args(words)
        scenario = getattr(args, "scenario", None)
        if scenario is not None and not scenario.endswith(".yaml"):
            assert scenario in expected, place
            sets = dict(text.split("=", 1) for text in args.sets)
            if args.command in PLAYS and sets and "DIR" not in line:
                values = {
                    k: parse_value(v)
                    for k, v in sets.items()
                    if not str(v).startswith(("runs/", "/"))
                }
                load(scenario, {k: v for k, v in values.items() if "policy" not in str(v)})
        count += 1
    assert count > 50


def test_every_block_has_a_language_and_few_are_left_out():
    everything = [block for name in NAMES for block in blocks(name)]
    assert not [b.place for b in everything if b.language not in LANGUAGES]
    skipped = [b for b in everything if "skip" in b.told]
    assert all(len(b.told["skip"][0].split()) > 2 for b in skipped), "a skip has a reason"
    commands_of = [b for b in everything if b.language in ("bash", "python")]
    assert len([b for b in skipped if b.language != "text"]) < 0.2 * len(commands_of)


def test_links_of_the_readme_lead_somewhere():
    text = (ROOT / "README.md").read_text()
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    assert len(targets) > 15
    assert not [t for t in targets if "://" not in t and not (ROOT / t).exists()]


@pytest.mark.slow
def test_the_package_of_the_manual_installs_as_written(tmp_path):
    """The commands of docs/extending.md, in an environment of its own that observes the packages of
    this one."""
    if any(importlib.util.find_spec(name) is None for name in ("pip", "setuptools")):
        pytest.skip("pip or setuptools is not installed: nothing to build with")
    (block,) = [b for b in blocks("docs/extending.md") if b.language == "bash"]
    begin, _, text = block.text.partition(" && cd sign\n")
    assert begin == "netsim new defense sign"
    assert "--no-deps --no-build-isolation -e ." in text
    with contextlib.chdir(tmp_path):
        assert main(begin.split()[1:]) == 0
    package = tmp_path / "sign"
    environment = tmp_path / "environment"
    for neighbour in ("data", "notes", "tests"):  # as folders of people look
        (package / neighbour).mkdir()
        (package / neighbour / "some.py").write_text("")
    venv.create(environment, with_pip=False)
    (present,) = environment.glob("lib/python*/site-packages")
    (present / "here.pth").write_text("\n".join([str(ROOT), *site.getsitepackages()]))
    command = environment / "bin/netsim"
    command.write_text(
        f'#!/bin/sh\nexec "{environment}/bin/python" -m scenarios.app.cli.commands "$@"\n'
    )
    command.chmod(0o755)
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    env |= {
        "PATH": f"{environment}/bin:{env['PATH']}",
        "PIP_NO_INDEX": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    printed = play_in_bash(text, package, env)
    assert "size of every number that is sent" in printed
    assert "2 passed" in printed
    assert "kind: sign" in (package / "runs/scenario/1/study.yaml").read_text()
    assert (present / "netsim_sign-1.0.dist-info/entry_points.txt").exists()
    # beside the folder, which Python finds there too
    used = "load('campus', {'learning.defenses': [{'kind': 'sign'}]})"
    play_in_bash(f'python -c "from scenarios import load; {used}"', tmp_path, env)


needs_sphinx = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("sphinx", "myst_nb", "furo")),
    reason="the extra docs is not installed",
)


@pytest.fixture
def generate_pages(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    import generated_pages

    return generated_pages.pages()


def test_every_part_and_key_is_on_a_generated_page(generate_pages):
    from scenarios.app.study.slots import SLOTS

    for slot, one_of in SLOTS.items():
        page = generate_pages[f"slot-{slot}.md"]
        for kind, part in one_of.parts.items():
            _, head, rest = page.partition(f"\n## {kind}\n")
            section = rest.partition("\n## ")[0]
            assert head
            for key in set(part.model_fields) - {"kind"}:
                assert f"\n| `{key}` |" in section


def test_rules_have_braces_where_a_user_writes_them(generate_pages):
    assert "take server: {kind: synchronous}" in generate_pages["rules.md"]
    assert "{*" not in generate_pages["rules.md"]


def test_every_option_is_on_the_page_of_the_command_line(generate_pages):
    parsers = next(a for a in build_parser()._actions if hasattr(a, "_name_parser_map"))
    for name, command in parsers.choices.items():
        _, head, rest = generate_pages["cli.md"].partition(f"\n## netsim {name}\n")
        section = rest.partition("\n## ")[0]
        assert head
        for action in command._actions:
            shown = action.dest != "help" and action.help != "==SUPPRESS=="
            assert not shown or (action.option_strings or [action.dest])[0] in section


def test_every_slot_has_a_page_in_the_reference():
    from scenarios.app.study.slots import SLOTS

    listed = (DOCS / "reference/scenario.md").read_text()
    assert [slot for slot in SLOTS if f"generated/slot-{slot}\n" not in listed] == []


OTHER_TABLES = {"runs", "failures", "curve", "evaluations", "claims", "trials", "gate", "table"}
KEY = re.compile(
    r"`((?:attack|baseline|utility|metric|eavesdropper|privacy|membership|updates|uplink)\.[\w.-]+\.\w+)`"
)


def test_tables_and_keys_that_pages_name_exist():
    names = [n for n in NAMES if not n.endswith(("records.md", "changelog.md"))]
    text = {name: (ROOT / name).read_text() for name in names}
    tables = [(name, m[1]) for name in names for m in re.finditer(r"`([\w-]+)\.csv`", text[name])]
    keys = [(name, m[1]) for name in names for m in KEY.finditer(text[name])]
    assert len(tables) > 5
    assert len(keys) > 2
    assert [result for result in tables if result[1] not in {*EVERY, *OTHER_TABLES}] == []
    assert [result for result in keys if find_measure(result[1]) is None] == []


@pytest.mark.slow
@needs_sphinx
def test_pages_build_without_a_warning(tmp_path):
    command = f"{sys.executable} -m sphinx -W -q -b html -d {tmp_path / 'trees'} {DOCS} {tmp_path / 'html'}"
    play_in_bash(command, tmp_path, None)
    assert (tmp_path / "html/index.html").exists()
    # the page of a run, to which the documentation leads
    finished = (tmp_path / "html/town.html").read_text()
    assert "Nothing protects the " in finished
    assert len(finished) < 1.5e6


NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebooks_are_small_and_executed(path):
    import json

    assert path.stat().st_size < 400_000
    cells = [c for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    assert [c["execution_count"] for c in cells] == list(range(1, len(cells) + 1))
    assert not [o for c in cells for o in c["outputs"] if o["output_type"] == "error"]
    assert any("image/png" in o.get("data", {}) for c in cells for o in c["outputs"])


@pytest.mark.slow
@pytest.mark.skipif(
    importlib.util.find_spec("nbclient") is None, reason="the extra docs is not installed"
)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_notebooks_run(path, tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("PYTHONPATH", shell()["PYTHONPATH"])
    NotebookClient(
        nbformat.read(path, as_version=4),
        timeout=900,
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
