// The page: form to request, request to answer, errors to words.

import { GENERATE, SCORE, ServiceError, ask, get, send } from "./api.js";
import { Chat } from "./chat.js";
import { comparison } from "./comparison.js";
import { el, percent } from "./dom.js";
import { readJson } from "./json.js";
import { bodyOfError, problem } from "./problems.js";
import { earlier, forget, keep, restore, written } from "./question.js";
import { Run } from "./run.js";
import { saving } from "./saving.js";
import { Targets } from "./targets.js";
import { withoutAddresses } from "./words.js";

const EXAMPLES = {
  Facts: ["What is the capital of France?", "Which country is Pirot in?"],
  Arithmetic: ["What is 17 + 25?", "What is 64 - 27?"],
  Translation: ["How do you say 23 in German?", "How do you say 40 in French?"],
};
const EXAMPLES_OF_PARAGRAPHS = {
  Paragraphs: ["Tell me about Lima.", "Tell me about Nairobi."],
  Facts: ["What is the capital of France?", "Which country is Pirot in?"],
};
// Of the models that ship with the service; "-second" is one of the same kind.
const TOY = /^embedded(-long)?(-second)?$/;
const KNOWLEDGE =
  "capitals, currencies and continents, countries of large cities, small sums, and numbers and names in German, French and Spanish";
const KNOWLEDGE_OF_PARAGRAPHS = "a little of cities and countries, some of them invented";
const AGAIN_MS = 1000;
const byId = (id) => document.getElementById(id);
const form = byId("form");
const chat = new Chat(form.elements, byId("turns"));
const targets = new Targets(form);

const recorded = get("page/examples.json", "");
let estimators = { all: new Map(), light: [] };
let controller = null; // of what is under way
let lookout = 0; // the latest look at the service
let looked = null; // ends with that look

/** What the service can do; looks again while its models load. */
async function look() {
  const mine = (lookout += 1);
  try {
    const list = await get("estimators", byId("key").value);
    const version = await get("version", byId("key").value);
    if (mine !== lookout) return;
    estimators = { all: new Map(list.estimators.map((one) => [one.name, one])), light: list.light };
    targets.offer(version.calibrator);
    chat.takesTurns = version.model_takes_turns;
    const here = list.estimators.filter((one) => one.available);
    byId("estimators").replaceChildren(...here.map(({ name }) => el("option", { value: name })));
    const [isToy, isLong] = TOY.exec(version.model.id) ?? [];
    offerExamples(isLong ? EXAMPLES_OF_PARAGRAPHS : EXAMPLES);
    byId("toy").hidden = !isToy;
    byId("toy").textContent = `“${version.model.id}” is a toy that ships with the service, to try it without a download. It knows ${isLong ? KNOWLEDGE_OF_PARAGRAPHS : KNOWLEDGE}, and makes the rest up.`;
    state("ready", `Ready: ${version.model.id}${isToy ? ", a toy" : ""}`);
    if (byId("notice").dataset.code === "not_ready") clear(byId("notice"));
    showExamples(); // again, as what each score is called is known now
  } catch (error) {
    if (mine !== lookout) return;
    const code = error instanceof ServiceError ? error.body.code : null;
    if (error.status === 401) {
      state("key", "Wants an API key");
      byId("key-options").open = true;
      return;
    }
    if (code === null) state("lost", "Not reached; looking again …");
    else if (code === "not_ready") state("wait", "Models are loading …");
    else state("lost", `${code}; looking again …`);
    setTimeout(() => mine === lookout && lookAgain(), AGAIN_MS);
  }
}

function lookAgain() {
  looked = look();
}

function state(name, words) {
  byId("state").dataset.state = name;
  byId("state").textContent = words;
}

