"""A folder of results on its way from a machine with other disks: its files in pieces, checked where they arrive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

from netsim.errors import BadInput
from netsim.safe import OURS_MOST_BYTES, opened, replacing, size_text, what_is
from scenarios.app.results.folder import SUMMARY, ours
from scenarios.app.results.marker import check_files, held
from scenarios.app.run.executors.work import Kind
from scenarios.app.study.yaml_document import one_line

PIECE_BYTES = 2**20

Piece = tuple[str, bytes]
"""the name of a file, and some of its bytes"""


def packed(folder: Path, names: Sequence[str]) -> Iterator[Piece]:
    """Those of these files that are there, one after another; the summary, which says that all is done, is the last."""
    for name in sorted(names, key=lambda name: name == SUMMARY):
        if what_is(folder / name):
            with opened(folder / name, OURS_MOST_BYTES, own=True) as file:
                yield name, b""
                while piece := file.read(PIECE_BYTES):
                    yield name, piece


def unpacked(pieces: Iterable[Piece], folder: Path, kind: Kind) -> None:
    """Put the files into a folder, where they replace all results of before.

    Raises BadInput for a file that such work does not write, for too many bytes, and for a folder of something else.
    """

    def admit() -> None:
        ours(folder, kind.name, lambda _: False)
        check_files(folder, lambda name: name in kind.files)

    with held(folder, kind.name, admit):
        for name in (SUMMARY, *kind.files):
            (folder / name).unlink(missing_ok=True)
        for name, parts in groupby(pieces, lambda piece: piece[0]):
            if name not in kind.files:
                raise BadInput(one_line(f"{folder}: was sent {name!r}, which no {kind.name} writes"))
            with replacing(folder / name) as file:
                for _, piece in parts:
                    file.write(piece)
                    if file.tell() > OURS_MOST_BYTES:
                        raise BadInput(one_line(f"{folder / name}: more than {size_text(OURS_MOST_BYTES)} were sent"))
