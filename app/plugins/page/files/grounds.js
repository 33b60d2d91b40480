// The answer beside the documents that it was to stand on: each sentence coloured by how far they say it, and the
// document that says most of the chosen one, with the place marked.

import { el, part, percent, roving } from "./dom.js";
import { inText } from "./units.js";
import { withoutAddresses } from "./words.js";

const HINT = "Choose a sentence, by a click or the arrow keys, to read what it stands on.";
const NO_TRUTH = "This is no measure of truth, nor of how sure the model is.";

/** The part of a result over documents, which are texts; null without them. */
export function grounds({ text, units, grounded, reasons }, documents) {
  if (grounded === undefined || !documents) return null;
  const title = "In the documents";
  if (grounded === null) return part(title, el("p", { class: "note" }, `Not known: ${withoutAddresses(reasons.grounded)}.`));
  const told = (units ?? []).filter((unit) => unit.documents);
  const row = el("div", {
    class: "grounds",
    role: "toolbar",
    "aria-label": "How far documents say each sentence; the arrow keys go from one to the next",
  });
  const shown = told.map((unit, i) => sentence(unit, i === 0));
  inText(row, text, told, shown);
  const detail = el("div", { class: "detail" }, HINT);
  roving(row, ".ground");
  for (const name of ["focusin", "click"]) {
    row.addEventListener(name, (event) => {
      const chosen = event.target.closest(".ground");
      if (!chosen) return;
      for (const one of shown) one.classList.toggle("told", one === chosen);
      tell(detail, told[shown.indexOf(chosen)].documents, documents);
    });
  }
  const mean = `They say ${percent(grounded)} of the answer, the mean over its sentences. ${NO_TRUTH}`;
  return part(title, el("p", { class: "hint" }, mean), row, detail);
}

function sentence({ text, documents }, isFirst) {
  const options = { class: "ground", role: "button", tabIndex: isFirst ? 0 : -1 };
  const shown = el("span", options, marked(text, documents.missing));
  shown.dataset.place = nameOf(documents);
  shown.setAttribute("aria-label", `${text} ${facts(documents)}`);
  shown.style.setProperty("--g", documents.grounded.toFixed(3));
  return shown;
}

/** A text in which numbers and names that stand in no document are marked. */
function marked(text, missing) {
  if (missing.length === 0) return [text];
  const words = missing.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|");
  // Neither in a longer word nor in a longer number.
  const pattern = new RegExp(`(?<![\\p{L}\\p{N}]|\\p{N}[.,])(${words})(?![\\p{L}\\p{N}]|[.,]\\p{N})`, "gu");
  return text.split(pattern).map((piece, i) => (i % 2 ? el("mark", { class: "missing" }, piece) : piece));
}

/** People count from 1. */
function nameOf({ id }) {
  return id === undefined ? "none" : String(Number(id) + 1);
}

function facts({ grounded, id, missing, contradicted_by: deniers = [] }) {
  const known = [id === undefined ? "No document says any of it" : `Document ${nameOf({ id })} says ${percent(grounded)} of it`];
  if (missing.length) known.push(`in none: ${missing.join(", ")}`);
  if (deniers.length) known.push(`denied by document ${deniers.map((id) => nameOf({ id })).join(", ")}`);
  return `${known.join(" · ")}.`;
}

function tell(detail, told, documents) {
  detail.replaceChildren(el("p", {}, facts(told)));
  if (told.id === undefined) return;
  const characters = [...documents[Number(told.id)]]; // spans count characters, not units of UTF-16
  const [start, end] = told.span;
  const place = el("mark", {}, characters.slice(start, end).join(""));
  const name = `Document ${nameOf(told)}`;
  const around = [characters.slice(0, start).join(""), place, characters.slice(end).join("")];
  const box = el("div", { class: "source", role: "group", tabIndex: 0, "aria-label": name }, around);
  detail.append(box);
  box.scrollTop = place.offsetTop - box.clientHeight / 3;
}
