# Functions of the fault tests: run a job, wait for a place, inject a fault, and check what is left. Sourced after shell.bash.
# The caller sets launch (the launcher with its flags), could_not_run (the exit code of an ended job, or "not0"), watch
# (--timeout), startup, and host_of RANK (the host of a rank).
# shellcheck shell=bash disable=SC2154

table=$scratch/table
columns='%-26s %-22s %-8s %-7s %-5s %-6s %s\n'
# shellcheck disable=SC2059
printf "$columns" fault where outcome exit s left said >"$table"
tally=$scratch/tally
: >"$tally"

sign='^\[1/'  # the first line of progress

now() { date +%s.%N; }
elapsed() { awk "BEGIN { printf \"%.1f\", $(now) - $1 }"; }

# start PROGRAM ARGS...: starts a job in the background, with a result file that it must not change.
start() {
  local program=$1
  shift
  echo precious >"$scratch/kept.json"
  : >"$scratch/err"
  began=$(now)
  struck=
  # Background commands of a shell ignore SIGINT. This restores the default action, which real jobs have.
  env --default-signal=INT "${launch[@]}" "${with[@]}" "$build/bench/$program" "${common[@]}" --timeout="$watch" \
    --startup-timeout="$startup" --benchmark_out="$scratch/kept.json" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null &
  launcher=$!
}

running() { kill -0 "$launcher" 2>/dev/null; }
pids() { pgrep -f -- "--benchmark_out=$scratch/kept.json" | while read -r pid; do [[ $(readlink "/proc/$pid/exe") == "$build"/bench/* ]] && echo "$pid"; done; }
pid_of() {
  local pid
  for pid in $(pids); do
    if grep -qzx "OMPI_COMM_WORLD_RANK=$1" "/proc/$pid/environ" 2>/dev/null; then echo "$pid"; fi
  done | head -n 1
}

# until_line PATTERN: waits until the job's standard error has it; fails if the job ends before.
until_line() {
  while ! grep -qE -- "$1" "$scratch/err"; do
    running || return 1
    sleep 0.05
  done
}

# strike SIGNAL RANK: sends the signal to the rank.
strike() {
  local pid
  for _ in {1..200}; do
    pid=$(pid_of "$2")
    [[ -n $pid ]] && break
    sleep 0.05
  done
  struck=$(now)
  kill "-$1" "$pid"
}

# gpu_memory: prints the most memory in use on any GPU of this test; nothing if it shares them.
gpu_memory() { [[ -n ${shared-} ]] || nvidia-smi -i "$(IFS=, && echo "${devices[*]-}")" --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | sort -n | tail -n 1; }
memory_before=$(gpu_memory)

# ends FAULT WHERE LIMIT PATTERN: the job must end within LIMIT + 10 s of the fault (or of the line `sign`, or of its start). It
# must print a matching line, end with the exit code could_not_run, and leave nothing running.
ends() {
  local fault=$1 where=$2 limit=$3 pattern=$4 code=0 outcome=ok seconds left line
  local bound=$((limit + 10)) patience=$((limit + 60))
  while running; do
    [[ -n $struck ]] || ! grep -q "$sign" "$scratch/err" || struck=$(now)
    if awk "BEGIN { exit !($(elapsed "$began") > $patience) }"; then
      outcome=hung
      kill -KILL "$launcher"
    fi
    sleep 0.05
  done
  wait "$launcher" 2>/dev/null || code=$?
  seconds=$(elapsed "${struck:-$began}")
  line=$(grep -m1 -E -- "$pattern" "$scratch/err")
  [[ -n $line ]] || outcome=unnamed
  [[ $code == "$could_not_run" || ($could_not_run == not0 && $code -ne 0) ]] || outcome="exit-$code"
  awk "BEGIN { exit !($seconds > $bound) }" && outcome=late
  grep -qx precious "$scratch/kept.json" && ! compgen -G "$scratch/kept.json?*" >/dev/null || outcome=overwrote
  for _ in {1..30}; do
    left=$(pids | wc -l)
    memory=$(gpu_memory)
    [[ $left -eq 0 && ${memory:-0} -le $((${memory_before:-0} + 64)) ]] && break
    sleep 0.1
  done
  [[ $left -eq 0 ]] || outcome=orphans
  [[ ${memory:-0} -le $((${memory_before:-0} + 64)) ]] || outcome=memory
  # shellcheck disable=SC2046
  [[ $left -eq 0 ]] || kill -KILL $(pids)
  printf '%s\t%s\t%s\t%s\t%s\t%s\n' "$(sed -E 's/ ?rank [0-9]+ ?//' <<<"$fault")" "$where" "$outcome" "$seconds" "$left" \
    "$((${memory:-0} - ${memory_before:-0}))" >>"$tally"
  row "$fault" "$where" "$outcome" "$code" "$seconds" "$left" "${line:-$(grep -v '^\[' "$scratch/err" | tail -n 1)}"
}

# row FAULT WHERE OUTCOME EXIT SECONDS LEFT MESSAGE: prints a line of the table. Any outcome except ok is a failure.
row() {
  # shellcheck disable=SC2059
  printf "$columns" "$@" | tee -a "$table" | cut -c 1-160
  [[ $3 == ok ]] && return
  fail "$1 $2: $3"
  tail -n 15 "$scratch/err" | sed 's/^/    /'
}

# measures FAULT WHERE CODE PATTERN PROGRAM ARGS...: the run must end with this exit code (or "not0"), and its result or its
# messages must have a matching line.
measures() {
  local fault=$1 where=$2 wanted=$3 pattern=$4 program=$5 code=0 outcome=ok line
  shift 5
  rm -f "$scratch/result.json"
  began=$(now)
  timeout -k 5 120 "${launch[@]}" "${with[@]}" "$build/bench/$program" "${common[@]}" --timeout=60 \
    --benchmark_out="$scratch/result.json" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || code=$?
  [[ $code == "$wanted" || ($wanted == not0 && $code -ne 0) ]] || outcome=code
  line=$(cat "$scratch/err" "$scratch/result.json" 2>/dev/null | grep -m1 -oE -- "$pattern")
  [[ -n $line ]] || outcome=unnamed
  row "$fault" "$where" "$outcome" "$code" "$(elapsed "$began")" "-" "${line:-$(tail -n 1 "$scratch/err")}"
}

show_table() { cut -c 1-220 "$table"; }

# show_tally: for jobs with repeated faults, prints the number of correct runs, the longest time, and what was left.
show_tally() {
  echo "| fault | where | right | at most, s | processes left | GPU memory left, MiB |"
  echo "|---|---|---|---|---|---|"
  awk -F '\t' '{ key = $1 " | " $2; ++all[key]; right[key] += $3 == "ok" }
    all[key] == 1 { order[++rows] = key }
    $4 > most[key] { most[key] = $4 }
    { left[key] += $5 }
    all[key] == 1 || $6 > memory[key] { memory[key] = $6 }
    END { for (i = 1; i <= rows; ++i) { key = order[i]
      printf "| %s | %d of %d | %.1f | %d | %d |\n", key, right[key], all[key], most[key], left[key], memory[key] } }' "$tally"
}
