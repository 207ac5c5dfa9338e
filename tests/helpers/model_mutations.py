"""Saved models with one thing changed and their hashes made anew, and what comes of loading them.

`python model_mutations.py MODEL SERIES.npz SEED COUNT` prints a line of JSON for each mutation: what was changed, and
what came of it. A mutation that takes more than ten seconds of the processor ends the process, and one that takes
gigabytes is an error of memory.
"""

import hashlib
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch

import siggpde
from helpers.model_folders import data_file, reseal
from siggpde.persistence import ModelFileError, manifest

SECONDS, BYTES = 10, 2 * 2**30
VALUES: list[Any] = [
    None, True, False, -1, 0, 1, 2, 1000, 10**6, 2**31, 2**63, 10**400, 0.5, -0.5, 1e-308, -1e308, 1e308, 800.0, 1e15,
    "", "x", "x" * 20000, "NaN", "<U100000000", [], {}, [None], {"tensor": "weights"}, {"a": {}}, [[[[]]]],
]  # fmt: skip
NUMBERS = [float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1.0, 1e308, -1e308, 1e-300, 1e20, -1e12, 800.0]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[Any]:
    """The paths of keys to everything in nested values."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, place in items:
        yield (*path, key)
        yield from places(place, (*path, key))


def changed_value(facts: dict[str, Any], choose: random.Random) -> str:
    """Changes one value of the metadata, in place; returns what was done."""
    every = list(places(facts))
    path = choose.choice(choose.choice([every, [place for place in every if len(place) < 4]]))
    parent = facts
    for key in path[:-1]:
        parent = parent[key]
    key, how = path[-1], choose.choice(["value"] * 6 + ["remove", "add", "twice", "scale", "scale"])
    old: Any = parent[key]
    if how == "remove":
        del parent[key]
    elif how == "add" and isinstance(old, dict):
        old["surprise"] = choose.choice(VALUES)
    elif how == "twice" and isinstance(old, list):
        parent[key] = old + old
    elif how == "scale" and type(old) in (int, float):
        parent[key] = old * choose.choice([-1, 2, 3, 1000, 0.1, 1e200])
    else:
        parent[key] = choose.choice(VALUES)
    return f"{'.'.join(map(str, path))}: {how}, {old!r:.60} -> {parent[key] if how != 'remove' else ''!r:.60}"


def changed_tensor(tensors: dict[str, torch.Tensor], choose: random.Random) -> str:
    """Changes one tensor, in place; returns what was done."""
    name = choose.choice(sorted(tensors))
    old = tensors[name]
    how = choose.choice(["one"] * 4 + ["all", "all", "negative", "shorter", "longer", "axis", "dtype", "gone", "empty"])
    number = choose.choice(NUMBERS)
    if old.dtype == torch.float32 and 1e38 < abs(number) < float("inf"):
        number /= 1e270
    new = old.clone()
    if how in ("one", "all") and new.numel() and not (new.dtype == torch.int64 and not abs(number) < 2**62):
        flat = new.reshape(-1)
        flat[slice(None) if how == "all" else choose.randrange(len(flat))] = number
        new = flat.reshape(old.shape)
    elif how == "negative" and new.dtype != torch.bool:
        new = -new
    elif how == "shorter" and new.ndim:
        new = new.narrow(choose.randrange(new.ndim), 0, 0) if 0 in new.shape else new[:-1]
    elif how == "longer" and new.ndim:
        new = torch.cat([new, new[-1:]])
    elif how == "axis":
        new = new[None] if choose.random() < 0.5 else new.flatten()
    elif how == "dtype":
        new = new.to(choose.choice([torch.float32, torch.float64, torch.int64, torch.bool, torch.uint8]))
    elif how == "empty":
        new = new.new_empty(0)
    if how == "gone":
        del tensors[name]
    else:
        tensors[name] = new.contiguous()
    return f"tensor {name} {tuple(old.shape)}: {how} {number if how in ('one', 'all') else ''}"


def mutated(model: Path, target: Path, choose: random.Random) -> str:
    """Writes a copy of a model with one thing changed to the folder `target`."""
    shutil.copytree(model, target)
    content = json.loads((target / "model.json").read_text())
    if choose.random() < 0.6:
        what = changed_value(content["facts"], choose)
        reseal(target, facts=content["facts"])
        return what
    file = data_file(target)
    tensors = safetensors.torch.load(file.read_bytes())
    what = changed_tensor(tensors, choose)
    file.unlink()
    replace_data(target, safetensors.torch.save(tensors))
    return what


def replace_data(folder: Path, raw: bytes) -> None:
    """Makes these bytes the data file of a model folder, with hashes that are right."""
    digest = hashlib.sha256(raw).hexdigest()
    (folder / manifest.data_name(digest)).write_bytes(raw)
    reseal(folder, files=[{"name": manifest.data_name(digest), "bytes": len(raw), "sha256": digest}])


def outcome(folder: Path, series: Any) -> str:
    """ "refused", "predicts", or what went wrong."""
    try:
        model: Any = siggpde.load(folder)
    except ModelFileError as error:
        return "refused" if len(str(error)) < 2000 else f"a message of {len(str(error))} characters"
    except BaseException as error:
        return f"load: {type(error).__name__}: {error}"[:300]
    try:
        if hasattr(model, "classes_"):
            results = model.predict_proba(series)
            right = np.isfinite(results).all() and (results >= 0).all() and np.allclose(results.sum(1), 1)
        else:
            results = np.column_stack([*model.predict(series, return_std=True), model.predict_quantiles(series, [0.1])])
            right = not np.isnan(results).any()  # but infinite where the variance is, or a rate beyond all numbers
    except (ModelFileError, ValueError) as error:
        return "refused" if len(str(error)) < 2000 else f"a message of {len(str(error))} characters"
    except OverflowError as error:  # as a right model says of series that are too far from those of the fit
        return "refused" if "too large for" in str(error) else f"predict: OverflowError: {error}"[:300]
    except BaseException as error:
        return f"predict: {type(error).__name__}: {error}"[:300]
    return "predicts" if right else f"predicts {results[:2].tolist()}"


def main(model: str, data: str, seed: str, count: str) -> None:
    given = np.load(data)
    series = [one[:, :length] for one, length in zip(given["X"], given["lengths"], strict=True)]
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + BYTES, resource.RLIM_INFINITY))
    for number in range(int(seed), int(seed) + int(count)):
        with tempfile.TemporaryDirectory() as where:
            what = mutated(Path(model), Path(where) / "m", random.Random(number))
            print(json.dumps([number, what]), flush=True)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            came = outcome(Path(where) / "m", series)
            signal.setitimer(signal.ITIMER_PROF, 0)
            print(json.dumps([number, what, came]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
