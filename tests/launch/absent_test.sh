#!/usr/bin/env bash
# An absent host costs one line. There are three hosts in namespaces: ssh to one fails, and the other two are measured.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2054,SC2154,SC2317
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1
needs mpirun
namespaces
limit=60
unset SHAKEDOWN_EXPECT SHAKEDOWN_ROSTER "${!SLURM_@}" "${!OMPI_MCA_orte@}"
export SHAKEDOWN_RESULTS=$scratch/results
printf 'u1\nu2\nu3\n' >hosts
cat >agent <<END
#!/bin/bash
while [[ \$1 == -* ]]; do shift; done
case \$1 in *"\$(cat "$scratch/absent")"*) cat "$scratch/word" >&2; exit 255 ;; esac
exec "$root/tests/faults/fakehost.sh" "\$@"
END
chmod +x agent
accept=("$build/bin/shakedown" accept --families=preflight,jitter --all)
export OMPI_MCA_plm_rsh_agent=$scratch/agent
of_host_file=(env OMPI_MCA_orte_default_hostfile="$scratch/hosts")
of_prefix=(env SHAKEDOWN_LAUNCH="mpirun --bind-to none --oversubscribe --host u1,u2,u3 -np 3")
state() { grep -A3 "\"host\": \"$1\"" out | sed -n 's/.*"state": "\(.*\)".*/\1/p'; } # prints the state of host $1 from `shakedown nodes`
is_measured_without() { # HOST WORD LAUNCH
  expect "$3: $1 is left out, with the word of ssh" says "host $1 .*: $2"
  expect "  the others are measured, and no fault is theirs" eval '[[ -s results/latest/jitter.json ]] && prints "machine/hosts +2 hosts .* pass" && ! says "pre-flight failed"'
  expect "  its absence is a failure of its own" eval 'prints "machine/absent/host:'"$1"' .* missing" && prints "^VERDICT: FAIL"'
}

echo u3 >absent
for word in "ssh: connect to host u3 port 22: Connection refused" "Host key verification failed."; do
  echo "$word" >word
  run 1 "${of_host_file[@]}" "${accept[@]}"
  is_measured_without u3 "$word" "a host file"
  verdict=$(tail -n 1 out)
  run 1 "$build/bin/shakedown" report --results=results
  expect "  and the stored run says the same" test "$(tail -n 1 out)" == "$verdict"
  run 1 "$build/bin/shakedown" nodes --results=results
  expect "  nodes lists it as bad, with the reason" eval '[[ $(state u3) == bad ]] && prints "u3: $word"'
done
run 1 "${of_prefix[@]}" "${accept[@]}"
is_measured_without u3 "Host key verification failed." "a launch prefix"
printf '#!/bin/bash\n[[ $1 == image ]] || exit 9\necho "$OMPI_COMM_WORLD_RANK $(basename "$2")" >>"%s/wrapped"\nexec "${@:2}"\n' "$scratch" >wrap
chmod +x wrap
run 1 env SHAKEDOWN_LAUNCH="mpirun --bind-to none --oversubscribe --report-bindings --host u1,u2,u3 -np 3 $scratch/wrap image" "${accept[@]}"
is_measured_without u3 "Host key verification failed." "a launch prefix with a wrapper"
expect "  each host that is asked alone is asked by the wrapper" test "$(grep -c shakedown wrapped)" -ge 2
echo "u" >absent
echo "root@u1: Permission denied (publickey,password)." >word
run 3 "${of_prefix[@]}" "${accept[@]}"
expect "where none starts, the word of ssh is the reason" eval 'says "no host of u1, u2, u3 has answered: .*Permission denied" && ! says "Set MCA"'
finish
