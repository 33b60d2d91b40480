// The answer as its tokens, shaded by surprise.

import { el, number, percent, roving } from "./dom.js";

// Nats at which shade and bar are full: one chance in 55.
const FULL = 4;
const HINT = matchMedia("(hover: none)").matches
  ? "Tap a token to read how likely it was."
  : "Point at a token, or use the arrow keys, to read how likely it was.";

/** The answer of one run; `add` as tokens come, `finish` with those of the result. */
export class Tokens {
  constructor() {
    this.row = el("div", {
      class: "tokens",
      role: "toolbar",
      "aria-label": "Tokens of the answer; the arrow keys go from one to the next",
    });
    this.detail = el("p", { class: "detail" }, HINT);
    this.root = el("div", {}, this.row, this.detail, legend());
    this.root.hidden = true;
    roving(this.row, ".token");
    for (const name of ["focusin", "pointerover", "click"]) {
      this.row.addEventListener(name, (event) => this.#tell(event.target.closest(".token")));
    }
    this.count = 0;
  }

  add(token) {
    this.root.hidden = false;
    this.#append(token, token.text === "" ? "·" : token.text);
  }

  /** Shows the tokens of the result, which know the end from half a character. */
  finish(tokens, isStopped) {
    const focused = this.row.contains(document.activeElement);
    this.row.replaceChildren();
    this.count = 0;
    this.root.hidden = tokens.length === 0;
    tokens.forEach((token, i) => {
      const isEnd = isStopped && i === tokens.length - 1 && token.text === "";
      this.#append(token, isEnd ? "end" : token.text || "·", isEnd);
    });
    if (focused) this.row.querySelector(".token")?.focus();
  }

  #append(token, text, isEnd = false) {
    const surprise = token.logprob === null ? null : Math.max(0, -token.logprob);
    // Blanks before a word stand outside, where a line may break; what ends a line is shown.
    // Line breaks before the answer, as behind a reasoning, are left out.
    const isFirst = !this.row.textContent.trim();
    if (isFirst) text = text.replace(/^[ \t]*[\r\n]\s*/, "");
    if (text === "") return;
    const word = text.replace(/^ +(?=\S)/, "");
    const shown = word.replaceAll("\n", "⏎");
    const button = el("button", { type: "button", class: "token" }, shown);
    if (this.count > 0) this.row.append(" ".repeat(text.length - word.length));
    if (isEnd) button.classList.add("end");
    button.tabIndex = this.count === 0 ? 0 : -1;
    const what = isEnd ? "end of the answer" : `“${text.replaceAll("\n", "⏎")}”`;
    button.dataset.told = `${what}: ${meaning(surprise, token.entropy)}`;
    button.setAttribute("aria-label", button.dataset.told);
    if (surprise === null) button.classList.add("unknown");
    button.style.setProperty("--s", Math.min(1, (surprise ?? 0) / FULL).toFixed(3));
    this.row.append(button);
    if (text.includes("\n")) this.row.append(el("br"));
    this.count += 1;
  }

  #tell(button) {
    if (!button) return;
    this.row.querySelector(".told")?.classList.remove("told");
    button.classList.add("told");
    this.detail.textContent = button.dataset.told;
  }
}

function meaning(surprise, entropy) {
  if (surprise === null) return "its chance is not known yet";
  const facts = [
    `the model gave it a chance of ${percent(Math.exp(-surprise))}`,
    `surprise ${number(surprise)}`,
  ];
  if (entropy !== null) facts.push(`entropy ${number(entropy)} (0: no other token was likely)`);
  return facts.join(" · ");
}

function legend() {
  const steps = [0, 0.25, 0.5, 0.75, 1].map((share) => {
    const step = el("span", { class: "token step" }, percent(Math.exp(-share * FULL)));
    step.style.setProperty("--s", share);
    return step;
  });
  return el(
    "p",
    { class: "legend", "aria-hidden": "true" },
    "chance that the model gave the token ",
    steps,
    " and less",
  );
}
