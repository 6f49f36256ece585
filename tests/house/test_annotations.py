"""Annotations of parts are no strings, and data classes that hold arrays compare by identity."""

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
TREES = {
    path.relative_to(ROOT): ast.parse(path.read_text())
    for floor in ("netsim", "fl", "rl", "scenarios")
    for path in sorted((ROOT / floor).rglob("*.py"))
}


def classes(tree):
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def postponed(tree):
    return any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)


def bases(node):
    """Last words of the names of the classes that a class derives from."""
    return {ast.unparse(base).split("[")[0].split(".")[-1] for base in node.bases}


def part_names():
    """`Part` and every class below it, by name."""
    names, before = {"Part"}, 0
    while len(names) > before:
        before = len(names)
        names |= {node.name for tree in TREES.values() for node in classes(tree) if bases(node) & names}
    return names


def test_modules_of_parts_do_not_postpone_annotations():
    names = part_names()
    of_parts = [path for path, tree in TREES.items() if any(bases(node) & names for node in classes(tree))]
    assert len(of_parts) > 150
    assert not [str(path) for path in of_parts if postponed(TREES[path])]


def test_data_classes_that_hold_arrays_compare_by_identity():
    """Equality of fields would ask an array whether it is true, which raises."""
    by_identity = {}
    for path, tree in TREES.items():
        for node in classes(tree):
            made = next((d for d in map(ast.unparse, node.decorator_list) if d.split("(")[0] == "dataclass"), None)
            fields = [ast.unparse(field.annotation) for field in node.body if isinstance(field, ast.AnnAssign)]
            if made and any("Array" in field and "Callable" not in field for field in fields):
                own = any(isinstance(method, ast.FunctionDef) and method.name == "__eq__" for method in node.body)
                by_identity[f"{path}: {node.name}"] = own or "eq=False" in made
    assert len(by_identity) > 100
    assert not [name for name, right in by_identity.items() if not right]
