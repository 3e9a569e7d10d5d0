// Where the next message is written: its text and images, send, stop, and the request as a program.
import { bodyOf, columns, draft, drafted, isUnderWay, pictures, sendDraft, stop, toolsProblem } from "./chat.js";
import { html, useRef, useState } from "./kit.js";
import { takesImages } from "./model_list.js";
import { readPictures } from "./picture_files.js";
import { Program } from "./program_dialog.js";

export function Composer() {
  const [problem, setProblem] = useState("");
  const [isShown, show] = useState(false);
  const [isOver, setOver] = useState(false);
  const file = useRef(null);
  const isBusy = columns.value.some((one) => one.turns.value.some(isUnderWay));
  const mayAttach = columns.value.every((one) => takesImages(one.model.value));
  const add = async (files) => {
    if (!files.length) return;
    if (!mayAttach) return setProblem(columns.value.length > 1 ? "Not all of these models take images." : `${columns.value[0].model.value} takes no images.`);
    const found = await readPictures(files, pictures.peek().length);
    pictures.value = [...pictures.peek(), ...found.urls];
    setProblem(found.problem);
  };
  const submit = (event) => {
    event.preventDefault();
    if (isBusy) stop();
    else sendDraft();
  };
  const onKey = (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (!isBusy) sendDraft();
    }
    if (event.key === "Escape" && isBusy) stop();
  };
  const drop = (event) => {
    event.preventDefault();
    setOver(false);
    add(event.dataTransfer.files);
  };
  return html`
    <form class=${isOver ? "composer over" : "composer"} onSubmit=${submit} onDrop=${drop}
      onDragOver=${(event) => { event.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)}>
      ${pictures.value.length > 0 && html`<ul class="pictures">${pictures.value.map((url, index) => html`<li key=${index}><img src=${url} alt=${`Image ${index + 1} to send`} />
        <button type="button" class="quiet tiny" aria-label=${`Remove image ${index + 1}`} onClick=${() => { pictures.value = pictures.value.filter((_, at) => at !== index); }}>✕</button></li>`)}</ul>`}
      <label class="hidden" for="message">Message</label>
      <textarea id="message" rows="3" placeholder="Message" value=${draft.value} aria-describedby="message-hint"
        onInput=${(event) => { draft.value = event.target.value; }} onKeyDown=${onKey}
        onPaste=${(event) => add(event.clipboardData.files)} />
      ${(problem || toolsProblem()) && html`<p class="small bad-text" role="alert">${problem || toolsProblem()}</p>`}
      <div class="buttons">
        ${mayAttach && html`<button type="button" class="quiet" onClick=${() => file.current.click()}>Add images</button>
          <input ref=${file} type="file" hidden multiple accept="image/png,image/jpeg,image/webp,image/gif" onChange=${(event) => { add([...event.target.files]); event.target.value = ""; }} />`}
        <button type="button" class="quiet" onClick=${() => show(true)}>As code</button>
        <span id="message-hint" class="dim small hint">Enter sends, Shift+Enter begins a line</span>
        ${isBusy ? html`<button key="stop">Stop</button>` : html`<button key="send" disabled=${!drafted() || Boolean(toolsProblem())}>Send</button>`}
      </div>
    </form>
    ${isShown && html`<${Program} requests=${requests()} close=${() => show(false)} />`}`;
}

const EMPTY = { role: "user", text: "", pictures: [] };

/** What Send would send, one for each model; with nothing in the box, the conversation so far. */
function requests() {
  const turn = drafted();
  return columns.value.map((one) => ({
    name: one.model.value, path: "v1/chat/completions", call: "chat.completions.create", reads: "stream",
    body: toolsProblem() ? null : bodyOf(one, turn || !one.turns.value.length ? [...one.turns.value, turn ?? EMPTY] : one.turns.value),
  }));
}
