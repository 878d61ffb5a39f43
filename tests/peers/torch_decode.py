#!/usr/bin/env python3
"""Measures the decode of bench_decode with torch.compile and a CUDA graph on one GPU, alone or alternating with it.

One token of each sequence passes through all layers of one GPU's part of a model: RMSNorm, rotations of queries and keys, static
keys and values, SwiGLU, and the logits. The sums between GPUs are left out. All layers have weights of their own. The layer is
compiled once, and the token is captured as one CUDA graph. In fp8, weights have one scale factor for each row. One sequence
multiplies them after a conversion in the compiled kernel, more sequences by torch._scaled_mm with quantized inputs.

    python3 tests/peers/torch_decode.py [--model=llama_70b] [--share=8] [--dtype=bf16] [--batch=1] [--context=4096]
    python3 tests/peers/torch_decode.py --beside build/bench

Prints key, ms, tokens/s, GB/s of weights; with --beside: key, ms of torch before, of the benchmark, of torch after, and the mean of both
torch values divided by the benchmark.
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

# layers, hidden, heads, heads of keys and values, intermediate, vocabulary, biases of q, k and v
MODELS = {"llama_70b": (80, 8192, 64, 8, 28672, 128256, False), "llama_405b": (126, 16384, 128, 8, 53248, 128256, False),
          "qwen2_7b": (28, 3584, 28, 4, 18944, 152064, True)}
HEAD = 128
LARGEST = 448.0
TOKENS, WARM_UPS = 20, 5


def quantized(x):
    """Returns rows in e4m3, and one factor for each."""
    scale = (x.abs().amax(dim=-1, keepdim=True).float() / LARGEST).clamp(min=2.0 ** -126)
    return (x.float() / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn), scale


def linear(x, weight):
    if isinstance(weight, torch.Tensor):
        return F.linear(x, weight)
    values, scale = weight
    if x.shape[0] == 1:
        return F.linear(x, values.to(torch.bfloat16)) * scale.t().to(torch.bfloat16)
    rows, factors = quantized(x)
    return torch._scaled_mm(rows, values.t(), scale_a=factors, scale_b=scale.t(), out_dtype=torch.bfloat16, use_fast_accum=True)


def norm(x, gain):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * gain


def rotate(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), dim=-1)


def layer(x, weights, keys, values, position, cosine, sine):
    """Adds one layer to x. The queries that share a head of keys and values are rows of one attention without a mask."""
    norm1, qkv, bias, o, norm2, gate_up, down = weights
    batch, kv = keys.shape[0], keys.shape[1]
    projected = linear(norm(x, norm1), qkv)
    if bias is not None:
        projected = projected + bias
    heads = projected.shape[1] // HEAD - 2 * kv
    q, k, v = projected.view(batch, -1, HEAD).split((heads, kv, kv), dim=1)
    keys[:, :, position] = rotate(k, cosine, sine)
    values[:, :, position] = v
    attended = F.scaled_dot_product_attention(rotate(q, cosine, sine).view(batch, kv, heads // kv, HEAD), keys, values)
    x = x + linear(attended.reshape(batch, -1), o)
    gate, up = linear(norm(x, norm2), gate_up).chunk(2, dim=-1)
    return x + linear(F.silu(gate) * up, down)


class Token:
    def __init__(self, options):
        self.options = options
        self.layers, self.hidden, heads, kv, wide, vocab, self.biases = MODELS[options.model]
        self.heads, self.kv, self.wide, self.vocab = (size // options.share for size in (heads, kv, wide, vocab))
        self.key = f"decode/model:{options.model}/dtype:{options.dtype}/batch:{options.batch}/context:{options.context}"
        self.key += f"/share:{options.share}" if options.share > 1 else ""
        per_layer = self.hidden * ((2 * self.heads + 2 * self.kv) * HEAD + 3 * self.wide)
        self.bytes = (self.layers * per_layer + self.hidden * self.vocab) * (1 if options.dtype == "fp8" else 2)

    def weight(self, rows, columns):
        plain = torch.randn(rows, columns, device="cuda", dtype=torch.bfloat16) * columns ** -0.5
        return quantized(plain) if self.options.dtype == "fp8" else plain

    @torch.no_grad()
    def torch_ms(self):
        options, ones = self.options, torch.ones(self.hidden, device="cuda", dtype=torch.bfloat16)
        width = (self.heads + 2 * self.kv) * HEAD
        weights = [(ones, self.weight(width, self.hidden),
                    torch.randn(width, device="cuda", dtype=torch.bfloat16) if self.biases else None,
                    self.weight(self.hidden, self.heads * HEAD), ones, self.weight(2 * self.wide, self.hidden),
                    self.weight(self.hidden, self.wide)) for _ in range(self.layers)]
        head = self.weight(self.vocab, self.hidden)
        table = torch.randn(self.vocab, self.hidden, device="cuda", dtype=torch.bfloat16)
        shape = (self.layers, options.batch, self.kv, options.context, HEAD)
        keys, values = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        tokens = torch.arange(options.batch, device="cuda")
        angles = (options.context - 1) * 5e5 ** -(torch.arange(HEAD // 2, device="cuda") * 2 / HEAD)
        cosine, sine = angles.cos().bfloat16(), angles.sin().bfloat16()
        compiled = torch.compile(layer)
        last = torch.compile(lambda x: linear(norm(x, ones), head))

        def token():
            x = table[tokens]
            for l in range(self.layers):
                x = compiled(x, weights[l], keys[l], values[l], options.context - 1, cosine, sine)
            return last(x)

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                token()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            token()
        taken = []
        for i in range(WARM_UPS + TOKENS):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if i >= WARM_UPS:
                taken.append(begin.elapsed_time(end))
        del graph, compiled, last, weights, head, table, keys, values, token
        torch.cuda.empty_cache()
        return statistics.median(taken)

    def our_ms(self, folder):
        """Returns the time from a process of bench_decode, which ends before this returns."""
        with tempfile.TemporaryDirectory() as scratch:
            out = os.path.join(scratch, "result.json")
            run = subprocess.run([os.path.join(folder, "bench_decode"), f"--benchmark_filter=^{self.key}$",
                                  f"--benchmark_out={out}"], check=False, capture_output=True, text=True)
            if run.returncode != 0:
                sys.exit(f"bench_decode ended with exit code {run.returncode} at {self.key}:\n{run.stderr}")
            with open(out, encoding="ascii") as file:
                return next(row["token_ms"] for row in json.load(file)["benchmarks"] if "token_ms" in row)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=MODELS, default="llama_70b")
    parser.add_argument("--share", type=int, default=8)
    parser.add_argument("--dtype", choices=("bf16", "fp8"), default="bf16")
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--beside", metavar="FOLDER", help="of bench_decode")
    options = parser.parse_args()
    measured = Token(options)
    before = measured.torch_ms()
    if options.beside is None:
        print(f"{measured.key} {before:.3f} ms {options.batch / before * 1e3:.1f} tokens/s "
              f"{measured.bytes / before / 1e6:.0f} GB/s of weights", flush=True)
        return
    ours, after = measured.our_ms(options.beside), measured.torch_ms()
    print(f"{measured.key} {before:.3f} {ours:.3f} {after:.3f} ms {(before + after) / 2 / ours:.3f}", flush=True)


if __name__ == "__main__":
    main()
