// Elements, words and drawings of the page. A text from the data (report/html/data.hpp) becomes a text node or the value
// of an attribute, never markup. Each colour is a class, and a word or a sign repeats its meaning.

const data = JSON.parse(document.getElementById('data').textContent);

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

// --- Words ------------------------------------------------------------------------------------------------------------

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
