// Elements and texts. What comes from the daemon reaches the page as text alone.

// h makes an element. Attributes that are functions are listeners, true and false are present and absent.
export function h(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') e.addEventListener(name, value);
    else if (value === true) e.setAttribute(name, '');
    else if (value !== false && value != null) e.setAttribute(name, value);
  }
  e.append(...children.flat(2).filter((c) => c != null));
  return e;
}

// put replaces the children of an element.
export function put(e, ...children) {
  e.replaceChildren(...children.flat(2).filter((c) => c != null));
  return e;
}

// redraw replaces the children of an element by those that make returns, unless they would be those of the same state. What has
// the focus, and what is scrolled, stays where it is: both are found again by data-key.
export function redraw(e, state, make) {
  const key = JSON.stringify(state);
  if (e.drawn === key) return;
  e.drawn = key;
  const named = () => e.querySelectorAll('[data-key]');
  const focused = e.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  const scrolled = new Map([...named()].map((c) => [c.dataset.key, [c.scrollLeft, c.scrollTop]]));
  put(e, make());
  for (const c of named()) {
    c.scrollTo(...scrolled.get(c.dataset.key) ?? [0, 0]);
    if (c.dataset.key === focused) c.focus({preventScroll: true});
  }
}

// View is a part of the page that is drawn from an answer, and keeps what is known if the next one is an error.
export class View {
  constructor() {
    this.error = h('p', {class: 'note', hidden: true});
    this.body = h('div');
    this.root = h('div', {}, this.error, this.body);
  }

  draw(state, make) {
    this.error.hidden = true;
    redraw(this.body, state, make);
  }

  // withhold offers no operation: the daemon or the server does not answer. A view with operations sets data and may.
  withhold() {
    if (!this.may) return;
    const {hidden} = this.error;
    this.show(this.data, false);
    this.error.hidden = hidden;
  }

  fail(text) {
    say(this.error, clean(text));
    this.error.hidden = false;
  }
}

// say sets the text of an element, if it differs, so that screen readers do not repeat it.
export function say(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

const hidden = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

// clean makes a name or sentence of a stranger readable: characters that are invisible or change the direction are
// marked, and the rest after a length is cut.
export function clean(text, length = 300) {
  if (text === '') return '(empty)';
  const visible = String(text ?? '-').replace(hidden, '\ufffd');
  return visible.length > length ? `${visible.slice(0, length)}… (${visible.length} characters)` : visible;
}

// bdi isolates the direction of a name.
export const bdi = (text, length = 60) => h('bdi', {}, clean(text, length));

const numbers = new Intl.NumberFormat('en', {maximumSignificantDigits: 4});
const counts = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
export const number = (v) => (v == null ? '-' : numbers.format(v));
export const count = (v) => (v == null ? '-' : counts.format(v));

// duration is a number of seconds as text.
export function duration(s) {
  if (s == null) return '-';
  if (s < 90) return `${number(s < 10 ? Math.round(s * 10) / 10 : Math.round(s))} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  return s < 172800 ? `${Math.round(s / 3600)} h` : `${Math.round(s / 86400)} d`;
}

// time is a time as text, without the date if it is today.
export function time(t) {
  const at = new Date(t);
  if (!t || Number.isNaN(at.getTime())) return '-';
  const clock = at.toTimeString().slice(0, 8);
  return at.toDateString() === new Date().toDateString() ? clock : `${at.toISOString().slice(0, 10)} ${clock}`;
}

// table makes a table. Columns are {title, cell(row), number, long}; a cell is text or a node.
export function table(caption, columns, rows, tall = false) {
  const attributes = (c) => ({class: c.number ? 'number' : c.long ? 'long' : 'name'});
  return h('div', {class: tall ? 'scroll tall' : 'scroll', tabindex: '0', role: 'region', 'aria-label': caption, 'data-key': columns.map((c) => c.title)},
    h('table', {}, h('caption', {}, caption),
      h('thead', {}, h('tr', {}, columns.map((c) => h('th', {...attributes(c), scope: 'col'}, c.title)))),
      h('tbody', {}, rows.map((row) => h('tr', {}, columns.map((c) => h('td', attributes(c), c.cell(row))))))));
}

// list is a list of definitions: pairs of a term and a text or node.
export const list = (pairs) => h('dl', {}, pairs.filter((p) => p && p[1] != null)
  .flatMap(([term, value]) => [h('dt', {}, term), h('dd', {}, value)]));
