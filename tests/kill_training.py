"""Kill a run with SIGKILL at random moments until it ends: run as a script by test_lab_training.

    python tests/kill_training.py FOLDER KILLS SEED

Each life of the run is a forked child, so that torch is imported once. Prints how many lives were
ended before the run was done.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

from lab import run_config

from model.train import train


def main() -> None:
    folder, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    config = run_config(folder, name="killed", checkpoint_every=1, optim__updates=90)
    ended = 0
    longest = 0.3
    while ended < kills:
        child = os.fork()
        if child == 0:
            train(config, progress=False)
            os._exit(0)
        start = time.monotonic()
        limit = start + rng.uniform(0.0, longest)
        while time.monotonic() < limit:
            if os.waitpid(child, os.WNOHANG) != (0, 0):
                # It ended by itself: kill the next run earlier.
                longest = time.monotonic() - start
                print(f"done before {kills} kills", ended)
                return
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        ended += 1
        longest *= 1.05
    train(config, progress=False)
    print("kills", ended)


if __name__ == "__main__":
    main()
