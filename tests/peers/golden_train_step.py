#!/usr/bin/env python3
"""Computes the losses of train_step on whole models of 7 and 8 billion parameters, with transformers and torch in f32 on one GPU.

The random weights, tokens and updates are those of a measurement. kernels/transformer/step_check.cpp compares the bf16 losses
with these values.

    python3 tests/peers/golden_train_step.py qwen2_7b_8_layers llama_8b_8_layers --batch=2
    python3 tests/peers/golden_train_step.py qwen2_7b llama_8b                      # needs 135 GB
    ... --bf16                                      under autocast, to measure the effect of bf16 on a loss
    ... --layers=2 --seq=64 --batch=1 --cpu         a small model, for any machine

Prints one line for each model: the losses of all steps.
"""

import argparse

import torch
import torch.nn.functional as F
import transformers
from torch.utils.checkpoint import checkpoint

from torch_lora_step import MODULES, UPDATE, fill_normal, number_of, projection, tokens

COMMON = dict(tie_word_embeddings=False, use_cache=False, attn_implementation="sdpa", attention_dropout=0.0)
QWEN2 = dict(hidden_size=3584, num_attention_heads=28, num_key_value_heads=4, head_dim=128, intermediate_size=18944,
             vocab_size=152064, rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=1e6), rope_theta=1e6)
LLAMA = dict(hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, head_dim=128, intermediate_size=14336,
             vocab_size=128256, rms_norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=5e5), rope_theta=5e5)
MODELS = {  # layers, configuration, model
    "qwen2_7b": (28, QWEN2, transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "qwen2_7b_8_layers": (8, QWEN2, transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
    "llama_8b": (32, LLAMA, transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "llama_8b_8_layers": (8, LLAMA, transformers.LlamaConfig, transformers.LlamaForCausalLM),
}
ROWS = 1024  # of logits at a time


def build(name, layers, device):
    of_model, sizes, config, causal = MODELS[name]
    with torch.device(device):
        model = causal(config(num_hidden_layers=layers or of_model, max_position_embeddings=8192, **sizes, **COMMON))
    with torch.no_grad():
        base = model.model
        fill_normal(base.embed_tokens.weight, 0)
        fill_normal(model.lm_head.weight, 1)
        base.norm.weight.fill_(1)
        for index, layer in enumerate(base.layers):
            layer.input_layernorm.weight.fill_(1)
            layer.post_attention_layernorm.weight.fill_(1)
            for module in MODULES:
                fill_normal(projection(layer, module).weight, number_of("weight", index, module))
            if layer.self_attn.q_proj.bias is None:
                continue
            widths = [projection(layer, module).out_features for module in "qkv"]
            bias = torch.empty(sum(widths), device=device)
            fill_normal(bias, number_of("bias", index))
            for module, part in zip("qkv", bias.split(widths)):
                projection(layer, module).bias.copy_(part)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False))
    return model.train()


def losses(name, options):
    device = "cpu" if options.cpu else "cuda"
    model = build(name, options.layers, device)
    matrices, vectors = ([p for p in model.parameters() if (p.dim() == 2) == wanted] for wanted in (True, False))
    optimizer = torch.optim.AdamW([dict(params=matrices), dict(params=vectors, weight_decay=0.0)],
                                  fused=device == "cuda", **UPDATE)
    count = options.batch * options.seq
    inputs, targets = (half.to(device) for half in tokens(count, model.config.vocab_size))

    def sum_of(hidden, wanted):
        return F.cross_entropy(model.lm_head(hidden).float(), wanted, reduction="sum")

    for _ in range(options.steps):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, dtype=torch.bfloat16, enabled=options.bf16):
            hidden = model.model(input_ids=inputs.view(options.batch, options.seq)).last_hidden_state.view(count, -1)
            loss = sum(checkpoint(sum_of, some, wanted, use_reentrant=False)
                       for some, wanted in zip(hidden.split(ROWS), targets.split(ROWS))) / count
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        yield loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", choices=MODELS)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--layers", type=int, help="other than the model has")
    parser.add_argument("--bf16", action="store_true", help="products in bf16 (autocast)")
    parser.add_argument("--cpu", action="store_true")
    options = parser.parse_args()
    for name in options.models:
        found = ", ".join(f"{loss:.5f}" for loss in losses(name, options))
        print(f"{name} {options.batch} x {options.seq} {'bf16' if options.bf16 else 'f32'}: {found}", flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
