"""The groups in which libraries are compared: kernels at equal accuracy, at equal scheme, signatures, Gram matrices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import _cases
import torch
from _peers import Call, to_tensor
from _reference import median_error, signature
from _table import OURS, Row, Table, by_turns
from torch import Tensor

ACCURACY = 1e-6  # the median relative error of k that all must reach where accuracy is equal
OUR_TOLERANCES = (1e-2, 5e-3, 2e-3, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
DEFAULT_TOLERANCE = 1e-8
_MOST_BYTES = 4e9
_SIGNATURE_ACCURACY = 1e-9


@dataclass
class Problem:
    """What is computed in a case: a call for a peer's settings, a small one to judge its error, and how to judge."""

    name: str
    call: Callable[[object, dict], Call]
    small: Callable[[object, dict], Call]
    errors: Callable[[object], tuple[float, float | None]]
    x: Tensor
    slope: bool = False


def diagonal_problem(kind: str, shape: tuple[int, int, int], how: str) -> Problem:
    """k(X_i, X_i), `how` being what a peer is asked for: its value, its slope or its autograd_slope."""
    case, slope = _cases.kernel_case(kind, shape), how != "value"

    def calls(x: Tensor) -> Callable[[object, dict], Call]:
        return lambda peer, options: getattr(peer, how)(x, options)

    def errors(result: object) -> tuple[float, float | None]:
        k, gradient = result if slope else (result, None)
        error = median_error(k[: case.count], case.k)
        return error, median_error(gradient[: case.count], case.gradient) if slope else None

    return Problem(case.name, calls(case.x), calls(case.x[: case.count].clone()), errors, case.x, slope)


def lifted_problem(kind: str, shape: tuple[int, int, int], static: str, how: str) -> Problem:
    """The same for paths lifted by a static kernel of bandwidth 1."""
    case, slope = _cases.lifted_case(kind, shape, static), how != "value"

    def calls(x: Tensor) -> Callable[[object, dict], Call]:
        return lambda peer, options: getattr(peer, how)(x, {**options, **peer.static(static)})

    def errors(result: object) -> tuple[float, float | None]:
        k, gradient = result if slope else (result, None)
        error = median_error(k[: case.count], case.k)
        return error, median_error(gradient[: case.count], case.gradient) if slope else None

    return Problem(case.name, calls(case.x), calls(case.x[: case.count].clone()), errors, case.x, slope)


def gram_problem(kind: str) -> Problem:
    """The (n, n) matrix of k(X_i, X_j); the error is taken on the pairs that the reference knows."""
    x, rows, columns, known = _cases.gram_case(kind)
    few = torch.cat([x[rows], x[columns]])

    def errors(result: Tensor) -> tuple[float, None]:
        i, j = (rows, columns) if len(result) == len(x) else (slice(len(rows)), slice(len(rows), None))
        block = result[i][:, j]
        return median_error(block.flatten(), known.flatten()), None

    name = f"{len(x)} x {len(x)}, {_cases.shape_name(x.shape[1:])} {kind}"
    return Problem(name, lambda peer, o: peer.gram(x, o), lambda peer, o: peer.gram(few, o), errors, x)


def equal_accuracy(problem: Problem, ours: object | None, peers: list, rounds: int, table: Table) -> None:
    """Our first tolerance and every peer's fastest setting whose median relative error is at most `ACCURACY`."""
    rows, calls, base = [], {}, None
    if ours:
        for tolerance in OUR_TOLERANCES:
            row, call = _judged(problem, ours, {"tol": tolerance})
            good = row.error <= ACCURACY
            if base is None or tolerance == DEFAULT_TOLERANCE:
                calls[len(rows)] = call
                base = len(rows) if good and base is None else base
                row.note = "" if good else "not accurate enough"
                rows.append(row)
            if base is not None and tolerance <= DEFAULT_TOLERANCE:
                break
    if ours and base is None:
        table.fail(problem.name, "we are not accurate enough")
    for peer in peers:
        for family in peer.families:
            for row, call in _qualified(problem, peer, family):
                if call:
                    calls[len(rows)] = call
                rows.append(row)
    seconds = by_turns(calls, rounds)
    kept = [index for index in range(len(rows)) if not _beaten(index, rows, seconds)]
    places = {index: place for place, index in enumerate(kept)}
    measured = {places[index]: taken for index, taken in seconds.items() if index in places}
    table.add([rows[index] for index in kept], measured, places.get(base))


