// Draws the page from the document in #data (report/html/data.hpp). A text from the data becomes a text node or the
// value of an attribute, never markup. Each colour is a class, and a word or a sign repeats its meaning.
'use strict';
(() => {
const data = JSON.parse(document.getElementById('data').textContent);

// --- Elements ------------------------------------------------------------------------------------------------------------

function filled(node, attributes, children) {
  const named = typeof attributes === 'string' ? {class: attributes} : attributes || {};
  for (const [name, value] of Object.entries(named)) if (value !== undefined && value !== '') node.setAttribute(name,
    value);
  node.append(...children.flat(Infinity).filter(child => child || child === 0));
  return node;
}
const el = (tag, attributes, ...children) => filled(document.createElement(tag), attributes, children);
const draw = (tag, attributes, ...children) =>
  filled(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);
const is_empty = part => !part || (Array.isArray(part) && part.every(is_empty));

const main = document.getElementById('main'), sections = [];
function section(id, title, about, ...body) {
  if (is_empty(body)) return null;
  const made = el('section', {id}, el('h2', '', title), about && el('p', 'soft', about), body);
  sections.push(made);
  return made;
}
const folded = (title, ...body) => is_empty(body) ? null : el('details', '', el('summary', '', title), body);
const figure = (caption, body) => body && el('figure', '', el('figcaption', '', caption), body);
const wide = (...body) => el('div', {class: 'wide', tabindex: 0}, body);
const row_head = (...text) => el('th', {scope: 'row'}, text);
const heads = columns => el('thead', '', el('tr', '', columns.map(column => el('th', {scope: 'col'}, column))));

// Returns a table that becomes a list on a narrow screen. Each cell knows the name of its column for this list.
function table(columns, rows, classes = 'stack') {
  if (!rows.length) return null;
  const cell = (content, i) => content instanceof HTMLTableCellElement ? content
    : el('td', {'data-of': i ? columns[i] : ''}, content);
  const body = rows.map(row => row instanceof HTMLTableRowElement ? row : el('tr', '', row.map(cell)));
  return wide(el('table', classes, heads(columns), el('tbody', '', body)));
}
const pairs_table = (first, second, rows) => table([first, second], rows.map(([a, b]) => [row_head(a), b]), 'tight');

function command(text) {
  const button = el('button', {type: 'button', class: 'copy'}, 'Copy');
  const code = el('code', '', text);
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {  // some browsers have no clipboard for a page opened from a file
      getSelection().selectAllChildren(code);
      document.execCommand('copy');
    }
    button.textContent = 'Copied';
    setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  });
  return el('div', 'command', el('pre', '', code), button);
}

// --- Words ---------------------------------------------------------------------------------------------------------------

const words = (...parts) => parts.filter(part => part).join(' ');
const plural = (n, noun) => `${n} ${noun}${n === 1 ? '' : 's'}`;
const sentence = text => text.charAt(0).toUpperCase() + text.slice(1);
const number = x => Math.abs(x) >= 1e5 && Math.abs(x) < 1e18 ? x.toFixed(0) : String(Number(x.toPrecision(5)));
const percent = share => `${(100 * share).toFixed(1)} %`;
const signed = x => Number(x.toFixed(1)) === 0 ? '0.0' : (x > 0 ? '+' : '') + x.toFixed(1);
const quantity = (x, unit) => words(number(x), unit);
const bytes = n => {
  let unit = 0;
  for (; n >= 1024 && unit < 4; ++unit) n /= 1024;
  return `${Number(n.toFixed(1))} ${['B', 'KiB', 'MiB', 'GiB', 'TiB'][unit]}`;
};
const family_of = key => key.split('/')[0];
const part_of = (key, name) => (key.split('/').find(part => part.startsWith(name + ':')) || '').slice(name.length + 1);
const median = values => {
  const sorted = [...values].sort((a, b) => a - b), middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
};
const known = values => values.filter(value => value !== null && value !== undefined);
const unit_of = metric => (data.units || {})[metric];
const name_of = key => (data.names || {})[key];
// Shows the readable name, and the key in small print, because programs and flags take the key.
const named = (key, metric) => {
  const text = words(key, metric), name = name_of(key);
  return name ? [name, el('small', '', text)] : text;
};
// Returns "node17 GPU 2 (rank 2, serial 1654, 0000:00:08.0)", or all identifiers with the rank first.
const place = (c, all) => {
  const gpu = words(c.host, c.local_rank !== undefined && (c.uuid || c.pci) ? `GPU ${c.local_rank}` : '');
  const ids = [c.rank !== undefined && `rank ${c.rank}`, all && gpu, (all || !c.serial) && c.uuid,
    c.serial && `serial ${c.serial}`, c.pci].filter(id => id).join(', ');
  return all ? ids : gpu + (ids && ` (${ids})`);
};

// --- Heat tables and drawings --------------------------------------------------------------------------------------------

// Returns the tint of a deviation. `part` is its share of the deviation from which a value is unhealthy.
const tint = part => part >= 1 ? 'w4' : part >= 0.75 ? 'w3' : part >= 0.5 ? 'w2' : part >= 0.25 ? 'w1'
  : part <= -0.75 ? 'b2' : part <= -0.25 ? 'b1' : '';
const heat_cell = (text, classes) => el('td', classes, text);
const heat = (corner, columns, rows) => wide(el('table', 'heat', el('thead', '', el('tr', '', el('td', '', corner),
  columns.map(column => el('th', {scope: 'col'}, column)))), el('tbody', '', rows.map(row => el('tr', '', row)))));

