"""A model folder: a README.md, one safetensors file named after its hash, and `model.json`, replaced atomically before
old data files are removed, so that one whole model can be loaded whenever the writer is stopped."""

import hashlib
import os
import re
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor

from siggpde.persistence.manifest import (
    DATA_NAME,
    MAX_BYTES,
    DataFile,
    ModelFileError,
    damaged,
    data_name,
    manifest_bytes,
    parse_manifest,
)
from siggpde.utils.files import (
    MANIFEST,
    PART_SUFFIX,
    atomic_write,
    is_model_folder,
    locked,
    make_folder,
    read_regular,
    sync_file,
    sync_folder,
)

CARD = "README.md"

_DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool, torch.uint8)
_PART = re.compile(rf"({DATA_NAME.pattern}|{re.escape(MANIFEST)}|{re.escape(CARD)}){PART_SUFFIX}")
_ATTEMPTS = 5
_LARGE = 2**26  # bytes


def write_folder(
    path: str | os.PathLike[str],
    tensors: Mapping[str, Tensor],
    metadata: Mapping[str, Any],
    card: str,
    *,
    force: bool = False,
) -> None:
    """Saves tensors, metadata and the card as the folder `path`; in place of a model only with `force`."""
    data = _pack(tensors)
    digest = hashlib.sha256(data).hexdigest()
    name = data_name(digest)
    manifest = manifest_bytes(metadata, [DataFile(name, len(data), digest)])
    folder = Path(path)
    if os.path.lexists(folder) and not folder.is_dir():
        raise FileExistsError(f"{folder} is a file, not a model folder; choose another path")
    make_folder(folder)
    with locked(folder):
        check_writable(folder, force)
        _remove_leftovers(folder)
        try:
            with atomic_write(folder / MANIFEST, lambda: len(manifest)) as manifest_file:
                manifest_file.write(manifest)
                # On disk before the data file has its name: a folder without a manifest but with a part file of one is
                # known to be a first save that was interrupted (see check_writable).
                sync_file(manifest_file)
                with atomic_write(folder / name, lambda: len(data)) as data_file:
                    data_file.write(data)
            with atomic_write(folder / CARD) as card_file:
                card_file.write(card.encode(errors="replace"))
            _remove_leftovers(folder)
            sync_folder(folder)
        except BaseException:
            with suppress(OSError):  # what cannot be removed now, the next save removes
                _remove_leftovers(folder)
            raise


