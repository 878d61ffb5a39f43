#!/usr/bin/env bash
# Runs each program of bench/ under the sanitizers of this build: alone, as two ranks over TCP, and as two ranks under mpirun.
# A report fails the test, whatever the exit code is. Run by ctest --preset asan, ubsan or tsan.
# shellcheck source-path=SCRIPTDIR source=../shell.bash
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
hide_gpus
limit=600

# Time limits of benchmarks assume code at its usual speed.
flags=(--backend=host --benchmark_min_time=0.001 --timeout=500)

# Each process writes its reports to a separate file. Options that are already set are kept.
mkdir reports
for name in ASAN UBSAN TSAN; do
  options=${name}_OPTIONS
  export "$options=${!options:+${!options}:}log_path=$scratch/reports/$name"
done

# clean: true if the last run made no report; prints a report if there is one. UBSan with ASan only writes to standard error.
clean() {
  local report found=()
  for report in reports/*; do
    [[ -e $report ]] || continue
    found+=("$report")
    head -n 60 "$report"
  done
  rm -f "${found[@]}"
  [[ ${#found[@]} -eq 0 ]] && ! says 'runtime error:'
}

cat >ranks <<'EOF'
#!/usr/bin/env bash
code=0
export WORLD_SIZE=2 MASTER_ADDR=localhost MASTER_PORT=$PORT
RANK=1 "$@" &
RANK=0 "$@" || code=$?
wait $! || code=$?
exit $code
EOF
chmod +x ranks
export PORT=$((20000 + $$ % 10000))

programs=0
for program in "$build"/bench/bench_*; do
  [[ -f $program && -x $program ]] || continue
  name=$(basename "$program")
  programs=$((programs + 1))
  # Instrumented loops over many megabytes take minutes and find no more than small sizes.
  own=()
  case $name in
    bench_all) own=(--out-dir=. --benchmark_filter='^preflight|bytes:8$') ;;
    bench_allreduce) own=(--benchmark_filter='bytes:[0-9]{1,6}$|bytes:8/') ;;
  esac
  run 0 "$program" "${flags[@]}" "${own[@]}"
  expect "$name alone" clean
  run 0 ./ranks "$program" "${flags[@]}" "${own[@]}"
  expect "  as two ranks over TCP" clean
  command -v mpirun >/dev/null || continue
  run 0 mpi -np 2 "$program" "${flags[@]}" "${own[@]}"
  expect "  as two ranks under mpirun" clean
done
expect "there are programs" test "$programs" -gt 10
finish
