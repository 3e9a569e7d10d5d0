// Markdown within a line: code, emphasis, links. The time is linear in the text's length.
import { html } from "./kit.js";

/** Marks in each other. */
const DEEPEST = 6;
const MARKS = ["**", "__", "*", "_", "~~"];
const TAGS = { "**": "strong", __: "strong", "*": "em", _: "em", "~~": "del" };

/** Code, emphasis and links in a text. Pure. */
export function inline(text, depth = 0) {
  const found = [];
  const seen = { without: new Set(), bracket: -1 }; // what was looked for is not looked for again and again
  let plain = 0;
  const put = (at, end, element) => {
    if (at > plain) found.push(text.slice(plain, at));
    found.push(element);
    plain = end;
    return end;
  };
  for (let at = 0; at < text.length;) at = step(text, at, depth, seen, put);
  if (plain < text.length) found.push(text.slice(plain));
  return found;
}

const SPECIAL = "`*_~[\\h<";

function step(text, at, depth, seen, put) {
  const sign = text[at];
  if (!SPECIAL.includes(sign)) return at + 1;
  if (sign === "\\" && /[!-/:-@[-`{-~]/.test(text[at + 1] ?? "")) return put(at, at + 2, text[at + 1]);
  if (sign === "`") return codeSpan(text, at, seen, put);
  if (sign === "[") return link(text, at, depth, seen, put);
  if (sign === "h") return bareLink(text, at, at, put);
  if (sign === "<") return text.startsWith("http", at + 1) ? bareLink(text, at, at + 1, put) : at + 1;
  const mark = MARKS.find((one) => text.startsWith(one, at));
  const after = at + (mark?.length ?? 1);
  if (!mark || depth >= DEEPEST || seen.without.has(mark) || /\s/.test(text[after] ?? " ")) return after;
  if (mark[0] === "_" && /\w/.test(text[at - 1] ?? "")) return after;
  const end = ending(text, mark, after);
  if (end < 0) {
    seen.without.add(mark);
    return after;
  }
  return put(at, end + mark.length, html`<${TAGS[mark]}>${inline(text.slice(after, end), depth + 1)}<//>`);
}

/** Where `mark` ends what it began; -1: nowhere. */
function ending(text, mark, from) {
  for (let end = text.indexOf(mark, from + 1); end >= 0; end = text.indexOf(mark, end + 1)) {
    if (mark.length === 1 && text[end + 1] === mark) {
      end += 1;
      continue;
    }
    if (!/\s/.test(text[end - 1]) && !(mark[0] === "_" && /\w/.test(text[end + mark.length] ?? ""))) return end;
  }
  return -1;
}

const LONGEST_FENCE = 8;

function codeSpan(text, at, seen, put) {
  let after = at;
  while (text[after] === "`") after += 1;
  const fence = text.slice(at, after);
  if (fence.length > LONGEST_FENCE || seen.without.has(fence)) return after;
  const end = text.indexOf(fence, after);
  if (end >= 0) return put(at, end + fence.length, html`<code>${text.slice(after, end)}</code>`);
  seen.without.add(fence);
  return after;
}

const LONGEST_LINK = 2000;

function link(text, at, depth, seen, put) {
  if (seen.bracket < at) {
    const found = text.indexOf("](", at);
    seen.bracket = found < 0 ? text.length : found;
  }
  const middle = seen.bracket;
  if (middle === text.length || middle - at > LONGEST_LINK || depth >= DEEPEST) return at + 1;
  if (text.lastIndexOf("[", middle) > at) return at + 1;
  const length = text.slice(middle + 2, middle + 2 + LONGEST_LINK).search(/[)\s]/);
  const address = length < 0 ? "" : text.slice(middle + 2, middle + 2 + length);
  const end = text.slice(middle, middle + LONGEST_LINK).indexOf(")");
  if (end < 0 || !isSafe(address)) return at + 1;
  return put(at, middle + end + 1, outside(address, inline(text.slice(at + 1, middle), depth + 1)));
}

const ADDRESS = /https?:\/\/[^\s<>"'`|\\^{}[\]]{1,2000}/y;

/** An address by itself, or between angle brackets. */
function bareLink(text, from, at, put) {
  if (!text.startsWith("http", at) || /\w/.test(text[at - 1] ?? "")) return at + 1;
  ADDRESS.lastIndex = at;
  const found = ADDRESS.exec(text);
  if (!found) return at + 1;
  let end = at + found[0].length;
  const isBracketed = from < at && text[end] === ">";
  while (!isBracketed && ".,;:!?)*_~".includes(text[end - 1])) end -= 1;
  const address = text.slice(at, end);
  if (!isSafe(address)) return at + 1;
  return put(isBracketed ? from : at, isBracketed ? end + 1 : end, outside(address, address));
}

function isSafe(address) {
  return /^(?:https?:\/\/|mailto:)[^\s]+$/i.test(address);
}

/** The page's own address: what leads there opens here. */
const HERE = `${document.baseURI.split("#")[0]}#/`;

function outside(address, label) {
  if (address.startsWith(HERE)) return html`<a href=${`#/${address.slice(HERE.length)}`}>${label}</a>`;
  return html`<a href=${address} target="_blank" rel="noopener noreferrer">${label}</a>`;
}
