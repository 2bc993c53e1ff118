// Notifications of this browser about new requests, only for a person who asked for them in it (page Notifications). They
// come from an open inbox whose tab is hidden, name no request, and a click on one only shows the tab.
"use strict";

(() => {
  const KEY = "reviewqueue.notifications"; // the id of the person who asked
  const rows = () => [...document.querySelectorAll("#list .wait")];
  const newest = () => Math.max(0, ...rows().map((row) => Date.parse(row.dataset.since)));
  const person = (value) => {
    try {
      if (value === undefined) return localStorage.getItem(KEY);
      if (value) localStorage.setItem(KEY, value);
      else localStorage.removeItem(KEY);
    } catch {} // storage is switched off
    return null;
  };
  // Chrome on Android has Notification, but its constructor throws: there only a service worker can show one.
  const isPossible = "Notification" in window && !navigator.userAgentData?.mobile;
  const isWanted = (who) => isPossible && Notification.permission === "granted" && Boolean(who) && person() === who;

  // --- an open inbox ---------------------------------------------------------------------------------------------------

  const list = document.getElementById("list"), live = document.getElementById("asks-again");
  if (list && live && isWanted(list.dataset.who)) {
    let seen = newest();
    live.dataset.hiddenToo = "";
    document.addEventListener("reviewqueue:listed", () => {
      const before = seen;
      const number = rows().filter((row) => Date.parse(row.dataset.since) > before).length;
      seen = Math.max(seen, newest());
      if (!number || !document.hidden) return;
      try {
        const shown = new Notification(live.dataset.newRequests.replace("{number}", number), { tag: "reviewqueue" });
        shown.onclick = () => { window.focus(); shown.close(); };
      } catch {
        person(""); // this browser cannot show one
      }
    });
  }

  // --- the choice ------------------------------------------------------------------------------------------------------

  const choice = document.getElementById("in-this-browser");
  if (!choice) return;
  const checkbox = choice.querySelector("input"), refused = choice.querySelector("[data-refused]");
  choice.hidden = !isPossible;
  const show = () => {
    checkbox.checked = isWanted(checkbox.value);
    refused.hidden = !isPossible || Notification.permission !== "denied";
  };
  checkbox.addEventListener("change", async () => {
    if (checkbox.checked && (await Notification.requestPermission()) === "granted") person(checkbox.value);
    else person("");
    show();
  });
  show();
})();
