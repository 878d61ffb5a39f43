#!/usr/bin/env bash
# Opens pages in a real browser: what they show, no errors, no requests, the filter works, they print on two sheets, and axe-core
# finds no accessibility problem. Skipped without Chromium; axe is left out if npm does not provide it.
# shellcheck source-path=SCRIPTDIR source=../shell.bash
source "$(dirname "$0")/../shell.bash"
for browser in chromium chromium-browser google-chrome ''; do command -v "$browser" >/dev/null && break; done
[[ -n $browser ]] || { echo "SKIP: no chromium and no google-chrome here" && exit 77; }
cd "$scratch" || exit 1

# opened PAGE...: opens pages in frames of one page, because the browser takes longer to start than to show a page. Writes each
# page as the browser made it, without scripts, to PAGE.dom, and what the browser says to log. $width is that of a page; $flags
# are more flags of the browser.
width=1280 flags=()
opened() {
  local page
  {
    cat <<'HTML'
<body><script>
function dump() {
  document.querySelectorAll('iframe').forEach(function (frame) {
    var page = frame.contentDocument.documentElement.cloneNode(true);
    page.querySelectorAll('script').forEach(function (script) { script.remove(); });
    document.getElementById(frame.name).textContent = btoa(unescape(encodeURIComponent(page.outerHTML)));
  });
}
addEventListener('load', dump);
addEventListener('message', dump);
</script>
HTML
    for page; do echo "<iframe name='$page' src='$page' width=$width height=800></iframe><pre id='$page'></pre>"; done
  } >frames.html
  timeout -k 5 240 "$browser" --headless --no-sandbox --disable-gpu --enable-logging=stderr --user-data-dir="$scratch/profile" \
    --allow-file-access-from-files "${flags[@]}" --dump-dom "file://$PWD/frames.html" 2>log </dev/null >frames.dom
  for page; do sed -n "s|.*<pre id=\"$page\">\([^<]*\)<.*|\1|p" frames.dom | base64 -d >"$page.dom"; done
}
# of PAGE: the next expectations are about this page.
of() { dom=$1.dom; }
shows() { expect "$1" grep -qE -- "$2" "$dom"; }
hides() { expect "$1" eval '! grep -qE -- "$2" "$dom"'; }

# --- What the pages of html_test.cpp show ------------------------------------------------------------------------------------
mkdir pages
SHAKEDOWN_PAGES=$PWD/pages "$build/tests/report_tests" --gtest_filter='Page.*:RegressionPage.*' >/dev/null || fail "the pages are not made"
cd pages || exit 1
"$build/bin/shakedown" demo --out=../demo >/dev/null
cp ../demo/page.html demo.html
pages=(*.html)
opened "${pages[@]}"
of failing.html
shows "the first screen says what to take out" '<h1>Take out 1 of 2 nodes: node0</h1>'
shows "  and which GPU" '\(ISOLATE\): .*node0 GPU 2 \(rank 2, '
shows "  and how to look at it" '<pre><code>ssh node0 nvidia-smi'
shows "  and what the repair desk needs" '<pre><code>ssh node0 nvidia-bug-report.sh'
shows "  and when it was" '2026-11-21 05:00 UTC'
shows "  and what was not measured" 'not measured: preflight \(.*\), jitter'
shows "a measurement has a name, and its key in small" ', 4 GiB<small>hbm/op:copy/engine:sm/bytes:4294967296 hbm_gb_per_s'
shows "an outlier has a sign and not a colour alone" '2 node0 GPU 2</th>.*class="w4 out">-18.6 !</td>'
shows "a finding has its source" 'source: a &lt;b&gt;paper&lt;/b&gt;'
shows "sections have links" '<nav aria-label="Sections">.*<a href="#findings">All findings</a>'
shows "commands have a button that copies them" '<button type="button" class="copy">Copy</button>'
of demo.html
shows "a demo is called one" 'Injected fault</dt><dd>[^<]*demo: slow-hbm<'
of stored.html
shows "a PASS says yes" '<h1>Yes, use it</h1>'
shows "  and how far the figures are from their floors" '([0-9]+) of \1 good, [0-9]+ % '
shows "  and what is not proven" 'one host only: nothing is said of the network between hosts'
shows "  and what was waived" 'waived: preflight/of:folder \([0-9]+ findings\): '
shows "  and copies by pair" 'each pair, .* on vm, GB/s'
shows "  and collectives by size" 'AllReduce f32 .*bus bandwidth'
shows "  and bars with floor and ceiling" 'class="bar" role="img".*<b style="left: .*>[0-9.]+ \([0-9]+ %\)</td>'
shows "  and steps by part" 'aria-label="0 vm GPU 0: forward [0-9.]+ backward [0-9.]+ waiting'
shows "  and temperatures" 'Temperature, C'
shows "  and facts" '580.159.04'
hides "  and nothing to be repaired" nvidia-bug-report
hides "  and nothing a little less than nothing" '>-0.0<'
for state in 1 2 3 4 5 6 7; do
  of "state-$state.html"
  shows "state $state has an answer" '<h1>[A-Z]'
  hides "  that is not yes" 'Yes, use it'
