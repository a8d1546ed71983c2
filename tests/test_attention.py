"""theory.attention: values and differentials against plain loops, complex steps and autograd."""

from __future__ import annotations

import dataclasses
import math
import re

import numpy as np
import pytest
import torch
from blocks_reference import complex_step_jacobian, complex_step_jvp, evaluate
from hypothesis import given, settings
from hypothesis import strategies as st
from random_modules import random_attention

from theory.attention import Attention, AttentionAt
from theory.masks import causal_mask, padding_mask, sliding_window_mask
from theory.normaliser import Normaliser
from theory.rotary import Rotary
from theory.softmax import softmax

# The reference and the module round differently, by a few eps of what the softmax and QK-norm
# amplify: 2e-13 was the worst of thousands.
DERIVATIVE_TOLERANCE = 1e-12
seeds = st.integers(0, 2**32 - 1)


def assert_near(result: np.ndarray, expected: np.ndarray, tolerance: float = 1e-12) -> None:
    """Equal up to a relative error in norm."""
    assert result.shape == expected.shape
    assert np.linalg.norm(result - expected) <= tolerance * np.linalg.norm(expected)


def instance(seed: int) -> tuple[np.random.Generator, Attention, np.ndarray]:
    rng = np.random.default_rng(seed)
    length, width = int(rng.integers(1, 6)), int(rng.integers(1, 6))
    module = random_attention(rng, length, width, output_width=int(rng.integers(1, 6)))
    return rng, module, rng.normal(size=(length, width))


def plain(rng: np.random.Generator, **options: object) -> Attention:
    """Four heads in two groups, width 6, head width 4, value width 3, output width 5."""
    parameters: dict[str, object] = {
        "query_HDK": rng.normal(size=(4, 6, 4)),
        "key_GDK": rng.normal(size=(2, 6, 4)),
        "value_GDV": rng.normal(size=(2, 6, 3)),
        "output_HVE": rng.normal(size=(4, 3, 5)),
    }
    return Attention(**(parameters | options))


# --- against plain loops and complex steps -------------------------------------------------------


@settings(max_examples=150)
@given(seeds)
def test_outputs_equal_the_plain_loops(seed: int) -> None:
    _, module, U = instance(seed)
    assert_near(module(U), evaluate(module, U), 1e-13)


@settings(max_examples=100)
@given(seeds)
def test_the_differential_equals_the_complex_step(seed: int) -> None:
    rng, module, U = instance(seed)
    at = module.at(U)
    expected = complex_step_jacobian(module, U)
    assert_near(at.jacobian(), expected, DERIVATIVE_TOLERANCE)
    for i, row in enumerate(expected):
        assert_near(at.row_block(i), np.moveaxis(row, 0, -1), 10 * DERIVATIVE_TOLERANCE)
    dU, dY = rng.normal(size=U.shape), rng.normal(size=at.output.shape)
    assert_near(at.jvp(dU), complex_step_jvp(module, U, dU), 10 * DERIVATIVE_TOLERANCE)
    assert_near(at.vjp(dY), np.einsum("iejd,ie->jd", expected, dY), 10 * DERIVATIVE_TOLERANCE)


@settings(max_examples=50)
@given(seeds)
def test_jvp_and_vjp_are_adjoint_and_take_leading_axes(seed: int) -> None:
    rng, module, U = instance(seed)
    at = module.at(U)
    assert at.input_shape == U.shape
    assert at.output_shape == at.output.shape
    directions = rng.normal(size=(2, 3, *U.shape))
    covectors = rng.normal(size=(2, 3, *at.output.shape))
    images, pulled = at.jvp(directions), at.vjp(covectors)
    assert images.shape == covectors.shape
    assert pulled.shape == directions.shape
    for b in np.ndindex(2, 3):
        assert_near(images[b], at.jvp(directions[b]))
        assert_near(pulled[b], at.vjp(covectors[b]))
        scale = np.linalg.norm(covectors[b]) * np.linalg.norm(images[b])
        assert abs(np.vdot(covectors[b], images[b]) - np.vdot(pulled[b], directions[b])) <= (
            1e-12 * scale
        )


