"""How far a call walks through the library: functions and files entered, and steps that go up a layer.

    python benchmarks/walk.py            counts, and whether they are within the limits
    python benchmarks/walk.py --files    what is entered, file by file, those with the fewest functions first

A first fit and prediction are not counted, so that imports are not. The layers are those of the import-linter contract
in pyproject.toml. A step goes up a layer where the caller's package is below that of the function it enters; frames of
other libraries in between are skipped. Functions are told apart by their qualified names, so that lambdas and
comprehensions count, once a function that they are written in.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import siggpde

HOME = Path(siggpde.__file__).parent
LIMITS = {"fit": (280, 50), "predict_proba": (120, 32)}


def layer_order() -> dict[str, int]:
    """The number of the layer of every package and module, 0 being the lowest."""
    settings = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    rows = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    return {name.strip(): len(rows) - number for number, row in enumerate(rows) for name in row.split("|")}


def walk(call: Callable[[], Any]) -> tuple[dict[str, set[str]], set[str]]:
    """The functions that a call enters, by file, and its steps up a layer."""
    order, entered, up = layer_order(), defaultdict(set), set()

    def place(code: CodeType) -> tuple[str, str] | None:
        path = Path(code.co_filename)
        if not path.is_relative_to(HOME):
            return None
        return str(path.relative_to(HOME)), code.co_qualname

    def look(frame: FrameType, event: str, _: Any) -> None:
        here = place(frame.f_code) if event == "call" else None
        if here is None:
            return
        entered[here[0]].add(here[1])
        caller = frame.f_back
        while caller is not None and (before := place(caller.f_code)) is None:
            caller = caller.f_back
        if caller is not None and order[package(before[0])] < order[package(here[0])]:
            up.add(f"{before[0]} {before[1]} -> {here[0]} {here[1]}")

    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return entered, up


def package(file: str) -> str:
    return Path(file).parts[0].removesuffix(".py")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--files", action="store_true", help="what is entered, file by file")
    shown = options.parse_args()
    series = np.random.default_rng(0).normal(size=(40, 2, 50)).cumsum(axis=2)
    labels = np.repeat([0, 1], 20)
    series[20:] *= 2
    model = siggpde.SigGPClassifier(random_state=0).fit(series, labels)
    model.predict_proba(series)
    again = siggpde.SigGPClassifier(random_state=0)
    within = True
    for name, call in (
        ("fit", lambda: again.fit(series, labels)),
        ("predict_proba", lambda: again.predict_proba(series)),
    ):
        entered, up = walk(call)
        counts = sum(map(len, entered.values())), len(entered)
        print(f"{name}: {counts[0]} functions in {counts[1]} files, {len(up)} steps up a layer", end="")
        print(f" (at most {LIMITS[name][0]} in {LIMITS[name][1]}, none up)")
        within &= counts[0] <= LIMITS[name][0] and counts[1] <= LIMITS[name][1] and not up
        for step in sorted(up):
            print("  up:", step)
        if shown.files:
            for file, functions in sorted(entered.items(), key=lambda item: (len(item[1]), item[0])):
                print(f"  {len(functions):3d} {file}: {', '.join(sorted(functions))}")
    sys.exit(0 if within else 1)


if __name__ == "__main__":
    main()
