// The state of all pipelines, what needs attention first, and the summary of one.
import {h, put, redraw, clean, count, number, duration, list, table, bdi, time} from './dom.mjs';

const grave = {halted: 'bad', blocked: 'bad', waiting_for_model: 'warn', stale: 'warn', parked: 'bad', degraded: 'warn', starting: 'warn',
  stopping: 'warn', learning: 'warn'};
const signs = {bad: '✖', warn: '▲', healthy: '●'};
const order = ['bad', 'warn', 'healthy'];

// judge says how a pipeline is: how grave, in a word, and in a sentence.
export function judge(p) {
  const words = p.state.replaceAll('_', ' ');
  let reason = p.reason ?? '';
  if (p.stalled) {
    return {level: 'bad', word: 'stalled', reason: `${count(p.lag.messages)} inputs wait, the oldest for ${duration(p.lag.seconds)}, and none ` +
      `is answered. ${reason}`};
  }
  if (p.state === 'waiting_for_model' && !p.model) {
    const word = p.needed && p.rows < p.needed ? 'waiting for labels' : words;
    return {level: 'warn', word, reason: reason || `${count(p.rows)} of ${count(p.needed)} labelled rows`};
  }
  if (p.state === 'idle') reason ||= 'no input arrives';
  if (p.model?.stale) return {level: 'warn', word: 'stale', reason: reason || `the model is ${duration(p.model.age_seconds)} old`};
  if (p.state in grave) return {level: grave[p.state], word: words, reason};
  if (p.doubts) return {level: 'warn', word: 'inaccurate', reason: p.doubts.join('; ')};
  return {level: p.conditions ? 'warn' : 'healthy', word: words, reason};
}

export class Overview {
  constructor(go) {
    this.go = go;
    this.cards = h('ul', {class: 'cards', 'aria-label': 'Pipelines'});
    this.head = h('h2');
    this.root = h('section', {}, this.head, this.cards);
  }

  show(state, chosen) {
    const all = state.pipelines.map((p) => ({...p, ...judge(p)})).sort((a, b) => order.indexOf(a.level) - order.indexOf(b.level));
    const wrong = all.filter((p) => p.level !== 'healthy').length;
    this.head.textContent = all.length === 0 ? 'No pipeline runs' : wrong && all.length === 1 ? 'The pipeline needs attention' : wrong ? `${wrong} of ${all.length} pipelines need attention`
      : all.length === 1 ? 'The pipeline is healthy' : `All ${all.length} pipelines are healthy`;
    const key = [chosen, all.map((p) => [p.pipeline, p.word, p.reason, p.since, p.model?.version, p.model?.epoch, p.model?.pinned, p.lag?.messages, p.accuracy,
      p.fixed, p.conditions])];
    redraw(this.cards, key, () => all.length === 0
      ? h('li', {class: 'warn'}, 'The pipelines are being opened, or the configuration has none. `embedd doctor` says what is missing.') : all.map((p) => {
      const m = p.model;
      return h('li', {class: p.level}, h('p', {}, h('span', {class: 'state'}, `${signs[p.level]} ${p.word} `),
        h('a', {href: `?pipeline=${encodeURIComponent(p.pipeline)}`, 'data-key': p.pipeline, 'aria-current': p.pipeline === chosen ? 'true' : null,
          click: (e) => { e.preventDefault(); this.go({pipeline: p.pipeline}); }}, bdi(p.pipeline)),
        h('span', {class: 'soft'}, ` since ${time(p.since)}`)),
      p.reason ? h('p', {}, clean(p.reason, 600)) : null,
      (p.conditions ?? []).filter((c) => !p.reason?.includes(c.reason)).map((c) => h('p', {}, clean(c.reason))),
      h('p', {class: 'soft'}, [p.fixed ? 'fixed model' : null, m ? `${m.version}, epoch ${m.epoch}${m.pinned ? ', pinned' : ''}` : 'no model',
        p.accuracy == null ? null : `accuracy ${p.accuracy.toFixed(3)}`, p.lag ? `lag ${count(p.lag.messages)}` : null].filter(Boolean).join(' · ')));
    }));
  }
}

// Summary is what the daemon knows of one pipeline.
export class Summary {
  constructor() {
    this.facts = h('section', {class: 'panel'});
    this.window = h('section', {class: 'panel'});
    this.gate = h('section', {class: 'panel'});
    this.others = h('section', {class: 'panel', hidden: true});
    this.events = h('ul', {class: 'events'});
    this.newest = [];
    this.root = h('div', {class: 'grid'}, this.facts, this.gate, this.window, this.others,
      h('section', {class: 'panel'}, h('h3', {}, 'Events'), this.events));
    this.note(null);
  }

