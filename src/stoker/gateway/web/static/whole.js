// Loads the page again if a part of it did not come. No module: it has to run where one of them is missing.
(() => {
  const PAUSE = 2000;
  let isMissing = false;

  addEventListener("error", ({ target }) => {
    if (isMissing || !target.matches?.("script, link")) return;
    isMissing = true;
    const note = document.querySelector(".boot");
    if (note) note.textContent = "A part of this page did not come. It is loaded again …";
    setTimeout(again, PAUSE);
  }, true);

  /** Only while Stoker answers: else the browser would show a page of its own, and stay there. */
  async function again() {
    try {
      if ((await fetch(document.baseURI, { cache: "no-store" })).ok) return location.reload();
    } catch {
      // there is no answer yet
    }
    setTimeout(again, PAUSE);
  }
})();
