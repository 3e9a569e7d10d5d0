// The documentation of the version that runs, from this Stoker.
import { Refused } from "./api.js";
import { anchor, prepared } from "./docs_text.js";
import { html, useEffect, useRef, useState } from "./kit.js";
import { Markdown } from "./markdown.js";
import { Problem } from "./parts.js";
import { place } from "./place.js";

const HERE = document.baseURI.split("#")[0];

export function Docs({ rest }) {
  const name = rest.replace(/\/$/, "") || "README";
  const [found, setFound] = useState({});
  const body = useRef(null);
  const { at } = place.value.query;
  useEffect(() => {
    const aborter = new AbortController();
    read(name, aborter.signal).then((page) => setFound({ name, page }), (error) => { if (error.name !== "AbortError") setFound({ name, error }); });
    return () => aborter.abort();
  }, [name]);
  useEffect(() => {
    if (found.page && at) [...body.current.querySelectorAll("h2, h3")].find((one) => anchor(one.textContent) === at)?.scrollIntoView();
    else if (found.page) scrollTo(0, 0);
  }, [found.page, at]);
  const back = name !== "README" && html`<p class="crumb"><a href="#/docs/">Documentation</a></p>`;
  if (found.name !== name) return html`${back}<h1>Documentation</h1><p class="dim">Looking it up …</p>`;
  if (found.error?.status === 404) {
    return html`${back}<h1>No such page</h1><p>This installation has no documentation page <code>${name}</code>. A released version has all of them; <code>stoker docs</code> says what is here.</p>`;
  }
  if (found.error) return html`${back}<h1>Documentation</h1><${Problem} error=${found.error} />`;
  return html`${back}<h1>${found.page.title}</h1>
    <div class="docs" ref=${body}><${Markdown} text=${found.page.text} top=${2} /></div>
    <p class="dim small">The same in a terminal, with a search: <code>stoker docs ${name === "README" ? "" : name}</code></p>`;
}

async function read(name, signal) {
  let reply;
  try {
    reply = await fetch(new URL(`docs/${name}.md`, HERE), { signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "no_answer", "Stoker does not answer. Is it still running? `stoker up` starts it.");
  }
  if (!reply.ok) throw new Refused(reply.status, "", `the answer was ${reply.status} ${reply.statusText}`);
  return prepared(await reply.text(), name, HERE);
}
