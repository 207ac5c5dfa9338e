"""What only concerns ourselves: single precision, two cores, the cost of a small call, memory."""

from __future__ import annotations

from collections.abc import Callable

import _cases
import torch
from _memory import measure
from _peers import Call, Ours
from _table import OURS, Goal, Row, Table, by_turns, show_seconds
from torch import Tensor

_COARSE = {"solver": "fd", "refine": 0}
_SERIES = {"tol": 1e-5}  # within reach of single precision, so that both precisions do the same work
_DEPTH = 7
_SHAPE = (200, 46, 2)
_ENOUGH_SECONDS = 0.015  # so that a disturbed measurement still leaves 10 ms


def _operations(ours: Ours) -> dict[str, Callable[[Tensor], Call]]:
    def signature_slope(x: Tensor) -> Call:
        words = sum(x.shape[2] ** k for k in range(1, _DEPTH + 1))
        return ours.signature_slope(x, _DEPTH, torch.ones(len(x), words, dtype=x.dtype))

    return {
        "k(X,X), series": lambda x: ours.value(x, _SERIES),
        "k(X,X), finite differences": lambda x: ours.value(x, _COARSE),
        "k(X,X) + gradient, series": lambda x: ours.slope(x, _SERIES),
        "k(X,X) + gradient, finite differences": lambda x: ours.slope(x, _COARSE),
        "signature": lambda x: ours.signature(x, _DEPTH),
        "signature + gradient": signature_slope,
    }


def precision(rounds: int, table: Table, goal: Goal) -> None:
    """float64 over float32, the same work on one core."""
    for name, make in _operations(Ours()).items():
        x = _grown(_cases.paths("smooth", _SHAPE), make)
        taken = by_turns({dtype: make(x.to(dtype)) for dtype in (torch.float64, torch.float32)}, rounds)
        _compare(
            table,
            goal,
            f"{name} {_cases.shape_name(x.shape)}",
            {"float32": taken[torch.float32]},
            "float64",
            taken[torch.float64],
        )


def cores(rounds: int, table: Table, goal: Goal) -> None:
    """One core over two, on batches that take at least 10 ms; torch's own threads only where we have no `n_jobs`."""
    counts = (1, 2)
    workers = {count: Ours(count) for count in counts}
    operations = {count: _operations(ours) for count, ours in workers.items()}
    for name, make in operations[1].items():
        x = _grown(_cases.paths("smooth", _SHAPE), make)
        calls = {count: operations[count][name](x) for count in counts}
        if not workers[1].takes_jobs:
            calls = {count: _on(count, call) for count, call in calls.items()}
        taken = by_turns(calls, rounds)
        _compare(table, goal, f"{name} {_cases.shape_name(x.shape)}", {"two cores": taken[2]}, "one core", taken[1])
    torch.set_num_threads(1)


def _compare(table: Table, goal: Goal, case: str, base: dict[str, float], other: str, seconds: float) -> None:
    ((setting, ours),) = base.items()
    ratio = seconds / ours
    table.rows += [Row(case, OURS, setting, ours, 1.0), Row(case, OURS, other, seconds, ratio)]
    if goal.got is None or ratio < goal.got:
        goal.got, goal.where = ratio, case


def _grown(x: Tensor, make: Callable[[Tensor], Call]) -> Tensor:
    """The batch repeated until one call takes at least 10 ms."""
    while by_turns({0: make(x)}, 5)[0] < _ENOUGH_SECONDS and len(x) < 1_000_000:
        x = x.repeat(2, 1, 1)
    return x


def _on(threads: int, call: Call) -> Call:
    def run() -> None:
        torch.set_num_threads(threads)
        call()

    return run


