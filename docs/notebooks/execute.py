"""Execute notebooks and store them with their outputs: ``python docs/notebooks/execute.py [NAME
...]``."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent


def execute(path: Path) -> None:
    """Run all cells in an empty folder; times are not stored, so that the same outputs give the
    same file."""
    notebook = nbformat.read(path, as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        NotebookClient(
            notebook, timeout=900, record_timing=False, resources={"metadata": {"path": folder}}
        ).execute()
    notebook.metadata.pop("language_info", None)
    nbformat.write(notebook, path)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in sys.argv[1:] or sorted(path.stem for path in HERE.glob("*.ipynb")):
        execute(HERE / f"{name}.ipynb")
