"""Preparing tokens, and reading them in an order that nothing but the shards decides.

    python -m model.data prepare --out DIR --source fineweb [--tokens N]
    python -m model.data prepare --out DIR --source text FILE …
    python -m model.data prepare --out DIR --source parquet FILE …
    python -m model.data prepare --out DIR --source sotu
    python -m model.data prepare --out DIR --source debian PACKAGE …

Documents are encoded with GPT-2's BPE, each followed by <|endoftext|>, and packed one behind the
other: sequence k of length T is tokens kT to kT + T, and its targets are those one further on.
"""

from __future__ import annotations

import argparse
import gzip
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from model.shards import SHARD_TOKENS, ShardError, Shards, ShardWriter
from theory._packages import MissingWeights, installed_path
from theory.gpt2_text import END_OF_TEXT, gpt2_encoding, gpt2_fingerprint

FINEWEB, FINEWEB_SUBSET = "HuggingFaceFW/fineweb", "sample-10BT"
_BATCH = 64


class DataError(ValueError):
    """The data cannot serve what is asked of it."""


# ---------------------------------------------------------------------------------- reading


@dataclass(frozen=True)
class Loader:
    """Micro-batches of packed sequences, as a pure function of their place.

    context: T; micro: sequences of one micro-batch over all processes together; accumulation:
    micro-batches of one update; rank, world: which share of every micro-batch this process reads.
    Nothing here has a state: the number of the update is the position.
    """

    shards: Shards
    context: int
    micro: int
    accumulation: int
    rank: int = 0
    world: int = 1

    def __post_init__(self) -> None:
        if self.micro % self.world:
            raise DataError(
                f"a micro-batch of {self.micro} sequences cannot be split among "
                f"{self.world} processes"
            )

    @property
    def sequences(self) -> int:
        """How many whole sequences, each with its last target, the shards hold."""
        return (len(self.shards) - 1) // self.context

    @property
    def updates(self) -> int:
        """For how many updates the data suffices."""
        return self.sequences // (self.micro * self.accumulation)

    def require(self, updates: int) -> None:
        """Raise ``DataError`` unless the data suffices for so many updates without repetition."""
        if updates > self.updates:
            raise DataError(
                f"{self.shards.folder} has {len(self.shards)} tokens; {updates} updates need "
                f"{self.tokens(updates)}"
            )

    def tokens(self, updates: int) -> int:
        """How many tokens so many updates read, the last target included."""
        return updates * self.micro * self.accumulation * self.context + 1

    def batch(self, update: int, index: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Inputs and targets of this process's share of micro-batch `index` of an update.

        Both int64 of shape (micro/world, context).
        """
        share = self.micro // self.world
        first = (update * self.accumulation + index) * self.micro + self.rank * share
        tokens = self.shards.read(first * self.context, share * self.context + 1).astype(np.int64)
        shape = (share, self.context)
        return tokens[:-1].reshape(shape), tokens[1:].reshape(shape)


# -------------------------------------------------------------------------------- preparing


def prepare(
    documents: Iterable[str],
    out: Path,
    description: dict[str, object],
    *,
    tokens: int | None = None,
    shard_tokens: int = SHARD_TOKENS,
    tokenizer: Path | None = None,
    progress: bool = True,
) -> Path:
    """Encode documents to shards in a new or empty folder; return the path of its index.

    tokens: stop once so many are written (None: all documents). Raises ``ShardError`` for a folder
    that is not empty and where there was no document, ``OSError`` where the tokenizer's files
    cannot be read or the shards cannot be written.
    """
    encoding = gpt2_encoding(tokenizer)
    end = encoding.encode_single_token(END_OF_TEXT)
    writer = ShardWriter(out, shard_tokens=shard_tokens)
    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    count = 0
    with Progress(*columns, console=console, disable=not (progress and console.is_terminal)) as bar:
        task = bar.add_task("tokens", total=None)
        for batch in _batches(documents):
            for encoded in encoding.encode_ordinary_batch(batch):
                left = None if tokens is None else tokens - writer.tokens
                writer.write([*encoded, end][:left])
                count += 1
            bar.update(task, description=f"{count:,} documents, {writer.tokens:,} tokens")
            if tokens is not None and writer.tokens >= tokens:
                break
    return writer.close(
        {
            "documents": count,
            "tokenizer": {"name": "gpt2", "end_of_text": end, "files": gpt2_fingerprint(tokenizer)},
            "vocabulary": encoding.n_vocab,
            **description,
        }
    )


def _batches(documents: Iterable[str]) -> Iterator[list[str]]:
    batch = []
    for document in documents:
        batch.append(document)
        if len(batch) == _BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def fineweb_documents() -> Iterator[str]:
    """FineWeb's documents in the order of its stream; needs the network and `datasets`."""
    from datasets import load_dataset

    stream = load_dataset(FINEWEB, FINEWEB_SUBSET, split="train", streaming=True)
    return (row["text"] for row in stream)


def file_documents(paths: Sequence[Path], kind: str) -> Iterator[str]:
    """Documents of text files (one each) or of the column "text" of Parquet files."""
    for path in paths:
        if not path.is_file():
            raise DataError(f"{path}: there is no such file")
    from datasets import load_dataset

    files = [str(path) for path in paths]
    options = {"sample_by": "document"} if kind == "text" else {}
    stream = load_dataset(kind, data_files=files, split="train", streaming=True, **options)
    for number, row in enumerate(stream):
        if not isinstance(row.get("text"), str):
            raise DataError(f"{kind} document {number} has no text in a column 'text'")
        yield row["text"]


def sotu_documents() -> Iterator[str]:
    """The State of the Union speeches of the package `sotu`, by file name; public domain."""
    folder = installed_path("sotu", "sotu/data/speeches")
    for path in sorted(folder.glob("*.txt")):
        yield path.read_text(encoding="utf-8")


_TEXT_SUFFIXES = (".txt", ".rst", ".md", ".texi", ".pod", ".adoc")


def debian_documents(packages: Sequence[str]) -> Iterator[str]:
    """The plain-text files that installed Debian packages carry, in the order of `dpkg -L`.

    Compressed files are read too; files that are no UTF-8 are left out. Raises ``DataError`` for a
    package that is not installed.
    """
    for package in packages:
        try:
            listed = subprocess.run(
                ["dpkg", "-L", package], capture_output=True, text=True, check=True
            ).stdout
        except (FileNotFoundError, subprocess.CalledProcessError):
            raise DataError(f"{package} is no installed Debian package") from None
        for path in sorted(map(Path, listed.splitlines())):
            if path.name.removesuffix(".gz").endswith(_TEXT_SUFFIXES) and path.is_file():
                content = path.read_bytes()
                if path.suffix == ".gz":
                    content = gzip.decompress(content)
                try:
                    yield content.decode("utf-8")
                except UnicodeDecodeError:
                    continue


def main(argv: Sequence[str] | None = None) -> int:
    """Command line; exit status 0, or 2 with one line on stderr."""
    parser = argparse.ArgumentParser(prog="model.data", description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    made = commands.add_parser("prepare", help="encode documents to shards")
    made.add_argument("--out", type=Path, required=True, metavar="DIR", help="new or empty folder")
    made.add_argument(
        "--source", required=True, choices=["fineweb", "text", "parquet", "sotu", "debian"]
    )
    made.add_argument("inputs", nargs="*", help="files, or names of Debian packages")
    made.add_argument("--tokens", type=int, metavar="N", help="stop after so many tokens")
    made.add_argument("--shard-tokens", type=int, default=SHARD_TOKENS, metavar="N")
    made.add_argument("--tokenizer", type=Path, metavar="DIR", help="vocab.bpe and encoder.json")
    options = parser.parse_args(argv)
    needs_inputs = options.source in ("text", "parquet", "debian")
    if needs_inputs != bool(options.inputs):
        parser.error(f"--source {options.source} {'needs' if needs_inputs else 'takes no'} inputs")
    for name in ("tokens", "shard_tokens"):
        value = getattr(options, name)
        if value is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} {value} is not positive")
    try:
        index = prepare(
            _documents(options.source, options.inputs),
            options.out,
            {"source": options.source, "inputs": options.inputs},
            tokens=options.tokens,
            shard_tokens=options.shard_tokens,
            tokenizer=options.tokenizer,
        )
        shards = Shards(options.out)
    except ModuleNotFoundError as error:
        hint = "pip install 'attention-sensitivity[data]'"
        print(f"model.data: {error.name} is missing: {hint}", file=sys.stderr)
        return 2
    except (DataError, ShardError, MissingWeights, ImportError, OSError) as error:
        print(f"model.data: {error}", file=sys.stderr)
        return 2
    print(f"{index}: {len(shards):,} tokens in {len(shards.index['shards'])} shards")
    return 0


def _documents(source: str, inputs: Sequence[str]) -> Iterator[str]:
    if source == "fineweb":
        return fineweb_documents()
    if source == "sotu":
        return sotu_documents()
    if source == "debian":
        return debian_documents(inputs)
    return file_documents([Path(name) for name in inputs], source)


if __name__ == "__main__":
    sys.exit(main())
