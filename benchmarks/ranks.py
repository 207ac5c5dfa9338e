"""How training scales to many ranks: compute measured on one core, communication from a model of the network.

    python benchmarks/ranks.py [--output docs]

Writes ranks.json and ranks.png. A step of K ranks takes the compute of the series of one rank, what every rank does for
itself (factorisations), and what is sent. An all-reduce of V bytes by K ranks in a ring takes

    2 (K - 1) latency + 2 (K - 1) / K V / bandwidth,

a broadcast of a number ceil(log2 K) latency. Nothing is assumed to overlap.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from siggpde.gp.exact import best_noise
from siggpde.gp.features import OrthogonalSignatureFeatures, Projection
from siggpde.gp.kernel import SignatureKernel
from siggpde.gp.likelihoods import Softmax
from siggpde.gp.model import SignatureGP
from siggpde.gp.natural_gradients import NaturalGradient
from siggpde.gp.variational import NaturalParameters, VariationalGaussian, gram_upper
from siggpde.numerics.signature import signature
from siggpde.numerics.words import words

RANKS = (1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256, 512, 1000)
NETWORKS = {"10 Gbit/s, 50 µs": (1.25e9, 50e-6), "100 Gbit/s, 5 µs": (12.5e9, 5e-6)}
CLASSES, LENGTH, CHANNELS = 10, 50, 4
TUNED, SCORED = 8000, 4000


@dataclass
class Case:
    """One kind of work: seconds a series, seconds that every rank spends for itself, and what a step sends."""

    name: str
    series: int
    per_series: float
    per_rank: float
    bytes: int
    sums: int
    broadcasts: int

    def seconds(self, ranks: int, bandwidth: float, latency: float) -> float:
        """Of a step, on ranks with equal parts."""
        ring = 2 * (ranks - 1)
        sent = ring * latency * self.sums + ring / ranks * self.bytes / bandwidth
        return (
            self.per_series * math.ceil(self.series / ranks)
            + self.per_rank
            + sent
            + self.broadcasts * latency * math.ceil(math.log2(ranks))
        )


def best(work: Callable[[], object], times: int = 5) -> float:
    """CPU seconds, the least of some times: those of a core that has nothing else to do."""
    measurements = []
    for _ in range(times):
        started = time.process_time()
        work()
        measurements.append(time.process_time() - started)
    return min(measurements)


def triangle(size: int) -> int:
    return size * (size + 1) // 2


def exact(series: int, size: int, sample: int = 512) -> Case:
    """`Exact` for all the series: signatures and their products, one sum, one factorisation.

    The noise is tuned by rank 0 on a sample that is gathered.
    """
    x = 0.2 * torch.randn(sample, LENGTH, CHANNELS, dtype=torch.float64).cumsum(dim=1)
    chosen = words(CHANNELS, size)
    weights = torch.ones(sample, dtype=torch.float64)

    def work() -> None:
        gram_upper(signature(x, words=chosen), weights)

    q = VariationalGaussian(1, size)
    precision = torch.eye(size, dtype=torch.float64)[None] * 2
    natural = NaturalParameters(precision, torch.ones(1, size, dtype=torch.float64))
    sent = 8 * (triangle(size) + size + TUNED * size + 2 * SCORED)
    features, y = torch.randn(TUNED, size, dtype=torch.float64), torch.randn(TUNED, dtype=torch.float64)
    alone = best(lambda: q.set_natural_parameters(natural), 3)
    alone += best(lambda: best_noise(features, y), 1)
    return Case(f"Exact, {series:,} series, M = {size}", series, best(work) / sample, alone, sent, 5, 2)


def natural(series: int, size: int, name: str, sample: int = 1024) -> Case:
    """A natural-gradient step of a softmax model: statistics, products for every class, one factorisation a class."""
    kernel = SignatureKernel(CHANNELS, normalized=True)
    model = SignatureGP(kernel, OrthogonalSignatureFeatures(CHANNELS, size, "lexicographic"), Softmax(CLASSES))
    features = torch.randn(sample, size, dtype=torch.float64) / math.sqrt(2 * size)
    one = torch.ones(sample, dtype=torch.float64)
    seen, y = Projection(features, one, 0.5 * one, 0), torch.arange(sample) % CLASSES
    steps = NaturalGradient(model)
    target = steps.target(steps.statistics([(seen, y)]), sample)

    def work() -> None:
        steps.target(steps.statistics([(seen, y)]), sample)

    sent = 8 * CLASSES * (triangle(size) + size)
    alone = best(lambda: steps.move(target, 0.5), 3)
    return Case(f"{name}, {series:,} series, M = {size}", series, best(work, 3) / sample, alone, sent, 2, 2)


def draw(cases: list[Case], path: Path) -> None:
    import matplotlib as mpl  # noqa: PLC0415 - the numbers need no picture

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(1, len(NETWORKS), figsize=(10, 4), sharey=True, layout="constrained")
    for axis, (network, speeds) in zip(axes, NETWORKS.items(), strict=True):
        for case in cases:
            axis.plot(RANKS, [case.seconds(1, *speeds) / case.seconds(k, *speeds) for k in RANKS], label=case.name)
        axis.plot(RANKS, RANKS, color="grey", linestyle=":", label="ranks")
        axis.set(xscale="log", yscale="log", xlabel="ranks", title=network)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("times as fast as one rank")
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path(__file__).resolve().parents[1] / "docs")
    output: Path = parser.parse_args().output
    torch.manual_seed(0)
    torch.set_num_threads(1)
    cases = [
        exact(10_000_000, 1000),
        exact(1_000_000, 1000),
        natural(60_000, 500, "Natural step on all"),
        natural(1024, 500, "Natural minibatch"),
    ]
    table = {
        network: {case.name: {k: case.seconds(k, *speeds) for k in RANKS} for case in cases}
        for network, speeds in NETWORKS.items()
    }
    facts = {"cases": [asdict(case) for case in cases], "seconds": table}
    (output / "ranks.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    draw(cases, output / "ranks.png")
    for case in cases:
        costs = f"{1e6 * case.per_series:.0f} µs a series, {case.per_rank:.3f} s a rank"
        print(f"{case.name}: {costs}, {case.bytes / 1e6:.1f} MB a step")
        for network, speeds in NETWORKS.items():
            row = [f"{k}: {case.seconds(1, *speeds) / case.seconds(k, *speeds):.1f}" for k in (10, 100, 1000)]
            print(f"  {network}: times as fast with {', '.join(row)} ranks")


if __name__ == "__main__":
    main()
