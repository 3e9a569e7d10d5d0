// Who uses the page, and what they may do.
import { ask, whenNoKey } from "./api.js";
import { computed, signal } from "./kit.js";

/** null: not known yet. `needed`: a key has to be given. Else what `GET /ui/session` answers. */
export const who = signal(null);
export const mayAct = computed(() => who.value?.scope === "admin");
/** Whether the key may use any model. */
export const mayCall = computed(() => Boolean(who.value?.may_call));
export const mayLook = computed(() => ["observe", "admin"].includes(who.value?.scope));

export async function look() {
  try {
    who.value = await ask("ui/session");
  } catch (error) {
    if (error.status === 401) who.value = { needed: true };
    else throw error;
  }
}

whenNoKey(() => {
  if (!who.value?.needed) look().catch(() => {}); // without an answer, the request that was refused tells it
});

export async function signIn(key) {
  const path = new URL("../", document.baseURI).pathname;
  who.value = await ask("ui/session", { method: "POST", key, body: { path } });
}

export async function signOut() {
  const path = new URL("../", document.baseURI).pathname;
  await ask("ui/session", { method: "DELETE", body: { path } });
  who.value = { needed: true };
}
