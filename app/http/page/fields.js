// The fields of a JSON answer as a form: how sure each is, what samples say in its place, and
// whether it may pass.

import { el, number, part, percent } from "./dom.js";

// Nats at which the shade of a value without a confidence is full.
const FULL = 4;

export function fields({ units, units_decision: decision }) {
  const told = (units ?? []).filter(({ kind }) => kind === "field");
  if (told.length === 0) return null;
  told.sort((a, b) => (b.uncertainty ?? Infinity) - (a.uncertainty ?? Infinity));
  const { missing } = units[0];
  return part(
    "Its fields",
    el("p", { class: "hint" }, "The least sure first; the darker, the less sure."),
    decision && verdict(decision, told),
    el("dl", { class: "fields" }, told.map(field)),
    missing &&
      el("p", { class: "note" }, "Only samples have ", missing.map(({ path, share }) => `${path} (${percent(share)})`).join(", "), "."),
  );
}

function verdict({ accept, target_error: target, guarantee }, told) {
  const passing = told.filter((unit) => unit.decision?.accept).length;
  const mark = el("span", { class: "mark", "aria-hidden": "true" }, accept ? "✓" : "✕");
  const words = `${passing} of ${told.length} fields may pass with at most ${percent(target)} wrong`;
  return el(
    "div",
    { class: "verdict", "data-accept": String(accept) },
    el("h5", {}, mark, words),
    el("p", { class: "note" }, `The promise: ${guarantee}.`),
  );
}

function field(unit) {
  const { path, text, decision } = unit;
  const rejected = decision !== undefined && !decision.accept;
  const value = el(rejected ? "del" : "span", { class: "value" }, text);
  const shade = shadeOf(unit);
  if (shade === null) value.classList.add("unknown");
  value.style.setProperty("--s", (shade ?? 0).toFixed(3));
  const row = el(
    "div",
    { class: "field" },
    el("dt", {}, el("code", {}, path || "(all of it)")),
    el("dd", {}, value, el("p", { class: "note" }, facts(unit)), others(unit)),
  );
  if (rejected) {
    const what = decision.removed ? "Held back" : "Does not pass";
    row.querySelector("dd").append(el("p", { class: "reason" }, `✕ ${what}: ${decision.reason}.`));
  }
  return row;
}

/** How dark a value is, 0 to 1; null where nothing is known. */
function shadeOf({ confidence, uncertainty }) {
  if (typeof confidence === "number") return 1 - confidence;
  return uncertainty === null ? null : Math.min(1, Math.max(0, uncertainty / FULL));
}

function facts({ confidence, uncertainty, support }) {
  const known = [];
  if (typeof confidence === "number") known.push(`right with ${percent(confidence)}`);
  known.push(uncertainty === null ? "no uncertainty" : `uncertainty ${number(uncertainty)}`);
  if (support !== undefined) known.push(`samples agree by ${percent(support)}`);
  return known.join(" · ");
}

/** What samples say in its place. */
function others({ text, alternatives }) {
  const said = (alternatives ?? []).filter(({ value }) => value !== text);
  if (said.length === 0) return null;
  const items = said.map(({ value, share }) => el("li", {}, `${value ?? "nothing"} (${percent(share)})`));
  return el("ul", { class: "others", "aria-label": "Others say" }, items);
}
