#!/usr/bin/env bash
# Launchers that start nothing: made-up ones that say and do what real ones did, then the real ssh and mpirun of this machine.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2154,SC2317
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
limit=60
unset SHAKEDOWN_EXPECT SHAKEDOWN_ROSTER "${!SLURM_@}" "${!OMPI_MCA_orte@}" "${!PRTE_MCA_@}"
export shakedown=$build/bin/shakedown

# --- each stored sample ------------------------------------------------------------------------------------------------------
# N/said is what the launcher N/bin/{ssh,srun,mpirun} prints before it ends as in the sample. A shell speaks through mpirun.
mkdir samples
awk '/^=== / { n++; getline source; print $3, $5, ($2 == "shell" ? "mpirun" : $2) >("samples/" n ".head"); next }
  n { print >("samples/" n ".said") }' "$root/tests/launch/start_samples.txt"
try() { # N: the front door under the launcher of this sample; "ok" if it names the cause and what to do in one line
  local fault end program code=0 began=$SECONDS folder=$PWD/samples/$1
  read -r fault end program <"$folder.head"
  mkdir -p "$folder/bin"
  printf '#!/bin/sh\ncat "%s.said" >&2\n%s\n' "$folder" "$([[ $end == hangs ]] && echo 'exec sleep 100' || echo "exit $end")" >"$folder/bin/$program"
  chmod +x "$folder/bin/$program"
  SHAKEDOWN_RESULTS=$folder/results SHAKEDOWN_LAUNCH="$folder/bin/$program" timeout -k 5 50 \
    "$shakedown" accept --families=preflight --startup-timeout=2 >"$folder.out" 2>"$folder.err" </dev/null || code=$?
  [[ $code == 3 && $((SECONDS - began)) -lt 40 && $(tail -n 1 "$folder.out") == "VERDICT: INCOMPLETE 0/0"* ]] || echo "$1 $fault: exit code $code"
  [[ $(wc -l <"$folder.err") == 2 && $(tail -n 1 "$folder.err") == "shakedown: no host has answered: "*"; "* ]] || echo "$1 $fault: $(cat "$folder.err")"
}
export -f try
# One sample of each fault, because StartFaults in launcher_words_test.cpp knows all samples.
mapfile -t samples < <(sort -u samples/*.head | while read -r head; do grep -lxF "$head" samples/*.head | head -n 1; done | sed 's|.*/\(.*\).head|\1|')
count=${#samples[@]}
wrong=$(printf '%s\n' "${samples[@]}" | xargs -P 4 -I{} bash -c 'try {}')
expect "each of $count launchers that start nothing is INCOMPLETE within bounds, with the cause and what to do in one line" test "$count" -ge 40 -a -z "$wrong"
[[ -z $wrong ]] || echo "$wrong" | head -n 20

# --- a launcher that starts the discovery and not the ranks --------------------------------------------------------------------
mkdir bin
cat >bin/srun <<'END'
#!/bin/bash
[[ $* != *discover* ]] || exec env "${@:2}"
echo >>"$SCRATCH/launches"
cat "$SCRATCH/said" >&2
exit "$(cat "$SCRATCH/code")"
END
chmod +x bin/srun
export SCRATCH=$scratch SHAKEDOWN_RESULTS=$scratch/results SHAKEDOWN_LAUNCH="$scratch/bin/srun -N1"
said() { # CODE LINE...
  rm -f launches
  echo "$1" >code
  printf '%s\n' "${@:2}" >said
}
said 1 "srun: error: Unable to create step for job 15: More processors requested than permitted"
run 3 "$shakedown" accept --families=preflight,jitter
expect "ranks that the launcher refuses to start are not tried again" eval 'says "ranks could not be started: srun: error: Unable to create step for job 15: More processors requested than permitted; request only resources" && [[ $(wc -l <launches) == 1 ]]'
expect "  and no machine is at fault" eval '[[ $(tail -n 1 out) == "VERDICT: INCOMPLETE 0/0"* ]]'
said 2 "slurmstepd: error: execve(): $build/bench/bench_all: No such file or directory" "srun: error: node-a1: task 0: Exited with exit code 2"
run 3 "$shakedown" accept --families=preflight,jitter
expect "a program that one node lacks is the cause, and not the exit code of its rank" eval 'says "execve.*bench_all: No such file or directory; install " && ! says "crashed" && [[ $(wc -l <launches) == 1 ]]'
said 1 "srun: error: Task launch for StepId=1.0 failed on node node-a2: Communication connection failure"
run 3 "$shakedown" accept --families=preflight
expect "what may pass is tried three times, and then said with the node" eval 'says "in each of 3 launches: srun: error: Task launch for StepId=1.0 failed on node node-a2: Communication connection failure; look at slurmd" && [[ $(wc -l <launches) == 3 ]]'
run 3 "$shakedown" accept --families=preflight --plan
expect "a plan names the cause, too" says 'bench_all --plan: srun: error: Task launch'
unset SHAKEDOWN_LAUNCH

run 2 env SHAKEDOWN_RANKS=2 "$shakedown" launch nosuch -x
expect "a program to launch that is not there is refused in one line" eval 'says "^error: launch: nosuch: No such file or directory; " && [[ $(wc -l <err) == 1 ]]'
run 2 "$shakedown" launch /etc/passwd
expect "  as is one that cannot be run" eval 'says "^error: launch: /etc/passwd: Permission denied; " && [[ $(wc -l <err) == 1 ]]'

# --- a mask of GPUs: as many ranks as CUDA would show GPUs ------------------------------------------------------------------------
for address in 0000:01:00.0 0000:02:00.0 0000:03:00.0; do
  mkdir -p "bus/bus/pci/devices/$address" bus/module
  echo 0x10de >"bus/bus/pci/devices/$address/vendor"
  echo 0x030200 >"bus/bus/pci/devices/$address/class"
done
if has mpirun; then
  masked=("$shakedown" launch echo rank)
  ranks_of() { env SHAKEDOWN_SYSFS="$scratch/bus" CUDA_VISIBLE_DEVICES="$1" "${masked[@]}" 2>err | grep -c rank; }
  expect "three GPUs are three ranks" eval '[[ $(env SHAKEDOWN_SYSFS="$scratch/bus" "${masked[@]}" | grep -c rank) == 3 ]]'
  expect "  a mask of two is two" eval '[[ $(ranks_of 2,0) == 2 ]] && ! says .'
  expect "  and ends at its first invalid entry, which is said" eval '[[ $(ranks_of 2,9,0) == 1 ]] && says "CUDA_VISIBLE_DEVICES=2,9,0 leaves 1 GPU: .9. "'
  for mask in 0,1,0 7; do
    run 3 env SHAKEDOWN_SYSFS="$scratch/bus" CUDA_VISIBLE_DEVICES=$mask "${masked[@]}"
    expect "  $mask, for which CUDA shows no GPU, is refused in one line" eval 'says "CUDA_VISIBLE_DEVICES=$mask leaves 0 GPUs: " && [[ $(wc -l <err) == 1 ]]'
  done
fi

# --- the real ones ------------------------------------------------------------------------------------------------------------
accept=("$shakedown" accept --families=preflight --startup-timeout=20)
if has ssh; then
  ssh="ssh -F none -o UserKnownHostsFile=$scratch/known_hosts"
  run 3 env SHAKEDOWN_LAUNCH="$ssh -p 1 127.0.0.1" "${accept[@]}"
  expect "ssh to a closed port" says '127.0.0.1 port 1: Connection refused; start sshd'
  run 3 env SHAKEDOWN_LAUNCH="$ssh nosuch.invalid" "${accept[@]}"
  expect "ssh to an unknown name" says 'hostname nosuch.invalid: .*; correct '
fi
if has ssh && has sshd; then
  for key in host user other; do ssh-keygen -q -t ed25519 -N '' -f "${key}_key"; done
  cp user_key.pub authorized_keys
  mkdir -p /run/sshd 2>/dev/null
  port=$((20000 + $$ % 20000))
  printf '%s\n' "Port $port" "ListenAddress 127.0.0.1" "HostKey $scratch/host_key" "AuthorizedKeysFile $scratch/authorized_keys" \
    "PidFile $scratch/sshd.pid" "StrictModes no" "UsePAM no" "PasswordAuthentication no" "KbdInteractiveAuthentication no" >sshd_config
  if "$(command -v sshd)" -f "$scratch/sshd_config" -E sshd.log; then
    for _ in {1..50}; do [[ -s sshd.pid ]] || sleep 0.1; done
    ssh="$ssh -p $port -o BatchMode=yes"
    run 3 env SHAKEDOWN_LAUNCH="$ssh -i $scratch/user_key 127.0.0.1" "${accept[@]}"
    expect "ssh to a host whose key is not known" says 'Host key .*; add .*known_hosts'
    echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 host_key.pub)" >known_hosts
    run 3 env SHAKEDOWN_LAUNCH="$ssh -i $scratch/other_key 127.0.0.1" "${accept[@]}"
    expect "ssh to a host that refuses the key" says '@127.0.0.1: Permission denied .publickey.; allow '
    run 3 env SHAKEDOWN_LAUNCH="$ssh -i $scratch/user_key 127.0.0.1 /nosuch/wrapper" "${accept[@]}"
    expect "ssh to a host without the program" says '/nosuch/wrapper: .*; install '
    run 0 env SHAKEDOWN_LAUNCH="$ssh -i $scratch/user_key 127.0.0.1" "$shakedown" launch echo started
    expect "ssh to a host that is in order starts the program" prints '^started$'
    echo "[127.0.0.1]:$port $(cut -d' ' -f1,2 other_key.pub)" >known_hosts
    run 3 env SHAKEDOWN_LAUNCH="$ssh -i $scratch/user_key 127.0.0.1" "${accept[@]}"
    expect "ssh to a host whose key has changed" says 'key for \[127.0.0.1\]:[0-9]+ has changed '
    kill "$(<sshd.pid)"
  fi
fi
if has mpirun; then
  run 3 env SHAKEDOWN_LAUNCH="mpirun -np 4000" "${accept[@]}"
  expect "mpirun with too few slots" says ' 4000 slots .*; name '
  run 3 env SHAKEDOWN_LAUNCH="mpirun --oversubscribe -np 2 /nosuch/wrapper" "${accept[@]}"
  expect "mpirun with a program that is not there names it, and the host" says "$(hostname): .* ./nosuch/wrapper.; install "
  run 3 env SHAKEDOWN_LAUNCH="mpirun --nosuch" "${accept[@]}"
  expect "mpirun with an unknown option" says '"--nosuch"; .* SHAKEDOWN_LAUNCH'
fi

# --- a wrapper after the launcher ------------------------------------------------------------------------------------------------
cat >bin/apptainer <<'END'
#!/bin/bash
# apptainer exec [FLAG...] IMAGE COMMAND...
[[ $1 == exec ]] || exit 1
shift
while [[ $1 == -* ]]; do shift; done
echo "$1 FOO=${FOO:-} $(basename "$2") ${3%%=*}" >>"$SCRATCH/wrapped"
exec "${@:2}"
END
chmod +x bin/apptainer
if has mpirun; then
  for launcher in mpirun "$(command -v mpirun)"; do
    rm -f wrapped
    run 0 env SHAKEDOWN_LAUNCH="$launcher --bind-to none --oversubscribe -n 2 env FOO=1 $scratch/bin/apptainer exec --nv image.sif" \
      SHAKEDOWN_EXPECT=ranks=2 SHAKEDOWN_INTERFACE=lo "$shakedown" accept --families=preflight
    expect "wrappers after $launcher start the discovery and each rank" eval '[[ $(sort wrapped | uniq -c | tr -s " " | paste -sd,) == " 2 image.sif FOO=1 bench_preflight --tier, 2 image.sif FOO=1 shakedown discover" ]]'
    expect "  and the ranks are measured" prints '^VERDICT: HOST-ONLY .*2 ranks'
    run 0 env SHAKEDOWN_LAUNCH="$launcher --bind-to none --oversubscribe -n 2 env FOO=1" SHAKEDOWN_INTERFACE=lo \
      "$shakedown" launch sh -c 'echo "$FOO $SHAKEDOWN_INTERFACE ${SHAKEDOWN_SECRET:+secret}"'
    expect "  as they start a program, which gets our variables" eval '[[ $(sort -u out) == "1 lo secret" && $(wc -l <out) == 2 ]]'
  done
fi

if has mpirun && has ssh; then
  run 3 env SHAKEDOWN_LAUNCH="mpirun --host nosuch.invalid -np 1" "${accept[@]}"
  expect "mpirun over one host with an unknown name names it" says 'host nosuch.invalid has .* hostname nosuch.*; correct '
  printf '#!/bin/sh\nexec ssh -F none -p 1 "$@"\n' >agent && chmod +x agent
  run 3 env OMPI_MCA_plm_rsh_agent="$scratch/agent" SHAKEDOWN_LAUNCH="mpirun --host nosuch.invalid,127.0.0.9 -np 2" "${accept[@]}"
  expect "mpirun over hosts that fail in two ways names each with its cause" eval 'says "no host of nosuch.invalid, 127.0.0.9 has answered: .*127.0.0.9: ssh: connect to host 127.0.0.9 port 1: Connection refused; start sshd there" && says "nosuch.invalid: ssh: Could not resolve"'
fi
finish
