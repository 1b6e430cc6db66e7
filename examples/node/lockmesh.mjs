// Locks of a lockmesh node, over its admin socket: Node.js 18 or later, and no package.
import http from "node:http";
import { performance } from "node:perf_hooks";
import readline from "node:readline";

export class Held extends Error {}
export class Lost extends Error {}

// hold calls work while a lock is held, and returns the result of work. work gets the lock: key,
// token and node; a signal, aborted with a Lost as the reason when the lock is lost; and check, a
// function that throws this Lost. Call check before each step that others could see: check reads
// the clocks, and after a pause of the machine the signal may come later than the next step. The
// options are those of PUT /v1/hold/{key}: ttl: "5s", mode: "shared", permits: 3, value: "…".
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
    const ends = endsOf(first);
    const check = () => {
      if (performance.now() >= ends.left || Date.now() >= ends.deadline) lost.abort(late());
      lost.signal.throwIfAborted();
    };
    follow(lines, first, ends, request, lost);
    const result = await work({ key: first.key, token: first.token, node: first.node, signal: lost.signal, check });
    check();
    return result;
  } finally {
    request.destroy(); // the node releases the lock
  }
}

// endsOf returns the end of a lock, by the time left when the node wrote the line, and by the clock
// of the machine, since the client may have read the line late.
function endsOf(line) {
  return { left: performance.now() + line.left_ms, deadline: Date.parse(line.deadline) };
}

function late() {
  return new Lost("the node hasn't said in time that the lock is held");
}

// follow reads lines until the lock is lost or released. If no line comes until the lease is over,
// the lock is lost.
async function follow(lines, line, ends, request, lost) {
  let why = "the connection to the node has ended";
  for (;;) {
    const timer = setTimeout(() => {
      lost.abort(late());
      request.destroy();
    }, line.left_ms);
    timer.unref();
    const next = await lines.next().catch(() => ({ done: true }));
    clearTimeout(timer);
    if (next.done) break;
    line = JSON.parse(next.value);
    if (line.event === "end") {
      why = line.failure.message;
      break;
    }
    Object.assign(ends, endsOf(line));
  }
  lost.abort(new Lost(why));
}
