// Embeddings and rerank.
import { html, useState } from "./kit.js";
import { OneRequest } from "./one_request.js";

const lines = (text) => text.split("\n").map((one) => one.trim()).filter(Boolean);
const takes = (set) => (event) => set(event.target.value);

export function Embeddings({ wanted }) {
  const [text, setText] = useState("A kettle boils water.\nTea needs hot water.\nThe train leaves at nine.");
  const request = (model) => lines(text).length > 0 && {
    path: "v1/embeddings", call: "embeddings.create", reads: "json", body: { model, input: lines(text) },
  };
  const read = async (reply, asked) => {
    const found = (await reply.json()).data.map((one) => one.embedding);
    return found.map((vector, index) => ({ text: asked.body.input[index], vector, likeness: found.map((other) => cosine(vector, other)) }));
  };
  return html`<${OneRequest} dialect="embeddings" wanted=${wanted} verb="Embed" request=${request} read=${read} Answer=${Vectors}>
    <div class="field"><label for="texts">Texts, one in each line</label><textarea id="texts" rows="5" value=${text} onInput=${takes(setText)} /></div>
  <//>`;
}

function cosine(left, right) {
  let product = 0;
  let one = 0;
  let other = 0;
  for (let at = 0; at < left.length; at += 1) {
    product += left[at] * right[at];
    one += left[at] ** 2;
    other += right[at] ** 2;
  }
  return product / (Math.sqrt(one * other) || 1);
}

function Vectors({ value }) {
  return html`<p>${value[0].vector.length} numbers for each text. How alike the texts are (cosine):</p>
    <div class="scroll" tabindex="0" role="region" aria-label="How alike the texts are"><table>
      <thead><tr><th scope="col">Text</th>${value.map((_, index) => html`<th scope="col" class="num">${index + 1}</th>`)}<th scope="col">First numbers</th></tr></thead>
      <tbody>${value.map((one, index) => html`<tr><th scope="row">${index + 1}. ${one.text}</th>${one.likeness.map((likeness) => html`<td class="num">${likeness.toFixed(3)}</td>`)}
        <td class="dim">${one.vector.slice(0, 4).map((number) => number.toFixed(3)).join(", ")} …</td></tr>`)}</tbody></table></div>`;
}

export function Rerank({ wanted }) {
  const [query, setQuery] = useState("How do I make tea?");
  const [text, setText] = useState("The train leaves at nine.\nPour boiling water over the leaves and wait three minutes.\nA kettle boils water.");
  const request = (model) => query.trim() && lines(text).length > 0 && {
    path: "v1/rerank", call: "", reads: "json", body: { model, query, documents: lines(text) },
  };
  const read = async (reply, asked) => (await reply.json()).results
    .map((one) => ({ text: asked.body.documents[one.index], score: one.relevance_score ?? one.score }))
    .sort((left, right) => right.score - left.score);
  return html`<${OneRequest} dialect="rerank" wanted=${wanted} verb="Rank" request=${request} read=${read} Answer=${Ranked}>
    <div class="field"><label for="query">Query</label><input id="query" value=${query} onInput=${takes(setQuery)} /></div>
    <div class="field"><label for="texts">Documents, one in each line</label><textarea id="texts" rows="5" value=${text} onInput=${takes(setText)} /></div>
  <//>`;
}

function Ranked({ value }) {
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Documents, the best first"><table>
    <thead><tr><th scope="col" class="num">Score</th><th scope="col">Document</th></tr></thead>
    <tbody>${value.map((one) => html`<tr><td class="num">${one.score.toFixed(3)}</td><td class="wide">${one.text}</td></tr>`)}</tbody></table></div>`;
}
