"""Time and accuracy of signatures and signature kernels, ourselves against the libraries that are installed.

    python benchmarks/ops.py [--quick] [--only A,D] [--json FILE] [--markdown FILE]

Everything runs in float64 on one core, except where group F says otherwise. Times are the minimum over rounds, all
competitors taking turns in every round. Errors are median relative errors against the references in `_reference.py`.
"""

from __future__ import annotations

import argparse
import copy
import json
import os
import platform
from dataclasses import asdict
from pathlib import Path

import _cases
import _groups
import _native
import _peers
import torch
from _table import Goal, Table, summary_lines

GOALS = {
    "A": Goal("A k(X,X), equal accuracy", 10, 25),
    "B": Goal("B k(X,X) + gradient, equal accuracy", 12, 35),
    "B autograd": Goal("B the same through torch's autograd", 12, 35),
    "C": Goal("C k(X,X), equal scheme, and with gradient", 8, 20),
    "C autograd": Goal("C with gradient, through torch's autograd", 8, 20),
    "D": Goal("D signature", 1.5, 3),
    "D+": Goal("D signature + gradient", 4, 10),
    "E": Goal("E Gram matrix, equal accuracy and equal scheme", 8, 20),
    "G": Goal("G k(X,X) of lifted paths, equal accuracy", 6, 12),
    "G+": Goal("G k(X,X) of lifted paths + gradient, equal accuracy", 6, 12),
    "H": Goal("H cells a second of a Gram against landmarks over those of k(X,X)", 0.7, 1.0),
    "F32": Goal("F float32 over float64", 1.6, 1.9),
    "F2": Goal("F two cores over one", 1.7, 1.9),
    "Fcall": Goal("F one small call", 60, 30, "µs"),
    "Fmemory": Goal("F extra memory of value + gradient", 50, 15, "MB"),
}


_KERNEL_TABLES = {
    "A": [("A", ("value",), f"k(X,X), median relative error at most {_groups.ACCURACY:g}")],
    "B": [
        (
            "B",
            ("slope",),
            f"k(X,X) and its gradient in the path, median relative error of k at most {_groups.ACCURACY:g}",
        ),
        ("B autograd", ("autograd_slope",), "the same through torch's autograd"),
    ],
    "C": [
        (
            "C",
            ("value", "slope"),
            "k(X,X) by the same finite differences, r = 0, without and with the gradient in the path",
        ),
        ("C autograd", ("autograd_slope",), "the same with the gradient, through torch's autograd"),
    ],
}


def kernels(group: str, methods: dict, rounds: int, quick: bool) -> list[Table]:
    """Groups A, B and C: the diagonal of the kernel."""
    ours, peers = methods.get("Ours"), [methods[name] for name in ("Pysiglib", "Sigkernel") if name in methods]
    compare = _groups.equal_scheme if group == "C" else _groups.equal_accuracy
    tables = []
    for key, ways, title in _KERNEL_TABLES[group]:
        table = Table(key, title)
        for how in ways:
            for shape in _cases.KERNEL_SHAPES[: 2 if quick else None]:
                for kind in _cases.KINDS:
                    problem = _groups.diagonal_problem(kind, shape, how)
                    problem.name += "" if how == "value" else " + gradient"
                    compare(problem, ours, peers, rounds, table)
        tables.append(table)
    return tables


def signatures(methods: dict, rounds: int, quick: bool) -> list[Table]:
    """Group D."""
    peers = [peer for peer in methods.values() if hasattr(peer, "signature")]
    tables = [Table("D", "signature"), Table("D+", "signature and its gradient in the path")]
    for table in tables:
        cases = _cases.SIGNATURE_CASES[: 2 if quick else None]
        _groups.signatures(peers, rounds, table.key == "D+", table, cases, _cases.KINDS)
    return tables


def grams(methods: dict, rounds: int) -> list[Table]:
    """Group E."""
    ours, peers = methods.get("Ours"), [methods[name] for name in ("Pysiglib", "Sigkernel") if name in methods]
    table = Table("E", "symmetric Gram matrix, at equal accuracy and by the same finite differences")
    for kind in _cases.KINDS:
        for compare in (_groups.equal_accuracy, _groups.equal_scheme):
            compare(_groups.gram_problem(kind), ours, peers, min(rounds, 3), table)
    return [table]


