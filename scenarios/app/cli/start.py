"""Where the program `netsim` begins: an interrupt ends it in the same way while commands are still
being imported.
"""

import gc
import os
import signal
import sys

# objects more than before: what is imported stays, and need not be looked at again and again
_IMPORTED = 300_000
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> int:
    """Run a command; returns its exit code."""
    gc.set_threshold(_IMPORTED)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed: what is said goes nowhere
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    # NumPy and PyTorch start threads as they are imported, and none is used
    os.environ |= dict.fromkeys(_THREADS, "1")
    # looking for them takes longer than validating
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # what batch systems send; else it ends without a word
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        from scenarios.app.cli.commands import main as command
        from scenarios.app.run import events
    except KeyboardInterrupt:
        sys.stderr.write("netsim: interrupted; the same command goes on where it stopped\n")
        return 130
    code = command()
    events.ignore_signals()  # there is nothing left to interrupt
    gc.freeze()  # nor to collect: what is still held goes with the process
    return code


if __name__ == "__main__":
    sys.exit(main())
