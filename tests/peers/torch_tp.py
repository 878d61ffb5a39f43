#!/usr/bin/env python3
"""Measures the performance of torch on train_step/model:qwen2_7b_8_layers/tp:N, forward and backward.

Uses DTensor's tensor parallelism with sequence parallelism and a vocabulary-parallel loss, each block compiled, all in bf16, with
random weights and tokens.

    NCCL_NVLS_ENABLE=0 torchrun --nproc-per-node=2 tests/peers/torch_tp.py

Prints one line: medians over single steps of the slowest rank, first with each GPU alone, then with all together, and the scaling
efficiency. Compare with forward_ms and backward_ms of bench_train_step.
"""

import argparse
import contextlib
import os
import statistics

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               loss_parallel, parallelize_module)

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD, INTERMEDIATE, VOCAB = 8, 3584, 28, 4, 128, 18944, 152064


def rotated(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.q = torch.nn.Linear(HIDDEN, HEADS * HEAD)
        self.k, self.v = (torch.nn.Linear(HIDDEN, KV_HEADS * HEAD) for _ in range(2))
        self.o = torch.nn.Linear(HEADS * HEAD, HIDDEN, bias=False)

    def forward(self, x, cos, sin):
        # With several ranks, each has some of the heads and all of their tokens.
        q, k, v = (y.unflatten(-1, (-1, HEAD)).transpose(1, 2) for y in (self.q(x), self.k(x), self.v(x)))
        attended = F.scaled_dot_product_attention(rotated(q, cos, sin), rotated(k, cos, sin), v, is_causal=True,
                                                  enable_gqa=True)
        return self.o(attended.transpose(1, 2).flatten(2))


class MLP(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = (torch.nn.Linear(HIDDEN, INTERMEDIATE, bias=False) for _ in range(2))
        self.down = torch.nn.Linear(INTERMEDIATE, HIDDEN, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = (torch.nn.RMSNorm(HIDDEN, eps=1e-6) for _ in range(2))
        self.attention, self.mlp = Attention(), MLP()

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        return x + self.mlp(self.norm2(x))


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(VOCAB, HIDDEN)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = torch.nn.RMSNorm(HIDDEN, eps=1e-6), torch.nn.Linear(HIDDEN, VOCAB, bias=False)

    def forward(self, tokens, cos, sin):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


# Between a row-wise and a column-wise projection, each rank has some of the tokens (dimension 1).
ENDS = {
    "embedding": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
    "norm": SequenceParallel(),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
}
BLOCK = {
    "norm1": SequenceParallel(),
    "attention": PrepareModuleInput(input_layouts=(Shard(1), None, None),
                                    desired_input_layouts=(Replicate(), None, None)),
    "attention.q": ColwiseParallel(),
    "attention.k": ColwiseParallel(),
    "attention.v": ColwiseParallel(),
    "attention.o": RowwiseParallel(output_layouts=Shard(1)),
    "norm2": SequenceParallel(),
    "mlp": PrepareModuleInput(input_layouts=(Shard(1),), desired_input_layouts=(Replicate(),)),
    "mlp.gate": ColwiseParallel(),
    "mlp.up": ColwiseParallel(),
    "mlp.down": RowwiseParallel(output_layouts=Shard(1)),
}


def measured(options, mesh):
    """Returns the milliseconds of forward and backward on the slowest rank, and the loss; on one GPU if there is no mesh."""
    torch.manual_seed(1)
    torch.compiler.reset()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with torch.device("meta"):
        model = Decoder().bfloat16()
    if mesh is not None:
        parallelize_module(model, mesh, ENDS)
        for block in model.blocks:
            parallelize_module(block, mesh, BLOCK)
    for block in model.blocks:
        block.compile()
    model.to_empty(device="cuda")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            torch.nn.init.ones_(parameter) if "norm" in name else torch.nn.init.normal_(parameter, std=0.02)

    def loss_of(logits, wanted):
        return F.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())

    if not options.eager_loss:
        loss_of = torch.compile(loss_of)
    angles = torch.outer(torch.arange(options.seq), 1e6 ** (-torch.arange(0, HEAD, 2) / HEAD)).cuda()
    cos, sin = angles.cos().bfloat16(), angles.sin().bfloat16()
    torch.manual_seed(2)  # the same tokens on all ranks
    inputs, targets = (torch.randint(VOCAB, (options.batch, options.seq), device="cuda") for _ in range(2))
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for index in range(options.warmup + options.steps):
        model.zero_grad(set_to_none=True)
        dist.barrier()
        begin.record()
        with loss_parallel() if mesh is not None else contextlib.nullcontext():
            loss = loss_of(model(inputs, cos, sin), targets)
            loss.backward()
        end.record()
        end.synchronize()
        if index >= options.warmup:
            times.append(begin.elapsed_time(end))
    slowest = torch.tensor(statistics.median(times), device="cuda")
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    loss = loss.full_tensor() if hasattr(loss, "full_tensor") else loss
    return slowest.item(), loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--warmup", type=int, default=8)
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--eager-loss", action="store_true", help="where the loss by vocabulary cannot be compiled")
    options = parser.parse_args()
    rank, ranks = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    alone, loss_alone = measured(options, None)
    together, loss_together = measured(options, init_device_mesh("cuda", (ranks,)))
    if rank == 0:
        print(f"torch {torch.__version__} DTensor TP with sequence parallel, blocks compiled, {LAYERS} layers of "
              f"Qwen2-7B, batch {options.batch} x {options.seq}, forward and backward: one GPU {alone:.1f} ms, {ranks} GPUs "
              f"{together:.1f} ms, efficiency {alone / ranks / together:.3f}, peak "
              f"{torch.cuda.max_memory_reserved() / 1e9:.1f} GB, losses {loss_alone:.3f} and {loss_together:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
