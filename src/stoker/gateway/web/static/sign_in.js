import { html, useState } from "./kit.js";
import { Problem } from "./parts.js";
import { signIn } from "./session.js";

export function SignIn() {
  const [error, setError] = useState(null);
  const [isBusy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await signIn(new FormData(event.target).get("key").trim());
    } catch (problem) {
      setError(problem);
      setBusy(false);
    }
  };
  return html`
    <main class="alone">
      <h1>Stoker</h1>
      <form onSubmit=${submit}>
        <label for="key">Key</label>
        <input id="key" name="key" type="password" autocomplete="current-password" required autofocus
          aria-describedby="key-hint" />
        <p id="key-hint" class="dim"><code>stoker keys create NAME --scope admin</code> makes one${" "}
          to look and act, <code>--scope observe</code> one to look only. The browser keeps a cookie for 12 hours instead of the key.</p>
        ${error && html`<${Problem} error=${error} />`}
        ${error?.status === 403 && html`<p><code>stoker keys create NAME --scope admin</code> makes a key that may.</p>`}
        <button disabled=${isBusy}>Sign in</button>
      </form>
    </main>`;
}
