"""The satellite experiment of the paper (Crop): accuracy, ELBO and seconds of an iteration against M."""

from __future__ import annotations

from functools import partial
from statistics import mean
from typing import Any

import torch

from siggpde.experiments.comparison import stop_rule
from siggpde.experiments.iteration_time import iteration_seconds
from siggpde.experiments.markdown import duration, markdown_table, save_figure
from siggpde.experiments.methods import build, run_method
from siggpde.experiments.million import time_million
from siggpde.experiments.preparation import prepare
from siggpde.experiments.results import Results
from siggpde.gp.model import SignatureGP
from siggpde.paths import SeriesBatch
from siggpde.training.path_cache import PathStore
from siggpde.training.signature_cache import SignatureCache

_STYLES = {"siggpde": ("#3b6fb6", "o"), "gpsig-it": ("#d9752b", "s"), "gpsig-it-explicit": ("#8a4fa3", "^")}


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """Whole fits at the sizes each method lists, times of a few iterations at all sizes, and the million.

    The paper's experiment on satellite series.
    """
    tasks = {}
    for seed in range(runs):
        for name, method in config["methods"].items():
            for count in method["sizes"]:
                checkpoint = results.folder / "checkpoints" / f"{name}-{count}-{seed}.pt"
                sized = config | {"inducing": count}
                tasks[f"fit/{name}/{count}/{seed}"] = partial(run_method, sized, method, seed, checkpoint)
    results.compute(tasks, jobs)
    for name, method in config["timed"].items():
        for count in config["sizes"]:
            results.once(f"time/{name}/{count}", partial(time_iterations, config | {"inducing": count}, method))
    results.compute({"million": partial(time_million, config, 0)}, apart=True)  # for its peak memory


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


def report(config: dict[str, Any], results: Results) -> str:
    figures = _figure(config, results)
    sections = [
        _fits(config, results),
        stop_rule(config) + " ELBO: of all the training series, over their number.",
        "CPU time of an iteration on one thread, kernel fixed / kernel learned:",
        _times(config, results),
        f"![{config['title']}]({figures[0]})",
        _million(results),
        "\n".join(f"- {note}" for note in config.get("notes", [])),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def _fits(config: dict[str, Any], results: Results) -> str:
    rows = []
    for name, method in config["methods"].items():
        for count in method["sizes"]:
            records = list(results.records(f"fit/{name}/{count}/").values())
            if records:
                means = {key: mean([r[key] for r in records]) for key in ("accuracy", "nlpp", "elbo", "cpu_seconds")}
                steps = mean([sum(r["iterations"].values()) for r in records])
                rows.append([
                    method["name"] + ("*" if method.get("full") else ""), str(count), f"{means['accuracy']:.2f}",
                    f"{means['nlpp']:.3f}", f"{means['elbo']:.3f}", f"{steps:.0f}", duration(means["cpu_seconds"]),
                ])  # fmt: skip
    return markdown_table(["method", "M", "accuracy %", "NLPP", "ELBO a series", "iterations", "CPU time"], rows)


def _times(config: dict[str, Any], results: Results) -> str:
    rows = []
    for count in config["sizes"]:
        records = {name: results.get(f"time/{name}/{count}") for name in config["timed"]}
        cells = [f"{duration(r['fixed'])} / {duration(r['moving'])}" if r else "–" for r in records.values()]
        own = records["siggpde"]
        cells += [_ratio(record, own) for name, record in records.items() if name != "siggpde"]
        rows.append([str(count), *cells])
    others = [m["name"] for name, m in config["timed"].items() if name != "siggpde"]
    headings = ["M", *(m["name"] for m in config["timed"].values()), *(f"{name} / SigGPDE" for name in others)]
    return markdown_table(headings, rows)


def _ratio(record: dict[str, float] | None, own: dict[str, float] | None) -> str:
    if record is None or own is None:
        return "–"
    return f"{record['fixed'] / own['fixed']:.1f}x / {record['moving'] / own['moving']:.1f}x"


def _million(results: Results) -> str:
    record = results.get("million")
    if record is None:
        return ""
    rate = record["series"] / record["signature_seconds"]
    return (
        f"Synthetic: {record['series']:,} series made from the training series, drawn class by class with noise added, "
        f"M = {record['inducing']}, float32. Signatures of all of them: {duration(record['signature_seconds'])} of CPU "
        f"time, {rate:,.0f} series a second, once. An iteration: {duration(record['fixed_seconds_per_iteration'])} "
        f"with the kernel fixed, {duration(record['moving_seconds_per_iteration'])} with the kernel learned. "
        f"Peak memory {record['peak_gib']:.1f} GiB."
    )


def _figure(config: dict[str, Any], results: Results) -> list[str]:
    """The paper's figure: seconds of an iteration, accuracy and ELBO against M."""
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    for name, method in config["timed"].items():
        colour, marker = _STYLES[name]
        points = [(m, r["moving"]) for m in config["sizes"] if (r := results.get(f"time/{name}/{m}")) is not None]
        if points:
            axes[0].plot(*zip(*points, strict=True), color=colour, marker=marker, label=method["name"])
    axes[0].set(yscale="log", ylabel="CPU seconds of an iteration")
    for column, key, label in ((1, "accuracy", "test accuracy %"), (2, "elbo", "ELBO a series")):
        for name, method in config["methods"].items():
            colour, marker = _STYLES[name]
            points = []
            for count in method["sizes"]:
                records = results.records(f"fit/{name}/{count}/").values()
                if records:
                    points.append((count, mean([record[key] for record in records])))
            if points:
                axes[column].plot(*zip(*points, strict=True), color=colour, marker=marker, label=method["name"])
        axes[column].set_ylabel(label)
    for ax in axes:
        ax.set_xlabel("inducing variables M")
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize="small")
    return save_figure(figure, results.folder, "crops")
