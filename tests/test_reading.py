"""What every function reads alike, and how errors name a row that has no index."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from theory.layernorm import layer_norm
from theory.softmax import softmax
from theory.theta import theta, theta_rows


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors_are_read_in_every_type_and_without_their_gradient(dtype: torch.dtype) -> None:
    tensor = torch.tensor([0.5, -1.0, 2.0], dtype=dtype, requires_grad=True)
    values = [0.5, -1.0, 2.0]
    assert softmax(tensor).tolist() == softmax(values).tolist()
    ones, zeros = np.ones(3), np.zeros(3)
    expected = layer_norm(values, ones, zeros, 1e-5).tolist()
    assert layer_norm(tensor, ones, zeros, 1e-5).tolist() == expected
    half = torch.tensor([0.5, 0.25, 0.25], dtype=dtype, requires_grad=True)
    assert theta(half) == 1.0
    assert tensor.requires_grad


def test_a_lone_row_is_called_the_row() -> None:
    with pytest.raises(ValueError, match=r"^the row sums to 6\.0 instead of 1"):
        theta_rows([1, 2, 3])
    with pytest.raises(ValueError, match=r"^the row has NaN at entry 1"):
        theta_rows([0.5, np.nan, 0.5])


def test_a_sum_that_prints_as_one_shows_its_deviation() -> None:
    row = np.array([0.5, 0.5], dtype=np.longdouble) + np.longdouble(2) ** -58
    with pytest.raises(ValueError, match=r"sums to 1 \+6\.9e-18 instead of 1"):
        theta_rows(row)


def test_a_bfloat16_sum_is_that_of_its_own_values() -> None:
    row = torch.tensor([[0.5, 0.5, 0.5]], dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"^row 0 sums to 1\.5 instead of 1"):
        theta_rows(row)


@pytest.mark.parametrize("choice", ["no such choice", 1, ["raise"]])
def test_a_choice_is_one_of_its_words(choice: object) -> None:
    with pytest.raises(ValueError, match="on_open"):
        theta_rows([[0.5, 0.5]], on_open=choice)  # type: ignore[arg-type]
