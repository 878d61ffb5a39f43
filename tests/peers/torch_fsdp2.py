#!/usr/bin/env python3
"""Measures the performance of torch on the fully sharded steps of bench_train_step: FSDP2 with each block compiled.

Uses bf16 with f32 masters, fused AdamW, clipping, random weights and tokens. Gradients are reduced in f32 as in bench_train_step
(--reduce=bf16: with half of the bytes). --masters=bf16: parameters, gradients and moments in bf16, rounded to nearest.
--offload: masters, gradients and moments in page-locked memory of the host, where the fused AdamW of the CPU updates them.

    NCCL_NVLS_ENABLE=0 torchrun --nproc-per-node=2 tests/peers/torch_fsdp2.py qwen2_7b

Prints one line in the terms of bench_train_step: medians over single steps of rank 0.
"""

import argparse
import os
import statistics

import torch
import torch.nn.functional as F
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.utils.checkpoint import checkpoint

MODELS = {  # layers, hidden, heads, kv_heads, intermediate, vocab, bias of q, k and v
    "qwen2_7b": (28, 3584, 28, 4, 18944, 152064, True),
    "qwen2_7b_8_layers": (8, 3584, 28, 4, 18944, 152064, True),
    "llama_8b": (32, 4096, 32, 8, 14336, 128256, False),
    "llama_8b_8_layers": (8, 4096, 32, 8, 14336, 128256, False),
}
HEAD = 128


def rotated(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Block(torch.nn.Module):
    def __init__(self, hidden, heads, kv_heads, intermediate, bias):
        super().__init__()
        self.widths = [heads * HEAD, kv_heads * HEAD, kv_heads * HEAD]
        self.norm1, self.norm2 = torch.nn.RMSNorm(hidden, eps=1e-6), torch.nn.RMSNorm(hidden, eps=1e-6)
        self.qkv = torch.nn.Linear(hidden, sum(self.widths), bias=bias)
        self.o = torch.nn.Linear(heads * HEAD, hidden, bias=False)
        self.gate_up = torch.nn.Linear(hidden, 2 * intermediate, bias=False)
        self.down = torch.nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q, k, v = (part.view(b, t, -1, HEAD).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(self.widths, 2))
        attended = F.scaled_dot_product_attention(rotated(q, cos, sin), rotated(k, cos, sin), v, is_causal=True,
                                                  enable_gqa=True)
        x = x + self.o(attended.transpose(1, 2).reshape(b, t, -1))
        gate, up = self.gate_up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Decoder(torch.nn.Module):
    def __init__(self, layers, hidden, heads, kv_heads, intermediate, vocab, bias):
        super().__init__()
        self.embedding = torch.nn.Embedding(vocab, hidden)
        self.blocks = torch.nn.ModuleList(Block(hidden, heads, kv_heads, intermediate, bias) for _ in range(layers))
        self.norm, self.head = torch.nn.RMSNorm(hidden, eps=1e-6), torch.nn.Linear(hidden, vocab, bias=False)

    def forward(self, tokens, cos, sin, recompute=False):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, cos, sin, use_reentrant=False) if recompute else block(x, cos, sin)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--reduce", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--masters", choices=["f32", "bf16"], default="f32")
    parser.add_argument("--offload", action="store_true", help="keep the state on the host")
    parser.add_argument("--recompute", action="store_true", help="keep only the input of each block")
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.distributed.init_process_group("cpu:gloo,cuda:nccl", device_id=torch.device("cuda", rank))
    torch.manual_seed(1)
    vocab = MODELS[options.model][5]
    with torch.device("meta"):
        model = Decoder(*MODELS[options.model])
    if options.masters == "bf16":
        model.to(torch.bfloat16)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                  reduce_dtype=torch.float32 if options.reduce == "f32" else torch.bfloat16)
    offload = CPUOffloadPolicy() if options.offload else OffloadPolicy()
    for block in model.blocks:
        block.compile()
        fully_shard(block, mp_policy=policy, offload_policy=offload)
    fully_shard(model, mp_policy=policy, offload_policy=offload)
    model.to_empty(device="cpu" if options.offload else "cuda")
    for name, parameter in model.named_parameters():
        values = torch.nn.init.normal_(torch.empty(parameter.to_local().shape, device="cuda"), std=0.02)
        parameter.to_local().detach().copy_(torch.ones_like(values) if "norm" in name else values)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, fused=True)
    loss_of = torch.compile(lambda logits, wanted: F.cross_entropy(logits.view(-1, vocab).float(), wanted.view(-1)))

    angles = torch.outer(torch.arange(options.seq), 1e6 ** (-torch.arange(0, HEAD, 2) / HEAD)).cuda()
    cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
    inputs, targets = (torch.randint(vocab, (options.batch, options.seq), device="cuda") for _ in range(2))
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for index in range(options.warmup + options.steps):
        begin.record()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(model(inputs, cos, sin, options.recompute), targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        end.record()
        end.synchronize()
        if index >= options.warmup:
            times.append(begin.elapsed_time(end))
    if rank == 0:
        step_ms = statistics.median(times)
        print(f"torch {torch.__version__} FSDP2, blocks compiled, reduced in {options.reduce}, masters {options.masters}"
              f"{', blocks recomputed' if options.recompute else ''}{', state on the host' if options.offload else ''}, {options.model} batch {options.batch} x {options.seq}: "
              f"{options.batch * options.seq / step_ms * 1e3:.0f} tokens/s per GPU, "
              f"step {step_ms:.1f} ms, peak {torch.cuda.max_memory_reserved() / 1e9:.1f} GB, loss {loss.item():.3f}")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
