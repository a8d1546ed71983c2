"""theory.theta.theta_rows_dask: the values of theta_rows on any chunks and any scheduler."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from theory.theta import OpenRowError, Status, theta_rows, theta_rows_dask

dask = pytest.importorskip("dask", reason="needs the extra 'dask'")
da = pytest.importorskip("dask.array", reason="needs the extra 'dask'")


@pytest.fixture(autouse=True)
def synchronous() -> Iterator[None]:
    """No threads of Dask's stay behind in the process of the tests."""
    with dask.config.set(scheduler="synchronous"):
        yield


def softmax_rows(seed: int, shape: tuple[int, ...], deviation: float = 1.5) -> np.ndarray:
    logits = deviation * np.random.default_rng(seed).standard_normal(shape)
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def causal_rows(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    rows = np.tril(softmax_rows(seed, shape))
    return rows / rows.sum(axis=-1, keepdims=True)


class TestValues:
    @pytest.mark.parametrize(
        ("shape", "chunks"),
        [
            ((20, 9), (7, 9)),
            ((20, 9), (7, 4)),
            ((3, 10, 12), (2, 3, 12)),
            ((2, 3, 4, 5), (1, 2, 3, 2)),
            ((6,), (6,)),
            ((0, 5), (1, 5)),
        ],
    )
    def test_any_chunks(self, shape, chunks):
        rows = softmax_rows(1, shape)
        theta = theta_rows_dask(da.from_array(rows, chunks=chunks))
        assert theta.dtype == np.float64
        assert theta.shape == rows.shape[:-1]
        assert np.array_equal(np.asarray(theta.compute()), theta_rows(rows))

    def test_blocks_in_threads(self):
        rows = softmax_rows(8, (60, 14))
        theta = theta_rows_dask(da.from_array(rows, chunks=(7, 14)), threads=2)
        with ThreadPoolExecutor(3) as pool:
            computed = theta.compute(scheduler="threads", pool=pool)
        assert np.array_equal(computed, theta_rows(rows))

    @pytest.mark.parametrize("dtype", [np.float32, np.float16])
    def test_narrow_types(self, dtype):
        rows = softmax_rows(2, (12, 10)).astype(dtype)
        theta = theta_rows_dask(da.from_array(rows, chunks=(5, 10)))
        assert np.array_equal(theta.compute(), theta_rows(rows))

    @pytest.mark.parametrize("offset", [0, 2])
    def test_causal_rows_are_counted_over_the_whole_axis(self, offset):
        rows = causal_rows(3, (3, 8, 8))
        chunked = da.from_array(rows, chunks=(2, 3, 4))
        theta = theta_rows_dask(chunked, causal=True, causal_offset=offset)
        assert np.array_equal(theta.compute(), theta_rows(rows, causal=True, causal_offset=offset))
        late = rows.copy()
        late[1, 5, :] = 1 / 8
        with pytest.raises(ValueError, match=r"^row \(1, 5\) has mass outside its support$"):
            theta_rows_dask(da.from_array(late, chunks=(2, 3, 4)), causal=True).compute()

    def test_supports(self):
        rows = causal_rows(4, (2, 6, 6))
        lengths = np.arange(1, 7)
        mask = rows > 0
        expected = theta_rows(rows)
        chunked = da.from_array(rows, chunks=(1, 4, 6))
        supports = (lengths, da.from_array(lengths, chunks=5), lengths[None], mask, mask[:1], 6)
        for support in (*supports, da.from_array(mask, chunks=(2, 2, 2))):
            for causal in (False, True):
                theta = theta_rows_dask(chunked, support=support, causal=causal)
                assert np.array_equal(theta.compute(), expected)
        short = np.minimum(lengths, 4)
        with pytest.raises(ValueError, match=r"row \([01], 4\) has mass outside its support"):
            theta_rows_dask(chunked, support=short, causal=True).compute()
        mask[1, 5, 0] = False
        with pytest.raises(ValueError, match=r"row \(1, 5\) has mass outside its support"):
            theta_rows_dask(chunked, support=mask, causal=True).compute()

    def test_options_are_passed_on(self):
        rows = np.array([[3.0, 2.0], [0.0, 0.0], [1.0, 1.0]])
        theta = theta_rows_dask(
            da.from_array(rows, chunks=(2, 2)), check_sum=False, on_empty="nan", threads=2
        )
        assert np.array_equal(theta.compute(), [0.96, np.nan, 1.0], equal_nan=True)

    def test_theta_rows_takes_dask_arrays(self):
        rows = causal_rows(9, (2, 6, 6))
        chunked = da.from_array(rows, chunks=(1, 4, 3))
        options = {"support": np.arange(1, 7), "causal": True, "causal_offset": 1}
        theta = theta_rows(chunked, **options)
        assert isinstance(theta, da.Array)
        assert np.array_equal(theta.compute(), theta_rows(rows, **options))
        zero = da.from_array(np.array([[3.0, 2.0], [0.0, 0.0]]), chunks=(1, 2))
        given = {"check_sum": False, "on_empty": "nan", "threads": 2, "return_status": True}
        theta, status = dask.compute(*theta_rows(zero, **given))
        assert np.array_equal(theta, [0.96, np.nan], equal_nan=True)
        assert status.tolist() == [Status.OPTIMAL, -1]
        for refused in ("return_subset", "progress"):
            with pytest.raises(ValueError, match=f"^{refused}: not for a Dask array; see theta"):
                theta_rows(chunked, **{refused: True})

    def test_status(self):
        rows = softmax_rows(10, (3, 4, 130))
        chunked = da.from_array(rows, chunks=(2, 3, 130))
        theta, status = theta_rows_dask(chunked, return_status=True)
        assert (theta.dtype, status.dtype) == (np.float64, np.int8)
        assert theta.chunks == status.chunks == chunked.chunks[:-1]
        expected = theta_rows(rows, return_status=True)
        computed = dask.compute(theta, status)
        assert all(np.array_equal(a, b) for a, b in zip(computed, expected, strict=True))

    def test_nothing_is_computed_before_it_is_asked_for(self):
        def explode(_block: np.ndarray) -> np.ndarray:
            raise RuntimeError("computed")

        rows = da.zeros((4, 3), chunks=(2, 3)).map_blocks(explode, meta=np.empty((0, 0)))
        theta = theta_rows_dask(rows)
        with pytest.raises(RuntimeError, match="computed"):
            theta.compute()


class TestErrors:
    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            (np.nan, "row 13 has NaN at entry 2"),
            (-0.5, "row 13 has a negative weight at entry 2"),
            (0.9, "row 13 sums to"),
        ],
    )
    def test_faulty_rows_are_named_by_their_place_in_the_array(self, value, reason):
        rows = softmax_rows(5, (20, 4))
        rows[13, 2] = value
        theta = theta_rows_dask(da.from_array(rows, chunks=(6, 4)))
        with pytest.raises(ValueError, match=f"^{reason}"):
            theta.compute()

    def test_open_rows(self):
        multiples = (11, 9, 9, 8, 7, 7, 6, 5, 5, 4, 4, 3, 3, 2)
        hard = [float(k * 2**30 + 3**i) for i, k in enumerate(multiples)]
        rows = da.from_array(np.array([[[1.0] * 14, [1.0] * 14], [[1.0] * 14, hard]]), chunks=1)
        with pytest.raises(OpenRowError, match=r"^row \(1, 1\) is open") as caught:
            theta_rows_dask(rows, check_sum=False, budget=0).compute()
        assert caught.value.index == (1, 1)
        assert caught.value.bounds[0] < caught.value.bounds[1]
        theta = theta_rows_dask(rows, check_sum=False, budget=0, on_open="nan").compute()
        assert np.isnan(theta).tolist() == [[False, False], [False, True]]

    @pytest.mark.parametrize(
        ("arguments", "error", "reason"),
        [
            ({"support": [1.0]}, TypeError, "support: expected booleans or lengths, got dtype"),
            ({"support": [1, 2, 3]}, ValueError, r"shape \(3,\) does not fit \(2,\)"),
            ({"support": [[True] * 5]}, ValueError, r"shape \(1, 5\) does not fit \(2, 4\)"),
            ({"causal": 1}, TypeError, "causal: expected a bool"),
            ({"causal_offset": 1}, ValueError, "no meaning without causal"),
            ({"causal": True, "causal_offset": 0.5}, TypeError, "expected an integer"),
            ({"on_empty": "skip"}, ValueError, "on_empty: expected"),
            ({"on_open": "skip"}, ValueError, "on_open: expected"),
            ({"threads": 0}, ValueError, "threads: expected at least 1"),
            ({"budget": -1}, ValueError, "budget: expected seconds"),
        ],
    )
    def test_arguments_are_refused_at_once(self, arguments, error, reason):
        rows = da.from_array(softmax_rows(6, (2, 4)), chunks=(1, 4))
        with pytest.raises(error, match=reason):
            theta_rows_dask(rows, **arguments)

    def test_arrays(self):
        with pytest.raises(TypeError, match="P: expected a Dask array, got ndarray"):
            theta_rows_dask(np.eye(2))
        with pytest.raises(ValueError, match="got a lone number"):
            theta_rows_dask(da.asarray(1.0))
        with pytest.raises(ValueError, match="causal: P needs a row axis"):
            theta_rows_dask(da.ones(3, chunks=3), causal=True)
        rows = da.from_array(np.eye(4), chunks=(2, 4))
        with pytest.raises(ValueError, match=r"unknown chunk sizes; call P.compute_chunk_sizes"):
            theta_rows_dask(rows[rows.sum(axis=1) > 0])

    def test_the_missing_extra_is_named(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "dask.array", None)
        with pytest.raises(ImportError, match=r"pip install 'attention-sensitivity\[dask\]'"):
            theta_rows_dask(np.eye(2))

    def test_dask_is_not_imported_before_it_is_used(self):
        code = "import sys, theory.theta; sys.exit('dask' in sys.modules)"
        assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# In a process of its own, because a client leaves threads behind in the one that used it.
