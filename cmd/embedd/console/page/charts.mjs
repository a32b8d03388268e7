// Charts of the history, each of which is a table too. Changes of the live version are marks on all of them.
import {h, number, redraw, table, time, clean, View} from './dom.mjs';

/* global uPlot */

const charts = [
  {title: 'Accuracy', names: ['accuracy', 'candidate', 'held_out'], low: 0, high: 1,
    labels: ['live version, on rows before they are learned', 'candidate, likewise', 'live version, on held-out rows']},
  {title: 'Evidence for the candidate', names: ['evidence', 'evidence_required'], labels: ['evidence', 'required by its door'], log: true},
  {title: 'Lag in seconds', names: ['lag_seconds'], labels: ['age of the oldest input without an answer'], low: 0},
  {title: 'Lag in messages', names: ['lag_messages'], labels: ['inputs without an answer'], low: 0},
  {title: 'Messages a second', names: ['messages_per_second', 'dead_rows_per_second'], labels: ['answered', 'rows that became dead letters'], low: 0},
  {title: 'Rows of the window', names: ['window_rows', 'effective_rows'], labels: ['labelled rows', 'independent rows that they are worth'], low: 0},
  {title: 'Seconds of the last promoted fit', names: ['last_fit_seconds'], labels: ['seconds'], low: 0},
  {title: 'Drift statistic, over its limit', names: ['drift'], labels: ['largest difference of the last check'], low: 0, limit: 1, alarms: true},
];

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

class Chart {
  constructor(spec) {
    this.spec = spec;
    this.box = h('div', {class: 'chart', role: 'img', 'aria-label': `${spec.title}. The table below has the same numbers.`});
    this.table = h('div');
    this.details = h('details', {toggle: () => this.tabulate()}, h('summary', {}, `Table: ${spec.title}`), this.table);
    this.root = h('section', {class: 'panel'}, h('h3', {}, spec.title),
      h('ul', {class: 'key'}, [...spec.labels.map((l, i) => ['abc'[i], ['━━', '╍╍', '┄┄'][i], l]), spec.limit && ['b', '╍╍', 'limit'],
        spec.alarms && ['b', '┊', 'an alarm cut the window'], ['m', '│', 'another version went live']].filter(Boolean)
        .map(([colour, sign, text]) => h('li', {}, h('span', {class: colour}, `${sign} `), text))),
      this.box, this.details);
    new ResizeObserver(() => this.plot?.setSize({width: this.box.clientWidth, height: this.box.clientHeight})).observe(this.box);
  }

  show(history, marks) {
    this.history = history;
    this.marks = marks;
    this.draw();
    this.tabulate();
  }

  // recolour draws the chart in the colours of another scheme.
  recolour() {
    this.plot?.destroy();
    this.plot = null;
    this.draw();
  }

  draw() {
    const {history, spec, box} = this;
    if (!history?.time.length || !box.clientWidth) return;
    // A logarithmic scale has no place for zero.
    const data = [history.time, ...spec.names.map((n) => history.series[n].map((v) => (spec.log && v !== null ? Math.max(v, .01) : v)))];
    if (this.plot) {
      this.plot.setData(data);
      return;
    }
    const axis = {stroke: css('--soft'), grid: {stroke: css('--line'), width: 1}, ticks: {stroke: css('--line')}, size: 56};
    this.plot = new uPlot({
      width: box.clientWidth, height: box.clientHeight, cursor: {show: false}, legend: {show: false},
      scales: {x: {range: (_, low, high) => [Math.min(low, high - 600), high]}, y: {distr: spec.log ? 3 : 1, range: spec.log ? undefined : (_, low, high) => this.range(low, high)}},
      axes: [{...axis, size: 34, values: (_, all) => all.map((t) => new Date(t * 1000).toTimeString().slice(0, 5))}, {...axis,
        grid: {...axis.grid, filter: (_, at) => at.map((v) => (spec.log && Math.log10(v) % 1 ? null : v))},
        values: (_, all) => all.map((v) => (v == null ? '' : number(v)))}],
      series: [{}, ...spec.names.map((_, i) => ({stroke: css(`--${'abc'[i]}`), width: 2, dash: [undefined, [6, 4], [2, 3]][i],
        points: {show: history.time.length < 3}}))],
      hooks: {draw: [(u) => this.mark(u)]},
    }, data, box);
  }

  range(low, high) {
    const bottom = this.spec.low ?? low ?? 0, top = this.spec.high ?? Math.max(high ?? 1, this.spec.limit ?? -Infinity);
    return top > bottom ? [bottom, this.spec.high ?? bottom + (top - bottom) * 1.1] : [bottom, bottom + 1];
  }

  mark(u) {
    const {left, top, width, height} = u.bbox, {limit} = this.spec, {time: times, series} = this.history;
    const line = (colour, dash, ...points) => {
      u.ctx.strokeStyle = css(colour);
      u.ctx.setLineDash(dash);
      u.ctx.beginPath();
      for (const [x, y] of points) u.ctx.lineTo(x, y);
      u.ctx.stroke();
    };
    const upright = (colour, dash, seconds) => {
      const x = Math.round(u.valToPos(seconds, 'x', true));
      if (x >= left && x <= left + width) line(colour, dash, [x, top], [x, top + height]);
    };
    u.ctx.save();
    u.ctx.lineWidth = devicePixelRatio;
    for (const t of this.marks ?? []) upright('--mark', [], Date.parse(t.time) / 1000);
    if (this.spec.alarms) times.forEach((t, i) => { if (i && series.alarms[i] > series.alarms[i - 1]) upright('--b', [2, 4], t); });
    if (limit) line('--b', [6, 4], ...[left, left + width].map((x) => [x, u.valToPos(limit, 'y', true)]));
    u.ctx.restore();
  }

  tabulate() {
    if (!this.details.open || !this.history) return;
    const {spec, history} = this;
    const live = (t) => clean(this.marks.findLast((m) => Date.parse(m.time) / 1000 <= t)?.live ?? '-');
    redraw(this.table, [history.time.at(-1), this.marks], () => table(`${spec.title}, the newest first`, [
      {title: 'Time', cell: (i) => time(history.time[i] * 1000)},
      ...spec.names.map((n, k) => ({title: spec.labels[k], number: true, cell: (i) => number(history.series[n][i])})),
      {title: 'Live version', cell: (i) => live(history.time[i])}], history.time.map((_, i) => history.time.length - 1 - i), true));
  }
}

export class Charts extends View {
  constructor() {
    super();
    this.charts = charts.map((spec) => new Chart(spec));
  }

  show(history, turns) {
    this.draw('', () => [h('p', {class: 'soft'}, 'The newest two hours, in steps of ten seconds.'), h('div', {class: 'grid'}, this.charts.map((c) => c.root))]);
    const marks = (turns ?? []).filter((t) => t.was || t.what === 'promote');
    for (const c of this.charts) c.show(history, marks);
  }

  recolour() {
    for (const c of this.charts) c.recolour();
  }
}
