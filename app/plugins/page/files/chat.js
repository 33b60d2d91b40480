// How the prompt is sent: as text that the model continues, or as the latest message of a chat.

import { el } from "./dom.js";

/** The chat of a form: its earlier turns, and which form of input the service takes. */
export class Chat {
  #turns = [];
  #form; // the form's elements
  #list; // where the turns are shown
  #preferred = "messages";
  #isSwitched = false;
  takesTurns = true; // whether the model's template takes more than one message

  constructor(form, list) {
    this.#form = form;
    this.#list = list;
  }

  /** A new question: the other form of input may be tried once. */
  begin() {
    this.#isSwitched = false;
  }

  /** The part of a request's body that holds the prompt. */
  input() {
    const prompt = this.#form.prompt.value;
    const system = this.#form.system.value.trim();
    const shown = this.#form.tools.value.trim() + this.#form.documents.value.trim(); // in a chat alone
    const isChat = this.#turns.length > 0 || system !== "" || shown !== "";
    const chosen = this.#form.input.value;
    const kind = chosen === "auto" ? this.#preferred : chosen;
    if ((kind === "prompt" || prompt === "") && !isChat) return { prompt };
    const messages = [...this.#turns, { role: "user", content: prompt }];
    if (system) messages.unshift({ role: "system", content: system });
    return { messages };
  }

  /**
   * Whether the same is to be asked in the other form: where none was chosen, the model's chat
   * template and its calibrator decide.
   */
  switched(body, { code, message }) {
    const isRefused =
      code === "chat_template_error" ||
      (code === "not_calibrated" && /^not calibrated for (messages|prompt):/.test(message));
    const isFree = this.#form.input.value === "auto" && (body.messages ?? [0]).length === 1 && !body.tools && !body.documents;
    if (!isRefused || !isFree || this.#isSwitched) return false;
    this.#preferred = body.messages ? "prompt" : "messages";
    this.#isSwitched = true;
    return true;
  }

  /** Make what was asked and answered the turns before the next question. */
  goOn(messages, answer) {
    const turns = messages.filter((one) => one.role !== "system");
    this.turns = [...turns, { role: "assistant", content: answer.trim() }];
    this.#form.prompt.value = "";
    this.#form.prompt.focus();
  }

  get turns() {
    return this.#turns;
  }

  set turns(turns) {
    this.#turns = turns;
    this.#show();
  }

  #show() {
    const again = el("button", { type: "button", class: "quiet" }, "New chat");
    again.addEventListener("click", () => {
      this.turns = [];
      this.#form.prompt.focus();
    });
    const items = this.#turns.map(({ role, content }) =>
      el("li", {}, el("b", {}, role === "user" ? "You: " : "Model: "), content),
    );
    const shown = el("ol", { "aria-label": "The chat so far" }, items);
    this.#list.replaceChildren(...(items.length ? [shown, again] : []));
  }
}
