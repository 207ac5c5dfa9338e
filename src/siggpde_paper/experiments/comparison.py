"""The paper's experiments on PenDigits, whale calls and satellite series (Crop): methods compared on one data set.

Accuracy, NLPP, ELBO and CPU time of every method, with the numbers of the paper, or at several numbers M of inducing
variables. Iterations are timed apart from the fits, for a machine may be busy with these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import mean
from typing import Any

from siggpde.gp.cache import PathStore, SignatureCache
from siggpde.gp.model import SignatureGP
from siggpde.series import SeriesBatch
from siggpde_paper.experiments import tables
from siggpde_paper.experiments.measurements import iteration_times, load_average, load_sentence, one_thread
from siggpde_paper.experiments.methods import build, fit_settings, fit_tasks, prepare
from siggpde_paper.experiments.results import Record, Results

_COLOURS = ("#3b6fb6", "#6ba3d6", "#2f8f5b", "#d9752b", "#8a4fa3", "#8a8a8a")
_STYLES = {"siggpde": ("#3b6fb6", "o"), "gpsig-it": ("#d9752b", "s"), "gpsig-it-explicit": ("#8a4fa3", "^")}

Curves = dict[str, list[tuple[int, float]]]  # pairs of M and a figure, by method


def run(config: dict[str, Any], results: Results, runs: int, jobs: int = 1) -> None:
    """Whole fits of every method as often as `runs` says, and times of a few iterations.

    The paper's experiments on digits (PenDigits), whale calls and satellite series.
    """
    results.compute(fit_tasks(config, results.folder, runs), jobs)
    results.compute(timing_tasks(config))


def report(config: dict[str, Any], results: Results) -> str:
    """The table of fits, the table of times and the figure."""
    draw = _draw_sizes if "sizes" in config else _draw_training
    return tables.page(
        _fits(config, results),
        f"{tables.protocol(config)} ELBO: of all the training series, over their number.",
        times_section(config, results),
        f"![{config['title']}]({draw(config, results)})",
        tables.notes_list(config),
    )


def _fits(config: dict[str, Any], results: Results) -> str:
    sized, rows = "sizes" in config, []
    for key, (settings, method) in fit_settings(config).items():
        first = [tables.named(method["name"], settings)]
        if sized:
            first.append(str(settings["inducing"]))
        else:
            first.append(f"{method['paper'][0]:.2f} / {method['paper'][1]:.3f}" if "paper" in method else "–")
        rows.append((first, list(results.records(f"fit/{key}/").values())))
    columns = tables.FIGURES | {"ELBO per series": tables.spread_cell("elbo", 4)}
    if not sized:
        columns["CPU time / iteration"] = _iteration_cell
    columns |= {
        "iterations": tables.iterations_cell,
        "CPU time": tables.duration_cell("cpu_seconds"),
        "ended by": tables.ended_cell,
    }
    return tables.runs_table(["method", "M" if sized else "paper"], rows, columns)


def _iteration_cell(records: list[Record]) -> str:
    """CPU time of an iteration over all phases."""
    steps = []
    for record in records:
        if "seconds_per_iteration" in record:
            counts, seconds = record["iterations"], record["seconds_per_iteration"]
            steps.append(sum(seconds[name] * counts[name] for name in counts) / sum(counts.values()))
    return tables.duration(mean(steps)) if steps else "–"


def timing_tasks(config: dict[str, Any]) -> dict[str, Callable[[], Record]]:
    """A task for each method of config["timed"] and each M of config["sizes"], or for the one M there is."""
    return {
        f"time/{name}/{count}": partial(time_iterations, config | {"inducing": count}, method)
        for name, method in config.get("timed", {}).items()
        for count in _sizes(config)
    }


def _sizes(config: dict[str, Any]) -> list[int]:
    return config["sizes"] if "sizes" in config else [config["inducing"]]


def time_iterations(config: dict[str, Any], method: dict[str, Any]) -> Record:
    """CPU seconds of an iteration with the kernel fixed and with the kernel learned ("moving"), on one thread."""
    with one_thread():
        data = prepare(config)
        model = build(config, method, data, 0)
        if isinstance(model, SignatureGP):
            cache = SignatureCache(SeriesBatch(data.x_train), model.features.words, model.kernel.log_theta)
        else:
            cache = PathStore(model, SeriesBatch(data.x_train))
        batch, count = config["schedule"]["batch"], config["timing_iterations"]
        fixed, learned = (
            mean(iteration_times(model, cache, data.y_train, batch, count, learn)) for learn in (False, True)
        )
    return {"fixed": fixed, "moving": learned} | load_average()


def times_section(config: dict[str, Any], results: Results) -> str:
    """The table: a row for each M, or for the one M a row for each method; ratios are those to the first method.

    Empty where nothing was timed.
    """
    methods = config.get("timed", {})
    if not results.records("time/"):
        return ""
    names, sizes, columns = [method["name"] for method in methods.values()], _sizes(config), []
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
        f"{load_sentence(results.records('time/').values())}\n\n{tables.markdown_table(headings, rows)}"
    )


def _times(record: Record | None) -> str:
    return f"{tables.duration(record['fixed'])} / {tables.duration(record['moving'])}" if record else "–"


def _ratio(record: Record | None, base: Record | None) -> str:
    if record is None or base is None:
        return "–"
    return f"{record['fixed'] / base['fixed']:.1f}x / {record['moving'] / base['moving']:.1f}x"


def _draw_training(config: dict[str, Any], results: Results) -> str:
    """Validation NLPP against CPU time for the first run of the methods that take minibatches."""
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    figure, ax = pyplot.subplots(figsize=(6.4, 4.2), layout="constrained")
    for (name, method), colour in zip(config["methods"].items(), _COLOURS, strict=False):
        record = results.get(f"fit/{name}/0")
        if record is None or not record.get("validation"):
            continue
        seconds, done = record["seconds_per_iteration"], record["iterations"]
        before = {"q": 0.0, "hyperparameters": seconds["q"] * done["q"]}
        times = [before[phase] + seconds[phase] * step for phase, step, _ in record["validation"]]
        ax.plot(
            times, [nlpp for *_, nlpp in record["validation"]], color=colour, label=tables.named(method["name"], config)
        )
    ax.set(xscale="log", yscale="log", xlabel="CPU seconds", ylabel="NLPP of the validation part")
    tables.log_ticks(ax.xaxis)
    tables.log_ticks(ax.yaxis)
    ax.spines[["top", "right"]].set_visible(False)
    tables.legend_below(figure, 3)
    return tables.save_figure(figure, results.folder, "training")


def _draw_sizes(config: dict[str, Any], results: Results) -> str:
    """The paper's figure: seconds of an iteration, accuracy and ELBO against M, as far as they are measured."""
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    panels = {
        "CPU seconds of an iteration,\nkernel learned": _timed_curves(config, results),
        "test accuracy %": _mean_curves(config, results, "accuracy"),
        "ELBO per series": _mean_curves(config, results, "elbo"),
    }
    panels = {label: curves for label, curves in panels.items() if curves} or panels
    width = 11 / 3 * len(panels)
    figure, axes = pyplot.subplots(1, len(panels), figsize=(width, 3.7), layout="constrained", squeeze=False)
    for ax, (label, curves) in zip(axes[0], panels.items(), strict=True):
        for name, points in curves.items():
            colour, marker = _STYLES[name]
            heading = (config["timed"].get(name) or config["methods"][name])["name"]
            ax.plot(*zip(*points, strict=True), color=colour, marker=marker, label=heading)
        if label.startswith("CPU"):
            ax.set_yscale("log")
            tables.log_ticks(ax.yaxis)
        ax.set(xlabel="inducing variables M", ylabel=label)
        ax.spines[["top", "right"]].set_visible(False)
    tables.legend_below(figure, 3)
    return tables.save_figure(figure, results.folder, "crops")


def _timed_curves(config: dict[str, Any], results: Results) -> Curves:
    """Seconds of an iteration with the kernel learned, of every method that was timed."""
    curves = {
        name: [(m, r["moving"]) for m in config["sizes"] if (r := results.get(f"time/{name}/{m}")) is not None]
        for name in config["timed"]
    }
    return {name: points for name, points in curves.items() if points}


def _mean_curves(config: dict[str, Any], results: Results, figure: str) -> Curves:
    """The mean of a figure over runs, of every method that was fitted."""
    curves: Curves = {}
    for key, (settings, _) in fit_settings(config).items():
        if records := results.records(f"fit/{key}/").values():
            values = mean(record[figure] for record in records)
            curves.setdefault(key.split("/")[0], []).append((settings["inducing"], values))
    return curves
