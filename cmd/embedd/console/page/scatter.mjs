// The scatter plot: the same rows under the previous and the live model, drawn as pixels.
import {h, redraw, say, bdi, clean, count, number, table, time} from './dom.mjs';

// Ten colours that differ for people who see colours differently, and ten shapes; other classes share grey rings.
const light = ['#0b5c8c', '#b3530a', '#1d6b3a', '#8c2d72', '#8a6d00', '#b3201b', '#3b3bb3', '#00716b', '#6b4423', '#c2187a'];
const dark = ['#7cc4f2', '#f5a15e', '#73cf93', '#e59ad2', '#e8d44d', '#ff8f88', '#a9a9ff', '#4fd6cc', '#d3a57f', '#ff8ac4'];
const other = {light: '#6a7782', dark: '#99a5b0'};
const shapes = [
  (x, y) => x * x + y * y <= 1, // disc
  (x, y) => Math.max(Math.abs(x), Math.abs(y)) <= .85, // square
  (x, y) => y <= .75 && y >= 1.9 * Math.abs(x) - .95, // triangle
  (x, y) => Math.abs(x) + Math.abs(y) <= 1.1, // diamond
  (x, y) => Math.min(Math.abs(x), Math.abs(y)) <= .3 && Math.max(Math.abs(x), Math.abs(y)) <= 1, // plus
  (x, y) => y >= -.75 && y <= .95 - 1.9 * Math.abs(x), // triangle upside down
  (x, y) => Math.abs(Math.abs(x) - Math.abs(y)) <= .35 && Math.max(Math.abs(x), Math.abs(y)) <= .95, // cross
  (x, y) => Math.max(Math.abs(x), Math.abs(y)) <= .95 && Math.max(Math.abs(x), Math.abs(y)) >= .5, // frame
  (x, y) => Math.abs(y) <= .4 && Math.abs(x) <= 1.1, // bar
  (x, y) => Math.abs(x) <= .4 && Math.abs(y) <= 1.1, // post
  (x, y) => x * x + y * y <= 1 && x * x + y * y >= .4, // ring
];

const isDark = () => matchMedia('(prefers-color-scheme: dark)').matches;
const still = () => matchMedia('(prefers-reduced-motion: reduce)').matches;
const hex = (c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16));

// stamp is what is drawn for a class: offsets of pixels, and a colour as canvas data.
function stamp(index, radius) {
  const [r, g, b] = hex(index < 10 ? (isDark() ? dark : light)[index] : isDark() ? other.dark : other.light);
  const pixels = [];
  const reach = Math.ceil(radius * 1.2);
  for (let y = -reach; y <= reach; y++) {
    for (let x = -reach; x <= reach; x++) if (shapes[Math.min(index, 10)](x / radius, y / radius)) pixels.push([x, y]);
  }
  return {pixels, colour: (255 << 24 | b << 16 | g << 8 | r) >>> 0};
}

function draw(data, width, height, mark, x, y) {
  for (const [dx, dy] of mark.pixels) {
    const px = x + dx, py = y + dy;
    if (px >= 0 && px < width && py >= 0 && py < height) data[py * width + px] = mark.colour;
  }
}

function sample(index) {
  const canvas = h('canvas', {width: 32, height: 32, 'aria-hidden': 'true'});
  const context = canvas.getContext('2d');
  const image = context.createImageData(32, 32);
  draw(new Uint32Array(image.data.buffer), 32, 32, stamp(index, 11), 16, 16);
  context.putImageData(image, 0, 0);
  return canvas;
}

// range is where the numbers of some columns lie, with a margin.
function range(columns) {
  let low = Infinity, high = -Infinity;
  for (const column of columns) for (const v of column ?? []) if (v !== null) { low = Math.min(low, v); high = Math.max(high, v); }
  if (!(high > low)) return [Number.isFinite(low) ? low - 1 : -1, Number.isFinite(low) ? low + 1 : 1];
  const margin = (high - low) * .04;
  return [low - margin, high + margin];
}

const ease = (t) => (t < .5 ? 2 * t * t : 1 - 2 * (1 - t) * (1 - t));
const jitter = (i) => (i * .6180339887 % 1 - .5) * .7;

export class Scatter {
  // choose reads and sets the state in the URL: x, y, model and the classes that are off.
  constructor(choose) {
    this.choose = choose;
    this.canvas = h('canvas', {role: 'img'});
    this.about = h('p', {class: 'soft'});
    this.legend = h('ul', {class: 'legend'});
    this.controls = h('div', {class: 'bar'});
    this.table = h('div');
    this.rows = h('details', {toggle: () => this.tabulate()}, h('summary', {}, 'Table of the points by class'), this.table);
    this.root = h('section', {class: 'panel'}, h('h3', {}, 'Points'), this.about, this.controls,
      h('div', {class: 'plot'}, this.canvas), this.legend, this.rows);
    this.ages = h('section', {class: 'panel', hidden: true});
    this.root = h('div', {}, this.root, this.ages);
    this.at = 1; // 0: the previous model, 1: the live one
    this.off = new Set();
    new ResizeObserver(() => this.render()).observe(this.canvas);
  }

