// How sure the model is, and what would change the verdict.

import { el, number, percent, svg } from "./dom.js";
import { PRODUCT, nonePasses, titleOf, withoutAddresses } from "./words.js";

const LEVELS = [
  [0.8, "high", "Probably right"],
  [0.5, "middle", "Rather right than wrong"],
  [0.25, "middle", "Rather wrong than right"],
  [0, "low", "Probably wrong"],
];

/** Confidence, or the plain score where there is none. */
export function gauge(result, estimators) {
  const { confidence, uncertainty, estimator, provenance, support } = result;
  const agree = support === undefined ? [] : [`${percent(support)} of the samples mean the same as the answer.`];
  if (confidence !== null) {
    const [, level, word] = LEVELS.find(([from]) => confidence >= from);
    const surer = percent(1 - provenance.percentile / 100);
    const notes = [
      "Confidence that the answer is right.",
      `Surer than ${surer} of the calibrator’s answers.`,
      ...agree,
    ];
    return dial("Confidence", confidence, level, word, notes);
  }
  const value = uncertainty === null ? "no value" : number(uncertainty);
  const called = `${titleOf(estimator, estimators)} (${estimator})`;
  return el(
    "div",
    { class: "gauge plain" },
    el("p", { class: "word" }, "Uncertainty"),
    el("p", { class: "big" }, value),
    el("p", { class: "note" }, `${called}; higher is less sure${extent(estimators.get(estimator))}`),
    agree.map((words) => el("p", { class: "note" }, words)),
    el("p", { class: "note" }, reasonOf(result)),
  );
}

/** From where to where a score runs, in words. */
export function extent(estimator) {
  if (!estimator?.range) return "";
  const [low, high] = estimator.range;
  if (low === null) return ", below 0 too";
  return high === null ? `, from ${number(low)} without an end` : `, from ${number(low)} to ${number(high)}`;
}

function reasonOf({ reasons, estimator }) {
  return `No confidence: ${withoutAddresses(reasons[estimator] ?? reasons.confidence ?? "not known")}.`;
}

function dial(name, share, level, word, notes) {
  const arc = { d: "M 12 62 A 48 48 0 0 1 108 62", fill: "none", pathLength: 100 };
  const picture = svg(
    "svg",
    { viewBox: "0 0 120 70", "aria-hidden": "true", class: "dial" },
    svg("path", { ...arc, class: "track" }),
    svg("path", { ...arc, class: "value", "stroke-dasharray": `${100 * share} 200` }),
    ...[0.25, 0.5, 0.75].map(tick),
  );
  const meter = {
    class: "meter",
    role: "meter",
    "aria-label": name,
    "aria-valuemin": "0",
    "aria-valuemax": "100",
    "aria-valuenow": String(Math.round(100 * share)),
    "aria-valuetext": `${percent(share)}, ${word}`,
  };
  return el(
    "div",
    { class: "gauge", "data-level": level },
    el("div", meter, picture, el("p", { class: "big" }, percent(share))),
    el("p", { class: "word" }, word),
    notes.map((note) => el("p", { class: "note" }, note)),
  );
}

function tick(share) {
  const angle = Math.PI * (1 - share);
  const at = (radius) => [60 + radius * Math.cos(angle), 62 - radius * Math.sin(angle)];
  const [[x1, y1], [x2, y2]] = [at(41), at(55)];
  return svg("line", { x1, y1, x2, y2, class: "tick" });
}

