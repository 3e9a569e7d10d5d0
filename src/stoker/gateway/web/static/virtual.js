// A table of any length, of which only the rows in view exist. Its rows have one height.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./kit.js";

const BEYOND = 8;
const STEPS = { ArrowDown: 1, ArrowUp: -1, PageDown: 12, PageUp: -12, Home: -Infinity, End: Infinity };
const narrow = matchMedia("(max-width: 40rem)");

/**
 * `rows`: each with an `id`. `cells(row, place)`: its content, with one link that takes the attributes `place`. `heights`: of a
 * row in pixels, on a wide and on a narrow page. `kept`: `{ top, id }`, remembered by the caller: where it was
 * scrolled to, and the row that was used last. What is in view stays in view when rows are added before it.
 */
export function VirtualTable({ label, head, rows, cells, heights, kept, onEnd }) {
  const [, draw] = useState(0);
  const box = useRef(null);
  const anchor = useRef(null);
  const height = narrow.matches ? heights[1] : heights[0];
  const room = box.current?.clientHeight ?? 800;
  const first = Math.max(0, Math.floor(kept.top / height) - BEYOND);
  const shown = rows.slice(first, first + Math.ceil(room / height) + 2 * BEYOND);
  const used = shown.some((one) => one.id === kept.id) ? kept.id : rows[Math.ceil(kept.top / height)]?.id;

  useEffect(() => {
    const again = () => draw((count) => count + 1);
    narrow.addEventListener("change", again);
    addEventListener("resize", again);
    box.current.scrollTop = kept.top;
    again();
    return () => {
      narrow.removeEventListener("change", again);
      removeEventListener("resize", again);
    };
  }, []);

  useLayoutEffect(() => {
    const held = anchor.current;
    const isKept = kept.top > 0 || box.current.contains(document.activeElement);
    if (held && isKept && rows[held.place]?.id !== held.id) {
      const place = rows.findIndex((one) => one.id === held.id);
      if (place >= 0) {
        box.current.scrollTop = kept.top = kept.top + (place - held.place) * height;
        draw((count) => count + 1);
      }
    }
    hold();
  });

  /** Remember the first row in view. */
  function hold() {
    const place = Math.ceil(kept.top / height);
    anchor.current = rows[place] ? { id: rows[place].id, place } : null;
  }

  const scrolled = () => {
    kept.top = box.current.scrollTop;
    hold();
    draw((count) => count + 1);
    if (kept.top + 3 * room > rows.length * height) onEnd?.();
  };

  const pressed = (event) => {
    const step = STEPS[event.key];
    const link = event.target.closest("[data-row]");
    if (step == null || !link || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const place = rows.findIndex((one) => one.id === link.dataset.row);
    const next = Math.max(0, Math.min(rows.length - 1, place + step));
    kept.id = rows[next].id;
    const head = box.current.firstElementChild.offsetHeight;
    if (next * height < box.current.scrollTop) box.current.scrollTop = next * height;
    else if ((next + 1) * height + head > box.current.scrollTop + room) box.current.scrollTop = (next + 1) * height + head - room;
    kept.top = box.current.scrollTop;
    draw((count) => count + 1);
    requestAnimationFrame(() => box.current?.querySelector(`[data-row="${CSS.escape(kept.id)}"] a`)?.focus());
  };

  return html`
    <div class="virtual" role="table" aria-label=${label} aria-rowcount=${rows.length + 1} ref=${box} onScroll=${scrolled} onKeyDown=${pressed}>
      <div role="rowgroup" class="virtual-head"><div role="row" aria-rowindex="1" class="virtual-row">${head}</div></div>
      <div role="rowgroup" class="virtual-rows" style=${{ height: `${rows.length * height}px` }}>
        ${shown.map((one, index) => html`<div role="row" key=${one.id} data-row=${one.id} aria-rowindex=${first + index + 2} class="virtual-row"
          style=${{ top: `${(first + index) * height}px`, height: `${height}px` }} onFocusIn=${() => { kept.id = one.id; }}>${cells(one, { tabindex: one.id === used ? 0 : -1, "data-focus": one.id === kept.id ? "" : null })}</div>`)}
      </div>
    </div>`;
}
