"""A Slurm of one machine, for tests: `sbatch`, `srun`, `sacct`, `scancel` and `scontrol` on the
PATH.

`install(folder, loses)` writes the commands into a folder; tasks of an array are local processes.
Of each job, the task of the number `loses` is killed without a trace the first time.
"""

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

COMMANDS = ("sbatch", "srun", "sacct", "scancel", "scontrol")


def install(folder, loses=-1):
    folder.mkdir()
    (folder / "state").mkdir()
    (folder / "loses").write_text(str(loses))
    for name in COMMANDS:
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {folder} {name} "$@"\n')
        script.chmod(0o755)
    return folder


def sbatch(folder, path):
    number = 100 + len(list(folder.glob("state/*.script")))
    text = Path(path).read_text()
    (folder / "state" / f"{number}.script").write_text(text)
    array = re.search(r"--array=0-(\d+)", text)
    if array:
        names = [f"{number}_{i}" for i in range(int(array[1]) + 1)]
    else:
        names = [str(number)]
    for name in names:
        (folder / "state" / name).write_text("PENDING")
    arguments = [sys.executable, __file__, str(folder), "play", path, *names]
    nowhere = subprocess.DEVNULL
    subprocess.Popen(
        arguments, start_new_session=True, stdin=nowhere, stdout=nowhere, stderr=nowhere
    )
    print(f"Submitted batch job {number}")


def play(folder, path, *names):
    """What the machines do: one task after another, again where it was queued again."""
    loses = int((folder / "loses").read_text())
    for i, name in enumerate(names):
        state = folder / "state" / name
        while state.read_text() == "PENDING":
            main, _, task = name.partition("_")
            rest = {"SLURM_JOB_ID": name, "SLURM_NTASKS": "1"}
            rest |= {"SLURM_ARRAY_JOB_ID": main, "SLURM_ARRAY_TASK_ID": task} if task else {}
            state.write_text("RUNNING")
            process = subprocess.Popen(
                ["bash", path], env=os.environ | rest, start_new_session=True
            )
            (folder / "state" / f"{name}.pid").write_text(str(process.pid))
            if i == loses and main == "100":
                time.sleep(0.1)
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            if state.read_text() == "RUNNING":
                state.write_text("COMPLETED" if code == 0 else "NODE_FAIL")


def srun(folder, *arguments):
    first = next(i for i, a in enumerate(arguments) if "python" in a and not a.startswith("-"))
    command = arguments[first:]
    os.execvp(command[0], command)


def sacct(folder, *arguments):
    print("JobID|State|NodeList")
    for path in sorted(folder.glob("state/*")):
        if not path.suffix:
            print(f"{path.name}|{path.read_text()}|here")


def scancel(folder, name, *rest):
    (folder / "state" / name).write_text("CANCELLED")
    pid = folder / "state" / f"{name}.pid"
    if pid.exists():
        with suppress(ProcessLookupError):
            os.killpg(int(pid.read_text()), signal.SIGKILL)


def scontrol(folder, purpose, name):
    assert purpose == "requeue"
    (folder / "state" / name).write_text("PENDING")


if __name__ == "__main__":
    {
        "play": play,
        "sbatch": sbatch,
        "srun": srun,
        "sacct": sacct,
        "scancel": scancel,
        "scontrol": scontrol,
    }[sys.argv[2]](Path(sys.argv[1]), *sys.argv[3:])