@settings(max_examples=50)
@given(seeds)
def test_row_blocks_are_value_key_and_query_parts(seed: int) -> None:
    """The formula at the top of the module, with the factors that it offers."""
    _, module, U = instance(seed)
    at = module.at(U)
    share = module.heads // module.groups
    for i in range(len(U)):
        blocks = np.zeros((len(U), module.width, module.output_width))
        gradients = at.key_gradients_HLD(i)
        for h in range(module.heads):
            g, output = h // share, module.output_HVE[h]
            covariance = np.zeros((module.head_width, module.value_width))
            for j in range(len(U)):
                weight = at.probabilities_HLL[h, i, j]
                spread = module.score_factor * (at.values_GLV[g, j] - at.head_outputs_HLV[h, i])
                through_key = at.key_factor_GDK(j)[g] @ at.queries_HLK[h, i]
                assert_near(gradients[h, j], through_key, 1e-11)
                blocks[j] += weight * module.value_GDV[g] @ output
                blocks[j] += weight * np.outer(through_key, spread) @ output
                covariance += weight * np.outer(at.keys_GLK[g, j], spread)
            blocks[i] += at.query_factor_HDK(i)[h] @ covariance @ output
        assert_near(at.row_block(i), blocks, 1e-11)


def test_what_is_kept_at_an_input() -> None:
    rng = np.random.default_rng(1)
    module = plain(rng, mask="causal", tau=0.5, key_bias_GK=rng.normal(size=(2, 4)))
    U = rng.normal(size=(5, 6))
    at = module.at(U)
    assert (module.heads, module.groups, module.width) == (4, 2, 6)
    assert (module.head_width, module.value_width, module.output_width) == (4, 3, 5)
    assert module.score_scale == 0.5
    assert module.score_factor == 1.0
    np.testing.assert_array_equal(at.U, U)
    assert_near(at.queries_HLK[3], U @ module.query_HDK[3])
    assert_near(at.keys_GLK[1], U @ module.key_GDK[1] + module.key_bias_GK[1])
    assert_near(at.values_GLV[1], U @ module.value_GDV[1])
    assert_near(at.scores_HLL[2], 0.5 * at.queries_HLK[2] @ at.keys_GLK[1].T)
    np.testing.assert_array_equal(at.visible_HLL, np.tile(causal_mask(5), (4, 1, 1)))
    expected = softmax(at.scores_HLL, 0.5, mask=causal_mask(5))
    np.testing.assert_array_equal(at.probabilities_HLL, expected)
    assert np.all(at.probabilities_HLL[~at.visible_HLL] == 0.0)
    assert_near(at.head_outputs_HLV[0], at.probabilities_HLL[0] @ at.values_GLV[0])
    np.testing.assert_array_equal(at.output, module(U))


# --- against torch -------------------------------------------------------------------------------


def torch_attention(module: Attention, U: torch.Tensor) -> torch.Tensor:
    """The module in torch, as Llama-like models compute it (half-split rotary positions)."""

    def heads(weights: np.ndarray, biases: np.ndarray) -> torch.Tensor:
        return U @ torch.tensor(weights) + torch.tensor(biases)[:, None]

    def rotated(x: torch.Tensor) -> torch.Tensor:
        half = x.shape[-1] // 2
        angles = torch.arange(len(U))[:, None] * module.rotary.base ** (
            -torch.arange(0, 2 * half, 2, dtype=torch.float64) / (2 * half)
        )
        cosine, sine = torch.cos(angles).repeat(1, 2), torch.sin(angles).repeat(1, 2)
        return x * cosine + torch.cat([-x[..., half:], x[..., :half]], dim=-1) * sine

    queries = heads(module.query_HDK, module.query_bias_HK)
    keys = heads(module.key_GDK, module.key_bias_GK)
    values = heads(module.value_GDV, module.value_bias_GV)
    norm = module.query_norm
    queries = torch.nn.functional.layer_norm(
        queries, (norm.width,), torch.tensor(norm.gamma), torch.tensor(norm.beta), norm.eps
    )
    norm = module.key_norm
    keys = torch.nn.functional.rms_norm(keys, (norm.width,), torch.tensor(norm.gamma), norm.eps)
    mixed = torch.nn.functional.scaled_dot_product_attention(
        rotated(queries)[None],
        rotated(keys)[None],
        values[None],
        is_causal=True,
        scale=module.score_factor,
        enable_gqa=True,
    )[0]
    summed = torch.einsum("hlv,hve->le", mixed, torch.tensor(module.output_HVE))
    return summed + torch.tensor(module.output_bias_E)


