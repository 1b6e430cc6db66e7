// Locks of a lockmesh node, over its admin socket: Node.js 18 or later, and no package.
import http from "node:http";
import readline from "node:readline";

export class Held extends Error {}
export class Lost extends Error {}

// hold calls work while a lock is held, and returns what work returns. work gets the lock: its key,
// token and node, and a signal that is aborted, with a Lost as its reason, when the lock is lost.
// Options are those of PUT /v1/hold/{key}: ttl: "5s", mode: "shared", permits: 3, value: "…".
export async function hold(key, work, { socketPath = "/run/lockmesh/lockmesh.sock", wait = "24h", ...options } = {}) {
  const path = `/v1/hold/${encodeURIComponent(key)}?${new URLSearchParams({ wait, ...options })}`;
  const request = http.request({ socketPath, path, method: "PUT", agent: false });
  const answer = await new Promise((resolve, reject) => {
    request.on("response", resolve).on("error", reject).end();
  });
  answer.on("error", () => {}); // the lines end then
  const lines = readline.createInterface({ input: answer, crlfDelay: Infinity })[Symbol.asyncIterator]();
  try {
    const first = JSON.parse((await lines.next()).value);
    if (first.error) {
      throw new (first.error === "held" ? Held : Error)(first.message);
    }
    const lost = new AbortController();
    follow(lines, first, request, lost);
    const result = await work({ key: first.key, token: first.token, node: first.node, signal: lost.signal });
    lost.signal.throwIfAborted();
    return result;
  } finally {
    request.destroy(); // the node releases the lock
  }
}

// follow reads lines until the lock is lost or released. If no line comes until the lease is over,
// the lock is lost.
async function follow(lines, line, request, lost) {
  let why = "the connection to the node has ended";
  for (;;) {
    const late = setTimeout(() => {
      lost.abort(new Lost("the node hasn't said that the lock is held"));
      request.destroy();
    }, line.left_ms);
    late.unref();
    const next = await lines.next().catch(() => ({ done: true }));
    clearTimeout(late);
    if (next.done) break;
    line = JSON.parse(next.value);
    if (line.event === "end") {
      why = line.failure.message;
      break;
    }
  }
  lost.abort(new Lost(why));
}
