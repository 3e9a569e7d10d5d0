// Try models: chat, and whatever else some serve can do. Nothing is stored on the server.
import { Speech, Transcription } from "./audio_page.js";
import { Chat } from "./chat_page.js";
import { Images } from "./image_page.js";
import { html, signal, useEffect } from "./kit.js";
import { serves } from "./live.js";
import { listed, look, namesFor, trouble } from "./model_list.js";
import { Problem } from "./parts.js";
import { Embeddings, Rerank } from "./vector_page.js";

const KINDS = [
  { dialect: "chat", word: "Chat", show: Chat },
  { dialect: "speech", word: "Speech", show: Speech },
  { dialect: "transcription", word: "Transcription", show: Transcription },
  { dialect: "image", word: "Images", show: Images },
  { dialect: "embeddings", word: "Embeddings", show: Embeddings },
  { dialect: "rerank", word: "Rerank", show: Rerank },
];
const chosen = signal("chat");

export function Playground({ rest }) {
  useEffect(() => {
    let isOver = false;
    look(() => isOver);
    return () => { isOver = true; };
  }, [serves.value.length]);
  const offered = KINDS.filter((one) => namesFor(one.dialect).length);
  const kind = offered.find((one) => one.dialect === chosen.value) ?? offered[0];
  return html`
    <div class="head"><h1>Playground</h1>
      ${offered.length > 1 && html`<div class="choice wrap" role="group" aria-label="Kind of request">
        ${offered.map((one) => html`<button key=${one.dialect} aria-pressed=${one === kind} onClick=${() => { chosen.value = one.dialect; }}>${one.word}</button>`)}
      </div>`}
    </div>
    ${trouble.value && html`<${Problem} error=${trouble.value} />`}
    ${kind ? html`<${kind.show} key=${kind.dialect} wanted=${rest} />` : listed.value ? html`<p class="dim">No model is listed for this key.</p>` : html`<p class="dim">Asking which models there are …</p>`}`;
}