  show(s, summary) {
    const l = s.learning, m = s.model, percent = (v) => (v == null ? null : `${(100 * v).toFixed(1)} %`);
    put(this.facts, h('h3', {}, 'Pipeline'), list([
      ['Model', m ? `${m.version}: ${m.method}, ${m.dim} outputs` : 'none yet'], ['Epoch', m && number(m.epoch)],
      ['Pinned', m && (m.pinned ? 'yes: no other version goes live' : 'no')], ['Age of the model', m && duration(m.age_seconds) + (m.stale ? ', stale' : '')],
      ['Lag', s.lag && `${count(s.lag.messages)} messages, ${duration(s.lag.seconds)}`], ['Answered since the start', count(s.messages)],
      ['Rows to dead letters', count(s.dead_rows)], ['Features', s.schema.features && `${count(s.schema.features)}: ${clean(s.schema.columns, 120)}`],
      ['Configuration', (s.changes ?? []).map((c) => clean(`${c.key} is ${c.was}, configured ${c.now}: ${c.effect}`)).join('; ') || null]]));
    if (summary?.fixed) {
      put(this.gate, h('h3', {}, 'Learning'), h('p', {}, 'The model is a file: nothing is learned.'));
      this.window.hidden = true;
      return;
    }
    put(this.gate, h('h3', {}, 'Gate'), list([['Accuracy of the live model', percent(l.accuracy)], ['By chance', percent(l.chance)],
      ['Candidate', l.candidate == null ? 'none' : `${percent(l.candidate)} on ${count(l.candidate_rows)} rows`],
      ['Door', l.door], ['Evidence', l.door && `${number(l.evidence)} of ${l.evidence_required == null ? 'a closed door' : number(l.evidence_required)}`],
      ['Fits since the start', count(l.fits)], ['Last fit', l.last_fit && clean(l.last_fit)], ['Drift alarms', count(l.alarms)],
      ['Now', l.fitting ? 'fitting' : l.restoring ? 'reading the window again' : null]]));
    const share = Math.min(1, l.needed ? l.rows / l.needed : 1);
    put(this.window, h('h3', {}, 'Window'), m ? null : h('p', {}, h('label', {}, `${count(l.rows)} of ${count(l.needed)} labelled rows for a first model `,
      h('progress', {max: '1', value: String(share)}))),
    list([['Labelled rows', count(l.rows)], ['Classes', `${count(l.classes)} of ${count(l.classes_seen)} that were seen`],
      ['Effective rows', l.effective_rows == null ? null : count(l.effective_rows)],
      ['Rows in a row of one class', l.run_rows == null ? null : number(l.run_rows) + (l.has_runs ? ', more than in a random order' : '')],
      ['Share with a label', percent(l.labelled_share)], ['Memory', `${number(l.bytes / 2 ** 20)} MiB`], ['Waiting to be learned', count(l.backlog)],
      ['Set aside', l.outliers ? count(l.outliers) : null], ['Unusual', l.unusual ? l.unusual.map((u) => `${clean(u.text)}.`).join(' ') : null]]));
  }

  // replicas shows which process answers for the trainer.
  replicas(all, error) {
    this.others.hidden = false;
    redraw(this.others, [all, error], () => [h('h3', {}, 'Replicas'), error ? h('p', {class: 'soft'}, clean(error)) : table('Replicas that answered within a second', [
      {title: 'Process', cell: (r) => clean((r.instance ?? '-').slice(0, 8))}, {title: 'Work', cell: (r) => (r.is_trainer ? 'trainer' : r.role)},
      {title: 'State', cell: (r) => r.state.replaceAll('_', ' ')}, {title: 'Model', cell: (r) => bdi(r.model?.version ?? '-')}], all)]);
  }

  note(e) {
    if (e) this.newest = [e, ...this.newest].slice(0, 50);
    put(this.events, this.newest.length === 0 ? h('li', {class: 'soft'}, 'None since the daemon started.')
      : this.newest.map((one) => h('li', {}, h('span', {class: 'soft'}, `${time(one.time)} `), `${one.kind.replaceAll('_', ' ')}: `, bdi(one.text, 300))));
  }
}
