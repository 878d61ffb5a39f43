// The answer: the state, what to do, and what was judged.

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
  const out = culprits.map((d, i) => el('div', 'culprit', el('h3', '', el('span', d.fails ? 'is-fail' : 'is-doubt',
    `${d.fails ? '\u2717' : '\u2013'} ${cause_and_place(d)}${d.fails ? '' : ' (warning)'}`)), el('p', '', d.detail),
    (d.places || []).map(c => el('p', 'soft', place(c, true))),
    evidence(d), said.consequences && said.consequences[i] && el('p', '', sentence(said.consequences[i])),
    d.telemetry && el('p', 'soft', `Telemetry: ${d.telemetry}`), d.next && command(d.next)));
  const more = data.culprits - out.length;
  return section('fault', 'The part at fault', 'Findings combined, each with its evidence and the next command.', out,
    more > 0 && el('p', '', `and ${more} more: all are in verdict.json`));
}