def test_values_and_jacobian_equal_those_of_torch() -> None:
    rng = np.random.default_rng(2)
    module = plain(
        rng,
        query_bias_HK=rng.normal(size=(4, 4)),
        key_bias_GK=rng.normal(size=(2, 4)),
        value_bias_GV=rng.normal(size=(2, 3)),
        output_bias_E=rng.normal(size=5),
        tau=0.7,
        mask="causal",
        rotary=Rotary(base=100.0),
        query_norm=Normaliser(
            kind="layer", gamma=rng.normal(size=4), beta=rng.normal(size=4), eps=1e-5
        ),
        key_norm=Normaliser(kind="rms", gamma=rng.normal(size=4), eps=1e-5),
    )
    U = rng.normal(size=(7, 6))
    tensor = torch.tensor(U)
    assert_near(module(U), torch_attention(module, tensor).numpy(), 1e-13)
    jacobian = torch.autograd.functional.jacobian(lambda x: torch_attention(module, x), tensor)
    assert_near(module.at(U).jacobian(), jacobian.numpy())


# --- the options ---------------------------------------------------------------------------------


def test_groups_are_shared_by_neighbouring_heads() -> None:
    rng = np.random.default_rng(3)
    grouped = plain(rng)
    separate = dataclasses.replace(
        grouped,
        key_GDK=grouped.key_GDK[[0, 0, 1, 1]],
        value_GDV=grouped.value_GDV[[0, 0, 1, 1]],
    )
    U = rng.normal(size=(5, 6))
    assert separate.groups == 4
    assert_near(grouped(U), separate(U))
    multi_query = dataclasses.replace(
        grouped, key_GDK=grouped.key_GDK[:1], value_GDV=grouped.value_GDV[:1]
    )
    assert multi_query.groups == 1
    assert_near(multi_query.at(U).values_GLV[0], grouped.at(U).values_GLV[0])
    x = rng.normal(size=(3, 2, 5, 7))
    np.testing.assert_array_equal(grouped.per_head(x), x[:, [0, 0, 1, 1]])
    y = rng.normal(size=(3, 4, 5, 7))
    assert_near(grouped.per_group(y), y[:, [0, 2]] + y[:, [1, 3]])
    assert separate.per_head(y) is y
    assert separate.per_group(y) is y


def test_a_matrix_of_all_heads_is_split_as_checkpoints_are() -> None:
    rng = np.random.default_rng(4)
    W_Q, W_K, W_V = (rng.normal(size=(6, columns)) for columns in (16, 8, 6))
    W_O, U = rng.normal(size=(12, 5)), rng.normal(size=(3, 6))
    b_Q, b_K, b_V, b_O = (rng.normal(size=size) for size in (16, 8, 6, 5))
    module = Attention.from_matrices(
        *(W_Q, W_K, W_V, W_O),
        heads=4,
        groups=2,
        b_Q=b_Q,
        b_K=b_K,
        b_V=b_V,
        b_O=b_O,
        tau=2.0,
    )
    assert module.tau == 2.0
    at = module.at(U)
    assert_near(np.concatenate(at.queries_HLK, axis=1), U @ W_Q + b_Q)
    assert_near(np.concatenate(at.keys_GLK, axis=1), U @ W_K + b_K)
    assert_near(np.concatenate(at.values_GLV, axis=1), U @ W_V + b_V)
    assert_near(at.output, np.concatenate(at.head_outputs_HLV, axis=1) @ W_O + b_O)
    whole = Attention.from_matrices(W_Q, W_Q, W_Q, rng.normal(size=(16, 5)), heads=4)
    assert whole.groups == 4
    assert whole.query_bias_HK is None
    assert whole.output_bias_E is None
    assert whole.query_HDK.flags.c_contiguous


