import { limit, system, temperature, tools, toolsProblem } from "./chat.js";
import { html, useState } from "./kit.js";

const EXAMPLE = JSON.stringify([{
  type: "function",
  function: {
    name: "get_weather", description: "The weather in a city.",
    parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
  },
}], null, 2);

export function ChatSettings() {
  const [isOpen] = useState(() => matchMedia("(min-width: 52rem)").matches);
  const problem = toolsProblem();
  return html`<details class="settings" open=${isOpen}><summary>Settings</summary>
    <div class="field"><label for="system">System prompt</label>
      <textarea id="system" rows="3" value=${system.value} onInput=${take(system)} /></div>
    <div class="pair">
      <div class="field"><label for="temperature">Temperature</label>
        <input id="temperature" type="number" min="0" max="2" step="0.1" placeholder="default" value=${temperature.value} onInput=${take(temperature)} /></div>
      <div class="field"><label for="limit">Max tokens</label>
        <input id="limit" type="number" min="1" step="1" placeholder="default" value=${limit.value} onInput=${take(limit)} /></div>
    </div>
    <details class="inner" open=${Boolean(tools.peek())}><summary>Tools</summary>
      <div class="field"><label for="tools">As JSON, in OpenAI's form</label>
        <textarea id="tools" class="mono" rows="8" spellcheck="false" value=${tools.value} onInput=${take(tools)} aria-invalid=${Boolean(problem)} aria-describedby="tools-problem" /></div>
      ${!tools.value.trim() && html`<button class="quiet tiny" type="button" onClick=${() => { tools.value = EXAMPLE; }}>Put in an example</button>`}
      <p id="tools-problem" class="small bad-text">${problem}</p>
    </details>
  </details>`;
}

function take(signal) {
  return (event) => { signal.value = event.target.value; };
}
