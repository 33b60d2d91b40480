// One request on the page: its progress, its answer, and everything that is known of it.

import { el, newId, number, percent, ratio, roving, time } from "./dom.js";
import { LANGUAGES } from "./snippets.js";
import { Tokens } from "./tokens.js";
import { gauge, verdict } from "./verdict.js";
import { factors, word } from "./words.js";

const TITLES = { full: "Full", light: "Light" };
const STAGES = {
  queue: "waiting for a place",
  generate: "answer and samples",
  similarity: "comparing",
  score: "scoring",
};
const WARNINGS = {
  calibration_shift: "What is served lately is unlike what was calibrated.",
  empty_answer: "Nothing was said, which may look sure.",
  answer_truncated: "The answer was cut at its limit of tokens.",
  samples_truncated: "Samples were cut at their limit of tokens.",
  similarity_truncated: "A text was too long for the similarity model, and was cut.",
  similarity_out_of_domain: "The embedded similarity model does not know this language model’s answers.",
  reasoning_excluded: "The reasoning before the answer was left out of what is compared.",
  reasoning_unfinished: "The model was still reasoning at its limit of tokens: there is no answer yet.",
  out_of_domain: "The answer is unlike those that the probe was trained on: do not trust the light scores.",
  max_new_tokens_clamped: "Beside the prompt fewer new tokens fit than usual.",
  one_token_answer: "The probe had the prompt’s last state only to read.",
};
const SILENT_MS = 700;
const LOST_MS = 20_000;

/** The card of one request. */
export class Run {
  constructor(mode, cancel) {
    this.mode = mode;
    this.began = performance.now();
    this.heard = this.began;
    this.firstToken = null;
    this.total = null;
    this.tokens = new Tokens();
    const titleId = newId("run");
    this.clock = el("span", { class: "clock" });
    this.phase = el("span", {}, "Asking …");
    this.bar = el("progress", { "aria-label": "Under way" });
    this.cancel = el("button", { type: "button", class: "quiet" }, "Cancel");
    this.cancel.addEventListener("click", cancel);
    const words = el("p", {}, this.phase);
    this.progress = el("div", { class: "progress" }, words, this.cancel, this.bar);
    this.thought = el("p", { class: "thought" });
    this.reasoning = el("details", { class: "reasoning" }, el("summary", {}, "Reasoning"), this.thought);
    this.reasoning.hidden = true;
    this.body = el("div", { class: "run-body" });
    this.root = el(
      "article",
      { class: "card run", "aria-labelledby": titleId, tabIndex: -1 },
      el("header", {}, el("h3", { id: titleId }, TITLES[mode]), this.clock),
      this.progress,
      this.reasoning,
      this.tokens.root,
      this.body,
    );
    this.timer = setInterval(() => this.#tick(), 100);
    this.#tick();
  }

  alive() {
    this.heard = performance.now();
  }

  /** More of what the model writes before its answer. */
  reason(text) {
    this.thought.append(text);
    this.reasoning.hidden = false;
  }

  token(token) {
    this.firstToken ??= performance.now() - this.began;
    this.lastToken = performance.now();
    this.tokens.add(token);
  }

  /** Everything that the result says. */
  finish(result, { estimators, request, refusal }) {
    this.total = performance.now() - this.began;
    this.#end(time(this.total));
    this.result = result;
    this.thought.textContent = result.reasoning ?? "";
    this.reasoning.hidden = !result.reasoning;
    const isStopped = result.finish_reason !== "length";
    if (result.tokens) this.tokens.finish(result.tokens, isStopped);
    this.body.replaceChildren(
      el("div", { class: "judged" }, gauge(result), verdict(result, refusal)),
      ...[
        warnings(result),
        explained(result),
        result.mode === "full" ? samples(result) : probe(result),
        scores(result, estimators),
        times(result, this),
        code(request),
      ].filter(Boolean),
    );
  }

  /** It ended without a result; what had come of the answer stays. */
  stop(words) {
    this.#end(time(performance.now() - this.began));
    this.body.replaceChildren(el("p", { class: "stopped" }, words));
  }

  #end(clock) {
    clearInterval(this.timer);
    if (document.activeElement === this.cancel) this.root.focus();
    this.progress.remove();
    this.clock.textContent = clock;
  }

