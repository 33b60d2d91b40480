// What the parts of an answer have in common: how dark one is, what is known of it, how many pass.

import { el, number, percent } from "./dom.js";

// Nats at which the shade of a part without a confidence is full.
const FULL = 4;

/** Shade an element by how unsure a unit is; dashed where nothing is known. */
export function shade(element, { confidence, uncertainty }) {
  let share = 0;
  if (typeof confidence === "number") share = 1 - confidence;
  else if (uncertainty === null) element.classList.add("unknown");
  else share = Math.min(1, Math.max(0, uncertainty / FULL));
  element.style.setProperty("--s", share.toFixed(3));
}

/** Put what is shown of units in their places in an answer's text, in order. */
export function inText(row, text, units, shown) {
  const characters = [...text]; // spans count characters, not units of UTF-16
  let behind = 0;
  units.forEach(({ span: [start, end] }, i) => {
    const between = characters.slice(behind, start).join("");
    row.append(behind ? between : between.trimStart(), shown[i]);
    behind = end;
  });
  row.append(characters.slice(behind).join(""));
}

/** What is known of a unit, in words. */
export function facts({ confidence, uncertainty, support }) {
  const known = [];
  if (typeof confidence === "number") known.push(`right with ${percent(confidence)}`);
  known.push(uncertainty === null ? "no uncertainty" : `uncertainty ${number(uncertainty)}`);
  if (support !== undefined) known.push(`samples agree by ${percent(support)}`);
  return known.join(" · ");
}

/** How many units pass, with a note; `kind` is "field" or "sentence". */
export function verdict(kind, numPassing, count, target, note) {
  const isWhole = numPassing === count;
  const mark = el("span", { class: "mark", "aria-hidden": "true" }, isWhole ? "✓" : "✕");
  const words = `${numPassing} of ${count} ${kind}s may pass with at most ${percent(target)} wrong`;
  return el(
    "div",
    { class: "verdict", "data-accept": String(isWhole) },
    el("h5", {}, mark, words),
    el("p", { class: "note" }, note),
  );
}
