"""Data files of the source tree, each beside a JSON file that says where it comes from."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

DATA_FOLDER = Path(__file__).resolve().parent / "data"


@dataclass(frozen=True, kw_only=True)
class DataFile:
    """Arrays in an .npz file, and their provenance, which records the file's SHA-256.

    Attributes:
        name: file name of the arrays.
        provenance: file name of the provenance.
        script: path of the script in the source tree that writes both.
    """

    name: str
    provenance: str
    script: str

    def load(self, folder: Path) -> dict[str, NDArray[Any]]:
        """The arrays, read-only.

        Raises:
            FileNotFoundError: the arrays or their provenance are missing.
            ValueError: the provenance is no record of the arrays, or their SHA-256 is not the
                recorded one.
        """
        recorded = self.load_provenance(folder)["sha256"]
        path = self._existing(folder, self.name)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != recorded:
            raise ValueError(
                f"{path} has SHA-256 {digest}, but {self.provenance} records {recorded}: "
                f"the two files do not belong together"
            )
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        for array in arrays.values():
            array.flags.writeable = False
        return arrays

    def load_provenance(self, folder: Path) -> dict[str, Any]:
        """The provenance.

        Raises:
            FileNotFoundError: it is missing.
            ValueError: it is not JSON, or records no file hash.
        """
        path = self._existing(folder, self.provenance)
        try:
            provenance = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ValueError(f"{path} is not JSON: {error}") from error
        if not isinstance(provenance, dict) or "sha256" not in provenance:
            raise ValueError(f"{path} records no SHA-256 of {self.name}")
        return provenance

    def write(
        self, arrays: dict[str, NDArray[Any]], provenance: dict[str, Any], folder: Path
    ) -> Path:
        """Write the arrays, and the provenance with their hash in it; return the arrays' path."""
        path = folder / self.name
        np.savez_compressed(path, allow_pickle=False, **arrays)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        record = {"file": path.name, "sha256": digest} | provenance
        text = json.dumps(record, indent=2, ensure_ascii=False) + "\n"
        (folder / self.provenance).write_text(text, encoding="utf-8")
        return path

    def _existing(self, folder: Path, name: str) -> Path:
        path = folder / name
        if not path.is_file():
            raise FileNotFoundError(
                f"{path} is missing; it comes with the source tree, and "
                f"`make weights` followed by `python {self.script}` writes it anew"
            )
        return path
