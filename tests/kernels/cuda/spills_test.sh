#!/usr/bin/env bash
# No stream kernel keeps registers in memory, on any generation: spills would be traffic that a bandwidth does not count.
#
#   tests/kernels/cuda/spills_test.sh NVCC
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
failed=0
for generation in 80 90 100; do
  "$1" -std=c++20 -I"$root" --expt-relaxed-constexpr -O3 -arch=sm_$generation -cubin -Xptxas -v -o "$out/stream.cubin" \
    "$root/kernels/cuda/stream.cu" 2>"$out/log" || { cat "$out/log"; exit 1; }
  kernels=$(grep -c 'bytes spill stores' "$out/log") || true
  spills=$(grep -B1 -E '[1-9][0-9]* bytes spill stores' "$out/log") || true
  echo "sm_$generation: $kernels kernels${spills:+, some spill: $spills}"
  if [ "$kernels" = 0 ] || [ -n "$spills" ]; then failed=1; fi
done
exit $failed
