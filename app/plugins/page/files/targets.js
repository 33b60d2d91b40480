// How many wrong answers may pass: a slider, and how many answers pass at each of its steps.

import { el, percent } from "./dom.js";

const DEFAULT = 0.1;
// Of the parts that a request may name.
const KINDS = { fields: "field", sentences: "sentence" };
// Estimators that are reported as the uncertainty where none is named, by mode.
const REPORTED = { full: ["rb_cocoa_root_sp", "cocoa_root_sp"], light: ["cocoa_sp_light"] };

/** The slider; its value is kept by a select of the form, so that links and requests read it. */
export class Targets {
  #form;
  #select;
  #part = (name) => document.getElementById(`target-${name}`);
  #calibrator = null;
  #watchers = [];

  constructor(form) {
    this.#form = form;
    this.#select = form.elements.target_error;
    this.#part("step").addEventListener("input", (event) => {
      this.#select.selectedIndex = event.target.valueAsNumber;
      this.show();
    });
    form.addEventListener("change", () => this.show());
  }

  /** Offer what the service's calibrator promises; what was chosen before stays. */
  offer(calibrator) {
    const select = this.#select;
    const kept = select.dataset.offered ? select.value : null;
    const targets = calibrator?.target_errors ?? [];
    select.replaceChildren(...targets.map(option), el("option", { value: "" }, "no verdict"));
    select.value = kept ?? (targets.includes(DEFAULT) ? String(DEFAULT) : "");
    if (select.selectedIndex < 0) select.value = "";
    select.dataset.offered = "yes";
    this.#calibrator = calibrator;
    this.#part("hint").textContent = calibrator
      ? `Promised by the calibrator, made of ${calibrator.source}.`
      : "This service has no calibrator: no confidence, no verdict.";
    this.show();
  }

  /** Choose a target that a link names, before it is known what the service offers. */
  expect(target) {
    if (this.#select.dataset.offered || !(target > 0 && target < 1)) return;
    this.#select.append(option(target));
    this.#select.dataset.offered = "yes";
  }

  /**
   * Tell now and with each change up to which uncertainty parts of this kind pass: `target_error`
   * and `uncertainty`, as in "version"; null where there is no target, or no promise of such parts.
   * The chosen target itself comes second.
   */
  watch(kind, tell) {
    const watcher = () => tell(this.#promised(this.#calibrator?.units[kind]), Number(this.#select.value));
    this.#watchers.push(watcher);
    watcher();
  }

  /** Tell nobody any more. */
  unwatch() {
    this.#watchers = [];
  }

  #promised(offered, value = this.#select.value) {
    return offered?.find((one) => value !== "" && one.target_error === Number(value)) ?? null;
  }

  /** Have the slider say what is chosen. */
  show() {
    const slider = this.#part("step");
    const steps = [...this.#select.options].map((one) => one.value);
    const mode = this.#form.elements.mode.value === "light" ? "light" : "full";
    const known = this.#calibrator?.thresholds ?? {};
    const kind = KINDS[this.#form.elements.units.value];
    const offered = kind
      ? this.#calibrator?.units[kind]
      : known[REPORTED[mode].find((one) => known[one])];
    const promised = (value) => {
      if (value === "") return { share_accepted: 1 };
      return this.#promised(offered, value) ?? {};
    };
    slider.max = String(steps.length - 1);
    slider.valueAsNumber = this.#select.selectedIndex;
    slider.hidden = this.#part("shares").hidden = steps.length < 2;
    const chosen = this.#select.value;
    const what = kind ?? "answer";
    const words = kind && chosen && this.#calibrator && !offered
      ? `The calibrator says nothing of ${kind}s: there is no verdict.`
      : saying(what, chosen, promised(chosen));
    slider.setAttribute("aria-valuetext", words);
    this.#part("said").textContent = steps.length < 2 ? "" : words;
    this.#part("shares").style.setProperty("--steps", steps.length);
    slider.style.setProperty("--steps", steps.length);
    this.#part("shares").replaceChildren(
      ...steps.map((value) => column(what, value, promised(value), value === chosen)),
    );
    for (const tell of this.#watchers) tell();
  }
}

function option(target) {
  return el("option", { value: String(target) }, `at most ${percent(target)}`);
}

function saying(what, value, { share_accepted: share, labels_missing: missing }) {
  if (value === "") return "No verdict: nothing is held against an answer.";
  const most = `At most ${percent(Number(value))} wrong`;
  if (share === undefined) return `${most}.`;
  if (share === 0) {
    const needed = missing ? `: about ${missing} more are needed` : "";
    return `${most}: no ${what} passes, the calibrator’s labels cannot promise it${needed}.`;
  }
  return `${most}: ${percent(share)} of ${what}s like the calibrator’s pass.`;
}

/**
 * A step of the slider: a bar as high as the share that passes, and what it stands for; grey, with
 * the reason as its title, where nothing can be promised.
 */
function column(what, value, promised, isChosen) {
  const share = promised.share_accepted;
  const isVain = share === 0;
  const bar = el("span", { class: "bar" });
  bar.style.setProperty("--share", share ?? 0);
  return el(
    "span",
    {
      class: `step${isChosen ? " chosen" : ""}${isVain ? " vain" : ""}`,
      title: isVain ? saying(what, value, promised) : "",
    },
    el("small", {}, share === undefined ? "" : percent(share)),
    bar,
    el("small", {}, value === "" ? "any" : percent(Number(value))),
  );
}