def test_temperature_and_scale_divide_and_multiply_the_scores() -> None:
    rng = np.random.default_rng(5)
    U = rng.normal(size=(4, 6))
    module = plain(rng)
    doubled = dataclasses.replace(module, scale=1.0)
    assert_near(doubled.at(U).scores_HLL, 2 * module.at(U).scores_HLL)
    assert_near(dataclasses.replace(doubled, tau=2.0)(U), module(U))
    assert dataclasses.replace(doubled, tau=4.0).score_factor == 0.25
    warm = dataclasses.replace(module, tau=2.0)
    np.testing.assert_array_equal(warm.at(U).scores_HLL, module.at(U).scores_HLL)


def test_every_kind_of_mask() -> None:
    rng = np.random.default_rng(6)
    U = rng.normal(size=(4, 6))
    module = plain(rng)
    causal = dataclasses.replace(module, mask="causal")
    assert_near(causal(U), dataclasses.replace(module, mask=causal_mask(4))(U), 0.0)
    np.testing.assert_array_equal(module.visible(3), np.ones((4, 3, 3), bool))
    # A row sees nothing of later tokens, so neither does its value.
    assert_near(causal(U)[:2], causal(U[:2]))
    # Padding on the right changes nothing for the tokens before it.
    padded = dataclasses.replace(module, mask=padding_mask([True, True, True, False]))
    assert_near(padded(U)[:3], module(U[:3]))
    window = dataclasses.replace(module, mask=sliding_window_mask(4, 1))
    assert_near(window.at(U).probabilities_HLL[2], np.eye(4), 0.0)
    per_head = np.stack([np.eye(4, dtype=bool)] * 3 + [np.ones((4, 4), bool)])
    mixed = dataclasses.replace(module, mask=per_head).at(U)
    assert_near(mixed.probabilities_HLL[2], np.eye(4), 0.0)
    assert_near(mixed.probabilities_HLL[3], module.at(U).probabilities_HLL[3], 0.0)


def test_hidden_scores_are_never_read() -> None:
    """The hidden score overflows to infinity; what is visible is as if the token were not there."""
    one = np.ones((1, 1, 1))
    module = Attention(
        query_HDK=1e100 * one,
        key_GDK=1e-100 * one,
        value_GDV=one,
        output_HVE=one,
        mask=padding_mask([True, True, False]),
    )
    U = np.array([[1.0], [2.0], [1e160]])
    at = module.at(U)
    assert np.isinf(at.scores_HLL[0, 2, 2])
    assert np.isfinite(at.output).all()
    short = dataclasses.replace(module, mask=None).at(U[:2])
    np.testing.assert_array_equal(at.output[:2], short.output)
    dU, dY = np.array([[1.0], [-2.0], [3.0]]), np.array([[1.0], [3.0], [0.0]])
    np.testing.assert_array_equal(at.jvp(dU)[:2], short.jvp(dU[:2]))
    np.testing.assert_array_equal(at.vjp(dY)[:2], short.vjp(dY[:2]))
    assert at.vjp(dY)[2, 0] == 0.0
    np.testing.assert_array_equal(at.row_block(1)[:2], short.row_block(1))
    assert np.isfinite(at.jacobian()).all()


def test_scores_beyond_the_range_of_exp_give_one_hot_rows() -> None:
    one = np.ones((1, 1, 1))
    module = Attention(query_HDK=one, key_GDK=one, value_GDV=one, output_HVE=one)
    at = module.at([[1e150], [-1e150]])
    np.testing.assert_array_equal(at.probabilities_HLL[0], np.eye(2))
    np.testing.assert_array_equal(at.jvp([[1.0], [3.0]]), [[1.0], [3.0]])


