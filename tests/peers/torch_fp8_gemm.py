#!/usr/bin/env python3
"""Measures the products of torch with 8-bit inputs under sustained load on this GPU, as bench_gemm does with load:sustained.

    python3 tests/peers/torch_fp8_gemm.py [--device N] [--filter REGEX] [--seconds 3]
    python3 tests/peers/torch_fp8_gemm.py --beside build/bench [--device N] [--filter REGEX]

Prints one line per key. Alone: key, TFLOPS. With --beside: key, torch before, the benchmark, torch after, and the benchmark
divided by the mean of both torch values. Both programs multiply for 3 s without a pause, and the value is the median of samples of
about a millisecond. Random normal data, rounded to the type; output bf16, int32 for int8.
"""
import argparse
import os
import re
import statistics
import sys
import time

import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from torch_gemm_hbm import Figure, integers, randn, seconds  # noqa: E402

SIZE = 8192


def scaled(m, n, k, scaling, fast):
    """Makes an fp8 product. Scale factors are between 1 and 2: one for a tensor, for each row, or for each block of 128."""
    a, b = randn(m, k, torch.float8_e4m3fn), randn(n, k, torch.float8_e4m3fn)

    def factors(*shape):
        return 1 + torch.rand(*shape, device="cuda")
    scale_a, scale_b = {"tensor": lambda: (factors(()), factors(())),
                        "row": lambda: (factors(m, 1), factors(1, n)),
                        "block128": lambda: (factors(k // 128, m).t(), factors(n // 128, k // 128).t())}[scaling]()
    return lambda: torch._scaled_mm(a, b.t(), scale_a=scale_a, scale_b=scale_b, out_dtype=torch.bfloat16,
                                    use_fast_accum=fast)


class Sustained(Figure):
    """A product under sustained load: its key in bench_gemm, and torch's operation."""

    def __init__(self, key, prepare, duration):
        super().__init__("gemm", f"gemm/{key}/load:sustained", prepare, 2 * SIZE ** 3 / 1e12, "tflops")
        self.duration = duration

    def torch(self):
        operation = self.prepare()
        seconds(operation, 20)
        taken, begin = [], time.monotonic()
        while time.monotonic() - begin < self.duration:
            taken.append(seconds(operation, 2))
        del operation
        torch.cuda.empty_cache()
        return self.work / statistics.median(taken)


def figures(duration):
    def add(key, prepare):
        return Sustained(key, prepare, duration)

    shape = f"m:{SIZE}/n:{SIZE}/k:{SIZE}"
    for scaling in ("tensor", "row", "block128"):
        for fast in (True, False):
            if scaling == "block128" and fast:
                continue
            key = f"dtype:fp8_e4m3/{shape}" + ("" if fast else "/accumulate:exact")
            key += "" if scaling == "tensor" else f"/scale:{scaling}"
            yield add(key, lambda s=scaling, f=fast: scaled(SIZE, SIZE, SIZE, s, f))
    yield add(f"dtype:int8/{shape}", lambda: integers(SIZE, SIZE, SIZE))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=int, help="its number; ours gets it by CUDA_VISIBLE_DEVICES")
    parser.add_argument("--filter", default="", help="regular expression")
    parser.add_argument("--seconds", type=float, default=3, help="of load for each key")
    parser.add_argument("--beside", metavar="FOLDER", help="of bench_gemm")
    arguments = parser.parse_args()
    if arguments.device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(arguments.device)  # read at torch's first CUDA call

    for figure in figures(arguments.seconds):
        if not re.search(arguments.filter, figure.key):
            continue
        try:
            before = figure.torch()
        except (RuntimeError, ValueError) as reason:
            print(f"{figure.key} torch cannot: {str(reason).splitlines()[0]}", flush=True)
            continue
        if arguments.beside is None:
            print(f"{figure.key} {before:.1f} {figure.unit}", flush=True)
            continue
        ours, after = figure.ours(arguments.beside), figure.torch()
        ratio = 2 * ours / (before + after)
        print(f"{figure.key} {before:.1f} {ours:.1f} {after:.1f} {figure.unit} {ratio:.3f}", flush=True)


if __name__ == "__main__":
    main()
