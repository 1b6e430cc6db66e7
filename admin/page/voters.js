// Shows the voters, the nodes on standby, and a change of the electorate as it happens.

import { $, el, fill, foreign, reconcile, setText } from "./dom.js";
import { clock, countdown, list, quietLeft, roundTrip, voterWords } from "./words.js";

// The level and the mark of each state of a voter. A state unknown to the page is bad.
const voterStates = {
  reachable: ["good", "✓"],
  quiet: ["warn", ""],
  connecting: ["warn", "…"],
};
const badMarks = { unreachable: "✕", silent: "?" };

// The most changes kept.
const historyMost = 20;

export class Voters {
  constructor() {
    this.history = [];
    this.before = undefined; // the electorate before the present change
  }

  // show shows an electorate; self is the name of this node.
  show(e, self) {
    this.note(e);
    this.e = e;
    this.self = self;
    fill($("electorate"), this.summary(e));
    this.steps(e);
    const voters = e.voters.map((v) => ({
      ...v,
      old: !e.joint || e.old.includes(v.name),
      next: e.joint && e.new.includes(v.name),
    }));
    reconcile(
      $("voter-list"),
      voters,
      (v) => v.name,
      () =>
        el("li.voter", {}, el("i.disc", { "aria-hidden": "true" }), el("span.who"), el("span.how")),
      (li, v) => this.voter(li, v),
    );
    $("legend").hidden = !e.joint;
    $("standby").hidden = e.standby.length === 0;
    reconcile(
      $("standby-list"),
      e.standby,
      (n) => n,
      () => el("li.voter", {}, el("i.disc.idle", { "aria-hidden": "true" }), el("span.who")),
      (li, n) => this.name(li.querySelector(".who"), n),
    );
  }

  summary(e) {
    if (e.dynamic && e.version === 0) return [e.change || "No electorate is known yet."];
    if (e.joint) {
      return [
        `Electorate ${e.version} is joint: the electorate is being changed. `,
        "Until the change is over, each lock needs ",
        el("b", {}, need(e.old)),
        " of the old voters and ",
        el("b", {}, need(e.new)),
        " of the new voters. Held leases go on.",
      ];
    }
    const n = e.voters.length;
    const name = e.dynamic ? `Electorate ${e.version}. ` : "";
    const decide =
      n === 1
        ? "The only voter decides alone."
        : ["Each lock needs the votes of ", el("b", {}, `${e.majority} of the ${n} voters`), "."];
    return [
      name,
      decide,
      e.change ? [" ", el("span", {}, "Next change: "), foreign(e.change, 500)] : "",
    ];
  }

  voter(li, v) {
    const [level, mark] = voterStates[v.state] || ["bad", badMarks[v.state] || "!"];
    li.dataset.level = level;
    const disc = li.querySelector(".disc");
    disc.classList.toggle("old", v.old);
    disc.classList.toggle("new", v.next);
    const left = Math.ceil(quietLeft(v) / 1000);
    setText(disc, v.state === "quiet" ? String(left || "…") : mark);
    this.name(li.querySelector(".who"), v.name, this.role(v));
    const far =
      v.round_trip_us > 0 && v.name !== this.self && v.state !== "unreachable"
        ? ` · ${roundTrip(v.round_trip_us)} there and back`
        : "";
    fill(li.querySelector(".how"), foreign(voterWords(v), 400), far);
  }

  // role returns the role of a voter in a change.
  role(v) {
    if (!this.e.joint) return "";
    if (!v.next) return el("span.role.out", {}, "is being voted out");
    if (!v.old) return el("span.role.in", {}, "is being voted in");
    return el("span.role", {}, "stays");
  }

  name(node, name, ...more) {
    const self = name === this.self ? el("span.self", {}, " (this node)") : "";
    fill(node, foreign(name, 60), self, more);
  }

  // steps shows the steps of a change of the electorate, and the present step.
  steps(e) {
    const ol = $("steps");
    ol.hidden = !e.joint;
    if (!e.joint) return;
    const drain = /drains for another ([\d.]+)s/.exec(e.change);
    const missing = /missing: (.*)$/.exec(e.change);
    const step = drain ? 2 : /waits for the voters' decision/.test(e.change) ? 3 : 1;
    const left = drain ? Math.max(0, Number(drain[1]) * 1000 - (performance.now() - e.readAt)) : 0;
    const names = (of) => list(of.map((n) => foreign(n, 30)));
    const wait =
      missing && missing[1] !== "none" ? [" Waits for ", foreign(missing[1], 200), "."] : "";
    fill(
      ol,
      [
        [`Electorate ${e.version - 1}`, names(e.old), `${need(e.old)} decide`],
        [`Electorate ${e.version}, joint`, "Both majorities decide.", step === 1 ? wait : ""],
        [
          "The drain",
          step === 2 ? `${countdown(left)} to go.` : "",
          "Votes of before the change run out.",
        ],
        [
          `Electorate ${e.version + 1}`,
          names(e.new),
          `${need(e.new)} decide`,
          step === 3 ? wait : "",
        ],
      ].map(([title, ...rest], i) =>
        el(
          "li",
          {
            "data-at": i < step ? "past" : i === step ? "now" : "next",
            "aria-current": i === step && "step",
          },
          el("b", {}, title),
          rest.map((r) => (r === "" ? "" : el("span", {}, r))),
        ),
      ),
    );
  }

  // note remembers changes.
  note(e) {
    if (!e.dynamic) return;
    const key = `${e.version} ${e.joint}`;
    if (this.noted !== undefined && this.noted !== key && e.version > 0) {
      const names = (of) => list(of.map((n) => foreign(n, 30)));
      const text = e.joint
        ? [`electorate ${e.version} is joint: from `, names(e.old), " to ", names(e.new)]
        : [`electorate ${e.version}: `, names(e.voters.map((v) => v.name))];
      this.history.unshift(el("li", {}, el("time", {}, clock(Date.now())), " ", text));
      this.history.length = Math.min(this.history.length, historyMost);
      $("history").hidden = false;
      $("history-list").replaceChildren(...this.history);
    }
    this.noted = key;
  }
}

const need = (of) => `${Math.floor(of.length / 2) + 1} of ${of.length}`;
