// The versions of a pipeline, the changes of the live one, and the operations that choose it.
import {h, bdi, clean, count, number, table, time, list, View} from './dom.mjs';

const score = (v) => (v == null ? '-' : v.toFixed(4));

const note = (text) => h('p', {class: 'note'}, clean(text));

// action is a button or a box of a table. Its label is its name.
const action = (tag, label, attributes, text = '') => h(tag, {'aria-label': label, 'data-key': label, ...tag === 'button' ? {type: 'button'} : {type: 'checkbox'},
  ...attributes}, text);

export class Models extends View {
  constructor(ask, choose) {
    super();
    this.ask = ask; // opens the dialog of an operation
    this.choose = choose;
  }

  show(data, may) {
    [this.data, this.may] = [data, may];
    const versions = data.models.filter((m) => m.version).reverse(), refused = data.models.filter((m) => !m.version).reverse();
    const live = versions.find((m) => m.state === 'live');
    const compared = [this.choose.get('a'), this.choose.get('b')].filter(Boolean);
    const pick = (m) => action('input', `Compare ${m.version}`, {checked: compared.includes(m.version),
      change: (e) => {
        const now = e.target.checked ? [...compared, m.version].slice(-2) : compared.filter((v) => v !== m.version);
        this.choose.set('a', now[0] ?? null);
        this.choose.set('b', now[1] ?? null);
        this.show(data, may);
      }});
    const act = (m) => [
      m.state === 'live' || m.state === 'damaged' ? null : action('button', `Roll back to ${m.version}`, {disabled: !may,
        click: () => this.ask(rollback(m, live))}, 'Roll back'), ' ',
      m.pinned ? action('button', `Unpin ${m.version}`, {'data-key': `Pin ${m.version}`, disabled: !may, click: () => this.ask(unpin(m))}, 'Unpin')
        : action('button', `Pin ${m.version}`, {disabled: !may || m.state === 'damaged', click: () => this.ask(pin(m, live))}, 'Pin')];
    const lives = (m) => data.turns.flatMap((t, i) => {
      if (t.live !== m.version || !t.was && t.what !== 'promote') return [];
      const next = data.turns.slice(i + 1).find((n) => n.was === m.version);
      return [`${time(t.time)} – ${next ? time(next.time) : m.state === 'live' ? 'now' : 'not kept'}`];
    }).join(', ') || '-';
    const dropped = data.dropped_turns ? ` Not kept any more, up to ${time(data.dropped_turns.until)}: ` +
      `${Object.entries(data.dropped_turns.count).map(([what, n]) => `${count(n)} ${what}`).join(', ')}.` : '';
    const pair = compared.map((v) => versions.find((m) => m.version === v)).filter(Boolean);
    this.draw([data, may, compared], () => [
      h('section', {class: 'panel'}, h('h3', {}, 'Versions'), table('Versions of the model, the newest first', [
        {title: 'Version', cell: (m) => bdi(m.version)}, {title: 'Operate', cell: (m) => h('span', {}, act(m))},
        {title: 'State', cell: (m) => m.state + (m.pinned ? ', pinned' : '') + (m.reset ? ', reset' : '')}, {title: 'Compare', cell: pick},
        {title: 'Method', cell: (m) => clean(m.method ?? '-')}, {title: 'Outputs', number: true, cell: (m) => number(m.dim)},
        {title: 'Score', number: true, cell: (m) => score(m.score)}, {title: 'Epoch', number: true, cell: (m) => number(m.epoch)},
        {title: 'Rows', number: true, cell: (m) => count(m.rows)}, {title: 'Door', cell: (m) => clean(m.door ?? '-')},
        {title: 'Live', cell: lives}, {title: 'Why', long: true, cell: (m) => clean(m.why ?? '-')},
        {title: 'Window', cell: (m) => (m.last ? `${m.first}–${m.last}` : '-')}, {title: 'Parent', cell: (m) => bdi(m.parent ?? '-')},
        {title: 'Digest', cell: (m) => clean((m.digest ?? '-').slice(0, 16))}], versions)),
      pair.length === 2 ? h('section', {class: 'panel'}, h('h3', {}, 'Compared'), compare(pair)) : null,
      h('section', {class: 'panel'}, h('h3', {}, 'Changes and requests'), table(`The newest first.${dropped}`, [
        {title: 'Time', cell: (t) => time(t.time)}, {title: 'What', cell: (t) => t.what}, {title: 'Live afterwards', cell: (t) => bdi(t.live ?? '-')},
        {title: 'Before', cell: (t) => bdi(t.was ?? '-')}, {title: 'By', long: true, cell: (t) => bdi(t.by || 'the trainer', 120)}],
      [...data.turns].reverse(), true)),
      h('section', {class: 'panel'}, h('h3', {}, 'Refused candidates'), refused.length === 0 ? h('p', {class: 'soft'}, 'None.')
        : table('The newest refused candidates', [{title: 'Time', cell: (m) => time(m.created)}, {title: 'Score', number: true, cell: (m) => score(m.score)},
          {title: 'Live model', number: true, cell: (m) => score(m.live_score)}, {title: 'Why', long: true, cell: (m) => clean(m.why)}], refused, true))]);
  }
}

