#!/usr/bin/env python3
"""Recomputes the golden values of tests/kernels/transformer/golden_test.cpp in float64 with transformers and torch.

    python3 tests/peers/golden_gpt2.py gpt2 --compare tests/data/gpt2_golden.txt
    python3 tests/peers/golden_gpt2.py encoder --compare tests/data/encoder_golden.txt
    python3 tests/peers/golden_gpt2.py gpt2                      # prints the values

Needs numpy, torch and transformers, no GPU; takes seconds. GPT-2 is transformers' GPT2LMHeadModel, the encoder is torch's
nn.TransformerEncoder between tables and a head, both without dropout. The committed values come from reference_step.py, which
only has the weights in common with these models. --compare prints the largest difference relative to the root mean square, and
fails above 1e-10.
"""

import argparse

import numpy as np
import torch
import torch.nn.functional as F

import flat_model

torch.set_default_dtype(torch.float64)


class Gpt2(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        import transformers
        config = transformers.GPT2Config(
            vocab_size=m.vocab, n_positions=m.context, n_embd=m.hidden, n_layer=m.layers, n_head=m.heads,
            n_inner=m.intermediate, activation_function="gelu_new", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
            layer_norm_epsilon=m.eps, use_cache=False, attn_implementation="sdpa")
        self.model = transformers.GPT2LMHeadModel(config).double()

    def forward(self, inputs):
        return self.model(input_ids=inputs).logits

    def places(self):
        """Maps names in flat_model to (parameter, transposed): transformers' Conv1D has its weights as in x out."""
        base = self.model.transformer
        found = {"embedding": (base.wte.weight, False), "positions": (base.wpe.weight, False)}

        def add(name, module, transposed):
            found[name + ".weight"] = (module.weight, transposed)
            found[name + ".bias"] = (module.bias, False)

        add("final_norm", base.ln_f, False)
        for i, block in enumerate(base.h):
            add(f"{i}.norm1", block.ln_1, False)
            add(f"{i}.norm2", block.ln_2, False)
            add(f"{i}.qkv", block.attn.c_attn, True)
            add(f"{i}.o", block.attn.c_proj, True)
            add(f"{i}.up", block.mlp.c_fc, True)
            add(f"{i}.down", block.mlp.c_proj, True)
        return found


class Encoder(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.embedding = torch.nn.Embedding(m.vocab, m.hidden)
        self.positions = torch.nn.Embedding(m.context, m.hidden)
        layer = torch.nn.TransformerEncoderLayer(
            m.hidden, m.heads, m.intermediate, dropout=0.0, activation=lambda x: F.gelu(x, approximate="tanh"),
            layer_norm_eps=m.eps, batch_first=True, norm_first=False)
        self.layers = torch.nn.TransformerEncoder(layer, m.layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(m.hidden, m.vocab)

    def forward(self, inputs):
        return self.head(self.layers(self.embedding(inputs) + self.positions(torch.arange(inputs.shape[1]))))

    def places(self):
        found = {"embedding": (self.embedding.weight, False), "positions": (self.positions.weight, False)}

        def add(name, weight, bias):
            found[name + ".weight"], found[name + ".bias"] = (weight, False), (bias, False)

        add("head", self.head.weight, self.head.bias)
        for i, layer in enumerate(self.layers.layers):
            attention = layer.self_attn
            add(f"{i}.qkv", attention.in_proj_weight, attention.in_proj_bias)
            for name, module in (("o", attention.out_proj), ("up", layer.linear1), ("down", layer.linear2),
                                 ("norm1", layer.norm1), ("norm2", layer.norm2)):
                add(f"{i}.{name}", module.weight, module.bias)
        return found


def compare(path, computed):
    """Returns the largest difference of each kind of value from those in the file."""
    worst = 0.0
    expected = {"loss": {}, "gradient": {}, "parameter": {}}
    with open(path) as file:
        for line in file:
            if not line.startswith("#"):
                kind, index, value = line.split()
                expected[kind][int(index)] = float(value)
    for kind, values in expected.items():
        want = np.array(list(values.values()))
        got = np.array([computed[kind][index] for index in values])
        difference = np.abs(got - want).max() / np.sqrt((want * want).mean())
        print(f"{kind}: {len(want)} values, largest difference {difference:.2e}")
        worst = max(worst, difference)
    return worst


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model", choices=list(flat_model.RAGGED))
    parser.add_argument("--compare", metavar="FILE")
    options = parser.parse_args()
    shape = flat_model.RAGGED[options.model]
    model = Encoder(shape) if shape.encoder else Gpt2(shape)
    model.train()
    places = model.places()
    names = [name for name, _, _ in shape.tensors()]
    assert sorted(names) == sorted(places), set(names) ^ set(places)
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p, _ in places.values()), "a parameter is left out"
    with torch.no_grad():
        for name, values in shape.lively().items():
            parameter, transposed = places[name]
            values = torch.from_numpy(np.ascontiguousarray(values))
            parameter.copy_(values.T if transposed else values)

    def flat(of):
        return np.concatenate([(of(p).T if transposed else of(p)).detach().contiguous().reshape(-1).numpy()
                               for p, transposed in (places[name] for name in names)])

    decaying = [places[name][0] for name, _, decays in shape.tensors() if decays]
    others = [places[name][0] for name, _, decays in shape.tensors() if not decays]
    optimizer = torch.optim.AdamW([{"params": decaying, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}],
                                  lr=flat_model.LR, eps=flat_model.EPSILON)
    inputs, targets = (torch.from_numpy(t) for t in flat_model.tokens(shape.vocab, flat_model.BATCH, flat_model.SEQ))
    losses, gradient = [], None
    for _ in range(flat_model.STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(inputs).reshape(-1, shape.vocab), targets.reshape(-1))
        loss.backward()
        losses.append(loss.item())
        gradient = flat(lambda p: p.grad) if gradient is None else gradient
        torch.nn.utils.clip_grad_norm_(list(model.parameters()), 1.0)
        optimizer.step()
    parameters = flat(lambda p: p)
    if options.compare:
        worst = compare(options.compare, {"loss": losses, "gradient": gradient, "parameter": parameters})
        raise SystemExit(0 if worst < 1e-10 else 1)
    print(f"# tests/peers/golden_gpt2.py {options.model}: torch {torch.__version__}, float64")
    flat_model.write(losses, gradient, parameters)


if __name__ == "__main__":
    main()
