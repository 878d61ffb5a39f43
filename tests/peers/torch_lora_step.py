#!/usr/bin/env python3
"""Measures the performance of torch and peft on the LoRA step of bench_lora_step, on one GPU.

The model is transformers' Qwen2 with peft's adapters, with the same random weights, tokens and updates.

    python3 tests/peers/torch_lora_step.py                       the fastest settings: no checkpointing, dropout 0,
                                                                 bf16 autocast over f32 adapters, torch.compile, fused AdamW
    python3 tests/peers/torch_lora_step.py --attention=cudnn     other settings: --eager --adapters=bf16 --checkpoint --dropout --fp8
    python3 tests/peers/torch_lora_step.py --ours=FILE           compares losses and the gradient of the first step with
                                                                 the FILE of build/tests/cuda_lora_dump FILE
                                                                 --model=qwen2_7b --batch=2 --seq=4096
    ... --eager --write=PEER, then --f32 --checkpoint --ours=FILE --peer=PEER
                                                                 the distance of this project's and of torch's bf16 from the
                                                                 same steps in f32 (frozen weights and tokens as in bf16)

Prints one line in the terms of bench_lora_step: tokens_per_s and step_ms are medians over single steps, with clipping and
the update. model_tflops counts the operations of the model once, even if some are recomputed. The comparison ends with exit code
1 if the relative difference of a loss exceeds 1e-3, or an adapter's gradient has a cosine below 0.999. With --peer, it ends with
1 if this project's losses or gradient differ from f32 by more than 1.25 times as much as the peer's.
"""

import argparse
import math
import statistics
import sys

import numpy as np
import peft
import torch
import torch.nn.functional as F
import transformers

MODULES = ("q", "k", "v", "o", "gate", "up", "down")
STDDEV = 0.02  # of every random tensor; norms are 1
UPDATE = dict(lr=1e-4, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
SHAPES = {
    "qwen2_7b": dict(layers=28, hidden=3584, heads=28, kv_heads=4, head_dim=128, intermediate=18944, vocab=152064, rank=64,
                     alpha=128),
    "tiny": dict(layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, intermediate=160, vocab=256, rank=8, alpha=16),
}


def signed(x):
    """Returns the int64 with the bits of this uint64."""
    return x - (1 << 64) if x >= 1 << 63 else x


def shifted(x, bits):
    """Returns x >> bits for int64, as if it were unsigned."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix(x):
    """Returns splitmix64 of int64, whose products wrap around."""
    x = x + signed(0x9E3779B97F4A7C15)
    x = (x ^ shifted(x, 30)) * signed(0xBF58476D1CE4E5B9)
    x = (x ^ shifted(x, 27)) * signed(0x94D049BB133111EB)
    return x ^ shifted(x, 31)


def fill_normal(target, number, stddev=STDDEV, rounded=None):
    """Fills a tensor with the normal numbers of the tensor `number`: Box-Muller in float64 on hashed indices, rounded to the
    type `rounded` if the tensor's own type is wider."""
    flat = target.view(-1)
    rounded = rounded or flat.dtype
    piece = 1 << 26
    for first in range(0, flat.numel(), piece):
        count = min(piece, flat.numel() - first)
        bits = mix(torch.arange(first, first + count, device=flat.device) + (number << 32))
        u = (shifted(mix(bits), 11).double() + 0.5) * 2.0**-53
        v = shifted(mix(bits + 1), 11).double() * 2.0**-53
        values = stddev * torch.sqrt(-2.0 * torch.log(u)) * torch.cos(2.0 * math.pi * v)
        flat[first : first + count] = values.to(rounded).to(flat.dtype)


def number_of(kind, layer, module=None):
    """Returns the numbers of the tensors, as in kernels/transformer/step.hpp."""
    base = 32 * (layer + 1)
    return {"weight": 0, "bias": 7, "a": 8, "b": 16}[kind] + base + (MODULES.index(module) if module else 0)


def tokens(count, vocab):
    """Returns inputs and targets, which are the halves of hashed positions."""
    x = np.arange(count, dtype=np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    as_tensor = lambda values: torch.from_numpy((values % np.uint64(vocab)).astype(np.int64))
    return as_tensor(x), as_tensor(x >> np.uint64(32))


def projection(layer, module):
    return getattr(layer.self_attn if module in "qkvo" else layer.mlp, module + "_proj")


def build(shape, options, device):
    """Returns the model with its adapters, and the adapters in the order of the flat array."""
    config = transformers.Qwen2Config(
        vocab_size=shape["vocab"], hidden_size=shape["hidden"], intermediate_size=shape["intermediate"],
        num_hidden_layers=shape["layers"], num_attention_heads=shape["heads"], num_key_value_heads=shape["kv_heads"],
        head_dim=shape["head_dim"], rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=1e6), rope_theta=1e6,
        max_position_embeddings=32768, tie_word_embeddings=False, attention_dropout=0.0, use_cache=False,
        attn_implementation="sdpa")
    dtype = torch.float32 if options.f32 else torch.bfloat16
    torch.set_default_dtype(dtype)
    with torch.device(device):
        model = transformers.Qwen2ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    # Frozen weights have bf16 precision even if all else is f32. The tiny model is compared on the CPU and has f32 weights.
    rounded = torch.bfloat16 if options.model != "tiny" else dtype
    frozen = lambda tensor, number: fill_normal(tensor, number, rounded=rounded)
    with torch.no_grad():
        base = model.model
        frozen(base.embed_tokens.weight, 0)
        frozen(model.lm_head.weight, 1)
        base.norm.weight.fill_(1)
        for index, layer in enumerate(base.layers):
            layer.input_layernorm.weight.fill_(1)
            layer.post_attention_layernorm.weight.fill_(1)
            for module in MODULES:
                frozen(projection(layer, module).weight, number_of("weight", index, module))
            widths = [projection(layer, module).out_features for module in "qkv"]
            bias = torch.empty(sum(widths), device=device, dtype=dtype)
            frozen(bias, number_of("bias", index))
            for module, part in zip("qkv", bias.split(widths)):
                projection(layer, module).bias.copy_(part)
    if options.checkpoint:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=dict(use_reentrant=False))
        model.enable_input_require_grads()
    lora = peft.LoraConfig(r=shape["rank"], lora_alpha=shape["alpha"], lora_dropout=options.dropout, task_type="CAUSAL_LM",
                           target_modules=[module + "_proj" for module in MODULES])
    model = peft.get_peft_model(model, lora, autocast_adapter_dtype=options.adapters == "f32")
    model.train()

    flat = []  # (name, parameter)
    with torch.no_grad():
        for index in reversed(range(shape["layers"])):
            for group in (("down",), ("gate", "up"), ("o",), ("q", "k", "v")):
                for which in "ba":
                    for module in group:
                        adapted = projection(model.base_model.model.model.layers[index], module)
                        parameter = (adapted.lora_A if which == "a" else adapted.lora_B)["default"].weight
                        fill_normal(parameter, number_of(which, index, module))
                        flat.append((f"layer {index} {module} {which.upper()}", parameter))
    trainable = sum(p.numel() for p in model.parameters() if p.requires_grad)
    if trainable != sum(p.numel() for _, p in flat):
        sys.exit(f"peft trains {trainable} parameters, which are not the adapters that were expected")
    return model, flat


