// The value is the text with the least contrast, and the number of texts examined. The background
// of a text is the first background that isn't transparent; of a gradient each colour counts. Texts
// covered by a modal dialog aren't examined.
(() => {
  const luminance = ([r, g, b]) =>
    [r, g, b]
      .map((c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const colors = (text) =>
    [...text.matchAll(/rgba?\(([^)]*)\)/g)].map((m) => m[1].split(/[ ,/]+/).map(Number));
  const ratio = (a, b) => {
    const [x, y] = [luminance(a), luminance(b)].sort((p, q) => q - p);
    return (x + 0.05) / (y + 0.05);
  };
  const backgrounds = (e) => {
    for (; e; e = e.parentElement) {
      const style = getComputedStyle(e);
      const gradient = colors(style.backgroundImage);
      if (gradient.length > 0) return gradient;
      const [color] = colors(style.backgroundColor);
      if (color && (color[3] ?? 1) === 1) return [color];
      if (color && color[3] > 0 && color[3] < 1)
        throw new Error("a background that shines through: " + e.outerHTML.slice(0, 100));
    }
    return [[255, 255, 255]];
  };
  const dialogs = document.querySelectorAll("dialog[open]");
  const root = dialogs.length > 0 ? dialogs[dialogs.length - 1] : document.body;
  let least = { ratio: 99, text: "" },
    n = 0;
  const judge = (e, text, style) => {
    n++;
    for (const back of backgrounds(e)) {
      const r = ratio(colors(style.color)[0], back);
      if (r < least.ratio)
        least = {
          ratio: r,
          text: text.trim().slice(0, 60) + " in " + (e.id || e.className || e.nodeName),
        };
    }
  };
  const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const e = walk.currentNode.parentElement;
    if (
      walk.currentNode.data.trim() !== "" &&
      e.checkVisibility({ opacityProperty: true, visibilityProperty: true }) &&
      !e.closest("noscript, .visually-hidden, .skip:not(:focus)")
    ) {
      if (parseFloat(getComputedStyle(e).opacity) !== 1)
        throw new Error("text that shines through: " + e.outerHTML.slice(0, 100));
      judge(e, walk.currentNode.data, getComputedStyle(e));
    }
  }
  for (const e of root.querySelectorAll("*")) {
    if (!e.checkVisibility()) continue;
    for (const pseudo of ["::before", "::after"]) {
      const style = getComputedStyle(e, pseudo);
      if (/^"[^"]+"/.test(style.content) && !/\[|attr/.test(style.content))
        judge(e, style.content, style);
    }
    if (e.matches("input") && e.value) judge(e, e.value, getComputedStyle(e));
    if (e.matches("input") && !e.value && e.placeholder)
      judge(e, e.placeholder, getComputedStyle(e, "::placeholder"));
  }
  return { least: least.ratio, text: least.text, texts: n };
})();
