// The request as code on the page, a language a tab.

import { el, newId, roving } from "./dom.js";
import { LANGUAGES } from "./snippets.js";

export function code({ url, body, withKey }) {
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
