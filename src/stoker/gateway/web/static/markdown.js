// Markdown as elements: paragraphs, headings, lists, quotes, tables, code. Never as HTML, so markup in a text stays
// text. The time is linear in the text's length.
import { Code } from "./code_block.js";
import { inline } from "./inline.js";
import { html, useMemo } from "./kit.js";

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^\s`]*)/;
const HEADING = /^ {0,3}(#{1,6})[ \t]+(.*)$/;
const RULE = /^ {0,3}(?:-[ \t]*){3,}$|^ {0,3}(?:\*[ \t]*){3,}$|^ {0,3}(?:_[ \t]*){3,}$/;
const ITEM = /^( *)(?:[-*+]|(\d{1,9})[.)])[ \t]+(.*)$/;
const QUOTE = /^ {0,3}> ?(.*)$/;
const DIVIDER = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
/** Lists and quotes in each other. */
const DEEPEST = 6;

/** `top`: the level of its largest headings; those of an answer stand below the heading of the conversation. */
export function Markdown({ text, top = 3 }) {
  const found = useMemo(() => blocks(text), [text]);
  return html`<div class="markdown">${found.map((one, index) => html`<${Block} key=${index} text=${one} top=${top} />`)}</div>`;
}

/** Only a block whose text has grown is made again. */
function Block({ text, top }) {
  return useMemo(() => shown(text.split("\n"), 0, top), [text, top]);
}

/** The text in pieces that do not depend on each other: at blank lines outside of code and lists. Pure. */
export function blocks(text) {
  const found = [];
  let lines = [];
  let fence = null;
  const end = () => {
    if (lines.length) found.push(lines.join("\n"));
    lines = [];
  };
  for (const line of text.split("\n")) {
    const wasBlank = lines.length > 0 && !fence && !lines.at(-1).trim();
    if (fence) {
      if (closes(line, fence)) fence = null;
      lines.push(line);
    } else if (line.trim()) {
      if (wasBlank && !ITEM.test(line) && !line.startsWith("  ")) end();
      fence = line.match(FENCE)?.[1] ?? null;
      lines.push(line);
    } else if (lines.length && ITEM.test(lines[0]) && !wasBlank) lines.push(line);
    else end();
  }
  end();
  return found;
}

function shown(lines, depth, top) {
  const found = [];
  for (let at = 0; at < lines.length;) {
    const [next, element] = block(lines, at, depth, top);
    if (element) found.push(element);
    at = next;
  }
  return found;
}

/** The block that begins at a line: where the next one begins, and the element. */
function block(lines, at, depth, top) {
  const line = lines[at];
  if (!line.trim()) return [at + 1, null];
  const fence = line.match(FENCE);
  if (fence) return code(lines, at, fence[1], fence[2]);
  const heading = line.match(HEADING);
  if (heading) {
    const isMinor = heading[1].length > 2;
    const level = top < 3 && isMinor ? top + 1 : top;
    return [at + 1, html`<${`h${level}`} class=${isMinor ? "minor" : ""}>${inline(heading[2].trim())}<//>`];
  }
  if (RULE.test(line)) return [at + 1, html`<hr />`];
  if (QUOTE.test(line) && depth < DEEPEST) {
    let end = at;
    while (end < lines.length && QUOTE.test(lines[end])) end += 1;
    return [end, html`<blockquote>${shown(lines.slice(at, end).map((one) => one.match(QUOTE)[1]), depth + 1, top)}</blockquote>`];
  }
  if (ITEM.test(line) && depth < DEEPEST) return list(lines, at, depth, top);
  if (line.includes("|") && isDivider(lines[at + 1] ?? "")) return table(lines, at);
  let end = at + 1;
  while (end < lines.length && isText(lines[end])) end += 1;
  return [end, html`<p>${inline(lines.slice(at, end).join("\n"))}</p>`];
}

function isDivider(line) {
  return line.length < 1000 && line.includes("-") && DIVIDER.test(line);
}

function isText(line) {
  return line.trim() && !FENCE.test(line) && !HEADING.test(line) && !QUOTE.test(line) && !ITEM.test(line) && !RULE.test(line);
}

function code(lines, at, fence, language) {
  let end = at + 1;
  while (end < lines.length && !closes(lines[end], fence)) end += 1;
  const indent = lines[at].match(/^ */)[0].length;
  const text = lines.slice(at + 1, end).map((line) => line.slice(Math.min(indent, line.match(/^ */)[0].length))).join("\n");
  return [end + 1, html`<${Code} text=${text} language=${language} />`];
}

function closes(line, fence) {
  const mark = line.trim();
  return mark.length >= fence.length && mark === fence[0].repeat(mark.length);
}

function list(lines, at, depth, top) {
  const [, indent, number] = lines[at].match(ITEM);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const found = lines[end].match(ITEM);
    const inner = lines[end].match(/^ */)[0].length;
    if (found && inner < indent.length + 2 && inner >= indent.length && (found[2] == null) === (number == null)) items.push([found[3]]);
    else if (!lines[end].trim() || inner >= indent.length + 2) items.at(-1).push(lines[end].slice(Math.min(inner, indent.length + 2)));
    else if (!found && lines[end - 1]?.trim() && isText(lines[end])) items.at(-1).push(lines[end]);
    else break;
    end += 1;
  }
  const made = items.map((item) => html`<li>${tight(shown(item, depth + 1, top))}</li>`);
  return [end, number == null ? html`<ul>${made}</ul>` : html`<ol start=${Number(number)}>${made}</ol>`];
}

/** An item of one paragraph is shown without the paragraph. */
function tight(found) {
  return found[0]?.type === "p" ? [found[0].props.children, ...found.slice(1)] : found;
}

function table(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes("|")) end += 1;
  const heads = cells(lines[at]);
  const rows = lines.slice(at + 2, end).map(cells);
  return [end, html`<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>
    ${heads.some(Boolean) && html`<thead><tr>${heads.map((cell) => html`<th scope="col">${inline(cell)}</th>`)}</tr></thead>`}
    <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${inline(cell)}</td>`)}</tr>`)}</tbody></table></div>`];
}

function cells(line) {
  return line.trim().replace(/^\|/, "").replace(/\|$/, "").split("|").map((one) => one.trim());
}
