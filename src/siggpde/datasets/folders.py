"""Where data sets are looked for."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE_DATA = Path(__file__).parents[1] / "data"


def data_folders() -> list[Path]:
    """The folders searched for data sets, first to last."""
    folders = []
    if chosen := os.environ.get("SIGGPDE_DATA"):
        folders.append(Path(chosen).expanduser())
    return [*folders, cache_folder(), PACKAGE_DATA]


def cache_folder() -> Path:
    """The user's cache, where downloads go; it may not exist yet."""
    # By the rule of XDG on every system, as documented. platformdirs would be a dependency for these two lines, and
    # would move the cache of macOS users to ~/Library/Caches.
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "siggpde"


def find_dataset(name: str) -> Path:
    """Return the file of a data set: the first ``<name>.npz`` in the folders of `data_folders`.

    In each folder the name as it is comes first, then the same name in other capitals. Raises FileNotFoundError,
    naming every file looked for, when there is none.
    """
    check_name(name)
    for folder in data_folders():
        exact = folder / f"{name}.npz"
        if exact.is_file():
            return exact
        near = _other_capitals(folder, exact.name)
        if len(near) > 1:
            files = ", ".join(path.name for path in near)
            raise ValueError(f"{name!r} may be any of {files} in {folder}; give the name in its capitals")
        if near:
            return near[0]
    raise FileNotFoundError(f"data set {name!r} not found; {searched_files(name)}")


def check_name(name: str) -> None:
    """Raises ValueError for an empty name or a path."""
    if not name or Path(name).name != name:
        raise ValueError(f"a data set is asked for by its name, such as 'PenDigits'; got {name!r}")


def searched_files(name: str) -> str:
    """The files that were looked for, one a line, and how to add a folder, for an error message."""
    files = "".join(f"\n  {folder / name}.npz" for folder in data_folders())
    hint = "" if os.environ.get("SIGGPDE_DATA") else "\nSIGGPDE_DATA is not set; point it at your folder of .npz files."
    return f"looked for{files}{hint}"


def _other_capitals(folder: Path, file: str) -> list[Path]:
    try:
        paths = sorted(path for path in folder.iterdir() if path.name.lower() == file.lower())
    except OSError:  # no such folder, or not ours to read
        return []
    return [path for path in paths if path.is_file()]