function compare([a, b]) {
  const keys = ['state', 'method', 'dim', 'features', 'classes', 'rows', 'score', 'epoch', 'door', 'why', 'first', 'last', 'parent', 'created', 'size',
    'digest'];
  const text = (m, k) => clean(m[k] == null ? '-' : k === 'score' ? score(m[k]) : k === 'created' ? time(m[k]) : String(m[k]).slice(0, k === 'digest' ? 16 : undefined), 80);
  return table('Two versions', [{title: 'Of', cell: (k) => k}, {title: clean(a.version), cell: (k) => text(a, k)},
    {title: clean(b.version), cell: (k) => text(b, k)}, {title: 'Differs', cell: (k) => (text(a, k) === text(b, k) ? '' : 'differs')}], keys);
}

const described = (m) => `${m.version} (${m.method ?? 'unknown method'}, ${m.dim ?? '?'} outputs` +
  (m.score == null ? '' : `, scored ${m.score.toFixed(2)} on held-out ones of ${count(m.rows)} rows`) + ')';

function epochs(m, live) {
  if (!live) return '';
  const one = (v) => v.same_as_epoch || v.epoch;
  if (one(m) === one(live)) return `Epoch ${live.epoch} and epoch ${m.epoch}: coordinates are comparable.`;
  return `Epoch ${live.epoch} becomes ${m.epoch}: coordinates are not known to be comparable.`;
}

export const rollback = (m, live) => ({title: 'Roll back', what: 'rollback', body: {version: m.version, live: live?.version},
  says: [`Goes back from ${live ? described(live) : 'no model'} to ${described(m)}.`, epochs(m, live),
    'Training continues from it, and may promote another version within seconds: pin it to keep it live.']});
const pin = (m, live) => ({title: 'Pin', what: 'pin', body: {version: m.version, live: live?.version},
  says: [`${described(m)} ${m.state === 'live' ? 'stays' : 'becomes'} live, and no other version is promoted until it is unpinned.`,
    m.state === 'live' ? '' : epochs(m, live)]});
const unpin = (m) => ({title: 'Unpin', what: 'unpin', body: {live: m.version}, says: [`Training may replace ${described(m)} again.`]});
export const retrain = (status) => ({title: 'Fit a candidate', what: 'retrain', body: {live: status.model?.version},
  says: [`The trainer fits a candidate from ${count(status.learning.rows)} rows of ${status.learning.classes} classes.`,
    'It goes live only through the doors of the gate, as any other.']});
export const resume = () => ({title: 'Resume', what: 'resume', body: {}, says: ['The pipeline takes inputs again, in all replicas. If they are still bad, it halts again.']});

// Letters are the newest dead letters. Bodies are never requested.
export class Letters extends View {
  constructor(ask) {
    super();
    this.ask = ask;
    this.chosen = new Set();
  }

  show(data, may) {
    [this.data, this.may] = [data, may];
    const letters = data.dead_letters, {chosen} = this;
    for (const n of chosen) if (!letters.some((l) => l.number === n)) chosen.delete(n);
    const button = h('button', {type: 'button', 'data-key': 'replay', disabled: !may || chosen.size === 0, click: () => this.ask({title: 'Replay', what: 'dead-letters/replay',
      body: {numbers: [...chosen]}, says: [`Publishes ${chosen.size} message${chosen.size > 1 ? 's' : ''} to the input again and deletes ` +
        'the dead letters. What is still bad becomes a dead letter again.']})}, 'Replay the chosen');
    const reasons = new Set(letters.flatMap((l) => l.why_not ?? []));
    const choose = (l) => action('input', `Choose dead letter ${l.number}`, {disabled: !may || Boolean(l.why_not), checked: chosen.has(l.number), change: (e) => {
      if (e.target.checked) chosen.add(l.number); else chosen.delete(l.number);
      button.disabled = !may || chosen.size === 0;
    }});
    const codes = {};
    for (const l of letters) codes[l.code] = (codes[l.code] ?? 0) + 1;
    this.draw([letters, may], () => [letters.length === 0 ? h('p', {}, 'No dead letters among the newest messages of their stream.') : h('section', {class: 'panel'},
      h('h3', {}, 'Dead letters'), list(Object.entries(codes).map(([code, n]) => [clean(code), count(n)])), h('div', {class: 'bar'}, button), [...reasons].slice(0, 3).map(note),
      table('The newest hundred dead letters, without their bodies', [{title: 'Choose', cell: choose}, {title: 'Number', number: true, cell: (l) => l.number},
        {title: 'Time', cell: (l) => time(l.time)}, {title: 'Code', cell: (l) => clean(l.code)}, {title: 'Error', long: true, cell: (l) => bdi(l.error, 300)},
        {title: 'Source', cell: (l) => bdi(l.source ?? '-')}, {title: 'Input', cell: (l) => bdi(l.input)}, {title: 'Kind', cell: (l) => clean(l.kind)},
        {title: 'Rows', cell: (l) => clean(l.rows ?? '-', 40)}, {title: 'Bytes', number: true, cell: (l) => count(l.bytes)}], letters))]);
  }
}
