// What else the model says: its samples by meaning, or what the probe predicts of them.

import { el, number, part, percent, ratio, table } from "./dom.js";

export function samples({ explanation, groups, samples: all }) {
  if (!all?.length) return null;
  const title = `What else it says: ${all.length} samples by meaning`;
  const items = (groups ?? []).map(group);
  return part(
    title,
    el("p", {}, explanation ?? "Not grouped: nothing compared them."),
    el("ol", { class: "groups" }, items),
    el("details", {}, el("summary", {}, "Every sample"), everySample(all)),
  );
}

function shareBar(share) {
  const bar = el("span", { class: "share-bar", "aria-hidden": "true" }, el("span"));
  bar.firstChild.style.setProperty("width", `${100 * share}%`);
  return bar;
}

function group({ text, is_answer: isAnswer, count, share, mass, similarity }) {
  const facts = [
    `${count} of the samples`,
    isAnswer && count === 0 ? null : `similarity to the answer ${ratio(similarity)}`,
    mass === null ? null : `probability ${percent(mass)}`,
  ];
  return el(
    "li",
    { class: isAnswer ? "is-answer" : "other" },
    el("p", { class: "share" }, percent(share)),
    el(
      "div",
      {},
      el(
        "p",
        { class: "said" },
        el("q", {}, text.trim() || "(nothing)"),
        isAnswer ? el("span", { class: "pill" }, "means the answer") : null,
      ),
      shareBar(share),
      el("p", { class: "note" }, facts.filter(Boolean).join(" · ")),
    ),
  );
}

function everySample(all) {
  const rows = all.map(({ text, logprob, similarity }) =>
    el(
      "tr",
      {},
      el("th", { scope: "row", class: "text" }, text.trim() || "(nothing)"),
      el("td", {}, ratio(similarity)),
      el("td", {}, number(logprob)),
    ),
  );
  return table("Every sample", ["Sample", "Similarity", "Log of its chance"], rows);
}

export function probe({ provenance, scores: { inconsistency_light: predicted } }) {
  if (!provenance.probe) return null;
  const { training_set: set, distance_percentile: far, out_of_domain: isFar } = provenance.probe;
  const trust = isFar ? "too far to trust the light scores" : "near enough to trust it";
  return part(
    "What else it would say: predicted",
    typeof predicted === "number"
      ? el("p", {}, "Disagreement ", el("b", {}, percent(predicted)), ": so much of it would mean something else.", shareBar(predicted))
      : null,
    el(
      "p",
      { class: "note" },
      "No samples were drawn: a probe read the model’s hidden states and predicted how much they " +
        `would differ. This answer lies farther out than ${percent(far / 100)} of the held-out ` +
        `answers of ${set}: ${trust}.`,
    ),
  );
}
