"""The paper's experiments on PenDigits, whale calls and satellite series: methods compared on one data set."""

from __future__ import annotations

import resource
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

import torch
from torch import Tensor

from siggpde.gp.model import SignatureGP
from siggpde.numerics.core import limited
from siggpde.numerics.signature_kernel import signature_kernel_diag_scales
from siggpde.series import SeriesBatch
from siggpde_paper.experiments import methods, tables
from siggpde_paper.experiments.measurements import iteration_times, load_average, load_sentence, store_of
from siggpde_paper.experiments.results import Record, Results
from siggpde_paper.experiments.variants import scale_gradient

_COLOURS = ("#3b6fb6", "#6ba3d6", "#2f8f5b", "#d9752b", "#8a4fa3", "#8a8a8a")
_STYLES = {"siggpde": ("#3b6fb6", "o"), "gpsig-it": ("#d9752b", "s"), "gpsig-it-explicit": ("#8a4fa3", "^")}
# Of the scales' figure: the last two nearly coincide, and the one below is wider.
_LINES = (("-", 1.5, "#3b6fb6"), ("--", 1.5, "#d9752b"), ("-", 4.0, "#a8d5ba"), ("-.", 1.5, "#8a4fa3"))
_PANELS = {
    "moving": "CPU seconds of an iteration,\nkernel learned",
    "accuracy": "test accuracy %",
    "elbo": "ELBO per series",
}
_METHOD = {"kind": "siggpde", "order": "lexicographic"}


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """Whole fits of every method `runs` times, and times of a few iterations: the paper's digits, whales and crops."""
    if "official" in config:
        split = {"sizes": methods.split_sizes(methods.load_series(config))}
        if results.once("split", lambda: split) != split:
            raise ValueError(
                f"{results.folder} has results on another split of {config['data']}; choose another folder"
            )
    results.compute(methods.fit_tasks(config, results.folder, runs), jobs)
    timed, sizes = config.get("timed", {}).items(), config.get("sizes") or [config.get("inducing")]
    results.compute({
        f"time/{name}/{count}": partial(time_iterations, config | {"inducing": count}, method)
        for name, method in timed
        for count in sizes
    })  # fmt: skip


def report(config: dict[str, Any], results: Results) -> str:
    """The table of fits, the table of times and the figure."""
    figure = (_draw_sizes if "sizes" in config else _draw_training)(config, results)
    shown = {"fits": _fits(config, results), "times": _times(config, results), "figure": figure}
    return tables.render("comparison.md", config, results=results, **shown)


def _fits(config: dict[str, Any], results: Results) -> str:
    sized, rows = "sizes" in config, []
    for key, (settings, method) in methods.fit_settings(config).items():
        quoted = "{:.2f} / {:.3f}".format(*method["paper"]) if "paper" in method else "–"
        first = [tables.named(method["name"], settings), str(settings["inducing"]) if sized else quoted]
        rows.append((first, results.runs(f"fit/{key}/")))

    def iteration(records: list[Record]) -> str:
        """CPU time of an iteration over all phases."""
        known = [(one["iterations"], one["seconds_per_iteration"]) for one in records if "seconds_per_iteration" in one]
        steps = [sum(times[name] * counts[name] for name in counts) / sum(counts.values()) for counts, times in known]
        return tables.duration(mean(steps)) if steps else "–"

    columns = {"ELBO per series": tables.spread_cell("elbo", 4)} | (
        {} if sized else {"CPU time / iteration": iteration}
    )
    columns |= {"iterations": tables.iterations_cell, "CPU time": tables.duration_cell("cpu_seconds")}
    return tables.runs_table(["method", "M" if sized else "paper"], rows, columns)


