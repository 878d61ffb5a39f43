#!/usr/bin/env bash
# The shakedown command on one host and on several, with programs that print a stored run: launchers, Slurm, hosts in namespaces.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2317,SC2030,SC2031,SC2154,SC1091,SC2034
source "$(dirname "$0")/../shell.bash"
source "$root/tests/launch/front_door.bash"

run 0 "$tree/bin/shakedown" launch printenv OMPI_MCA_pml
expect "a program can be run as it would be measured" prints '^ob1$'
run 5 "$tree/bin/shakedown" launch sh -c 'exit 5'
expect "  its exit code is handed on, and nothing is said" test ! -s err
echo input | "$tree/bin/shakedown" launch cat >out
expect "  and it reads what it is given" prints '^input$'
run 3 "$tree/bin/shakedown" launch sh -c 'kill -KILL $$'
expect "  one that is killed could not run" says 'SIGKILL'
cc -shared -Wl,-soname,libnccl.so.2 -o libnccl.so.2 -x c /dev/null
run 0 env SHAKEDOWN_NCCL="$scratch" "$tree/bin/shakedown" launch printenv LD_PRELOAD
expect "ranks take the NCCL that the site names" prints "^$scratch/libnccl.so.2$"
for bad in "$scratch/nosuch.so" /etc/passwd; do
  run 2 env SHAKEDOWN_NCCL="$bad" "${accept[@]}"
  expect "  one that is none is refused in one line" eval '[[ $(wc -l <err) -eq 1 ]] && says "SHAKEDOWN_NCCL=.*is not a readable library"'
done
run 0 env SHAKEDOWN_INTERFACE=eth7 "$tree/bin/shakedown" launch printenv SHAKEDOWN_INTERFACE OMPI_MCA_oob_tcp_if_include NCCL_SOCKET_IFNAME
expect "ranks, MPI and NCCL are told the interface" eval '[[ $(paste -sd " " out) == "eth7 eth7 =eth7" ]]'
run 2 "$tree/bin/shakedown" launch
expect "without a program it says how to call it" says 'launch: a program'
unset SHAKEDOWN_LAUNCH

# A Slurm of two nodes: a replacement for srun that runs each task with its variables. Tasks of ABSENT hang.
cat >bin/srun <<'END'
#!/usr/bin/env bash
[[ $1 != --mpi=list ]] || exec echo "MPI plugin types are... none pmix pmix_v4"
excluded= tasks=2 nodes=2
while [[ $1 == -* ]]; do
  case $1 in
    --exclude=*) excluded=${1#*=} ;;
    -n) tasks=$2 && shift ;;
    -N) nodes=$2 && shift ;;
  esac
  shift
done
hosts=()
for host in node-a1 node-a2; do [[ $host == "$excluded" ]] || hosts+=("$host"); done
for ((task = 0; task < tasks; ++task)); do
  host=${hosts[task * nodes / tasks]}
  if [[ $host == "${ABSENT:-}" ]]; then sleep 100 & continue; fi
  [[ $1 != */bench_* || $task -eq 0 ]] || continue  # a stored document contains all ranks
  SLURM_PROCID=$task SLURMD_NODENAME=$host unshare --uts bash -c 'hostname "$0" && exec "$@"' "$host" "$@" &
done
wait
END
chmod +x bin/srun
slurm=(env PATH="$scratch/bin:$PATH" SLURM_JOB_ID=7 SLURM_JOB_NUM_NODES=2 "SLURM_JOB_NODELIST=node-a[1-2]")
if unshare --uts true 2>/dev/null; then
  run 1 "${slurm[@]}" "${accept[@]}"
  expect "in a Slurm job of two nodes both are expected" grep -q -- --expect=hosts=2 arguments.gemm
  expect "  and the run of one host is not believed" prints 'machine/hosts'
  run 1 "${slurm[@]}" ABSENT=node-a2 "${accept[@]}" --startup-timeout=2
  expect "a node that does not answer is named, left out and counts as missing" eval 'says "host node-a2 does not answer" && prints "machine/hosts.*node-a2|node-a2" && grep -q -- --expect=hosts=2 arguments.gemm'
  run 3 "${slurm[@]}" ABSENT=node-a2 SLURM_STEP_ID=0 "${accept[@]}"
  expect "a step of the job is refused" says 'Slurm job of 2 nodes'
