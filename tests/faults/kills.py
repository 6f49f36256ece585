"""Plays a command that is killed before steps on the file system; it must end in the bytes of one
that is not.

    python tests/faults/kills.py KIND FOLDER FIRST LAST EVERY

Killed before each of these steps; the same command is then played to its end, with and without
--replace. Every play is a fork of this process, which has everything imported. Prints how many
steps there are.
"""

from faults import find_here, play, results  # noqa: I001 - the first, as it says where other modules are
import mmap
import os
import shutil
import sys
from pathlib import Path

from accidents import systems

import rl.train as loop
import scenarios.app.run.play as playing

STEPS = {"open", "os.rename", "os.remove", "os.mkdir", "os.truncate", "fcntl.flock"}
KILLED = 137


class Steps:
    """Counts the steps of a fork in a folder, and ends the fork before one of them."""

    def __init__(self, folder, last=0):
        self.folder = str(folder)
        self.last = last
        self.taken = mmap.mmap(-1, 4)  # of both processes

    def count(self):
        return int.from_bytes(self.taken[:4], "little")

    def watch(self):
        sys.addaudithook(self._step)

    def _step(self, event, args):
        if event not in STEPS:
            return
        by_number = isinstance(args[0], int)
        if by_number:
            prefix = str(Path(f"/proc/self/fd/{args[0]}").readlink())
        else:
            prefix = os.fsdecode(args[0])
        if not prefix.startswith(self.folder) or (
            event == "open" and not args[2] & (os.O_WRONLY | os.O_RDWR)
        ):
            return
        if event == "os.remove" and not os.path.lexists(prefix):
            return  # which changes nothing
        self.taken[:4] = (self.count() + 1).to_bytes(4, "little")
        if self.count() == self.last:
            os._exit(KILLED)


def main():
    kind = sys.argv[1]
    root = Path(sys.argv[2])
    (first, last, all_rows) = map(int, sys.argv[3:])
    words = systems(root)[kind]
    folder = root / "killed"
    message = root / "said"
    playing.CHECKPOINT_EVERY_S = loop.SAVE_EVERY_S = 0.0
    assert find_here([*words, "--out", str(root / "whole")]) == 0
    expected = results(root / "whole")
    whole = Steps(root / "again")
    assert play(words, root / "again", message, before=whole.watch) == 0
    assert results(root / "again") == expected
    for k in range(first, min(last, whole.count()) + 1, all_rows):
        for rest in ([], ["--replace"]):
            code = play(words, folder, message, before=Steps(folder, k).watch)
            # a busy machine may save once more than another time, so that the last step is not
            # always there
            assert code == KILLED or (code == 0 and k == whole.count()), k
            if folder.exists():
                left = sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))
            else:
                left = []
            assert play([*words, *rest], folder, message) == 0, (k, rest, left, message.read_text())
            assert results(folder) == expected, (k, rest, left)
            shutil.rmtree(folder)
    print(whole.count())


if __name__ == "__main__":
    main()
