// A long answer as its sentences: underlined by how unsure each is, with what samples say that deny it, and
// struck out where the target error that is chosen at the moment would not let it pass.

import { el, part, percent, roving } from "./dom.js";
import { facts, inText, shade, verdict } from "./units.js";
import { nonePasses } from "./words.js";

const HINT = matchMedia("(hover: none)").matches
  ? "Tap one to read what the samples say of it."
  : "Point at one, or use the arrow keys, to read what the samples say of it.";

/** The sentences of one result; `show` strikes out anew for another target. */
export class Statements {
  #told;
  #samples;
  #detail = el("div", { class: "detail" }, HINT);
  #verdict = el("div", {});
  #shown = [];

  constructor({ text, units, samples }) {
    this.#told = (units ?? []).filter(({ kind }) => kind === "sentence");
    this.#samples = samples ?? [];
    this.root = this.#told.length === 0 ? null : this.#part(text);
  }

  #part(text) {
    const row = el("div", {
      class: "statements",
      role: "toolbar",
      "aria-label": "Each sentence of the answer; the arrow keys go from one to the next",
    });
    this.#shown = this.#told.map((unit, i) => this.#statement(unit, i === 0));
    inText(row, text, this.#told, this.#shown);
    roving(row, ".statement");
    for (const name of ["focusin", "pointerover", "click"]) {
      row.addEventListener(name, (event) => this.#tell(event.target.closest(".statement")));
    }
    const hint = el("p", { class: "hint" }, "The darker, the less sure.");
    return part("Its sentences", hint, this.#verdict, row, this.#detail);
  }

  #statement(unit, isFirst) {
    const shown = el("span", { class: "statement", role: "button", tabIndex: isFirst ? 0 : -1 }, unit.text);
    shade(shown, unit);
    return shown;
  }

  /**
   * Strike out what does not pass; `chosen` is a target error with the uncertainty up to which
   * they pass (null lets none pass), or null where there is no verdict.
   */
  show(chosen) {
    const isJudged = this.#told.some((unit) => unit.decision || typeof unit.confidence === "number");
    if (!isJudged) chosen = null;
    let numPassing = 0;
    this.#told.forEach((unit, i) => {
      // What has no confidence, as behind a foreign prompt, passes at no target.
      const isSure = typeof unit.confidence === "number" && chosen?.uncertainty !== null;
      const passes = chosen === null || (isSure && unit.uncertainty <= chosen.uncertainty);
      numPassing += passes;
      this.#shown[i].classList.toggle("struck", !passes);
      this.#shown[i].setAttribute("aria-label", passes ? unit.text : `Does not pass: ${unit.text}`);
    });
    this.#verdict.replaceChildren();
    if (chosen === null) return;
    const note =
      chosen.uncertainty === null
        ? nonePasses("sentence")
        : "Without those that are struck out; move the slider of wrong answers to see others.";
    this.#verdict.append(verdict("sentence", numPassing, this.#told.length, chosen.target_error, note));
  }

  #tell(shown) {
    if (!shown) return;
    for (const one of this.#shown) one.classList.toggle("told", one === shown);
    const unit = this.#told[this.#shown.indexOf(shown)];
    this.#detail.replaceChildren(el("p", {}, facts(unit)), ...this.#denials(unit));
  }

  #denials({ contradicted_by: deniers, contradiction, alternatives }) {
    if (contradiction === undefined) return [];
    if (deniers.length === 0) return [el("p", {}, "No sample denies it.")];
    const words = `Denied by ${deniers.length} of ${this.#samples.length} samples (${percent(contradiction)} on average):`;
    const items = (alternatives ?? []).map(({ value, share }) => el("li", {}, `${value} (${percent(share)})`));
    return [el("p", {}, words), el("ul", { class: "deniers" }, items)];
  }
}
