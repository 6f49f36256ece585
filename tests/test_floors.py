"""Imports point down: netsim <- fl <- rl <- scenarios, no circles, heavy libraries only in leaves."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = ["netsim", "fl", "rl", "scenarios"]
# gymnasium is not among them: `import rl` registers environments, for which the bare library (0.2 s) is enough
HEAVY = {"torch", "sklearn", "stable_baselines3", "plotly", "ot", "pandas"}
FILES = [p for floor in FLOORS for p in sorted((ROOT / floor).rglob("*.py"))]


def module(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path, top_only=False):
    """Modules of our own and others' that a file imports at run time (TYPE_CHECKING blocks are left out)."""
    tree = ast.parse(path.read_text())
    found = set()
    nodes = list(tree.body) if top_only else list(ast.walk(tree))
    skip = {n for node in ast.walk(tree) if _typing_only(node) for n in ast.walk(node)}
    for node in nodes:
        if node in skip:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _typing_only(node):
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@pytest.mark.parametrize("path", FILES, ids=module)
def test_imports_point_down(path):
    floor = FLOORS.index(module(path).split(".")[0])
    above = {name for name in imports(path) if name.split(".")[0] in FLOORS[floor + 1 :]}
    assert not above, f"{path} reaches up to {above}"


def test_no_circles():
    names = {module(p): p for p in FILES}
    arrows = {name: {i for i in imports(path, top_only=True) if i in names} - {name} for name, path in names.items()}
    done, path = set(), []

    def visit(name):
        assert name not in path, f"circle: {path[path.index(name) :]} -> {name}"
        if name in done:
            return
        path.append(name)
        for below in sorted(arrows[name]):
            visit(below)
        path.pop()
        done.add(name)

    for name in sorted(arrows):
        visit(name)


def test_checking_a_scenario_imports_nothing_heavy():
    code = "import sys, scenarios.cli as c; c.main(['validate', 'campus']); print(sorted(set(sys.modules) & set(%r)))"
    out = subprocess.run([sys.executable, "-c", code % (HEAVY,)], capture_output=True, text=True, cwd=ROOT, check=True)
    assert out.stdout.splitlines()[-1] == "[]"


def test_help_imports_almost_nothing():
    code = "import sys, scenarios.cli as c\ntry: c.main(['--help'])\nexcept SystemExit: pass\n"
    code += "print('numpy' in sys.modules, 'pydantic' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert out.stdout.splitlines()[-1] == "False False"
