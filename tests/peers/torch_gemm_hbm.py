#!/usr/bin/env python3
"""Measures the performance of torch on this GPU as bench_gemm and bench_hbm do, alone or alternating with them.

    python3 tests/peers/torch_gemm_hbm.py [--device N] [--filter REGEX]
    python3 tests/peers/torch_gemm_hbm.py --beside build/bench [--device N] [--filter REGEX]

Prints one line per metric. Alone: name, median of samples, unit. With --beside: name, torch before, the benchmark, torch after,
and the benchmark divided by the mean of both torch values. Names are measured one after the other, so that both programs run at
the same GPU temperature. Both load the GPU for 0.15 s, and then take samples of about a millisecond for 55 ms, or 10 samples, with
a rest of 60 ms before every 20 ms. Random normal data.
"""
import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch

TUNING_SECONDS = 0.15
BURST_SECONDS, REST_SECONDS = 0.02, 0.06
SAMPLE_SECONDS, SAMPLES_SECONDS, LEAST_SAMPLES = 1e-3, 1.1 * 0.05, 10
LONG = 5e-3  # an operation of this length is a sample by itself


def seconds(operation, launches):
    """Returns the seconds of one of `launches` operations queued back to back, measured with events."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(launches):
        operation()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / launches


def median_seconds(operation):
    """Returns the seconds of an operation, sampled as in bench_gemm."""
    seconds(operation, 2)
    each = seconds(operation, 2)
    seconds(operation, math.ceil(TUNING_SECONDS / each))
    time.sleep(REST_SECONDS)
    each = seconds(operation, 2)
    batch = 1 if each >= LONG else max(2, int(SAMPLE_SECONDS / each))
    samples = max(LEAST_SAMPLES, math.ceil(SAMPLES_SECONDS / (batch * each)))
    burst = max(1, int(BURST_SECONDS / (batch * each)))
    taken = []
    # A rest after less than a burst is proportionally shorter. With full rests, the GPU would be cooler during products of more
    # than 7 ms than it is in bench_gemm.
    rest = REST_SECONDS * min(1, burst * batch * each / BURST_SECONDS)
    for i in range(samples):
        if i % burst == 0:
            time.sleep(rest if taken else REST_SECONDS)
        taken.append(seconds(operation, batch))
    return statistics.median(taken)


def randn(rows, columns, dtype):
    return torch.randn(rows, columns, device="cuda").to(dtype)


def scaled(m, n, k):
    """Makes an fp8 product with unit scales, bf16 output and fast accumulation; B is column-major, as tensor cores require."""
    a, b = randn(m, k, torch.float8_e4m3fn), randn(n, k, torch.float8_e4m3fn).t()
    one = torch.ones((), device="cuda")
    return lambda: torch._scaled_mm(a, b, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=True)


def integers(m, n, k):
    a = (randn(m, k, torch.float32) * 32).clamp(-127, 127).to(torch.int8)
    b = (randn(n, k, torch.float32) * 32).clamp(-127, 127).to(torch.int8).t()
    return lambda: torch._int_mm(a, b)


def plain(dtype, tf32=False):
    def prepare(m, n, k):
        a, b, c = randn(m, k, dtype), randn(k, n, dtype), torch.empty(m, n, device="cuda", dtype=dtype)

        def multiply():
            torch.backends.cuda.matmul.allow_tf32 = tf32
            torch.matmul(a, b, out=c)
        return multiply
    return prepare


def linear(dtype, tf32=False):
    """Makes the layer of a model, x W^T: B is column-major."""
    def prepare(m, n, k):
        a, b = randn(m, k, dtype), randn(n, k, dtype)
        c = torch.empty(m, n, device="cuda", dtype=dtype)

        def multiply():
            torch.backends.cuda.matmul.allow_tf32 = tf32
            torch.matmul(a, b.t(), out=c)
        return multiply
    return prepare


def copy(size):
    source = torch.randn(size // 4, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


CUBES = (4096, 8192, 16384)
TOKENS = 8192
PROJECTIONS = ((4608, 3584), (3584, 3584), (37888, 3584), (3584, 18944), (10240, 8192), (57344, 8192), (8192, 28672))


class Figure:
    """A rate that both programs measure: bench_FAMILY with this key, and torch with the operation of prepare()."""

    def __init__(self, family, key, prepare, work, unit):
        self.family, self.key, self.prepare, self.work, self.unit = family, key, prepare, work, unit

    def torch(self):
        operation = self.prepare()
        rate = self.work / median_seconds(operation)
        del operation
        torch.cuda.empty_cache()
        return rate

    def ours(self, folder):
        """Returns the rate from a benchmark process, which ends before this returns."""
        with tempfile.TemporaryDirectory() as scratch:
            out = os.path.join(scratch, "result.json")
            bench = os.path.join(folder, f"bench_{self.family}")
            run = subprocess.run([bench, "--tier=full", f"--benchmark_filter=^{self.key}$", f"--benchmark_out={out}"],
                                 check=False, capture_output=True, text=True)
            if run.returncode != 0:
                sys.exit(f"{bench} ended with exit code {run.returncode} at {self.key}:\n{run.stderr}")
            with open(out, encoding="ascii") as file:
                return next(row[self.unit] for row in json.load(file)["benchmarks"] if self.unit in row)


def gemm(name, prepare, m, n, k):
    key = f"gemm/dtype:{name}/m:{m}/n:{n}/k:{k}"
    return Figure("gemm", key, lambda: prepare(m, n, k), 2 * m * n * k / 1e12, "tflops")


def figures():
    """Returns every type and shape of bench_gemm that torch supports, and the copies of bench_hbm."""
    cubes = {"bf16": plain(torch.bfloat16), "f16": plain(torch.float16), "tf32": plain(torch.float32, tf32=True),
             "f32": plain(torch.float32), "f64": plain(torch.float64), "fp8_e4m3": scaled, "int8": integers}
    layers = {"bf16": linear(torch.bfloat16), "f16": linear(torch.float16), "tf32": linear(torch.float32, tf32=True),
              "fp8_e4m3": scaled, "int8": integers}
    for name, prepare in cubes.items():
        for size in CUBES:
            yield gemm(name, prepare, size, size, size)
    for name, prepare in layers.items():
        for n, k in PROJECTIONS:
            yield gemm(name, prepare, TOKENS, n, k)
    for size in (1 << 30, 4 << 30):
        for engine in ("sm", "ce"):
            yield Figure("hbm", f"hbm/op:copy/engine:{engine}/bytes:{size}", lambda s=size: copy(s), 2 * size / 1e9,
                         "hbm_gb_per_s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=int, help="its number; ours gets it by CUDA_VISIBLE_DEVICES")
    parser.add_argument("--filter", default="", help="regular expression")
    parser.add_argument("--beside", metavar="FOLDER", help="of bench_gemm and bench_hbm")
    arguments = parser.parse_args()
    if arguments.device is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = str(arguments.device)  # read at torch's first CUDA call

    for figure in figures():
        if not re.search(arguments.filter, figure.key):
            continue
        before = figure.torch()
        if arguments.beside is None:
            print(f"{figure.key} {before:.1f} {figure.unit}", flush=True)
            continue
        ours, after = figure.ours(arguments.beside), figure.torch()
        ratio = 2 * ours / (before + after)
        print(f"{figure.key} {before:.1f} {ours:.1f} {after:.1f} {figure.unit} {ratio:.3f}", flush=True)


if __name__ == "__main__":
    main()
