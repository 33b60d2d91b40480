// What scores are called here.

import { el, number, percent } from "./dom.js";

/** Estimators that are a surprise times a disagreement; the group is the score of the surprise. */
export const PRODUCT = /^(?:rb_)?cocoa_(sp|root_sp|ppl|mte)(?:_light)?$/;

const WORDS = {
  sp: "surprise",
  root_sp: "surprise for its length",
  ppl: "surprise per token",
  mte: "openness per token",
  inconsistency: "disagreement",
  rb_inconsistency: "disagreement, likelier samples count more",
  inconsistency_light: "disagreement, as the probe predicts it",
};
const SURPRISES = {
  sp: (value) => `The model gave its whole answer a chance of ${percent(Math.exp(-value))}.`,
  root_sp: () => "How surprising its whole answer is to the model, over the root of its length in tokens; 0 is certain.",
  ppl: (value) => `The model gave each token a chance of ${percent(Math.exp(-value))}, on average.`,
  mte: () => "How open the choice of each token was, on average; 0 means that there was one only.",
};

/** What people call a score; undefined where there is no better word than its name. */
export function word(name) {
  const base = PRODUCT.exec(name)?.[1];
  return base ? `${WORDS[base]} × disagreement` : WORDS[name];
}

/** How the uncertainty comes about, a line a factor; null where it is no such product. */
export function factors({ scores, estimator, uncertainty, mode }) {
  const name = PRODUCT.exec(estimator)?.[1];
  const base = scores[name];
  if (!(base > 0) || uncertainty === null) return null;
  const disagreement = uncertainty / base;
  const others = mode === "light" ? "a probe predicts that" : "asked again,";
  const lines = [
    [WORDS[name], number(base), SURPRISES[name](base)],
    ["× disagreement", number(disagreement), `${others} so much of what the model says means something else: ${percent(Math.min(1, disagreement))}.`],
    ["= uncertainty", number(uncertainty), `The API calls it ${estimator}. Higher is less sure; the unit of a surprise is the nat (−log of the chance): 0 is certain, 0.7 one in two, 2.3 one in ten.`],
  ];
  const rows = lines.map(([term, value, told]) =>
    el("div", {}, el("dt", {}, term), el("dd", {}, el("b", {}, value), ` ${told[0].toUpperCase()}${told.slice(1)}`)),
  );
  return el("dl", { class: "factors" }, rows);
}
