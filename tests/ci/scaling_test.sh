#!/usr/bin/env bash
# ci/scaling as users run it, with programs that print stored results of 1, 2 and 4 H200.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034
source "$(dirname "$0")/../shell.bash"
cd "$scratch" || exit 1

mkdir -p now/bench now/bin now/share/shakedown tools stored
cp "$build/bin/shakedown" now/bin/
ln -s "$root/thresholds" now/share/shakedown/
printf 'gemm\nhbm\n' >now/share/shakedown/families
for ranks in 1ranks/1 2ranks/1 4ranks/1; do
  python3 -m json.tool --indent 1 "$root/ci/baselines/h200-sxm/$ranks/hbm.json" "stored/${ranks%%ranks*}.json"
done
cat >now/bench/bench_hbm <<END
#!/usr/bin/env bash
for flag; do [[ \$flag != --run-id=* ]] || id=\${flag#*=}; done
sed "s/\"run_id\": \"[^\"]*\"/\"run_id\": \"\$id\"/" "$scratch/stored/\$SHAKEDOWN_RANKS.json"
END
cp now/bench/bench_hbm now/bench/bench_gemm
# Starts other programs once per rank, and programs of shakedown once.
cat >tools/mpirun <<'END'
#!/usr/bin/env bash
while [[ $1 != -np ]]; do shift; done
count=$2
shift 2
while [[ $1 == -x ]]; do
  export "$2"
  shift 2
done
[[ $1 != */bench_* ]] || count=1
for ((i = 0; i < count; ++i)); do "$@"; done
END
chmod +x now/bench/* tools/mpirun
PATH=$scratch/tools:$PATH
export SHAKEDOWN_BUILD=$scratch/now

SHAKEDOWN_RANKS=4 run 0 "$root/ci/scaling" hbm
expect "it runs on 1, 2 and 4 ranks" eval '[[ $(ls now/scaling) == "1ranks
2ranks
4ranks" ]]'
expect "each number of ranks is judged" eval '[[ $(grep -cE "^VERDICT: PARTIAL .*\(profile h200-sxm, [124] ranks?, 1 of [0-9]+ families" out) -eq 3 ]]'
expect "the largest is compared with the smaller ones" prints '^crosscheck: 9 of 9 '

# With four GPUs, each loses a tenth.
a_tenth_less() { sed -E 's/"hbm_gb_per_s": ?4([0-9]{3})/"hbm_gb_per_s":3\1/g; s/([ [,])4([0-9]{3}\.[0-9]+)/\13\2/g' "$1" >"$2"; }
a_tenth_less "$root/tests/data/h200-sxm-4ranks-full/1/hbm.json" stored/4.json
SHAKEDOWN_RANKS=4 run 1 "$root/ci/scaling" hbm
expect "a loss in company fails" prints '^fail: hbm/.* hbm_gb_per_s_efficiency'

SHAKEDOWN_RANKS=1 run 3 "$root/ci/scaling" hbm
expect "one rank is nothing to compare" says 'one rank'
run 2 "$root/ci/scaling" --nosuch
expect "an unknown flag is refused" says '--nosuch: unknown; usage:'
run 2 "$root/ci/scaling" nosuch
expect "an unknown family is refused" says 'nosuch: '
SHAKEDOWN_LAUNCH="env" run 2 "$root/ci/scaling" hbm
expect "a launcher that fixes the number of ranks is refused" says 'unset that'
rm stored/2.json
SHAKEDOWN_RANKS=4 run 3 "$root/ci/scaling" hbm
expect "a run without a result is not passed over" says 'wrote no result|cannot'
finish