fi
# A launcher that hangs before any rank runs, and ignores SIGTERM.
printf '#!/bin/bash\ntrap "" TERM\necho "ssh: connecting to node9" >&2\nsleep 100\nsleep 100\n' >bin/hangs
chmod +x bin/hangs
began=$SECONDS
run 3 env SHAKEDOWN_LAUNCH="$scratch/bin/hangs" "${accept[@]}" --startup-timeout=1
expect "a launcher that hangs does not hang us" eval '[[ $((SECONDS - began)) -lt 25 ]] && says "longer than 1 s .ssh: connecting to node9"'

# mpirun on hosts in namespaces.
agent=$root/tests/faults/fakehost.sh
if command -v mpirun >/dev/null; then
  run 0 env -i OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 SHAKEDOWN_RANKS=2 "$build/bin/shakedown" launch "$build/bench/inventory" summary
  expect "mpirun works from an empty environment" eval '[[ $(grep -c "^  CPU" out) -eq 1 ]]'
fi
if command -v mpirun >/dev/null && "$agent" probe true 2>/dev/null; then
  printf 'nodea slots=1\nnodeb slots=1\n' >hosts
  printf '#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\n[[ $1 != nodeb ]] || exec sleep 1000\nexec "%s" "$@"\n' "$agent" >bin/half
  chmod +x bin/half
  operator=(env OMPI_MCA_orte_default_hostfile="$scratch/hosts" OMPI_MCA_plm_rsh_agent="$agent" OMPI_MCA_orte_keep_fqdn_hostnames=true)
  run 0 "${operator[@]}" "$tree/bin/shakedown" launch hostname
  expect "an operator's host file means all its hosts" eval '[[ $(sort out | tr "\n" " ") == "nodea nodeb " ]]'
  limit=120
  run 1 "${operator[@]}" OMPI_MCA_plm_rsh_agent="$scratch/bin/half" "${accept[@]}" --families=preflight,gemm --startup-timeout=8
  expect "a host that does not answer is named, though mpirun waits for all" says 'host nodeb '
  expect "  left out and counts as missing" eval 'grep -q -- --expect=hosts=2 arguments.gemm && prints "machine/hosts"'

  # A host fails during GEMM: its rank stops, and the other ranks report the host.
  cat >"$tree/bin/bench_all" <<END
#!/bin/bash
[[ \$OMPI_COMM_WORLD_RANK == 0 ]] || exec sleep 1
echo "\$@" >>"$scratch/arguments.all"
for flag; do
  [[ \$flag != --families=* ]] || IFS=, read -ra families <<<"\${flag#*=}"
  [[ \$flag != --run-id=* ]] || id=\${flag#*=}
done
for family in "\${families[@]}"; do
  if [[ \$family == gemm && \$OMPI_COMM_WORLD_SIZE == \$(cat "$scratch/loses" 2>/dev/null) ]]; then
    "$tree/bin/shakedown" event '{"event": "lost", "hosts": ["nodeb"], "text": "rank 1 (nodeb) ended unexpectedly in gemm"}'
    exit 3
  fi
  printf '{"family": "%s", "result": %s}\n' "\$family" \
    "\$(sed 's/"run_id": *"[^"]*"/"run_id": "'"\$id"'"/' "$scratch/stored/\$family.json" | tr '\n' ' ')"
done
END
  chmod +x "$tree/bin/bench_all"
  rm -f arguments.*
  echo 2 >loses
  run 1 "${operator[@]}" "${accept[@]}" --families=preflight,gemm,hbm
  expect "a host that is lost while measuring is left out" says 'host nodeb .*lost'
  expect "  of what was missing alone, by one program" eval 'says "bench_all ended in gemm" && [[ $(wc -l <arguments.all) -eq 2 ]] && grep -qE -- "--families=gemm,hbm .*--crashed=gemm --lost=nodeb" <(tail -n 1 arguments.all) && [[ ! -e arguments.gemm ]]'
  expect "  and missed by name, as a failure" eval 'prints "nodeb" && prints "^VERDICT: FAIL" && [[ -s $latest/hbm.json ]]'
  rm -f arguments.* loses "$tree/bin/bench_all"
fi
finish
