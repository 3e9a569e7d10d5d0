// Curves with their spread, as SVG in the page's own colours; the same numbers stand beside them as a table.
import { html, useEffect, useRef, useState } from "./kit.js";
import { Twin } from "./parts.js";
import { figure } from "./result_words.js";

const HEIGHT = 220;
const EDGE = { left: 46, right: 12, top: 10, bottom: 26 };
const STEPS = 4;

/**
 * `lines`: `{ name, tone, points: [{ x, y, low, high }] }`; `tone`: 0 or 1. The x axis doubles from mark to mark, the
 * y axis begins at 0.
 */
export function Plot({ title, unit, across, lines }) {
  const [width, box] = useWidth(480);
  const [near, setNear] = useState(null);
  const shown = lines.filter((line) => line.points.length);
  if (!shown.length) return null;
  const scale = scaleOf(shown, width);
  const point = (event) => setNear(scale.nearest(event.clientX - event.currentTarget.getBoundingClientRect().left));
  return html`
    <figure class="plot">
      <figcaption><b>${title}</b> <span class="dim">${unit}</span>
        <span class="keys">${shown.map((line) => html`<span class=${`key s${line.tone}`}><i />${line.name}<${Value} line=${line} at=${near} /></span>`)}</span></figcaption>
      <div ref=${box}><svg width=${width} height=${HEIGHT} role="img" aria-label=${summary(title, unit, across, shown)}
        onPointerMove=${point} onPointerLeave=${() => setNear(null)}>
        <${Grid} scale=${scale} across=${across} width=${width} />
        ${near != null && html`<line class="near" x1=${scale.x(near)} x2=${scale.x(near)} y1=${EDGE.top} y2=${HEIGHT - EDGE.bottom} />`}
        ${shown.map((line) => html`<${Line} key=${line.name} line=${line} scale=${scale} />`)}
      </svg></div>
      <${Twin} label=${`${title} in ${unit}`} heads=${[across, ...shown.map((line) => line.name)]}
        rows=${scale.xs.map((x) => [x, ...shown.map((line) => cell(line.points.find((one) => one.x === x)))])} />
    </figure>`;
}

function Value({ line, at }) {
  const found = at == null ? null : line.points.find((one) => one.x === at);
  return found ? html` <b>${figure(found.y)}</b>` : null;
}

function Grid({ scale, across, width }) {
  return html`
    ${scale.marks.map((mark) => html`<line class="grid" x1=${EDGE.left} x2=${width - EDGE.right} y1=${scale.y(mark)} y2=${scale.y(mark)} />
      <text x=${EDGE.left - 8} y=${scale.y(mark) + 4} text-anchor="end">${figure(mark)}</text>`)}
    ${scale.xs.map((x, index) => html`<text x=${scale.x(x)} y=${HEIGHT - 8} text-anchor="middle">${x}${index === scale.xs.length - 1 ? ` ${across}` : ""}</text>`)}`;
}

function Line({ line, scale }) {
  const at = ({ x, y }) => `${scale.x(x).toFixed(1)},${scale.y(y).toFixed(1)}`;
  const known = line.points.filter((one) => one.low != null && one.high != null);
  const band = [...known.map((one) => at({ x: one.x, y: one.high })), ...known.toReversed().map((one) => at({ x: one.x, y: one.low }))];
  return html`<g class=${`s${line.tone}`}>
    ${known.length > 1 && html`<polygon class="band" points=${band.join(" ")} />`}
    <polyline class="curve" points=${line.points.map(at).join(" ")} />
    ${line.points.map((one) => html`<circle cx=${scale.x(one.x)} cy=${scale.y(one.y)} r="3.5" />`)}</g>`;
}

function scaleOf(lines, width) {
  const points = lines.flatMap((line) => line.points);
  const xs = [...new Set(points.map((one) => one.x))].sort((a, b) => a - b);
  const top = roundUp(Math.max(...points.map((one) => Math.max(one.y, one.high ?? 0))));
  const [first, last] = [xs[0], xs.at(-1)].map(Math.log2);
  const [from, to] = [EDGE.left + 14, width - EDGE.right - 34];
  const x = (value) => (first === last ? (from + to) / 2 : from + ((Math.log2(value) - first) / (last - first)) * (to - from));
  return {
    xs, x,
    y: (value) => HEIGHT - EDGE.bottom - (value / top) * (HEIGHT - EDGE.bottom - EDGE.top),
    marks: Array.from({ length: STEPS + 1 }, (_, step) => (top / STEPS) * step),
    nearest: (at) => xs.reduce((best, one) => (Math.abs(x(one) - at) < Math.abs(x(best) - at) ? one : best)),
  };
}

/** The next round number: the top of an axis. */
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.6, 2, 2.4, 3.2, 4, 6, 8, 10].map((step) => step * size).find((round) => round >= value * 0.999);
}

function cell(point) {
  if (!point) return "–";
  return point.low == null ? figure(point.y) : `${figure(point.y)} (${figure(point.low)} to ${figure(point.high)})`;
}

function summary(title, unit, across, lines) {
  const words = lines.map(({ name, points }) => `${name} from ${figure(points[0].y)} at ${points[0].x} to ${figure(points.at(-1).y)} at ${points.at(-1).x} ${across}`);
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
