// Lines as programs write them for terminals: colours become classes, every other control sequence is left out. Pure.

const COLOURS = ["dim", "red", "green", "yellow", "blue", "magenta", "cyan", ""];
// 1. CSI; 2. OSC, ended or not; 3. other escapes; 4. control characters
const CONTROL = /\x1b\[([0-9;:]*)[ -/]*([@-~])?|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -~]?|[\x00-\x08\x0b-\x1f\x7f-\x9f]/g;

/** `[{ text, look }]`; `look`: the classes. Of a line that was written over and over (progress), the last state. */
export function parts(line) {
  const found = [];
  const last = line.slice(line.lastIndexOf("\r", line.length - 2) + 1);
  let state = { colour: "", isBold: false, isDim: false };
  let at = 0;
  const put = (text) => { if (text) found.push({ text, look: lookOf(state) }); };
  for (const match of last.matchAll(CONTROL)) {
    put(last.slice(at, match.index));
    at = match.index + match[0].length;
    if (match[2] === "m") state = after(state, match[1].split(/[;:]/).map(Number));
  }
  put(last.slice(at));
  return found;
}

/** The line's text alone, for filters. */
export function plain(line) {
  return parts(line).map((one) => one.text).join("");
}

function lookOf({ colour, isBold, isDim }) {
  return [colour && `ansi-${colour}`, isBold && "ansi-bold", isDim && "ansi-dim"].filter(Boolean).join(" ");
}

function after(state, codes) {
  let found = state;
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 38 || code === 48) at += codes[at + 1] === 2 ? 4 : 2; // a colour by number: shown as plain text
    else if (code === 0) found = { colour: "", isBold: false, isDim: false };
    else if (code === 1) found = { ...found, isBold: true };
    else if (code === 2) found = { ...found, isDim: true };
    else if (code === 22) found = { ...found, isBold: false, isDim: false };
    else if (code >= 30 && code <= 37) found = { ...found, colour: COLOURS[code - 30] };
    else if (code >= 90 && code <= 97) found = { ...found, colour: COLOURS[code - 90] };
    else if (code === 39) found = { ...found, colour: "" };
  }
  return found;
}
