// The little that HTML and htmx cannot do. Every page works without this file: the theme then follows the system.
// Nothing here decides anything. Single keys are in keys.js, what others do meanwhile in live.js.
"use strict";

(() => {
  const YEAR = 365 * 24 * 3600;
  const remember = (name, value) => {
    document.cookie = `${name}=${value}; path=/; max-age=${YEAR}; samesite=lax`;
  };
  const recall = (name) => document.cookie.split("; ").find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1);

  // The server prints times in the reader's zone; it learns the zone from here, and says UTC until then.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && recall("zone") !== zone) remember("zone", zone);

  // The choice is a cookie, so that the server prints it and no page flashes in the wrong colours.
  document.addEventListener("change", (event) => {
    if (event.target.matches("#theme input")) {
      document.documentElement.dataset.theme = event.target.value;
      remember("theme", event.target.value);
    }
    if (event.target.id === "next-on") remember("next", event.target.checked ? "at-once" : "offered");
    if (event.target.id === "keys-on") remember("keys", event.target.checked ? "on" : "off");
  });
  const keysOn = document.getElementById("keys-on");
  const nextOn = document.getElementById("next-on");
  if (nextOn) nextOn.checked = recall("next") === "at-once";
  if (keysOn) keysOn.checked = recall("keys") !== "off";

  document.addEventListener("htmx:configRequest", (event) => {
    // Signing in elsewhere changes the token; the cookie has today's, this page may be older.
    const token = recall("csrftoken") ?? document.querySelector("meta[name=csrf-token]").content;
    event.detail.headers["X-CSRFToken"] = token;
    if (event.detail.parameters.csrfmiddlewaretoken) event.detail.parameters.csrfmiddlewaretoken = token;
  });

  // A whole page in answer to a fragment's request (a session that ended leads to sign-in) is never put into a row:
  // what was typed stays, and the person is told what to do.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.boosted || !/^\s*<!doctype/i.test(event.detail.serverResponse)) return;
    event.detail.shouldSwap = false;
    if (event.detail.xhr.status === 404) return gone(event.detail.target);
    warn("Nothing was sent: your session has ended, or you may not do this. What you typed is still here.", "Sign in in a new tab");
  });

  // Signed in as before, and it is not there for this person any more: no way to sign in helps, so none is offered.
  function gone(target) {
    if (target.matches("[data-live]")) return; // live.js tells it
    const words = "this is not yours to see any more.";
    if (target.matches(".saved")) target.textContent = `What you type is not kept: ${words}`;
    else warn(`Nothing was sent: ${words} What you typed is still here.`);
  }

  document.addEventListener("htmx:sendError", (event) => {
    if (event.target.closest("[data-live]")) return;
    warn("The server cannot be reached. Nothing was sent; what you typed is still here.");
  });
  document.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status >= 500 && !event.target.closest("[data-live]")) warn("Something broke on our side. Open the wait again to see what was stored.");
  });

  document.addEventListener("desk:warn", (event) => warn(event.detail.words, event.detail.link));

  function warn(words, link) {
    const notice = document.createElement("div");
    notice.className = "notice bad";
    notice.setAttribute("role", "alert");
    const text = document.createElement("div");
    text.append(words);
    if (link) {
      const anchor = document.createElement("a");
      Object.assign(anchor, { href: document.querySelector(".brand")?.href ?? "/", target: "_blank", textContent: link });
      text.append(" ", anchor);
    }
    notice.append(text);
    document.getElementById("notices").replaceChildren(notice);
    notice.scrollIntoView({ block: "nearest" });
  }
})();
