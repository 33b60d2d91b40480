// Two runs side by side.

import { el, number, percent, table, time } from "./dom.js";
import { TITLES } from "./run.js";

/** Full and light, or two settings, in one table. */
export function comparison(runs) {
  const row = (name, tell) => {
    const cells = runs.map((run) => el("td", {}, tell(run)));
    return el("tr", {}, el("th", { scope: "row" }, name), cells);
  };
  const [slow, fast] = [...runs].sort((a, b) => b.total - a.total);
  const ratio = slow.total / fast.total;
  const [first, second] = runs;
  const title = `${TITLES[second.mode]} against ${TITLES[first.mode].toLowerCase()}`;
  const rows = [
    row("Answer", ({ result }) => result.text.trim() || "(nothing)"),
    row("Confidence", ({ result }) => (result.confidence === null ? "–" : percent(result.confidence))),
    row("Uncertainty", ({ result }) => `${number(result.uncertainty)} (${result.estimator})`),
    row("Verdict", ({ result }) => passes(result.decision)),
    row("Samples drawn", ({ result }) => String(result.provenance.num_samples ?? 0)),
    row("Their temperature", ({ request: { body } }) => String(body.temperature ?? "–")),
    row("Tokens written", ({ result: { usage } }) => String(usage.completion_tokens + usage.sample_tokens)),
    row("First token", (run) => (run.firstToken === null ? "–" : time(run.firstToken))),
    row("Everything", (run) => time(run.total)),
  ];
  const columns = ["", ...runs.map((run) => TITLES[run.mode])];
  return el(
    "section",
    { class: "card" },
    el("h3", {}, title),
    el(
      "p",
      {},
      `${TITLES[fast.mode]} took ${time(fast.total)}, ${TITLES[slow.mode].toLowerCase()} ` +
        `${ratio.toFixed(1)} times as long. One after the other, without the cache.`,
    ),
    table(title, columns, rows),
  );
}

function passes(decision) {
  if (!decision) return "none";
  return decision.accept ? "✓ may pass" : "✕ does not pass";
}
