# A tree as installed, for the tests of the shakedown command as users call it: programs that print a stored run. Sourced after
# shell.bash by the tests of the front door.
# shellcheck shell=bash disable=SC2154,SC2034
cd "$scratch" || exit 1
unset CUDA_VISIBLE_DEVICES SHAKEDOWN_EXPECT SHAKEDOWN_RESULTS SHAKEDOWN_TIMEOUT SHAKEDOWN_ROSTER "${!SLURM_@}" "${!OMPI_MCA_orte@}" "${!PRTE_MCA_@}"
stored=$root/tests/data/h200-sxm-4ranks-full/1

# A tree as from `cmake --install`. Its programs print the files in stored/ with the id of the run.
tree=$scratch/tree
mkdir -p "$tree/bin" "$tree/share/shakedown/thresholds" stored bin
cp "$build/bin/shakedown" "$tree/bin/"
# Reading all profiles would take half of the time of an acceptance.
cp "$root"/thresholds/{h200-sxm,nvidia-preflight,hopper-sxm,memory-141gb,any-nvidia,host}.yaml "$tree/share/shakedown/thresholds/"
while read -r family; do [[ ! -s $stored/$family.json ]] || echo "$family"; done <"$build/share/shakedown/families" >"$tree/share/shakedown/families"
cp "$stored"/*.json stored/
while read -r family; do
  cat >"$tree/bin/bench_$family" <<END
#!/bin/sh
echo "[1/1] $family, 0 s so far" >&2
"$tree/bin/shakedown" event '{"event": "row", "key": "$family/of:all", "row": 1, "rows": 1}'
echo "\$@" >"$scratch/arguments.$family"
[ ! -e "$scratch/does.$family" ] || . "$scratch/does.$family"
crashed= id=
for flag; do case \$flag in --run-id=*) id=\${flag#*=} ;; --crashed=*) crashed=', "crashed": ["'\${flag#*=}'"]' ;; esac; done
exec sed 's/"run_id": *"[^"]*"/"run_id": "'"\$id"'"'"\$crashed"'/' "$scratch/stored/$family.json"
END
done <"$tree/share/shakedown/families"
chmod +x "$tree"/bin/*
export SHAKEDOWN_LAUNCH=env SHAKEDOWN_RESULTS=$scratch/results
accept=("$tree/bin/shakedown" accept)
does() { printf '%s\n' "${@:2}" >"does.$1"; }
latest=$SHAKEDOWN_RESULTS/latest
