"""How near the kernel's inner loops are to the processor's limit: arithmetic instructions a cycle, beside the peak.

    python benchmarks/limit.py

Compiles limit.cpp (AVX-512 only), counts the vector arithmetic instructions of the innermost loops in its machine code,
and divides by the time a vector of cells takes. The rest of a cell (its share of the products over channels, loads and
stores) is not counted, so the figures are a little low. Cycles are those of the time-stamp counter, for both sides.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CORE = HERE.parent / "csrc"
FLAGS = ["-std=gnu++20", "-O3", "-ffp-contract=fast", "-fno-math-errno", "-fno-trapping-math", "-Wno-psabi"]
AVX512 = ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma", "-mprefer-vector-width=512"]
ARITHMETIC = re.compile(r"v(fn?m(add|sub)\d+|add|sub|mul)pd")


def arithmetic(listing: str) -> dict[tuple[int, str], int]:
    """Vector arithmetic of the innermost long loop of every function: (degree, name) -> instructions."""
    counts: dict[tuple[int, str], int] = {}
    for function in re.split(r"\n(?=[0-9a-f]{16} <)", listing):
        head, _, body = function.partition("\n")
        name = re.search(r"DiagonalGrid<double, (\d), \d>::(sweep<true>|sweep<false>|reverse_row)", head)
        if not name:
            continue
        lines = [re.match(r"\s+([0-9a-f]+):\s+(\S+)\s*(.*)", line) for line in body.splitlines()]
        code = [(int(line[1], 16), line[2], line[3]) for line in lines if line]
        place = {address: index for index, (address, _, _) in enumerate(code)}
        loops = []
        for index, (address, operation, operands) in enumerate(code):
            target = re.match(r"([0-9a-f]+)", operands) if operation.startswith("j") else None
            if target and int(target[1], 16) < address and int(target[1], 16) in place:
                loop = code[place[int(target[1], 16)] : index]
                loops.append((len(loop), sum(1 for _, op, args in loop if ARITHMETIC.match(op) and "zmm" in args)))
        counts[int(name[1]), name[2]] = min(loop for loop in loops if loop[1] >= 8)[1]
    return counts


def main() -> None:
    if "avx512dq" not in Path("/proc/cpuinfo").read_text():
        sys.exit("this processor has no AVX-512, which the measurement is written for")
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "limit"
        sources = [str(HERE / "limit.cpp"), str(CORE / "memory.cpp")]
        subprocess.run(["g++", *FLAGS, *AVX512, f"-I{CORE}", *sources, "-o", str(program)], check=True)
        listing = subprocess.run(
            ["objdump", "-d", "-C", "--no-show-raw-insn", str(program)], check=True, capture_output=True, text=True
        ).stdout
        peak, *grids = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout.splitlines()
    counts = arithmetic(listing)
    print(f"peak: {float(peak):.2f} vector multiply-adds a cycle\n")
    print("| degree | segments, channels | pass | cycles for 8 cells | arithmetic | a cycle | of the peak |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for line in grids:
        degree, steps, channels, gradient, cycles = line.split()
        number = counts[int(degree), "sweep<true>" if gradient == "1" else "sweep<false>"] + int(channels)
        if gradient == "1":
            number += counts[int(degree), "reverse_row"] + 3 * int(channels)
        rate = number / float(cycles)
        what = "value + gradient" if gradient == "1" else "value"
        print(
            f"| {degree} | {steps}, {channels} | {what} | {float(cycles):.1f} | {number} | {rate:.2f} | "
            f"{100 * rate / float(peak):.0f} % |"
        )


if __name__ == "__main__":
    main()