const canvas = (width, height, title, ...body) =>
  draw('svg', {viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': title}, body);
const label = (x, y, anchor, text, classes) => draw('text', {x, y, 'text-anchor': anchor, class: classes}, text);
const tip = text => draw('title', '', text);

// Draws a histogram. Heights are logarithms, so that one outlier among 10,000 values is visible.
function distribution(title, values, limit, unit) {
  const width = 360, height = 110, base = 90, bins = new Array(36).fill(0);
  const low = Math.min(...values), high = Math.max(...values), span = Math.max(high - low, 1e-9);
  for (const value of values) ++bins[Math.min(35, Math.floor(36 * (value - low) / span))];
  const most = Math.log1p(Math.max(...bins));
  const bars = bins.map((count, i) => {
    const middle = low + span * (i + 0.5) / 36, tall = 78 * Math.log1p(count) / most;
    return count && draw('rect', {class: limit !== undefined && middle < limit ? 'bin bad' : 'bin', x: 10 * i,
      y: (base - tall).toFixed(1), width: 9, height: tall.toFixed(1)}, tip(`${count} near ${number(middle)} ${unit}`));
  }).filter(bar => bar);
  const at = limit !== undefined && limit > low && (width * (limit - low) / span).toFixed(1);
  return canvas(width, height, title, bars, at && draw('path', {class: 'floor', d: `M${at} 8V${base}`}),
    draw('path', {class: 'grid', d: `M0 ${base}H${width}`}), label(0, height - 5, 'start', `${low.toFixed(1)} ${unit}`),
    label(width, height - 5, 'end', `${high.toFixed(1)} ${unit}`));
}

// Draws lines over sizes in bytes on a logarithmic axis to base 2; the other axis begins at 0. A line is {name, style,
// points: [x, y, tip]}.
function over_bytes(title, unit, lines) {
  const width = 760, height = 300, left = 52, right = 96, top = 26, bottom = 34;
  const all = lines.flatMap(line => line.points), xs = all.map(p => p[0]), low = Math.min(...xs), high = Math.max(...xs);
  const highest = Math.max(...all.map(p => p[1])), power = 10 ** Math.floor(Math.log10(highest / 5));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(each => highest / 5 <= each);
  const roof = step * Math.ceil(highest / step), octaves = Math.max(1, Math.log2(high / low));
  const x = value => left + (width - left - right) * Math.log2(value / low) / octaves;
  const y = value => height - bottom - (height - top - bottom) * value / roof;
  const out = [label(left - 6, 11, 'end', unit)], taken = [];
  for (let value = 0; value <= roof * 1.001; value += step) {
    out.push(draw('path', {class: 'grid', d: `M${left} ${y(value).toFixed(1)}H${width - right}`}),
      label(left - 6, y(value) + 4, 'end', number(value)));
  }
  for (let value = low; value <= high * 1.001; value *= octaves > 12 ? 32 : 4) {
    out.push(label(x(value), height - 14, 'middle', bytes(value)));
  }
  for (const line of lines.filter(each => each.points.length)) {
    const points = line.points.map(p => [x(p[0]).toFixed(1), y(p[1]).toFixed(1), p[2]]);
    out.push(draw('path', {class: line.style, d: 'M' + points.map(p => p[0] + ' ' + p[1]).join('L')}));
    if (line.style !== 'roof') {
      out.push(points.map(p => draw('circle', {class: line.style === 'main' ? 'dot' : 'floor-dot', cx: p[0], cy: p[1],
        r: 3.5},
        tip(p[2]))));
    }
    const last = line.points[line.points.length - 1];
    let at = y(last[1]) + 4;
    while (taken.some(other => Math.abs(other - at) < 14)) at += 7;
    taken.push(at);
    out.push(label(x(last[0]) + 9, at, 'start', line.name, 'ink'));
  }
  return canvas(width, height, title, out);
}

// Draws values in their order. Values that vary by less than 2 % appear nearly level.
function course(title, launches) {
  const values = launches.map(launch => launch.value), low = Math.min(...values), high = Math.max(...values);
  const middle = (low + high) / 2, span = Math.max(high - low, 0.02 * Math.abs(middle), 1e-12);
  const points = values.map((value, i) => [(6 + 208 * (values.length < 2 ? 0.5 : i / (values.length - 1))).toFixed(1),
    (20 - 28 * (value - middle) / span).toFixed(1)]);
  return canvas(220, 40, title, draw('path', {class: 'main', d: 'M' + points.map(p => p.join(' ')).join('L')}),
    points.map(([cx, cy], i) => draw('circle', {class: launches[i].new ? 'floor-dot' : 'dot', cx, cy, r: 3},
      tip(`${launches[i].started}: ${number(values[i])}`))));
}

// Draws a bar of the length value/full, with marks at the floor and at the ceiling.
function bar(title, value, full, floor) {
  const part = x => `${(100 * Math.min(1, Math.max(0, x / full))).toFixed(1)}%`;
  const fill = el('i', value < floor ? 'low' : ''), mark = floor && el('b');
  fill.style.width = part(value);
  if (mark) mark.style.left = part(floor);
  return el('div', {class: 'bar', role: 'img', 'aria-label': title, title}, fill, mark);
}

// --- The first screen ----------------------------------------------------------------------------------------------------

const v = data.verdict || {}, said = data.words || {}, findings = v.findings || [], culprits = v.culprits || [];
const nodes = (data.nodes || {}).nodes || [], node_count = (data.nodes || {}).count || 0, run = data.figures;
const bad_nodes = nodes.filter(node => node.state === 'bad'), bad_count = (data.nodes || {}).bad || 0;
const max_steps = 3, max_named = 5;
const is_good = f => f.status === 'pass' || f.status === 'waived';
const is_open = f => f.status === 'no reference' || f.status === 'inconclusive';
const good_states = ['pass', 'host-only', 'partial', 'fit'];

function failed() {
  let lead = said.fault + '.';
  if (!bad_count) return ['\u2717', 'bad', 'Do not use it yet: it fails, and no node alone is to blame', lead];
  const left = node_count - bad_count, undecided = data.nodes.undecided_because;
  if (node_count > 1) {
    lead += undecided ? ` The others are not proven good: ${undecided[0]}.`
      : ` The other ${plural(left, 'node')} may be used.`;
  }
  const names = bad_nodes.slice(0, max_named).map(node => node.host);
  const more = bad_count > names.length ? ` and ${bad_count - names.length} more` : '';
  const list = more || names.length < 2 ? names.join(', ') : names.slice(0, -1).join(', ') + ' and ' + names.at(-1);
  return ['\u2717', 'bad', node_count === 1 ? `Do not use ${names[0]}`
    : `Take out ${bad_count} of ${plural(node_count, 'node')}: ${list}${more}`, lead];
}
const answers = {
  'pass': () => ['\u2713', 'good', 'Yes, use it', `All ${v.total} findings that count are good.`],
  'fail': failed,
  'inconclusive': () => ['?', 'doubt', 'Not yet: a figure was too noisy. Measure again', said.fault + '.'],
  'no reference': () => ['?', 'doubt', 'Not proven: part of it has nothing to be judged by',
    `Nothing failed. ${said.fault}.`],
  'incomplete': () => ['?', 'doubt', 'Not proven: the run is incomplete', said.fault ? said.fault + '.' : ''],
  'host-only': () => ['\u2013', 'doubt', 'No GPU was measured',
    'Only the processors were, and all that was asked of them is good.'],
  'virtual': () => ['\u2013', 'doubt', 'No GPU was measured: the times are computed',
    `They show that all rows fit into their time on ${(v.devices || []).join(', ')}, and nothing else.`],
  'partial': () => ['\u2013', 'doubt', 'Not proven: only a part was measured',
    `All that was asked for is good: ${said.asked}.`],
  'fit': () => run && run.tier === 'gate' ? ['\u2713', 'good', 'Fit for work, by a gate',
    'A test of seconds was asked for, and it is good. A whole acceptance measures more.']
    : ['\u2713', 'good', 'Fit for work, by pre-flight',
      'Pre-flight alone was asked for, and it is good. Speed and data were not measured.'],
};

function first_screen() {
  const [sign, tone, answer, lead] = answers[v.verdict]();
  const when = /^....-..-..T..:..:..Z$/.test(v.started) ? `${v.started.slice(0, 10)} ${v.started.slice(11, 16)} UTC`
    : v.started;
  const hosts = [...new Set((run ? run.places : []).map(([host]) => host))];
  const version = name => ((run ? run.versions : []).find(row => row[0] === name && row[1] !== 'unknown') || [])[1];
  const serials = run ? run.ranks.filter(rank => rank[6]).map(rank => `${rank[6]} (GPU ${rank[2]})`) : [];
  const facts = [['When', when || 'unknown'],
    ['Machine',
      `${plural(v.ranks, 'rank')} on ${hosts.length === 1 ? 'host ' + hosts[0] : plural(Math.max(v.hosts, 1), 'host')}: ` +
      (v.devices || ['unknown devices']).join(', ')],
    ['Driver', [version('driver'), version('nccl') && `NCCL ${version('nccl')}`].filter(text => text).join(', ')],
    ['Injected fault', (findings.find(f => f.key === 'machine/fault') || {}).detail],
    ['Profile', v.profile], ['Tier', run && run.tier], ['Run', (v.run_ids || []).join(', ')],
    ['Serial numbers', hosts.length === 1 && serials.length <= 16 ? [...new Set(serials)].join(', ') : '']];
  return el('header', tone, el('p', 'state', `${sign} ${v.verdict.toUpperCase()} ${v.passed}/${v.total}`),
    el('h1', '', answer), el('p', 'lead', lead),
    el('dl', 'facts', facts.map(([name, value]) => value && el('div', '', el('dt', '', name), el('dd', '', value)))),
    el('p', 'filter', el('label', '', el('input', {type: 'checkbox', id: 'print-all'}), ' Print every section')));
}

function cause_and_place(d) {
  const places = d.places || [], shown = places.slice(0, max_named).map(c => place(c)), causes = d.causes.join(' or ');
  if (!shown.length) return `${causes}, no single one of ${plural(d.place_count, 'rank')}`;
  const is_link = places.length === 2 && d.causes[0] === 'slow link';
  const more = d.place_count > shown.length ? ` and ${d.place_count - shown.length} more` : '';
  return `${causes}: ${shown.join(is_link ? ' to ' : '; ')}${more}`;
}
const node_words = node => ({ISOLATE: `Take ${node.host} out of service (ISOLATE)`, MONITOR: `Watch ${node.host} (MONITOR)`,
  RESET: `Restart ${node.host} and measure it again (RESET)`}[node.action] || node.host);

function what_to_do() {
  const out = [], explained = new Set(), step = (what, next) => out.push(el('p', '', what), next ? command(next) : '');
  let steps = 0;
  for (const d of culprits.filter(each => each.fails)) {
    if (++steps > max_steps) continue;
    const node = bad_nodes.find(each => d.places && each.host === d.places[0].host);
    step([node ? node_words(node) + ': ' + cause_and_place(d) : sentence(cause_and_place(d)), '. ',
      el('a', {href: '#fault'}, 'Evidence'), d.next && '. Look at it with'], d.next);
    for (const c of d.places || []) explained.add(c.host);
  }
  for (const node of bad_nodes) {
    if (!explained.has(node.host) && ++steps <= max_steps) step(`${node_words(node)}: ${node.reasons[0]}`, node.next);
  }
  if (said.repair) step('For the repair desk, before anything is restarted', said.repair.join('\n'));
  if (bad_count) step('When it is mended, measure again', 'ci/accept');
  if (steps > max_steps) step(`And ${steps - max_steps} more, below`);
  if (!steps && !good_states.includes(v.verdict) && said.fault) step(sentence(said.fault), said.next);
  if (!out.length && v.verdict === 'pass') step('Nothing. Keep this run: later ones can be compared with it.');
  if (said.asked && good_states.includes(v.verdict)) step('Measure the rest', 'ci/accept');
  for (const d of culprits.filter(each => !each.fails && each.places)) {
    if (++steps <= max_steps) step(`Watch ${place(d.places[0])}: ${d.causes.join(' or ')}, a warning`);
  }
  return section('do', 'What to do', '', out.length ? out : el('p', '', 'Nothing was found to do.'));
}

function judged_families() {
  const seen = new Map(), of = key => {
    const family = family_of(key);
    if (!seen.has(family)) seen.set(family, {good: 0, bad: 0, open: 0, warnings: 0});
    return seen.get(family);
  };
  for (const f of findings) {
    const family = of(f.key);
    if (!f.counted) {
      family.warnings += is_good(f) ? 0 : 1;
      continue;
    }
    ++family[is_good(f) ? 'good' : is_open(f) ? 'open' : 'bad'];
    if (is_good(f) && f.value !== undefined && f.limit_name === 'min' && f.limit > 0) {
      family.least = Math.min(family.least === undefined ? Infinity : family.least, f.value / f.limit - 1);
    }
  }
  for (const point of v.unjudged || []) of(point.key);
  return seen;
}

function what_was_judged() {
  const seen = judged_families(), rows = [], absent = [], soaked = (data.soak || {}).families || [];
  const line = (name, about, f) => {
    const is_proven = f.good && !f.bad && !f.open, [tone, sign] = f.bad ? ['fail', '\u2717'] : is_proven ? ['pass',
      '\u2713'] : ['doubt', '?'];
    const parts = [f.good + f.bad ? `${f.good} of ${f.good + f.bad} good` : '', f.open ? `${f.open} not proven` : '',
      f.good + f.bad + f.open ? '' : 'judged by no rule',
      is_proven && f.least >= 0.005 ? `${(100 * f.least).toFixed(0)} % over its floors` : '',
      f.warnings ? plural(f.warnings, 'warning') : ''];
    const link = el('a', {href: '#findings', 'data-find': name + '/'}, name);
    rows.push(el('tr', '', el('td', '', el('span', 'is-' + tone, sign)), row_head(link, el('small', '', about)),
      el('td', 'much', parts.filter(part => part).join(', '), is_proven && (data.usual || {})[name] ?
        el('small', '', data.usual[name]) : '')));
  };
  for (const [name, about] of data.families) {
    if (seen.has(name)) line(name, about, seen.get(name));
    else if (!soaked.includes(name)) absent.push(`${name} (${about})`);
    seen.delete(name);
  }
  for (const [name, f] of seen) line(name, name === 'machine' ? 'the run itself' : '', f);
  const gaps = [...findings.filter(f => f.status === 'no reference' && f.counted).map(f => `${f.key}: ${f.detail || ''}`),
    absent.length ? 'not measured: ' + absent.join(', ') : '', said.unjudged,
    said.waivers ? 'waived: ' + said.waivers.join('; ') : '',
    v.hosts <= 1 ? 'one host only: nothing is said of the network between hosts' : '', ...(v.notes || [])];
  return section('judged', 'What was judged', '', el('table', 'families', el('tbody', '', rows)), el('h3', '',
    'Not judged'),
    el('ul', '', gaps.filter(gap => gap).map(gap => el('li', '', gap))));
}

function fault() {
  const evidence = d => {
    const rows = (d.evidence || []).map(e => [el('td', '', named(e.key, e.metric)),
      e.value === undefined ? '-' : quantity(e.value, unit_of(e.metric)),
      e.expected === undefined ? '-' : number(e.expected) + (e.judgement === 'peers' ? ' (peers)' : ' (limit)'),
      e.percent === undefined ? '-' : `${e.percent.toFixed(1)} %`]);
    if (d.evidence_count > rows.length) {
      rows.push([el('td', {colspan: 4}, `and ${d.evidence_count - rows.length} more measurements`)]);
    }
    return table(['evidence', 'measured', 'expected', 'off by'], rows, 'tight stack');
  };
  const out = culprits.map(d => el('div', 'culprit', el('h3', '', el('span', d.fails ? 'is-fail' : 'is-doubt',
    `${d.fails ? '\u2717' : '\u2013'} ${cause_and_place(d)}${d.fails ? '' : ' (warning)'}`)), el('p', '', d.detail),
    (d.places || []).map(c => el('p', 'soft', place(c, true))),
    evidence(d), d.telemetry && el('p', 'soft', `Telemetry: ${d.telemetry}`), d.next && command(d.next)));
  const more = data.culprits - out.length;
  return section('fault', 'The part at fault', 'Findings combined, each with its evidence and the next command.', out,
    more > 0 && el('p', '', `and ${more} more: all are in verdict.json`));
}

// --- Figures -------------------------------------------------------------------------------------------------------------

const max_gpus_in_full = 64, max_gpus = 50;
const gpu = rank => `${rank} ${run.places[rank][0]} GPU ${run.places[rank][1]}`;
const gpu_head = rank => el('th', {scope: 'row', title: (run.ranks[rank] || [])[4]}, gpu(rank));
const worst_note = (shown, count) => count > shown && el('p', 'soft', `The worst ${shown} of ${count}.`);

// Returns all ranks in order, or only the worst ones if there are too many.
function shown_ranks() {
  const all = run.places.map((_, rank) => rank);
  if (all.length <= max_gpus_in_full) return all;
  const worst = all.map(rank => Math.max(-1, ...(run.peers || []).map(c => (c.values[rank] || 0) / (c.limit || -1))));
  return all.sort((a, b) => worst[b] - worst[a]).slice(0, max_gpus);
}

const class_name = column => words(column.class, {tflops_per_ghz: 'per GHz', capacity_gb: 'size'}[column.of] ||
  run.peers.some(other => other.class === column.class && other.of < column.of) && column.of);

function peers(ranks) {
  const columns = run.peers || [], count = run.places.length, all = ranks.length === count;
  if (!columns.length) return null;
  const rows = ranks.map(rank => [gpu_head(rank), columns.map(c => {
    const value = c.values[rank], out = (c.out || []).includes(rank);
    return value === null || value === undefined ? el('td')
      : heat_cell(signed(value / 10) + (out ? ' !' : ''), words(tint(value / c.limit), out && 'out'));
  })]);
  rows.push([row_head('outlier below'), columns.map(c => heat_cell((c.limit / 10).toFixed(1)))]);
  const caption = all ? 'Percent above or below the middle of all GPUs; ! is an outlier.'
    : `The ${ranks.length} worst of ${count} GPUs, in percent above or below the middle of all; ! is an outlier.`;
  const many = all ? null : [el('h3', '', 'All GPUs'), el('p', 'soft',
    'How many are how far from the middle; heights by the ' +
    'logarithm, so that one in 10,000 is seen. Orange values, left of the dashed line, are outliers.'),
    el('div', 'many', columns.map(c => figure(class_name(c), distribution(`${class_name(c)} of all GPUs`,
      known(c.values).map(value => value / 10), c.limit / 10, '%'))))];
  return section('peers', 'GPUs against each other',
    'A GPU is judged by the middle of its values in a class, not by its worst one.',
    figure(caption, heat('rank', columns.map(class_name), rows)), many);
}

const shortfall = (value, centre, lower) => !centre ? 0 : lower ? value / centre - 1 : 1 - value / centre;

function copies() {
  const {count, matrices = []} = run.pairs || {};
  const tables = matrices.map(m => {
    const cells = m.values.flatMap((row, src) => (row || []).map((value, dst) => ({src, dst,
      value}))).filter(c => known([c.value]).length);
    const worst = cells.reduce((a, b) => (m.lower ? b.value > a.value : b.value < a.value) ? b : a, cells[0] || {});
    const rows = m.values.map((row, src) => [row_head(src), row.map((value, dst) => {
      if (value === null) return el('td');
      const off = m.healthy ? shortfall(value, m.centre, m.lower) / m.healthy : 0;
      const is_worst = worst.src === src && worst.dst === dst;
      return heat_cell(value.toFixed(m.lower ? 2 : 1) + (off >= 1 ? ' !' : ''), words(tint(off), is_worst && off >= 1
        && 'out'));
    })]);
    const caption = [name_of(m.key) || m.key, ` on ${m.host}, ${unit_of(m.metric)}`, cells.length
      ? `; worst ${worst.src} to ${worst.dst}` : '',
      name_of(m.key) && el('small', '', m.key)];
    return figure(caption, heat('from\\to', m.values.map((_, dst) => dst), rows));
  });
  return section('copies', 'Copies between the GPUs of a host',
    'Source by row, destination by column. Tinted: below the middle of ' +
    'all such copies; ! by more than is healthy.', tables.length ? el('div', 'many', tables) : null,
      worst_note(tables.length, count));
}

// Shows, for each host and rail, the best of its rounds with partners on other hosts.
function rails() {
  const hosts = run.rails || [];
  if (!hosts.length) return null;
  const columns = Math.max(...hosts.map(line => line.length)) - 1;
  const centres = Array.from({length: columns}, (_, rail) => {
    const values = known(hosts.map(line => line[rail + 1]));
    return values.length ? median(values) : 0;
  });
  const off = (value, rail) => known([value]).length ? shortfall(value, centres[rail], false)
    : 1;  // a rail without a value is the worst
  const worst = line => Math.max(...line.slice(1).map(off));
  const shown = hosts.length > max_gpus ? [...hosts].sort((a, b) => worst(b) - worst(a)).slice(0, max_gpus) : hosts;
  const rows = shown.map(([host, ...values]) => [row_head(host), values.map((value, rail) => {
    const part = known([value]).length ? off(value, rail) / run.healthy_rail : 1;
    return heat_cell(known([value]).length ? value.toFixed(1) + (part >= 1 ? ' !' : '') : 'silent !', words(tint(part),
      part >= 1 && 'out'));
  })]);
  return section('rails', 'Hosts by rail',
    'GB/s each way with partners on other hosts, the best of the rounds; ! is more than 5 % ' +
    'below the middle of the rail.', heat('host', centres.map((_, rail) => `rail ${rail}`), rows), worst_note(shown.length,
      hosts.length));
}

function over_size() {
  const series = new Map();  // by the key without its size
  for (const rate of (run.rates || []).filter(each => each.metric === 'busbw_gb_per_s' && Number(part_of(each.key,
    'bytes')) > 0)) {
    const size = Number(part_of(rate.key, 'bytes')), key = rate.key.replace(/\/bytes:\d+/, '/bytes:N');
    series.set(key, [...(series.get(key) || []), {size, ...rate}].sort((a, b) => a.size - b.size));
  }
  const out = [...series].filter(([, rates]) => rates.length >= 5).map(([key, rates]) => {
    const points = (field, text) => rates.filter(r => r[field] !== undefined).map(r => [r.size, r[field], text(r)]);
    const name = (name_of(rates[0].key) || key).replace(/, [\d.]+ .?i?B\b/, ''), lines = [
      {name: 'ceiling', style: 'roof', points: points('ceiling', () => '')},
      {name: 'measured', style: 'main', points: points('value', r => `${bytes(r.size)}: ${quantity(r.value, 'GB/s')}`)},
      {name: 'floor', style: 'floor', points: points('floor', r => `floor ${number(r.floor)}`)}];
    return [figure([`${name} over its size; bus bandwidth in GB/s`, el('small', '', key)],
      wide(over_bytes(`${name}: bus bandwidth over size`, 'GB/s', lines))),
    folded('the same as a table', table(['size', 'bus bandwidth, GB/s', 'time, us'], rates.map(r =>
      [row_head(bytes(r.size)), number(r.value), r.us === undefined ? '-' : number(r.us)]), 'tight'))];
  });
  return section('over-size', 'Collectives over size',
    'Bus bandwidth counts what the busiest link carries. The dashed line joins ' +
    'the floors of the profile, the dotted one is what the hardware can do.', out);
}

// A bar needs a floor or a ceiling as its scale; without either only the number is shown.
function rates() {
  const families = new Map();
  for (const r of run.rates || []) {
    const of_pair = ['src', 'rank', 'shift'].some(name => /^\d+$/.test(part_of(r.key, name)));
    const size = part_of(r.key, 'bytes'), is_small = /^\d+$/.test(size) && Number(size) < 2 ** 27;
    const family = family_of(r.key);
    if (of_pair || is_small || family === 'allreduce') continue;
    const unit = unit_of(r.metric), is_low = r.value < r.floor, full = r.ceiling || r.floor && 1.15 * Math.max(r.value,
      r.floor);
    const title = `${r.key}: ${quantity(r.value, unit)}${is_low ? ', below its floor' : ''}`;
    families.set(family, [...(families.get(family) || []), [el('td', '', named(r.key, '')),
      full ? bar(title, r.value, full, r.floor) : 'no floor, no ceiling', quantity(r.value, unit) + (is_low ? ' !' : ''),
      r.floor === undefined ? '-' : number(r.floor),
      r.ceiling === undefined ? '-' : `${number(r.ceiling)} (${(100 * r.value / r.ceiling).toFixed(0)} %)`]]);
  }
  return section('rates', 'Rates, floors and ceilings',
    'Bars show the slowest GPU as a part of what the hardware can do, which is the right end; the red mark is the floor ' +
    'that the profile asks for. ! is below it. Without a ceiling a bar is drawn against its floor.',
  [...families].map(([family, rows]) => [el('h3', '', family),
    table(['benchmark', 'of the ceiling', 'slowest', 'floor', 'ceiling'], rows, 'tight stack rates')]));
}

function steps() {
  const parts = ['forward', 'backward', 'waiting for others', 'optimizer', 'rest'];
  const out = (run.steps || []).map(step => {
    const rows = step.ranks.map(([[rank, host, local], ...ms]) => {
      const sum = ms.reduce((a, b) => a + b, 0), all = [...ms, Math.max(0, step.step_ms - sum)], full = Math.max(sum,
        step.step_ms);
      const text = parts.map((part, i) => `${part} ${all[i].toFixed(1)}`).join(' ') + ' ms',
        name = `${rank} ${host} GPU ${local}`;
      const pieces = all.map((value, i) => {
        const piece = el('i', `f${i + 1}`, value / full > 0.1 ? value.toFixed(1) : '');
        piece.style.width = `${(100 * value / full).toFixed(2)}%`;
        piece.title = `${parts[i]} ${value.toFixed(1)} ms`;
        return piece;
      });
      return [row_head(name), el('td', '', el('div', {class: 'pieces', role: 'img', 'aria-label': `${name}: ${text}`},
        pieces))];
    });
    const caption = [`${name_of(step.key) || step.key}, ms of a step of ${number(step.step_ms)} ms`,
      step.count > rows.length ? `; the ${rows.length} that the others wait for most` : '', el('small', '', step.key)];
    return figure(caption, table(['rank', 'forward, backward, waiting for others, optimizer, rest'], rows, 'tight'));
  });
  return section('step', 'A training step', 'Where its time goes, by rank. The others wait for the rank that waits least.',
    out.length ?
    el('p', 'legend', parts.map((part, i) => [el('i', `f${i + 1}`), ` ${part} `])) : null, out);
}

function sensors(ranks) {
  const all = ranks.length === run.places.length, many = [];
  const kinds = [['sm_mhz', 'Clock', 'MHz', 0.12, -1], ['temperature_c', 'Temperature', 'C', 0.25, 1], ['power_w', 'Power',
    'W', 0, 0]];
  const tables = kinds.map(([sensor, title, unit, healthy, bad]) => {
    const columns = (run.sensors || []).filter(c => c.sensor === sensor),
      centres = columns.map(c => median(known(c.values)));
    for (const c of columns) {
      const name = `${title} in ${c.family}`;
      if (!all && /^(gemm|.*_step)$/.test(c.family)) many.push(figure(name, distribution(name, known(c.values), undefined,
        unit)));
    }
    const classes = off => healthy ? tint(bad * off / healthy)
      : Math.abs(off) > 0.1 ? 'n3' : Math.abs(off) > 0.05 ? 'n2' : Math.abs(off) > 0.02 ? 'n1' : '';
    const rows = ranks.map(rank => [gpu_head(rank), columns.map((c, i) => known([c.values[rank]]).length
      ? heat_cell(c.values[rank].toFixed(0), classes(centres[i] ? c.values[rank] / centres[i] - 1 : 0)) : el('td'))]);
    return columns.length ? figure(`${title}, ${unit}`, heat('rank', columns.map(c => c.family), rows)) : null;
  }).filter(each => each);
  return section('heat', 'Clock, heat and power while it worked',
    'By GPU and kind of benchmark: the middle of the clock and of the ' +
    'power, the highest temperature. Tinted: lower clock or hotter than the middle of all GPUs; power that differs.',
  tables.length ? el('div', 'many', tables) : null, many.length ? [el('h3', '', 'All GPUs'), el('div', 'many', many)]
    : null);
}

function rounds() {
  const soak = data.soak;
  if (!soak) return null;
  const hours = Math.max(1, ...(soak.trends || []).map(trend => trend.hours.length)), each = Math.ceil(hours / 24);
  const starts = Array.from({length: Math.ceil(hours / each)}, (_, i) => i * each), word = soak.minutes ? 'minute' : 'hour';
  const rows = (soak.trends || []).map(trend => [row_head(trend.name), starts.map(begin => {
    const levels = known(trend.hours.slice(begin, begin + each)), level = levels.length && median(levels);
    const low = (trend.low || []).some(hour => hour >= begin && hour < begin + each);
    return levels.length ? heat_cell(signed(level / 10) + (low ? ' !' : ''), words(trend.limit > 0
      && tint(-level / trend.limit), low && 'out'))
      : el('td');
  })]);
  const columns = starts.map(begin => number(Math.round(10 * begin * soak.hour_s / (soak.minutes ? 60 : 3600)) / 10));
  const caption = (soak.of > rows.length ? `The ${rows.length} worst of ${soak.of}, by ` : 'By ') + word + '.';
  return section('rounds', 'Rounds over time',
    `${plural(soak.count, 'round')}, ${soak.bad} of them no pass. Percent against each GPU's ` +
    'own first hour; ! is surely worse.', rows.length ? figure(caption, heat(word, columns, rows)) : null,
  table(['round', 'when', 'state', 'first finding'], soak.rounds || []));
}

// --- What is long --------------------------------------------------------------------------------------------------------

function fleet() {
  const share = part => signed(100 * part) + ' %', lines = v.fleet_lines || [], off = said.outliers || [];
  const parts = list => table(['of the fleet', 'class', 'GPUs', 'median', '1 %', '99 %', 'temperature', 'outlier'],
    list.map(line => {
    const how = [line.slow && `${percent(-line.faster)} slower`, line.hot
      && `${line.hotter_c.toFixed(0)} C hotter`].filter(text => text);
    return [row_head(`${line.by} ${line.group}`), line.class, line.gpus, share(line.median), share(line.p1),
      share(line.p99),
      line.temperature_c === undefined ? '' : `${line.temperature_c.toFixed(0)} C`,
      how.length ? el('td', 'is-doubt', `outlier: ${how.join(', ')} than the others`) : ''];
  }), 'tight stack');
  const texts = [...(said.levels || []).map(sentence), ...off.slice(0, 6).map(sentence),
    off.length > 6 ? `And ${off.length - 6} more outliers` : '',
    lines.length && !off.length ? 'No rack, leaf, firmware, driver or host is an outlier' : ''].filter(text => text);
  const levels = (v.fleet_levels || []).map(level => [row_head(words(level.class, level.metric)), level.rows,
    share(level.better),
    level.reference ? 'reference' : 'limits']);
  return section('fleet', 'The fleet as a whole',
    'The usual values compared with the profile, and the parts of the fleet compared ' +
    'with each other: how much faster their GPUs are than the median of all. For information.',
  texts.length ? [el('ul', '', texts.map(text => el('li', '', text))), parts(lines.filter(line => line.slow || line.hot)),
    folded(`${plural(lines.length, 'part')} of the fleet, by class`, parts(lines)),
    folded('what is usual, by class', table(['class', 'rows', 'usual', 'against'], levels, 'tight stack'))] : null);
}

function scaling() {
  const rows = (v.scaling || []).map(point => [el('td', '', named(point.key, point.metric)), point.hosts, point.ranks,
    quantity(point.value, unit_of(point.metric)), point.efficiency === undefined ? '-' : percent(point.efficiency),
      point.limited_by || '']);
  return section('scaling', 'Scaling',
    'The rate that each GPU keeps with more nodes, or more ranks of one. For a training step ' +
    "efficiency is the slowest rank's tokens per second over the same on one node; of AllReduce its bus bandwidth over " +
    "the lesser of one node's and of what the NICs allow.",
  table(['benchmark', 'nodes', 'ranks', 'value', 'efficiency', 'limited by'], rows));
}

// Shows a finding that is not good in full: the places, the rule, its source, and what to run next.
function detail(f) {
  if (is_good(f)) return f.detail || '';
  const lines = [...(f.offenders || (f.worst ? [f.worst] : [])).map(c => place(c) + (c.value === undefined ? ''
    : `: ${number(c.value)}`)),
    f.offenders && f.offender_count > f.offenders.length ? `and ${f.offender_count - f.offenders.length} more` : '',
    f.rule && `rule: ${f.rule}`, f.judgement !== 'rule' && `judged by: ${f.judgement}`, f.source && `source: ${f.source}`];
  return [f.detail || '', folded('in full', el('pre', '', lines.filter(line => line).join('\n')), f.next
    && command(f.next))];
}

function finding_row(f) {
  const tone = is_good(f) ? 'is-pass' : f.counted && !is_open(f) ? 'is-fail' : 'is-doubt';
  const sign = is_good(f) ? (f.status === 'waived' ? '\u2013' : '\u2713') : tone === 'is-fail' ? '\u2717' : '?';
  const where = f.worst ? place({...f.worst, uuid: (f.worst.uuid || '').slice(0, 12), pci: ''}) : '-';
  const cells = {'worst value': f.value === undefined ? '' : quantity(f.value, f.unit),
    limit: f.limit === undefined ? '-' : words(f.limit_name, number(f.limit)),
    where: where + (f.offender_count > 1 ? ` +${f.offender_count - 1}` : '')};
  return el('tr', {'data-good': is_good(f) ? 'yes' : 'no'}, el('td', tone, `${sign} ${f.status}`), el('td', '', named(f.key,
    f.metric)),
    Object.entries(cells).map(([column, text]) => el('td', {'data-of': column}, text)), el('td', '', detail(f)));
}

function all_findings() {
  const columns = ['status', 'finding', 'worst value', 'limit', 'where', 'detail'], good = findings.filter(is_good);
  const bad = findings.filter(f => !is_good(f)).sort((a, b) => b.counted - a.counted),
    left = data.findings - findings.length;
  const filter = el('div', {class: 'filter', id: 'filter'}, el('label', '', 'Find ', el('input',
    {type: 'search', id: 'find', placeholder: 'gemm bf16, or a host'})), el('label', '', el('input', {type: 'checkbox',
      id: 'only-bad'}),
    ' only what is not good'), el('span', {class: 'soft', id: 'shown', role: 'status'}));
  const unjudged = (v.unjudged || []).map(point => [row_head(named(point.key, point.metric)),
    point.value === undefined ? point.detail || '' : quantity(point.value, unit_of(point.metric))]);
  return section('findings', 'All findings', '', (v.judgements || []).length ?
    el('ul', '', v.judgements.map(each => el('li', '', `${each.judgement}: ${each.text}`))) : null, filter,
  table(columns, bad.map(finding_row)), left > 0 && el('p', '', `and ${left} more: all are in verdict.json`),
  folded(plural(good.length, 'good finding'), table(columns, good.map(finding_row))),
  folded(said.unjudged, table(['measured', 'value'], unjudged, 'tight')));
}

// Returns "580.159 on 15; 570.86 on node7": the most frequent value without names, the others with the names.
function spread({values, count, different}) {
  if (2 * different > count && count > 2) return `${different} values of ${count}: ${values[0][0]}, ${values[1][0]}, ...`;
  return values.map(([value, places, ...names], i) => `${value} on ` + (i === 0 && places > 1 ? places
    : names.join(', ') + (places > names.length ? ` and ${places - names.length} more` : ''))).join('; ') +
    (different > values.length ? '; ...' : '');
}

function facts() {
  const hosts = nodes.map(node => [node.host, `${plural(node.ranks, 'rank')}, ${node.state}` +
    (node.reasons ? ': ' + node.reasons[0] : '')]);
  if (node_count > nodes.length) hosts.push([`and ${node_count - nodes.length} more`, '']);
  const list = (run && run.facts) || [], differ = list.filter(fact => fact.different > 1),
    same = list.filter(fact => fact.different === 1);
  const gpus = (run ? run.ranks : []).map(([rank, ...cells]) => [row_head(rank), ...cells.map(cell => cell === ''
    ? 'unknown' : cell)]);
  const left = run ? run.places.length - gpus.length : 0;
  if (left > 0) gpus.push([el('td', {colspan: 7}, `and ${left} more`)]);
  return section('facts', run ? 'Facts of the hosts' : 'Hosts', '', pairs_table('host', 'what becomes of it', hosts),
    folded(`${plural(differ.length, 'fact')} that differ between hosts or GPUs`,
      pairs_table('fact', 'places', differ.map(fact => [fact.fact, spread(fact)]))),
    folded(`${plural(same.length, 'fact')} that are the same everywhere`,
      pairs_table('fact', 'value', same.map(fact => [fact.fact, fact.values[0][0]]))),
    run && folded(`${plural(run.places.length, 'GPU')} with UUID and address`,
      table(['rank', 'host', 'GPU', 'device', 'UUID', 'PCI', 'serial'], gpus, 'tight stack')));
}

function reproduce() {
  return section('again', 'How to reproduce it', run ? '' : 'This page was made of a stored verdict, which has no figures.',
    el('p', '', 'All of it, or one family:'), command(data.commands.join('\n')),
    run && folded('versions, settings and command lines of the run', pairs_table('what', 'value', run.versions)));
}

// --- The page ------------------------------------------------------------------------------------------------------------

// Makes the links to the sections. A link of a family also puts the name of the family into the filter.
function navigation() {
  const links = sections.map(each => el('a', {href: '#' + each.id}, each.querySelector('h2').textContent));
  return links.length > 1 ? el('nav', {'aria-label': 'Sections'}, links) : null;
}

function start_filter() {
  const find = document.getElementById('find'), only = document.getElementById('only-bad'),
    folds = [...document.querySelectorAll('#findings details')];
  const rows = [...document.querySelectorAll('#findings tbody tr')].map(row => ({row,
    text: row.textContent.toLowerCase()}));
  const apply = () => {
    const wanted = find.value.toLowerCase().split(/\s+/).filter(word => word);
    let n = 0;
    for (const {row, text} of rows) {
      row.hidden = (only.checked && row.dataset.good !== 'no') || !wanted.every(word => text.includes(word));
      n += row.hidden ? 0 : 1;
    }
    if (wanted.length) for (const fold of folds) if (!fold.closest('tr')) fold.open = true;
    document.getElementById('shown').textContent = `${n} of ${rows.length} findings`;
  };
  find.addEventListener('input', apply);
  only.addEventListener('change', apply);
  for (const link of document.querySelectorAll('a[data-find]')) {
    link.addEventListener('click', () => { find.value = link.dataset.find; apply(); });
  }
  apply();
}

function start_printing() {
  const all = document.getElementById('print-all');
  let opened = [];
  all.addEventListener('change', () => document.body.classList.toggle('print-all', all.checked));
  addEventListener('beforeprint', () => {
    opened = all.checked ? [...document.querySelectorAll('details:not([open])')] : [];
    for (const fold of opened) fold.open = true;
  });
  addEventListener('afterprint', () => { for (const fold of opened) fold.open = false; });
}

function verdict_page() {
  const header = first_screen(), todo = what_to_do(), is_short = culprits.length <= 2, ranks = run && shown_ranks();
  const evidence = is_short && fault();
  const first = el('div', 'two', el('div', '', todo, evidence), what_was_judged());
  const parts = [is_short ? null : fault(), ...(run ? [peers(ranks), copies(), rails(), over_size(), rates(), steps(),
    sensors(ranks)] : []), rounds(),
    fleet(), scaling(), all_findings(), facts(), reproduce()];
  main.append(header, navigation(), first, ...parts.filter(part => part));
  start_filter();
  start_printing();
}

function regression_page() {
  const {summary, exit_code, notes = [], changes = []} = data.regression;
  const [tone, state] = exit_code === 0 ? ['good', 'NOTHING IS WORSE'] : exit_code === 1 ? ['bad',
    'WORSE THAN THE BASELINE']
    : ['doubt', 'INCONCLUSIVE'];
  const of = (...trends) => changes.filter(change => trends.includes(change.status));
  const list = shown => table(['benchmark', 'baseline', 'now', 'change', 'launches', 'status', 'course'],
    shown.map(change => {
    const [name, ...cells] = change.words;
    return [row_head(name), ...cells, el('td', '', change.launches ? course(`${name}, launch by launch`, change.launches)
      : '')];
  }));
  const lost = of('worse', 'missing').sort((a, b) => (a.status === 'missing') - (b.status === 'missing') ||
    Math.abs(b.percent || 0) - Math.abs(a.percent || 0)), noisy = of('not judged');
  main.append(el('header', tone, el('p', 'state', state), el('h1', '', summary),
    notes.length ? el('ul', '', notes.map(note => el('li', '', note))) : ''),
  ...[section('worse', 'Worse or missing', '', list(lost)), section('inconclusive', 'Inconclusive', '',
    list(of('inconclusive'))),
    section('same', 'The same, better or new', '', list(of('better', 'same', 'new'))),
    section('noisy', 'Not judged', 'Launches differ too much to show a loss of 10 %.',
      folded(`${noisy.length} benchmarks`, list(noisy)))].filter(part => part));
}

if (data.regression) regression_page(); else verdict_page();
})();
