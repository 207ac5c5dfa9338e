"""The tables of the leaderboard in Markdown, from its records, and their place in a page."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from scipy.stats import wilcoxon

BEGIN, END = "<!-- leaderboard: begin -->", "<!-- leaderboard: end -->"
OURS = "siggpde"
Records = list[dict[str, Any]]
_KEYS = ("method", "data", "split", "seed", "max_train", "max_test")


def render(records: Records, order: Sequence[str]) -> str:
    """All tables that the records have; methods in this order, those of an ablation last."""
    records = latest(records)
    parts = [_versions(records)] if records else ["There are no records."]
    classes = [record for record in records if record["task"] == "classification"]
    for split, title in (("archive", "### Archive splits"), ("resample", "### Resamples")):
        some = [record for record in classes if record["split"] == split]
        whole = [record for record in some if not record["settings"]]
        if whole:
            parts += [title, *_class_tables(whole, _methods(whole, order))]
        methods = [method for method in _methods(some, order) if method not in _methods(whole, order)]
        if methods:
            parts += [f"{title}: without a part", *_ablation_tables(some, methods)]
    numbers = [record for record in records if record["task"] == "regression"]
    if numbers:
        parts += ["### Regression", *_number_tables(numbers, _methods(numbers, order))]
    failed = [
        f"{r['method']} on {r['data']}, {r['split']} {r['seed']}: {r['failed']}" for r in records if "failed" in r
    ]
    return "\n\n".join([*parts, *([f"Failed: {'; '.join(failed)}."] if failed else [])])


def latest(records: Records) -> Records:
    """The last record of every cell, in the order in which cells first came."""
    by_cell: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in records:
        by_cell[tuple(record[key] for key in _KEYS)] = record
    return list(by_cell.values())


def write_between_markers(page: Path, text: str) -> None:
    """Puts the text between the markers of the page."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} lacks the lines {BEGIN} and {END}; put them where the tables should be")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}", encoding="utf-8")


def _class_tables(records: Records, methods: list[str]) -> list[str]:
    sets = list(dict.fromkeys(record["data"] for record in records))
    shown = {name: _by_set(records, name) for name in ("accuracy", "nlpp")}
    parts = [_sizes(records)]
    for name, title, factor, form in (("accuracy", "Accuracy, %", 100, ".1f"), ("nlpp", "NLPP", 1, ".3f")):
        parts += [f"{title}:", _per_set(shown[name], sets, methods, factor, form, best=max if factor > 1 else min)]
    common = [data for data in sets if all((method, data) in shown["nlpp"] for method in methods)]
    if common:
        parts += [
            f"Means over the {len(common)} data sets that all methods finished:",
            _means(records, common, methods),
        ]
    peers = [method for method in methods if method != OURS]
    if OURS in methods and peers:
        parts += [f"{OURS} against each of the others, by data sets:", _duels(shown, sets, peers)]
    return parts


def _ablation_tables(records: Records, methods: list[str]) -> list[str]:
    """Our method with one part left out each, beside the whole."""
    shown = {name: _by_set(records, name) for name in ("accuracy", "nlpp")}
    sets = list(dict.fromkeys(record["data"] for record in records))
    common = [data for data in sets if all((method, data) in shown["nlpp"] for method in [OURS, *methods])]
    means = [f"Means over {len(common)} data sets:", _means(records, common, [OURS, *methods])] if common else []
    return [*means, f"{OURS} against each of them, by data sets:", _duels(shown, sets, methods)]


def _number_tables(records: Records, methods: list[str]) -> list[str]:
    rows = []
    for data in dict.fromkeys(record["data"] for record in records):
        for method in methods:
            every = [r for r in records if r["data"] == data and r["method"] == method]
            finished = [r for r in every if "failed" not in r]
            count = str(len(finished)) if len(finished) == len(every) else f"{len(finished)} of {len(every)}"
            if not finished:
                rows.append([data, method, count, *[""] * 5])
                continue
            shown = [_spread([float(r[name]) for r in finished], 1, ".4g") for name in ("rmse", "nlpd")]
            coverage = _spread([float(r["coverage"]) for r in finished], 100, ".1f")
            costs = [f"{_geometric(r[name] for r in finished):.2f}" for name in ("cpu_fit", "cpu_predict")]
            rows.append([data, method, count, *shown, coverage, *costs])
    head = ["data set", "method", "resamples", "RMSE", "NLPD", "in 90 % intervals, %", "fit, CPU s", "predict, CPU s"]
    return [_sizes(records), _table(head, rows, text=2)]


def _by_set(records: Records, name: str) -> dict[tuple[str, str], list[float]]:
    """Values by (method, data set), where no seed failed."""
    by_cell: dict[tuple[str, str], list[float]] = {}
    for record in records:
        if "failed" not in record:
            by_cell.setdefault((record["method"], record["data"]), []).append(float(record[name]))
    failed = {(record["method"], record["data"]) for record in records if "failed" in record}
    return {key: values for key, values in by_cell.items() if key not in failed}


