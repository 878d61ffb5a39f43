#!/usr/bin/env python3
"""Measures the performance of torch on the steps of bench_train_step, on one GPU.

The models are GPT-2 124M as in nanoGPT (flash attention, fused AdamW, clipping, bf16 autocast over f32 parameters,
torch.compile), and the encoder as nn.TransformerEncoder. Random weights and tokens, no dropout.

    python3 tests/peers/torch_train_step.py gpt2_124m --batch=32
    python3 tests/peers/torch_train_step.py encoder_163m --batch=8           # --eager: without torch.compile

Prints one line in the terms of bench_train_step: medians over single steps, with clipping and the update.
"""

import argparse
import statistics

import torch
import torch.nn.functional as F

HIDDEN, LAYERS, HEADS, VOCAB = 768, 12, 12, 50304  # 50,257 rounded up as in nanoGPT


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(HIDDEN), torch.nn.LayerNorm(HIDDEN)
        self.qkv, self.o = torch.nn.Linear(HIDDEN, 3 * HIDDEN), torch.nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = torch.nn.Linear(HIDDEN, 4 * HIDDEN), torch.nn.Linear(4 * HIDDEN, HIDDEN)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (part.view(b, t, HEADS, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(HIDDEN, dim=2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, HIDDEN)
        x = x + self.o(attended)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt2(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = torch.nn.Embedding(VOCAB, HIDDEN), torch.nn.Embedding(1024, HIDDEN)
        self.blocks = torch.nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = torch.nn.LayerNorm(HIDDEN), torch.nn.Linear(HIDDEN, VOCAB, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.positions = torch.nn.Embedding(VOCAB, HIDDEN), torch.nn.Embedding(512, HIDDEN)
        layer = torch.nn.TransformerEncoderLayer(HIDDEN, HEADS, 4 * HIDDEN, dropout=0.0, activation="gelu",
                                                 batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.head = torch.nn.Linear(HIDDEN, VOCAB)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens) + self.positions.weight[: tokens.shape[1]]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=["gpt2_124m", "encoder_163m"])
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--eager", action="store_true")
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    seq = 1024 if options.model == "gpt2_124m" else 512
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(1)
    model = (Gpt2() if options.model == "gpt2_124m" else Encoder()).cuda()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.01, fused=True)
    inputs, targets = (torch.randint(VOCAB, (options.batch, seq), device="cuda") for _ in range(2))

    def loss_of(tokens, wanted):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(tokens)
            return F.cross_entropy(logits.view(-1, VOCAB), wanted.view(-1))

    if not options.eager:
        loss_of = torch.compile(loss_of)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for index in range(options.warmup + options.steps):
        begin.record()
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(inputs, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        end.record()
        end.synchronize()
        if index >= options.warmup:
            times.append(begin.elapsed_time(end))
    step_ms = statistics.median(times)
    print(f"torch {torch.__version__} {'eager' if options.eager else 'compiled'} {options.model} batch {options.batch} x {seq}: "
          f"{options.batch * seq / step_ms * 1e3:.0f} tokens/s, step {step_ms:.2f} ms, loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
