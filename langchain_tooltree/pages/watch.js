"use strict";
// What a server adds to a page: it asks every second for newer data, and shows it.
(() => {
  let version = document.documentElement.dataset.version, failures = 0, broken = "";
  const note = make("p", undefined, "open");
  note.setAttribute("role", "status");
  document.querySelector("header").append(note);
  const say = (text) => { if (note.textContent !== clean(text)) note.textContent = clean(text); };
  const ask = async () => {
    try {
      const answer = await fetch("?since=" + encodeURIComponent(version), { cache: "no-store" });
      const newer = answer.status === 200 ? await answer.json() : undefined;
      failures = answer.ok ? 0 : failures + 1;
      if (newer) {
        version = newer.version;
        try { renew(newer.data); broken = ""; } catch (error) {
          broken = "What is new cannot be shown (" + error + "). Load this page again.";
        }
      }
      say(failures > 1 ? await answer.text() : broken); // once, a line may be half written
    } catch { say("The server has ended. This is what it showed last."); }
    setTimeout(ask, 1000);
  };
  setTimeout(ask, 1000);
})();
