#!/usr/bin/env bash
# The table of docs/verdict.md: how often the judge of networks is right about made-up fat trees of 8 rails, 32 hosts below
# each leaf switch, 1.5 % of noise with heavy tails, and ECMP collisions; faults take 10 %.
#   tests/fabric/rates.sh BUILD FIRST_SEED [SHARE]
# SHARE of the counts (default 1: 300 trees a row). Seeds below 1,000 are those that limits were tuned with; tables are made
# with others. Rows run side by side on all cores.
set -uo pipefail
build=$(readlink -f "$1") first=$2 share=${3:-1}
export build first share
side_by_side=$(($(nproc) / 4 > 0 ? $(nproc) / 4 : 1))

# WHAT | HOSTS | FAULTS | TOPOLOGY
rows() {
  for hosts in 128 1024 4096; do
    echo "healthy|$hosts||known"
    for fault in nic host leaf uplink path rail dead_host dead_pair sum; do echo "${fault/_/ }|$hosts|$fault|known"; done
    for two in nic,nic uplink,nic host,leaf nic,dead_host uplink,uplink; do echo "two: ${two//_/ }|$hosts|$two|known"; done
  done
  echo "two NICs,an uplink,a host|1024|nic,nic,uplink,host|known"
  for hosts in 128 1024; do
    echo "healthy|$hosts||unknown"
    for fault in nic host dead_host; do echo "${fault/_/ }|$hosts|$fault|unknown"; done
  done
}

one() {
  IFS='|' read -r what hosts faults topology <<<"$1"
  local flags=() count out
  [[ -z $faults ]] || flags+=("--fault=$faults")
  [[ $topology == known ]] || flags+=(--no-topology)
  count=$(awk -v s="$share" 'BEGIN { n = 300 * s; print n < 1 ? 1 : int(n) }')
  out=$("$build/tests/fabric/fabric_rate" --hosts="$hosts" --seeds="$first..$((first + count - 1))" -j4 "${flags[@]}" 2>&1 | tail -n 1)
  echo "| ${what//,/, } | $hosts | $topology | ${out#*: } |"
}
export -f one

echo "| fault | hosts | topology | trees, all faults named, innocents named |"
echo "| --- | --- | --- | --- |"
# The longest rows first; the table in its own order.
mapfile -t all < <(rows)
for i in "${!all[@]}"; do echo "$i|${all[$i]}"; done | sort -t'|' -k3,3nr |
  xargs -d '\n' -P "$side_by_side" -I{} bash -c 'row=$1; echo "${row%%|*} $(one "${row#*|}")"' row {} | sort -n | cut -d' ' -f2-
