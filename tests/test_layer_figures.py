"""The figures of one attention: no bound below the certified norm, parts that make sense."""

import numpy as np
import pytest
from random_modules import random_attention

from theory.attention import Attention
from theory.layer_figures import LONGEST_FOR_MOMENTS, Figure, layer_figures
from theory.opnorm import BracketStatus

# The bounds carry a first-order margin for rounding; see theory.bounds.
ROUNDING = 1e-12


@pytest.mark.parametrize("seed", range(25))
def test_no_bound_is_violated_on_random_attention(seed: int) -> None:
    rng = np.random.default_rng(seed)
    at = random_attention(rng, 6, 8).at(rng.normal(size=(6, 8)) * rng.choice([0.1, 1.0, 5.0]))
    figures = layer_figures(at)
    assert figures.bracket.status is BracketStatus.CONVERGED
    for name, bound in figures.upper_bounds.items():
        assert bound.value * (1 + ROUNDING) >= figures.bracket.lower, name
        assert 0.0 <= bound.value_share <= 1.0, name
    assert len(figures.theta_H) == at.attention.heads
    euclidean = figures.euclidean
    for bound in (euclidean.yudin, euclidean.measured, euclidean.fine_grained.value):
        assert bound is None or bound * (1 + 1e-9) >= euclidean.norm


def plain(**changes: np.ndarray) -> Attention:
    rng = np.random.default_rng(3)
    parameters = {
        "query_HDK": rng.normal(size=(2, 4, 2)),
        "key_GDK": rng.normal(size=(2, 4, 2)),
        "value_GDV": rng.normal(size=(2, 4, 3)),
        "output_HVE": rng.normal(size=(2, 3, 4)),
    }
    return Attention(**(parameters | changes))


def test_the_formula_counts_as_a_bound_only_where_its_hypotheses_hold() -> None:
    U = np.random.default_rng(4).normal(size=(3, 4))
    figures = layer_figures(plain().at(U))
    assert (figures.missing, "theorem_4_1" in figures.upper_bounds) == ("", True)
    biased = layer_figures(plain(value_bias_GV=np.ones((2, 3))).at(U))
    assert (biased.missing, "theorem_4_1" in biased.upper_bounds) == ("value_bias_GV", False)


def test_all_of_the_bound_is_the_value_path_where_attention_is_fixed() -> None:
    U = np.random.default_rng(5).normal(size=(3, 4))
    figures = layer_figures(plain(query_HDK=np.zeros((2, 4, 2))).at(U))
    assert figures.theorem_4_1.value_share == 1.0
    assert figures.euclidean.fine_grained.value_share == pytest.approx(1.0)


def test_the_zero_map_has_share_zero() -> None:
    figures = layer_figures(plain(output_HVE=np.zeros((2, 3, 4))).at(np.eye(3, 4)))
    assert figures.theorem_4_1 == Figure(value=0.0, value_share=0.0)
    assert figures.bracket.upper == 0.0


def test_moments_are_left_out_of_long_inputs() -> None:
    rng = np.random.default_rng(6)
    long = layer_figures(plain().at(rng.normal(size=(LONGEST_FOR_MOMENTS + 1, 4))), ratio=1.25)
    assert long.moments is None
    assert "moments" not in long.upper_bounds
