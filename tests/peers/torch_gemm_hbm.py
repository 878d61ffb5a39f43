#!/usr/bin/env python3
"""What torch reaches on this GPU, in the terms of bench_gemm and bench_hbm, for a comparison in the same run.

    python3 tests/peers/torch_gemm_hbm.py [--device N]

One line per figure: name, median of 20 single launches, 20 launches back to back, unit. Random normal data.
"""
import argparse
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


def gemm(dtype, name, size):
    a = torch.randn(size, size, device="cuda", dtype=dtype)
    b = torch.randn(size, size, device="cuda", dtype=dtype)
    c = torch.empty(size, size, device="cuda", dtype=dtype)
    report(f"gemm/dtype:{name}/m:{size}/n:{size}/k:{size}", lambda: torch.matmul(a, b, out=c), 2 * size**3 / 1e12,
           "tflops")


def copy(size):
    source = torch.randn(size // 4, device="cuda")
    target = torch.empty_like(source)
    report(f"hbm/op:copy/bytes:{size}", lambda: target.copy_(source), 2 * size / 1e9, "hbm_gbps")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=int, default=0)
    torch.cuda.set_device(parser.parse_args().device)
    torch.backends.cuda.matmul.allow_tf32 = False
    for size in (4096, 8192):
        gemm(torch.bfloat16, "bf16", size)
        gemm(torch.float32, "f32", size)
    for size in (1 << 30, 4 << 30):
        copy(size)


if __name__ == "__main__":
    main()
