#!/usr/bin/env python3
"""Writes test cases of fine-tuning with the libraries that users have: tokenizers, transformers, safetensors and torch.

  huggingface_cases.py FOLDER

tok_qwen2.json, tok_llama3.json: byte-level BPE tokenizers with the split patterns of Qwen2 and Llama 3, trained here.
corpus.jsonl: odd texts with the ids of both. chat.jsonl: conversations with ids and the mask of what the assistant says.
tiny_qwen2/, tiny_llama/: random models of two layers in float32 with tokenizer and logits of one text (logits.safetensors).
train.jsonl, eval.jsonl: made-up function calls, {"prompt", "completion"}. lora_init.safetensors: the seeded adapters.
curve_f32.json: 100 steps of LoRA by torch on transformers' Qwen2 in float32: loss, learning rate and norm of the gradient of each
step, the mean loss on eval.jsonl before and after. merged_logits.safetensors: logits with the trained adapters.

The recipe of the curve: rank 8, alpha 16, all seven linear modules, y = W x + b + (alpha / rank) B (A x); prompt and completion
are tokenized one by one and joined, <|endoftext|> ends them; only the completion and the end are in the loss. Row i of step s is
example 4 s + i of the file, from its begin again at the end, padded to the right; the loss is the mean over the counted tokens of
the four rows. AdamW: 1e-3, betas 0.9 and 0.999, epsilon 1e-8, decay 0.01 of the adapters; gradients are clipped to norm 1; the
rate rises linearly for 10 steps from 0, then falls by a cosine to 0 at step 100 (transformers' schedule: step 0 has the rate 0).
"""
import json
import pathlib
import random
import sys

import torch
from safetensors.torch import save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM,
                          get_cosine_schedule_with_warmup)

QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN2.replace(r"|\p{N}| ?", r"|\p{N}{1,3}| ?")
MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
RANK, ALPHA, STEPS, ROWS = 8, 16, 100, 4


def tokenizer(pattern, specials, nfc, texts):
    made = Tokenizer(models.BPE(ignore_merges=not nfc))
    if nfc:
        made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(pattern), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=1024 - len(specials), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    made.add_special_tokens(specials)
    made.post_processor = (processors.ByteLevel(trim_offsets=False) if nfc else processors.TemplateProcessing(
        single=specials[0] + " $A", special_tokens=[(specials[0], made.token_to_id(specials[0]))]))
    return made


def odd_texts():
    texts = ["", " ", "\n", "\r\n\r\n", "a", "Hello, world!", "I'm you're WE'LL they'D it'S o'clock 'tis", "12345678901 3.14159 1e-9",
             "  leading and trailing  ", "tabs\tand\n\nlines \n \n  x", "naïve café Ångström e\u0301 a\u030a n\u0303",
             "\u1e9b\u0323 \ufb01 \u212b \u2126 \uac00 \u1100\u1161", "日本語のテキスト。漢字かな", "中文分词没有空格，标点！", "한국어 문장입니다",
             "العربية ١٢٣ نص", "עברית טקסט", "हिन्दी पाठ १२३ क्षि", "ไทยไม่มีช่องว่าง", "русский ТЕКСТ", "ελληνικά ΆΣ",
             "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467\U0001f1e9\U0001f1ea", "a\u200bb\u00a0c\u3000d\u2028e\x85f", "\x00\x01\x1f\x7f",
             "<|endoftext|>", "x<|im_start|>user\nhi<|im_end|>\n", "<|begin_of_text|><|eot_id|>y", "<|im_start", "²³ ½ Ⅷ ㊿ ٣",
             "def f(x):\n    return x ** 2  # comment\n\n\n", '{"name": "weather", "arguments": {"city": "Köln", "days": 3}}',
             "a" * 300, "ab " * 100, "!" * 50, " " * 40 + "x", "'", "''s 's", "don\u2019t", "A\u0345", "ſ'ſ 'ſ K'K", "\ufeffBOM", "\U0001d400\U0001d7d9"]
    draw = random.Random(7301)
    ranges = [(32, 126), (160, 591), (768, 879), (880, 1279), (1424, 1791), (2304, 2431), (4352, 4607), (8192, 8303), (8448, 8591),
              (12288, 12543), (19968, 20500), (44032, 44300), (64256, 64262), (119808, 119900), (128512, 128591)]
    for _ in range(360):
        kind = draw.sample(ranges, 3) + [(32, 126), (9, 13), (32, 32)]
        texts.append("".join(chr(draw.randint(*draw.choice(kind))) for _ in range(draw.randint(1, 60))))
    return texts