def equal_scheme(problem: Problem, ours: object | None, peers: list, rounds: int, table: Table) -> None:
    """Everyone by the same unrefined finite differences."""
    rows, calls = [], {}
    for peer in [*([ours] if ours else []), *peers]:
        options = {"solver": "fd", "refine": 0} if peer is ours else peer.families[0][0]
        row, calls[len(rows)] = _judged(problem, peer, options)
        rows.append(row)
    table.add(rows, by_turns(calls, rounds), 0 if ours else None)


def _judged(problem: Problem, peer: object, options: dict) -> tuple[Row, Call]:
    call = problem.call(peer, options)
    note = getattr(peer, "note", "") if problem.slope else ""
    return Row(problem.name, peer.name, _label(options), None, None, *problem.errors(call()), note), call


def _qualified(problem: Problem, peer: object, family: tuple[dict, ...]) -> list[tuple[Row, Call | None]]:
    """The settings of a family that may be the fastest accurate enough.

    Settings go from coarse to fine and cost more and more but for steps of the vector width, so these are the first two
    that qualify. If none does, the one row without a call says how far the finest affordable one got.
    """
    note, results = (getattr(peer, "note", "") if problem.slope else ""), []
    failed = Row(problem.name, peer.name, "none affordable")
    for options in family:
        if peer.bytes_needed(problem.x, options, problem.slope) > _MOST_BYTES:
            failed.note += ", finer ones need over 4 GB"
            break
        errors = problem.errors(problem.small(peer, options)())
        row = Row(problem.name, peer.name, _label(options), None, None, *errors, note)
        if errors[0] > ACCURACY:
            failed = row
            failed.note = "not accurate enough"
            continue
        results.append((row, problem.call(peer, options)))
        if len(results) == 2:
            break
    return results or [(failed, None)]


def _beaten(index: int, rows: list[Row], seconds: dict[int, float]) -> bool:
    """Whether the same peer has a faster setting of the same family."""
    mine = rows[index]
    if mine.who == OURS or index not in seconds:
        return False
    return any(
        rows[other].who == mine.who and rows[other].setting[:4] == mine.setting[:4] and taken < seconds[index]
        for other, taken in seconds.items()
    )


def signatures(peers: list, rounds: int, slope: bool, table: Table, cases: tuple, kinds: tuple[str, ...]) -> None:
    """Signatures to a depth, with the gradient in the path for a random cotangent if `slope`."""
    for shape, depth in cases:
        for kind in kinds:
            x = _cases.paths(kind, shape)
            leaf = x.clone().requires_grad_()
            want = signature(leaf, depth)
            weights = torch.randn(want.shape, generator=torch.Generator().manual_seed(2), dtype=want.dtype)
            gradient = torch.autograd.grad(want, leaf, weights)[0] if slope else None
            rows, calls = [], {}
            for peer in peers:
                call = peer.signature_slope(x, depth, weights) if slope else peer.signature(x, depth)
                value, *rest = (to_tensor(part) for part in (call() if slope else [call()]))
                value = value[:, 1:] if peer.name == OURS else value
                errors = [median_error(value, want.detach()), *(median_error(g, gradient) for g in rest)]
                calls[len(rows)] = call
                row = Row(f"{_cases.shape_name(shape)} depth {depth} {kind}", peer.name, "", None, None, *errors)
                rows.append(row)
            base = next((index for index, row in enumerate(rows) if row.who == OURS), None)
            if base is not None and not max(rows[base].error, rows[base].slope_error or 0) < _SIGNATURE_ACCURACY:
                table.fail(rows[base].case, "our signature is wrong")
            table.add(rows, by_turns(calls, rounds), base)


def _label(options: dict) -> str:
    if "tol" in options:
        return f"series, tol {options['tol']:.0e}"
    if "order" in options:
        return f"polynomial {options['order']}"
    return f"finite differences r={options.get('dyadic_order', options.get('refine'))}"
