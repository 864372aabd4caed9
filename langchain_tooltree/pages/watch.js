"use strict";
// What a server adds to a page that has a function `renew`: it asks every second for what is new, and takes that in.
(() => {
  let version = document.documentElement.dataset.version;
  let failed = 0, broken = "";
  const note = make("p", undefined, "open"), gone = "The server has ended. This is what it showed last.";
  note.setAttribute("role", "status");
  const tell = (text) => {
    if (!text) { note.remove(); return; }
    if (note.textContent !== text) note.textContent = clean(text);
    const head = document.querySelector("header");
    if (head) head.append(note); else document.querySelector("main:not([hidden])").prepend(note);
  };
  const ask = async () => {
    try {
      const answer = await fetch("?since=" + encodeURIComponent(version), { cache: "no-store" });
      const told = answer.status === 200 ? await answer.json() : undefined;
      failed = answer.ok ? 0 : failed + 1;
      if (told) {
        version = told.version;
        try { renew(told.data); broken = ""; } catch (error) { broken = "What is new cannot be shown (" + error + "). Load this page again."; }
      }
      tell(failed > 1 ? await answer.text() : broken); // once, a line may be half written
    } catch { tell(gone); }
    setTimeout(ask, 1000);
  };
  if (typeof renew === "function") setTimeout(ask, 1000);
})();
