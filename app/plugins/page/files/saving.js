// Answers and questions as files.

import { el } from "./dom.js";

/** A button that saves what `make` gives as a file of this name; JSON, or CSV for rows of cells. */
export function saving(words, name, make) {
  const button = el("button", { type: "button", class: "quiet" }, words);
  button.addEventListener("click", () => {
    const isTable = name.endsWith(".csv");
    const text = isTable ? csv(make()) : JSON.stringify(make(), null, 2);
    const url = URL.createObjectURL(new Blob([text], { type: isTable ? "text/csv" : "application/json" }));
    el("a", { href: url, download: name }).click();
    URL.revokeObjectURL(url);
  });
  return button;
}

/** Rows as CSV; what a spreadsheet would take for a formula begins with an apostrophe. */
function csv(rows) {
  const cell = (value) => {
    const text = String(value ?? "").replace(/^[=+\-@\t\r]/, "'$&");
    return `"${text.replaceAll('"', '""')}"`;
  };
  return rows.map((row) => row.map(cell).join(",")).join("\r\n");
}
