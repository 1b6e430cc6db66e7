// Makes elements. Text stays text: no name, key or value can become HTML.

export const $ = (id) => document.getElementById(id);

// el makes an element. The name may have a class, as in "li.voter". An attribute with the value
// false or undefined is left out; an attribute with a function is a listener.
export function el(name, attributes, ...children) {
  const [tag, ...classes] = name.split(".");
  const node = document.createElement(tag);
  if (classes.length > 0) node.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") node.addEventListener(key, value);
    else if (value !== false && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== undefined && c !== ""));
  return node;
}

// fill gives an element other contents, and keeps each child of the same kind, with the focus, a
// selection, and the place of a screen reader. A kept child keeps its listeners, so children with
// different listeners differ in data-token.
export function fill(node, ...children) {
  morph(node, el("div", {}, children));
}

function morph(node, next) {
  const old = [...node.childNodes];
  const fresh = [...next.childNodes];
  fresh.forEach((n, i) => {
    const o = old[i];
    if (!o) node.append(n);
    else if (o.nodeType === Node.TEXT_NODE && n.nodeType === Node.TEXT_NODE) setText(o, n.data);
    else if (!alike(o, n)) o.replaceWith(n);
    else morph(o, n);
  });
  old.slice(fresh.length).forEach((o) => o.remove());
}

function alike(a, b) {
  if (a.nodeName !== b.nodeName || a.nodeType !== Node.ELEMENT_NODE) return false;
  return a.cloneNode(false).isEqualNode(b.cloneNode(false)); // the attributes
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// reconcile gives an element a child for each item, in the order of the items. The child of an item
// that stays is kept, with the focus: reconcile first removes the children of other items, and so
// needn't move the rest.
export function reconcile(parent, items, keyOf, create, update) {
  const keys = new Set(items.map(keyOf));
  const old = new Map();
  for (const node of [...parent.children]) {
    if (keys.has(node.reconcileKey)) old.set(node.reconcileKey, node);
    else node.remove();
  }
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let node = old.get(key);
    if (!node) {
      node = create(item);
      node.reconcileKey = key;
    }
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
    update(node, item);
  }
}

// roving makes a single item of a list or table reachable by Tab, and the others by arrow keys.
export function roving(container, selector) {
  const items = () => [...container.querySelectorAll(selector)];
  const current = (item, all = items()) => all.forEach((n) => (n.tabIndex = n === item ? 0 : -1));
  container.addEventListener("focusin", (e) => {
    const item = e.target.closest(selector);
    if (item) current(item);
  });
  container.addEventListener("keydown", (e) => {
    const all = items();
    const i = all.indexOf(e.target.closest(selector));
    if (i < 0 || e.ctrlKey || e.altKey || e.metaKey) return;
    const to = { ArrowDown: i + 1, ArrowUp: i - 1, Home: 0, End: all.length - 1 }[e.key];
    if (to === undefined) return;
    e.preventDefault();
    const item = all[Math.max(0, Math.min(to, all.length - 1))];
    current(item, all);
    item.focus();
  });
  // The caller calls the result when items have come or gone.
  return () => {
    const all = items();
    if (all.length > 0 && !all.some((n) => n.tabIndex === 0)) all[0].tabIndex = 0;
  };
}

// Characters that are invisible, look like others, or change the reading of the text around:
// controls, marks of the writing direction, unusual blanks, and blanks at the ends. The page shows
// the numbers of these characters.
const unseen = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u00a0\\u00ad\\u034f\\u061c\\u115f\\u1160\\u1680\\u17b4\\u17b5" +
    "\\u180b-\\u180f\\u2000-\\u200f\\u2028-\\u202f\\u205f-\\u206f\\u3000\\u3164\\ufe00-\\ufe0f" +
    "\\ufeff\\uffa0\\ufff0-\\ufffb\\u{e0000}-\\u{e0fff}]|^ | $",
  "gu",
);

// foreign shows a text of unknown origin: a name, a key, a value or a reason. foreign cuts a text
// longer than most in the middle.
export function foreign(text, most = Infinity) {
  let chars = [...text];
  let cut = -1;
  if (chars.length > most) {
    cut = Math.ceil(most * 0.6);
    chars = [...chars.slice(0, cut), ...chars.slice(cut - most)];
  }
  const node = el("bdi.foreign");
  const add = (part) => {
    let from = 0;
    for (const m of part.matchAll(unseen)) {
      node.append(part.slice(from, m.index), el("span.unseen", {}, name(m[0])));
      from = m.index + m[0].length;
    }
    node.append(part.slice(from));
  };
  if (cut < 0) add(text);
  else {
    add(chars.slice(0, cut).join(""));
    node.append(el("span.cut", {}, "…"));
    add(chars.slice(cut).join(""));
  }
  return node;
}

function name(char) {
  const names = { "\n": "↵", "\t": "⇥", " ": "␣" };
  return names[char] || "U+" + char.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
}

// valueOf shows the value of a lease: any bytes.
export function valueOf(value, most = Infinity) {
  if (value === undefined) return "";
  if (typeof value === "string") return foreign(value, most);
  const bytes = Uint8Array.from(atob(value.base64 || ""), (c) => c.charCodeAt(0));
  const few = Math.min(bytes.length, most / 4);
  const shown = [...bytes.slice(0, few)].map((b) => b.toString(16).padStart(2, "0")).join(" ");
  return el("span.bytes", {}, `${bytes.length} bytes: ${shown}${bytes.length > few ? " …" : ""}`);
}

// announce has screen readers read a text aloud. Of texts in quick succession only the last is
// read.
let waiting;
export function announce(text) {
  clearTimeout(waiting);
  waiting = setTimeout(() => setText($("announce"), text), 1000);
}
