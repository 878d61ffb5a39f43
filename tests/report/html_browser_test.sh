#!/usr/bin/env bash
# Opens the page in a real browser: no errors, no requests, the filter works, and axe-core finds no accessibility problem.
# Skipped without Chromium; axe is left out if npm does not provide it.
# shellcheck source-path=SCRIPTDIR source=../shell.bash
source "$(dirname "$0")/../shell.bash"
for browser in chromium chromium-browser google-chrome ''; do command -v "$browser" >/dev/null && break; done
[[ -n $browser ]] || { echo "SKIP: no chromium and no google-chrome here" && exit 77; }
cd "$scratch" || exit 1

"$build/tests/rehearsal/rehearsal_rates" --gpus=8 --faults=hbm:0.1 --write=run
run 1 "$build/report/shakedown" report --results=run --html=page.html

# Acts like a reader, and writes the results into the page, where --dump-dom prints them.
cat >watch.js <<'JS'
var errors = [];
addEventListener('error', function (e) { errors.push(e.message); });
addEventListener('securitypolicyviolation', function (e) { errors.push('policy: ' + e.violatedDirective); });
addEventListener('load', function () {
  var find = document.getElementById('find'), only = document.getElementById('only-bad');
  var rows = [].slice.call(document.querySelectorAll('#findings tbody tr[data-good]'));
  function shown() { return rows.filter(function (r) { return r.checkVisibility(); }); }
  function type(text) { find.value = text; find.dispatchEvent(new Event('input')); }
  var said = [];
  function say(name, ok) { said.push(name + '=' + (ok ? 'yes' : 'no')); }
  say('filter-is-shown', !document.getElementById('filter').hidden);
  say('bad-ones-are-open', shown().length === rows.filter(function (r) { return r.dataset.good === 'no'; }).length);
  type('HBM op:read');
  say('words-filter', shown().length > 0 && shown().every(function (r) { return /hbm\/op:read/.test(r.textContent); }));
  type('lora_step');
  say('good-ones-are-found', shown().length > 0);
  only.click();
  say('only-bad', shown().length === 0);
  type('no such thing'); only.click();
  say('nothing-is-found', shown().length === 0 && /^0 of /.test(document.getElementById('shown').textContent));
  type('');
  say('all-again', shown().length === rows.length);
  say('no-request', performance.getEntriesByType('resource').length === 0);
  say('no-error', errors.length === 0);
  say('fits', document.documentElement.scrollWidth <= innerWidth);
  document.body.textContent = said.join(' ') + ' ' + errors.join('; ');
});
JS
awk '/<title>/ { print "<script>"; while ((getline line < "watch.js") > 0) print line; print "</script>" } { print }' \
  page.html >watched.html
for width in 1280 400; do
  timeout -k 5 120 "$browser" --headless --no-sandbox --disable-gpu --window-size="$width,800" \
    --user-data-dir="$scratch/profile" --dump-dom "file://$scratch/watched.html" >dom 2>err </dev/null
  for what in filter-is-shown bad-ones-are-open words-filter good-ones-are-found only-bad nothing-is-found all-again \
    no-request no-error fits; do
    expect "at $width pixels: $what" grep -q "$what=yes" dom
  done
done

# --- axe ------------------------------------------------------------------------------------------------------------------
axe=$(npm root -g 2>/dev/null)/axe-core/axe.min.js
if [[ ! -s $axe ]] && command -v npm >/dev/null; then
  timeout 60 npm pack --silent axe-core@4.14.1 >/dev/null 2>&1 && tar -xzf axe-core-*.tgz && axe=$scratch/package/axe.min.js
fi
[[ -s $axe ]] || { echo "SKIP: npm gives no axe-core" && finish; }
run 0 "$build/report/shakedown" report --results="$root/ci/baselines/h200-sxm/4ranks/1" --html=pass.html
"$build/tests/rehearsal/rehearsal_rates" --gpus=320 --faults=hbm:0.1 --write=many
run 1 "$build/report/shakedown" report --results=many --html=many.html
cat >axe.js <<'JS'
addEventListener('load', function () {
  document.querySelectorAll('details').forEach(function (d) { d.open = true });
  var dark = matchMedia('(prefers-color-scheme: dark)').matches;  // only colours are others there
  axe.run(dark ? { runOnly: ['color-contrast', 'link-in-text-block'] } : {}).then(function (found) {
    document.body.textContent = 'axe-found=' + found.violations.length + ' of ' +
      (found.passes.length <= (dark ? 0 : 10) ? 'few' : dark ? 'colours' : 'many') +
      found.violations.map(function (v) { return ' ' + v.id + ': ' + v.nodes[0].html; }).join(';');
  });
});
JS
for page in pass page many; do
  awk '/<title>/ { print "<script>"; while ((getline line < axe) > 0) print line; while ((getline line < "axe.js") > 0) print line
    print "</script>" } { print }' axe="$axe" "$page.html" >watched.html
  for scheme in '' --force-dark-mode; do
    timeout -k 5 240 "$browser" --headless --no-sandbox --disable-gpu --window-size=1280,800 --virtual-time-budget=120000 \
      ${scheme:+"$scheme"} --user-data-dir="$scratch/profile" --dump-dom "file://$scratch/watched.html" >dom 2>err </dev/null
    expect "axe finds nothing on the page $page ${scheme:-in light}" grep -q "axe-found=0 of $([[ -z $scheme ]] && echo many || echo colours)<" dom
  done
done
finish
