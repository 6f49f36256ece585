"""Imports point down: netsim <- fl <- rl <- scenarios, no circles, heavy libraries only in
leaves."""

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from rows import read_cells

ROOT = Path(__file__).parents[2]
FLOORS = ["netsim", "fl", "rl", "scenarios"]
# gymnasium is not among them: `import rl` registers environments, for which the bare library (0.2
# s) is enough
HEAVY = {"torch", "sklearn", "stable_baselines3", "plotly", "ot", "pandas"}
PLACE = re.compile(rf"({'|'.join(FLOORS)})(\.\w+)+:[A-Z]\w*")
FILES = [p for floor in FLOORS for p in sorted((ROOT / floor).rglob("*.py"))]


def module(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def read(path):
    """Of a file: modules that it imports, in functions and for type checkers too; modules of the
    parts that it names by their places, which are imported when a scenario has them; classes that
    hold arrays and compare by their fields.
    """
    imports = set()
    places = set()
    by_field = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imports |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imports |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and PLACE.fullmatch(node.value)
        ):
            places.add(node.value.partition(":")[0])
        elif isinstance(node, ast.ClassDef) and compares_arrays(node):
            by_field.append(node.name)
    return imports, places, by_field


def compares_arrays(node):
    """Whether equality would ask an array of a data class whether it is true, which raises."""
    folder_made = next(
        (d for d in map(ast.unparse, node.decorator_list) if d.split("(")[0] == "dataclass"), None
    )
    fields = [
        ast.unparse(field.annotation) for field in node.body if isinstance(field, ast.AnnAssign)
    ]
    own_rows = any(
        isinstance(method, ast.FunctionDef) and method.name == "__eq__" for method in node.body
    )
    holds = any("Array" in field and "Callable" not in field for field in fields)
    return folder_made is not None and holds and not own_rows and "eq=False" not in folder_made


@pytest.mark.parametrize("floor", FLOORS)
def test_imports_point_down(floor):
    above = set(FLOORS[FLOORS.index(floor) + 1 :])
    files = [path for path in FILES if module(path).split(".")[0] == floor]
    named = {module(p): read(p)[0] | read(p)[1] for p in files}
    reached = {
        name: {n for n in result if n.split(".")[0] in above} for name, result in named.items()
    }
    assert {name: result for name, result in reached.items() if result} == {}
    assert len(files) > 3


@cache
def arrows():
    """Module -> the modules that it imports; a name of a package counts as the package."""
    names = {module(p): p for p in FILES}
    result = {}
    for name, path in names.items():
        seen = {i for i in read(path)[0] if i in names} - {name}
        result[name] = {i for i in seen if not any(second.startswith(i + ".") for second in seen)}
    return result


def circle(graph):
    """A circle of a graph, empty if there is none."""
    done = set()
    path = []

    def visit(node):
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return []
        path.append(node)
        result = next(filter(None, map(visit, sorted(graph.get(node, ())))), [])
        path.pop()
        done.add(node)
        return result

    return next(filter(None, map(visit, sorted(graph))), [])


def test_no_circles_of_modules():
    assert circle(arrows()) == []


def list_folders(graph):
    """Folder -> the folders that its modules import, of module -> modules; a folder and its parent
    are two."""
    packages = {module(p) for p in FILES if p.name == "__init__.py"}

    def folder(name):
        if name in packages:
            return name
        return name.rpartition(".")[0]

    result = {}
    for name, below in graph.items():
        result.setdefault(folder(name), set()).update({folder(b) for b in below} - {folder(name)})
    result.pop("scenarios", None)  # it names load and run of the application, for people
    return result


def test_no_circles_of_folders():
    """A folder and its parent are two floors: what one imports may not import it back, also within
    functions."""
    assert circle(list_folders(arrows())) == []


@pytest.mark.parametrize(
    "above, below",
    read_cells("""
        netsim.radio.air       netsim.world.world
        netsim.traces.table    netsim.trace_files.read
        scenarios.app.run.job  scenarios.app.result
        fl.types               fl.round.merge
    """),
)
def test_a_planted_circle_of_folders_is_found(above, below):
    result = circle(list_folders(arrows() | {above: arrows()[above] | {below}}))
    assert result[0] == result[-1]
    assert above.rpartition(".")[0] in result
    assert len(result) > 2


def test_imports_within_functions_are_read(tmp_path):
    path = tmp_path / "late.py"
    path.write_text("def play():\n    from fl.round.merge import merged\n    return merged\n")
    assert "fl.round.merge" in read(path)[0]


def test_checking_a_scenario_imports_nothing_heavy_and_no_part_that_it_does_not_have():
    code = (
        "import sys, scenarios.app.cli.commands as c; c.main(['validate', 'campus']); "
        "print(sorted(set(sys.modules) & set(%r)))"
    )
    idle = {
        "fl.attacks.dwell",
        "fl.defenses.lapa",
        "fl.learners.density",
        "netsim.mobility.resident",
    }
    idle |= {"fl.round.server", "scenarios.app.run.simulate"}
    without = HEAVY | {"numba", "scipy"} | idle
    assert idle <= set(map(module, FILES))
    out = subprocess.run(
        [sys.executable, "-c", code % (without,)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert out.stdout.splitlines()[-1] == "[]"


def test_a_run_imports_nothing_heavy_that_it_does_not_need(tmp_path):
    """Two in one process, which the second alone asks for PyTorch."""
    code = """
import sys
from scenarios.app.cli.start import main
folder = sys.argv.pop()
for study in ("density/octagon", "campus"):
    words = ["--set", "learning.rounds=1", "--out", f"{folder}/{study}", "--quiet"]
    sys.argv[1:] = ["run", study, *words]
    main()
    print("imported:", *sorted(set(sys.modules) & set(%r)))
"""
    out = subprocess.run(
        [sys.executable, "-c", code % (HEAVY | {"scipy.stats"},), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    imported = [line for line in out.stdout.splitlines() if line.startswith("imported:")]
    assert imported == ["imported:", "imported: torch"]


def test_help_imports_almost_nothing():
    code = (
        "import sys, scenarios.app.cli.commands as c\ntry: c.main(['--help'])\nexcept "
        "SystemExit: pass\n"
    )
    code += "print('numpy' in sys.modules, 'pydantic' in sys.modules)"
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert out.stdout.splitlines()[-1] == "False False"


def test_no_two_files_of_tests_have_one_name():
    """pytest imports them by their name alone, and refuses the second one that it meets."""
    names = sorted(
        path.name
        for path in (ROOT / "tests").rglob("*.py")
        if path.name not in ("conftest.py", "__init__.py")
    )
    assert names == sorted(set(names))


def test_the_tests_import_nothing_of_a_package_of_the_name_tests():
    """Some libraries install one; files of tests therefore import each other by their own names
    alone."""
    own_rows = re.compile(r"(?m)^\s*(from|import) tests\b")
    assert [
        path for path in sorted((ROOT / "tests").rglob("*.py")) if own_rows.search(path.read_text())
    ] == []


def test_data_classes_that_hold_arrays_compare_by_identity():
    assert [f"{path}: {name}" for path in FILES for name in read(path)[2]] == []
