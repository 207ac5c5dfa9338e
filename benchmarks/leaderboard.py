"""Accuracy, calibration and CPU seconds of the defaults beside other methods, on every data set that is there.

    python benchmarks/leaderboard.py results.jsonl                        # hours; one process at a time
    python benchmarks/leaderboard.py results.jsonl --resume               # after an interruption
    python benchmarks/leaderboard.py small.jsonl --datasets BasicMotions,GunPoint --resamples 1
    python benchmarks/leaderboard.py --write docs/accuracy.md results.jsonl   # only the tables, into the page

Every method on every split runs in a process of its own, on one thread, and its record is appended to the file. Splits
are the archive's, and stratified resamples of train and test together with at most --max-train series to learn from.
Methods, calibration and figures are those of `siggpde_paper.compare`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from _leaderboard_tables import latest, render, write_between_markers

# Settings of our estimators by the name of the method: what differs from the defaults.
OURS: dict[str, dict[str, Any]] = {"siggpde": {}}
_KINDS = ("linear", "path", "kernel", "lifted", "windows", "spectrum")
# Further methods of --ablation, in the same form: our estimators with one kind of views left out each.
ABLATIONS: dict[str, dict[str, Any]] = {
    f"without {left_out}": {"views": [kind for kind in _KINDS if kind != left_out]} for left_out in _KINDS
}
PEERS = ("minirocket", "mr-hydra", "quant", "multirocket")
CLASSES = (
    "BasicMotions",
    "GunPoint",
    "Epilepsy",
    "UWaveGestureLibrary",
    "FingerMovements",
    "SelfRegulationSCP1",
    "AsphaltObstacles",
    "PLAID",
    "CharacterTrajectoriesHalf",
    "PenDigits",
    "SpokenArabicDigits",
    "Crop",
)
NUMBERS = ("Covid3Month", "Tecator")
NUMBER_PEERS = ("minirocket", "mr-hydra")
_THREADS = ("OMP", "OPENBLAS", "MKL", "NUMBA")
_KEYS = ("method", "settings", "data", "task", "split", "seed", "max_train", "max_test")
_FIGURES = ("accuracy", "nlpp", "rmse", "nlpd", "cpu_fit", "cpu_predict")


def main() -> None:
    options = _options()
    order = [*OURS, *PEERS, "constant", *ABLATIONS]
    if not options.write:
        _run(options)
    text = render(_read(options.results), order)
    if options.write:
        write_between_markers(options.write, text)
    else:
        print(f"\n{text}")


def _run(options: argparse.Namespace) -> None:
    done = {_key(record) for record in latest(_read(options.results)) if "failed" not in record}
    cells = [cell for cell in _cells(options) if _key(cell) not in done]
    commit = _commit()
    for number, cell in enumerate(cells, start=1):
        record = cell | {"commit": commit, "load": round(os.getloadavg()[0], 2)} | _measured(cell, options.timeout)
        with options.results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, allow_nan=False) + "\n")
        print(f"{number} of {len(cells)}: {_line(record)}", flush=True)


def _cells(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Methods, splits and seeds, data set by data set."""
    settings = OURS | (ABLATIONS if options.ablation else {})
    cells = []
    for data in options.datasets:
        regression = data in NUMBERS
        methods = [*settings, *(NUMBER_PEERS if regression else PEERS)]
        if options.methods:
            methods = [name for name in options.methods if name in methods or name == "constant"]
        resamples = options.regression_resamples if regression else options.resamples
        splits: list[dict[str, Any]] = []
        if not options.no_archive and not regression:
            splits.append({"split": "archive", "seed": 0, "max_train": None, "max_test": None})
        limits = {"max_train": options.max_train, "max_test": options.max_test}
        splits += [{"split": "resample", "seed": seed, **limits} for seed in range(resamples)]
        task = "regression" if regression else "classification"
        cells += [
            {"method": name, "settings": settings.get(name), "data": data, "task": task} | split
            for split in splits
            for name in methods
        ]
    return cells


