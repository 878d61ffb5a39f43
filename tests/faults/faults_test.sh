#!/usr/bin/env bash
# Plants every possible fault and prints the end of the job: the reported culprit, the exit code, the seconds from the fault to
# the end, and leftovers. With GPUs, runs on at most 4 of them, one rank each. Without GPUs, runs the host backend with four
# ranks on two hosts in namespaces, which needs root (else exit code 77, skipped).
#
#   tests/faults/faults_test.sh BUILD [--repeat=N] [--backend=cuda|host] [--only=REGEX] [--but=REGEX] [--shared]
#
# --repeat: how many times ranks are killed and stopped in each place, and skip a collective (1). --only, --but: runs the
# sections that match, or do not: kill stop skip injected cuda counters launcher peers lies data bits startup link sharing
# placement cores. --shared: other programs use the GPUs too, so the memory that a job leaves is not compared.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2015,SC2034,SC2054,SC2154
source "$(dirname "$0")/../shell.bash"
here=$(dirname "$(readlink -f "$0")")
repeat=1 only=. but="^$" backend="" shared=""
for argument in "${@:2}"; do
  case $argument in
    --repeat=*) repeat=${argument#*=} ;;
    --only=*) only=${argument#*=} ;;
    --but=*) but=${argument#*=} ;;
    --backend=*) backend=${argument#*=} ;;
    --shared) shared=yes ;;
    *) echo "$argument: unknown; the flags are --repeat=N, --backend=cuda|host, --only=REGEX, --but=REGEX and --shared" >&2 && exit 2 ;;
  esac
done
cd "$scratch" || exit 1
if [[ -z $backend ]]; then
  backend=host
  if "$build/bench/bench_gemm" --backend=cuda --benchmark_list_tests >/dev/null 2>&1; then backend=cuda; fi
fi

if [[ $backend == cuda ]]; then
  # The GPUs in a numeric mask, else all GPUs.
  IFS=, read -ra devices <<<"${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 $(($(nvidia-smi --list-gpus | wc -l) - 1)))}"
  gpus=${#devices[@]}
  ranks=$((gpus < 4 ? gpus : 4))
  export SHAKEDOWN_LAUNCH="mpirun --bind-to none -np $ranks"
  host_of() { hostname; }
  watch=3 startup=8 in_place=134217728
  lies=$build/tests/liblying_cuda.so
  sweep=(bench_allreduce --benchmark_filter='^allreduce/dtype:f32/bytes:[0-9]*$' --benchmark_min_time=0.2)
  products=(bench_gemm --benchmark_min_time=0.3) gemm_watch=$watch gemm_line=2
else
  agent=$here/fakehost.sh
  if ! "$agent" probe true 2>/dev/null; then
    echo "SKIP: namespaces need root"
    exit 77
  fi
  ranks=4
  # The ranks share the available cores: waiting ranks yield.
  export SHAKEDOWN_LAUNCH="mpirun --bind-to none --oversubscribe --mca mpi_yield_when_idle 1 --host nodea:2,nodeb:2 --mca plm_rsh_agent $agent -np 4"
  host_of() { [[ $1 -lt 2 ]] && echo nodea || echo nodeb; }
  watch=3 startup=15 in_place=1048576
  lies=$build/tests/liblying_host.so
  sweep=(bench_allreduce --benchmark_filter='^allreduce/dtype:f32/bytes:[0-9]*$' --benchmark_min_time=0.3)
  products=(bench_gemm --benchmark_filter=f32/m:1024 --benchmark_min_time=100) gemm_watch=8 gemm_line=1
fi
launch=("$build/bin/shakedown" launch) could_not_run=3
stopped_startup=8  # the limit of a start that shall exceed it
common=(--backend="$backend")
with=(-x SHAKEDOWN_RUN_ID)
export SHAKEDOWN_RUN_ID=faults-test
source "$here/job.bash"
last=$((ranks - 1))
named() { echo "rank $1 \\($(host_of "$1")( [^)]*)?\\)"; }
wants() { [[ $1 =~ $only && ! $1 =~ $but ]]; }

# --- a healthy job first, so that later failures come from their faults -----------------------------------------------------
measures healthy - 0 '"complete": ?true' bench_allreduce --benchmark_filter='f32/bytes:(8|32)$'
cp result.json healthy.json
if [[ $backend == host ]]; then
  expect "four ranks stand on two hosts" grep -qE '"hosts": ?2' healthy.json
  expect "local ranks are counted per host" test "$(grep -oE '"local_rank": ?1' healthy.json | wc -l)" = 2
fi

# --- ranks killed and stopped at different places ---------------------------------------------------------------------------
# at PLACE: starts a job and waits until it reaches PLACE. It watches the output instead of sleeping, because each benchmark of
# a sweep has a separate time limit.
at() {
  case $1 in
    allreduce) start "${sweep[@]}" && until_line '^\[2/' ;;
    gemm) watch=$gemm_watch start "${products[@]}" && until_line "^\\[$gemm_line/" ;;
    start-up) startup=$stopped_startup start "${sweep[@]}" ;;
  esac
}
places=(allreduce gemm start-up)
for ((i = 0; i < 3 * repeat; ++i)); do
  place=${places[i % 3]} victim=$(((i + 2) % ranks))
  if wants kill; then
    at "$place"
    strike KILL "$victim"
    # On a busy machine, mpirun sometimes does not know which rank of those in MPI_Init was killed (one of ten runs).
    unknown=
    [[ $place != start-up ]] || unknown='|exit code 137: SIGKILL ended'
    ends "kill -9 rank $victim" "$place" "$watch" "$(named "$victim") ended|process rank $victim with PID [0-9]+ on node $(host_of "$victim") exited on signal 9$unknown"
  fi
  if wants stop && [[ $ranks -gt 1 ]]; then  # a single rank has no other rank to notice it
    at "$place"
    strike STOP "$victim"
    case $place in start-up) limit=$stopped_startup ;; gemm) limit=$gemm_watch ;; *) limit=$watch ;; esac
    ends "SIGSTOP rank $victim" "$place" "$limit" "$(named "$victim") (sends no heartbeats|is stopped in its start-up)"
  fi
