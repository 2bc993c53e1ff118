// Settings of this browser, CSRF tokens and notices for failed requests. Every page works without this file.
// Nothing here submits a decision. Shortcuts are in keys.js, live updates in live.js.
"use strict";

(() => {
  const YEAR = 365 * 24 * 3600;
  const remember = (name, value) => {
    document.cookie = `${name}=${value}; path=/; max-age=${YEAR}; samesite=lax`;
  };
  // A text of a page in the reader's language, with values: {number: 1} takes the text NAME-one if there is one.
  const texts = new Map();
  for (const element of document.getElementById("script-texts")?.content.children ?? []) {
    texts.set(element.dataset.name, element.textContent.replace(/\s+/g, " ").trim());
  }
  window.reviewQueueText = (name, values = {}) => {
    const text = (values.number === 1 && texts.get(`${name}-one`)) || (texts.get(name) ?? "");
    return text.replace(/\{(\w+)\}/g, (whole, key) => values[key] ?? whole);
  };

  const recall = (name) => document.cookie.split("; ").find((pair) => pair.startsWith(`${name}=`))?.slice(name.length + 1);

  // The server renders times in the reader's zone; until it knows the zone it uses UTC.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone && recall("zone") !== zone) remember("zone", zone);

  // The theme is a cookie, so that the server renders it and no page flashes in the wrong colours.
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
  if (nextOn) nextOn.checked = recall("next") !== "offered";
  if (keysOn) keysOn.checked = recall("keys") !== "off";

  document.addEventListener("htmx:configRequest", (event) => {
    // Signing in elsewhere changes the token: the cookie has the current one, the page can have an older one.
    const token = recall("csrftoken") ?? document.querySelector("meta[name=csrf-token]").content;
    event.detail.headers["X-CSRFToken"] = token;
    if (event.detail.parameters.csrfmiddlewaretoken) event.detail.parameters.csrfmiddlewaretoken = token;
    // Requests of one tab can arrive in another order; the server keeps the newest text.
    if (event.detail.parameters.draft) event.detail.parameters.edit = String(Date.now());
  });

  // Text entered while a form is being sent is not part of that request: it is entered again into the form that returns.
  let sentValues = null;
  const controls = () =>
    [...document.querySelectorAll("#main form :is(input, textarea, select)[name]")].filter((control) => !["hidden", "file"].includes(control.type));
  const isChoice = (control) => control.type === "radio" || control.type === "checkbox";
  const keyOf = (control) => JSON.stringify([control.form.id, control.name, isChoice(control) ? control.value : ""]);
  const valueOf = (control) => (isChoice(control) ? control.checked : control.value);

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.target?.id === "main") sentValues = new Map(controls().map((control) => [keyOf(control), valueOf(control)]));
  });
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.target?.id !== "main" || !sentValues) return;
    const changed = controls().filter((control) => sentValues.has(keyOf(control)) && sentValues.get(keyOf(control)) !== valueOf(control));
    event.detail.target.enteredMeanwhile = changed.map((control) => [keyOf(control), valueOf(control)]);
  });
  document.addEventListener("htmx:afterSwap", (event) => {
    const entered = event.detail.target?.enteredMeanwhile ?? [];
    if (event.detail.target?.id !== "main") return;
    delete event.detail.target.enteredMeanwhile;
    const lost = [];
    for (const [key, value] of entered) {
      const control = controls().find((candidate) => keyOf(candidate) === key);
      if (!control) {
        if (typeof value === "string" && value.trim()) lost.push(value);
        continue;
      }
      if (isChoice(control)) control.checked = value;
      else control.value = value;
      control.dispatchEvent(new Event("input", { bubbles: true }));
    }
    if (lost.length) warn(reviewQueueText("not-sent", { values: lost.join("; ") }));
  });

  // A whole page in response to a request for a fragment (sign-in, after the session has expired) is never swapped in:
  // the input stays, and a notice says what to do.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.boosted || !/^\s*<!doctype/i.test(event.detail.serverResponse)) return;
    event.detail.shouldSwap = false;
    if (event.detail.xhr.status === 404) return gone(event.detail.target);
    if ([400, 413].includes(event.detail.xhr.status)) {
      return warn(reviewQueueText("form-too-large"));
    }
    warn(reviewQueueText("not-submitted-signed-out"), reviewQueueText("sign-in"));
  });

  // The reader is signed in but cannot see the request any more: signing in again would not help.
  function gone(target) {
    if (target.matches("[data-live]")) return; // live.js shows a notice
    if (target.matches(".saved")) target.textContent = reviewQueueText("draft-not-saved");
    else warn(reviewQueueText("not-submitted-gone"));
  }

  document.addEventListener("htmx:sendError", (event) => {
    if (event.target.closest("[data-live]")) return;
    warn(reviewQueueText("unreachable"));
  });
  document.addEventListener("htmx:responseError", (event) => {
    if (event.detail.xhr.status >= 500 && !event.target.closest("[data-live]")) warn(reviewQueueText("server-error"));
  });

  document.addEventListener("reviewqueue:warn", (event) => warn(event.detail.message, event.detail.link));

  function warn(message, link) {
    const notice = document.createElement("div");
    notice.className = "notice bad";
    notice.setAttribute("role", "alert");
    const text = document.createElement("div");
    text.append(message);
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
