// One conversation: its model, the turns, and what each answer took.
import { askAgain, isUnderWay, setResult, withoutColumn } from "./chat.js";
import { Code } from "./code_block.js";
import { number, rate, seconds } from "./format.js";
import { html, useEffect, useRef } from "./kit.js";
import { Markdown } from "./markdown.js";
import { ModelChoice } from "./model_list.js";
import { Problem } from "./parts.js";
import { perSecond } from "./speed.js";
import { Pending } from "./pending.js";

const NOTHING = { key: 0 };

export function Column({ column, number: place, isSingle }) {
  const turns = column.turns.value;
  const isBusy = turns.some(isUnderWay);
  const label = isSingle ? "Model" : `Model ${place}`;
  return html`<section class="conversation" aria-label=${isSingle ? "Conversation" : `Conversation with model ${place}`}>
    <div class="conversation-head">
      <${ModelChoice} id=${`model-${column.id}`} label=${label} dialect="chat" value=${column.model.value} choose=${(name) => { column.model.value = name; }} />
      ${!isSingle && html`<button class="quiet" aria-label=${`Remove model ${place}`} onClick=${() => withoutColumn(column)}>Remove</button>`}
    </div>
    ${!turns.length && html`<p class="dim empty">Ask something. Which serve answered, how long it took and what came from the cache stands under each answer.</p>`}
    <ol class="turns">${turns.map((turn, index) => html`<li key=${index} class=${turn.role}>
      ${turn.role === "user" ? html`<${Question} turn=${turn} />` : html`<${Answer} column=${column} turn=${turn} isLast=${index === turns.length - 1} />`}</li>`)}</ol>
    <p class="hidden" role="status">${isBusy ? "Answering" : turns.length ? "The answer is complete" : ""}</p>
    <${Follow} turn=${turns.at(-1) ?? NOTHING} />
  </section>`;
}

/** Keeps the end in view while an answer grows, unless the reader has scrolled up. */
function Follow({ turn }) {
  const isAtEnd = useRef(false);
  const known = useRef(turn.key);
  useEffect(() => {
    const look = () => { isAtEnd.current = innerHeight + scrollY >= document.documentElement.scrollHeight - 40; };
    addEventListener("scroll", look, { passive: true });
    return () => removeEventListener("scroll", look);
  }, []);
  useEffect(() => {
    if (known.current !== turn.key) isAtEnd.current = true;
    known.current = turn.key;
    if (isAtEnd.current) scrollTo(0, document.documentElement.scrollHeight);
  }, [turn]);
  return null;
}

function Question({ turn }) {
  return html`<h2 class="hidden">You</h2>
    ${turn.text && html`<p class="said">${turn.text}</p>`}
    ${turn.pictures.length > 0 && html`<div class="pictures">${turn.pictures.map((url, index) => html`<img key=${index} src=${url} alt=${`Image ${index + 1} that you sent`} />`)}</div>`}`;
}

function Answer({ column, turn, isLast }) {
  return html`<h2 class="by">${turn.head?.serve || turn.model}</h2>
    ${turn.thinking && html`<details class="thinking"><summary>Thinking</summary><p class="said dim">${turn.thinking}</p></details>`}
    ${turn.state === "waiting" && html`<${Pending} model=${turn.model} began=${turn.began} />`}
    ${turn.text && html`<${Markdown} text=${turn.text} />`}
    ${turn.calls.map((call, index) => html`<${Call} key=${index} column=${column} turn=${turn} call=${call} isLast=${isLast} index=${index} />`)}
    ${isLast && turn.state === "done" && turn.calls.length > 0 && html`<div class="buttons"><button onClick=${() => askAgain(column)}>Send ${turn.calls.length === 1 ? "the result" : "the results"}</button></div>`}
    ${turn.state === "stopped" && html`<p class="dim small">You stopped it.</p>`}
    ${turn.state === "done" && turn.isLeftOut && html`<p class="dim small">The answer is empty.</p>`}
    ${turn.finish === "length" && html`<p class="dim small">Cut off at the maximum number of tokens.</p>`}
    ${turn.state === "failed" && html`<${Problem} error=${turn.error} />`}
    ${isLast && turn.isLeftOut && html`<div class="buttons"><button class="quiet" onClick=${() => askAgain(column)}>Ask again</button></div>`}
    ${!isUnderWay(turn) && html`<${Took} turn=${turn} />`}`;
}

/** A call of a tool, and the result that the next request gives for it. */
function Call({ column, turn, call, isLast, index }) {
  const id = `result-${column.id}-${index}`;
  return html`<div class="call">
    <${Code} label=${`Calls ${call.name || "a tool"}`} text=${pretty(call.arguments)} />
    ${isLast && !isUnderWay(turn) && html`<div class="field"><label for=${id}>Result of ${call.name}</label>
      <textarea id=${id} rows="2" value=${call.result} onInput=${(event) => setResult(column, turn, call, event.target.value)} /></div>`}
    ${!isLast && call.result && html`<p class="said dim">${call.result}</p>`}</div>`;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** What the answer took, by Stoker's own record once it is there. */
function Took({ turn }) {
  const { record, head, usage } = turn;
  if (!head) return null;
  const output = record?.output_tokens ?? usage?.completion_tokens;
  const input = record?.input_tokens ?? usage?.prompt_tokens;
  const cached = record?.cached_tokens ?? usage?.prompt_tokens_details?.cached_tokens;
  const first = record?.ttft ?? (turn.firstAt == null ? null : turn.firstAt - turn.sentAt);
  const rest = record?.ttft == null ? (turn.firstAt == null ? null : turn.endedAt - turn.firstAt) : record.latency - record.ttft;
  const tier = head.tier || record?.routed?.tier;
  const facts = [
    head.serve && ["Serve", head.serve], tier && ["Tier", tier], record?.routed?.task && ["Class", record.routed.task],
    head.orchestrator && ["Orchestrator", head.orchestrator], head.fallback && ["Fallback", head.fallback],
    record?.queued >= 0.1 && ["Waited", seconds(record.queued)],
    first != null && ["First token", seconds(first)],
    output > 0 && ["Tokens/s", rate(perSecond(output, rest))],
    output != null && ["Tokens", input == null ? number(output) : `${number(input)} in, ${number(output)} out`],
    cached != null && input > 0 && ["From cache", `${number(cached)} of ${number(input)}`],
  ].filter(Boolean);
  return html`<dl class="answer-took">${facts.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}
    ${head.id && html`<div><dt class="hidden">Details</dt><dd><a href=${`#/requests/${encodeURIComponent(head.id)}`}>Explain this answer</a></dd></div>`}</dl>`;
}
