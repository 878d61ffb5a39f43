#!/usr/bin/env bash
# Root measures in a folder where another user can write. Files of root in other folders must not change.
# shellcheck source-path=SCRIPTDIR source=../shell.bash disable=SC2016,SC2034,SC2154
source "$(dirname "$0")/../shell.bash"
[[ $(id -u) == 0 ]] || { echo "SKIP: only root can act as another user" && exit 77; }
needs setpriv
chmod 711 "$scratch" && cd "$scratch" || exit 1
other() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
accept=("$build/bin/shakedown" accept "--families=preflight,jitter")
unset SHAKEDOWN_RESULTS SHAKEDOWN_CHOICES
export SHAKEDOWN_RANKS=2

secrets() { for file in log lock verdict.json preflight.json jitter.json crashed; do echo "of root: $file" >"secret/$file"; done; }
mkdir -m 700 secret && secrets
before=$(cat secret/*)

# The attack renames the folder of the run as soon as it appears, and puts a folder of links in its place.
cat >attack <<'END'
cd results || exit 1
while ((SECONDS < 60)); do
  for run in 2*; do
    [[ -d $run && ! -e taken ]] || continue
    mv -T "$run" taken && mkdir "$run" && for file in log lock verdict.json preflight.json jitter.json crashed; do
      ln -s "$1/$file" "$run/$file"
    done && exit 0
  done
done
exit 1
END
mkdir -m 1777 work && cd work || exit 1
other mkdir results
other bash ../attack "$scratch/secret" & attacker=$!
code=0
timeout 100 "${accept[@]}" --results=results >../out 2>../err || code=$?
wait $attacker
expect "another user can put a folder of links in place of the run's" test $? = 0
cd .. || exit 1
expect "  and no file of root is changed" eval '[[ $(cat secret/*) == "$before" ]]'
# An attack between the creation and the opening of the folder ends the run, with the reason; a later one has no effect.
if grep -qE 'results/2[^ ]*: .*--results=DIR$' out err; then
  expect "  and a folder that is not the run's is refused" test $code = 3
else
  expect "  and the run is judged by what was measured" eval '[[ $code == 3 ]] && grep -q "^VERDICT: PARTIAL 13/13" out && grep -q "\"partial\"" work/results/taken/verdict.json'
fi

# Another user's folder in place of the run's folder, or links in a named folder.
other mkdir work/results/mine
run 3 env SHAKEDOWN_RUN_ID=mine "${accept[@]}" --results=work/results
expect "a run's folder that another user made before is refused" says 'work/results/mine: .* 65534'
run 3 "${accept[@]}" --folder=work/results/mine
expect "  also if it is named" says 'work/results/mine: .* 65534'
ln -s "$scratch/secret" work/results/link
run not0 env SHAKEDOWN_RUN_ID=link "${accept[@]}" --results=work/results
expect "a link in place of a run's folder is refused" says 'work/results/link: '
mkdir -m 777 open
run 3 "${accept[@]}" --folder=open
expect "a folder that all users may write to is refused" says 'open: .*all users'
mkdir own && touch own/lock && ln -s "$scratch/secret/log" own/log
run not0 "${accept[@]}" --folder=own
mkdir hard && ln secret/lock hard/lock
run not0 "${accept[@]}" --folder=hard
expect "  and what links lead to stays" eval '[[ $(cat secret/*) == "$before" ]]'

# Root archives the folder of another user, who puts a link to a file of root in place of a result again and again. The other
# files keep the archive busy between listing and reading.
other mkdir work/results/theirs && other touch work/results/theirs/lock && chmod 644 secret/log && chmod 711 secret
for ((i = 0; i < 400; i++)); do head -c 30000 /dev/zero | tr '\0' '1'; echo; done | (cd work/results/theirs && other split -l 1 -a 3 - a)
other bash -c 'cd work/results/theirs && while [[ ! -e stop ]]; do echo "{}" >new; mv new z.json; ln -sf "$1" new; mv -T new z.json; done' \
  bash "$scratch/secret/log" & attacker=$!
for ((i = 0; i < 12; i++)); do
  timeout 60 "$build/bin/shakedown" archive --results=work/results/theirs --out="tar$i" >>out 2>>err
done
touch work/results/theirs/stop && wait $attacker
expect "an archive of another user's folder has no file of root" eval '! grep -ls "of root" tar*'
other bash -c 'cd work/results/theirs && rm -f z.json new && echo "{}" >z.json'
run 0 "$build/bin/shakedown" archive --results=work/results/theirs --out=after
expect "  and after the attack the folder is archived" test -s after

# A folder shared by a group of operators.
if other test -x "$build/bin/shakedown"; then
  mkdir -m 2775 shared && chgrp 65534 shared
  run 0 setpriv --reuid=65533 --regid=65534 --clear-groups env HOME="$scratch" "$build/bin/shakedown" accept --families=preflight --results=shared
  run 0 setpriv --reuid=65532 --regid=65534 --clear-groups env HOME="$scratch" "$build/bin/shakedown" accept --families=preflight --results=shared
  expect "operators of one group share a folder of results" eval '[[ $(ls -d shared/2* | wc -l) == 2 && $(stat -c %u shared/2* | sort -u | wc -l) == 2 ]]'
  expect "  and latest leads to the last run" eval '[[ $(stat -L -c %u shared/latest) == 65532 ]]'
else
  echo "SKIP: a part that needs a folder of the build that other users can enter"
fi
finish