/** The body of a request in a mode; what is left empty is left to the service. */
function bodyOf(mode, isCompared) {
  const other = (name) => (mode === "other" && form.elements[`other_${name}`]?.value.trim()) || "";
  const field = (name) => other(name) || form.elements[name].value.trim();
  const body = chat.input();
  const schema = form.elements.schema.value.trim();
  if (schema && mode === "given") Object.assign(body, { json_schema: typed("schema"), units: "fields" });
  else if (schema) body.response_format = { type: "json_schema", json_schema: { name: "answer", schema: typed("schema") } };
  if (field("tools") && mode !== "given") {
    body.tools = toolsOf(typed("tools"));
    if (form.elements.must_call.checked) body.tool_choice = "required";
  }
  const documents = form.elements.documents.value.split(/^\s*-{3,}\s*$/m).map((one) => one.trim());
  if (documents.some(Boolean)) body.documents = documents.filter(Boolean);
  if (mode === "given") body.answer = form.elements.answer.value;
  else body.mode = mode === "other" ? "full" : mode;
  for (const name of ["max_new_tokens", "seed", "target_error"]) {
    if (field(name)) body[name] = given(field(name));
  }
  if (mode !== "light") {
    if (field("num_samples")) body.num_samples = given(field("num_samples"));
    if (field("temperature")) body.temperature = given(field("temperature"));
    body.explain = true;
    body.return_samples = true;
  }
  if (form.elements.units.value) body.units = form.elements.units.value;
  if (form.elements.all.checked) body.estimators = everyEstimator(mode);
  if (field("estimator")) body.estimator = field("estimator");
  if (isCompared || !form.elements.cache.checked) body.cache = false;
  body.return_tokens = true;
  return body;
}

/** The JSON that was typed into a box. */
function typed(name) {
  return readJson(form.elements[name].value, name, titleOf(form.elements[name]));
}

/** What people call a box. */
function titleOf(box) {
  return box.labels?.[0]?.textContent.trim() ?? box.id;
}

/** Tools as the service takes them: a function may stand alone, and without a list. */
function toolsOf(told) {
  if (told === null || typeof told !== "object") return told;
  return [told].flat().map((one) => (one?.name ? { type: "function", function: one } : one));
}

/** A number where it is one; else what was typed, so that the service says what is wrong. */
function given(text) {
  const value = Number(text);
  return Number.isNaN(value) ? text : value;
}

function everyEstimator(mode) {
  const here = [...estimators.all.values()].filter((one) => one.available);
  const isLight = (name) => estimators.light.includes(name) || name.endsWith("_light");
  return here.map((one) => one.name).filter((name) => mode !== "light" || isLight(name));
}

async function submit() {
  stop();
  const mine = (controller = new AbortController());
  const wanted = form.elements.mode.value;
  const modes = { both: ["full", "light"], two: ["full", "other"] }[wanted] ?? [wanted];
  if (form.elements.answer.value) modes.splice(0, 2, "given");
  chat.begin();
  for (const id of ["notice", "comparison", "runs"]) clear(byId(id));
  targets.unwatch();
  for (const field of form.querySelectorAll("[aria-invalid]")) {
    field.removeAttribute("aria-invalid");
    field.removeAttribute("aria-errormessage");
  }
  byId("intro")?.remove();
  byId("results").setAttribute("aria-busy", "true");
  say("Asking. Escape cancels.");
  const runs = [];
  try {
    await looked; // a key that was typed just now may bring verdicts
    if (mine.signal.aborted) return;
    const question = written(form.elements, chat.turns);
    const prompt = form.elements.prompt.value;
    for (const mode of modes) {
      const run = new Run(mode, stop, prompt);
      byId("runs").append(run.root);
      if (runs.push(run) === 1) show(run.root);
      if (!(await answer(run, modes.length > 1, mine, question))) return;
    }
    if (runs.length > 1) byId("comparison").append(comparison(runs));
    say(runs.map(inWords).join(" "));
    keep({ question, prompt, told: toldOf(runs[0].result) });
    listEarlier();
  } finally {
    if (controller === mine) {
      controller = null;
      byId("results").setAttribute("aria-busy", "false");
    }
  }
}