done

# --- one rank skips one collective --------------------------------------------------------------------------------------------
# In NCCL: the second operation of all; one in the 200 ms in which a new communicator settles; one that is timed.
skip_places=("connect 1" "connect 100" "sample 30000")
[[ $backend == cuda ]] || skip_places=("sample 0")
for ((i = 0; i < (repeat > ${#skip_places[@]} ? repeat : ${#skip_places[@]}); ++i)); do
  wants skip && [[ $ranks -gt 1 ]] || break
  victim=$(((i + 1) % ranks))
  read -r phase after <<<"${skip_places[i % ${#skip_places[@]}]}"
  if [[ $backend == host ]]; then
    with=(-x SHAKEDOWN_RUN_ID -x SHAKEDOWN_FAULT="skip@$victim")
  else
    with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$lies" -x SHAKEDOWN_LIE="skip_one@$victim+$after") sign='planted: '
  fi
  # Time for 30,000 operations while other tests use the GPUs.
  start bench_allreduce --benchmark_filter='f32/bytes:8$' --benchmark_min_time=5
  ends "rank $victim skips one" "allreduce, $phase" "$watch" "timeout: allreduce.*\\((connect|sample)\\).*$(named "$victim") went on without the others"
done
with=(-x SHAKEDOWN_RUN_ID) sign='^\[1/'

# --- faults injected into the host backend ------------------------------------------------------------------------------------
if [[ $backend == host ]] && wants injected; then
  small=(bench_allreduce --benchmark_filter='f32/bytes:(8|32)$')
  fault() {
    local could_not_run=$could_not_run
    [[ $1 != exit@* ]] || could_not_run=not0  # Open MPI's own code, 1, for a rank that exits without an error
    local startup=$startup
    [[ $1 != hang@*:init ]] || startup=$stopped_startup
    with=(-x SHAKEDOWN_RUN_ID -x SHAKEDOWN_FAULT="$1")
    start "${small[@]}"
    ends "$1" "${3:-sample}" "${4:-$watch}" "$2"
    with=(-x SHAKEDOWN_RUN_ID)
  }
  fault throw@2 'shakedown: rank 2 \(nodeb\): injected fault'
  fault throw@1:prepare 'shakedown: rank 1 \(nodea\): injected fault' prepare
  fault exit@2 'shakedown: rank 2 \(nodeb\) ended unexpectedly in allreduce'
  fault exit@0 'shakedown: rank 0 \(nodea\) ended'
  fault kill@3:connect 'shakedown: rank 3 \(nodeb\) ended unexpectedly in allreduce' connect
  fault kill@2:init 'node nodeb.*signal 9|rank 2.*nodeb' start-up
  fault hang@2 'shakedown: timeout: allreduce/dtype:f32/bytes:8 \(sample\).*rank 2 \(nodeb\) did not advance, 3 ranks wait'
  fault hang@0 'shakedown: timeout: .*rank 0 \(nodea\) did not advance, 3 ranks wait'
  fault hang@3:prepare 'shakedown: timeout: .*\(prepare\).*rank 3 \(nodeb\) did not advance' prepare
  fault hang@1:connect 'shakedown: timeout: .*\(connect\).*rank 1 \(nodea\) did not advance' connect
  fault hang@1:verify 'shakedown: timeout: .*\(verify\).*rank 1 \(nodea\) did not advance' verify
  fault hang@2:init 'shakedown: timeout: rank 2 \(nodeb\).*before MPI_Init' start-up "$stopped_startup"
fi

# --- errors of CUDA and NCCL on one rank --------------------------------------------------------------------------------------
if [[ $backend == cuda ]] && wants cuda; then
  victim=$last
  for program in allreduce gemm; do
    with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$lies" -x SHAKEDOWN_LIE="illegal@$victim+60")
    start bench_$program --benchmark_filter='bytes:8$|m:4096'
    ends "illegal address rank $victim" "$program" "$watch" "shakedown: $(named "$victim"): cuda/.*:[0-9]+ in .*illegal memory access"
    expect "  and the GPU is named" grep -qE "rank $victim \\(.* GPU-[0-9a-f-]+\\): cuda/" err
  done
  with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$lies" -x SHAKEDOWN_LIE="memory@$victim")
  measures "no memory, rank $victim" allreduce 0 "waived: $(named "$victim"): the driver refused to allocate [0-9.]+ MB, [0-9.]+ GB free" bench_allreduce --benchmark_filter='f32/bytes:1073741824$'
  if [[ $ranks -gt 1 ]]; then
    with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$lies" -x SHAKEDOWN_LIE="async@$victim+3")
    start bench_allreduce --benchmark_filter='f32/bytes:8589934592$' --benchmark_min_time=20
    ends "NCCL error rank $victim" allreduce "$watch" "shakedown: $(named "$victim"): cuda/communicator.*ncclResult_t"
  fi
  with=(-x SHAKEDOWN_RUN_ID)
fi

# --- errors and heat reported by the driver -----------------------------------------------------------------------------------
if [[ $backend == cuda ]] && wants counters; then
  # The counters are right the first time, and so are the first samples of the clock's limits.
  for lie in 'ecc+1:fail' 'replays+1:warn' 'thermal+3:fail' 'xid+0:fail'; do
    with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$build/tests/liblying_nvml.so" -x SHAKEDOWN_LIE="${lie%%+*}@${last}+${lie//[!0-9]/}")
    measures "driver: ${lie%%+*} rank $last" gemm 0 '"complete": ?true' bench_gemm --benchmark_filter='bf16/m:8192/n:8192/k:8192$' --benchmark_min_time=0.5
    "$build/bin/shakedown" report --results=result.json --families=gemm --csv=verdict.csv >verdict.txt 2>&1
    expect "  ${lie#*:}, by name" grep -qE "^machine/(errors|slowdown)/rank:$last,.*,${lie#*:}," verdict.csv
  done
  with=(-x SHAKEDOWN_RUN_ID)
fi

# --- the launcher is terminated -----------------------------------------------------------------------------------------------
if wants launcher; then
  for signal in TERM INT; do
    at allreduce
    struck=$(now)
    kill "-$signal" "$launcher"
    ends "SIG$signal" launcher 0 .
  done
  sed -E 's/"complete": ?true/"complete": false/' healthy.json >partial.json
  verdict=$(verdict_of partial.json)
  row "unfinished result" judge "$([[ $verdict == *INCOMPLETE* ]] && echo ok || echo judged)" - - - "$verdict"
fi

# --- libraries that skip operations, or execute only a part -------------------------------------------------------------------
for lie in skip part; do
  with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$lies" -x SHAKEDOWN_LIE="$lie")
  if wants peers && [[ $ranks -gt 1 ]]; then
    measures "library: $lie" "allreduce, in place" 1 'wrong data: [^"]*' bench_allreduce --benchmark_filter="bytes:$in_place/place:in\$" --benchmark_min_time=0.05
    [[ $backend == host ]] || measures "library: $lie" "peer copy" 1 'wrong data: [^"]*' bench_p2p --benchmark_filter='engine:ce/src:0/dst:1/' --benchmark_min_time=0.05
  fi
  if wants lies; then
    measures "library: $lie" allreduce 1 'wrong data: [^"]*' bench_allreduce --benchmark_filter='f32/bytes:(8|131072|33554432)$' --benchmark_min_time=0.05
    expect "  at all sizes" test "$(grep -c 'wrong data' result.json)" = "$(grep -c '"name": *"allreduce' result.json)"
    [[ $backend == cuda && $lie == part ]] || measures "library: $lie" gemm 1 'wrong data: [^"]*' bench_gemm --benchmark_filter='dtype:(f32|bf16)/m:(1024|4096)/n:(1024|4096)/' --benchmark_min_time=0.05
    [[ $backend == host ]] && continue
    measures "library: $lie" "graph" 1 'wrong data: [^"]*' bench_allreduce --benchmark_filter='bytes:1024/launch:graph$' --benchmark_min_time=0.05
    measures "library: $lie" "copy engine" 1 'wrong data: [^"]*' bench_hbm --benchmark_filter='op:copy/engine:ce' --benchmark_min_time=0.05
    [[ $lie == part ]] || measures "library: $lie" "own kernels" 1 'wrong data: [^"]*one was skipped[^"]*' bench_hbm --benchmark_filter='op:(copy|write|triad)/engine:sm' --benchmark_min_time=0.05
    measures "library: $lie" pcie 1 'wrong data: [^"]*' bench_pcie --benchmark_filter='op:(h2d|d2h|both)/bytes' --benchmark_min_time=0.05
  fi
done
with=(-x SHAKEDOWN_RUN_ID)

# --- wrong data ---------------------------------------------------------------------------------------------------------------
if wants data; then
  if [[ $backend == host ]]; then
    with=(-x SHAKEDOWN_RUN_ID -x SHAKEDOWN_FAULT="corrupt@1")
    for family in allreduce hbm; do  # fixtures/suite_test.sh has all families
      measures "wrong element rank 1" "$family" 1 'wrong data: rank 1 [^"]*' "bench_$family" --benchmark_filter='/bytes:8$|hbm/op:copy' --benchmark_min_time=0.01
      expect "  in every benchmark" test "$(grep -c 'wrong data: rank 1' result.json)" = "$(grep -cE '"name": *"[a-z0-9]+/' result.json)"
    done
  elif [[ $ranks -gt 2 ]]; then
    with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$lies" -x SHAKEDOWN_LIE="bits@$last")
    measures "other bits rank $last" gemm 1 "$(named "$last") computed different bits than [0-9]+ of its peers" bench_gemm --benchmark_filter='dtype:f32/'
  fi
  if [[ $backend == cuda && $ranks -gt 1 ]]; then
    with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$lies" -x SHAKEDOWN_LIE="device@$last")
    measures "GPU does not open, rank $last" preflight 0 '"complete": ?true' bench_preflight
  fi
  if [[ $backend == cuda && -e $build/tests/librefusing_cudnn.so ]]; then
    gpt=(bench_train_step --tier=full --benchmark_filter='^train_step/model:gpt2_124m/batch:32/seq:1024$')
    with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$build/tests/librefusing_cudnn.so" -x SHAKEDOWN_LIE=deterministic)
    measures "no deterministic attention" train_step 0 'attention is not deterministic here' "${gpt[@]}"
    with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$build/tests/librefusing_cudnn.so" -x SHAKEDOWN_LIE=attention)
    measures "no attention" train_step 0 'waived for software: [^"]* cuDNN' "${gpt[@]}"
  fi
  with=(-x SHAKEDOWN_RUN_ID)
fi

# --- bits that flip sometimes, or always --------------------------------------------------------------------------------------
# flips RANKS FAMILY FLAGS...: one of ten operations of the last rank leaves a wrong bit. Every row must name this rank and no
# other rank. One row in a hundred may miss it, so one row of each family may.
flips() {
  local np=$1 family=$2 guilty=$(($1 - 1)) rows found
  shift 2
  with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$lies" -x SHAKEDOWN_LIE="flip@$guilty")
  measures "a bit in one of ten" "$family, $np ranks" 1 "wrong data: rank $guilty [^\"]*" "bench_$family" --tier=full --benchmark_min_time=0.02 "$@"
  rows=$(grep -cE '"name": *"[a-z0-9]+/' result.json) found=$(grep -cE "wrong data: rank $guilty " result.json)
  expect "  in every row" test "$rows" -gt 0 -a "$found" -ge $((rows - (rows > 2 ? 1 : 0)))
  expect "  and nobody else" test -z "$(grep -oE '"wrong_ranks": *\[[^]]*\]' result.json | grep -vE "\[ *$guilty *\]")"
  with=(-x SHAKEDOWN_RUN_ID)
}
# has_series PROGRAM FLAGS...: true if operations are currently fast enough for the series after the samples, where bits flip.
has_series() {
  rm -f result.json
  timeout -k 5 120 "${launch[@]}" "$build/bench/$1" "${common[@]}" --timeout=60 --tier=full --benchmark_min_time=0.02 \
    --benchmark_out="$scratch/result.json" "${@:2}" >out 2>err </dev/null && grep -qE '"series": *[2-4][0-9]\.' result.json
}
if wants bits; then
  every_launch=$SHAKEDOWN_LAUNCH
  if [[ $backend == cuda ]]; then
    to_launch="mpirun --bind-to none" product='dtype:(f32|bf16)/m:4096/n:4096/k:4096$' copy='op:copy/engine:(sm|ce)/bytes:268435456$|op:triad/engine:sm/bytes:268435456$'
    pair='op:read/engine:(sm|ce)/shift:1/bytes' collective='op:(all_gather|reduce_scatter|broadcast)/dtype:f32/bytes:(1048576|134217728)$'
    counts=(1) && [[ $ranks -lt 2 ]] || counts=(1 2)
  else
    to_launch="mpirun --bind-to none --oversubscribe --mca mpi_yield_when_idle 1" product='f32/m:256/' copy='op:copy'
    pair='op:read/engine:cpu/shift:1/bytes' collective='op:(all_gather|reduce_scatter|alltoall)/dtype:f32/bytes:(65536|4194304)$'
    counts=(1 2)
  fi
  for np in "${counts[@]}"; do
    export SHAKEDOWN_LAUNCH="$to_launch -np $np"
    flips "$np" gemm --benchmark_filter="$product"
    with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$lies" -x SHAKEDOWN_LIE="percent@$((np - 1))")
    measures "one element 1 % off" "gemm f32, $np ranks" 1 "wrong data: rank $((np - 1)) [^\"]*signed sum|wrong data: rank $((np - 1)) [^\"]*comparisons failed: element[^\"]*" bench_gemm --tier=full --benchmark_min_time=0.02 --benchmark_filter="${product/|bf16/}"
    # Slow operations have no series. Copies are slow if other programs use the memory.
    if has_series bench_hbm --benchmark_filter="$copy"; then
      flips "$np" hbm --benchmark_filter="$copy"
    else
      echo "left out: a bit in one of ten copies, $np ranks: they take too long here for a series"
    fi
    flips "$np" allreduce --benchmark_filter='f32/bytes:(1024|131072|1048576)$'
    [[ $np -gt 1 ]] || continue
    flips "$np" collectives --benchmark_filter="$collective"
    flips "$np" p2p --benchmark_filter="$pair"
    for lie in bits@1 bits@0; do
      with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$lies" -x SHAKEDOWN_LIE="$lie")
      measures "a bit always, $lie" "gemm, 2 ranks" 1 'computed different bits [^"]*one of the two ranks is at fault[^"]*' bench_gemm --tier=full --benchmark_min_time=0.02 --benchmark_filter="${product/|bf16/}"
      expect "  and nobody is accused" test -z "$(grep wrong_ranks result.json)"
    done
    with=(-x SHAKEDOWN_RUN_ID -x LD_PRELOAD="$lies" -x SHAKEDOWN_LIE=flip@7)
    measures "none" "gemm, 2 ranks" 0 '"complete": ?true' bench_gemm --tier=full --benchmark_min_time=0.02 --benchmark_filter="$product"
  done
  export SHAKEDOWN_LAUNCH=$every_launch
  with=(-x SHAKEDOWN_RUN_ID)
fi

# --- runs refused at the start ------------------------------------------------------------------------------------------------
if wants startup; then
  program=(--backend="$backend" --benchmark_filter='f32/bytes:8$')
  # refused WHAT PATTERN LAUNCH...: the run must end within seconds, with a nonzero exit code and without measurements
  refused() {
    local what=$1 pattern=$2 code=0 outcome=ok line
    shift 2
    began=$(now)
    timeout -k 5 60 "$@" >out 2>err </dev/null || code=$?
    refused_with=$code
    line=$(grep -m1 -E -- "$pattern" err)
    [[ -n $line ]] || outcome=unnamed
    [[ $code -ne 0 && $code -ne 124 ]] || outcome=code
    row "$what" start-up "$outcome" "$code" "$(elapsed "$began")" - "${line:-$(tail -n 1 err)}"
  }
  cp "$build/bench/bench_allreduce" other_build && echo >>other_build
  if [[ $backend == host ]]; then
    two=(mpirun --bind-to none --oversubscribe)
    refused "another MPI" 'rank 1 .* has mpi Some MPI 1.2.3, rank 0' "${two[@]}" -np 1 "$build/bench/bench_allreduce" "${program[@]}" : -np 1 -x LD_PRELOAD="$lies" -x SHAKEDOWN_LIE=version@1 "$build/bench/bench_allreduce" "${program[@]}"
  else
    two=(mpirun --bind-to none)
    refused "shared GPU" '2 ranks, 1 GPU on host .*start one rank per GPU' "${two[@]}" -x CUDA_VISIBLE_DEVICES="${devices[0]}" -np 2 "$build/bench/bench_allreduce" "${program[@]}"
    [[ $gpus -lt 3 ]] || refused "other visible GPUs" 'local rank 1 sees 2 GPUs \(mask CUDA_VISIBLE_DEVICES=[0-9,]+\), local rank 0 sees 2 GPUs \(mask' "${two[@]}" -np 1 -x CUDA_VISIBLE_DEVICES="${devices[0]},${devices[1]}" "$build/bench/bench_allreduce" "${program[@]}" : -np 1 -x CUDA_VISIBLE_DEVICES="${devices[1]},${devices[2]}" "$build/bench/bench_allreduce" "${program[@]}"
    for excess in $((gpus + 1)) $((2 * gpus)) $((4 * gpus)); do
      for family in allreduce preflight; do
        refused "excess ranks" "$excess ranks, $gpus GPUs? on host .*start one rank per GPU" "${two[@]}" --oversubscribe -np $excess "$build/bench/bench_$family" --backend=cuda
        expect "  with exit code 2" test "$refused_with" -eq 2
      done
    done
  fi
  [[ $backend == cuda && $ranks -lt 2 ]] || refused "another build" 'rank 1 .* has another build' "${two[@]}" -np 1 "$build/bench/bench_allreduce" "${program[@]}" : -np 1 ./other_build "${program[@]}"
fi

[[ $backend == host ]] && wants link && source "$here/link.bash"
[[ $backend == cuda ]] && source "$here/sharing.bash"

echo
show_table
[[ $repeat -eq 1 ]] || show_tally
finish
