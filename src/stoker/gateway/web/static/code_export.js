// The request that would be sent, as a program's text. Pure. No key's value is in it: programs read it from $STOKER_KEY.

export const LANGUAGES = { curl: "curl", python: "Python", javascript: "JavaScript" };

/**
 * `request`: `{ path, body, call, form, reads }`. `path` begins with `v1/`. `call`: the method of the openai packages,
 * such as `chat.completions.create`; "": they have none. `form`: the field whose value is a file, if it is a form.
 * `reads`: what to do with the answer: `stream`, `text`, `file` or `json`.
 */
export function program(language, request, base, needsKey) {
  return { curl, python, javascript }[language](request, new URL("v1", base).href, needsKey);
}

function curl({ path, body, form, reads }, base, needsKey) {
  const lines = [`curl ${body.stream ? "-N " : ""}${base}${path.slice(2)}`];
  if (needsKey) lines.push('-H "Authorization: Bearer $STOKER_KEY"');
  if (form) for (const [name, value] of Object.entries(body)) lines.push(`-F ${quoted(`${name}=${name === form ? "@" : ""}${value}`)}`);
  else lines.push("-H 'Content-Type: application/json'", `-d ${quoted(JSON.stringify(body, null, 2))}`);
  if (reads === "file") lines.push("-o speech.wav");
  return lines.join(" \\\n  ");
}

function quoted(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

function python({ path, body, call, form, reads }, base, needsKey) {
  const value = (name) => (name === form ? `open(${JSON.stringify(body[name])}, "rb")` : literal(body[name], "    "));
  const given = Object.keys(body).map((name) => `    ${name}=${value(name)},`).join("\n");
  const asked = call ? `client.${call}(\n${given}\n)` : `client.post("${path.slice(2)}", cast_to=object, body=${literal(body, "")})`;
  const after = {
    stream: 'for chunk in answer:\n    if chunk.choices:\n        print(chunk.choices[0].delta.content or "", end="", flush=True)',
    text: "print(answer.text)", file: 'answer.write_to_file("speech.wav")', json: "print(answer)",
  }[reads];
  const imports = `${needsKey ? "import os\n\n" : ""}from openai import OpenAI`;
  return `${imports}\n\nclient = OpenAI(base_url="${base}", api_key=${needsKey ? 'os.environ["STOKER_KEY"]' : '"none"'})\nanswer = ${asked}\n${after}\n`;
}

/** A value as Python writes it. */
function literal(value, indent) {
  const inner = `${indent}    `;
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const entries = isList ? value.map((one) => literal(one, inner)) : Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${literal(one, inner)}`);
  const [open, close] = isList ? "[]" : "{}";
  return entries.length ? `${open}\n${entries.map((one) => `${inner}${one},\n`).join("")}${indent}${close}` : open + close;
}

function javascript({ path, body, call, form, reads }, base, needsKey) {
  const shown = JSON.stringify(body, null, 2);
  const given = form ? shown.replace(JSON.stringify(body[form]), `fs.createReadStream(${JSON.stringify(body[form])})`) : shown;
  const asked = call ? `client.${call}(${given})` : `client.post("${path.slice(2)}", { body: ${given} })`;
  const after = {
    stream: 'for await (const chunk of answer) process.stdout.write(chunk.choices[0]?.delta?.content ?? "");',
    text: "console.log(answer.text);", file: 'fs.writeFileSync("speech.wav", Buffer.from(await answer.arrayBuffer()));', json: "console.log(answer);",
  }[reads];
  const needed = [...(form || reads === "file" ? [["fs", "node:fs"]] : []), ["OpenAI", "openai"]];
  const imports = needed.map(([name, module]) => `import ${name} from ${JSON.stringify(module)};`).join("\n");
  return `${imports}\n\nconst client = new OpenAI({ baseURL: "${base}", apiKey: ${needsKey ? "process.env.STOKER_KEY" : '"none"'} });\nconst answer = await ${asked};\n${after}\n`;
}
