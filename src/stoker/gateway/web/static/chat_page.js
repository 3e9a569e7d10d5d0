// Chat with one model, or with two at once.
import { columns, compare, startOver } from "./chat.js";
import { Column } from "./chat_column.js";
import { Composer } from "./composer.js";
import { ChatSettings } from "./chat_settings.js";
import { html, useEffect } from "./kit.js";
import { namesFor, otherThan, usual } from "./model_list.js";

export function Chat({ wanted }) {
  const names = namesFor("chat");
  useEffect(() => {
    for (const column of columns.value) {
      if (!names.some((one) => one.id === column.model.value)) column.model.value = usual(names);
    }
    if (names.some((one) => one.id === wanted)) columns.value[0].model.value = wanted;
  }, [names.length, wanted]);
  const isSingle = columns.value.length === 1;
  const other = otherThan(columns.value[0].model.value, names);
  const isEmpty = columns.value.every((one) => !one.turns.value.length);
  return html`
    <div class="play">
      <div class="talk">
        <div class=${isSingle ? "conversations" : "conversations two"}>
          ${columns.value.map((column, index) => html`<${Column} key=${column.id} column=${column} number=${index + 1} isSingle=${isSingle} />`)}
        </div>
        <${Composer} />
      </div>
      <aside aria-label="Settings">
        ${isSingle && other && html`<button class="quiet" onClick=${() => compare(other)}>Compare models</button>`}
        <button class="quiet" disabled=${isEmpty} onClick=${startOver}>New conversation</button>
        <${ChatSettings} />
        <p class="dim small">The conversation is in this page only: closing it forgets everything. Stoker records times and counts of each request, not its text.</p>
      </aside>
    </div>`;
}
