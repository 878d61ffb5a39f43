"""Common code of tests/peers/reference_step.py and golden_gpt2.py: the sizes of the test models, their weights and tokens.

Weights and tokens are deterministic. They come from the same hash, and are the same, as those of set_lively_weights and batch_of
in tests/kernels/transformer/host_step.hpp and `tensor` in kernels/transformer/step.hpp. Parameters are one flat array, in the
order in which a backward pass completes them.
"""

import math
from dataclasses import dataclass

import numpy as np


def mix(x):
    """Returns splitmix64 of an array of uint64."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def normal(number, count):
    """Returns `count` normal numbers of the tensor with this number: Box-Muller on hashed indices."""
    bits = mix(np.uint64(number << 32) + np.arange(count, dtype=np.uint64))
    u = ((mix(bits) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    v = (mix(bits + np.uint64(1)) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * v)


@dataclass(frozen=True)
class Model:
    encoder: bool  # norms after the sums, no mask, an untied head with bias; else GPT-2
    layers: int
    hidden: int
    heads: int
    intermediate: int
    vocab: int
    context: int
    eps: float = 1e-5

    def tensors(self):
        """Returns (name, shape, decays) in the order of the flat array; weights are out x in."""
        h, i = self.hidden, self.intermediate
        flat = []

        def add(name, *shape):
            flat.append((name, shape, len(shape) == 2))

        def norm(name):
            add(name + ".weight", h)
            add(name + ".bias", h)

        def linear(name, out, into):
            add(name + ".weight", out, into)
            add(name + ".bias", out)

        if self.encoder:
            linear("head", self.vocab, h)
        else:
            norm("final_norm")
        for layer in reversed(range(self.layers)):
            at = f"{layer}."
            norm(at + "norm2")
            linear(at + "down", h, i)
            linear(at + "up", i, h)
            if self.encoder:
                norm(at + "norm1")
            linear(at + "o", h, h)
            linear(at + "qkv", 3 * h, h)
            if not self.encoder:
                norm(at + "norm1")
        add("positions", self.context, h)
        add("embedding", self.vocab, h)
        return flat

    def lively(self):
        """Returns weights that are large enough for every part of the model to affect the result. Tensor i has the number 1000 + i."""
        weights = {}
        for number, (name, shape, _) in enumerate(self.tensors(), 1000):
            values = normal(number, math.prod(shape)).reshape(shape)
            if "norm" in name and name.endswith("weight"):
                weights[name] = 1 + 0.3 * values
            else:
                weights[name] = (1.0 if name == "embedding" else 0.3) * values
        return weights

    def measured(self):
        """Returns the initial weights of a measurement."""
        h, weights = self.hidden, {}
        numbers = {"embedding": 0, "head.weight": 1, "positions": 2, "head.bias": 3}
        of_layer = {"qkv.bias": 7, "o.weight": 3, "o.bias": 25, "up.weight": 5, "up.bias": 26, "down.weight": 6, "down.bias": 27}
        for name, shape, _ in self.tensors():
            layer, _, rest = name.partition(".")
            if "norm" in name:
                weights[name] = np.full(shape, 1.0 if name.endswith("weight") else 0.0)
            elif rest == "qkv.weight":  # q, k and v are separate tensors
                base = 32 * (int(layer) + 1)
                weights[name] = 0.02 * np.concatenate([normal(base + m, h * h).reshape(h, h) for m in range(3)])
            else:
                number = numbers[name] if name in numbers else 32 * (int(layer) + 1) + of_layer[rest]
                weights[name] = 0.02 * normal(number, math.prod(shape)).reshape(shape)
        return weights


def tokens(vocab, batch, seq):
    hashed = mix(np.arange(batch * seq, dtype=np.uint64))
    inputs = (hashed % np.uint64(vocab)).astype(np.int64).reshape(batch, seq)
    targets = ((hashed >> np.uint64(32)) % np.uint64(vocab)).astype(np.int64).reshape(batch, seq)
    return inputs, targets


# The shapes of tests/kernels/transformer/host_step.hpp, with sizes that no tile size divides.
RAGGED = {name: Model(name == "encoder", layers=2, hidden=32, heads=4, intermediate=48, vocab=61, context=9)
          for name in ("gpt2", "encoder")}
# The presets for machines without a GPU.
TINY = {name: Model(name == "encoder", layers=2, hidden=64, heads=4, intermediate=256, vocab=256, context=64)
        for name in ("gpt2", "encoder")}
# AdamW's epsilon is not the usual 1e-8. A constant added to all keys does not change attention, so the gradient of the key bias
# is only rounding noise. Division by its own size would amplify this noise.
BATCH, SEQ, LR, EPSILON, STEPS = 2, 7, 0.01, 1e-6, 3
EVERY = 17  # one in this number of values is written


def write(losses, gradient, parameters):
    print("# loss STEP VALUE | gradient INDEX VALUE (first step) | parameter INDEX VALUE (after the last)")
    for step, loss in enumerate(losses):
        print(f"loss {step} {loss:.17g}")
    for kind, values in (("gradient", gradient), ("parameter", parameters)):
        for index in range(0, len(values), EVERY):
            print(f"{kind} {index} {values[index]:.17g}")
