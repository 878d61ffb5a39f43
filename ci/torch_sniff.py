#!/usr/bin/env python3
"""Tests the GPU of each rank of a PyTorch job between two steps: copy `sniff` into your job.

  SHAKEDOWN_SNIFF=build/lib/libshakedown_sniff.so ci/torch_sniff.py        a job of one rank
  SHAKEDOWN_SNIFF=... torchrun --nproc-per-node=8 ci/torch_sniff.py        one rank on each GPU

The call takes some seconds. Call it every hour, say, or after a step that was slow.
"""
import ctypes
import os

import torch


def sniff(device, seconds=10):
    """Returns (result, line): 0 good, 1 a fault that the line names, 3 not measured. Frees the cache of PyTorch first."""
    torch.cuda.empty_cache()
    torch.cuda.synchronize(device)
    library = ctypes.CDLL(os.environ.get("SHAKEDOWN_SNIFF", "libshakedown_sniff.so"))
    call = library.shakedown_sniff
    call.argtypes = [ctypes.c_char_p, ctypes.c_double, ctypes.c_char_p, ctypes.c_size_t]
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    line = ctypes.create_string_buffer(4096)
    result = call(("GPU-" + uuid).encode(), seconds, line, len(line))
    return result, line.value.decode(errors="replace")


def main():
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
    torch.cuda.set_device(device)
    weights = torch.randn(4096, 4096, device=device, requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=1e-6)
    for step in range(20):
        loss = (torch.randn(4096, 4096, device=device) @ weights).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            result, line = sniff(device)
            print(f"step {step}: {result} {line}", flush=True)
            if result == 1:
                raise SystemExit(1)


if __name__ == "__main__":
    main()