def _measured(cell: dict[str, Any], timeout: float) -> dict[str, Any]:
    """What the process of a cell measured, or why it could not."""
    command = [sys.executable, *["-S"] * sys.flags.no_site, str(Path(__file__).with_name("_leaderboard_cell.py"))]
    environment = os.environ | {f"{name}_NUM_THREADS": "1" for name in _THREADS}
    arguments = [*command, json.dumps(cell)]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=timeout, check=False, env=environment)
    except subprocess.TimeoutExpired:
        return {"failed": f"longer than {timeout:g} s"}
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1][:200]}
    return json.loads(done.stdout)


def _read(path: Path) -> list[dict[str, Any]]:
    """The records of a file; a last line that an interruption cut off is left out."""
    if not path.exists():
        return []
    records = []
    for line in path.read_text(encoding="utf-8").splitlines():
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError:
            print(f"{path}: a line that is no JSON is left out: {line[:60]}", file=sys.stderr)
    return records


def _key(record: dict[str, Any]) -> str:
    return json.dumps([record[key] for key in _KEYS], sort_keys=True)


def _line(record: dict[str, Any]) -> str:
    where = f"{record['method']} on {record['data']}, {record['split']} {record['seed']}"
    if "failed" in record:
        return f"{where} failed: {record['failed']}"
    return f"{where}: " + ", ".join(f"{name} {float(record[name]):.4g}" for name in _FIGURES if name in record)


def _commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, metavar="RESULTS.jsonl", help="records are appended here")
    parser.add_argument("--resume", action="store_true", help="go on with a file that exists; failed cells run again")
    parser.add_argument("--datasets", default=",".join((*CLASSES, *NUMBERS)), metavar="A,B")
    parser.add_argument("--methods", metavar="A,B", help=f"of {', '.join((*OURS, *PEERS, 'constant'))}")
    parser.add_argument("--resamples", type=int, default=3, metavar="N", help="seeds 0 to N - 1 (3)")
    parser.add_argument("--regression-resamples", type=int, default=20, metavar="N", help="of regression sets (20)")
    parser.add_argument("--no-archive", action="store_true", help="leave out the archive's splits")
    parser.add_argument("--max-train", type=int, default=250, metavar="N", help="of resamples (250)")
    parser.add_argument("--max-test", type=int, default=1000, metavar="N", help="of resamples (1000)")
    parser.add_argument("--ablation", action="store_true", help="run our method without one of its parts each, too")
    parser.add_argument("--timeout", type=float, default=7200, metavar="S", help="seconds that a cell may take (7200)")
    parser.add_argument("--write", type=Path, metavar="PAGE.md", help="only put the tables between the page's markers")
    options = parser.parse_args()
    if options.write and not options.results.exists():
        parser.error(f"there is no {options.results} to make tables of")
    if options.write:
        return options
    if options.results.exists() and not options.resume:
        parser.error(f"{options.results} exists; --resume goes on with it, another name starts anew")
    options.datasets = _present(options.datasets.split(","), parser)
    options.methods = options.methods.split(",") if options.methods else None
    known = {*OURS, *PEERS, "constant", *(ABLATIONS if options.ablation else ())}
    if unknown := set(options.methods or ()) - known:
        parser.error(f"--methods names {', '.join(sorted(unknown))}; the methods are {', '.join(sorted(known))}")
    return options


def _present(names: list[str], parser: argparse.ArgumentParser) -> list[str]:
    """The data sets that are there."""
    from siggpde.datasets import find_dataset  # noqa: PLC0415 - tables are made without it

    reachable = []
    for name in names:
        try:
            find_dataset(name)
            reachable.append(name)
        except FileNotFoundError:
            print(f"{name} is not here: set SIGGPDE_DATA to the folder of {name}.npz", file=sys.stderr)
    if not reachable:
        parser.error("none of the data sets is here; set SIGGPDE_DATA to their folder")
    return reachable


if __name__ == "__main__":
    main()
