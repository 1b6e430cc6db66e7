// Calls the routes of the node, with the token if there is one.

const tokenName = "lockmesh-token";

// token is the token for the node, kept until the user closes the tab. If the browser stores
// nothing for the page, the token is in memory only.
export const token = {
  value: read(),
  set(value) {
    token.value = value;
    try {
      if (value) sessionStorage.setItem(tokenName, value);
      else sessionStorage.removeItem(tokenName);
    } catch {
      // The token is in memory.
    }
  },
};

function read() {
  try {
    return sessionStorage.getItem(tokenName) || "";
  } catch {
    return "";
  }
}

// Failure is an error in an answer of the node.
export class Failure extends Error {
  constructor(answer, status) {
    super(answer.message || `The answer has the status ${status}.`);
    this.code = answer.error || "";
    this.advice = answer.advice || "";
    this.status = status;
  }
}

// fault returns the text of an error. Only a Failure proves that the node has done nothing.
export function fault(e) {
  return e instanceof Failure ? e.message : "The node doesn't answer.";
}

// keyPath is the path of a key. A browser resolves "." and ".." as parts of a path, even in
// percent-encoding, unless the slashes beside them are encoded.
export function keyPath(key, action = "") {
  const encoded = encodeURIComponent(key);
  const dots = key === "." || key === "..";
  return "v1/locks" + (dots ? "%2F" : "/") + encoded + (action && (dots ? "%2F" : "/") + action);
}

// The longest wait for an answer, in milliseconds. The node itself gives up after a TTL of the
// mesh, ten seconds as a rule.
const patience = 20_000;

async function call(method, path, { query, body, signal } = {}) {
  const url = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query || {})) url.searchParams.set(name, value);
  const headers = {};
  if (token.value) headers.Authorization = "Bearer " + token.value;
  if (body) headers["Content-Type"] = "application/json";
  const answer = await fetch(url, {
    method,
    headers,
    signal,
    body: body && JSON.stringify(body),
    cache: "no-store",
    credentials: "same-origin",
    redirect: "error",
    referrerPolicy: "no-referrer",
  });
  if (answer.ok) return answer;
  let error = {};
  try {
    error = await answer.json();
  } catch {
    // The answer is from another server, such as a proxy.
  }
  throw new Failure(error, answer.status);
}

export async function get(path, query, signal) {
  const timeout = AbortSignal.timeout(patience);
  const both = signal ? AbortSignal.any([signal, timeout]) : timeout;
  return (await call("GET", path, { query, signal: both })).json();
}

// post sends an action, and returns the node's answer, or nothing.
export async function post(path, body) {
  const answer = await call("POST", path, { body, signal: AbortSignal.timeout(patience) });
  return answer.status === 204 ? undefined : answer.json();
}

// After this silence, in milliseconds, the connection counts as dead. The node sends a sign of life
// every 15 seconds.
const silence = 40_000;

// stream reads server-sent events with fetch, since an EventSource sends no token. The stream ends
// with an error of the node or of the connection.
export async function* stream(path, query, signal) {
  const dead = new AbortController();
  let timer;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(
      () => dead.abort(new Error("The node has been silent for too long.")),
      silence,
    );
  };
  alive();
  try {
    const answer = await call("GET", path, {
      query,
      signal: AbortSignal.any([signal, dead.signal]),
    });
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new Error("The connection has ended.");
      alive();
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop();
      const batch = [];
      for (const part of parts) {
        const event = parse(part);
        if (event.name === "end") throw new Failure(event.data, 0);
        if (event.data !== undefined) batch.push(event.data);
      }
      if (batch.length > 0) yield batch;
    }
  } finally {
    clearTimeout(timer);
    dead.abort();
  }
}

function parse(part) {
  const event = { name: "", data: undefined };
  for (const line of part.split("\n")) {
    if (line.startsWith("event: ")) event.name = line.slice(7);
    if (line.startsWith("data: ")) event.data = JSON.parse(line.slice(6));
  }
  return event;
}
