// Errors in words.

import { ServiceError } from "./api.js";
import { el } from "./dom.js";
import { withoutAddresses } from "./words.js";

const TITLES = {
  not_ready: "Not ready yet",
  overloaded: "Too much to do at the moment",
  rate_limited: "The limit of this key is reached",
  unauthorized: "A key is needed",
  broken_json: "This is no JSON",
  deadline_exceeded: "It took too long",
  no_connection: "No connection",
};

/** Code, message and field of an error; of a lost connection, too. */
export function bodyOfError(error) {
  if (error instanceof ServiceError) return error.body;
  return { code: "no_connection", message: "the service was not reached, or the connection broke" };
}

/** What went wrong, where, and what helps: `act` is a button, or null. */
export function problem(error, act) {
  const { code, message, field, details, request_id: id } = bodyOfError(error);
  const faults = (details ?? []).slice(1).map((one) => el("li", {}, fault(one)));
  const facts = [
    ["Code", el("code", {}, code)],
    ["Field", field ? el("code", {}, field) : null],
    ["HTTP status", error.status ? String(error.status) : null],
    ["Request", id ? el("code", {}, id) : null],
  ];
  const list = facts
    .filter(([, value]) => value)
    .map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
  return el(
    "div",
    { class: "card error", role: "alert", id: "error-message", tabIndex: -1 },
    el("h3", {}, TITLES[code] ?? "That did not work"),
    el("p", {}, sentence(withoutAddresses(message))),
    faults.length ? el("ul", {}, faults) : null,
    el("p", {}, advice(error, code, field)),
    act && el("p", {}, act),
    el("dl", { class: "facts" }, list),
  );
}

function advice(error, code, field) {
  if (code === "not_ready") {
    return "The models are loading, which takes from seconds to minutes, or the service is going down. The page looks each second, and says at the top when it is ready.";
  }
  if (error.status === 401) return "Put one in under “API key”.";
  if (error.retryAfter) return `It may work again in ${error.retryAfter} s.`;
  if (code === "chat_template_error" && field !== "messages") {
    return "This model takes a question alone: empty the system prompt under “Options”, and begin a new chat.";
  }
  if (error.status === 422 || code === "broken_json") return "Change it, and ask again.";
  if (error.status === 503 || error.status === null) return "It may be repeated.";
  return "";
}

function fault({ field, message }) {
  const words = withoutAddresses(message);
  return field ? `${field}: ${words}` : words;
}

function sentence(words) {
  return `${words[0].toUpperCase()}${words.slice(1)}${/[.?!]$/.test(words) ? "" : "."}`;
}
