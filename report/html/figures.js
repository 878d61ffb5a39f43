// Figures of a run: GPUs, copies, rails, rates, steps, sensors and rounds.

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