def small_call(rounds: int, table: Table, goal: Goal) -> None:
    """One call on (8, 8, 3), everything included."""
    ours, x = Ours(), _cases.paths("smooth", (8, 8, 3))
    calls = {
        "k(X,X)": ours.value(x, {}),
        "k(X,X) + gradient": ours.autograd_slope(x, {}),
        "signature depth 4": ours.signature(x, 4),
    }
    for name, seconds in by_turns(calls, rounds).items():
        table.rows.append(Row(f"(8,8,3) {name}", OURS, "defaults", seconds))
        if goal.got is None or seconds * 1e6 > goal.got:
            goal.got, goal.where = seconds * 1e6, f"{name}: {show_seconds(seconds)}"


def landmarks(rounds: int, table: Table, goal: Goal) -> None:
    """Cells a nanosecond of n x m Gram matrices by the same scheme as k(X, X), of which half the cells are solved."""
    ours, generator = Ours(), torch.Generator().manual_seed(3)
    for shape, others in (((256, 64, 3), 128), ((128, 128, 2), 64), ((256, 32, 8), 128), ((512, 16, 2), 256)):
        for ragged in (False, True):
            x, y = _cases.paths("smooth", shape), _cases.paths("smooth", (others, *shape[1:]), seed=7)
            n, length, _ = shape
            counts = [
                torch.randint(length // 2, length + 1, (len(z),), generator=generator) if ragged else None
                for z in (x, y)
            ]
            steps = [length - 1.0 if c is None else (c - 1.0) for c in counts]
            x_steps, y_steps = (s * torch.ones(len(z)) for s, z in zip(steps, (x, y), strict=True))
            many = max(1, 2**22 // (n * length**2))
            long_counts = None if counts[0] is None else counts[0].repeat(many)
            calls = {
                "k(X,X)": ours.ragged_value(x.repeat(many, 1, 1), long_counts, _COARSE),
                "k(X,Y)": ours.rectangular(x, y, *counts, _COARSE),
                "k(X,X) for all pairs": ours.rectangular(x, None, counts[0], None, _COARSE),
            }
            cells = {
                "k(X,X)": many * float((x_steps * (x_steps + 1)).sum()) / 2,
                "k(X,Y)": float(x_steps.sum() * y_steps.sum()),
                "k(X,X) for all pairs": float(x_steps.sum() ** 2 + x_steps.square().sum()) / 2,
            }
            seconds = by_turns(calls, rounds)
            speed = {name: cells[name] / taken / 1e9 for name, taken in seconds.items()}
            case = f"{n} x {others}, {_cases.shape_name(shape[1:])}{' ragged' if ragged else ''}"
            for name, taken in seconds.items():
                ratio = speed[name] / speed["k(X,X)"]
                table.rows.append(Row(f"{case} {name}", OURS, f"{speed[name]:.3f} cells/ns", taken, ratio))
                if name != "k(X,X)" and (goal.got is None or ratio < goal.got):
                    goal.got, goal.where = ratio, f"{case} {name}"


def memory(peers: dict[str, object], quick: bool, table: Table, goal: Goal) -> None:
    """Extra peak memory of value + gradient on long series."""
    trials = [
        ("Ours", "series, default tol", {}),
        ("Ours", "finite differences r=0", _COARSE),
        ("Pysiglib", "finite differences r=0", {"dyadic_order": 0}),
        ("Pysiglib", "polynomial 5", {"method": "polynomial", "order": 5}),
        ("Sigkernel", "finite differences r=0", {"dyadic_order": 0}),
    ]
    for peer, setting, options in trials:
        if peer not in peers or (quick and peer == "Sigkernel"):
            continue
        megabytes, reason = measure(peer, options)
        case = f"extra memory {_cases.shape_name(_cases.MEMORY_SHAPE)}"
        note = f"{megabytes:.0f} MB" if megabytes is not None else reason
        table.rows.append(Row(case, peers[peer].name, setting, note=note))
        if peer == "Ours" and megabytes is not None and (goal.got is None or megabytes > goal.got):
            goal.got, goal.where = megabytes, setting