def quantized(x):
    """Returns rows in e4m3, and one factor for each."""
    scale = (x.abs().amax(dim=-1, keepdim=True).float() / 448.0).clamp(min=2.0**-126)
    return (x.float() / scale).clamp(-448.0, 448.0).to(torch.float8_e4m3fn), scale


class QuantizedProduct(torch.autograd.Function):
    """x W' with rows in fp8: fast accumulation forward, f32 for the gradient of x. W is frozen."""

    @staticmethod
    def forward(ctx, x, by_rows, row_scales, by_columns, column_scales):
        ctx.save_for_backward(by_columns, column_scales)
        values, scales = quantized(x.reshape(-1, x.shape[-1]))
        y = torch._scaled_mm(values, by_rows.t(), scale_a=scales, scale_b=row_scales.t(), out_dtype=torch.bfloat16,
                             use_fast_accum=True)
        return y.reshape(*x.shape[:-1], by_rows.shape[0])

    @staticmethod
    def backward(ctx, gradient):
        by_columns, column_scales = ctx.saved_tensors
        values, scales = quantized(gradient.reshape(-1, gradient.shape[-1]))
        dx = torch._scaled_mm(values, by_columns.t(), scale_a=scales, scale_b=column_scales.t(), out_dtype=torch.bfloat16,
                              use_fast_accum=False)
        return dx.reshape(*gradient.shape[:-1], by_columns.shape[0]), None, None, None, None


class QuantizedLinear(torch.nn.Module):
    """A frozen linear layer whose weights exist only in fp8, by rows and by columns."""

    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach()
        for name, matrix in (("rows", weight), ("columns", weight.t().contiguous())):
            values, scales = quantized(matrix)
            self.register_buffer(name, values)
            self.register_buffer(name + "_scales", scales)
        self.bias = None if linear.bias is None else torch.nn.Parameter(linear.bias.detach(), requires_grad=False)

    def forward(self, x):
        y = QuantizedProduct.apply(x.to(torch.bfloat16), self.rows, self.rows_scales, self.columns, self.columns_scales)
        return y if self.bias is None else y + self.bias


