// One call of a tool by hand, and what a model would get of it.
import { html, useState } from "./kit.js";
import { ask } from "./api.js";
import { Code } from "./code_block.js";
import { bytes, counted, seconds } from "./format.js";
import { Problem } from "./parts.js";

const ASKED = { web_search: "What to search for", web_fetch: "Address of a page", mcp: "Tool" };

export function TryTool({ tool }) {
  const [state, setState] = useState({});
  const submit = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    setState({ isBusy: true });
    try {
      const body = { argument: given.get("argument"), arguments: read(given.get("arguments")) };
      setState({ found: await ask(`admin/tools/${encodeURIComponent(tool.name)}`, { method: "POST", body }) });
    } catch (error) {
      setState({ error });
    }
  };
  const id = `try-${tool.name}`;
  return html`<details class="twin try-tool"><summary>Try<span class="hidden"> ${tool.name}</span></summary>
    <form onSubmit=${submit}>
      <div class="field"><label for=${id}>${ASKED[tool.answers]}</label>${tool.answers === "mcp" && tool.tools?.length
        ? html`<select id=${id} name="argument">${tool.tools.map(({ name }) => html`<option key=${name}>${name}</option>`)}</select>`
        : html`<input id=${id} name="argument" required autocomplete="off" />`}</div>
      ${tool.answers === "mcp" && html`<div class="field"><label for=${`${id}-json`}>Arguments, as JSON</label>
        <textarea id=${`${id}-json`} name="arguments" rows="2" placeholder=${'{"id": 7}'}></textarea></div>
        <p class="dim small">The call is real: a tool that changes things changes them.</p>`}
      <div class="buttons"><button disabled=${state.isBusy}>${state.isBusy ? "Under way …" : `Try ${tool.name}`}</button></div>
    </form>
    <div role="status">${state.found && html`<${Found} found=${state.found} />`}</div>
    ${state.error && html`<${Problem} error=${state.error} />`}</details>`;
}

/** Throws an error for people. */
function read(text) {
  try {
    const found = JSON.parse(text || "{}");
    if (found !== null && typeof found === "object" && !Array.isArray(found)) return found;
  } catch {
    // told below
  }
  throw new Error("The arguments are no JSON object; write them like {\"id\": 7}.");
}

function Found({ found }) {
  const { pages, error, why, seconds: took, bytes: size } = found;
  return html`
    ${error ? html`<p class="note bad"><strong>It failed (${error}):</strong> ${why}.</p>` : html`<p class="small">${counted(pages.length, "result")}, ${bytes(size)} of text in ${seconds(took)}. A model gets this, marked as third-party content.</p>`}
    ${pages.map((page, place) => html`<${Code} key=${place} label=${[page.title, page.url].filter(Boolean).join(" · ") || "Answer"} text=${page.text} />`)}`;
}
