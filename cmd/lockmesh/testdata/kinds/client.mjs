// Takes a lock over HTTP so many times: ADDRESS KEY ROUNDS DIR. LOCKMESH_ADMIN_TOKEN has the token.
//
// Node's own fetch. The lock is held as long as the connection of PUT /v1/hold/{key}.
import { appendFileSync, closeSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const [address, key, rounds, where] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.LOCKMESH_ADMIN_TOKEN}` };

async function section(token) {
  closeSync(openSync("inside", "wx"));
  const n = Number(readFileSync("counter", "utf8"));
  await sleep(1);
  writeFileSync("counter", `${n + 1}\n`);
  appendFileSync("order", `${token} node\n`);
  rmSync("inside");
}

// firstLine reads the first line of the answer: the lock is held. Tokens are larger than the
// integers of JavaScript's numbers, so a token stays text.
async function firstLine(reader) {
  let text = "";
  while (!text.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`the stream ends with ${text}`);
    text += value;
  }
  if (!text.includes('"event":"held"')) throw new Error(text);
  return { token: text.match(/"token":(\d+)/)[1], id: text.match(/"id":"([^"]+)"/)[1] };
}

process.chdir(where);
for (let i = 0; i < Number(rounds); i++) {
  const end = new AbortController();
  const answer = await fetch(`http://${address}/v1/hold/${key}?wait=100s`, { method: "PUT", headers, signal: end.signal });
  if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
  const { token, id } = await firstLine(answer.body.pipeThrough(new TextDecoderStream()).getReader());
  await section(token);
  const gone = await fetch(`http://${address}/v1/leases/${id}`, { method: "DELETE", headers });
  if (gone.status !== 204) throw new Error(`${gone.status} ${await gone.text()}`);
  end.abort();
}
