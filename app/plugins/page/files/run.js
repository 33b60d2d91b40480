// One request on the page: its progress, its answer, and everything that is known of it.

import { code } from "./code.js";
import { el, newId, number, part, table, time } from "./dom.js";
import { fields } from "./fields.js";
import { grounds } from "./grounds.js";
import { rating } from "./rating.js";
import { probe, samples } from "./samples.js";
import { Statements } from "./statements.js";
import { Tokens } from "./tokens.js";
import { extent, gauge, verdict } from "./verdict.js";
import { factors, titleOf, withoutAddresses } from "./words.js";

export const TITLES = {
  full: "Full",
  light: "Light",
  other: "Other settings",
  given: "Your answer",
  example: "A recorded example",
};
const STAGES = {
  queue: "waiting for a place",
  generate: "answer and samples",
  similarity: "comparing",
  score: "scoring",
};
const WARNINGS = {
  documents_in_message: "The documents went before your last message: the model is not known to be shown any otherwise.",
  calibration_shift: "What is served lately is unlike what was calibrated.",
  empty_answer: "Nothing was said, which may look sure.",
  answer_truncated: "The answer was cut at its limit of tokens.",
  samples_truncated: "Samples were cut at their limit of tokens.",
  answer_refused: "The language model’s server refused to answer.",
  answer_filtered: "The filter of the language model’s server cut the answer.",
  finish_reason_unknown: "The language model’s server ended a text for a reason that is not known here.",
  samples_left_out: "The language model’s server refused or cut some samples: they are left out.",
  similarity_truncated: "A text was too long for the similarity model, and was cut.",
  similarity_out_of_domain: "The embedded similarity model does not know this language model’s answers.",
  reasoning_excluded: "The reasoning before the answer was left out of what is compared.",
  reasoning_unfinished: "The model was still reasoning at its limit of tokens: there is no answer yet.",
  prompt_out_of_domain: "The prompt is unlike those that were calibrated: no confidence holds for it.",
  out_of_domain: "The answer is unlike those that the probe was trained on: do not trust the light scores.",
  max_new_tokens_clamped: "Beside the prompt fewer new tokens fit than usual.",
  names_not_shown: "The chat template does not show the names of speakers.",
  reasoning_not_shown: "The reasoning of an earlier answer is not shown to the model.",
  text_beside_calls_not_shown: "The text of an earlier answer that calls tools is not shown to the model.",
  system_merged: "The model’s chat template takes no system message: it was put before the question.",
  tools_left_out: "Some tools are shown to no model, which calls none of them.",
  ignore_eos_left_out: "The answer ends where the model ends it, whatever “ignore_eos” says.",
  one_of_as_any_of: "“oneOf” is held as “anyOf”: the answer may be valid under several of its branches.",
  prompt_as_message: "The language model’s server takes no raw prompt: it was sent as a message.",
  no_eos_logprob: "The language model’s server does not tell how sure it is of the answer’s end.",
  temperature_not_heeded: "The language model’s server does not heed the temperature, or the nucleus.",
  top_k_not_heeded: "The language model’s server does not heed the number of likeliest tokens.",
  seed_not_heeded: "The language model’s server does not heed the seed.",
  draws_repeat: "Samples repeat that cannot be draws: what they would tell is left out.",
  answer_is_drawn: "The language model’s server has no greedy answer: the answer is a draw, too.",
  reasoning_not_told: "The language model’s server does not show its reasoning.",
  answer_not_json: "The answer is no JSON, and has no fields.",
  no_sentences: "The answer has no sentences.",
  sentences_shortened: "A sentence is long: only its beginning was compared.",
  claims_shortened: "A claim is long: only its beginning was compared.",
  quotes_not_found: "A quote of a claim does not occur in the answer.",
  units_cut: "The answer has more parts than are shown.",
  one_token_answer: "The probe had the prompt’s last state only to read.",
};
const SILENT_MS = 700;
const LOST_MS = 20_000;

/** The card of one request. */
export class Run {
  /**
   * `question` stands on the card; `mode` is "full", "light", "other" for full with the second settings,
   * "given" for an answer that somebody brings, or "example".
   */
  constructor(mode, cancel, question = "") {
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
      question && el("p", { class: "question" }, question),
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

  /** Everything that the result says; an example has no request, and nothing to do with it. */
  finish(result, { estimators, targets, request, refusal, acts }) {
    this.total = performance.now() - this.began;
    this.#end(request ? time(this.total) : "");
    this.result = result;
    this.request = request;
    this.thought.textContent = result.reasoning ?? "";
    this.reasoning.hidden = !result.reasoning;
    if (result.refusal) this.tokens.root.after(el("p", { class: "stopped" }, result.refusal));
    const isStopped = result.finish_reason !== "length";
    if (result.tokens) this.tokens.finish(result.tokens, isStopped);
    const statements = new Statements(result);
    const moved = el("p", { class: "note" }, "The slider has moved since: ask again for a verdict on the whole answer.");
    targets.watch("sentence", (chosen, target) => {
      statements.show(chosen);
      moved.hidden = !result.decision || target === result.decision.target_error;
    });
    this.body.replaceChildren(
      el("div", { class: "judged" }, gauge(result, estimators), verdict(result, refusal, moved)),
      ...[
        acts && rating(result, acts, request),
        warnings(result),
        explained(result, estimators),
        grounds(result, request?.body.documents),
        fields(result),
        statements.root,
        result.provenance.mode === "full" ? samples(result) : probe(result),
        scores(result, estimators),
        request && times(result, this),
        request && code(request),
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

function warnings({ warnings: codes }) {
  if (codes.length === 0) return null;
  const items = codes.map((name) => el("li", {}, el("code", {}, name), ` ${WARNINGS[name] ?? ""}`));
  return el("section", { class: "part warnings" }, el("h4", {}, "Take care"), el("ul", {}, items));
}

function explained(result, estimators) {
  const list = factors(result, estimators);
  return list && part("How the uncertainty comes about", list);
}

function scores({ scores: values, reasons, estimator }, estimators) {
  const names = Object.keys(values);
  names.sort((a, b) => (b === estimator) - (a === estimator));
  const rows = names.map((name) => {
    const value = values[name] === null ? "none" : number(values[name]);
    const known = estimators.get(name);
    const unit = known?.unit ? `, in ${known.unit}` : "";
    const told = known ? `${known.formula}. It runs${extent(known).replace(",", "")}${unit}. ${known.source}.` : "";
    return el(
      "tr",
      { class: name === estimator ? "reported" : "" },
      el("th", { scope: "row" }, el("code", {}, name)),
      el("td", {}, value),
      el(
        "td",
        { class: "meaning" },
        el("b", {}, `${titleOf(name, estimators)}. `),
        reasons[name] ? `${told} Here: ${withoutAddresses(reasons[name])}.` : told,
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

function times({ timing_ms: ms, cached, usage, provenance: { mode } }, run) {
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
  const thought = usage.reasoning_tokens ? ` (${usage.reasoning_tokens} of them reasoning)` : "";
  const read = `${usage.prompt_tokens} tokens read, ${usage.completion_tokens} of the answer${thought} and ${usage.sample_tokens} of samples written`;
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
