#!/usr/bin/env python3
"""Computes golden values for tests/kernels/transformer/golden_test.cpp: three training steps of a small GPT-2 or encoder.

Uses float64, and only numpy.

    python3 tests/peers/reference_step.py gpt2 > tests/data/gpt2_golden.txt
    python3 tests/peers/reference_step.py encoder > tests/data/encoder_golden.txt
    python3 tests/peers/reference_step.py gpt2 --masters=bf16 > tests/data/gpt2_bf16_golden.txt
    python3 tests/peers/reference_step.py gpt2 --measured     # the losses of step_check.cpp: gpt2_tiny, 2 x 16 tokens

This script has no derivative of a norm, of attention or of a loss. The model consists of sums, products, exp, log and tanh with
their derivatives, and gradients come from automatic differentiation. tests/peers/golden_gpt2.py computes the same values with
transformers.
"""

import argparse

import numpy as np

import flat_model


class Value:
    """An array with a function that turns its gradient into gradients of its inputs."""

    def __init__(self, array, *made_from):
        self.array, self.made_from, self.gradient = np.asarray(array, dtype=np.float64), made_from, 0.0

    def backward(self):
        order, seen = [], set()

        def visit(value):
            stack = [(value, iter(value.made_from))]
            seen.add(id(value))
            while stack:
                node, rest = stack[-1]
                for parent, _ in rest:
                    if id(parent) not in seen:
                        seen.add(id(parent))
                        stack.append((parent, iter(parent.made_from)))
                        break
                else:
                    order.append(node)
                    stack.pop()

        visit(self)
        self.gradient = np.ones_like(self.array)
        for value in reversed(order):
            for parent, pull in value.made_from:
                parent.gradient = parent.gradient + shrink(pull(value.gradient), parent.array.shape)

    def __add__(self, other):
        other = as_value(other)
        return Value(self.array + other.array, (self, lambda g: g), (other, lambda g: g))

    def __mul__(self, other):
        other = as_value(other)
        return Value(self.array * other.array, (self, lambda g: g * other.array), (other, lambda g: g * self.array))

    def __sub__(self, other):
        return self + as_value(other) * -1.0

    def __matmul__(self, other):
        return Value(self.array @ other.array, (self, lambda g: g @ other.array.swapaxes(-1, -2)),
                     (other, lambda g: self.array.swapaxes(-1, -2) @ g))

    def power(self, p):
        return Value(self.array**p, (self, lambda g: g * p * self.array ** (p - 1)))

    def exp(self):
        out = np.exp(self.array)
        return Value(out, (self, lambda g: g * out))

    def log(self):
        return Value(np.log(self.array), (self, lambda g: g / self.array))

    def tanh(self):
        out = np.tanh(self.array)
        return Value(out, (self, lambda g: g * (1 - out * out)))

    def sum(self):
        """Returns the sum over the last axis, which is kept."""
        return Value(self.array.sum(-1, keepdims=True), (self, lambda g: np.broadcast_to(g, self.array.shape)))

    def mean(self):
        return self.sum() * (1 / self.array.shape[-1])

    def reshape(self, *shape):
        return Value(self.array.reshape(shape), (self, lambda g: g.reshape(self.array.shape)))

    def transpose(self, *axes):
        return Value(self.array.transpose(axes), (self, lambda g: g.transpose(np.argsort(axes))))

    def __getitem__(self, index):
        def pull(g):
            whole = np.zeros_like(self.array)
            np.add.at(whole, index, g)
            return whole

        return Value(self.array[index], (self, pull))


def as_value(x):
    return x if isinstance(x, Value) else Value(x)


def shrink(gradient, shape):
    """Returns the gradient of an array before broadcasting: the sum over repeated elements."""
    while gradient.ndim > len(shape):
        gradient = gradient.sum(0)
    for axis, size in enumerate(shape):
        if size == 1:
            gradient = gradient.sum(axis, keepdims=True)
    return gradient


def loss_of(model, p, inputs, targets):
    batch, seq = inputs.shape
    head_dim = model.hidden // model.heads

    def linear(x, name):
        return x @ p[name + ".weight"].transpose(1, 0) + p[name + ".bias"]

    def norm(x, name):
        centred = x - x.mean()
        return centred * ((centred * centred).mean() + model.eps).power(-0.5) * p[name + ".weight"] + p[name + ".bias"]

    def heads(x):
        return x.reshape(batch, seq, model.heads, head_dim).transpose(0, 2, 1, 3)

    def attention(x):
        qkv = x
        q, k, v = (heads(qkv[:, :, i * model.hidden:(i + 1) * model.hidden]) for i in range(3))
        scores = q @ k.transpose(0, 1, 3, 2) * head_dim**-0.5
        if not model.encoder:
            scores = scores + np.where(np.tril(np.ones((seq, seq))) > 0, 0.0, -1e300)
        weights = (scores - scores.array.max(-1, keepdims=True)).exp()
        weights = weights * weights.sum().power(-1.0)
        return (weights @ v).transpose(0, 2, 1, 3).reshape(batch, seq, model.hidden)

    def gelu(u):
        return u * 0.5 * (((u + u.power(3) * 0.044715) * (2 / np.pi) ** 0.5).tanh() + 1.0)

    def mlp(x, at):
        return linear(gelu(linear(x, at + "up")), at + "down")

    x = p["embedding"][inputs] + p["positions"][np.arange(seq)]
    for layer in range(model.layers):
        at = f"{layer}."
        if model.encoder:
            x = norm(x + linear(attention(linear(x, at + "qkv")), at + "o"), at + "norm1")
            x = norm(x + mlp(x, at), at + "norm2")
        else:
            x = x + linear(attention(linear(norm(x, at + "norm1"), at + "qkv")), at + "o")
            x = x + mlp(norm(x, at + "norm2"), at)
    logits = linear(x, "head") if model.encoder else norm(x, "final_norm") @ p["embedding"].transpose(1, 0)
    logits = logits.reshape(batch * seq, model.vocab)
    shifted = logits - logits.array.max(-1, keepdims=True)
    losses = shifted.exp().sum().log().reshape(batch * seq) - shifted[np.arange(batch * seq), targets.reshape(-1)]
    return losses.sum() * (1 / (batch * seq))


