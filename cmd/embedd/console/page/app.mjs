// The console: it observes and operates the pipelines of one daemon. What it shows is in the URL.
import {h, put, redraw, say, clean, duration, bdi} from './dom.mjs';
import * as api from './api.mjs';
import {Overview, Summary} from './overview.mjs';
import {Scatter} from './scatter.mjs';
import {Charts} from './charts.mjs';
import {Models, Letters, retrain, resume, rollback} from './models.mjs';

const $ = (id) => document.getElementById(id);
const views = {summary: 'Summary', points: 'Points', charts: 'Charts', models: 'Models', letters: 'Dead letters'};
const period = {points: 3000, charts: 10000, models: 3000, letters: 5000, summary: 15000};

// choose is the state in the URL.
const choose = {
  get: (key) => new URLSearchParams(location.search).get(key),
  set(key, value) {
    const now = new URLSearchParams(location.search);
    if (value === null || value === undefined) now.delete(key); else now.set(key, value);
    history.replaceState(null, '', `?${now}`);
  },
};

// go shows another pipeline or view.
function go(to) {
  history.pushState(null, '', `?${new URLSearchParams({pipeline: to.pipeline ?? chosen(), view: to.view ?? view()})}`);
  route();
}

let session = {}, state = null, status = null, arrived = 0, source = null, lost = false, data = {}, timer = 0, gathered = 0;
const chosen = () => choose.get('pipeline') ?? state?.pipelines[0]?.pipeline ?? '';
const view = () => (choose.get('view') in views ? choose.get('view') : 'summary');
const summary = () => state?.pipelines.find((p) => p.pipeline === chosen());

const overview = new Overview(go);
let parts = make();
const title = h('h2'), nav = h('nav', {'aria-label': 'Views of the pipeline'}), bar = h('div', {class: 'bar'}), body = h('div');
const page = [overview.root, h('section', {}, title, nav, bar, body)];

function make() {
  return {summary: new Summary(), points: new Scatter(choose), charts: new Charts(), models: new Models(ask, choose), letters: new Letters(ask)};
}

// route draws what the URL names, and follows its pipeline.
function route() {
  const name = chosen();
  if (source?.pipeline !== name) {
    source?.stream.close();
    parts = make();
    status = null;
    data = {};
    follow(name);
  }
  put(nav, h('ul', {}, Object.entries(views).map(([key, text]) => h('li', {}, h('a', {href: `?${new URLSearchParams({pipeline: name, view: key})}`,
    'aria-current': key === view() ? 'page' : null, click: (e) => { e.preventDefault(); go({view: key}); }}, text)))));
  put(body, parts[view()].root);
  render();
  refresh();
}

function follow(pipeline) {
  source = {pipeline, stream: api.events(pipeline, {
    state(s) {
      const first = !state;
      [state, arrived, lost] = [s, Date.now(), false];
      if (first && !pipeline) route(); else render();
    },
    status(s) {
      const was = status?.model?.version;
      status = s;
      render();
      if (was && s.model && was !== s.model.version) refresh();
    },
    event(e) { if (e.pipeline === chosen()) parts.summary.note(e); },
    gap(g) { parts.summary.note({time: new Date().toISOString(), kind: 'gap', text: g.missed === null ? 'the daemon restarted; earlier events are not known'
      : `${g.missed} events were missed`}); },
    lost(isOver) {
      lost = true;
      render();
      if (isOver) setTimeout(start, 3000);
    }})};
}

// render draws the state. It keeps the last picture while there is no new one.
function render() {
  const age = arrived ? (Date.now() - arrived) / 1000 : null;
  const isOld = lost || age > 5;
  document.body.classList.toggle('old', isOld);
  say($('link'), isOld ? '○ disconnected' : state ? '● connected' : session.reads ? '… connecting' : '');
  say($('alert'), isOld ? `The daemon does not answer. ${arrived ? `What is shown is ${duration(Math.round(age))} old.` : ''} The page connects again by itself.`
    : state?.connection ? `The NATS server: ${clean(state.connection)}. What is shown is what the daemon knew last.` : '');
  if (!state) return;
  overview.show(state, chosen());
  const name = chosen();
  redraw(title, name, () => bdi(name));
  nav.hidden = bar.hidden = !name;
  document.title = `${name || 'no pipeline'} · embedd`;
  if (status && status.pipeline === name) parts.summary.show(trainer() ?? status, summary());
  operations();
}

const trainer = () => (status?.is_trainer ? null : data.replicas?.find((r) => r.is_trainer));

// mayOperate: every operation is a request to the NATS server.
const mayOperate = () => session.operates && !lost && !state?.connection;

// operations draws the buttons, and says why they are disabled.
function operations() {
  const may = mayOperate(), p = summary();
  if (!may) parts[view()].withhold?.();
  const button = (text, make, isOff) => h('button', {type: 'button', 'data-key': text, disabled: !may || isOff || !status, click: async () => {
    const question = await make();
    if (question) ask(question);
  }}, text);
  redraw(bar, [may, p?.fixed, Boolean(p?.model), p?.state === 'halted', session.why_not, Boolean(status)], () => [p?.fixed ? h('span', {class: 'soft'}, 'Fixed model: there is nothing to fit or to roll back.')
    : [button('Fit a candidate', () => retrain(status)), button('Roll back', previous, !p?.model)],
  p?.state === 'halted' ? button('Resume', resume) : null, session.operates ? null : h('span', {class: 'soft'}, clean(session.why_not ?? ''))]);
}