def quantize_frozen(model, layers):
    for layer in model.base_model.model.model.layers[:layers]:
        for module in MODULES:
            adapted = projection(layer, module)
            adapted.base_layer = QuantizedLinear(adapted.base_layer)
    torch.cuda.empty_cache()


def token_flops(shape, seq):
    """Returns the floating-point operations per token, counted as in kernels/transformer/shape.hpp."""
    hidden, q, kv = shape["hidden"], shape["heads"] * shape["head_dim"], shape["kv_heads"] * shape["head_dim"]
    sizes = [(hidden, q), (hidden, kv), (hidden, kv), (q, hidden)] + [(hidden, shape["intermediate"])] * 2
    sizes.append((shape["intermediate"], hidden))
    linear = shape["layers"] * sum(i * o for i, o in sizes)
    adapters = shape["layers"] * shape["rank"] * sum(i + o for i, o in sizes)
    return 4 * linear + 4 * shape["vocab"] * hidden + 6 * adapters + 3.5 * 2 * seq * q * shape["layers"]


class Step:
    def __init__(self, shape, options, device):
        self.model, self.flat = build(shape, options, device)
        if options.fp8:
            quantize_frozen(self.model, shape["layers"])
        self.parameters = [parameter for _, parameter in self.flat]
        self.optimizer = torch.optim.AdamW(self.parameters, fused=device == "cuda", **UPDATE)
        inputs, targets = tokens(options.batch * options.seq, shape["vocab"])
        self.inputs = inputs.reshape(options.batch, options.seq).to(device)
        self.targets = targets.to(device)
        autocast = options.adapters == "f32" and not options.f32

        def loss_of(inputs, targets):
            with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
                logits = self.model(input_ids=inputs).logits
            return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets)

        self.loss_of = loss_of if options.eager else torch.compile(loss_of)

    def gradient(self):
        """Returns the loss and leaves the gradient in the parameters."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss_of(self.inputs, self.targets)
        loss.backward()
        return loss.detach()

    def update(self):
        torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()


def measure(step, shape, options):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times, losses = [], []
    for index in range(options.warmup + options.steps):
        begin.record()
        losses.append(step.gradient())
        step.update()
        end.record()
        end.synchronize()
        if index >= options.warmup:
            times.append(begin.elapsed_time(end))
    step_ms = statistics.median(times)
    per_step = options.batch * options.seq
    free, total = torch.cuda.mem_get_info()
    figures = {
        "tokens_per_s": 1e3 * per_step / step_ms,
        "step_ms": step_ms,
        "model_tflops": token_flops(shape, options.seq) * per_step / step_ms / 1e9,
        "cv": statistics.stdev(times) / statistics.mean(times),
        "allocated_gb": torch.cuda.max_memory_allocated() / 1e9,
        "peak_gb": (total - free) / 1e9,
        "first_loss": losses[0].item(),
        "last_loss": losses[-1].item(),
    }
    cell = f"torch {torch.__version__} peft {peft.__version__}: " + " ".join(sys.argv[1:])
    dtype = "/dtype:fp8" if options.fp8 else ""
    print(f"lora_step/model:{options.model}{dtype}/batch:{options.batch}/seq:{options.seq} "
          + " ".join(f"{name}={value:.6g}" for name, value in figures.items()) + f" ({cell.strip()})", flush=True)


class Steps:
    """Reads the file of a run of the same steps: losses and the gradient of the first step, in the order of the flat array."""

    def __init__(self, file, parameters):
        with open(file + ".losses") as losses:
            self.losses = [float(line) for line in losses]
        self.gradient = np.memmap(file + ".gradient", dtype=np.float32, mode="r")
        count = sum(parameter.numel() for parameter in parameters)
        if self.gradient.size != count:
            sys.exit(f"{file}.gradient has {self.gradient.size} values, the adapters {count}")


def write(step, options):
    """Runs the steps and writes the same values as cuda_lora_dump."""
    losses = []
    for index in range(options.steps):
        losses.append(step.gradient().item())
        if index == 0:
            with open(options.write + ".gradient", "wb") as file:
                for parameter in step.parameters:
                    file.write(parameter.grad.float().cpu().numpy().tobytes())
        step.update()
    with open(options.write + ".losses", "w") as file:
        file.write("".join(f"{loss:.10g}\n" for loss in losses))


def distances(name, theirs, losses, gradient):
    """Returns the largest relative difference of a loss, and (cosine, ratio of norms, name) for each tensor of the gradient.
    `gradient` has this run's tensors, in order and with their names."""
    worst, offset, cosines = 0.0, 0, []
    for index, (loss, other) in enumerate(zip(losses, theirs.losses)):
        difference = abs(loss - other) / abs(loss)
        worst = max(worst, difference)
        print(f"step {index + 1}: loss {loss:.6f} {name} {other:.6f} relative difference {difference:.1e}", flush=True)
    for tensor, mine in gradient:
        other = torch.from_numpy(theirs.gradient[offset : offset + mine.numel()].copy()).to(mine.device).double()
        offset += mine.numel()
        mine = mine.double()
        cosines.append(((mine @ other / (mine.norm() * other.norm())).item(), (other.norm() / mine.norm()).item(), tensor))
    cosines.sort()
    ratios = [ratio for _, ratio, _ in cosines]
    print(f"{name}: {len(cosines)} gradients: smallest cosine {cosines[0][0]:.6f} ({cosines[0][2]}), median "
          f"{cosines[len(cosines) // 2][0]:.6f}, norms {min(ratios):.4f} to {max(ratios):.4f}; "
          f"{len(theirs.losses)} losses within {worst:.1e}", flush=True)
    return worst, cosines


