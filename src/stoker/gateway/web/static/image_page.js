// Images from text.
import { html, useState } from "./kit.js";
import { OneRequest } from "./one_request.js";

const takes = (set) => (event) => set(event.target.value);

export function Images({ wanted }) {
  const [prompt, setPrompt] = useState("A kettle on a stove, in the morning light");
  const [size, setSize] = useState("512x512");
  const request = (model) => prompt.trim() && {
    path: "v1/images/generations", call: "images.generate", reads: "json",
    body: { model, prompt, ...(size.trim() ? { size: size.trim() } : {}), response_format: "b64_json" },
  };
  const read = async (reply) => (await reply.json()).data;
  return html`<${OneRequest} dialect="image" wanted=${wanted} verb="Paint" request=${request} read=${read} Answer=${Painted}>
    <div class="field"><label for="prompt">Prompt</label><textarea id="prompt" rows="3" value=${prompt} onInput=${takes(setPrompt)} /></div>
    <div class="field short"><label for="size">Size</label><input id="size" value=${size} onInput=${takes(setSize)} /></div>
  <//>`;
}

/** Only images that came with the answer: the page asks no other host. */
function Painted({ value }) {
  return html`<div class="painted">${value.map((one, index) => (one.b64_json
    ? html`<img key=${index} src=${`data:image/png;base64,${one.b64_json}`} alt=${`Image ${index + 1} of the answer`} />`
    : html`<p key=${index}><a href=${one.url} target="_blank" rel="noopener noreferrer">Image ${index + 1}, at the address that the model gave</a></p>`))}</div>`;
}