  recolour() {
    this.show(this.data);
  }

  // show draws new points. If another model is live, they move from the previous one to it.
  show(data) {
    const swapped = this.data?.live && data?.live && this.data.live.version !== data.live.version;
    this.data = data;
    this.assign();
    if (!data?.live) {
      say(this.about, 'No model is live yet: there are no outputs to draw.');
      return;
    }
    this.build();
    const shown = data.class.length, n = data.classes.length;
    say(this.about, `${count(shown)} of ${count(data.rows)} labelled rows of the window, at most ${count(data.per_class)} a class. ` +
      (data.previous ? `Previous model ${data.previous.version}, epoch ${data.previous.epoch}; live model ${data.live.version}, ` +
        `epoch ${data.live.epoch}: ${{yes: 'their coordinates are comparable', no: 'their coordinates are not comparable',
          undecided: 'whether their coordinates are comparable is not decided yet'}[data.comparable]}.`
        : `Live model ${data.live.version}; there is no previous one of these features.`) +
      (n > 10 ? ` The ten largest of ${n} classes have colours; the others share grey rings.` : ''));
    this.canvas.setAttribute('aria-label', `Scatter plot of ${shown} rows of ${n} classes. The table below has the same by class.`);
    this.compose();
    if (swapped) this.move(0, 1);
    this.render();
    this.tabulate();
  }

  // assign gives colours and shapes to the ten largest classes, which keep them when counts change.
  assign() {
    const all = this.data?.classes ?? [], kept = this.palette ?? new Map();
    this.palette = new Map();
    const largest = all.slice(0, 10).map((c) => c.name).sort();
    for (const name of largest) if (kept.has(name)) this.palette.set(name, kept.get(name));
    const used = new Set(this.palette.values());
    for (const name of largest) {
      if (this.palette.has(name)) continue;
      const free = [...Array(10).keys()].find((slot) => !used.has(slot));
      used.add(free);
      this.palette.set(name, free);
    }
    this.slots = all.map((c) => this.palette.get(c.name) ?? 10);
  }

  build() {
    const {live, previous, classes} = this.data;
    const axis = (key, title) => {
      const at = Math.min(Number(this.choose.get(key) ?? (key === 'y' ? 1 : 0)) || 0, live.outputs.length - 1);
      return h('label', {}, title, h('select', {change: (e) => { this.choose.set(key, e.target.value); this.render(); this.tabulate(); }},
        live.outputs.map((_, k) => h('option', {value: k, selected: k === at}, `output ${k}`))));
    };
    const before = this.choose.get('model') === 'previous' && previous;
    const toggle = h('button', {type: 'button', disabled: !previous, 'aria-pressed': String(Boolean(before)), click: () => {
      const back = this.at > .5;
      this.choose.set('model', back ? 'previous' : null);
      toggle.setAttribute('aria-pressed', String(back));
      this.move(this.at, back ? 0 : 1);
    }}, 'Under the previous model');
    redraw(this.controls, [live.version, live.outputs.length, previous?.version], () => {
      this.at = before ? 0 : 1;
      return [live.outputs.length > 1 ? [axis('x', 'Across'), axis('y', 'Up')] : h('span', {}, 'One output: a strip by class.'), toggle];
    });
    this.off = new Set((this.choose.get('off') ?? '').split(',').filter(Boolean).map(Number));
    const flip = (slot, button) => {
      const hide = !this.off.has(slot);
      if (hide) this.off.add(slot); else this.off.delete(slot);
      button.setAttribute('aria-pressed', String(!hide));
      this.choose.set('off', [...this.off].sort((a, b) => a - b).join(',') || null);
      this.render();
    };
    const item = (slot, name, rows) => {
      const button = h('button', {type: 'button', 'data-key': slot, 'aria-pressed': String(!this.off.has(slot)), click: () => flip(slot, button)},
        sample(slot), name, h('span', {class: 'soft'}, count(rows)));
      return h('li', {}, button);
    };
    const of = classes.map((c, i) => ({...c, slot: this.slots[i]})).sort((a, b) => a.slot - b.slot);
    const rest = of.filter((c) => c.slot === 10);
    redraw(this.legend, [of, isDark(), [...this.off]], () => [of.filter((c) => c.slot < 10).map((c) => item(c.slot, bdi(c.name, 40), c.shown)),
      rest.length ? item(10, `${rest.length} other classes`, rest.reduce((n, c) => n + c.shown, 0)) : null]);
  }

