"""Nested state as plain values beside named tensors: a tensor becomes ``{"tensor": name}``, named after its place, with
its order of axes in memory if it is another one, on which the rounding of matrix products depends."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from siggpde.persistence.manifest import ModelFileError

_REFERENCE = "tensor"


def flatten_state(state: Any, name: str) -> tuple[Any, dict[str, Tensor]]:
    """The state with references in place of tensors, and the tensors, whose names begin with `name`."""
    tensors: dict[str, Tensor] = {}
    return _flat(state, name, tensors), tensors


def restore_state(plain: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The inverse of `flatten_state`, but for tuples, which are lists then; the tensors share memory with `tensors`."""
    if isinstance(plain, list):
        return [restore_state(value, tensors) for value in plain]
    if not isinstance(plain, Mapping):
        return plain
    if _REFERENCE not in plain:
        return {key: restore_state(value, tensors) for key, value in plain.items()}
    name = plain[_REFERENCE]
    if not isinstance(name, str) or plain.keys() - {_REFERENCE, "order"}:
        raise ModelFileError(f"a tensor of the saved model is given by {dict(plain)!r:.80}; save the model again")
    if name not in tensors:
        raise ModelFileError(f"the saved model lacks the tensor {name!r:.80}; save the model again")
    return with_order(tensors[name], plain.get("order"))


def references(plain: Any) -> set[str]:
    """The names of the tensors that a plain state refers to."""
    if isinstance(plain, list):
        return set().union(*map(references, plain))
    if not isinstance(plain, Mapping):
        return set()
    return {plain[_REFERENCE]} if _REFERENCE in plain else set().union(*map(references, plain.values()))


def _flat(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, Tensor):
        tensors[name], order = contiguous(value)
        return {_REFERENCE: name} if order is None else {_REFERENCE: name, "order": order}
    if isinstance(value, Mapping):
        if _REFERENCE in value:
            raise ValueError(f"{name} has the key {_REFERENCE!r}, which stands for tensors here; choose another")
        return {key: _flat(item, f"{name}.{key}", tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_flat(item, f"{name}.{index}", tensors) for index, item in enumerate(value)]
    return value


def contiguous(value: Tensor) -> tuple[Tensor, list[int] | None]:
    """A contiguous tensor with the same values, and the order of the axes in memory if it is not 0, 1, .."""
    value = value.detach()
    if not value.is_contiguous():
        order = sorted(range(value.ndim), key=lambda axis: -value.stride(axis))
        if value.permute(order).is_contiguous():
            return value.permute(order), order
    return value.contiguous(), None


def with_order(value: Tensor, order: list[int] | None) -> Tensor:
    """The inverse of `contiguous`: the tensor with the axes, and the layout in memory, that it had."""
    if order is None:
        return value
    if not isinstance(order, list) or any(type(axis) is not int for axis in order):
        raise ModelFileError(f"the layout of a tensor is {order!r:.80}, not a list of axes; save the model again")
    if sorted(order) != list(range(value.ndim)):
        raise ModelFileError(f"the layout {order!r} is given for a tensor of {value.ndim} axes; save the model again")
    return value.permute([order.index(axis) for axis in range(value.ndim)])
