#!/usr/bin/env python3
"""Makes inputs of bench_finetune with transformers, and checks what it wrote.

  huggingface_finetune.py calls FOLDER TOKENIZER      a small random Qwen2 of 4 layers, and calls.jsonl and held_out.jsonl: made-up
                                                      function calls, {"prompt", "completion"}; no held-out call is in the first file
  huggingface_finetune.py large FOLDER TOKENIZER      Qwen2-7B with 8 layers and random bf16 weights, and text.jsonl of long texts
  huggingface_finetune.py match MODEL HELD_OUT        the share of held-out calls whose name and arguments are exactly those of the
                                                      greedy answer of the model folder
  huggingface_finetune.py curve METRICS CURVE         the largest relative difference of the losses of metrics.jsonl and of
                                                      huggingface_cases.py's curve_f32.json
  huggingface_finetune.py adapters MODEL RUN          the largest difference between the logits of peft's model of MODEL with RUN/adapter
                                                      and those of RUN/model, the merged model (bench_finetune --merge)
TOKENIZER is a tokenizer.json of huggingface_cases.py.
"""
import json
import pathlib
import random
import shutil
import sys

import torch
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

END = "<|endoftext|>"
ASKED = [("weather", "What is the weather in {0} for {1} days?"), ("hotel", "Find a hotel in {0} for {1} nights."),
         ("flight", "Book {1} seats to {0}."), ("taxi", "I need a taxi in {0} for {1} people.")]
CITIES = ["Paris", "Oslo", "Lima", "Cairo", "Tokyo", "Quito", "Delhi", "Rome", "Accra", "Minsk", "Dakar", "Havana", "Riga", "Seoul",
          "Sofia", "Tunis", "Vienna", "Warsaw", "Zagreb", "Berlin", "Bern", "Bogota", "Dublin", "Hanoi", "Kyiv", "Lisbon", "London",
          "Madrid", "Manila", "Nairobi"]


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_calls(folder, tokenizer):
    torch.manual_seed(3)
    config = Qwen2Config(hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
                         vocab_size=1024, max_position_embeddings=512, tie_word_embeddings=True)
    Qwen2ForCausalLM(config).float().save_pretrained(folder / "model")
    shutil.copy(tokenizer, folder / "model" / "tokenizer.json")
    all_calls = [(kind, city, count) for kind in range(len(ASKED)) for city in CITIES for count in range(1, 100)]
    random.Random(21).shuffle(all_calls)
    rows = [{"prompt": ASKED[kind][1].format(city, count) + "\n",
             "completion": json.dumps({"name": ASKED[kind][0], "arguments": {"city": city, "count": count}})}
            for kind, city, count in all_calls]
    write_lines(folder / "held_out.jsonl", rows[:300])
    write_lines(folder / "calls.jsonl", rows[300:])


def make_large(folder, tokenizer):
    config = Qwen2Config(hidden_size=3584, intermediate_size=18944, num_hidden_layers=8, num_attention_heads=28, num_key_value_heads=4,
                         vocab_size=152064, max_position_embeddings=32768, tie_word_embeddings=False)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = Qwen2ForCausalLM(config)
    model.save_pretrained(folder / "model")
    shutil.copy(tokenizer, folder / "model" / "tokenizer.json")
    draw = random.Random(5)
    rows = [{"text": " ".join(draw.choice(CITIES) for _ in range(1500))} for _ in range(600)]
    write_lines(folder / "text.jsonl", rows)


def match(model, held_out):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(model / "tokenizer.json"))
    end = tokenizer.convert_tokens_to_ids(END)
    net = Qwen2ForCausalLM.from_pretrained(model, dtype=torch.float32).cuda().eval()
    rows = [json.loads(line) for line in held_out.read_text().splitlines()]
    right = 0
    for row in rows:
        ids = torch.tensor([tokenizer.encode(row["prompt"], add_special_tokens=False)], device="cuda")
        made = net.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=60, do_sample=False, eos_token_id=end, pad_token_id=end)
        answer = tokenizer.decode([t for t in made[0, ids.shape[1]:].tolist() if t != end])
        try:
            right += json.loads(answer) == json.loads(row["completion"])
        except json.JSONDecodeError:
            pass
    print(f"{right} of {len(rows)} held-out calls are exact: {100 * right / len(rows):.1f} %")


def curve(metrics, stored):
    ours = [row["train/loss"] for row in map(json.loads, metrics.read_text().splitlines()) if "train/loss" in row]
    theirs = [step["loss"] for step in json.loads(stored.read_text())["steps"]]
    worst = max(abs(a / b - 1) for a, b in zip(ours, theirs, strict=True))
    print(f"{len(ours)} losses from {ours[0]:.4f} to {ours[-1]:.4f}, at most {100 * worst:.3f} % from torch in float32")


def adapters(model, run):
    import peft

    ids = torch.arange(3, 67)[None]
    base = Qwen2ForCausalLM.from_pretrained(model, dtype=torch.float32).eval()
    with torch.no_grad():
        plain = base(ids).logits
        adapted = peft.PeftModel.from_pretrained(base, run / "adapter").eval()(ids).logits
        merged = Qwen2ForCausalLM.from_pretrained(run / "model", dtype=torch.float32).eval()(ids).logits
    print(f"peft {peft.__version__}: logits with adapters differ from those of the merged model by up to "
          f"{(adapted - merged).abs().max():.2g}, from those without by up to {(adapted - plain).abs().max():.2g}; the largest is "
          f"{plain.abs().max():.2g}")


def main():
    verb, first, second = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    if verb in ("calls", "large"):
        first.mkdir(parents=True, exist_ok=True)
    {"calls": make_calls, "large": make_large, "match": match, "curve": curve, "adapters": adapters}[verb](first, second)


if __name__ == "__main__":
    main()
