// Asks again for files of the page that did not load. Not a module: it has to run where one of those is missing.
(() => {
  const FIRST_PAUSE = 2000, LONGEST_PAUSE = 32_000, TRIES = 5, SILENCE = 40_000, ANSWERS_WITHIN = 10_000;
  const COUNT = "stoker-reloads";
  const boot = () => document.querySelector(".boot");
  const nameOf = (part) => (part.href ?? part.src ?? "").split("/").at(-1);
  const pause = (tries) => Math.min(FIRST_PAUSE * 2 ** tries, LONGEST_PAUSE);
  let isMissing = false;

  addEventListener("error", ({ target }) => {
    if (target.matches?.("link[rel=stylesheet]")) askForStyle(target);
    else if (target.matches?.("script")) askForPage(`${nameOf(target)}, or a file that it needs`);
  }, true);

  addEventListener("load", () => {
    if (!boot()) count(0);
  });

  setTimeout(() => {
    if (boot()) askForPage("one of them is never answered");
  }, SILENCE);

  function askForStyle(link) {
    const tries = Number(link.dataset.tries ?? 0);
    if (tries >= TRIES) return giveUp(nameOf(link));
    const next = link.cloneNode();
    next.dataset.tries = tries + 1;
    setTimeout(() => link.replaceWith(next), pause(tries));
  }

  function askForPage(which) {
    if (isMissing) return;
    isMissing = true;
    const tries = count();
    if (tries >= TRIES) {
      count(0);
      return giveUp(which);
    }
    say("Part of this page did not load. Trying again …");
    setTimeout(() => again(tries, 0), pause(tries));
  }

  /** Only while Stoker answers: else the browser would show a page of its own, and stay there. */
  async function again(tries, silent) {
    try {
      const reply = await fetch(document.baseURI, { cache: "no-store", signal: AbortSignal.timeout(ANSWERS_WITHIN) });
      if (reply.ok && count(tries + 1) === tries + 1) return location.reload();
    } catch {
      // there is no answer yet
    }
    setTimeout(() => again(tries, silent + 1), pause(silent));
  }

  /** How often the page was loaded again in a row. Where the browser keeps nothing, it is not loaded again at all. */
  function count(now) {
    try {
      if (now !== undefined) sessionStorage.setItem(COUNT, now);
      return Number(sessionStorage.getItem(COUNT));
    } catch {
      return TRIES;
    }
  }

  function giveUp(which) {
    say(`Some files of this page do not load: ${which}. If a proxy stands in front of Stoker, check its log and the headers that it adds; otherwise check the terminal in which Stoker runs. Then reload this page.`);
  }

  function say(text) {
    let note = boot() ?? document.querySelector("#missing");
    if (!note) {
      note = document.createElement("p");
      note.id = "missing";
      note.role = "alert";
      document.body.prepend(note);
    }
    note.textContent = text;
  }
})();
