// What is asked of the service: one request, its stream of events, its typed errors.

export const GENERATE = "generate-with-uncertainty";
export const SCORE = "score";

/** An error of the service: what its body says, with its status and when to come back. */
export class ServiceError extends Error {
  constructor(status, body, retryAfter = null) {
    super(body.message);
    this.status = status;
    this.body = body;
    this.retryAfter = retryAfter;
  }
}

function headers(key) {
  return key ? { Authorization: `Bearer ${key}` } : {};
}

async function failure(response) {
  let body;
  try {
    body = (await response.json()).error;
  } catch {
    body = undefined; // not of this service: a proxy's page, say
  }
  body ??= { code: "no_answer", message: "what answers here is not this service", field: null };
  const seconds = Number(response.headers.get("Retry-After"));
  return new ServiceError(response.status, body, seconds > 0 ? seconds : null);
}

/** A JSON document of the service, such as "version". */
export async function get(path, key) {
  const signal = AbortSignal.timeout(5000);
  const response = await fetch(path, { headers: headers(key), cache: "no-store", signal });
  if (!response.ok) throw await failure(response);
  return response.json();
}

async function post(path, body, key, signal) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers(key) },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok) throw await failure(response);
  return response;
}

/** Send a body, and return the document that answers it. */
export async function send(path, body, key, signal) {
  return (await post(path, body, key, signal)).json();
}

/**
 * Ask, and tell of each token.
 *
 * on.alive() is called with whatever comes, heartbeats too; on.reasoning(text) with each piece of
 * what is written before the answer; on.token(token) with each token.
 * Returns the result.
 */
export async function ask(body, key, signal, on) {
  const response = await post(GENERATE, { ...body, stream: true }, key, signal);
  for await (const { name, data } of events(response.body, on.alive)) {
    if (name === "reasoning") on.reasoning(data.text);
    if (name === "token") on.token(data);
    if (name === "error") throw new ServiceError(null, data.error);
    if (name === "result") return data;
  }
  throw new TypeError("the stream ended without a result");
}

/** Server-sent events of a body: names and parsed data. */
async function* events(stream, alive) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    // A chunk may end anywhere, in the middle of a line or between \r and \n.
    pending += value;
    const cut = pending.endsWith("\r") ? pending.length - 1 : pending.length;
    const blocks = pending.slice(0, cut).replace(/\r\n?/g, "\n").split("\n\n");
    pending = blocks.pop() + pending.slice(cut);
    for (const block of blocks) {
      const event = parsed(block);
      if (event) yield event;
    }
  }
}

function parsed(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon < 1) continue; // a comment, or nothing
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (line.startsWith("event:")) name = value;
    if (line.startsWith("data:")) data.push(value);
  }
  return data.length ? { name, data: JSON.parse(data.join("\n")) } : null;
}
