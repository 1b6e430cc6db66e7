// Shows the state of the mesh in a sentence, with notes where an operator should look.

import { $, el, fill, foreign, announce, reconcile } from "./dom.js";
import { count, countdown, list, quietLeft } from "./words.js";

let lastAnnounced;

// showState shows an electorate and a status; the status may be older.
export function showState(electorate, status) {
  const [level, text] = sentence(electorate, status);
  const p = $("sentence");
  p.dataset.level = level;
  fill(p, text);
  document.title = `${{ good: "✓", warn: "!", bad: "✕" }[level]} ${status.name} – lockmesh`;
  const gist = p.textContent.replace(/\d+ (s|min)\b/g, ""); // a countdown alone is no news
  if (lastAnnounced !== undefined && lastAnnounced !== gist) announce(p.textContent);
  lastAnnounced = gist;
  reconcile(
    $("notes"),
    notes(electorate, status),
    (n) => n.key,
    () => el("li"),
    (li, n) => fill(li, n.text),
  );
}

// sentence returns the level of the state (good, warn or bad), and the sentence.
export function sentence(e, status) {
  if (status.closed) return ["bad", ["This node has ended. It takes no locks any more."]];
  if (e.dynamic && e.version === 0) {
    return ["bad", ["No lock can be granted yet: this node knows of no electorate."]];
  }
  const verb = e.counting === 1 ? "counts" : "count";
  const voters = `${e.counting} of ${count(e.voters.length, "voter")} ${verb}`;
  const needed = e.joint
    ? "majorities of the old and of the new voters are needed"
    : `${e.majority} are needed`;
  if (!e.ready) {
    return ["bad", [`No lock can be granted now: ${voters}, and ${needed}. `, ...missing(e)]];
  }
  if (e.spare === 0 && e.voters.length > 1) {
    return [
      "warn",
      [
        `Locks are granted, but the next failure may stop them: ${voters}, and ${needed}. `,
        ...missing(e),
      ],
    ];
  }
  const spare = e.spare > 0 ? `, and ${e.spare} more may fail` : "";
  if (e.counting < e.voters.length) {
    return ["warn", [`Locks are granted: ${voters}${spare}. `, ...missing(e)]];
  }
  if (e.voters.length === 1)
    return ["good", ["All is well: locks are granted. The only voter counts."]];
  return [
    "good",
    [
      `All is well: locks are granted. All ${e.voters.length} voters count`,
      e.spare > 0 ? `, and ${e.spare} may fail.` : ".",
    ],
  ];
}

// missing names the voters that don't count, with the reasons. Voters in the same state are
// together.
export function missing(e) {
  const groups = new Map();
  for (const v of e.voters) {
    if (v.state === "reachable") continue;
    const key = shortly(v, false);
    groups.set(key, [...(groups.get(key) || []), v]);
  }
  if (groups.size === 0) return [];
  const parts = [...groups.values()].map((of) => [
    list(of.map((v) => foreign(v.name, 40))),
    " ",
    shortly(of[0], of.length > 1),
  ]);
  return [list(parts, "; "), "."];
}

function shortly(v, several) {
  const left = quietLeft(v);
  const [one, more] = {
    quiet:
      left > 0
        ? [`is quiet and counts in ${countdown(left)}`, `are quiet and count in ${countdown(left)}`]
        : ["is quiet for a little longer", "are quiet for a little longer"],
    connecting: ["isn't connected yet", "aren't connected yet"],
    unreachable: ["doesn't answer", "don't answer"],
    refused: ["refuses this node", "refuse this node"],
    behind: ["uses an outdated electorate", "use an outdated electorate"],
    silent: ["hasn't answered lately", "haven't answered lately"],
  }[v.state] || [`is ${v.state}`, `are ${v.state}`];
  return several ? more : one;
}

// notes returns further matters for an operator.
function notes(e, status) {
  const all = [];
  const add = (key, ...text) => all.push({ key, text });
  if (e.lost) add("lost", el("b", {}, "The electorate may be lost: "), foreign(e.lost, 1000));
  if (e.trouble)
    add("trouble", el("b", {}, "This node can't take part in changes: "), foreign(e.trouble, 1000));
  if (status.draining) {
    add(
      "draining",
      el("b", {}, "This node is being drained: "),
      "it takes no more locks, and waits until it holds none.",
    );
  }
  if (e.dynamic && e.stored_version !== e.version && e.voter) {
    add(
      "stored",
      `This node's directory has electorate ${e.stored_version}, not ${e.version} yet.`,
    );
  }
  for (const r of status.refused) {
    add(
      "refused " + r.name,
      foreign(r.name, 40),
      " is another live node of the mesh with a different configuration: ",
      foreign(r.reason, 400),
    );
  }
  for (const v of e.voters) {
    if (v.drift)
      add(
        "drift " + v.name,
        "The clock of ",
        foreign(v.name, 40),
        " is off: ",
        foreign(v.drift, 400),
      );
  }
  return all;
}
