// One request: what it waited for, which serve or tier answered and why, and what that cost.
import { html, useEffect, useState } from "./kit.js";
import { ask } from "./api.js";
import { Cancel } from "./cancel.js";
import { contentOf, useKept } from "./content.js";
import { clock, seconds, upper } from "./format.js";
import { inFlight, now, serves, status } from "./live.js";
import { classOf, lasted, outcomeOf } from "./outcomes.js";
import { Ago, Facts, Problem, Twin } from "./parts.js";
import { address, place } from "./place.js";
import { slotsOf } from "./plan.js";
import { mayAct } from "./session.js";
import { waitingFor } from "./waiting.js";

export function Request({ id }) {
  const open = inFlight.value.requests[id];
  const isOpen = open != null;
  const [found, setFound] = useState(null);
  useEffect(() => {
    if (isOpen) return undefined;
    const aborter = new AbortController();
    ask(`admin/decisions/${encodeURIComponent(id)}`, { signal: aborter.signal })
      .then(setFound, (error) => { if (error.name !== "AbortError") setFound({ error }); });
    return () => aborter.abort();
  }, [id, isOpen]);
  const back = html`<p class="crumb"><a href=${address("requests", [], place.value.query)}>Requests</a></p>`;
  if (isOpen) return html`${back}<${InFlight} id=${id} one=${open} />`;
  if (!found) return html`${back}<h1>Request</h1><p class="dim">Looking it up …</p>`;
  if (found.error?.status === 404) return html`${back}<h1>No request “${id}”</h1><p>${upper(found.error.message)}.</p>`;
  if (found.error) return html`${back}<h1>Request</h1><${Problem} error=${found.error} />`;
  return html`${back}<${Ended} one=${found.decision} explanation=${found.explanation} />`;
}

function Title({ id, one, children }) {
  const { sign, word, isBad, isOpen } = outcomeOf(one);
  return html`
    <div class="head"><h1>${one.model || one.endpoint}</h1>
      <p class=${`state how${isBad ? " bad" : isOpen ? " open" : ""}`} role="status"><span aria-hidden="true">${sign}</span> ${word}</p>${children}</div>
    <p class="dim under"><code>${id}</code> · ${clock(one.at)} (<${Ago} at=${one.at} />) · ${one.endpoint}${one.stream ? ", streamed" : ""}${one.key ? html` · key ${one.key}` : ""}</p>`;
}

function Ended({ one, explanation }) {
  const spans = explanation.spans;
  return html`
    <${Title} id=${one.id} one=${one} />
    <p class="lead">${summary(one, spans)}</p>
    ${spans.length > 0 && html`<${Waterfall} spans=${spans} whole=${one.latency} />`}
    <section class="reasons"><h2>What happened, and why</h2><${Facts} rows=${grouped(explanation.facts)} /></section>
    <${Links} one=${one} />`;
}

/** The two sentences that answer most questions. */
function summary(one, spans) {
  const wait = spans.find((span) => span.kind === "wait");
  const { word } = outcomeOf(one);
  const took = one.latency == null ? "" : ` after ${seconds(one.latency)}`;
  const waited = wait ? `It ${wait.words.startsWith("waited") ? "" : "waited: "}${wait.words} (${seconds(wait.end - wait.start)}).` : one.attempts ? "It did not have to wait." : "";
  return `${upper(word)}${took}. ${waited}`;
}

/** Facts without a name go on with the one before; when it arrived is in the title. */
function grouped(facts) {
  const rows = [];
  for (const { name, words } of facts) {
    if (name) rows.push([upper(name), [words]]);
    else rows.at(-1)?.[1].push(words);
  }
  return rows.filter(([name]) => name !== "Arrived").map(([name, lines]) => [name, html`${lines.map((line) => html`<span class="line">${line}</span>`)}`]);
}

function Links({ one }) {
  const content = useKept();
  const name = classOf(one);
  const links = [
    one.tools?.length > 0 && html`<a href=${address("tools")}>The tools that ran for it</a>`,
    content.has(one.id) && html`<a href=${contentOf(one.id)}>What it and its answer said</a>`,
    one.serve && html`<a href=${address("serves", [one.serve])}>The serve ${one.serve}</a>`,
    one.serve && html`<a href=${address("requests", [], { serve: one.serve })}>Its other requests</a>`,
    one.session && html`<a href=${address("requests", [], { session: one.session })}>All requests of its session</a>`,
    one.key && html`<a href=${address("requests", [], { key: one.key })}>Other requests with key ${one.key}</a>`,
    one.routed?.tier && html`<a href=${address("routing", [one.routed.tier, name])}>What ${one.routed.tier} is trusted with at ${name}</a>`,
  ].filter(Boolean);
  return html`<p class="links">${links.map((link) => html`${link} `)}</p>
    <p class="dim small">The same on the command line: <code>stoker explain ${one.id}</code></p>`;
}

function Waterfall({ spans, whole }) {
  const total = Math.max(whole ?? 0, ...spans.map((span) => span.end), 0.001);
  const at = (value) => `${((value / total) * 100).toFixed(2)}%`;
  return html`<section class="waterfall"><h2 class="hidden">Where the time went</h2>
    <ol aria-hidden="true">
      ${spans.map((span, index) => html`<li key=${index} class=${span.is_part ? "step" : ""}>
        <span class="what">${span.words}</span>
        <span class="track"><i class=${span.kind} style=${{ left: at(span.start), width: `max(2px, ${at(span.end - span.start)})` }} /></span>
        <span class="num">${seconds(span.end - span.start)}</span></li>`)}
      <li class="axis"><span /><span class="marks">${[0, 0.25, 0.5, 0.75, 1].map((share) => html`<span style=${{ left: `${share * 100}%` }}>${share ? seconds(total * share) : "arrived"}</span>`)}</span><span /></li>
    </ol>
    <${Twin} label="Where the time of this request went" heads=${["What", "From", "To", "Took"]}
      rows=${spans.map((span) => [span.words, seconds(span.start), seconds(span.end), seconds(span.end - span.start)])} />
  </section>`;
}

function InFlight({ id, one }) {
  const serve = serves.value.find((other) => other.name === (one.replica ?? one.serve)) ?? serves.value.find((other) => other.name === one.serve);
  const slot = serve && (status.value.slots.find((other) => slotsOf(serve).includes(other.name)) ?? { swap: null, resident: [] });
  const whole = lasted(one, now.value);
  const queued = one.state === "waiting" ? whole : Math.min(one.queued ?? 0, whole);
  const first = one.ttft ?? whole;
  const spans = [
    queued > 0 && { kind: "wait", start: 0, end: queued, words: `${one.state === "waiting" ? "waits" : "waited"} for ${one.serve}` },
    one.state === "reading" && { kind: "prompt", start: 0, end: whole, words: "arrives" },
    ["prompt", "answering"].includes(one.state) && { kind: "prompt", start: queued, end: Math.max(queued, first), words: `${one.serve} reads the prompt, until its first token` },
    one.state === "answering" && { kind: "answer", start: Math.max(queued, first), end: whole, words: `${one.serve} writes the answer` },
  ].filter(Boolean);
  return html`
    <${Title} id=${id} one=${one}>${mayAct.value && html`<${Cancel} id=${id} one=${one} />`}</${Title}>
    <p class="lead">${one.state === "waiting" && serve ? `It waits for ${one.serve}: ${waitingFor(serve, slot)}.` : `It has been under way for ${seconds(Math.floor(whole))}.`}</p>
    <${Waterfall} spans=${spans} whole=${whole} />
    <p class="dim">The whole explanation is here as soon as it has ended.</p>`;
}
