// Reads server-sent events of a watch until a key is granted and released: ADDRESS PREFIX KEY.
// Node's own fetch. LOCKMESH_ADMIN_TOKEN has the token.
const [address, prefix, key] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.LOCKMESH_ADMIN_TOKEN}` };
const answer = await fetch(`http://${address}/v1/watch?prefix=${prefix}`, { headers });
if (answer.status !== 200) throw new Error(`${answer.status} ${await answer.text()}`);
let rest = "";
read: for await (const piece of answer.body.pipeThrough(new TextDecoderStream())) {
  rest += piece;
  for (let at; (at = rest.indexOf("\n")) >= 0; rest = rest.slice(at + 1)) {
    const line = rest.slice(0, at);
    if (!line.startsWith("data: ")) continue;
    const event = JSON.parse(line.slice("data: ".length));
    console.log(event.kind, event.key ?? "");
    if (event.kind === "released" && event.key === key) break read;
  }
}