  #tick() {
    const now = performance.now();
    this.clock.textContent = `${((now - this.began) / 1000).toFixed(1)} s`;
    const silent = now - this.heard;
    const tokens = this.tokens.count === 1 ? "1 token" : `${this.tokens.count} tokens`;
    if (silent > LOST_MS) {
      this.phase.textContent = `Nothing heard for ${Math.round(silent / 1000)} s; the connection may be lost.`;
    } else if (this.firstToken === null) {
      this.phase.textContent = this.reasoning.hidden ? "Reading the prompt …" : "Reasoning …";
    } else if (now - this.lastToken > SILENT_MS) {
      const rest = this.mode === "light" ? "the probe reads it" : "samples are drawn and compared";
      this.phase.textContent = `${tokens}; no more for a moment, maybe ${rest} …`;
    } else {
      this.phase.textContent = `Writing, ${tokens} …`;
    }
  }
}

function part(title, ...children) {
  return el("section", { class: "part" }, el("h4", {}, title), children);
}

function warnings({ warnings: codes }) {
  if (codes.length === 0) return null;
  const items = codes.map((name) => el("li", {}, el("code", {}, name), ` ${WARNINGS[name] ?? ""}`));
  return el("section", { class: "part warnings" }, el("h4", {}, "Take care"), el("ul", {}, items));
}

function explained(result) {
  const list = factors(result);
  return list && part("How the uncertainty comes about", list);
}

