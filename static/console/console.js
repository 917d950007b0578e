/* What pages gain with JavaScript: ticking clocks, single keys, the browser's zone, and a word when no answer comes.
   Nothing here changes a fact, a field or the focus on its own. */
"use strict";

(() => {
  const root = document.documentElement;

  // -- The browser's zone, where the reader has not chosen one
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && !/(^|; )weave_zone=/.test(document.cookie)) {
    document.cookie = `weave_zone=${zone}; path=/; max-age=31536000; samesite=lax`;
  }

  // -- Clocks: the page says until when and as of when; the script only counts on from there
  const opened = Date.now();
  const pad = (number) => String(number).padStart(2, "0");
  const counted = (seconds) => {
    const hours = Math.floor(seconds / 3600), minutes = Math.floor(seconds / 60) % 60;
    return hours ? `${hours}:${pad(minutes)}:${pad(seconds % 60)}` : `${minutes}:${pad(seconds % 60)}`;
  };
  const tick = () => {
    const passed = (Date.now() - opened) / 1000;
    for (const element of document.querySelectorAll("[data-left]")) {
      const left = Number(element.dataset.left) - passed;
      if (left > 0 && left < 172800) {
        element.textContent = counted(Math.floor(left));
        if (left < 3600) element.closest("[data-near]")?.classList.add("near");
      } else if (left <= 0) {
        element.textContent = element.dataset.over;
      }
    }
  };
  setInterval(tick, 1000);

  // -- Single keys; the reader can switch them off
  const rows = () => [...document.querySelectorAll("[data-rows] tbody tr")].filter((row) => row.querySelector("a.key, th a"));
  const walk = (step) => {
    const all = rows();
    if (!all.length) return;
    const at = all.findIndex((row) => row.getAttribute("aria-current") === "true");
    const next = all[Math.min(Math.max(at + step, 0), all.length - 1)];
    all.forEach((row) => row.removeAttribute("aria-current"));
    next.setAttribute("aria-current", "true");
    next.querySelector("a.key, th a").focus();
  };
  let before = "";
  document.addEventListener("keydown", (event) => {
    if (root.dataset.keys !== "on" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, textarea, select, [contenteditable]")) return;
    const key = event.key, pair = before + key;
    before = key === "g" ? "g" : "";
    if (key === "/") {
      event.preventDefault();
      document.getElementById("q")?.focus();
    } else if (key === "j") walk(1);
    else if (key === "k") walk(-1);
    else if (pair === "gq") document.querySelector(".brand")?.click();
    else if (key === "?") document.querySelector(".keys a")?.click();
  });

  // -- No answer: what was sent may have been done or not; the original key tells
  const lost = (event) => {
    const form = event.detail.elt.closest("form");
    const word = form?.querySelector("[data-lost]");
    if (word) {
      word.hidden = false;
      word.focus();
    }
  };
  for (const name of ["htmx:sendError", "htmx:timeout", "htmx:responseError"]) document.addEventListener(name, lost);
})();