def _per_set(
    values: dict[tuple[str, str], list[float]],
    sets: Sequence[str],
    methods: Sequence[str],
    factor: int,
    form: str,
    best: Callable[[Iterable[float]], float],
) -> str:
    rows = []
    for data in sets:
        means = {method: statistics.fmean(values[method, data]) for method in methods if (method, data) in values}
        cells = []
        for method in methods:
            cell = _spread(values[method, data], factor, form) if method in means else "–"  # failed, or not run
            wins = method in means and f"{factor * means[method]:{form}}" == f"{factor * best(means.values()):{form}}"
            cells.append(f"**{cell}**" if wins else cell)
        rows.append([data, *cells])
    return _table(["data set", *methods], rows)


def _means(records: Records, sets: Sequence[str], methods: Sequence[str]) -> str:
    rows = []
    for method in methods:
        cells = [method]
        for name, factor, form in (
            ("accuracy", 100, ".2f"),
            ("nlpp", 1, ".3f"),
            ("brier", 1, ".3f"),
            ("ece", 1, ".3f"),
        ):
            by_set = _by_set(records, name)
            cells.append(f"{factor * statistics.fmean(statistics.fmean(by_set[method, data]) for data in sets):{form}}")
        for name in ("cpu_fit", "cpu_predict"):
            by_set = _by_set(records, name)
            cells.append(f"{_geometric(statistics.fmean(by_set[method, data]) for data in sets):.2f}")
        rows.append(cells)
    head = ["method", "accuracy, %", "NLPP", "Brier", "ECE", "fit, CPU s (geometric mean)", "predict, CPU s"]
    return _table(head, rows)


def _duels(values: dict[str, dict[tuple[str, str], list[float]]], sets: Sequence[str], peers: Sequence[str]) -> str:
    """Better, equal, worse, and the p of Wilcoxon's signed-rank test over data sets."""
    rows = []
    for peer in peers:
        cells = [peer]
        for name, sign in (("accuracy", 1), ("nlpp", -1)):
            by_set = values[name]
            pairs = [
                (statistics.fmean(by_set[OURS, data]), statistics.fmean(by_set[peer, data]))
                for data in sets
                if (OURS, data) in by_set and (peer, data) in by_set
            ]
            gains = [
                0.0 if math.isclose(*pair) else sign * (pair[0] - pair[1]) for pair in pairs
            ]  # inf is close to inf
            counts = [
                sum(gain > 0 for gain in gains),
                sum(gain == 0 for gain in gains),
                sum(gain < 0 for gain in gains),
            ]
            cells += [" / ".join(map(str, counts)), signed_rank(gains)]
        rows.append(cells)
    return _table(["method", "accuracy: better / equal / worse", "p", "NLPP: better / equal / worse", "p"], rows)


def signed_rank(gains: Sequence[float]) -> str:
    """The p of Wilcoxon's two-sided test that gains are symmetric about 0; a dash where there are none."""
    return f"{float(wilcoxon(gains).pvalue):.2g}" if any(gains) else "–"


def _versions(records: Records) -> str:
    known = [record["versions"] for record in records if "versions" in record]
    names = dict.fromkeys(name for versions in known for name in versions)
    shown = [f"{name} {', '.join(sorted({v[name] for v in known if name in v}))}" for name in names]
    commits = sorted({record["commit"] for record in records if record.get("commit")})
    return f"Versions: {', '.join(shown)}" + (f"; commit {', '.join(commits)}." if commits else ".")


def _sizes(records: Records) -> str:
    first = {record["data"]: record for record in records if "failed" not in record}
    sizes = [f"{data} {record['n_train']} and {record['n_test']}" for data, record in first.items()]
    seeds = sorted({record["seed"] for record in records})
    named = f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {seeds[0]} to {seeds[-1]}, ± standard error"
    return f"Series to learn from and to be judged on: {', '.join(sizes)}; {named}."


def _methods(records: Records, order: Sequence[str]) -> list[str]:
    there = dict.fromkeys(record["method"] for record in records)
    return [method for method in order if method in there] + [method for method in there if method not in order]


def _spread(values: Sequence[float], factor: float, form: str) -> str:
    mean = factor * statistics.fmean(values)
    if len(values) < 2 or not math.isfinite(mean):
        return f"{mean:{form}}"
    return f"{mean:{form}} ± {factor * statistics.stdev(values) / math.sqrt(len(values)):{form}}"


def _geometric(values: Iterable[float]) -> float:
    return statistics.geometric_mean([max(value, 1e-4) for value in values])


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], text: int = 1) -> str:
    rule = ["---"] * text + ["---:"] * (len(head) - text)
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *rows])
