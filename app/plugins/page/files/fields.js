// The fields of a JSON answer as a form: how sure each is, what samples say in its place, and
// whether it may pass.

import { el, part, percent } from "./dom.js";
import { facts, shade, verdict } from "./units.js";
import { nonePasses, withoutAddresses } from "./words.js";

export function fields({ units, units_decision: decision, reasons }) {
  const told = (units ?? []).filter(({ kind }) => kind === "field");
  if (told.length === 0) return null;
  told.sort((a, b) => (b.uncertainty ?? Infinity) - (a.uncertainty ?? Infinity));
  const { missing } = units[0];
  const unknown = reasons["units.confidence"];
  const isVain = decision?.threshold === null && !unknown;
  return part(
    "Its fields",
    el("p", { class: "hint" }, "The least sure first; the darker, the less sure."),
    decision && decided(decision, told, isVain),
    unknown && el("p", { class: "note" }, `No verdict on fields: ${withoutAddresses(unknown)}.`),
    el("dl", { class: "fields" }, told.map((unit) => field(unit, isVain))),
    missing &&
      el("p", { class: "note" }, "Only samples have ", missing.map(({ path, share }) => `${path} (${percent(share)})`).join(", "), "."),
  );
}

function decided({ target_error: target, guarantee }, told, isVain) {
  const passing = told.filter((unit) => unit.decision?.accept).length;
  return verdict("field", passing, told.length, target, isVain ? nonePasses("field") : `The promise: ${guarantee}.`);
}

function field(unit, isVain) {
  const { path, text, decision } = unit;
  const rejected = decision !== undefined && !decision.accept;
  const value = el(rejected ? "del" : "span", { class: "value" }, text);
  shade(value, unit);
  const row = el(
    "div",
    { class: "field" },
    el("dt", {}, el("code", {}, path || "(all of it)")),
    el("dd", {}, value, el("p", { class: "note" }, facts(unit)), others(unit)),
  );
  if (decision?.accept) row.querySelector("dd").append(el("p", { class: "passed" }, "✓ May pass"));
  if (rejected) {
    const what = decision.removed ? "Held back" : "Does not pass";
    row.querySelector("dd").append(el("p", { class: "reason" }, isVain ? `✕ ${what}` : `✕ ${what}: ${decision.reason}.`));
  }
  return row;
}

/** What samples say in its place. */
function others({ text, alternatives }) {
  const said = (alternatives ?? []).filter(({ value }) => value !== text);
  if (said.length === 0) return null;
  const items = said.map(({ value, share }) => el("li", {}, `${value ?? "nothing"} (${percent(share)})`));
  return el("ul", { class: "others", "aria-label": "Others say" }, items);
}