CLUSTER = """
import sys

import dask.array as da
import distributed
import numpy as np

from theory.theta import theta_rows, theta_rows_dask

if __name__ == "__main__":
    rows, bad = np.load("rows.npy"), np.load("bad.npy")
    chunks = (2, 15, 40)
    with (
        # The dashboard takes any free port.
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=2, dashboard_address=":0", memory_limit=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        theta = theta_rows_dask(da.from_array(rows, chunks=chunks), causal=True)
        np.save("theta.npy", client.compute(theta).result(timeout=120))
        whole = theta_rows(da.from_array(rows, chunks=chunks), causal=True, return_status=True)
        np.save("again.npy", client.compute(whole[0]).result(timeout=120))
        np.save("status.npy", client.compute(whole[1]).result(timeout=120))
        faulty = theta_rows_dask(da.from_array(bad, chunks=chunks), causal=True)
        try:
            client.compute(faulty).result(timeout=120)
        except ValueError as error:
            print(error)
    sys.exit(cluster.status is not distributed.Status.closed)
"""


def test_a_cluster_of_processes_gives_the_same_values(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="needs the extra 'dask'")
    rows = causal_rows(7, (4, 40, 40)).astype(np.float32)
    bad = rows.copy()
    bad[3, 38, 1] = np.nan
    np.save(tmp_path / "rows.npy", rows)
    np.save(tmp_path / "bad.npy", bad)
    (tmp_path / "cluster.py").write_text(CLUSTER)
    done = subprocess.run(
        [sys.executable, "-W", "error", "cluster.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout == "row (3, 38) has NaN at entry 1\n"
    theta, status = theta_rows(rows, causal=True, return_status=True)
    assert np.array_equal(np.load(tmp_path / "theta.npy"), theta)
    assert np.array_equal(np.load(tmp_path / "again.npy"), theta)
    assert np.array_equal(np.load(tmp_path / "status.npy"), status)
