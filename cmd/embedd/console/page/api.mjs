// Requests to the daemon. Paths are relative, so that a proxy may add a prefix.

export class Refused extends Error {
  constructor(status, answer) {
    super(answer.error ?? `the daemon answers ${status}`);
    this.status = status;
    this.code = answer.code;
  }
}

async function send(method, path, body, headers = {}) {
  const init = {method, headers, cache: 'no-store', credentials: 'same-origin', redirect: 'error'};
  if (body !== undefined) {
    init.body = JSON.stringify(body);
    headers['Content-Type'] = 'application/json';
  }
  const answer = await fetch(`api/v1/${path}`, init).catch(() => { throw new Error('The daemon does not answer.'); });
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, data);
  return data;
}

const of = (pipeline, rest = '') => `pipelines/${encodeURIComponent(pipeline)}${rest}`;

export const session = () => send('GET', 'session');
export const logIn = (authorization) => send('POST', 'session', undefined, {Authorization: authorization});
export const logOut = () => send('DELETE', 'session');
export const history = (p) => send('GET', of(p, '/history'));
export const points = (p) => send('GET', of(p, '/points'));
export const models = (p) => send('GET', of(p, '/models'));
export const letters = (p) => send('GET', of(p, '/dead-letters'));
export const replicas = (p) => send('GET', of(p, '/replicas'));
export const operate = (p, what, body) => send('POST', of(p, `/${what}`), body);

// events opens the stream of events; it connects again by itself.
export function events(pipeline, on) {
  const source = new EventSource(`api/v1/events?pipeline=${encodeURIComponent(pipeline)}`);
  for (const kind of ['state', 'status', 'event', 'gap']) {
    source.addEventListener(kind, (e) => on[kind](JSON.parse(e.data)));
  }
  source.onerror = () => on.lost(source.readyState === EventSource.CLOSED);
  return source;
}
