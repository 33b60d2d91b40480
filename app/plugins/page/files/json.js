// JSON that a person typed: its value, or where it is broken.

import { ServiceError } from "./api.js";

const OPEN = /[ \t\n\r]*([[{])/y;
const CLOSE = { "{": /[ \t\n\r]*\}/y, "[": /[ \t\n\r]*\]/y };
const COMMA = /[ \t\n\r]*,/y;
const COLON = /[ \t\n\r]*:/y;
const OPENING_QUOTE = /[ \t\n\r]*"/y;
const CHARACTERS = /(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[\da-fA-F]{4}))*/y;
const SCALAR = /[ \t\n\r]*(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)/y;
const SPACE = /[ \t\n\r]*/y;

/** The value of what stands in the box `field`, which people know as `title`. */
export function readJson(text, field, title) {
  try {
    return JSON.parse(text);
  } catch {
    throw brokenJson(text, field, title);
  }
}

/** An error like those of the service. Browsers say where in words of their own, or do not say it. */
function brokenJson(text, field, title) {
  const { at, where } = faultOf(text);
  const lines = text.slice(0, at).split("\n");
  const place = `line ${lines.length}, column ${[...lines.at(-1)].length + 1}`;
  const found = at < text.length ? `${place} is ${named(text, at)}` : `it ends at ${place}`;
  const message = `broken JSON in “${title}”: ${found}, where ${where}`;
  return new ServiceError(null, { code: "broken_json", message, field, at });
}

/** Up to where a text is JSON, and what is the case there. */
function faultOf(text) {
  let at = 0;
  const take = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) at = pattern.lastIndex;
    return found;
  };
  const need = (pattern, where) => {
    if (take(pattern)) return;
    take(SPACE);
    throw { at, where };
  };
  const string = (where) => {
    need(OPENING_QUOTE, where);
    take(CHARACTERS);
    if (text[at] === "\\") throw { at, where: "a backslash should be doubled" };
    if (text[at] !== '"') throw { at, where: "a text should end with a double quote" };
    at += 1;
  };
  const value = () => {
    const open = take(OPEN)?.[1];
    if (open) list(open, open === "{" ? member : value);
    else if (!take(SCALAR)) string("a value should be; texts have double quotes");
  };
  const member = () => {
    string("a name in double quotes should be");
    need(COLON, "a colon should be");
    value();
  };
  const list = (open, item) => {
    if (take(CLOSE[open])) return;
    do item();
    while (take(COMMA));
    need(CLOSE[open], `a comma or ${open === "{" ? "}" : "]"} should be`);
  };
  try {
    value();
    need(/[ \t\n\r]*$/y, "the JSON has ended");
  } catch (fault) {
    if (fault.where) return fault;
  }
  return { at, where: "it is nested too deep" }; // to be read here
}

/** What stands at a place, in words. */
function named(text, at) {
  const character = String.fromCodePoint(text.codePointAt(at));
  if (character === "\n") return "a line break";
  const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
  return /[\p{Z}\p{C}]/u.test(character) ? `the character U+${code}` : `“${character}”`;
}
