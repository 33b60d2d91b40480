// Elements and numbers.

/** An element: properties, `class`, `data-…` and `aria-…` attributes, and children; text is text. */
export function el(tag, options = {}, ...children) {
  const made = document.createElement(tag);
  assign(made, options);
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

/** An element of an SVG picture. */
export function svg(tag, options = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(options)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function assign(made, options) {
  for (const [name, value] of Object.entries(options)) {
    if (name.includes("-") || name === "class" || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
}

/** A part of an answer's card. */
export function part(title, ...children) {
  return el("section", { class: "part" }, el("h4", {}, title), children);
}

/** A table with a caption for screen readers; it scrolls where it is too wide. */
export function table(caption, columns, rows, name = "") {
  const head = columns.map((name) => (name ? el("th", { scope: "col" }, name) : el("td")));
  return el(
    "div",
    { class: "scroll", tabIndex: 0, role: "group", "aria-label": caption },
    el(
      "table",
      { class: name },
      el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, head)),
      el("tbody", {}, rows),
    ),
  );
}

/** Three digits that count. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size > 0 && size < 0.001) return value < 0 ? "> −0.001" : "< 0.001";
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

export function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 1) return "< 1 %";
  return `${value > 99 && value < 100 ? "> 99" : Math.round(value)} %`;
}

/** A value between 0 and 1. */
export function ratio(value) {
  return value === null ? "–" : value.toFixed(2);
}

export function time(ms) {
  if (ms >= 995) return `${(ms / 1000).toFixed(1)} s`;
  return ms >= 1 || ms === 0 ? `${Math.round(ms)} ms` : "< 1 ms";
}

let numIds = 0;

/** An id for what is named or described by another element. */
export function newId(name) {
  numIds += 1;
  return `${name}-${numIds}`;
}

/** One of several is reached by Tab, the others from it by the arrow keys. */
export function roving(container, selector, onMove = () => {}) {
  const all = () => [...container.querySelectorAll(selector)];
  const enter = (item) => {
    for (const one of all()) one.tabIndex = one === item ? 0 : -1;
  };
  container.addEventListener("focusin", (event) => {
    const item = event.target.closest(selector);
    if (item) enter(item);
  });
  container.addEventListener("keydown", (event) => {
    const items = all();
    const at = items.indexOf(document.activeElement);
    const to = {
      ArrowRight: at + 1,
      ArrowDown: at + 1,
      ArrowLeft: at - 1,
      ArrowUp: at - 1,
      Home: 0,
      End: items.length - 1,
    }[event.key];
    if (at < 0 || to === undefined || !items[to]) return;
    event.preventDefault();
    items[to].focus();
    onMove(items[to]);
  });
}
