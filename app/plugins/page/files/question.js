// A question as text, for a link's fragment and for the list of earlier ones. Neither is ever sent.

const NAME = "cocoa-questions";
const MAX_QUESTIONS = 20;
const MAX_CHARACTERS = 20_000;
const FIELDS = [
  "prompt", "system", "documents", "answer", "mode", "input", "target_error",
  "num_samples", "max_new_tokens", "temperature", "seed", "units", "schema", "tools", "estimator",
  "other_num_samples", "other_temperature", "other_estimator",
];
const TICKS = ["all", "cache", "must_call"];

/** All that the form asks, and the chat before it. */
export function written(fields, turns) {
  const question = new URLSearchParams();
  for (const name of FIELDS) question.set(name, fields[name].value);
  for (const name of TICKS) question.set(name, fields[name].checked ? "yes" : "");
  if (turns.length) question.set("turns", JSON.stringify(turns));
  return question.toString();
}

/** Fill in the form with a question; returns the turns of its chat. Whoever wrote it may lie. */
export function restore(text, fields) {
  const question = new URLSearchParams(text);
  for (const name of FIELDS) {
    const choices = Array.from(fields[name].options ?? fields[name], (one) => one.value);
    const value = question.get(name);
    if (value === null || (choices.length && !choices.includes(value))) continue;
    fields[name].value = value;
  }
  for (const name of TICKS) {
    if (question.has(name)) fields[name].checked = question.get(name) === "yes";
  }
  try {
    return JSON.parse(question.get("turns") ?? "[]").filter(isTurn);
  } catch {
    return [];
  }
}

function isTurn(one) {
  return ["user", "assistant"].includes(one?.role) && typeof one.content === "string";
}

/** Earlier questions of this browser, the latest first: `question`, `prompt`, `told`. */
export function earlier() {
  try {
    return JSON.parse(localStorage.getItem(NAME) ?? "[]");
  } catch {
    return []; // a browser that keeps nothing
  }
}

/** Keep a question, in place of the same one before; what is too long is not kept. */
export function keep(one) {
  if (one.question.length > MAX_CHARACTERS) return;
  const others = earlier().filter(({ question }) => question !== one.question);
  store([one, ...others].slice(0, MAX_QUESTIONS));
}

export function forget() {
  store([]);
}

function store(questions) {
  try {
    localStorage.setItem(NAME, JSON.stringify(questions));
  } catch {
    // it holds for this visit
  }
}
