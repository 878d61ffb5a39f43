#!/usr/bin/env python3
"""Computes golden values for tests/kernels/transformer/lora_golden_test.cpp with transformers and peft.

These are three LoRA steps of a two-layer Qwen2 in float64.

    python3 tests/peers/golden_lora_step.py > tests/data/lora_golden.txt

Needs torch, transformers and peft, no GPU; takes seconds. The C++ test makes the same weights from the same hash, so the
file only has results: the loss of each step, and a part of the gradient of the first step and of the parameters after the last
step. They are identified by their index in the flat array of the trainable parameters.

For models of any type, transformers computes RMSNorm and the table of rotations in float32. This script replaces both by the
same formulas in float64. Everything else is as installed.
"""

import math

import numpy as np
import peft
import torch
import torch.nn.functional as F
import transformers
from transformers.models.qwen2 import modeling_qwen2

LAYERS, HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INTERMEDIATE, VOCAB = 2, 32, 4, 2, 8, 48, 61
EPS, THETA, RANK, ALPHA, BATCH, SEQ = 1e-6, 100.0, 4, 6, 2, 7
STDDEV = 0.3
LR, STEPS = 0.01, 3
EVERY = 3  # one in this number of values is written

torch.set_default_dtype(torch.float64)


def mix(x):
    """Returns splitmix64 of an array of uint64."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def normal(number, count, stream=0):
    """Returns `count` normal numbers of the tensor with this number: Box-Muller on hashed indices."""
    index = np.uint64(number << 32) + np.arange(count, dtype=np.uint64)
    bits = mix(index ^ np.uint64(stream << 56))
    u = ((mix(bits) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    v = (mix(bits + np.uint64(1)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return torch.from_numpy(np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v))


class RMSNorm(torch.nn.Module):
    def __init__(self, hidden_size, eps=EPS):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(hidden_size))
        self.eps = eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class Rotations(torch.nn.Module):
    def forward(self, x, position_ids):
        frequencies = THETA ** (-torch.arange(0, HEAD_DIM, 2) / HEAD_DIM)
        angles = position_ids[..., None] * frequencies
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos(), angles.sin()


def build():
    modeling_qwen2.Qwen2RMSNorm = RMSNorm
    config = transformers.Qwen2Config(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=INTERMEDIATE, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV_HEADS, head_dim=HEAD_DIM, rms_norm_eps=EPS,
        max_position_embeddings=SEQ, tie_word_embeddings=False, attention_dropout=0.0, use_cache=False,
        attn_implementation="sdpa")  # the eager implementation has its softmax in float32
    model = transformers.Qwen2ForCausalLM(config).double()
    model.model.rotary_emb = Rotations()

    numbers = iter(range(1000, 1 << 20))

    def fill(shape, stddev, stream=0, mean=0.0):
        return mean + stddev * normal(next(numbers), math.prod(shape), stream).reshape(shape)

    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    with torch.no_grad():
        base = model.model
        base.embed_tokens.weight.copy_(fill((VOCAB, HIDDEN), 1.0))
        model.lm_head.weight.copy_(fill((VOCAB, HIDDEN), STDDEV))
        base.norm.weight.copy_(fill((HIDDEN,), 0.3, 1, 1.0))
        for layer in base.layers:
            attention, mlp = layer.self_attn, layer.mlp
            layer.input_layernorm.weight.copy_(fill((HIDDEN,), 0.3, 1, 1.0))
            layer.post_attention_layernorm.weight.copy_(fill((HIDDEN,), 0.3, 1, 1.0))
            projections = (attention.q_proj, attention.k_proj, attention.v_proj)
            for projection, bias in zip(projections, fill((q + 2 * kv,), STDDEV).split([q, kv, kv])):
                projection.bias.copy_(bias)
            for projection, weight in zip(projections, fill((q + 2 * kv, HIDDEN), STDDEV).split([q, kv, kv])):
                projection.weight.copy_(weight)
            attention.o_proj.weight.copy_(fill((HIDDEN, q), STDDEV))
            gate, up = fill((2 * INTERMEDIATE, HIDDEN), STDDEV).split(INTERMEDIATE)
            mlp.gate_proj.weight.copy_(gate)
            mlp.up_proj.weight.copy_(up)
            mlp.down_proj.weight.copy_(fill((HIDDEN, INTERMEDIATE), STDDEV))

    names = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    lora = peft.LoraConfig(r=RANK, lora_alpha=ALPHA, lora_dropout=0.0, target_modules=names, task_type="CAUSAL_LM")
    model = peft.get_peft_model(model, lora, autocast_adapter_dtype=False).double()

    flat = in_backward_order(model)
    with torch.no_grad():
        values = normal(next(numbers), sum(p.numel() for p in flat)) * STDDEV
        for parameter, part in zip(flat, values.split([p.numel() for p in flat])):
            parameter.copy_(part.reshape(parameter.shape))
    return model, flat


def in_backward_order(model):
    """Returns A and B in the order of the flat array: last layer first; down, gate and up, o, then q, k, v; B before A."""
    parameters = dict(model.named_parameters())
    flat = []
    for layer in reversed(range(LAYERS)):
        for group in (("mlp.down_proj",), ("mlp.gate_proj", "mlp.up_proj"), ("self_attn.o_proj",),
                      ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")):
            for which in "BA":
                for module in group:
                    flat.append(parameters[f"base_model.model.model.layers.{layer}.{module}.lora_{which}.default.weight"])
    assert sum(p.numel() for p in flat) == sum(p.numel() for p in model.parameters() if p.requires_grad)
    return flat


def write(kind, values):
    for index in range(0, values.numel(), EVERY):
        print(f"{kind} {index} {values[index].item():.17g}")


def main():
    model, flat = build()
    hashed = mix(np.arange(BATCH * SEQ, dtype=np.uint64))
    inputs = torch.from_numpy((hashed % np.uint64(VOCAB)).astype(np.int64)).reshape(BATCH, SEQ)
    targets = torch.from_numpy(((hashed >> np.uint64(32)) % np.uint64(VOCAB)).astype(np.int64)).reshape(BATCH, SEQ)
    optimizer = torch.optim.AdamW(flat, lr=LR)

    print(f"# torch {torch.__version__}, transformers {transformers.__version__}, peft {peft.__version__}, float64")
    print("# loss STEP VALUE | gradient INDEX VALUE (first step) | parameter INDEX VALUE (after the last)")
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(input_ids=inputs).logits.reshape(-1, VOCAB), targets.reshape(-1))
        loss.backward()
        print(f"loss {step} {loss.item():.17g}")
        if step == 0:
            write("gradient", torch.cat([p.grad.reshape(-1) for p in flat]))
        torch.nn.utils.clip_grad_norm_(flat, 1.0)
        optimizer.step()
    write("parameter", torch.cat([p.detach().reshape(-1) for p in flat]))


if __name__ == "__main__":
    main()
