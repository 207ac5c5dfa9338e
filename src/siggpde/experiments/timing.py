"""CPU seconds of an iteration of every method on one data set, measured apart from the fits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from siggpde.experiments.iteration_time import iteration_seconds
from siggpde.experiments.markdown import duration, markdown_table
from siggpde.experiments.methods import build
from siggpde.experiments.preparation import prepare
from siggpde.experiments.results import Results
from siggpde.gp.model import SignatureGP
from siggpde.paths import SeriesBatch
from siggpde.training.path_cache import PathStore
from siggpde.training.signature_cache import SignatureCache


def timing_tasks(config: dict[str, Any]) -> dict[str, Callable[[], dict[str, Any]]]:
    """A task for each method of config["timed"] and each M of config["sizes"], or for the one M there is."""
    return {
        f"time/{name}/{count}": partial(time_iterations, config | {"inducing": count}, method)
        for name, method in config.get("timed", {}).items()
        for count in sizes_of(config)
    }


def sizes_of(config: dict[str, Any]) -> list[int]:
    """The numbers of inducing variables of an experiment."""
    return config["sizes"] if "sizes" in config else [config["inducing"]]


def time_iterations(config: dict[str, Any], method: dict[str, Any]) -> dict[str, Any]:
    """CPU seconds of an iteration with the kernel fixed and with the kernel learned ("moving"), on one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        data = prepare(config)
        model = build(config, method, data, 0)
        if isinstance(model, SignatureGP):
            cache = SignatureCache(SeriesBatch(data.x_train), model.features.words, model.kernel.log_theta)
        else:
            cache = PathStore(model, SeriesBatch(data.x_train))
        batch, count = config["schedule"]["batch"], config["timing_iterations"]
        fixed, learned = (iteration_seconds(model, cache, data.y_train, batch, count, learn) for learn in (False, True))
    finally:
        torch.set_num_threads(threads)
    return {"fixed": fixed, "moving": learned}


def times_section(config: dict[str, Any], results: Results) -> str:
    """The table, a row for each M; beside the times of the others how many times that of the first method they are."""
    methods = config.get("timed", {})
    if not methods:
        return ""
    first, *others = methods
    rows = []
    for count in sizes_of(config):
        records = {name: results.get(f"time/{name}/{count}") for name in methods}
        cells = [f"{duration(r['fixed'])} / {duration(r['moving'])}" if r else "–" for r in records.values()]
        cells += [_ratio(records[name], records[first]) for name in others]
        rows.append([str(count), *cells])
    own = methods[first]["name"]
    headings = ["M", *(m["name"] for m in methods.values()), *(f"{methods[name]['name']} / {own}" for name in others)]
    return (
        "CPU time of an iteration on one thread, kernel fixed / kernel learned, the mean of "
        f"{config['timing_iterations']} iterations after a first one:\n\n{markdown_table(headings, rows)}"
    )


def _ratio(record: dict[str, float] | None, own: dict[str, float] | None) -> str:
    if record is None or own is None:
        return "–"
    return f"{record['fixed'] / own['fixed']:.1f}x / {record['moving'] / own['moving']:.1f}x"
