"""The manifest of a model folder, `model.json`: what was saved, by which versions, and the hashes of its files and of
its own values, so that spaces and line ends may change, but no label or number."""

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from siggpde.numerics.backend import installation

FORMAT = "siggpde"
FORMAT_VERSION = 2
DATA_NAME = re.compile(r"weights-[0-9a-f]{16}\.safetensors")

MAX_BYTES = 2**26
"""Of a manifest: those of models have some kilobytes, of thousands of labels some megabytes."""

_MAX_DEPTH = 50
_AGAIN = "copy the whole folder again from where it came, or save the model again"


class ModelFileError(ValueError):
    """A saved model cannot be read: the message names the file, what is wrong with it and the fix."""


class DataFile(NamedTuple):
    """Name, size and hash of a data file, as the manifest lists it."""

    name: str
    bytes: int
    sha256: str


class Manifest(NamedTuple):
    metadata: dict[str, Any]
    files: list[DataFile]
    versions: dict[str, str]
    created: str


def damaged(path: Path, what: str, fix: str = _AGAIN) -> ModelFileError:
    """The error for a file that is not as it was written."""
    return ModelFileError(f"{path} {what}; {fix}")


def data_name(digest: str) -> str:
    """The name of a data file with this SHA-256: another content has another name."""
    return f"weights-{digest[:16]}.safetensors"


def manifest_bytes(metadata: Mapping[str, Any], files: Sequence[DataFile]) -> bytes:
    """The manifest as JSON. Facts that JSON cannot hold exactly raise a ValueError that says where they are."""
    if not isinstance(metadata, Mapping):
        raise ValueError(f"metadata must be a mapping, got {type(metadata).__name__}")
    content = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "versions": installation()["versions"],
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "files": [file._asdict() for file in files],
        "facts": _plain(metadata, "metadata", 0),  # the key of all formats
    }
    content["sha256"] = _own_hash(content)
    raw = (json.dumps(content, indent=2, allow_nan=False) + "\n").encode()
    if len(raw) > MAX_BYTES:
        raise ValueError(f"the metadata are {len(raw)} bytes of JSON, the most is {MAX_BYTES}; save them as tensors")
    return raw


def parse_manifest(raw: bytes, path: Path) -> Manifest:
    """The manifest in these bytes of the file `path`, after checking everything about it."""
    try:
        content = json.loads(raw.decode(), parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except RecursionError:
        raise damaged(path, "is not a manifest: it is nested too deeply") from None
    except ValueError as error:  # of JSON, of its text encoding and of numbers with too many digits
        raise damaged(path, f"is not readable JSON ({error})") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise damaged(path, "is not the manifest of a siggpde model", "give the folder of a saved model")
    if _too_deep(content):
        raise damaged(path, "is not a manifest: it is nested too deeply")
    version = content.get("format_version")
    if type(version) is not int or version < 1:
        raise damaged(path, f"has no valid format_version, but {version!r}")
    if version < FORMAT_VERSION:
        raise ModelFileError(
            f"{path} was written by a siggpde from before its first release (format {version}; this version reads "
            f"format {FORMAT_VERSION}): fit the model again"
        )
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} was written by a newer siggpde (format {version}; this version reads format {FORMAT_VERSION}): "
            "upgrade with `pip install --upgrade siggpde`"
        )
    try:
        digest = _own_hash(content)
    except (ValueError, RecursionError):  # 1e999 is read as infinity
        raise damaged(path, "holds numbers that are not finite") from None
    if content.get("sha256") != digest:
        raise damaged(path, "is not as it was written: the hash of its content differs, so it was edited or damaged")
    return _structure(content, path)


def _structure(content: dict[str, Any], path: Path) -> Manifest:
    unknown = content.keys() - {"format", "format_version", "versions", "created", "files", "facts", "sha256"}
    if unknown:
        raise damaged(path, f"has the field {min(unknown)!r}, which siggpde never writes")
    metadata, files = content.get("facts"), content.get("files")
    versions, created = content.get("versions"), content.get("created")
    if not isinstance(metadata, dict) or not isinstance(versions, dict) or not isinstance(created, str):
        raise damaged(path, "lacks its facts, versions or creation time")
    if not isinstance(files, list) or len(files) != 1:
        raise damaged(path, "must list exactly one data file")
    for entry in files:
        if not isinstance(entry, dict) or set(entry) != set(DataFile._fields):
            raise damaged(path, f"describes a data file by {entry!r}, not by name, bytes and sha256")
        name, size, digest = entry["name"], entry["bytes"], entry["sha256"]
        if not isinstance(name, str) or not DATA_NAME.fullmatch(name):  # also keeps paths inside the folder
            raise damaged(path, f"names the data file {name!r}, which siggpde never writes")
        if type(size) is not int or not 0 <= size < 2**53 or not isinstance(digest, str) or data_name(digest) != name:
            raise damaged(path, f"gives a size or hash of {name} that cannot be right")
    return Manifest(metadata, [DataFile(**entry) for entry in files], versions, created)


def _own_hash(content: Mapping[str, Any]) -> str:
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _plain(value: Any, where: str, depth: int) -> Any:
    """The value with only types that JSON restores exactly; ValueError, naming where, for anything else."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"{where} is nested deeper than {_MAX_DEPTH} levels; is it inside itself?")
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int | np.integer):
        if abs(int(value)) >= 2**1024:  # beyond every float; much larger ones JSON would not read back
            raise ValueError(f"{where} is an integer of {int(value).bit_length()} bits; the most is 1024")
        return int(value)
    if isinstance(value, float) or (isinstance(value, np.floating) and value.itemsize <= 4):
        if not math.isfinite(value):
            raise ValueError(f"{where} is {float(value)}, which JSON cannot hold; leave it out or use None")
        return float(value)
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"{where} has the key {key!r}; keys must be strings, write {str(key)!r}")
        return {str(key): _plain(item, f"{where}[{key!r}]", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{index}]", depth + 1) for index, item in enumerate(value)]
    raise ValueError(
        f"{where} is a {type(value).__name__}; metadata is None, bool, int, float, str, lists and dictionaries of them "
        "(arrays: save them among the tensors, or give .tolist())"
    )


def _too_deep(value: Any, depth: int = 0) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > _MAX_DEPTH + 1 or any(_too_deep(part, depth + 1) for part in inner)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a key comes twice")
    return unique