  move(from, to) {
    if (still()) {
      this.at = to;
      return this.render();
    }
    const begin = performance.now();
    const step = (now) => {
      const t = Math.min((now - begin) / 900, 1);
      this.at = from + (to - from) * ease(t);
      this.render();
      if (t < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
    return undefined;
  }

  // columns are the chosen outputs of a model, across and up.
  columns(model) {
    const last = this.data.live.outputs.length - 1;
    const pick = (key, k) => model?.outputs[Math.min(Number(this.choose.get(key) ?? k) || 0, last)];
    if (last > 0) return [pick('x', 0), pick('y', 1)];
    return [model?.outputs[0], this.data.class.map((c, i) => -c + jitter(i))];
  }

  render() {
    const {canvas, data} = this;
    if (!data?.live || !canvas.clientWidth) return;
    const ratio = devicePixelRatio || 1;
    const width = canvas.width = Math.round(canvas.clientWidth * ratio), height = canvas.height = Math.round(canvas.clientHeight * ratio);
    const context = canvas.getContext('2d');
    const image = context.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    const now = this.columns(data.live), was = data.previous ? this.columns(data.previous) : now;
    const xs = range([now[0], was[0]]), ys = range([now[1], was[1]]);
    const place = (v, [low, high], size) => (v - low) / (high - low) * size;
    const marks = this.slots.map((slot) => stamp(slot, (data.class.length > 2000 ? 2.6 : 3.4) * ratio));
    for (let i = 0; i < data.class.length; i++) {
      const c = data.class[i];
      const a = [was[0]?.[i], was[1]?.[i]], b = [now[0][i], now[1][i]];
      if (this.off.has(this.slots[c]) || b[0] === null || b[1] === null || a[0] == null || a[1] == null) continue;
      const x = a[0] + (b[0] - a[0]) * this.at, y = a[1] + (b[1] - a[1]) * this.at;
      draw(pixels, width, height, marks[c], Math.round(place(x, xs, width)), Math.round(height - place(y, ys, height)));
    }
    context.putImageData(image, 0, 0);
    context.fillStyle = getComputedStyle(canvas).color;
    context.font = `${12 * ratio}px system-ui, "DejaVu Sans", sans-serif`;
    context.fillText(`across ${number(xs[0])} … ${number(xs[1])}`, 6 * ratio, height - 6 * ratio);
    if (data.live.outputs.length > 1) context.fillText(`up ${number(ys[0])} … ${number(ys[1])}`, 6 * ratio, 14 * ratio);
  }

  // compose shows what the window is made of: the rows of each class by their age.
  compose() {
    const {classes, rows, oldest, newest} = this.data, most = classes.reduce((n, c) => Math.max(n, ...c.ages), 0);
    const bars = (c) => h('span', {class: 'bars', role: 'img', 'aria-label': `From old to new: ${c.ages.join(', ')} rows`},
      c.ages.map((n) => (n ? '▁▂▃▄▅▆▇█'[Math.ceil(n / most * 8) - 1] : ' ')).join(''));
    this.ages.hidden = classes.length === 0;
    redraw(this.ages, [classes, rows, oldest, newest], () => [h('h3', {}, 'Window by class and age'), h('p', {class: 'soft'}, `${count(rows)} rows of ${count(classes.length)} classes, from ` +
      `${time(oldest)} to ${time(newest)}, in twelve equal steps.`),
    table(`Rows of ${classes.length > 30 ? 'the thirty largest classes' : 'each class'} in each step, the oldest on the left`, [{title: 'Class', cell: (c) => bdi(c.name)},
      {title: 'Rows', number: true, cell: (c) => count(c.rows)}, {title: 'Share', number: true, cell: (c) => `${(100 * c.rows / rows).toFixed(1)} %`},
      {title: 'By age', cell: bars}, {title: 'In the newest step', number: true, cell: (c) => count(c.ages.at(-1))}], classes.slice(0, 30), true)]);
  }

  // tabulate writes the table, if it is open.
  tabulate() {
    if (!this.rows.open || !this.data?.live) return;
    const {data} = this;
    const mean = (column, c) => {
      let sum = 0, n = 0;
      column?.forEach((v, i) => { if (data.class[i] === c && v !== null) { sum += v; n++; } });
      return n ? number(sum / n) : '-';
    };
    const now = this.columns(data.live), was = this.columns(data.previous);
    const columns = [{title: 'Class', cell: (c) => bdi(c.name)}, {title: 'Rows', number: true, cell: (c) => count(c.rows)},
      {title: 'Shown', number: true, cell: (c) => count(c.shown)}];
    for (const [title, of] of [['live', now], ['previous', data.previous ? was : [null, null]]]) {
      for (const [k, way] of ['across', 'up'].entries()) {
        if (k === 0 || data.live.outputs.length > 1) {
          columns.push({title: `Mean ${way}, ${title}`, number: true, cell: (c) => mean(of[k], data.classes.indexOf(c))});
        }
      }
    }
    redraw(this.table, [data.time, this.choose.get('x'), this.choose.get('y')], () => table('Points by class', columns, data.classes, true));
  }

  fail(text) {
    say(this.about, clean(text) + (this.data?.live ? ' The picture is an earlier one.' : ''));
  }
}