def lifted(methods: dict, rounds: int, quick: bool) -> list[Table]:
    """Group G."""
    ours, peers = methods.get("Ours"), [copy.copy(methods[name]) for name in ("Pysiglib",) if name in methods]
    for peer in peers:  # its finite differences need more than three refinements here, and minutes for them
        peer.families = (peer.families[0][:4], *peer.families[1:])
    tables = [
        Table("G", "k(X,X) of paths lifted by a static kernel"),
        Table("G+", "the same with its gradient in the path"),
    ]
    for table, how in zip(tables, ("value", "slope"), strict=True):
        for static in _cases.STATIC_KERNELS[: 1 if quick else None]:
            for shape in _cases.KERNEL_SHAPES[: 2 if quick or static != "rbf" else None]:
                for kind in _cases.KINDS:
                    problem = _groups.lifted_problem(kind, shape, static, how)
                    _groups.equal_accuracy(problem, ours, peers, rounds, table)
    return tables


def landmarks(methods: dict, rounds: int) -> list[Table]:
    """Group H."""
    table = Table("H", "k(X,Y) against landmarks, in cells of the grid a nanosecond, beside k(X,X)")
    if "Ours" in methods:
        _native.landmarks(rounds, table, GOALS["H"])
    return [table]


def ourselves(methods: dict, rounds: int, quick: bool) -> list[Table]:
    """Group F."""
    table = Table("F", "ourselves: precision, cores, one small call, memory")
    if "Ours" in methods:
        _native.precision(rounds, table, GOALS["F32"])
        _native.cores(rounds, table, GOALS["F2"])
        _native.small_call(rounds, table, GOALS["Fcall"])
    _native.memory(methods, quick, table, GOALS["Fmemory"])
    return [table]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no large shapes")
    parser.add_argument("--only", default="A,B,C,D,E,F,G,H", metavar="NAME", help="groups to run, such as A or A,D")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write tables and summary as JSON")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write tables and summary as Markdown")
    options = parser.parse_args()
    chosen = options.only.upper().split(",")
    if unknown := set(chosen) - set("ABCDEFGH"):
        parser.error(f"--only names {', '.join(sorted(unknown))}; the groups are A to H")

    torch.set_num_threads(1)
    rounds = 3 if options.quick else 7
    methods, skipped = _peers.load()
    busy = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the start"
    head = [f"{platform.machine()}, torch {torch.__version__}, one core, float64; {busy}", *skipped]
    head.append(f"reference kernel against truncated inner products: {_cases.reference_gap():.0e} apart")
    print("\n".join(head), flush=True)
    tables = []
    for key in chosen:
        if key in "ABC":
            new = kernels(key, methods, rounds, options.quick)
        else:
            new = {
                "D": lambda: signatures(methods, rounds, options.quick),
                "E": lambda: grams(methods, rounds),
                "F": lambda: ourselves(methods, rounds, options.quick),
                "G": lambda: lifted(methods, rounds, options.quick),
                "H": lambda: landmarks(methods, rounds),
            }[key]()
        for table in new:
            print("\n".join(table.lines()), flush=True)
            if table.ratios:
                case, who, ratio = min(table.ratios, key=lambda item: item[2])
                GOALS[table.key].got, GOALS[table.key].where = ratio, f"{case} against {who}"
        tables += new
    goals = [goal for key, goal in GOALS.items() if key[0] in chosen]
    print("\n".join(summary_lines(goals)))
    if options.json:
        result = {"head": head, "tables": [table.as_json() for table in tables], "summary": [asdict(g) for g in goals]}
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    if options.markdown:
        lines = [line for table in tables for line in table.lines(markdown=True)]
        options.markdown.write_text("\n\n".join(head) + "\n" + "\n".join(lines + summary_lines(goals, True)) + "\n")


if __name__ == "__main__":
    main()
