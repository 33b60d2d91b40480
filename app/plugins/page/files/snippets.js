// The same request as code. A key is never written out: it stands in the environment.

export const LANGUAGES = { curl, Python: python, JavaScript: javascript };

function curl(url, body, withKey) {
  const auth = withKey ? ` \\\n  -H "Authorization: Bearer $COCOA_API_KEY"` : "";
  const data = JSON.stringify(body, null, 2).replaceAll("'", `'\\''`);
  return `curl -s '${url}' \\\n  -H 'Content-Type: application/json'${auth} \\\n  -d '${data}'`;
}

function python(url, body, withKey) {
  const auth = withKey
    ? `\n    headers={"Authorization": f"Bearer {os.environ['COCOA_API_KEY']}"},`
    : "";
  return `${withKey ? "import os\n\n" : ""}import httpx

response = httpx.post(
    ${JSON.stringify(url)},${auth}
    json=${literal(body, "    ")},
    timeout=90,
)
response.raise_for_status()
answer = response.json()
print(answer["text"], answer["uncertainty"], answer["confidence"])`;
}

/** A value as Python writes it. */
function literal(value, indent) {
  if (value === true) return "True";
  if (value === false) return "False";
  if (value === null) return "None";
  if (typeof value !== "object") return JSON.stringify(value);
  const deeper = `${indent}    `;
  const isList = Array.isArray(value);
  const items = isList
    ? value.map((one) => `${deeper}${literal(one, deeper)},\n`)
    : Object.entries(value).map(
        ([name, one]) => `${deeper}${JSON.stringify(name)}: ${literal(one, deeper)},\n`,
      );
  const [open, close] = isList ? "[]" : "{}";
  return `${open}\n${items.join("")}${indent}${close}`;
}

function javascript(url, body, withKey) {
  const auth = withKey
    ? "\n    Authorization: `Bearer ${process.env.COCOA_API_KEY}`,"
    : "";
  const data = JSON.stringify(body, null, 2).replaceAll("\n", "\n  ");
  return `const response = await fetch(${JSON.stringify(url)}, {
  method: "POST",
  headers: {
    "Content-Type": "application/json",${auth}
  },
  body: JSON.stringify(${data}),
});
if (!response.ok) throw new Error((await response.json()).error.message);
const answer = await response.json();
console.log(answer.text, answer.uncertainty, answer.confidence);`;
}
