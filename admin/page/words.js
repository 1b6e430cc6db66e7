// Turns numbers and states into words.

// duration returns a length of time, given in milliseconds, as text with at most two units.
export function duration(ms) {
  if (!(ms >= 0)) ms = 0;
  if (ms > 0 && ms < 950) return `${(Math.ceil(ms / 100) / 10).toFixed(1)} s`;
  let rest = Math.round(ms / 1000);
  const parts = [];
  for (const [unit, seconds] of [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
    ["s", 1],
  ]) {
    const n = Math.floor(rest / seconds);
    rest -= n * seconds;
    if (n > 0 || (unit === "s" && parts.length === 0)) parts.push(`${n} ${unit}`);
    else if (parts.length > 0) break;
  }
  return parts.slice(0, 2).join(" ");
}

// countdown returns the time that is left as text, in whole seconds, rounded up.
export const countdown = (ms) => duration(Math.max(1, Math.ceil(ms / 1000)) * 1000);

// roundTrip returns the time to a voter and back, given in microseconds, as text.
export function roundTrip(us) {
  if (us < 995) return `${(us / 1000).toFixed(2)} ms`;
  return us < 10_000 ? `${(us / 1000).toFixed(1)} ms` : `${Math.round(us / 1000)} ms`;
}

export const count = (n, singular, plural = singular + "s") =>
  `${n.toLocaleString("en")} ${n === 1 ? singular : plural}`;

// list joins parts, texts or elements, as in "a, b and c".
export function list(parts, and = " and ") {
  return parts.flatMap((p, i) => [i === 0 ? "" : i === parts.length - 1 ? and : ", ", p]);
}

// clock returns a time of day as text.
export function clock(date) {
  return new Date(date).toLocaleTimeString("en-GB");
}

// offset is the lead of the node's clock over the clock of this machine, in milliseconds.
let offset = 0;

// setClock computes the offset from the node's time in an answer that arrived a moment ago.
export function setClock(at, tookMs) {
  offset = new Date(at).getTime() + tookMs / 2 - Date.now();
}

// nodeNow is the present time by the node's clock.
export const nodeNow = () => Date.now() + offset;

// since returns the age of a time of the node, in milliseconds.
export const since = (at) => Math.max(0, nodeNow() - new Date(at).getTime());

// voterWords describes the state of a voter. A countdown continues from the time of the answer.
export function voterWords(v) {
  const left = quietLeft(v);
  const why = reason(v.text);
  switch (v.state) {
    case "reachable":
      return v.drift ? `counts, but look at its clock: ${v.drift}` : "counts";
    case "quiet":
      return left > 0
        ? `quiet: restarted, counts again in ${countdown(left)}`
        : "quiet: restarted, and waits until other voters have told it the latest token";
    case "connecting":
      return "connecting: nothing is known yet" + why;
    case "unreachable":
      return "doesn't answer" + why;
    case "refused":
      return "refuses this node" + why;
    case "behind":
      return "uses an outdated electorate, since it can't write its directory" + why;
    case "silent":
      return "connected, but hasn't answered lately" + why;
  }
  return v.state + why;
}

// quietLeft returns the rest of a voter's quiet time, in milliseconds.
export const quietLeft = (v) => Math.max(0, v.quiet_ms - (performance.now() - v.readAt));

// reason returns the part of a voter's text in brackets.
function reason(text) {
  const m = /\(([\s\S]*)\)$/.exec(text);
  return m ? ` (${m[1]})` : "";
}