// previous asks for a rollback to the version before the live one.
async function previous() {
  const {models} = await api.models(chosen()).catch((e) => { said(e.message); return {}; });
  if (!models) return null;
  const to = models.find((m) => m.state === 'previous');
  if (!to) said('No version was live before.');
  return to && rollback(to, models.find((m) => m.state === 'live'));
}

// refresh requests what the view shows, and again after a while.
async function refresh() {
  clearTimeout(timer);
  const name = chosen(), at = view(), part = parts[at];
  if (name && session.reads && document.visibilityState === 'visible') {
    try {
      if (at === 'points') part.show(await api.points(name));
      if (at === 'charts') part.show(await api.history(name), summary()?.fixed ? [] : (await api.models(name)).turns);
      if (at === 'models') part.show(await api.models(name), mayOperate());
      if (at === 'letters') part.show(await api.letters(name), mayOperate());
      if (at === 'summary' && Date.now() - gathered > 10000) {
        gathered = Date.now();
        const answer = await api.replicas(name);
        data.replicas = answer.replicas;
        part.replicas(answer.replicas);
        render();
      }
    } catch (e) {
      if (e.status === 401) { start(); return; }
      if (at === 'summary') part.replicas([], e.message); else part.fail(e.message);
    }
  }
  if (part === parts[view()]) timer = setTimeout(refresh, period[at]);
}

let quiet = 0;
function said(text) {
  clearTimeout(quiet);
  quiet = setTimeout(() => put($('said')), 20000);
  put($('said'), clean(text, 600));
}

// ask shows what an operation does, and does it when that is confirmed.
function ask(o) {
  const dialog = $('dialog'), pipeline = chosen();
  const answer = h('p', {role: 'status'});
  const confirm = h('button', {type: 'button', click: async () => {
    confirm.disabled = true;
    say(answer, 'Requested…');
    said(`${o.title}: requested.`);
    try {
      const done = await api.operate(pipeline, o.what, o.body);
      said(`${o.title}: ${result(done)}`);
      dialog.close();
    } catch (e) {
      said(`${o.title} was ${e.status === 409 ? 'refused' : 'not done'}: ${e.message}`);
      say(answer, `${e.status === 409 ? 'Refused' : 'Not done'}: ${clean(e.message, 600)}`);
    }
    refresh();
  }}, o.title);
  put(dialog, h('h2', {id: 'dialog-title'}, `${o.title}: ${clean(pipeline, 60)}`), o.says.filter(Boolean).map((s) => h('p', {}, clean(s, 600))), answer,
    h('div', {class: 'bar'}, confirm, h('button', {type: 'button', click: () => dialog.close()}, 'Cancel')));
  dialog.showModal();
}

function result(done) {
  if (done.replayed) {
    const failed = done.replayed.filter((r) => r.error);
    return `${done.replayed.length - failed.length} replayed, ${failed.length} not${failed.length ? `: ${failed[0].error}` : '.'}`;
  }
  if (done.live) return `${done.live} is live${done.pinned ? ', pinned' : ''}; previously ${done.previous || 'none'}.`;
  if (done.silent?.length) return `done in ${done.replicas.length} replicas; these did not answer, and may be halted still: ${done.silent.join(', ')}.`;
  return 'done; the events show the result.';
}

// logInForm asks for a token, or for a user and a password.
function logInForm() {
  const text = (v) => btoa(String.fromCharCode(...new TextEncoder().encode(v)));
  const user = h('input', {autocomplete: 'username'}), secret = h('input', {type: 'password', autocomplete: 'current-password', required: true});
  const answer = h('p', {role: 'status'});
  return h('form', {submit: async (e) => {
    e.preventDefault();
    try {
      await api.logIn(user.value ? `Basic ${text(`${user.value}:${secret.value}`)}` : `Bearer ${secret.value}`);
      start();
    } catch (error) {
      say(answer, clean(error.message));
    }
  }}, h('h2', {}, 'Log in'), h('label', {}, 'User, or nothing for the token', user), h('label', {}, 'Password or token', secret),
  h('button', {}, 'Log in'), answer);
}

async function start() {
  source?.stream.close();
  source = null;
  try {
    session = await api.session();
  } catch {
    lost = true;
    render();
    setTimeout(start, 3000);
    return;
  }
  put($('who'), session.user ? [`${clean(session.user, 40)} `, h('button', {type: 'button', click: async () => { await api.logOut(); start(); }}, 'Log out')] : null,
    session.version ? ` ${clean(session.version, 40)}` : '', session.reads && !session.operates ? ' · read-only' : '');
  put($('main'), session.reads ? page : logInForm());
  if (session.reads) { route(); return; }
  [state, status, arrived, lost] = [null, null, 0, false]; // nothing of the user before
  document.title = 'embedd';
  render();
}

addEventListener('popstate', route);
document.addEventListener('visibilitychange', refresh);
// One listener for the page: one of each view would keep the views of every pipeline that was looked at.
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { parts.points.recolour(); parts.charts.recolour(); });
setInterval(render, 1000);
start();
