"""Tables, sentences and figures of the reports."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

_DPI = 150

Record = dict[str, Any]
Cell = Callable[[list[Record]], str]


def markdown_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column is to the left and whose others are to the right."""
    marks = [":---", *["---:"] * (len(headings) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (headings, marks, *rows))


def runs_table(
    headings: Sequence[str], rows: Iterable[tuple[list[str], list[Record]]], columns: dict[str, Cell]
) -> str:
    """A table of runs: first cells of every row, test figures, `columns` of the records, and what ended the runs."""
    columns = {"accuracy %": spread_cell("accuracy"), "NLPP": spread_cell("nlpp", 4), **columns, "ended by": ended_cell}
    lines = [[*first, *(cell(records) if records else "–" for cell in columns.values())] for first, records in rows]
    return markdown_table([*headings, *columns], lines)


def spread_cell(key: str, digits: int = 2) -> Cell:
    """The cell with mean ± standard deviation of one number of the records."""
    return lambda records: spread([record[key] for record in records if key in record], digits)


def duration_cell(key: str) -> Cell:
    """The cell with the mean of one time of the records."""
    return lambda records: duration(statistics.mean(record[key] for record in records))


def render(template: str, config: dict[str, Any], **values: Any) -> str:
    """Returns a template of this package as Markdown, in which every paragraph is one line."""
    loader = PackageLoader("siggpde_paper.experiments")
    templates = Environment(loader=loader, undefined=StrictUndefined, trim_blocks=True)
    templates.globals["duration"] = duration
    text = re.sub(r" *\n{2,}", "\n\n", templates.get_template(template).render(values, config=config)).strip() + "\n"
    return re.sub(r"(?<=[^\n|])\n(?=[^\n|#!-])", " ", text)


def spread(values: Sequence[float], digits: int = 2) -> str:
    """Mean ± standard deviation; of one number, the number.

    >>> spread([97.5, 98.0, 98.5]), spread([0.085], 3), spread([])
    ('98.00 ± 0.50', '0.085', '–')
    """
    if not values:
        return "–"
    middle = f"{statistics.mean(values):.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ± {statistics.stdev(values):.{digits}f}"


def duration(seconds: float) -> str:
    """A time in ms, s or min."""
    if seconds < 1:
        return f"{1000 * seconds:.1f} ms"
    return f"{seconds:.2f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def times_cell(record: Record | None) -> str:
    """Times of an iteration with the kernel fixed and with it learned, as far as they are measured."""
    if record is None:
        return "–"
    return " / ".join(duration(record[name]) if name in record else "–" for name in ("fixed", "moving"))


def subplots(rows: int, columns: int, size: tuple[float, float], **settings: Any) -> tuple[Any, Any]:
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    return pyplot.subplots(rows, columns, figsize=size, layout="constrained", squeeze=False, **settings)


def save_figure(figure: Any, folder: Path, name: str) -> str:
    """Writes name.png and name.svg, without frames at the top and the right; returns the name of the PNG file."""
    from matplotlib import pyplot  # noqa: PLC0415 - not everybody has it

    folder.mkdir(parents=True, exist_ok=True)
    for ax in figure.axes:
        ax.spines[["top", "right"]].set_visible(False)
    for file in (f"{name}.png", f"{name}.svg"):
        figure.savefig(folder / file, dpi=_DPI)
    pyplot.close(figure)
    return f"{name}.png"


def named(text: str, config: dict[str, Any]) -> str:
    """A text of the settings with {inducing} and the like replaced by what the settings have there.

    >>> named("ours, M = {inducing}", {"inducing": 60})
    'ours, M = 60'
    """
    return text.format_map(config)


def log_ticks(axis: Any) -> None:
    """A logarithmic axis with plain numbers at 1, 2 and 5 times powers of ten, which do not overlap."""
    from matplotlib import ticker  # noqa: PLC0415 - not everybody has it

    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(ticker.NullLocator())


def legend_below(figure: Any, columns: int) -> None:
    """One legend for all axes of the figure, below them, where it covers no curve."""
    entries = {
        label: handle for ax in figure.axes for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    if entries:
        figure.legend(
            entries.values(), entries.keys(), loc="outside lower center", ncols=columns, frameon=False, fontsize="small"
        )


def machine_line(installation: dict[str, Any], commits: Sequence[str] = ()) -> str:
    """Says in one sentence where the figures come from."""
    machine, versions = installation["machine"], installation["versions"]
    simd = installation["simd"] or "no native core"
    return (
        f"{machine['processors']} processors ({machine['architecture']}, {simd}), siggpde {versions['siggpde']}, "
        f"torch {versions['torch']}, Python {versions['python']}"
        + (f", commit {', '.join(commits)}." if commits else ".")
    )


def iterations_cell(records: list[dict[str, Any]]) -> str:
    """How many iterations the runs made: one number where they agree, else the mean and the range.

    >>> iterations_cell([{"iterations": {"q": 5, "all": 5}}, {"iterations": {"q": 4, "all": 4}}])
    '9 (8 to 10)'
    """
    counts = [sum(record["iterations"].values()) for record in records if "iterations" in record]
    if not counts:
        return "–"
    mean = f"{sum(counts) / len(counts):.0f}"
    return mean if min(counts) == max(counts) else f"{mean} ({min(counts)} to {max(counts)})"


def ended_cell(records: list[dict[str, Any]]) -> str:
    """What ended the runs.

    >>> ended_cell([{"stopped": {"q": "9 iterations", "all": "9 iterations"}}])
    'whole schedule'
    >>> ended_cell([{"stopped": {"q": "9 iterations", "all": "budget spent"}}])
    'budget spent'
    """
    ends: set[str] = set()
    for record in records:
        reasons = {reason for reason in record.get("stopped", {}).values() if not reason.endswith(" iterations")}
        ends |= reasons or ({"whole schedule"} if record.get("stopped") else set())
    return ", ".join(sorted(ends)) or "–"
