"""A device that is not there: its tensors compute on the CPU but mix with CPU tensors as little as a GPU's do.

Tensors say that they are on torch's device "meta", which on every machine may be named, and hold their numbers in a CPU
tensor. An operation on tensors of both devices is refused, single numbers and indices of the CPU aside, as CUDA does;
what is copied to the CPU, or read as numbers there, is counted.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_leaves, tree_map_only

DEVICE = torch.device("meta")
_INDEXING = ("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index")
_read: list[int] = []


class PretendTensor(Tensor):
    """A tensor on the device, whose numbers are in `held`."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> "PretendTensor":
        made = Tensor._make_wrapper_subclass(  # pyright: ignore[reportAttributeAccessIssue]
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=DEVICE,
        )
        made.held = held
        return made

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"PretendTensor({self.held})"

    def tolist(self) -> Any:
        _read.append(self.numel())
        return self.held.tolist()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.held.__reduce_ex__(protocol)  # files hold plain tensors, as those of a GPU do when they are read

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _computed(func, args, dict(kwargs or {}))


class _Factories(TorchDispatchMode):
    """Makes tensors of the device where the device is named."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("device") == DEVICE or any(
            isinstance(part, PretendTensor) for part in tree_leaves((args, kwargs))
        ):
            return _computed(func, args, kwargs)
        return func(*args, **kwargs)


class _Constants(TorchFunctionMode):
    """The same for constants, which torch makes without asking the mode above."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        if func in (torch.tensor, torch.as_tensor) and device is not None and torch.device(device) == DEVICE:
            kwargs.pop("device")
            return func(*args, **kwargs).to(DEVICE)
        if func is Tensor.new_tensor and isinstance(args[0], PretendTensor):
            kwargs.setdefault("dtype", args[0].dtype)
            return torch.tensor(*args[1:], **kwargs).to(DEVICE)
        if func is Tensor.__getitem__ and isinstance(args[0], PretendTensor):
            args = (args[0], _with_tensors(args[1]))
        return func(*args, **kwargs)


def _with_tensors(index: Any) -> Any:
    """An index with its lists as tensors: torch would make them on the device, which holds no numbers."""
    if isinstance(index, tuple):
        return tuple(map(_with_tensors, index))
    return torch.tensor(index, dtype=torch.int64) if isinstance(index, list) else index


def _check(func: Any, name: str, args: Any, kwargs: dict[str, Any]) -> None:
    """Refuses what CUDA refuses."""
    tensors = [part for part in tree_leaves((args, kwargs)) if isinstance(part, Tensor)]
    if name in _INDEXING:  # where the indices are on the CPU, they may be for tensors anywhere
        tensors = [args[0], *(part for part in args[1] if isinstance(part, PretendTensor)), *args[2:3]]
    ours = [part for part in tensors if isinstance(part, PretendTensor)]
    others = [part for part in tensors if not isinstance(part, PretendTensor) and part.dim() > 0]
    if ours and others and name != "copy_":
        shapes = [tuple(part.shape) for part in others]
        raise RuntimeError(f"{func} has tensors on {DEVICE} and, of shapes {shapes}, on the CPU")
    if kwargs.get("device") == DEVICE and kwargs.get("generator") is not None:
        raise RuntimeError(f"{func} draws on {DEVICE} by a generator of the CPU")


def _computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    name = func.overloadpacket.__name__
    _check(func, name, args, kwargs)
    target = kwargs.get("device")
    if target == DEVICE:
        kwargs["device"] = torch.device("cpu")
    plain_args, plain_kwargs = tree_map_only(PretendTensor, lambda part: part.held, (args, kwargs))
    results = func(*plain_args, **plain_kwargs)
    if name == "_local_scalar_dense":
        _read.append(1)
        return results
    if name == "copy_" and not isinstance(args[0], PretendTensor):
        _read.append(args[0].numel())
        return args[0]
    if target is not None and target.type == "cpu":
        _read.append(results.numel())
        return results
    wrapped = tree_map_only(Tensor, PretendTensor, results)
    return return_and_correct_aliasing(func, args, kwargs, wrapped)


@contextmanager
def pretend_device() -> Iterator[list[int]]:
    """Within, torch has the device; yields the sizes of all that is copied or read from it by the CPU."""
    _read.clear()
    before = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        with _Factories(), _Constants(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "for .*: copying from a non-meta parameter")  # which is copied
            yield _read
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(before)
