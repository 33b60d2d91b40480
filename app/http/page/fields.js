// The fields of a JSON answer: how sure each is, and what samples say in its place.

import { el, number, part, percent, table } from "./dom.js";

export function fields({ units }) {
  const told = (units ?? []).filter(({ kind }) => kind === "field");
  if (told.length === 0) return null;
  told.sort((a, b) => (b.uncertainty ?? Infinity) - (a.uncertainty ?? Infinity));
  const { missing } = units[0];
  return part(
    "Its fields",
    el("p", { class: "hint" }, "The least sure first."),
    table("Its fields", ["Field", "Value", "Uncertainty", "Samples agree", "Others say"], told.map(row), "stacked"),
    missing &&
      el("p", { class: "note" }, "Only samples have ", missing.map(({ path, share }) => `${path} (${percent(share)})`).join(", "), "."),
  );
}

function row({ path, text, uncertainty, support, alternatives }) {
  const others = (alternatives ?? []).filter(({ value }) => value !== text);
  const said = others.map(({ value, share }) => `${value ?? "nothing"} (${percent(share)})`);
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, el("code", {}, path || "(all of it)")),
    el("td", { class: "text" }, text),
    el("td", {}, number(uncertainty)),
    el("td", {}, support === undefined ? "–" : percent(support)),
    el("td", { class: "meaning" }, said.join(", ")),
  );
}
