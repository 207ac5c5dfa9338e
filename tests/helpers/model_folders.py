"""Model folders to write, read and damage."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from siggpde.persistence import manifest, read_folder

OLD = (
    {"mean": torch.arange(600.0).double(), "words": torch.arange(9)},
    {"which": "old", "labels": ["a", "b"]},
    "# Old",
)
NEW = ({"mean": torch.arange(900.0).double() / 7}, {"which": "new", "noise": 0.1}, "# New")


def same(one: Any, other: Any) -> bool:
    """Equality that tells 1 from 1.0 and True, 0.0 from -0.0, and looks into containers."""
    if isinstance(one, Tensor):
        bits = (one.numpy().tobytes(), other.numpy().tobytes())
        return one.dtype == other.dtype and one.shape == other.shape and bits[0] == bits[1]
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and repr(one) == repr(other)


def holds(folder: Path, model: tuple[dict[str, Tensor], dict[str, Any], str]) -> bool:
    tensors, metadata = read_folder(folder)
    return same(dict(sorted(tensors.items())), dict(sorted(model[0].items()))) and same(metadata, model[1])


def files(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def data_file(folder: Path) -> Path:
    (file,) = folder.glob("weights-*.safetensors")
    return file


def reseal(folder: Path, **changes: Any) -> None:
    """Changes the manifest as someone would who also mends its hash."""
    content = json.loads((folder / "model.json").read_text()) | changes
    content["sha256"] = manifest._own_hash(content)
    (folder / "model.json").write_text(json.dumps(content))