def time_iterations(config: dict[str, Any], method: dict[str, Any]) -> Record:
    """CPU seconds of an iteration with the kernel fixed and with the kernel learned ("moving"), on one thread."""
    with limited(1):
        data = methods.prepare(config)
        model = methods.build(config, method, data, 0)
        cache = store_of(model, SeriesBatch(data.x_train), signatures=isinstance(model, SignatureGP))
        batch, count = config["schedule"]["batch"], config["timing_iterations"]
        fixed, learned = (
            mean(iteration_times(model, cache, data.y_train, batch, count, learn)) for learn in (False, True)
        )
    return {"fixed": fixed, "moving": learned} | load_average()


def _times(config: dict[str, Any], results: Results) -> dict[str, Any] | None:
    """The table: a row for each M, or for the one M a row for each method; None where nothing was timed."""
    timed = results.runs("time/")
    if not timed:
        return None
    listed, sizes = config["timed"], config.get("sizes") or [config["inducing"]]
    rows: list[Sequence[str]] = []
    names = [method["name"] for method in listed.values()]
    headings = ["M", *names, *(f"{name} / {names[0]}" for name in names[1:])]
    for count in sizes:
        records = [results.get(f"time/{name}/{count}") for name in listed]
        times, ratios = map(tables.times_cell, records), [_ratio(record, records[0]) for record in records[1:]]
        if len(sizes) == 1:
            headings = ["method", "time of an iteration", f"times {names[0]}'s"]
            rows = list(zip(names, times, ["1", *ratios], strict=True))
        else:
            rows.append([str(count), *times, *ratios])
    return {"sizes": sizes, "load": load_sentence(timed), "table": tables.markdown_table(headings, rows)}


def _ratio(record: Record | None, base: Record | None) -> str:
    if record is None or base is None:
        return "–"
    return f"{record['fixed'] / base['fixed']:.1f}x / {record['moving'] / base['moving']:.1f}x"


def _draw_training(config: dict[str, Any], results: Results) -> str:
    """Validation NLPP against CPU time for the first run of the methods that take minibatches."""
    figure, ((ax,),) = tables.subplots(1, 1, (6.4, 4.2))
    for (name, method), colour in zip(config["methods"].items(), _COLOURS, strict=False):
        record = results.get(f"fit/{name}/0")
        if record is None or not record.get("validation"):
            continue
        seconds, done = record["seconds_per_iteration"], record["iterations"]
        before = {"q": 0.0, "hyperparameters": seconds["q"] * done["q"]}
        times = [before[phase] + seconds[phase] * step for phase, step, _ in record["validation"]]
        losses = [nlpp for *_, nlpp in record["validation"]]
        ax.plot(times, losses, color=colour, label=tables.named(method["name"], config))
    ax.set(xscale="log", yscale="log", xlabel="CPU seconds", ylabel="NLPP of the validation part")
    tables.log_ticks(ax.xaxis)
    tables.log_ticks(ax.yaxis)
    tables.legend_below(figure, 3)
    return tables.save_figure(figure, results.folder, "training")


def _draw_sizes(config: dict[str, Any], results: Results) -> str:
    """The paper's figure: seconds of an iteration, accuracy and ELBO against M, as far as they are measured."""
    curves: dict[str, dict[str, list[tuple[int, float]]]] = {panel: defaultdict(list) for panel in _PANELS}
    for name in config["timed"]:
        for count in config["sizes"]:
            if record := results.get(f"time/{name}/{count}"):
                curves["moving"][name].append((count, record["moving"]))
    for key, (settings, _) in methods.fit_settings(config).items():
        records = results.runs(f"fit/{key}/")
        for panel in ("accuracy", "elbo") if records else ():
            point = settings["inducing"], mean(record[panel] for record in records)
            curves[panel][key.split("/")[0]].append(point)
    panels = [panel for panel in curves if curves[panel]] or list(curves)
    figure, axes = tables.subplots(1, len(panels), (11 / 3 * len(panels), 3.7))
    for ax, panel in zip(axes[0], panels, strict=True):
        for name, points in curves[panel].items():
            colour, marker = _STYLES[name]
            heading = (config["timed"].get(name) or config["methods"][name])["name"]
            ax.plot(*zip(*points, strict=True), color=colour, marker=marker, label=heading)
        if panel == "moving":
            ax.set_yscale("log")
            tables.log_ticks(ax.yaxis)
        ax.set(xlabel="inducing variables M", ylabel=_PANELS[panel])
    tables.legend_below(figure, 3)
    return tables.save_figure(figure, results.folder, "crops")


