"""The left kernel of post-LN stacks hunted for counterexamples through theory.blocks."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import layer_modules, states

from theory.blocks import Stack
from theory.claims import _float_layers as floats
from theory.norms import spectral_norm


@given(st.data())
def test_left_kernel_and_rank(data):
    first = data.draw(layer_modules())
    width = first.attention.width
    second = data.draw(layer_modules(min_width=width, max_width=width))
    stack = Stack([first.layer(pre=False), second.layer(pre=False)])
    at = stack.at(data.draw(states(width)))
    length = at.input_shape[0]
    gamma = second.norm2.gamma
    zeros = np.flatnonzero(gamma == 0.0)
    left = np.eye(width)[zeros[0]] if zeros.size else 1 / gamma
    covector = np.zeros((length, width))
    covector[data.draw(st.integers(0, length - 1))] = left
    scale = np.prod([spectral_norm(floats.matrix_of(step)) for step in at.steps])
    assert np.max(np.abs(at.vjp(covector))) <= 1e-12 * (1 + scale) * np.linalg.norm(left)
    values = np.linalg.svd(floats.matrix_of(at), compute_uv=False)
    assert np.all(values[length * (width - 1) :] <= 1e-12 * (1 + scale))


@given(st.data())
def test_outputs_satisfy_one_equation_a_token(data):
    modules = data.draw(layer_modules())
    norm = modules.norm2
    output = modules.layer(pre=False)(data.draw(states(norm.width)))
    keep = norm.gamma != 0.0
    gaps = (output - norm.beta)[:, keep] / norm.gamma[keep]
    if keep.all():
        assert np.max(np.abs(gaps.sum(axis=1))) <= 1e-13 * norm.width * (1 + np.max(np.abs(gaps)))
    else:
        np.testing.assert_array_equal(
            output[:, ~keep], np.broadcast_to(norm.beta, output.shape)[:, ~keep]
        )
