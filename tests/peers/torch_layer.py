#!/usr/bin/env python3
"""Measures the forward pass of bench_layer with torch.compile on one GPU, in bf16 and in fp8, alone or alternating with it.

The layer is x + attention, then + MLP, each after a LayerNorm, with GELU by tanh and without biases. In fp8, the four products are
torch._scaled_mm with one scale factor for each row and fast accumulation. The weights are quantized before, as in inference; the
inputs are quantized in the compiled graph.

    python3 tests/peers/torch_layer.py [--mask=none] [--batch=32] [--seq=4096]
    python3 tests/peers/torch_layer.py --beside build/bench

Prints one line per type: key, ms, tokens/s, TFLOPS; with --beside: key, ms of torch before, of the benchmark, of torch after, and
the mean of both torch values divided by the benchmark.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import torch
import torch.nn.functional as F

HIDDEN, HEADS = 8192, 64
LARGEST = 448.0
PASSES, WARM_UPS = 10, 5


def quantized(x):
    """Returns rows in e4m3, and one factor for each."""
    scale = (x.abs().amax(dim=-1, keepdim=True).float() / LARGEST).clamp(min=2.0 ** -126)
    return (x.float() / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn), scale


class Layer(torch.nn.Module):
    def __init__(self, fp8, causal):
        super().__init__()
        self.fp8, self.causal = fp8, causal
        self.norm1, self.norm2 = torch.nn.LayerNorm(HIDDEN), torch.nn.LayerNorm(HIDDEN)
        self.weights = []
        for rows, columns in ((3 * HIDDEN, HIDDEN), (HIDDEN, HIDDEN), (4 * HIDDEN, HIDDEN), (HIDDEN, 4 * HIDDEN)):
            weight = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) * columns ** -0.5
            self.weights.append(quantized(weight) if fp8 else weight)

    def project(self, x, which):
        weight = self.weights[which]
        if not self.fp8:
            return F.linear(x, weight)
        values, scale = quantized(x)
        return torch._scaled_mm(values, weight[0].t(), scale_a=scale, scale_b=weight[1].t(), out_dtype=torch.bfloat16,
                                use_fast_accum=True)

    def forward(self, x, batch):
        q, k, v = (part.view(batch, -1, HEADS, HIDDEN // HEADS).transpose(1, 2)
                   for part in self.project(self.norm1(x), 0).split(HIDDEN, dim=1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.project(attended.transpose(1, 2).reshape(-1, HIDDEN), 1)
        return x + self.project(F.gelu(self.project(self.norm2(x), 2), approximate="tanh"), 3)


class Pass:
    def __init__(self, fp8, options):
        self.causal = options.mask == "causal"
        self.key = f"layer/model:h8192/dtype:{'fp8' if fp8 else 'bf16'}/batch:{options.batch}/seq:{options.seq}"
        self.key += "" if self.causal else "/mask:none"
        self.fp8, self.options = fp8, options
        self.tokens = options.batch * options.seq
        self.work = self.tokens * (24 * HIDDEN ** 2 + (2 if self.causal else 4) * options.seq * HIDDEN)

    @torch.no_grad()
    def torch_ms(self):
        layer = Layer(self.fp8, self.causal).cuda().bfloat16()
        compiled = torch.compile(layer)
        x = torch.randn(self.tokens, HIDDEN, device="cuda", dtype=torch.bfloat16)
        for _ in range(WARM_UPS):
            compiled(x, self.options.batch)
        taken = []
        for _ in range(PASSES):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            compiled(x, self.options.batch)
            end.record()
            end.synchronize()
            taken.append(begin.elapsed_time(end))
        del layer, compiled, x
        torch.cuda.empty_cache()
        return statistics.median(taken)

    def our_ms(self, folder):
        """Returns the time from a process of bench_layer, which ends before this returns."""
        with tempfile.TemporaryDirectory() as scratch:
            out = os.path.join(scratch, "result.json")
            run = subprocess.run([os.path.join(folder, "bench_layer"), f"--benchmark_filter=^{self.key}$",
                                  f"--benchmark_out={out}"], check=False, capture_output=True, text=True)
            if run.returncode != 0:
                sys.exit(f"bench_layer ended with exit code {run.returncode} at {self.key}:\n{run.stderr}")
            with open(out, encoding="ascii") as file:
                return next(row["forward_ms"] for row in json.load(file)["benchmarks"] if "forward_ms" in row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mask", choices=("causal", "none"), default="causal")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--dtype", choices=("bf16", "fp8"), help="only this type")
    parser.add_argument("--beside", metavar="FOLDER", help="of bench_layer")
    options = parser.parse_args()
    for dtype in ("bf16", "fp8"):
        if options.dtype not in (None, dtype):
            continue
        measured = Pass(dtype == "fp8", options)
        before = measured.torch_ms()
        if options.beside is None:
            print(f"{measured.key} {before:.1f} ms {measured.tokens / before * 1e3:.0f} tokens/s "
                  f"{measured.work / before / 1e9:.0f} TFLOPS", flush=True)
            continue
        ours, after = measured.our_ms(options.beside), measured.torch_ms()
        print(f"{measured.key} {before:.1f} {ours:.1f} {after:.1f} ms {(before + after) / 2 / ours:.3f}", flush=True)


if __name__ == "__main__":
    main()
