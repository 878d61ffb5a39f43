#!/usr/bin/env bash
# The page in a real browser: no error, no request, and the filter filters. Skipped where no Chromium is installed.
# shellcheck source-path=SCRIPTDIR source=../shell.bash
source "$(dirname "$0")/../shell.bash"
for browser in chromium chromium-browser google-chrome ''; do command -v "$browser" >/dev/null && break; done
[[ -n $browser ]] || { echo "SKIP: no chromium and no google-chrome here" && exit 77; }
cd "$scratch" || exit 1

"$build/tests/fleet/fleet" --gpus=8 --seed=1 --fault=gpu:rank=3,percent=10,in=hbm --out=run
run 1 "$build/report/shakedown" report --results=run --html=page.html

# What a reader would do and see, written where --dump-dom shows it.
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
finish
