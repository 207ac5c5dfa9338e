"""The default classifier on very many series: time and peak memory of the fit, and of predictions that stream.

    python benchmarks/million.py [--series N] [--jobs N] [--held-out N] [--streamed N] [--time-limit S] [--json FILE]

The series (length 46, 24 classes) are drawn from Crop's training series, with noise of a tenth of their spread. The
fit and the stream run in processes of their own; the peak is that of the process, with torch, its imports and the
series. The log of the fit, which says what was left out, is on stderr.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _scale_cell import clocked, like_crop


def fitted(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Fits `series.npy`, saves the model and judges it by `held_out.npy`."""
    from siggpde import SigGPClassifier  # noqa: PLC0415 - it takes seconds to import

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    series, labels = np.load(folder / "series.npy"), np.load(folder / "labels.npy")
    classifier = SigGPClassifier(n_jobs=options["jobs"], time_limit=options["time_limit"])
    wall, cpu = clocked(lambda: classifier.fit(series, labels))
    facts: dict[str, Any] = {"wall": wall, "cpu": cpu, "peak_gib": _peak_gib()}
    members = zip(classifier.committee_.members, classifier.committee_.weights.tolist(), strict=True)
    facts["members"] = {member.recipe.name: round(weight, 3) for member, weight in members}
    facts["landmarks"] = len(classifier.committee_.landmarks)
    classifier.save(folder / "model")
    facts["model_mb"] = sum(file.stat().st_size for file in (folder / "model").rglob("*")) / 1e6
    others, truth = np.load(folder / "held_out.npy"), np.load(folder / "held_out_labels.npy")
    chances = classifier.predict_proba(others)
    facts["accuracy"] = float((classifier.classes_[chances.argmax(1)] == truth).mean())
    of_label = chances[np.arange(len(truth)), np.searchsorted(classifier.classes_, truth)]
    return facts | {"nlpp": float(-np.log(of_label).mean())}


def streamed(folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    """Predicts `streamed.npy`, file to file, with the saved model."""
    from siggpde import load, predict_stream  # noqa: PLC0415

    model = load(folder / "model").set_params(n_jobs=options["jobs"])
    before = _peak_gib()
    wall, cpu = clocked(lambda: predict_stream(model, folder / "streamed.npy", folder / "out.parquet", progress=False))
    return {"wall": wall, "cpu": cpu, "peak_gib": _peak_gib(), "before_gib": before}


def _peak_gib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def _apart(work: str, folder: Path, options: dict[str, Any]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--cell", json.dumps({"work": work, "folder": str(folder), **options})]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--series", type=int, default=10**6, metavar="N")
    parser.add_argument("--jobs", type=int, default=-1, metavar="N", help="threads; -1 takes all cores")
    parser.add_argument("--held-out", type=int, default=10_000, metavar="N", help="other series, by which it is judged")
    parser.add_argument("--streamed", type=int, default=200_000, metavar="N", help="series predicted file to file")
    parser.add_argument("--time-limit", type=float, metavar="S")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write what was measured as JSON")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cell:
        cell = json.loads(given.cell)
        work = {"fitted": fitted, "streamed": streamed}[cell["work"]]
        print(json.dumps(work(Path(cell["folder"]), cell)))
        return
    options = {"jobs": given.jobs, "time_limit": given.time_limit}
    facts: dict[str, Any] = {"series": given.series, "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed, (part, count) in enumerate([("series", given.series), ("held_out", given.held_out)]):
            labels, facts["data"] = like_crop(folder / f"{part}.npy", count, seed)
            np.save(folder / ("labels.npy" if part == "series" else "held_out_labels.npy"), labels)
        started = time.perf_counter()
        facts["fit"] = _apart("fitted", folder, options)
        print(f"fit of {given.series} series: {facts['fit']}", flush=True)
        if given.streamed:
            like_crop(folder / "streamed.npy", given.streamed, 2)
            facts["stream"] = {"series": given.streamed} | _apart("streamed", folder, options)
            print(f"predictions: {facts['stream']}", flush=True)
        print(f"{facts['data']}, load {facts['load']:.1f} on {facts['cores']} cores, "
              f"{time.perf_counter() - started:.0f} s in all")  # fmt: skip
    if given.json:
        given.json.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
