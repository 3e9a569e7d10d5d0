// Curves with their spread, as SVG in the page's own colours; the same numbers stand beside them as a table.
import { html, useEffect, useRef, useState } from "./kit.js";
import { Twin } from "./parts.js";
import { figure } from "./result_words.js";
import { roundUp } from "./scale.js";

const HEIGHT = 220;
const EDGE = { left: 46, right: 12, top: 10, bottom: 26 };
const STEPS = 4;

/**
 * `lines`: `{ name, tone, points: [{ x, y, low, high }] }`; `tone`: 0 or 1; a `y` of null interrupts the curve. The y axis
 * begins at 0. The x axis doubles from mark to mark, or is the time: `time` is `{ from, to, ends, word(x) }` then, with the
 * words at its ends and those for one place.
 */
export function Plot({ lines, ...more }) {
  const shown = lines.filter((line) => line.points.some((one) => one.y != null));
  return shown.length > 0 && html`<${Drawn} shown=${shown} ...${more} />`;
}

function Drawn({ title, unit, across, shown, time }) {
  const [width, box] = useWidth(480);
  const [near, setNear] = useState(null);
  const scale = scaleOf(shown, width, time);
  const at = time?.word ?? ((x) => x);
  const point = (event) => setNear(scale.nearest(event.clientX - event.currentTarget.getBoundingClientRect().left));
  return html`
    <figure class="plot">
      <figcaption><b>${title}</b> <span class="dim">${unit}</span>
        <span class="keys">${shown.map((line) => html`<span class=${`key s${line.tone}`}><i />${line.name}<${Value} line=${line} at=${near} /></span>`)}${time && near != null && html`<span class="dim">${at(near)}</span>`}</span></figcaption>
      <div ref=${box}><svg width=${width} height=${HEIGHT} role="img" aria-label=${summary(title, unit, across, shown, at)}
        onPointerMove=${point} onPointerLeave=${() => setNear(null)}>
        <${Grid} scale=${scale} across=${across} width=${width} time=${time} />
        ${near != null && html`<line class="near" x1=${scale.x(near)} x2=${scale.x(near)} y1=${EDGE.top} y2=${HEIGHT - EDGE.bottom} />`}
        ${shown.map((line) => html`<${Line} key=${line.name} line=${line} scale=${scale} isDense=${time != null} />`)}
      </svg></div>
      <${Twin} label=${`${title} in ${unit}`} heads=${[across, ...shown.map((line) => line.name)]}
        rows=${scale.xs.map((x) => [at(x), ...shown.map((line) => cell(line.points.find((one) => one.x === x)))])} />
    </figure>`;
}

function Value({ line, at }) {
  const found = at == null ? null : line.points.find((one) => one.x === at);
  return found?.y != null ? html` <b>${figure(found.y)}</b>` : null;
}

function Grid({ scale, across, width, time }) {
  return html`
    ${scale.marks.map((mark) => html`<line class="grid" x1=${EDGE.left} x2=${width - EDGE.right} y1=${scale.y(mark)} y2=${scale.y(mark)} />
      <text x=${EDGE.left - 8} y=${scale.y(mark) + 4} text-anchor="end">${figure(mark)}</text>`)}
    ${time ? [0, 1].map((end) => html`<text x=${scale.x(end ? time.to : time.from)} y=${HEIGHT - 8} text-anchor=${end ? "end" : "start"}>${time.ends[end]}</text>`) : scale.xs.map((x, index) => html`<text x=${scale.x(x)} y=${HEIGHT - 8} text-anchor="middle">${x}${index === scale.xs.length - 1 ? ` ${across}` : ""}</text>`)}`;
}

function Line({ line, scale, isDense }) {
  const at = ({ x, y }) => `${scale.x(x).toFixed(1)},${scale.y(y).toFixed(1)}`;
  const known = line.points.filter((one) => one.low != null && one.high != null);
  const band = [...known.map((one) => at({ x: one.x, y: one.high })), ...known.toReversed().map((one) => at({ x: one.x, y: one.low }))];
  return html`<g class=${`s${line.tone}`}>
    ${known.length > 1 && html`<polygon class="band" points=${band.join(" ")} />`}
    ${pieces(line.points).map((piece) => (piece.length > 1 ? html`<polyline class="curve" points=${piece.map(at).join(" ")} />`
      : isDense && html`<circle cx=${scale.x(piece[0].x)} cy=${scale.y(piece[0].y)} r="2.5" />`))}
    ${!isDense && line.points.map((one) => html`<circle cx=${scale.x(one.x)} cy=${scale.y(one.y)} r="3.5" />`)}</g>`;
}

/** Points without a gap between them. */
function pieces(points) {
  const found = [[]];
  for (const one of points) {
    if (one.y == null) found.push([]);
    else found.at(-1).push(one);
  }
  return found.filter((piece) => piece.length);
}

function scaleOf(lines, width, time) {
  const points = lines.flatMap((line) => line.points);
  const xs = [...new Set(points.map((one) => one.x))].sort((a, b) => a - b);
  const top = roundUp(Math.max(...points.map((one) => Math.max(one.y ?? 0, one.high ?? 0))));
  const place = time ? (value) => value : Math.log2;
  const [first, last] = (time ? [time.from, time.to] : [xs[0], xs.at(-1)]).map(place);
  const [from, to] = time ? [EDGE.left, width - EDGE.right] : [EDGE.left + 14, width - EDGE.right - 34];
  const x = (value) => (first === last ? (from + to) / 2 : from + ((place(value) - first) / (last - first)) * (to - from));
  return {
    xs, x,
    y: (value) => HEIGHT - EDGE.bottom - (value / top) * (HEIGHT - EDGE.bottom - EDGE.top),
    marks: Array.from({ length: STEPS + 1 }, (_, step) => (top / STEPS) * step),
    nearest: (at) => xs.reduce((best, one) => (Math.abs(x(one) - at) < Math.abs(x(best) - at) ? one : best)),
  };
}

function cell(point) {
  if (point?.y == null) return "–";
  return point.low == null ? figure(point.y) : `${figure(point.y)} (${figure(point.low)} to ${figure(point.high)})`;
}

function summary(title, unit, across, lines, at) {
  const words = lines.map(({ name, points }) => {
    const known = points.filter((one) => one.y != null);
    return `${name} from ${figure(known[0].y)} at ${at(known[0].x)} to ${figure(known.at(-1).y)} at ${at(known.at(-1).x)} ${across}`;
  });
  return `${title} in ${unit}: ${words.join("; ")}`;
}

/** The width of an element, as it changes. */
function useWidth(first) {
  const [width, setWidth] = useState(first);
  const box = useRef(null);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.max(200, Math.floor(entry.contentRect.width))));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  return [width, box];
}
