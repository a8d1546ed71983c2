"""`kernel`: Numba compilation without the GIL, cached on disk under a hash of this package.

Numba checks a cached function against its own source file only, so a change in a callee that lives
in another file would be missed. Here the folder of the cache is named after a hash of all sources
of the package: any edit leads to a fresh folder. Nothing is read or written before a kernel is
first called, and Numba's settings for other packages stay as they are.
"""

import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import caching

_PACKAGE = Path(__file__).resolve().parent


def source_hash(folder: Path) -> str:
    """Hash of the names and the contents of every Python file in `folder`."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.name}:{len(content)}:".encode())
        digest.update(content)
    return digest.hexdigest()[:16]


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def cache_folder(package: Path) -> Path | None:
    """The first writable folder among Numba's own, the package's `__pycache__` and the user's."""
    key = f"theta-{source_hash(package)}"
    given: str = getattr(numba.config, "CACHE_DIR", "")
    roots = [
        Path(given) if given else package / "__pycache__",
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "numba",
    ]
    return next((root / key for root in roots if _writable(root / key)), None)


@functools.cache
def _package_folder() -> Path | None:
    return cache_folder(_PACKAGE)


class _Locator(caching._CacheLocator):
    """Tells Numba's cache where the files of one function lie."""

    def __init__(self, py_func: Any, folder: Path) -> None:
        self._line = py_func.__code__.co_firstlineno
        self._folder = folder

    @classmethod
    def from_function(cls, py_func: Any, _py_file: str) -> "_Locator | None":
        folder = _package_folder()
        return None if folder is None else cls(py_func, folder)

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._folder.name

    def get_disambiguator(self) -> str:
        return str(self._line)


class _Implementation(caching.CompileResultCacheImpl):
    _locator_classes = [_Locator]  # noqa: RUF012 (the base class declares a list)


class _FunctionCache(caching.FunctionCache):
    _impl_class = _Implementation


class _LazyCache(caching._Cache):
    """Numba's function cache, set up at the first compilation instead of at import."""

    def __init__(self, py_func: Any) -> None:
        self._py_func = py_func

    @functools.cached_property
    def _cache(self) -> Any:
        if _package_folder() is None:
            return caching.NullCache()
        return _FunctionCache(self._py_func)

    @property
    def cache_path(self) -> Any:
        return self._cache.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        return self._cache.load_overload(sig, target_context)

    def save_overload(self, sig: Any, data: Any) -> None:
        self._cache.save_overload(sig, data)

    def enable(self) -> None:
        self._cache.enable()

    def disable(self) -> None:
        self._cache.disable()

    def flush(self) -> None:
        self._cache.flush()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` in nopython mode at its first call: no GIL, no fastmath, cached."""
    dispatcher: Any = numba.njit(nogil=True)(function)
    dispatcher._cache = _LazyCache(function)
    return dispatcher