def calls(seed, n):
    draw = random.Random(seed)
    cities = ["Paris", "Oslo", "Lima", "Cairo", "Tokyo", "Quito", "Delhi", "Rome", "Accra", "Minsk"]
    rows = []
    for _ in range(n):
        city, days = draw.choice(cities), draw.randint(1, 9)
        name, ask = draw.choice([("weather", "What is the weather in {0} for {1} days?"), ("hotel", "Find a hotel in {0} for {1} nights."),
                                 ("flight", "Book {1} seats to {0}.")])
        rows.append({"prompt": ask.format(city, days) + "\n",
                     "completion": json.dumps({"name": name, "arguments": {"city": city, "count": days}})})
    return rows


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=True) + "\n" for row in rows))


class Adapted(torch.nn.Module):
    def __init__(self, inner, a, b):
        super().__init__()
        self.inner, self.a, self.b = inner, torch.nn.Parameter(a), torch.nn.Parameter(b)

    def forward(self, x):
        return self.inner(x) + (ALPHA / RANK) * (x @ self.a.T) @ self.b.T


def adapt(model):
    """Puts adapters on all linear modules of the layers; returns them by peft's names."""
    draw = torch.Generator().manual_seed(4127)
    adapters, first = {}, {}
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for index, layer in enumerate(model.model.layers):
        for name in MODULES:
            home = layer.self_attn if name in MODULES[:4] else layer.mlp
            linear = getattr(home, name)
            a = torch.randn(RANK, linear.in_features, generator=draw) / linear.in_features**0.5
            b = torch.zeros(linear.out_features, RANK)
            module = Adapted(linear, a.clone(), b.clone())
            setattr(home, name, module)
            path = f"base_model.model.model.layers.{index}.{'self_attn' if home is layer.self_attn else 'mlp'}.{name}"
            adapters[path] = module
            first[path + ".lora_A.weight"], first[path + ".lora_B.weight"] = a, b
    return adapters, first


def batch(rows, encode, end):
    """Tokens and targets [rows, length]; -100 is a target without loss."""
    pairs = [(encode(row["prompt"]), encode(row["completion"]) + [end]) for row in rows]
    length = max(len(p) + len(c) for p, c in pairs)
    tokens, targets = torch.full((len(rows), length), end), torch.full((len(rows), length), -100)
    for i, (prompt, completion) in enumerate(pairs):
        ids = torch.tensor(prompt + completion)
        tokens[i, :len(ids)] = ids
        targets[i, len(prompt):len(ids)] = ids[len(prompt):]
    return tokens, targets


def loss_of(model, tokens, targets):
    logits = model(tokens).logits[:, :-1]
    return torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), targets[:, 1:].reshape(-1))


def curve(folder, model, encode, end):
    train, held = calls(11, 240), calls(12, 32)
    write_lines(folder / "train.jsonl", train)
    write_lines(folder / "eval.jsonl", held)
    adapters, first = adapt(model)
    save_file(first, folder / "lora_init.safetensors")
    parameters = [p for module in adapters.values() for p in (module.a, module.b)]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)
    schedule = get_cosine_schedule_with_warmup(optimizer, 10, STEPS)
    held_batch = batch(held, encode, end)
    with torch.no_grad():
        before = loss_of(model, *held_batch).item()
    steps = []
    for step in range(STEPS):
        rows = [train[(ROWS * step + i) % len(train)] for i in range(ROWS)]
        loss = loss_of(model, *batch(rows, encode, end))
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, 1.0).item()
        steps.append({"step": step, "loss": loss.item(), "lr": schedule.get_last_lr()[0], "grad_norm": norm})
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        after = loss_of(model, *held_batch).item()
        probe = torch.arange(3, 35).unsqueeze(0)
        save_file({"input_ids": probe, "logits": model(probe).logits.contiguous()}, folder / "merged_logits.safetensors")
    save_file({k + s: getattr(m, n).detach().contiguous() for k, m in adapters.items()
               for s, n in ((".lora_A.weight", "a"), (".lora_B.weight", "b"))}, folder / "lora_trained.safetensors")
    (folder / "curve_f32.json").write_text(json.dumps({"eval_before": before, "eval_after": after, "steps": steps}, indent=1) + "\n")
    print(f"curve: {steps[0]['loss']:.4f} .. {steps[-1]['loss']:.4f}, eval {before:.4f} -> {after:.4f}")


