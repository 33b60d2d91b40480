// How an uncertainty comes about; GET /estimators says what each score is.

import { el, number, percent } from "./dom.js";

/** Estimators that are a lack of confidence times an inconsistency; the group is the first. */
export const PRODUCT = /^(?:rb_)?cocoa_(sp|root_sp|ppl|mte)(?:_light)?$/;

const SURPRISES = {
  sp: (value) => `The model gave its whole answer a chance of ${percent(Math.exp(-value))}.`,
  root_sp: () => "How surprising its whole answer is to the model, over the root of its length in tokens; 0 is certain.",
  ppl: (value) => `The model gave each token a chance of ${percent(Math.exp(-value))}, on average.`,
  mte: () => "How open the choice of each token was, on average; 0 means that there was one only.",
};

/** How the uncertainty comes about, a line a factor; null where it is no such product. */
export function factors({ scores, estimator, uncertainty, provenance: { mode } }, estimators) {
  const name = PRODUCT.exec(estimator)?.[1];
  const base = scores[name];
  if (!(base > 0) || uncertainty === null) return null;
  const inconsistency = uncertainty / base;
  const others = mode === "light" ? "a probe predicts that" : "asked again,";
  const lines = [
    [titleOf(name, estimators), number(base), SURPRISES[name](base)],
    ["× inconsistency", number(inconsistency), `${others} so much of what the model says means something else: ${percent(Math.min(1, inconsistency))}.`],
    ["= uncertainty", number(uncertainty), `${titleOf(estimator, estimators)}, ${estimator}. Higher is less sure; its unit is the nat (−log of a chance): 0 is certain, 0.7 one in two, 2.3 one in ten.`],
  ];
  const rows = lines.map(([term, value, told]) =>
    el("div", {}, el("dt", {}, term), el("dd", {}, el("b", {}, value), ` ${told[0].toUpperCase()}${told.slice(1)}`)),
  );
  return el("dl", { class: "factors" }, rows);
}

/** A message of the service without what it says to programs: which address to call. */
export function withoutAddresses(message) {
  return message.replace(/[;:,]?[^;:,.?]*\b(?:GET|POST) \/[^;,.?]*/g, "");
}

/** Why none of these passes at a share of wrong ones; `what` is "answer", "field" or "sentence". */
export function nonePasses(what) {
  return `No ${what} can pass at this share, however sure the model is: the calibrator’s labels cannot promise it. The slider shows how many can at others.`;
}

/** What people read of a score; its name where the service does not say. */
export function titleOf(name, estimators) {
  return estimators.get(name)?.title ?? name;
}
