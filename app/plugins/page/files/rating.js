// What is done with an answer: say whether it is right, go on with the chat, share its question.

import { send } from "./api.js";
import { el } from "./dom.js";
import { saving } from "./saving.js";

let isKept = true; // whether this service keeps labels, as far as is known

/** Buttons for what can be done. */
export function rating(result, { key, goOn, link }, request) {
  const { id } = result;
  const said = el("span", { class: "hint", role: "status" });
  const row = el("div", { class: "rating" });
  const label = (name, mark, correct) => {
    const button = el("button", { type: "button", class: "quiet", "aria-pressed": "false" });
    button.append(el("span", { "aria-hidden": "true" }, mark), ` ${name}`);
    button.addEventListener("click", async () => {
      said.textContent = "";
      try {
        await send("feedback", { id, correct }, key);
      } catch (error) {
        isKept = error.body?.code !== "feedback_disabled";
        said.textContent = isKept ? `Not kept: ${error.message}.` : "This service keeps no labels.";
        return;
      }
      for (const one of row.querySelectorAll("[aria-pressed]")) {
        one.setAttribute("aria-pressed", String(one === button));
      }
      said.textContent = "Kept: labels like this one calibrate the service.";
    });
    return button;
  };
  if (isKept) row.append("Is it right?", label("Right", "✓", true), label("Wrong", "✕", false));
  const button = (name, act) => {
    const made = el("button", { type: "button", class: "quiet" }, name);
    made.addEventListener("click", act);
    return made;
  };
  const share = async () => {
    history.replaceState(null, "", link);
    const isCopied = await navigator.clipboard?.writeText(link).then(() => true, () => false);
    said.textContent = isCopied
      ? "Copied. The link holds the question and its options, no key; the service never sees it."
      : "The link stands in the browser’s address bar.";
  };
  if (goOn) row.append(button("Go on with this chat", goOn));
  const whole = () => ({ request: request.body, response: result });
  row.append(button("Copy a link to the question", share), saving("Save as JSON", `${id}.json`, whole), said);
  return row;
}