def run_scales(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """Every variant in `runs` runs, and the error of the authors' gradient, the paper's Algorithm 2, at the start."""
    results.compute({"errors": partial(gradient_errors, config)})
    results.compute(methods.fit_tasks(config, results.folder, runs), jobs)


def gradient_errors(config: dict[str, Any]) -> dict[str, Any]:
    """|g - g'| / |g| of dk/dlog theta at the starting scales: median and largest over series, for each refinement."""
    data = methods.prepare(config)
    x = data.x_train[:: max(1, len(data.x_train) // config["gradient_series"])]
    model = methods.build(config, _METHOD, data, 0)
    theta = model.kernel.theta.detach()
    _, exact = signature_kernel_diag_scales(x, theta, tol=1e-10)
    record: dict[str, Any] = {"series": len(x), "theta": theta.tolist(), "refinements": {}}
    for refine in config["refinements"]:
        gradient = scale_gradient(x, theta, refine)
        error = (gradient - exact).norm(dim=1) / exact.norm(dim=1)
        share = float((gradient - exact).sum() / exact.sum())
        record["refinements"][str(refine)] = {
            "median": float(error.median()), "largest": float(error.max()), "bias": share,
            "cosine": float(torch.cosine_similarity(gradient.sum(0), exact.sum(0), dim=0)),
        }  # fmt: skip
    return record


def report_scales(config: dict[str, Any], results: Results) -> str:
    """The table of variants, the errors of the authors' gradient and the figure."""
    columns: dict[str, tables.Cell] = {
        "best validation NLPP": lambda records: tables.spread([nlpp for *_, nlpp in _best(records)], 4),
        f"start ({', '.join(config['channels'])})": lambda records: _means([r["theta_start"] for r in records]),
        "end of phase 2": lambda records: _means([record["scales"][-1][2] for record in records]),
        "kept": lambda records: _means([record["theta"] for record in records]),
        "kept from iteration": lambda records: ", ".join(str(step) for _, step, _ in _best(records)),
        "CPU time / iteration of phase 2": lambda records: tables.duration(
            mean(record["seconds_per_iteration"]["hyperparameters"] for record in records)
        ),
        "iterations": tables.iterations_cell,
    }
    rows = [([method["name"]], results.runs(f"fit/{name}/")) for name, method in config["methods"].items()]
    shown = {"table": tables.runs_table(["scales"], rows, columns), "figure": _draw_scales(config, results)}
    return tables.render("scales.md", config, errors=_errors(results), **shown)


def _best(records: list[Record]) -> list[list[Any]]:
    """Of every run the evaluation (phase, iteration, NLPP) of phase 2 with the least validation NLPP."""
    learned = [[entry for entry in record["validation"] if entry[0] == "hyperparameters"] for record in records]
    return [min(entries, key=lambda entry: entry[2]) for entries in learned]


def _means(scales: list[list[float]]) -> str:
    return ", ".join(f"{mean(channel):.3f}" for channel in zip(*scales, strict=True))


def _errors(results: Results) -> dict[str, Any] | None:
    record = results.get("errors")
    if record is None:
        return None
    rows = [
        [refine, *(f"{100 * errors[key]:.1f} %" for key in ("median", "largest", "bias")), f"{errors['cosine']:.4f}"]
        for refine, errors in record["refinements"].items()
    ]
    headings = ["refinement", "median error", "largest error", "bias of the sum", "cosine of the sums"]
    return {"series": record["series"], "table": tables.markdown_table(headings, rows)}


def _draw_scales(config: dict[str, Any], results: Results) -> str:
    """Scales of the first run along the phase of the hyperparameters, an axis a channel."""
    channels = config["channels"]
    figure, (axes,) = tables.subplots(1, len(channels), (3.4 * len(channels), 3.4))
    for (name, method), (style, width, colour) in zip(config["methods"].items(), _LINES, strict=False):
        record = results.get(f"fit/{name}/0")
        if record is None:
            continue
        steps = [0, *(step for _, step, _ in record["scales"])]
        for index, ax in enumerate(axes):
            values = [record["theta_start"][index], *(theta[index] for *_, theta in record["scales"])]
            ax.plot(steps, values, style, linewidth=width, color=colour, label=method["name"])
    for ax, channel in zip(axes, channels, strict=True):
        ax.set(xlabel="iteration of phase 2", title=f"scale of {channel}")
        ax.ticklabel_format(useOffset=False)
        ax.locator_params(axis="x", nbins=5)
    tables.legend_below(figure, 2)
    return tables.save_figure(figure, results.folder, "scales")


def run_million(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """The paper's million series, synthetic and original, each fit in a process of its own for its peak memory."""
    for seed in range(runs):
        for kind in _kinds(config):
            checkpoint = results.folder / "checkpoints" / f"{kind}-{seed}.pt"
            results.compute({f"fit/{kind}/{seed}": partial(train_once, config, kind, seed, checkpoint)}, apart=True)


def _kinds(config: dict[str, Any]) -> list[str]:
    return ["original", "synthetic"] if "synthetic" in config else ["original"]


def train_once(config: dict[str, Any], kind: str, seed: int, checkpoint: Path | None) -> dict[str, Any]:
    """One run of the schedule on the `original` or the `synthetic` series; a record of plain numbers."""
    started = time.process_time()
    data = methods.prepare(config)
    if kind == "synthetic":
        data = synthetic(data, config["synthetic"], config["noise"], seed)
    model = methods.build(config, _METHOD, data, seed)
    history = methods.train_model(config, model, data.x_train, data.y_train, seed, checkpoint)
    spent = time.process_time() - started
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss, in bytes
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**30
    return methods.judged(model, history, data) | {"series": len(data.y_train), "process_cpu": spent, "peak_gib": peak}


def synthetic(data: methods.Prepared, count: int, noise: float, seed: int) -> methods.Prepared:
    """`count` synthetic training series, standardised by themselves; real test series, scaled in the same way."""
    raw, labels = resampled(data, count, noise, seed)
    train, test = methods.standardised(methods.with_time(raw), methods.with_time(data.raw_test.float()))
    return methods.Prepared(train, labels, test, data.y_test, data.raw_train, data.raw_test, data.classes)


def resampled(data: methods.Prepared, count: int, noise: float, seed: int) -> tuple[Tensor, Tensor]:
    """Synthetic series (count, length, channels) and labels: training series with noise at every point."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(len(data.y_train), (count,), generator=generator)
    raw = data.raw_train.float()
    scale = noise * raw.std(dim=(0, 1))
    series = raw[rows]
    for chunk in series.split(2**16):
        chunk.add_(torch.randn(chunk.shape, generator=generator) * scale)
    return series, data.y_train[rows]


def report_million(config: dict[str, Any], results: Results) -> str:
    """The table of both fits."""
    columns: dict[str, tables.Cell] = {
        "iterations": tables.iterations_cell,
        "kernel fixed / learned": lambda records: " / ".join(
            tables.duration(mean(record["seconds_per_iteration"][phase] for record in records))
            for phase in ("q", "hyperparameters")
        ),
        "CPU time": tables.duration_cell("cpu_seconds"),
        "wall time": tables.duration_cell("wall_seconds"),
        "peak memory": lambda records: f"{max(record['peak_gib'] for record in records):.1f} GiB",
    }
    rows = []
    for kind in reversed(_kinds(config)):
        records = results.runs(f"fit/{kind}/")
        rows.append(([f"{records[0]['series']:,} {kind}" if records else kind], records))
    return tables.render("million.md", config, table=tables.runs_table(["training series"], rows, columns))
