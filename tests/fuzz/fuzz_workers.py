"""Cases played in forks of this process, one after the other, with bounds on time and memory, and
what they leave.

The command's `main` is called in the fork: what is imported is there already. A fork that does not
answer is killed.
"""

import multiprocessing
import os
import resource
import shutil
import signal
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path

from fuzz_cases import case

MOST_S = 20.0
MOST_BYTES = 2 * 2**30
PATIENCE_S = 2.5  # after which a case that plays a run is interrupted
CASES_A_FORK = 200


def findings(valid, seed, numbers, root, family=None, tell=lambda number, code, result: None):
    """[(number, what is wrong)] of these cases; `root`: a scratch folder. `tell` hears of each,
    with its exit code."""
    result = []
    left = list(numbers)
    while left:
        worker = _Worker(valid, seed, root, family)
        for number in left[:CASES_A_FORK]:
            code, message = worker.play(number)
            left.pop(0)
            tell(number, code, message)
            result += [(number, line) for line in message]
            if worker.gone:
                break
        worker.close()
    return result


class _Worker:
    """A fork that plays cases by their numbers."""

    def __init__(self, valid, seed, root, family):
        self.gone = False
        self.valid = valid
        self.seed = seed
        self.family = family
        fork = multiprocessing.get_context("fork")
        self.pipe, measured = fork.Pipe()
        self.process = fork.Process(
            target=_serve, args=(valid, seed, root, family, measured, self.pipe)
        )
        self.process.start()
        measured.close()

    def play(self, number):
        """The exit code of a case, and what is wrong with it."""
        began = time.monotonic()
        interrupted = False
        self.pipe.send(number)
        plays = case(self.valid, self.seed, number, self.family).plays
        while not self.pipe.poll(0.25):
            passed_s = time.monotonic() - began
            if plays and not interrupted and passed_s > PATIENCE_S:
                os.kill(self.process.pid, signal.SIGINT)
                interrupted = True
            if passed_s > MOST_S + PATIENCE_S * plays:
                self.process.kill()
                self.gone = True
                return None, [f"no end after {passed_s:.0f} s"]
        try:
            return self.pipe.recv()
        except EOFError:
            self.gone = True
            self.process.join()
            return None, [f"the process died ({self.process.exitcode})"]

    def close(self):
        self.pipe.close()
        self.process.join()


def _serve(valid, seed, root, family, changes, second):
    """In the fork: play what is asked for until nobody asks any more."""
    second.close()
    virtual = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (virtual + MOST_BYTES, virtual + MOST_BYTES))
    warnings.simplefilter("always")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ |= {
        "XDG_CACHE_HOME": str(root / "cache"),
        "TMPDIR": str(root / "tmp"),
        "HOME": str(root / "home"),
    }
    (root / "tmp").mkdir(exist_ok=True)
    printed = [
        os.open(root / name, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        for name in ("stdout", "stderr")
    ]
    os.dup2(printed[0], 1)
    os.dup2(printed[1], 2)
    import tempfile

    tempfile.tempdir = str(root / "tmp")
    with suppress(EOFError):
        while True:
            changes.send(_play(case(valid, seed, changes.recv(), family), root))
    os._exit(0)


def _play(first, root):
    """The exit code of a case, and what is wrong with it, played here."""
    from scenarios.app.cli.commands import main

    box = root / "box"
    shutil.rmtree(box, ignore_errors=True)
    for name, data in first.files.items():
        (box / name).parent.mkdir(parents=True, exist_ok=True)
        (box / name).write_bytes(data)
    for name in ("stdout", "stderr"):
        os.truncate(root / name, 0)
    before = _look(root)
    sys.stdout = os.fdopen(os.dup(1), "w", errors="strict", encoding="utf-8")
    sys.stderr = os.fdopen(os.dup(2), "w", encoding="utf-8", errors="backslashreplace")
    os.chdir(box)
    try:
        code = main(first.words)
    except SystemExit as left:
        code = left.code or 0
    except BaseException as error:
        code = f"{type(error).__name__}: {error}"
    sys.stdout.close()
    sys.stderr.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return code, judge(
        first, code, (root / "stderr").read_text("utf-8", "replace"), before, _look(root)
    )


def _look(root):
    """What stands in the folder of the case and in that of temporary files: path -> bytes, of large
    files the size."""
    return {
        str(p.relative_to(root)): p.read_bytes()
        if p.stat().st_size < 10**6
        else str(p.stat().st_size)
        for folder in ("box", "tmp")
        for p in (root / folder).rglob("*")
        if p.is_file()
    }


def judge(first, code, message, before, after):
    """What is wrong: [line]. Exit codes 0 and, of runs, 130 leave no part of a file; 2 leaves all
    as it was."""
    wrong = []
    lines = message.splitlines()
    if code not in (0, 2, *([130] if first.plays else [])):
        logs = [
            name for name in sorted(after) if name.startswith("tmp/netsim-") and name not in before
        ]
        if logs:
            log = after[logs[0]].decode()[-900:]
        else:
            log = ""
        wrong.append(f"exit code {code}: {message.strip()[:300]}\n{log}")
    elif "Traceback" in message or "Warning" in message.replace("WARNING", ""):
        wrong.append(f"on stderr: {message.strip()[:600]}")
    if code == 2:
        if "--json" not in first.words and (
            not lines or any(not line.startswith("netsim: ") for line in lines)
        ):
            wrong.append(f"no plain line: {message.strip()[:400]!r}")
        if len(lines) > 51 or max(map(len, lines), default=0) > 2500:
            wrong.append(f"too much is said: {len(lines)} lines")
        names = (name for name in before.keys() | after.keys() if not name.startswith("tmp/"))
        change_content = sorted(name for name in names if before.get(name) != after.get(name))
        if change_content:
            wrong.append(
                f"exit code 2, and files changed: {', '.join(change_content)[:200]} "
                f"({message.strip()[:200]})"
            )
    else:
        parts = sorted(name for name in after if name.endswith(".part") and name not in before)
        if parts:
            wrong.append(f"exit code {code}, left behind: {', '.join(parts)[:200]}")
    new = (name for name in after.keys() - before.keys() if name.startswith("tmp/"))
    strange = sorted(name for name in new if not name.startswith("tmp/netsim-"))
    return wrong + ([f"temporary files stay: {', '.join(strange)[:200]}"] if strange else [])
