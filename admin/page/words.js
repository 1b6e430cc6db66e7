// Turns numbers and states into words.

// duration tells a length of time in milliseconds, with at most two units.
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

// countdown tells how long something still takes, in whole seconds that are never too few.
export const countdown = (ms) => duration(Math.max(1, Math.ceil(ms / 1000)) * 1000);

// roundTrip tells the time to a voter and back in microseconds.
export function roundTrip(us) {
  if (us < 995) return `${(us / 1000).toFixed(2)} ms`;
  return us < 10_000 ? `${(us / 1000).toFixed(1)} ms` : `${Math.round(us / 1000)} ms`;
}

export const count = (n, singular, plural = singular + "s") =>
  `${n.toLocaleString("en")} ${n === 1 ? singular : plural}`;

// list joins parts, which may be elements, as in "a, b and c".
export function list(parts, and = " and ") {
  return parts.flatMap((p, i) => [i === 0 ? "" : i === parts.length - 1 ? and : ", ", p]);
}

// clock tells a time of day.
export function clock(date) {
  return new Date(date).toLocaleTimeString("en-GB");
}

// offset is by how many milliseconds the node's clock is ahead of this machine's.
let offset = 0;

// setClock notes the node's time, as of an answer that arrived a moment ago.
export function setClock(at, tookMs) {
  offset = new Date(at).getTime() + tookMs / 2 - Date.now();
}

// nodeNow is the present time by the node's clock.
export const nodeNow = () => Date.now() + offset;

// since is how long ago a time of the node was, in milliseconds.
export const since = (at) => Math.max(0, nodeNow() - new Date(at).getTime());

// voterWords describes the state of a voter. A countdown goes on from when the state was read.
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

// quietLeft is for how many milliseconds a voter is still quiet.
export const quietLeft = (v) => Math.max(0, v.quiet_ms - (performance.now() - v.readAt));

// reason is the part of a voter's text that is in brackets.
function reason(text) {
  const m = /\(([\s\S]*)\)$/.exec(text);
  return m ? ` (${m[1]})` : "";
}
