#!/usr/bin/env bash
# Two operators on two hosts with one ledger and one folder of results, on a file system that does not share locks between hosts,
# as NFS mounted with nolock. Each host is a FUSE mount of the same folder, and the processes of both have the same numbers.
# Writers are killed at any time. Events that were acknowledged must not be lost, and no reader may see a part of an event.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034
source "$(dirname "$0")/../shell.bash"
namespaces
needs bindfs python3
if [[ -z ${OWN_MOUNTS:-} ]]; then
  rm -rf "$scratch"
  OWN_MOUNTS=yes exec unshare --mount "$0" "$1"
fi
hide_gpus
cd "$scratch" || exit 1
shakedown=$build/bin/shakedown hosts=(a b)
mkdir -p server/ledger server/results "${hosts[@]}"
for host in "${hosts[@]}"; do
  # Attributes are cached for three seconds, as on NFS.
  bindfs -o attr_timeout=3,entry_timeout=3 server "$host" 2>err || { echo "SKIP: FUSE cannot mount: $(<err)" && exit 77; }
done
trap 'for host in "${hosts[@]}"; do umount -l "$scratch/$host"; done; rm -rf "$scratch"' EXIT
on_host() { unshare --pid --fork --kill-child --mount-proc "$@"; }
events() { find server/ledger -name '*.json' | wc -l; }

# Locks of one host are unknown on the other: otherwise this test would prove less than it says.
touch server/lock
expect "the hosts do not share locks" flock a/lock flock --nonblock b/lock true

# operator HOST NODE EVENTS: adds events; prints a line for each that was acknowledged.
operator() {
  for ((i = 0; i < $3; ++i)); do
    on_host "$shakedown" ledger add --event=drained --node="$2" --reason="$2 $i" --ledger="$scratch/$1/ledger" && echo "$2 $i"
  done
}
operator a shared 15 >said.a 2>err.a &
writers=($!)
operator b shared 15 >said.b 2>err.b &
writers+=($!)
operator b other 15 >said.c 2>err.c &
writers+=($!)
last=0 shrunk=0 partial=0
while kill -0 "${writers[@]}" 2>/dev/null; do
  "$shakedown" history --ledger=a/ledger --json=now.json >/dev/null 2>reader.err
  [[ ! -s reader.err ]] || partial=$((partial + 1))
  now=$(events)
  ((now >= last)) || shrunk=$((shrunk + 1))
  last=$now
done
wait
expect "two operators at once: $(events) events of $(cat said.* | wc -l) acknowledged ones" test "$(cat said.* | wc -l) $(events)" = "45 45"
expect "  a reader meanwhile saw no part of an event" test $partial = 0
expect "  and no event disappeared" test $shrunk = 0
expect "  and both hosts read the same" cmp <("$shakedown" history --ledger=a/ledger) <("$shakedown" history --ledger=b/ledger)

# The run of a demo has an event of 30 KB.
"$shakedown" demo --fault=none --out=demo >/dev/null
# add_run HOST ID: adds a run with this id.
add_run() {
  rm -rf one && cp -r demo one
  sed -i "s/\"run_id\": *\"demo\"/\"run_id\": \"$2\"/" one/*.json
  "$shakedown" ledger add --results=one --allow-faults --ledger="$1/ledger" 2>/dev/null && echo "$2" >>acknowledged
}
export -f add_run
export shakedown
before=$(events)
began=${EPOCHREALTIME/./}
add_run a whole
usual=$((${EPOCHREALTIME/./} - began))
for percent in 50 70 85 100 115 130 150 175 200 230 260 300; do
  for host in "${hosts[@]}"; do
    setsid bash -c "add_run $host killed$host$percent" 2>/dev/null &
    writer=$!
    sleep "$(printf '%d.%06d' $((usual * percent / 100 / 1000000)) $((usual * percent / 100 % 1000000)))"
    kill -KILL -- -$writer 2>/dev/null
    wait $writer 2>/dev/null
  done
done
stored=$(($(events) - before)) lost=0
while read -r id; do compgen -G "server/ledger/*-$id.json" >/dev/null || lost=$((lost + 1)); done <acknowledged
expect "killed writers: $stored of 25 runs are stored, $(wc -l <acknowledged) were acknowledged" test $stored -ge "$(wc -l <acknowledged)" -a $lost = 0
run 1 "$shakedown" history --ledger=b/ledger
expect "  and all events can be read" eval '! says "left out" && prints "^LEDGER: 3 nodes"'

# Two runs at once in one folder of results.
for host in "${hosts[@]}"; do
  SHAKEDOWN_RANKS=1 on_host "$shakedown" accept --families=preflight --allow-faults --results="$host/results" --ledger="$host/ledger" >"out.$host" 2>"err.$host" &
done
wait
expect "two runs at once have verdicts" eval '[[ $(grep -h "^VERDICT" out.a out.b | wc -l) == 2 && $(cat err.a err.b) != *"cannot be"* ]]'
expect "  and folders and events of their own" eval '[[ $(find server/results -name preflight.json | wc -l) == 2 && $(events) == $((before + stored + 2)) ]]'
expect "  and latest leads to one of them" test -e server/results/latest/preflight.json
finish