/** Whether the answer may pass, how far it is from the threshold, and what would change that. */
export function verdict(result, refusal, ...notes) {
  const { decision } = result;
  const reason = result.reasons.confidence && withoutAddresses(result.reasons.confidence);
  // No answer can pass where nothing is known of whole ones; of parts there is more to say.
  const isUncalibrated = decision?.threshold === null && result.confidence === null && reason;
  if (isUncalibrated) {
    const hasParts = result.units?.some((unit) => unit.decision);
    const parts = hasParts ? " Its parts have verdicts of their own, below." : "";
    refusal = `None can be given of the whole answer: ${reason}.${parts}`;
  }
  if (!decision || isUncalibrated) {
    const ask = "Choose a share of wrong answers that may pass to get one.";
    const why = refusal ?? (reason ? `None can be given: ${reason}.` : ask);
    return el("div", { class: "verdict" }, el("h4", {}, "No verdict"), el("p", {}, why));
  }
  const { accept, threshold, target_error: target, guarantee } = decision;
  return el(
    "div",
    { class: "verdict", "data-accept": String(accept) },
    el(
      "h4",
      {},
      el("span", { class: "mark", "aria-hidden": "true" }, accept ? "✓" : "✕"),
      accept ? "May pass" : "Does not pass",
      el("small", {}, ` with at most ${percent(target)} wrong`),
    ),
    distance(result.uncertainty, threshold),
    el("p", {}, isUnlike(result) ? `Not for its uncertainty. ${guarantee}.` : change(result)),
    isUnlike(result) || threshold === null ? null : el("p", { class: "note" }, `The promise: ${guarantee}.`),
    partsBeside(result),
    ...notes,
  );
}

/** That verdicts of parts, below, are of another promise than that of the whole; null where they are one. */
function partsBeside({ decision, units }) {
  const judged = (units ?? []).filter((unit) => unit.kind !== "answer" && unit.decision);
  const passing = judged.filter((unit) => unit.decision.accept).length;
  if (judged.length === 0 || (decision.accept && passing === judged.length)) return null;
  const words = `That is of the answer as a whole. Of its ${judged.length} parts ${passing} may pass by a promise about parts, below.`;
  return el("p", { class: "note" }, words);
}

/** Whether it does not pass though it is sure enough, as it is unlike the calibrated answers. */
function isUnlike({ uncertainty, decision: { accept, threshold } }) {
  return !accept && threshold !== null && uncertainty !== null && uncertainty <= threshold;
}

/** A line from 0 with the part that passes, the threshold, and where the answer stands. */
function distance(uncertainty, threshold) {
  if (threshold === null || uncertainty === null) return null;
  const end = 1.15 * Math.max(uncertainty, threshold) || 1;
  const pass = el("span", { class: "pass" });
  const limit = el("span", { class: "limit" }, el("b", {}, number(threshold)));
  const here = el("span", { class: "here" }, el("b", {}, number(uncertainty)));
  pass.style.setProperty("width", `${(100 * threshold) / end}%`);
  limit.style.setProperty("left", `${(100 * threshold) / end}%`);
  here.style.setProperty("left", `${(100 * uncertainty) / end}%`);
  for (const [mark, value] of [[limit, threshold], [here, uncertainty]]) {
    if (value > 0.8 * end) mark.classList.add("right");
    else if (value < 0.2 * end) mark.classList.add("left");
  }
  const told = `Uncertainty ${number(uncertainty)}, threshold ${number(threshold)}`;
  return el(
    "div",
    { class: "distance", role: "img", "aria-label": told },
    here,
    el("span", { class: "axis" }, pass),
    limit,
  );
}

/** In words, what would turn the verdict. */
function change({ uncertainty, decision, scores, estimator }) {
  const { accept, threshold } = decision;
  if (threshold === null) return nonePasses("answer");
  if (uncertainty === null) return "The answer has no uncertainty, and so it does not pass.";
  const gap = number(Math.abs(uncertainty - threshold));
  const base = scores[PRODUCT.exec(estimator)?.[1]];
  const where = accept
    ? `Its uncertainty is ${gap} below the threshold ${number(threshold)}. `
    : `Its uncertainty is ${gap} above the threshold ${number(threshold)}. `;
  if (!(base > 0)) return where;
  const inconsistency = uncertainty / base;
  const limit = threshold / base;
  const stands = percent(Math.min(1, inconsistency));
  if (!accept) return `${where}It would pass with an inconsistency of ${percent(limit)}; it is ${stands}.`;
  if (limit >= 1) return `${where}It would pass with any inconsistency; it is ${stands}.`;
  return `${where}Above an inconsistency of ${percent(limit)} it would not pass; it is ${stands}.`;
}