def tiny(folder, name, config, kind, made):
    torch.manual_seed(90)
    model = kind(config).float()
    for parameter in model.parameters():  # Norms and biases too, so that each of them matters.
        torch.nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 and parameter.abs().sum() > 0 else 0.0, 0.06)
    out = folder / name
    model.save_pretrained(out)
    made.save(str(out / "tokenizer.json"))
    probe = torch.arange(3, 35).unsqueeze(0)
    with torch.no_grad():
        save_file({"input_ids": probe, "logits": model(probe).logits.contiguous()}, out / "logits.safetensors")
    return model


def conversations(folder, made):
    """ChatML of Qwen2 with the mask of what the assistant says, by transformers' own template engine."""
    template = ("{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}"
                "{% for m in messages %}{% if m['role'] == 'assistant' %}{{ '<|im_start|>assistant\n' }}{% generation %}"
                "{{ m['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}{% else %}"
                "{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}")
    fast = PreTrainedTokenizerFast(tokenizer_object=made)
    rows = []
    for k, call in enumerate(calls(13, 24)):
        messages = [{"role": "system", "content": "Answer with a call."}] if k % 2 else []
        messages += [{"role": "user", "content": call["prompt"].strip()}, {"role": "assistant", "content": call["completion"]}]
        if k % 3 == 0:
            messages += [{"role": "user", "content": "Merci \u00e0 toi \U0001f600!"}, {"role": "assistant", "content": "  You're welcome.\n"}]
        made_ids = fast.apply_chat_template(messages, chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        rows.append({"messages": messages, "ids": list(made_ids["input_ids"]), "mask": list(made_ids["assistant_masks"])})
    write_lines(folder / "chat.jsonl", rows)


def main():
    torch.manual_seed(1)
    torch.set_num_threads(4)
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    texts = odd_texts()
    sources = texts + [row["prompt"] + row["completion"] for row in calls(14, 200)]
    sources += [p.read_text(errors="ignore")[:4000] for p in sorted(pathlib.Path(json.__file__).parent.parent.glob("*.py"))[:60]]
    qwen = tokenizer(QWEN2, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"], True, sources)
    llama = tokenizer(LLAMA3, ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"], False, sources)
    qwen.save(str(folder / "tok_qwen2.json"))
    llama.save(str(folder / "tok_llama3.json"))
    write_lines(folder / "corpus.jsonl", [{"text": text, "qwen2": qwen.encode(text).ids, "llama3": llama.encode(text).ids,
                                           "qwen2_decoded": qwen.decode(qwen.encode(text).ids, skip_special_tokens=False)} for text in texts])
    conversations(folder, qwen)
    end = qwen.token_to_id("<|endoftext|>")
    shape = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, vocab_size=1024,
                 max_position_embeddings=512, rope_theta=1e6, rms_norm_eps=1e-6, attn_implementation="eager")
    tiny(folder, "tiny_llama", LlamaConfig(**shape, tie_word_embeddings=False), LlamaForCausalLM, llama)
    model = tiny(folder, "tiny_qwen2", Qwen2Config(**shape, tie_word_embeddings=True), Qwen2ForCausalLM, qwen)
    curve(folder, model, lambda text: qwen.encode(text).ids, end)


if __name__ == "__main__":
    main()
