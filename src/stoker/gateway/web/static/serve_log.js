// The live log of one serve: the last lines, followed until the reader scrolls up.
import { parts, plain } from "./ansi.js";
import { counted } from "./format.js";
import { html, useEffect, useLayoutEffect, useRef, useState } from "./kit.js";
import { Problem } from "./parts.js";
import { readEvents } from "./stream.js";

const KEPT = 2000;
const PAUSE = 2000;

export function ServeLog({ name }) {
  const [lines, setLines] = useState([]);
  const [problem, setProblem] = useState(null);
  const [filter, setFilter] = useState("");
  const [held, hold] = useState(null); // the lines that stay in view while the reader looks back
  const box = useRef(null);
  useEffect(() => following(name, setLines, setProblem), [name]);

  const text = filter.toLowerCase();
  const shown = (held ?? lines).filter((one) => one.plain.includes(text));
  const last = lines.at(-1)?.id ?? 0;
  const missed = held ? last - (held.at(-1)?.id ?? last) : 0;
  const toEnd = () => { box.current.scrollTop = box.current.scrollHeight; };
  useLayoutEffect(() => { if (!held) toEnd(); }, [lines, filter, held]);
  const onScroll = () => {
    const isAtEnd = box.current.scrollTop + box.current.clientHeight >= box.current.scrollHeight - 8;
    if (isAtEnd && !missed) hold(null);
    else if (!isAtEnd && !held) hold(lines);
  };
  return html`<section class="log" aria-label="Log">
    <div class="log-head"><h2>Log</h2>
      <span class="dim small" role="status">${held ? `paused${missed > 0 ? `, ${counted(missed, "new line")}` : ""}` : ""}</span>
      ${held && html`<button class="quiet tiny" onClick=${() => hold(null)}>Follow again</button>`}
      <input type="search" aria-label="Filter the log" placeholder="Filter" value=${filter} onInput=${(event) => setFilter(event.target.value)} /></div>
    ${problem && html`<${Problem} error=${problem} />`}
    <pre id="log" ref=${box} tabindex="0" role="region" aria-label=${`Log of ${name}`} onScroll=${onScroll}>${shown.map((one) => one.row)}</pre>
    ${!shown.length && html`<p class="dim small">${lines.length ? `None of the last ${counted(lines.length, "line")} contains “${filter}”.` : "Nothing is in the log yet."}</p>`}
  </section>`;
}

let made = 0;

/** A line with the element that shows it: made once, and so drawn once. */
function line(text) {
  made += 1;
  const row = html`<span key=${made} class="line">${parts(text).map((one) => (one.look ? html`<span class=${one.look}>${one.text}</span>` : one.text))}${"\n"}</span>`;
  return { id: made, plain: plain(text).toLowerCase(), row };
}

/** Reads the log until the function that it returns is called. */
function following(name, setLines, setProblem) {
  let aborter = null;
  let timer = 0;
  let lastId = "";
  const heard = (events) => {
    setProblem(null);
    for (const one of events) if (one.id) lastId = one.id;
    setLines((before) => events.reduce(extended, before).slice(-KEPT));
  };
  const read = async () => {
    aborter = new AbortController();
    const mine = aborter;
    try {
      await readEvents([`logs:${name}`], lastId, mine, heard);
    } catch (error) {
      if (error.status > 0 && mine === aborter) setProblem(error);
    }
    if (mine === aborter) timer = setTimeout(read, PAUSE);
  };
  read();
  return () => {
    clearTimeout(timer);
    const mine = aborter;
    aborter = null;
    mine.abort();
  };
}

function extended(lines, { kind, data }) {
  if (kind === "snapshot") return data.lines.map(line);
  return kind === "log" ? [...lines, line(data.line)] : lines;
}
