// The request as curl, Python or JavaScript, to copy.
import { base } from "./api.js";
import { Code } from "./code_block.js";
import { LANGUAGES, program } from "./code_export.js";
import { html, useEffect, useRef, useState } from "./kit.js";
import { who } from "./session.js";

const LONGEST = 200;

export function Program({ requests, close }) {
  const [language, choose] = useState("curl");
  const dialog = useRef(null);
  useEffect(() => dialog.current.showModal(), []);
  const needsKey = Boolean(who.value?.asks_for_keys);
  return html`
    <dialog ref=${dialog} class="wide" onClose=${close} aria-labelledby="program-title">
      <h2 id="program-title">The request as code</h2>
      <div class="choice" role="group" aria-label="Language">${Object.entries(LANGUAGES).map(([name, word]) => html`
        <button key=${name} aria-pressed=${name === language} onClick=${() => choose(name)}>${word}</button>`)}</div>
      ${requests.map((one) => (one.body
        ? html`<${Code} key=${one.name} label=${one.name} text=${program(language, { ...one, body: shortened(one.body) }, base, needsKey)} copy=${program(language, one, base, needsKey)} />`
        : html`<p class="note bad">The tools are no valid JSON.</p>`))}
      <p class="dim small">${needsKey ? html`<code>STOKER_KEY</code> is the environment variable with your key. ` : ""}${language === "curl" ? "" : html`It needs the package <code>openai</code>. `}Long data of images is shortened here; Copy has all of it.</p>
      <div class="buttons"><button class="quiet" onClick=${() => dialog.current.close()}>Close</button></div>
    </dialog>`;
}

/** The same with images' data cut. */
function shortened(value) {
  if (typeof value === "string") return value.startsWith("data:") && value.length > LONGEST ? `${value.slice(0, 60)}… (${value.length} characters)` : value;
  if (value === null || typeof value !== "object") return value;
  return Array.isArray(value) ? value.map(shortened) : Object.fromEntries(Object.entries(value).map(([name, one]) => [name, shortened(one)]));
}
