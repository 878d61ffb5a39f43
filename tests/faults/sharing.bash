# Other users of a GPU, and the placement of ranks: sourced by faults_test.sh, with GPUs only.
# shellcheck shell=bash disable=SC2154,SC2034

# value METRIC: prints the metric of the first row of the last result.
value() { grep -m1 -oE "\"$1\": ?[-+0-9.e]+" result.json | grep -oE '[-+0-9.e]+$'; }
# within PERCENT A B: true if A is at most PERCENT below B.
within() { awk "BEGIN { a = $2 + 0; b = $3 + 0; exit !(b > 0 && a / b > 1 - $1 / 100) }"; }
identities() { grep -oE '"(uuid|pci)": ?"[^"]+"' "$1" | paste -d ' ' - - | sort; }

beside() { # beside GPU SHARE GIBIBYTES: starts another user of that GPU
  CUDA_VISIBLE_DEVICES=${devices[$1]} "$build/tests/gpu_load" 0 "$2" arithmetic "$3" >busy.out 2>&1 &
  other=$!
  for _ in {1..100}; do
    grep -q ready busy.out && return
    sleep 0.1
  done
}
leave() {
  kill -KILL "$other" 2>/dev/null
  wait "$other" 2>/dev/null
}

if wants sharing; then
  total=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits | head -n 1)
  beside "$last" 0 $((total / 1024 - 8))
  measures "memory hog on GPU $last" allreduce 0 "waived: $(named "$last"): needs [0-9.]+ GB, [0-9.]+ GB free" bench_allreduce --benchmark_filter='f32/bytes:(8|8589934592)$'
  expect "  what fits is measured" grep -qE '"algbw_gb_per_s"' result.json
  leave
  measures "no other user" gemm 0 '"complete": ?true' bench_gemm --benchmark_filter='bf16/m:8192/n:8192/k:8192$'
  echo "  alone: $(grep -oE '"tflops": ?\[[^]]*\]' result.json)"
  beside "$last" 0.05 0
  measures "5 % load on GPU $last" gemm 0 '"complete": ?true' bench_gemm --benchmark_filter='bf16/m:8192/n:8192/k:8192$'
  echo "  beside: $(grep -oE '"tflops": ?\[[^]]*\]' result.json)"
  leave
fi

if wants placement; then
  measures "usual order" identity 0 '"complete": ?true' bench_hbm --benchmark_filter='op:copy/engine:sm' --benchmark_min_time=0.01
  identities result.json >usual
  usual_first=$(grep -m1 -oE '"uuid": ?"[^"]+"' result.json)
  if [[ $ranks -gt 1 ]]; then
    with=(-x SHAKEDOWN_RUN_ID -x CUDA_VISIBLE_DEVICES="$(printf '%s\n' "${devices[@]:0:ranks}" | tac | paste -s -d,)")
    measures "permuted mask" identity 0 '"complete": ?true' bench_hbm --benchmark_filter='op:copy/engine:sm' --benchmark_min_time=0.01
    expect "  UUID and PCI address belong together as before" cmp -s usual <(identities result.json)
    expect "  and the first rank has another GPU" test "$usual_first" != "$(grep -m1 -oE '"uuid": ?"[^"]+"' result.json)"
    with=(-x SHAKEDOWN_RUN_ID)
    measures "NVLink" allreduce 0 '"busbw_gb_per_s": ?[0-9.]+' bench_allreduce --benchmark_filter='f32/bytes:1073741824$'
    with=(-x SHAKEDOWN_RUN_ID -x NCCL_P2P_DISABLE=1)
    measures "NCCL_P2P_DISABLE=1" allreduce 0 '"busbw_gb_per_s": ?[0-9.]+' bench_allreduce --benchmark_filter='f32/bytes:1073741824$'
    expect "  the variable is on record" grep -qE '"NCCL_P2P_DISABLE": ?"1"' result.json
  fi
  with=(-x SHAKEDOWN_RUN_ID -x SHAKEDOWN_NVML=/nonexistent)
  measures "no NVML" hbm 0 '"complete": ?true' bench_hbm --benchmark_filter='op:copy/engine:sm' --benchmark_min_time=0.01
fi

if wants cores; then
  # Every rank on one core. Operations that run only on the GPU must keep their speed.
  with=(-x SHAKEDOWN_RUN_ID)
  cores=("${launch[@]}")
  for large in "gemm bf16/m:8192/n:8192/k:8192$ tflops" "hbm op:copy/engine:sm hbm_gb_per_s" "p2p op:read/engine:ce/src:0/dst:1/bytes copy_gb_per_s" "allreduce f32/bytes:8$ latency_us"; do
    read -r family filter metric <<<"$large"
    [[ $ranks -gt 1 || $family != p2p ]] || continue
    measures "all cores" "$family" 0 '"complete": ?true' "bench_$family" --benchmark_filter="$filter"
    free=$(value "$metric")
    launch=(taskset -c 0 "${cores[@]}")
    measures "one core" "$family" 0 '"complete": ?true' "bench_$family" --benchmark_filter="$filter"
    launch=("${cores[@]}")
    echo "  $metric: $free on all cores, $(value "$metric") on one"
    [[ $family == allreduce ]] || expect "  $family is unharmed" within 6 "$(value "$metric")" "$free"
  done
fi
