#!/usr/bin/env python3
"""What torch reaches on this GPU, in the terms of bench_gemm and bench_hbm, for a comparison in the same run.

    python3 tests/peers/torch_gemm_hbm.py [--device N] [--filter REGEX]

One line per figure: name, median of 20 single launches, 20 launches back to back, unit. Random normal data.
"""
import argparse
import re
import statistics

import torch

LAUNCHES = 20


def seconds(operation, launches):
    """Seconds of one of `launches` operations queued back to back, by events."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(launches):
        operation()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) * 1e-3 / launches


def report(name, operation, work, unit):
    """Prints the rate of `work` units per operation, after a warm-up."""
    seconds(operation, 5)
    single = statistics.median(seconds(operation, 1) for _ in range(LAUNCHES))
    together = seconds(operation, LAUNCHES)
    print(f"{name} {work / single:.1f} {work / together:.1f} {unit}", flush=True)


def randn(rows, columns, dtype):
    return torch.randn(rows, columns, device="cuda").to(dtype)


def scaled(m, n, k):
    """fp8 with unit scales, bf16 out, fast accumulation; B column after column, as the tensor cores ask for."""
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


def linear(dtype):
    """The layer of a model, x W^T: B column after column."""
    def prepare(m, n, k):
        a, b = randn(m, k, dtype), randn(n, k, dtype)
        c = torch.empty(m, n, device="cuda", dtype=dtype)
        return lambda: torch.matmul(a, b.t(), out=c)
    return prepare


def gemm(prepare, name, m, n, k, wanted):
    key = f"gemm/dtype:{name}/m:{m}/n:{n}/k:{k}"
    if wanted(key):
        report(key, prepare(m, n, k), 2 * m * n * k / 1e12, "tflops")


def copy(size, wanted):
    key = f"hbm/op:copy/bytes:{size}"
    if not wanted(key):
        return
    source = torch.randn(size // 4, device="cuda")
    target = torch.empty_like(source)
    report(key, lambda: target.copy_(source), 2 * size / 1e9, "hbm_gbps")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=int, default=0)
    parser.add_argument("--filter", default="dtype:(bf16|f32)/m:(4096|8192)/n:(4096|8192)/k|hbm", help="regular expression")
    arguments = parser.parse_args()
    torch.cuda.set_device(arguments.device)

    def wanted(key):
        return re.search(arguments.filter, key) is not None

    types = {"bf16": plain(torch.bfloat16), "f16": plain(torch.float16), "tf32": plain(torch.float32, tf32=True),
             "f32": plain(torch.float32), "f64": plain(torch.float64), "fp8_e4m3": scaled, "int8": integers}
    for name, prepare in types.items():
        for size in (4096, 8192, 16384):
            gemm(prepare, name, size, size, size, wanted)
    for name, prepare in {"bf16": linear(torch.bfloat16), "fp8_e4m3": scaled}.items():
        for n, k in ((4608, 3584), (3584, 3584), (37888, 3584), (3584, 18944)):
            gemm(prepare, name, 8192, n, k, wanted)
    for size in (1 << 30, 4 << 30):
        copy(size, wanted)


if __name__ == "__main__":
    main()
