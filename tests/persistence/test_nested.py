"""Nested state: every value and tensor comes back as it was, through JSON."""

import json
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from helpers.model_folders import same
from helpers.refusals import assert_refused
from siggpde.persistence import ModelFileError, flatten_state, restore_state

numbers = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, st.text())
    | st.integers(0, 5).map(lambda size: torch.arange(float(size)).double() / 7),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text().filter("tensor".__ne__), inner, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_round_trip(state: Any):
    flat, tensors = flatten_state(state, "model")
    assert same(restore_state(json.loads(json.dumps(flat)), tensors), state)
    assert all(name.startswith("model") for name in tensors)


def test_the_order_of_axes_is_kept_and_what_does_not_fit_is_refused():
    value = torch.arange(12.0).reshape(3, 4).T
    flat, tensors = flatten_state({"a": [value, (1, 2)]}, "m")
    assert flat == {"a": [{"tensor": "m.a.0", "order": [1, 0]}, [1, 2]]} and tensors["m.a.0"].is_contiguous()
    restored = restore_state(flat, tensors)["a"][0]
    assert torch.equal(restored, value) and restored.stride() == value.stride()
    assert_refused(r"m\.a has the key 'tensor', which stands for tensors", flatten_state, {"a": {"tensor": 1}}, "m")
    assert_refused(r"lacks the tensor 'm\.a'", restore_state, {"tensor": "m.a"}, {}, error=ModelFileError)
    with pytest.raises(ModelFileError, match=r"the layout \[0, 0\] is given for a tensor of 2 axes"):
        restore_state({"tensor": "m", "order": [0, 0]}, {"m": torch.zeros(2, 2)})
