// Long lists, and the page as a whole.

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
