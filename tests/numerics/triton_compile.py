"""Compiles the Triton kernels to machine code of a GPU, without one: python triton_compile.py CAPABILITY SCHEME DEPTH.

Prints JSON: for each kernel and dtype the size of its cubin, what was fused, and which float types its code has.
"""

# pyright: reportMissingImports=false

import json
import sys
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from siggpde.numerics import triton as launch
from siggpde.numerics.triton import grid, signature

INDICES = ("x_rows", "y_rows", "starts", "counts", "prefix", "owned", "letter", "first", "last", "level")


def variants(scheme: int, depth: int) -> list[tuple[Any, dict[str, Any]]]:
    """Every kernel with the constants of every way in which it is launched; for depth 0 only one way each."""
    listed = every_variant(scheme, depth or 2)
    return listed if depth else list({kernel: (kernel, constants) for kernel, constants in listed}.values())


def every_variant(scheme: int, depth: int) -> list[tuple[Any, dict[str, Any]]]:
    tile = dict(zip(("SERIES", "ROWS"), launch.tile(1000), strict=True))
    both = (True, False)
    kinds: list[dict[str, Any]] = [{"SYMMETRIC": symmetric, "LOG": log} for symmetric in both for log in both]
    blocks = {"OWN": 16, "OTHER": 32}
    lanes = {"DEPTH": depth, "WORDS": launch.LANES // 16, "SERIES": 16}
    return [
        *(
            (grid.sweep, {"SCHEME": scheme, **kind, "STORE": store, "LIFTED": lifted, **tile})
            for kind in kinds
            for store in (False, True)
            for lifted in (False, True)
        ),
        *((grid.reverse, {"SCHEME": scheme, **kind, **tile}) for kind in kinds),
        *((grid.pull_back, {"ADD": add, **blocks}) for add in (False, True)),
        (grid.pull_back_lifted, blocks),
        *((grid.collect, {"MEAN": mean, "BLOCK": 128}) for mean in (False, True)),
        *((signature.advance, {"STORE": store, **lanes}) for store in (False, True)),
        (signature.retreat, lanes),
        (signature.collect_words, {"SERIES": 16}),
    ]


def compiled(kernel: Any, constants: dict[str, Any], dtype: str, capability: int) -> dict[str, Any]:
    signature = {}
    for parameter in kernel.params:
        name = parameter.name
        if name in constants:
            signature[name] = "constexpr"
        elif parameter.do_not_specialize:
            signature[name] = "i32"
        else:
            signature[name] = "*i64" if name in INDICES else f"*{dtype}"
    made = triton.compile(
        ASTSource(fn=kernel, signature=signature, constexprs=constants),
        target=GPUTarget("cuda", capability, 32),
        options={"num_warps": launch.LANES // 32, "num_stages": 1, "enable_fp_fusion": True},
    )
    code, machine = made.asm["ttir"], made.asm["ptx"]
    return {
        "kernel": kernel.fn.__name__,
        "constants": constants,
        "dtype": dtype,
        "cubin": len(made.asm["cubin"]),
        "target": f".target sm_{capability}" in machine,
        "floats": [name for name in ("f32", "f64") if f"x{name}>" in code],
        "fused": machine.count("fma.rn"),
        "barriers": code.count("barrier"),
    }


if __name__ == "__main__":
    capability, scheme, depth = map(int, sys.argv[1:4])
    print(
        json.dumps(
            [
                compiled(kernel, constants, dtype, capability)
                for kernel, constants in variants(scheme, depth)
                for dtype in sys.argv[4:]
                if dtype == "fp64" or not constants.get("LOG")  # logarithms are taken in float64 alone
            ]
        )
    )