/** Whether a run came to its result. */
async function answer(run, isCompared, mine, question) {
  const key = byId("key").value;
  const path = run.mode === "given" ? SCORE : GENERATE;
  try {
    const { body, result, refusal } = await answered(run, isCompared, mine.signal, key);
    const url = new URL(path, document.baseURI).href;
    run.finish(result, {
      estimators: estimators.all,
      targets,
      request: { url, body, withKey: key !== "" },
      refusal,
      acts: {
        key,
        goOn: body.messages && chat.takesTurns && !result.tool_calls?.length && (() => goOn(body.messages, result.text)),
        link: new URL(`#${question}`, location.href).href,
      },
    });
    return true;
  } catch (error) {
    if (mine.signal.aborted) {
      run.stop("Cancelled; the service has stopped working on it.");
      if (controller === mine) say("Cancelled.");
    } else if (run.firstToken === null) {
      run.stop("No answer.");
      run.root.remove();
      fail(error);
    } else {
      run.stop("The answer ended in an error.");
      fail(error);
    }
    return false;
  }
}

/** What is answered, to which body, and why it has no verdict where one was wanted. */
async function answered(run, isCompared, signal, key) {
  const on = {
    alive: () => run.alive(),
    reasoning: (text) => run.reason(text),
    token: (token) => run.token(token),
  };
  for (let refusal = null; ; ) {
    const body = bodyOf(run.mode, isCompared);
    if (refusal) delete body.target_error;
    try {
      const isGiven = run.mode === "given";
      const result = await (isGiven ? send(SCORE, body, key, signal) : ask(body, key, signal, on));
      return { body, result, refusal };
    } catch (error) {
      if (error.body && chat.switched(body, error.body)) continue;
      // The verdict is an offer of the page: where none can be given, the answer comes without.
      const isVerdict = error.body?.code === "not_calibrated" && error.body.field === "target_error";
      if (!isVerdict || refusal) throw error;
      refusal = `None can be given: ${withoutAddresses(error.body.message)}.`;
    }
  }
}

function goOn(messages, text) {
  setAnswer("");
  chat.goOn(messages, text);
}

function toldOf({ text, confidence }) {
  return confidence === null ? text.trim() : `${text.trim()} (${percent(confidence)} sure)`;
}

/** Fill in the form with a question of a link or of the list; it is not asked by itself. */
function fillForm(question) {
  targets.expect(Number(new URLSearchParams(question).get("target_error")));
  chat.turns = restore(question, form.elements);
  targets.show();
  offerAgainst();
  setAnswer(form.elements.answer.value);
  byId("given").open = form.elements.answer.value + form.elements.documents.value !== "";
  form.elements.prompt.focus();
}

function listEarlier() {
  const items = earlier().map(({ question, prompt, told }) => {
    const button = el("button", { type: "button" }, prompt.slice(0, 100));
    button.addEventListener("click", () => fillForm(question));
    return el("li", {}, button, el("p", { class: "note" }, told.slice(0, 100)));
  });
  byId("earlier").hidden = items.length === 0;
  byId("earlier-list").replaceChildren(...items);
}

/** Finished answers to look at, one that is sure and one that is not, before there is one of this service. */
async function showExamples() {
  const examples = await recorded;
  if (!byId("recorded")) return; // there is an answer
  targets.unwatch();
  const runs = examples.map(({ request, response }) => {
    const run = new Run("example", stop, request.prompt);
    run.finish(response, { estimators: estimators.all, targets, refusal: null });
    return run.root;
  });
  byId("recorded").replaceChildren(...runs);
}

