"""CPU seconds of an iteration of every method on one data set, measured apart from the fits."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from siggpde.gp.model import SignatureGP
from siggpde.series import SeriesBatch
from siggpde.training.path_cache import PathStore
from siggpde.training.signature_cache import SignatureCache
from siggpde_paper.experiments.measurements import iteration_seconds
from siggpde_paper.experiments.methods import build, prepare
from siggpde_paper.experiments.report import duration, markdown_table
from siggpde_paper.experiments.results import Results
from siggpde_paper.experiments.time_table import load_average, spoken_load


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
    return {"fixed": fixed, "moving": learned} | load_average()


def times_section(config: dict[str, Any], results: Results) -> str:
    """The table: a row for each M, or for the one M a row for each method; ratios are those to the first method.

    Empty where nothing was timed.
    """
    methods = config.get("timed", {})
    if not results.records("time/"):
        return ""
    names = [method["name"] for method in methods.values()]
    sizes = sizes_of(config)
    columns = []
    for count in sizes:
        records = [results.get(f"time/{name}/{count}") for name in methods]
        columns.append(([_times(record) for record in records], [_ratio(record, records[0]) for record in records[1:]]))
    if len(sizes) == 1:
        (times, ratios), headings = columns[0], ["method", "time of an iteration", f"times {names[0]}'s"]
        rows = [list(row) for row in zip(names, times, ["1", *ratios], strict=True)]
    else:
        headings = ["M", *names, *(f"{name} / {names[0]}" for name in names[1:])]
        rows = [[str(count), *times, *ratios] for count, (times, ratios) in zip(sizes, columns, strict=True)]
    return (
        f"CPU time of an iteration on one thread, kernel fixed / kernel learned, M = {', '.join(map(str, sizes))}, the "
        f"mean of {config['timing_iterations']} iterations after a first one. "
        f"{spoken_load(list(results.records('time/').values()))}\n\n{markdown_table(headings, rows)}"
    )


def _times(record: dict[str, float] | None) -> str:
    return f"{duration(record['fixed'])} / {duration(record['moving'])}" if record else "–"


def _ratio(record: dict[str, float] | None, own: dict[str, float] | None) -> str:
    if record is None or own is None:
        return "–"
    return f"{record['fixed'] / own['fixed']:.1f}x / {record['moving'] / own['moving']:.1f}x"
