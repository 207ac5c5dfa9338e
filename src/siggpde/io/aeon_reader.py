"""``.ts`` and ``.arff`` files read by aeon, for comparison; `siggpde.io.ts` says what aeon loses."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from siggpde.io.data import SeriesData, stack


def read_by_aeon(path: Path, kind: str) -> SeriesData:
    """Read a ``.ts`` or ``.arff`` file by aeon: it turns labels of ``.ts`` into lower case and drops time stamps."""
    try:
        from aeon.datasets import load_from_arff_file, load_from_ts_file  # noqa: PLC0415
    except ImportError as error:
        raise ImportError('reader="aeon" needs aeon: pip install aeon, or choose reader="own"') from error
    try:
        loaded = load_from_ts_file(str(path)) if kind == "ts" else load_from_arff_file(str(path))
    except Exception as error:  # aeon raises many kinds for a damaged file
        raise ValueError(f'{path}: aeon cannot read it ({error}); reader="own" says more') from error
    x, y = loaded[0], loaded[1]
    if not len(x):
        raise ValueError(f"{path}: there are no series after @data")
    series = [np.asarray(one, dtype=np.float64) for one in x]
    return SeriesData(X=stack(series), y=np.asarray(y) if len(y) else None, name=path.stem)