def read_folder(path: str | os.PathLike[str]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Returns the tensors and the metadata of a model folder, after checking every byte; or raises `ModelFileError`."""
    folder = Path(path)
    if not folder.exists():
        raise FileNotFoundError(f"there is no model folder {folder}")
    if not folder.is_dir():
        raise ModelFileError(f"{folder} is a file, not a model folder; give the folder that holds {MANIFEST}")
    raw = _read_manifest(folder)
    for _ in range(_ATTEMPTS):
        manifest = parse_manifest(raw, folder / MANIFEST)
        file = manifest.files[0]
        try:
            _check_data(folder / file.name, file)
            data = _read(folder / file.name, file.bytes)
        except FileNotFoundError:
            before, raw = raw, _read_manifest(folder)
            if raw == before and not (folder / file.name).exists():
                break
            continue  # another process saved a new model meanwhile
        return _unpack(data, file, folder / file.name), manifest.metadata
    raise damaged(folder / parse_manifest(raw, folder / MANIFEST).files[0].name, "is missing")


def _pack(tensors: Mapping[str, Tensor]) -> bytes:
    """The tensors as the bytes of a safetensors file; the same tensors always give the same bytes."""
    ready: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if not isinstance(name, str) or name in ("", "__metadata__") or not name.isprintable():
            raise ValueError(f"a tensor cannot be named {name!r}; give it a short plain name")
        if not isinstance(tensor, Tensor) or tensor.layout != torch.strided or tensor.dtype not in _DTYPES:
            kind = f"{tensor.dtype}, {tensor.layout}" if isinstance(tensor, Tensor) else type(tensor).__name__
            wanted = ", ".join(str(dtype).removeprefix("torch.") for dtype in _DTYPES)
            raise ValueError(f"tensor {name!r} is {kind}; dense tensors of {wanted} can be saved")
        plain = tensor.detach().cpu().resolve_neg()
        alone = plain.is_contiguous() and plain.untyped_storage().nbytes() == plain.numel() * plain.element_size()
        shared = any(
            plain.untyped_storage().data_ptr() == other.untyped_storage().data_ptr() for other in ready.values()
        )
        ready[name] = plain if alone and not shared else plain.clone(memory_format=torch.contiguous_format)
    return safetensors.torch.save(ready, metadata={"format": "pt"})


def _check_data(path: Path, file: DataFile) -> None:
    """Raises `ModelFileError` for a data file of another size, or a large one of another hash, before it is read."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        return  # which reading refuses
    if status.st_size != file.bytes:
        more = "more" if status.st_size > file.bytes else ""
        raise damaged(path, f"must have {file.bytes} bytes, but has {more or status.st_size}")
    if status.st_size > _LARGE:
        with path.open("rb") as content:
            if hashlib.file_digest(content, "sha256").hexdigest() != file.sha256:
                raise damaged(path, "is not as it was written: its SHA-256 differs from that in the manifest")


def _unpack(data: bytes, file: DataFile, path: Path) -> dict[str, Tensor]:
    if len(data) != file.bytes:
        raise damaged(path, f"must have {file.bytes} bytes, but has {len(data)}")
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise damaged(path, "is not as it was written: its SHA-256 differs from that in the manifest")
    try:
        tensors = safetensors.torch.load(data)
    except Exception as error:  # the library has many: its own, KeyError for dtypes, RuntimeError of torch
        raise damaged(path, f"is not a safetensors file ({error})") from error
    del data
    for name in tensors:
        if tensors[name].dtype not in _DTYPES:
            raise damaged(path, f"holds {name!r} as {tensors[name].dtype}, which siggpde never writes")
        tensors[name] = tensors[name].clone()  # memory of its own, aligned as torch does it
    return tensors


def _read_manifest(folder: Path) -> bytes:
    try:
        raw = _read(folder / MANIFEST, MAX_BYTES)
    except FileNotFoundError:
        raise ModelFileError(
            f"{folder} is not a saved model: it has no {MANIFEST}; give the folder that a model was saved to"
        ) from None
    if len(raw) > MAX_BYTES:
        raise damaged(folder / MANIFEST, f"has more than the {MAX_BYTES} bytes that a manifest can have")
    return raw


def _read(path: Path, limit: int) -> bytes:
    """At most `limit` + 1 bytes of a file, and no more memory than the file has bytes."""
    try:
        return read_regular(path, limit)
    except FileNotFoundError:
        raise
    except MemoryError as error:
        raise MemoryError(f"{path} takes {limit / 1e9:.1f} GB, and there is not so much memory") from error
    except OSError as error:
        raise damaged(
            path, f"cannot be read ({error.strerror or error})", "see that it is a file you may read"
        ) from error


def check_writable(folder: Path, force: bool) -> None:
    """Raises FileExistsError if the folder holds anything but a model or the files of an interrupted save."""
    names = os.listdir(folder)
    fix = "choose another path: siggpde never writes into a folder that holds something else"
    if MANIFEST in names:
        if not is_model_folder(folder):
            raise FileExistsError(f"{folder / MANIFEST} is not the manifest of a siggpde model; {fix}")
        if not force:
            raise FileExistsError(f"{folder} holds a saved model already; give force=True to replace it")
        return
    part_files = [name for name in names if _PART.fullmatch(name)]
    others = [name for name in names if name not in part_files and not (part_files and DATA_NAME.fullmatch(name))]
    if others:
        raise FileExistsError(f"{folder} is not a model folder: it has no {MANIFEST} but {min(others)}; {fix}")


def _remove_leftovers(folder: Path) -> None:
    """Removes data files that the manifest does not name, and part files; under the lock, no writer uses them."""
    try:
        kept = {name.group() for name in re.finditer(DATA_NAME.pattern.encode(), (folder / MANIFEST).read_bytes())}
    except FileNotFoundError:
        kept = set()
    names = sorted(os.listdir(folder))
    for name in names:
        if DATA_NAME.fullmatch(name) and name.encode() not in kept:
            os.unlink(folder / name)
    for name in names:  # last: without them a data file would not be known to be of an interrupted save
        if _PART.fullmatch(name):
            os.unlink(folder / name)
