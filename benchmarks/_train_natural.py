"""One natural-gradient step, part by part, and what q(u) costs as it grows."""

from __future__ import annotations

import torch
from _table import by_turns, show_seconds
from _train_cases import Grid, SetUp, model_of, projection, series

from siggpde.gp.natural_gradients import NaturalGradient

_CLASSES, _BATCH, _RHO = 10, 1000, 0.1
_SIZES = (250, 500, 1000, 2000)


def natural(rounds: int, quick: bool) -> Grid:
    """A step at M = 500, B = 1000, C = 10, whole and apart."""
    grid = Grid("natural", f"One natural-gradient step, B = {_BATCH}, C = {_CLASSES}", ["M", "dtype", "part", "time"])
    for size in (500,) if quick else (250, 500, 1000):
        for dtype in (torch.float64, torch.float32):
            for part, seconds in _parts(size, dtype, rounds).items():
                name = str(dtype).removeprefix("torch.")
                grid.add(
                    [str(size), name, str(part), show_seconds(seconds)],
                    size=size,
                    dtype=name,
                    part=part,
                    seconds=seconds,
                )
    return grid


def _parts(size: int, dtype: torch.dtype, rounds: int) -> dict:
    model = model_of(SetUp("natural", _BATCH, 8, 3, _CLASSES, size), dtype)
    steps, seen = NaturalGradient(model), projection(size, _BATCH, dtype)
    y = torch.randint(_CLASSES, (_BATCH,), generator=torch.Generator().manual_seed(2))
    steps.step([(seen, y)], _BATCH, 0.5)
    at = steps.statistics([(seen, y)])
    target = steps.target(at, _BATCH)
    calls = {
        "whole step": lambda: steps.step([(seen, y)], _BATCH, _RHO),
        "marginals and likelihood": lambda: steps.statistics([(seen, y)]),
        "weighted Gram matrices": lambda: steps.target(at, _BATCH),
        "move: interpolation and q(u) from natural parameters": lambda: steps.move(target, _RHO),
        "q(u) from natural parameters: factorisation and inverse": lambda: model.variational.set_natural_parameters(
            steps.natural
        ),
    }
    return by_turns(calls, rounds)


def state(rounds: int, quick: bool) -> Grid:
    """Memory of q(u), one natural step, and prediction from raw series, against the number of inducing variables."""
    headings = ["M", "q(u)", "step's own state", "natural step", "prediction, a series"]
    grid = Grid("state", f"q(u) against M: C = {_CLASSES}, full covariance, float64, B = {_BATCH}", headings)
    for size in _SIZES[: 2 if quick else None]:
        model = model_of(SetUp("state", _BATCH, 8, 3, _CLASSES, size))
        steps, seen = NaturalGradient(model), projection(size, _BATCH)
        x, generator = series(_BATCH, 8, 3)
        y = torch.randint(_CLASSES, (_BATCH,), generator=generator)
        calls = {
            "step": lambda s=steps, p=seen, t=y: s.step([(p, t)], _BATCH, _RHO),
            "predict": lambda m=model, b=x: m.predict(b),
        }
        seconds = by_turns(calls, rounds)
        held = _bytes(model.variational.mean, model.variational.root)
        natural = _bytes(*steps.natural)
        prediction = seconds["predict"] / _BATCH
        cells = [
            str(size),
            _megabytes(held),
            _megabytes(natural),
            show_seconds(seconds["step"]),
            show_seconds(prediction),
        ]
        grid.add(
            cells, size=size, bytes=held, step_bytes=natural, step_seconds=seconds["step"], predict_seconds=prediction
        )
    return grid


def _bytes(*tensors: torch.Tensor) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _megabytes(count: int) -> str:
    return f"{count / 1e6:.1f} MB"