function samples({ explanation, groups, samples: all, num_samples: drawn }) {
  if (!all?.length) return null;
  const title = `What else it says: ${drawn} samples by meaning`;
  const items = (groups ?? []).map(group);
  return part(
    title,
    groups === null ? el("p", {}, "Not grouped: nothing compared them.") : el("p", {}, explanation),
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

function table(caption, columns, rows, name = "") {
  const head = columns.map((name) => (name ? el("th", { scope: "col" }, name) : el("td")));
  return el(
    "div",
    { class: "scroll", tabIndex: 0, role: "group", "aria-label": caption },
    el(
      "table",
      { class: name },
      el("caption", { class: "unseen" }, caption),
      el("thead", {}, el("tr", {}, head)),
      el("tbody", {}, rows),
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

function probe({ probe: read, scores: { consistency_light: predicted } }) {
  if (read === null) return null;
  const { training_set: set, distance_percentile: far, out_of_domain: isFar } = read;
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

function scores({ scores: values, reasons, estimator }, estimators) {
  const names = Object.keys(values);
  names.sort((a, b) => (b === estimator) - (a === estimator));
  const rows = names.map((name) => {
    const value = values[name] === null ? "none" : number(values[name]);
    const told = estimators.get(name)?.formula ?? "";
    const called = word(name);
    return el(
      "tr",
      { class: name === estimator ? "reported" : "" },
      el("th", { scope: "row" }, el("code", {}, name)),
      el("td", {}, value),
      el(
        "td",
        { class: "meaning" },
        called ? el("b", {}, `${called[0].toUpperCase()}${called.slice(1)}. `) : null,
        reasons[name] ? `${told} Here: ${reasons[name]}.` : told,
      ),
    );
  });
  return part(
    "Every score",
    el("p", { class: "hint" }, "Higher is less sure. The first is the one reported as the uncertainty."),
    table("Every score", ["Score", "Value", "What it is"], rows, "stacked"),
  );
}

function stageName(name, mode) {
  return name === "generate" && mode === "light" ? "answer" : STAGES[name];
}

function times({ timing_ms: ms, cached, usage, mode }, run) {
  const known = Object.keys(STAGES).filter((name) => ms[name] > 0);
  const whole = known.reduce((sum, name) => sum + ms[name], 0); // flex fills from a sum of 1 on
  const bar = el("div", { class: "stages", "aria-hidden": "true" });
  const list = el("dl", { class: "times" });
  for (const name of known) {
    const stage = el("span", { "data-stage": name });
    stage.style.setProperty("flex-grow", (100 * ms[name]) / whole);
    bar.append(stage);
    const dot = el("span", { class: "dot", "data-stage": name, "aria-hidden": "true" });
    list.append(el("div", {}, el("dt", {}, dot, stageName(name, mode)), el("dd", {}, time(ms[name]))));
  }
  const read = `${usage.prompt_tokens} tokens read, ${usage.completion_tokens} of the answer and ${usage.sample_tokens} of samples written`;
  const first = run.firstToken === null ? "" : `First token here after ${time(run.firstToken)}, `;
  const last = `everything after ${time(run.total)}; ${time(ms.total)} of that in the service`;
  return part(
    "Time",
    cached ? el("p", {}, "From the cache: nothing was generated anew.") : null,
    bar,
    list,
    el("p", { class: "note" }, `${first}${last}. ${read}.`),
  );
}

/** The request as code, a language a tab. */
function code({ url, body, withKey }) {
  const tabs = el("div", { class: "tabs", role: "tablist", "aria-label": "Language" });
  const panelId = newId("code");
  const text = el("pre", { tabIndex: 0 });
  const copied = el("span", { role: "status", class: "hint" });
  const copy = el("button", { type: "button" }, "Copy");
  const panel = el("div", { role: "tabpanel", id: panelId }, text, copy, " ", copied);
  const show = (tab, write) => {
    for (const one of tabs.children) one.setAttribute("aria-selected", String(one === tab));
    for (const one of tabs.children) one.tabIndex = one === tab ? 0 : -1;
    text.textContent = write(url, body, withKey);
    text.setAttribute("aria-label", `The request in ${tab.textContent}`);
    panel.setAttribute("aria-labelledby", tab.id);
    copied.textContent = "";
  };
  for (const [name, write] of Object.entries(LANGUAGES)) {
    const id = newId("tab");
    const tab = el("button", { type: "button", role: "tab", id, "aria-controls": panelId }, name);
    tab.addEventListener("click", () => show(tab, write));
    tabs.append(tab);
  }
  roving(tabs, "[role=tab]", (tab) => tab.click());
  show(tabs.firstChild, LANGUAGES.curl);
  copy.addEventListener("click", async () => {
    copied.textContent = (await copyText(text)) ? "Copied." : "Select it and copy: the browser did not let the page.";
  });
  return el(
    "details",
    { class: "part code" },
    el("summary", {}, "The same as curl, Python, JavaScript"),
    tabs,
    panel,
  );
}

async function copyText(element) {
  try {
    await navigator.clipboard.writeText(element.textContent);
    return true;
  } catch {
    // without https the clipboard is not ours; the selection is
    getSelection().selectAllChildren(element);
    return document.execCommand("copy");
  }
}

/** Full and light in one table. */
export function comparison(runs) {
  const row = (name, tell) => {
    const cells = runs.map((run) => el("td", {}, tell(run)));
    return el("tr", {}, el("th", { scope: "row" }, name), cells);
  };
  const [slow, fast] = [...runs].sort((a, b) => b.total - a.total);
  const ratio = slow.total / fast.total;
  const rows = [
    row("Answer", ({ result }) => result.text.trim() || "(nothing)"),
    row("Confidence", ({ result }) => (result.confidence === null ? "–" : percent(result.confidence))),
    row("Uncertainty", ({ result }) => `${number(result.uncertainty)} (${result.estimator})`),
    row("Verdict", ({ result }) => passes(result.decision)),
    row("Samples drawn", ({ result }) => String(result.num_samples)),
    row("Tokens written", ({ result: { usage } }) => String(usage.completion_tokens + usage.sample_tokens)),
    row("First token", (run) => (run.firstToken === null ? "–" : time(run.firstToken))),
    row("Everything", (run) => time(run.total)),
  ];
  const columns = ["", ...runs.map((run) => TITLES[run.mode])];
  return el(
    "section",
    { class: "card" },
    el("h3", {}, "Light against full"),
    el(
      "p",
      {},
      `${TITLES[fast.mode]} took ${time(fast.total)}, ${TITLES[slow.mode].toLowerCase()} ` +
        `${ratio.toFixed(1)} times as long. One after the other, without the cache.`,
    ),
    table("Light against full", columns, rows),
  );
}

function passes(decision) {
  if (decision === null) return "none";
  return decision.accept ? "✓ may pass" : "✕ does not pass";
}