def philox(counter, rounds=7):
    """Returns Philox4x32 (Salmon et al. 2011) of four arrays of uint64 below 2^32, with the key 0."""
    low, key0, key1 = np.uint64(0xFFFFFFFF), 0, 0
    for _ in range(rounds):
        a, b = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        counter = [b >> np.uint64(32) ^ counter[1] ^ np.uint64(key0), b & low,
                   a >> np.uint64(32) ^ counter[3] ^ np.uint64(key1), a & low]
        key0, key1 = (key0 + 0x9E3779B9) % 2**32, (key1 + 0xBB67AE85) % 2**32
    return counter


def random_bits(step, first, count):
    """Returns 16 random bits for each of `count` values of the model, three times: for parameters, first and second moments."""
    position = np.arange(first, first + count, dtype=np.uint64)
    four, one = position >> np.uint64(2), np.ones(count, dtype=np.uint64)
    words = [np.choose((position % np.uint64(4)).astype(int), philox([four, one * 0, one * np.uint64(step), one * np.uint64(which)]))
             for which in (0, 1)]
    return words[0] & np.uint64(0xFFFF), words[0] >> np.uint64(16), words[1] & np.uint64(0xFFFF)


def to_bf16(values, random=None):
    """Rounds to bf16: stochastically with 16 random bits for each value, or to nearest, ties to even."""
    bits = np.asarray(values, dtype=np.float32).view(np.uint32).astype(np.uint64)
    more = np.uint64(0x7FFF) + (bits >> np.uint64(16) & np.uint64(1)) if random is None else random.reshape(bits.shape)
    return ((bits + more) >> np.uint64(16) << np.uint64(16)).astype(np.uint32).view(np.float32).astype(np.float64)


def train(model, weights, inputs, targets, lr, epsilon, steps, in_bf16=False):
    """Returns the loss of each step, the gradient of the first, and the parameters after the last. Clips to norm 1, then uses
    AdamW as in torch. If `in_bf16`, weights and moments are bf16 numbers, and every update rounds them stochastically."""
    names = [name for name, _, _ in model.tensors()]
    if in_bf16:
        weights = {name: to_bf16(weights[name]) for name in names}
    decays = {name: decay for name, _, decay in model.tensors()}
    first, second = ({name: np.zeros_like(weights[name]) for name in names} for _ in range(2))
    losses, gradient = [], None
    for step in range(1, steps + 1):
        p = {name: Value(weights[name]) for name in names}
        loss = loss_of(model, p, inputs, targets)
        loss.backward()
        losses.append(float(loss.array[0]))
        flat = np.concatenate([p[name].gradient.reshape(-1) for name in names])
        gradient = flat if gradient is None else gradient
        clip = min(1.0, 1.0 / (np.sqrt((flat * flat).sum()) + 1e-6))
        position = 0
        for name in names:
            g = clip * p[name].gradient
            first[name] = 0.9 * first[name] + 0.1 * g
            second[name] = 0.999 * second[name] + 0.001 * g * g
            if decays[name]:
                weights[name] = weights[name] * (1 - lr * 0.01)
            root = np.sqrt(second[name]) / np.sqrt(1 - 0.999**step)
            weights[name] = weights[name] - lr * (first[name] / (1 - 0.9**step)) / (root + epsilon)
            if in_bf16:
                bits = random_bits(step, position, weights[name].size)
                for state, random in zip((weights, first, second), bits):
                    state[name] = to_bf16(state[name], random)
            position += weights[name].size
    return losses, gradient, np.concatenate([weights[name].reshape(-1) for name in names])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=list(flat_model.RAGGED))
    parser.add_argument("--measured", action="store_true")
    parser.add_argument("--masters", choices=["f64", "bf16"], default="f64")
    options = parser.parse_args()
    in_bf16 = options.masters == "bf16"
    if options.measured:
        model = flat_model.TINY[options.model]
        losses, _, _ = train(model, model.measured(), *flat_model.tokens(model.vocab, 2, 16), lr=1e-4, epsilon=1e-8, steps=10,
                             in_bf16=in_bf16)
        for step in (1, 2, 5, 10):
            print(f"step {step} {losses[step - 1]:.8f}")
        return
    model = flat_model.RAGGED[options.model]
    batch = flat_model.tokens(model.vocab, flat_model.BATCH, flat_model.SEQ)
    print(f"# tests/peers/reference_step.py {options.model}: numpy {np.__version__}, float64{', masters bf16' if in_bf16 else ''}")
    flat_model.write(*train(model, model.lively(), *batch, lr=flat_model.LR, epsilon=flat_model.EPSILON,
                            steps=flat_model.STEPS, in_bf16=in_bf16))


if __name__ == "__main__":
    main()
