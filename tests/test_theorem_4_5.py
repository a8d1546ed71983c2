"""Theorem 4.5 through theory.blocks: bounded sublayers, and the sum over words."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import layer_modules, states

from theory.blocks import PreNormSublayer, Stack
from theory.bounds import corollary_4_2_bound
from theory.claims import _float_layers as floats
from theory.derivations import words


@settings(max_examples=100)
@given(st.data())
def test_sublayer_jacobian_is_bounded(data):
    modules = data.draw(layer_modules())
    norm, attention = modules.norm1, modules.attention
    lower, _ = floats.certified(Stack((norm, attention)).at(data.draw(states(attention.width))))
    bound = corollary_4_2_bound(attention, floats.magnitude(norm)).value * floats.crude_rate(norm)
    assert lower <= bound * (1 + 1e-9)


@settings(max_examples=60)
@given(st.data())
def test_sum_over_words_is_the_jacobian(data):
    modules = [data.draw(layer_modules(min_width=3, max_width=3)) for _ in range(3)]
    X = data.draw(states(3, max_length=2))
    stack = Stack([PreNormSublayer(norm=p.norm1, inner=p.attention) for p in modules])
    identity = np.eye(X.size)
    jacobians = [floats.matrix_of(step) - identity for step in stack.at(X).steps]
    total = np.zeros_like(identity)
    for size in range(4):
        for chosen in itertools.combinations(jacobians, size):
            word = identity
            for jacobian in chosen:
                word = jacobian @ word
            total += word
    sizes = [1 + np.linalg.norm(jacobian) for jacobian in jacobians]
    whole = floats.matrix_of(stack.at(X))
    assert np.max(np.abs(total - whole)) <= 1e-12 * np.prod(sizes)


@pytest.mark.parametrize("n", range(9))
def test_words(n):
    pre, post = words.pre_ln(n), words.post_ln(n)
    assert set(pre.values()) == set(post.values()) == {1}
    assert len(pre) == len(post) == 2**n
    assert pre[words.ONE] == 1
    assert post[words.ONE] == int(n == 0)
    for word in pre:
        places = [int(letter[1:]) for letter in word]
        assert places == sorted(places, reverse=True)