def test_one_visible_key_leaves_the_value_path_alone() -> None:
    rng = np.random.default_rng(7)
    module = plain(rng, mask=sliding_window_mask(3, 1))
    value_path = sum(module.value_GDV[h // 2] @ module.output_HVE[h] for h in range(4))
    blocks = module.at(rng.normal(size=(3, 6))).row_block(1)
    assert_near(blocks[1], value_path)
    np.testing.assert_array_equal(blocks[[0, 2]], 0.0)


def test_a_shift_of_all_keys_changes_nothing() -> None:
    """A bias of the keys adds <q_i, b> to every score of row i: the softmax does not see it."""
    rng = np.random.default_rng(8)
    module, U = plain(rng), rng.normal(size=(4, 6))
    shifted = dataclasses.replace(module, key_bias_GK=rng.normal(size=(2, 4)))
    assert_near(shifted(U), module(U))
    assert_near(shifted.at(U).jacobian(), module.at(U).jacobian())


# --- frozen, private, and unchanged --------------------------------------------------------------


def test_parameters_are_private_and_read_only() -> None:
    rng = np.random.default_rng(9)
    query = rng.normal(size=(4, 6, 4))
    mask = np.ones((3, 3), bool)
    module = plain(rng, query_HDK=query, mask=mask)
    U = rng.normal(size=(3, 6))
    before, at = module(U), module.at(U)
    saved = (query.copy(), U.copy())
    at.jvp(U)
    at.vjp(at.output)
    at.jacobian()
    np.testing.assert_array_equal(saved[0], query)
    np.testing.assert_array_equal(saved[1], U)
    query[:] = 0.0
    mask[0] = False
    U[:] = 0.0
    np.testing.assert_array_equal(module(saved[1]), before)
    assert np.any(at.U)
    for holder in (module, at):
        for field in dataclasses.fields(holder):
            value = getattr(holder, field.name)
            if isinstance(value, np.ndarray):
                assert not value.flags.writeable, field.name
    with pytest.raises(dataclasses.FrozenInstanceError):
        module.tau = 2.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        at.output = before


def test_results_do_not_depend_on_the_memory_layout() -> None:
    rng = np.random.default_rng(10)
    module, U = plain(rng), rng.normal(size=(5, 6))
    transposed = plain(
        rng,
        query_HDK=np.asfortranarray(module.query_HDK),
        key_GDK=np.asfortranarray(module.key_GDK),
        value_GDV=np.asfortranarray(module.value_GDV),
        output_HVE=np.asfortranarray(module.output_HVE),
    )
    np.testing.assert_array_equal(transposed(np.asfortranarray(U)), module(U))
    np.testing.assert_array_equal(transposed(U.tolist()), module(U))


# --- bad input -----------------------------------------------------------------------------------

BAD_PARAMETERS = [
    ({"tau": 0.0}, "tau is 0.0: it must be positive"),
    ({"tau": -1.0}, "tau is -1.0: it must be positive"),
    ({"tau": math.nan}, "tau is nan: a finite number is needed"),
    ({"scale": 0.0}, "scale is 0.0: it must be positive"),
    (
        {"query_HDK": np.zeros((3, 6, 4)), "output_HVE": np.zeros((3, 3, 5))},
        "3 query heads cannot share 2 groups of keys evenly",
    ),
    (
        {"key_GDK": np.zeros((2, 6, 5))},
        "key_GDK has shape (2, 6, 5): (groups, width, head width) = (any, 6, 4) is needed",
    ),
    (
        {"key_GDK": np.zeros((2, 5, 4))},
        "key_GDK has shape (2, 5, 4): (groups, width, head width) = (any, 6, 4) is needed",
    ),
    (
        {"value_GDV": np.zeros((1, 6, 3))},
        "value_GDV has shape (1, 6, 3): (groups, width, value width) = (2, 6, any) is needed",
    ),
    (
        {"output_HVE": np.zeros((2, 3, 5))},
        "output_HVE has shape (2, 3, 5): (heads, value width, output width) = (4, 3, any) "
        "is needed",
    ),
    (
        {"query_bias_HK": np.zeros((2, 4))},
        "query_bias_HK has shape (2, 4): (heads, head width) = (4, 4) is needed",
    ),
    (
        {"key_bias_GK": np.zeros((4, 4))},
        "key_bias_GK has shape (4, 4): (groups, head width) = (2, 4) is needed",
    ),
    (
        {"value_bias_GV": np.zeros((2, 4))},
        "value_bias_GV has shape (2, 4): (groups, value width) = (2, 3) is needed",
    ),
    (
        {"output_bias_E": np.zeros(6)},
        "output_bias_E has shape (6,): (output width,) = (5) is needed",
    ),
    ({"query_HDK": np.zeros((6, 4))}, "query_HDK has shape (6, 4): 3 axes are needed"),
    (
        {"value_GDV": np.where(np.arange(36).reshape(2, 6, 3) == 22, np.nan, 0.0)},
        "value_GDV[1, 1, 1] is nan: entries must be finite",
    ),
    ({"mask": "padding"}, "mask is 'padding': \"causal\" is the only one with a name"),
    ({"mask": [True]}, "mask has shape (1,): (L, L) or (4, L, L) is needed"),
    ({"mask": np.ones((0, 0), bool)}, "mask has shape (0, 0): (L, L) or (4, L, L) is needed"),
    (
        {"mask": np.ones((4, 1, 1, 1), bool)},
        "mask has shape (4, 1, 1, 1): (L, L) or (4, L, L) is needed",
    ),
    ({"mask": np.ones((3, 4), bool)}, "mask has shape (3, 4): (L, L) or (4, L, L) is needed"),
    ({"mask": np.ones((2, 3, 3), bool)}, "mask has shape (2, 3, 3): (L, L) or (4, L, L) is needed"),
    ({"mask": np.diag([True, False, True])}, "mask hides every key of query 1"),
    (
        {"mask": np.stack([np.eye(3, dtype=bool)] * 3 + [np.tri(3, k=-1, dtype=bool)])},
        "mask hides every key of query 0 in head 3",
    ),
    ({"rotary": Rotary(width=6)}, "rotary width 6 does not fit heads of width 4"),
    (
        {"query_norm": Normaliser(kind="rms", gamma=np.ones(5), eps=1e-5)},
        "query_norm has width 5, the heads have width 4",
    ),
    (
        {"key_norm": Normaliser(kind="rms", gamma=np.ones(3), eps=1e-5)},
        "key_norm has width 3, the heads have width 4",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD_PARAMETERS)
def test_bad_parameters_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        plain(np.random.default_rng(0), **options)


BAD_KINDS = [
    ({"mask": np.ones((3, 3))}, "mask has dtype float64: booleans are needed, True where visible"),
    ({"rotary": 10000.0}, "rotary is of type float: Rotary is needed"),
    ({"query_norm": "rms"}, "query_norm is of type str: Normaliser is needed"),
    ({"key_norm": 1}, "key_norm is of type int: Normaliser is needed"),
    ({"query_HDK": None}, "query_HDK is of type NoneType: real numbers are needed"),
    ({"tau": None}, "tau is of type NoneType: real numbers are needed"),
]


@pytest.mark.parametrize(("options", "message"), BAD_KINDS)
def test_parameters_of_another_kind_are_named(options: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=f"^{re.escape(message)}$"):
        plain(np.random.default_rng(0), **options)


BAD_MATRICES = [
    ({"heads": 3}, "W_Q has shape (6, 16): it cannot be split among 3 heads"),
    ({"heads": 4, "groups": 3}, "W_K has shape (6, 8): it cannot be split among 3 groups"),
    ({"heads": 0}, "heads is 0: at least 1 is needed"),
    ({"heads": 4, "groups": 0}, "groups is 0: at least 1 is needed"),
    ({"heads": 4, "groups": 4}, "W_V has shape (6, 10): it cannot be split among 4 groups"),
    ({"heads": 4, "groups": 2, "b_V": np.zeros(3)}, "b_V has shape (3,): it cannot be split among"),
    ({"heads": 4, "groups": 2, "b_K": np.zeros(3)}, "b_K has shape (3,): it cannot be split among"),
    (
        {"heads": 4, "groups": 2, "b_Q": np.zeros(15)},
        "b_Q has shape (15,): it cannot be split among 4 heads",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD_MATRICES)
def test_matrices_that_cannot_be_split_are_named(options: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        Attention.from_matrices(
            np.zeros((6, 16)), np.zeros((6, 8)), np.zeros((6, 10)), np.zeros((16, 5)), **options
        )


def test_output_rows_that_cannot_be_split_are_named() -> None:
    message = r"^W_O has shape \(7, 5\): it cannot be split among 2 heads$"
    with pytest.raises(ValueError, match=message):
        Attention.from_matrices(*[np.zeros((6, 4))] * 3, np.zeros((7, 5)), heads=2)


BAD_INPUTS = [
    (np.zeros(6), "U has shape (6,): 2 axes are needed"),
    (np.zeros((3, 5)), "U has shape (3, 5): tokens of width 6 are needed"),
    (np.zeros((4, 6)), "mask is for 3 tokens, U has 4"),
    (np.where(np.arange(18).reshape(3, 6) == 13, np.inf, 0.0), "U[2, 1] is inf: entries must be"),
    (np.full((3, 6), 1e308), "queries[0, 0, 0] is beyond the range of float64"),
]


@pytest.mark.parametrize(("U", "message"), BAD_INPUTS)
def test_bad_inputs_are_named(U: np.ndarray, message: str) -> None:
    module = plain(np.random.default_rng(0), mask=causal_mask(3), query_HDK=np.full((4, 6, 4), 2.0))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        module.at(U)


@pytest.mark.parametrize(
    ("weights", "name"),
    [
        ((1.0, 1e10, 1.0, 1.0), "keys[0, 1, 0]"),
        ((1.0, 1.0, 1e10, 1.0), "values[0, 1, 0]"),
        ((1.0, 1.0, 1.0, 1.0), "scores[0, 1, 1]"),
        ((1e-300, 1.0, 1.0, 1e10), "output[0, 0]"),
    ],
)
def test_what_exceeds_float64_is_named(weights: tuple[float, ...], name: str) -> None:
    query, key, value, output = (np.full((1, 1, 1), weight) for weight in weights)
    module = Attention(query_HDK=query, key_GDK=key, value_GDV=value, output_HVE=output)
    with pytest.raises(ValueError, match=rf"^{re.escape(name)} is beyond the range of float64$"):
        module.at([[1.0], [1e300]])


def test_rotary_positions_must_match_the_tokens() -> None:
    module = plain(np.random.default_rng(0), rotary=Rotary(positions=[0, 1]))
    with pytest.raises(ValueError, match=r"^rotary has 2 positions, U has 3 tokens$"):
        module.at(np.zeros((3, 6)))


@pytest.fixture
def at() -> AttentionAt:
    rng = np.random.default_rng(0)
    return plain(rng).at(rng.normal(size=(3, 6)))


def test_bad_directions_and_covectors_are_named(at: AttentionAt) -> None:
    with pytest.raises(ValueError, match=r"^dX has shape \(6, 3\): \(\.\.\., 3, 6\) is needed$"):
        at.jvp(np.zeros((6, 3)))
    with pytest.raises(ValueError, match=r"^dY has shape \(3, 6\): \(\.\.\., 3, 5\) is needed$"):
        at.vjp(np.zeros((3, 6)))
    with pytest.raises(ValueError, match=r"^dX has shape \(6,\): \(\.\.\., 3, 6\) is needed$"):
        at.jvp(np.zeros(6))
    with pytest.raises(ValueError, match=r"^dY\[0, 0\] is nan: entries must be finite$"):
        at.vjp(np.full((3, 5), np.nan))
    with pytest.raises(TypeError, match=r"^dX has dtype complex128: real numbers are needed$"):
        at.jvp(np.zeros((3, 6), complex))


def test_bad_rows_are_named(at: AttentionAt) -> None:
    for i in (3, -1):
        message = rf"is {i}: it must lie in 0 \.\.\. 2$"
        with pytest.raises(ValueError, match=r"^i " + message):
            at.row_block(i)
        for factor in (at.query_factor_HDK, at.key_factor_GDK, at.key_gradients_HLD):
            with pytest.raises(ValueError, match=r"^token " + message):
                factor(i)
    with pytest.raises(TypeError, match=r"^i is of type float: an integer is needed$"):
        at.row_block(1.0)
