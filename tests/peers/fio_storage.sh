#!/usr/bin/env bash
# Compares bench_storage with fio in turns: same folder, file size, block size, depth and engine, both with O_DIRECT and
# fsync. Prints the rates in GB/s and the ratios of the medians; a difference of more than 5 % ends with 1.
# Usage: fio_storage.sh BENCH_STORAGE FOLDER [TURNS]
set -eu
bench=$1 folder=$2 turns=${3:-6}
command -v fio > /dev/null || { echo "fio: is not installed; run apt-get install fio" >&2; exit 77; }
scratch=$(mktemp -d "$folder/fio-storage.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

ours() { # write|read: one row of the full tier
  "$bench" --backend=host --tier=full --storage-dir="$scratch" --benchmark_filter="storage/op:$1" \
    --benchmark_out="$scratch/row.json" > "$scratch/ours.log" 2>&1 || { tail -n 5 "$scratch/ours.log" >&2; exit 1; }
  grep -o "\"$1_gb_per_s\": *[0-9.e+-]*" "$scratch/row.json" | head -n 1 | sed 's/.*: *//'
}
peer() {
  fio --name=peer --filename="$scratch/peer" --rw="$1" --bs=4M --size=1G --iodepth=8 --ioengine=io_uring --direct=1 \
    --end_fsync=1 --minimal --terse-version=3 --eta=never |
    awk -F';' -v op="$1" '{printf "%.4f\n", (op == "write" ? $48 : $7) * 1024 / 1e9}' # KiB/s of a write or a read
}
median() { sort -g | awk '{value[NR] = $1} END {print (value[int((NR + 1) / 2)] + value[int(NR / 2) + 1]) / 2}'; }

status=0
for op in write read; do
  rm -f "$scratch/ours" "$scratch/peer.rates"
  [ "$op" = write ] || peer write > /dev/null
  for turn in $(seq "$turns"); do
    ours "$op" >> "$scratch/ours"
    peer "$op" >> "$scratch/peer.rates"
    echo "$op $turn: $(tail -n 1 "$scratch/ours") $(tail -n 1 "$scratch/peer.rates"), load $(cut -d' ' -f1 /proc/loadavg)"
  done
  ratio=$(echo "$(median < "$scratch/ours") $(median < "$scratch/peer.rates")" | awk '{printf "%.3f", $1 / $2}')
  echo "$op: $ratio of fio (n = $turns)"
  awk -v ratio="$ratio" 'BEGIN {exit !(ratio >= 0.95)}' || status=1
done
exit $status
