"use strict";
// What a server adds to a page that has a function `renew`: it asks every second for what is new, and takes that in.
(() => {
  let version = document.documentElement.dataset.version;
  const gone = make("p", "The server has ended. This is what it showed last.", "open");
  gone.setAttribute("role", "status");
  const ask = async () => {
    try {
      const answer = await fetch("?since=" + encodeURIComponent(version), { cache: "no-store" });
      if (answer.status === 200) {
        const told = await answer.json();
        version = told.version;
        renew(told.data);
      }
      gone.remove();
    } catch { document.querySelector("header").append(gone); }
    setTimeout(ask, 1000);
  };
  if (typeof renew === "function") setTimeout(ask, 1000);
})();