function inWords({ mode, result }) {
  const grounded = typeof result.grounded === "number" ? ` Documents say ${percent(result.grounded)} of it.` : "";
  const sure = result.confidence === null ? "" : ` Confidence ${percent(result.confidence)}.`;
  const pass = result.decision ? (result.decision.accept ? " May pass." : " Does not pass.") : "";
  return `Answer, ${mode}: ${result.text.trim()}.${sure}${pass}${grounded}`;
}

function stop() {
  controller?.abort();
}

/** Scroll to what begins far from the top of the window, as on a phone. */
function show(element) {
  const { top } = element.getBoundingClientRect();
  if (top < 0 || top > 0.3 * innerHeight) element.scrollIntoView();
}

function say(words) {
  byId("live").textContent = words;
}

function clear(element) {
  element.replaceChildren();
  delete element.dataset.code;
}

function fail(error) {
  const { code, field, at } = bodyOfError(error);
  const notice = byId("notice");
  notice.dataset.code = code;
  const box = boxOf(error.status === 401 ? "key" : field);
  notice.replaceChildren(problem(error, box && leadTo(box, at)));
  say("");
  show(notice);
  notice.firstChild.focus({ preventScroll: true });
  if (code === "not_ready") lookAgain();
}

/** The box of the form that a field of the request is typed into, marked as at fault; null where there is none. */
function boxOf(name) {
  if (!name) return null;
  const places = {
    messages: "prompt", target_error: "target-step", response_format: "schema", json_schema: "schema",
    tool_choice: "tools", estimators: "estimator", documents: "documents", documents_in: "documents",
  };
  const place = places[name.split(".")[0]] ?? name;
  const box = byId(place);
  if (!box || !form.contains(box)) return null;
  const folded = box.closest("details");
  if (folded) folded.open = true;
  box.setAttribute("aria-invalid", "true");
  box.setAttribute("aria-errormessage", "error-message");
  return box;
}

/** A button that leads to a box, and in its text to the place that is at fault. */
function leadTo(box, at) {
  const button = el("button", { type: "button" }, `Go to “${titleOf(box)}”`);
  button.addEventListener("click", () => {
    box.focus();
    if (at !== undefined) box.setSelectionRange(at, at + 1);
  });
  return button;
}

/** Questions that the model can be asked, by topic; they are there before the service is. */
function offerExamples(topics) {
  const rows = Object.entries(topics).map(([topic, prompts]) => {
    const row = el("div", { class: "example-row", role: "group", "aria-label": topic }, prompts.map(example));
    return [el("p", { class: "topic", "aria-hidden": "true" }, topic), row];
  });
  byId("examples").replaceChildren(...rows.flat());
}

function example(prompt) {
  const button = el("button", { type: "button", class: "example" }, prompt);
  button.addEventListener("click", () => {
    chat.turns = [];
    form.elements.prompt.value = prompt;
    setAnswer("");
    submit();
  });
  return button;
}

function offerAgainst() {
  byId("against").hidden = form.elements.mode.value !== "two";
}

function setAnswer(text) {
  form.elements.answer.value = text;
  byId("ask").textContent = text ? "Score the answer" : "Ask";
}

offerExamples(EXAMPLES);
form.addEventListener("change", offerAgainst);
form.elements.answer.addEventListener("input", (event) => setAnswer(event.target.value));
form.addEventListener("submit", (event) => {
  event.preventDefault();
  submit();
});
form.elements.prompt.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
byId("key").addEventListener("change", lookAgain);
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") stop();
});
lookAgain();
const rows = () => [["prompt", "answer"], ...earlier().map(({ prompt, told }) => [prompt, told])];
byId("forget").before(
  saving("Save as JSON", "questions.json", earlier),
  saving("Save as CSV", "questions.csv", rows),
);
byId("forget").addEventListener("click", () => {
  forget();
  listEarlier();
});
addEventListener("hashchange", () => fillForm(location.hash.slice(1)));
listEarlier();
if (location.hash.includes("prompt=")) fillForm(location.hash.slice(1));
showExamples();