def compare(step, options):
    """Compares this run with the project's file, and with the peer's if there is one. Returns the number of exceeded limits."""
    ours = Steps(options.ours, step.parameters)
    peer = Steps(options.peer, step.parameters) if options.peer else None
    losses, gradient = [], []
    for index in range(len(ours.losses)):
        losses.append(step.gradient().item())
        if index == 0:
            gradient = [(name, parameter.grad.reshape(-1).float().clone()) for name, parameter in step.flat]
        step.update()
    worst, cosines = distances("ours", ours, losses, gradient)
    if not peer:
        return (worst > 1e-3) + sum(not cosine >= 0.999 for cosine, _, _ in cosines)
    peer_worst, peer_cosines = distances("peer", peer, losses, gradient)
    # For two vectors at a small angle, 1 - cosine is half of its square.
    angle = lambda cosine: math.sqrt(max(0.0, 2 * (1 - cosine)))
    theirs = {name: angle(cosine) for cosine, _, name in peer_cosines}
    quotients = sorted(angle(cosine) / theirs[name] for cosine, _, name in cosines)
    print(f"distance from this run, ours over the peer's: losses {worst / peer_worst:.2f}, gradients median "
          f"{quotients[len(quotients) // 2]:.2f}, from {quotients[0]:.2f} to {quotients[-1]:.2f}")
    return (worst > 1.25 * peer_worst) + (quotients[len(quotients) // 2] > 1.25)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=SHAPES, default="qwen2_7b")
    parser.add_argument("--layers", type=int, help="other than the model has")
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--seq", type=int, default=4096)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--checkpoint", action="store_true", help="full activation checkpointing")
    parser.add_argument("--dropout", type=float, default=0.0, help="of the adapters")
    parser.add_argument("--adapters", choices=("f32", "bf16"), default="f32", help="f32 runs under autocast")
    parser.add_argument("--attention", choices=("auto", "cudnn", "flash"), default="auto")
    parser.add_argument("--eager", action="store_true", help="without torch.compile")
    parser.add_argument("--f32", action="store_true", help="everything in f32; frozen weights are those of bf16")
    parser.add_argument("--fp8", action="store_true", help="products of frozen weights in fp8 with one factor for each row")
    parser.add_argument("--cpu", action="store_true", help="compare on the CPU")
    parser.add_argument("--ours", metavar="FILE", help="compare with FILE.losses and FILE.gradient")
    parser.add_argument("--peer", metavar="FILE", help="and with these, which --write has written")
    parser.add_argument("--write", metavar="FILE", help="write FILE.losses and FILE.gradient of this many --steps")
    options = parser.parse_args()

    shape = dict(SHAPES[options.model])
    shape["layers"] = options.layers or shape["layers"]
    if options.attention != "auto":
        torch.backends.cuda.enable_flash_sdp(options.attention == "flash")
        torch.backends.cuda.enable_cudnn_sdp(options.attention == "cudnn")
        torch.backends.cuda.enable_mem_efficient_sdp(False)
        torch.backends.cuda.enable_math_sdp(False)
    step = Step(shape, options, "cpu" if options.cpu else "cuda")
    if options.write:
        return write(step, options)
    if options.ours:
        sys.exit(1 if compare(step, options) else 0)
    measure(step, shape, options)


if __name__ == "__main__":
    main()