done
of hostile.html
shows "a host's name is text" '&lt;/script&gt;&lt;img src=x onerror='
hides "  and no element" '<img'
of rails.html
shows "a slow partner is not the host's fault" 'node0</th><td>46.0</td><td>46.0</td>'
shows "  and a slow rail has a sign" 'node1</th><td class="w4 out">30.0 !</td><td>46.0</td>'
of facts.html
shows "a host that differs is named" '580.159 on 3; 570.86 on rank 2 on node2'
of fleet.html
shows "what is usual" ': p2p -1.2 %'
shows "  and the rack that differs" 'Rack &lt;r7&gt; \(64 GPUs\): 2.3 % .* 8 C '
shows "  and how it differs" '-7.0 %</td>.*outlier: 2.3 % slower, 8 C hotter'
shows "  and all parts on request" '2 parts .*driver 580.159'
of many.html
shows "of thousands the worst" 'The 50 worst of 2000 GPUs.*>1234 node154 GPU 2</th>'
shows "  and the distribution of all" 'aria-label="HBM of all GPUs"'
of soak.html
shows "a soak has its rounds" '80 rounds, 1 .*below &lt;its&gt; floor'
shows "  and each GPU over time" 'node0 GPU 2 gemm[^<]*</th><td>0.0</td>.*<td class="w4 out">-23.[01] !</td>'
hides "  and its family is not missing" 'gemm \(matrix products\)'
of verdict.html
shows "a stored verdict says that it has no figures" 'stored verdict'
shows "  and names the GPU" 'node0 GPU 2 \(rank 2, '
of regression.html
shows "a comparison begins with what is worse" 'WORSE THAN THE BASELINE</p>.*id="worse".*gemm/.*launch by launch.*id="same"'

cd .. || exit 1

# --- As a reader uses it -----------------------------------------------------------------------------------------------------
"$build/tests/rehearsal/rehearsal_rates" --gpus=8 --faults=hbm:0.1 --write=run
run 1 "$build/report/shakedown" report --results=run --html=page.html
opened page.html
expect "the console has no message" eval '! grep -q CONSOLE log'
"$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$scratch/profile" --print-to-pdf=page.pdf "file://$PWD/page.html" 2>log </dev/null
sheets=$(grep -ac '/Type */Page$' page.pdf)
expect "it prints on two sheets, not $sheets" test "$sheets" -eq 2
"$build/tests/rehearsal/rehearsal_rates" --gpus=600 --faults=hbm:0.1 --write=fleet
run 1 "$build/report/shakedown" report --results=fleet --html=fleet.html
expect "the page of 600 GPUs is small" test "$(stat -c %s fleet.html)" -lt 500000

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
  document.querySelector('a[data-find="gemm/"]').click();
  say('family-link-filters', shown().length > 0 && shown().every(function (r) { return /gemm\//.test(r.textContent); }));
  type('');
  say('links-lead-somewhere', [].slice.call(document.querySelectorAll('a')).every(function (a) {
    return document.getElementById(a.getAttribute('href').slice(1)); }));
  document.execCommand = function () { said.push('copies=yes'); };
  navigator.clipboard.writeText = function () { throw new Error('refused'); };
  document.querySelector('.copy').click();
  say('no-request', performance.getEntriesByType('resource').length === 0);
  say('no-error', errors.length === 0);
  say('fits', document.documentElement.scrollWidth <= innerWidth);
  document.body.textContent = said.join(' ') + ' ' + errors.join('; ');
});
JS
awk '/<title>/ { print "<script>"; while ((getline line < "watch.js") > 0) print line; print "</script>" } { print }' \
  page.html >watched.html
for width in 1280 500; do
  opened watched.html
  for what in filter-is-shown bad-ones-are-open words-filter good-ones-are-found only-bad nothing-is-found all-again family-link-filters links-lead-somewhere copies \
    no-request no-error fits; do
    expect "at $width pixels: $what" grep -q "$what=yes" watched.html.dom
  done
done

# --- axe ------------------------------------------------------------------------------------------------------------------
axe=$(npm root -g 2>/dev/null)/axe-core/axe.min.js
if [[ ! -s $axe ]] && command -v npm >/dev/null; then
  timeout 60 npm pack --silent axe-core@4.14.1 >/dev/null 2>&1 && tar -xzf axe-core-*.tgz && axe=$scratch/package/axe.min.js
fi
[[ -s $axe ]] || { echo "SKIP: npm gives no axe-core" && finish; }
run 0 "$build/report/shakedown" report --results="$root/ci/baselines/h200-sxm/1ranks/1" --html=pass.html
# More GPUs than the page lists.
"$build/tests/rehearsal/rehearsal_rates" --gpus=264 --faults=hbm:0.1 --write=many
run 1 "$build/report/shakedown" report --results=many/gemm.json,many/hbm.json --families=gemm,hbm --html=many.html
cat >axe.js <<'JS'
addEventListener('load', function () {
  document.querySelectorAll('details').forEach(function (d) { d.open = true });
  var dark = matchMedia('(prefers-color-scheme: dark)').matches;  // only colours are others there
  axe.run(dark ? { runOnly: ['color-contrast', 'link-in-text-block'] } : {}).then(function (found) {
    document.body.textContent = 'axe-found=' + found.violations.length + ' of ' +
      (found.passes.length <= (dark ? 0 : 10) ? 'few' : dark ? 'colours' : 'many') +
      found.violations.map(function (v) { return ' ' + v.id + ': ' + v.nodes[0].html; }).join(';');
    parent.postMessage('done', '*');
  });
});
JS
for page in pass page many; do
  awk '/<title>/ { print "<script>"; while ((getline line < axe) > 0) print line; while ((getline line < "axe.js") > 0) print line
    print "</script>" } { print }' axe="$axe" "$page.html" >"${page}_axe.html"
done
for scheme in '' --force-dark-mode; do
  flags=(--virtual-time-budget=120000 ${scheme:+"$scheme"})
  shown=(pass page)
  [[ -n $scheme ]] || shown+=(many)  # which has no other colours
  opened "${shown[@]/%/_axe.html}"
  for page in "${shown[@]}"; do
    expect "axe finds nothing on the page $page ${scheme:-in light}" grep -q "axe-found=0 of $([[ -z $scheme ]] && echo many || echo colours)<" "${page}_axe.html.dom"
  done
done
finish
