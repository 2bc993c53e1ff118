// Single-key shortcuts: move, open, claim, choose, skip, undo, search, help. A shortcut never submits a decision.
// WCAG 2.1.4: inactive while typing, in menus and dialogs, and if switched off (a cookie stores that).
"use strict";

(() => {
  const off = () => document.cookie.split("; ").includes("keys=off");
  const typing = (target) => target.closest?.("input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable]");
  const covered = () => document.querySelector(":popover-open, dialog[open]");
  const first = (...selectors) => selectors.map((one) => document.querySelector(one)).find(Boolean);

  // --- a list --------------------------------------------------------------------------------------------------------

  const PLACE = "at"; // the last row of the list, in this tab only
  const rows = () => [...document.querySelectorAll("#list .wait")];
  const current = () => document.activeElement?.closest(".wait") ?? document.querySelector(".wait.at");

  function mark(row, { focus }) {
    for (const other of document.querySelectorAll(".wait.at")) {
      other.classList.remove("at");
      other.removeAttribute("aria-current");
    }
    row.classList.add("at");
    row.setAttribute("aria-current", "true");
    sessionStorage.setItem(PLACE, row.id);
    if (focus) row.querySelector(".ask > a").focus();
  }

  function move(by) {
    const all = rows();
    const at = all.indexOf(current());
    const next = at < 0 ? all.find((row) => row.id === sessionStorage.getItem(PLACE)) ?? all[0] : all[at + by];
    if (next) mark(next, { focus: true });
    return Boolean(all.length);
  }

  document.addEventListener("focusin", (event) => {
    const row = event.target.closest("#list .wait");
    if (row && !row.classList.contains("at")) mark(row, { focus: false });
  });

  // --- a request --------------------------------------------------------------------------------------------------------

  // The first press chooses a verdict and, if it needs text, focuses its first field, so that typing triggers no shortcut.
  // The next press focuses what the verdict still needs, finally its button.
  function choose(...verdicts) {
    for (const verdict of verdicts) {
      const radio = document.querySelector(`main input[name=verdict][type=radio][value="${verdict}"]`);
      if (radio) return radio.checked ? focusNext(radio) : pick(radio, NEEDS_TEXT.includes(verdict));
      const form = document.querySelector(`main input[name=verdict][type=hidden][value="${verdict}"]`)?.form;
      if (!form) continue;
      const fold = form.closest("details");
      if (fold) fold.open = true;
      const field = [...form.elements].find((it) => it.matches("input:not([type=hidden]), textarea, select") && !it.disabled);
      (field ?? form.querySelector("button[name=act]:not(.vh)")).focus();
      return true;
    }
    return false;
  }

  const NEEDS_TEXT = ["edit", "reject", "decline", "respond"]; // only an approval needs no text
  const field = (radio) => [...radio.closest(".verdict").querySelectorAll(".then :is(input, textarea, select)")].find(isFree);
  const isFree = (it) => typing(it) && it.type !== "hidden" && !it.disabled && !it.readOnly && it.checkVisibility();

  function pick(radio, needsText) {
    radio.click();
    ((needsText && field(radio)) || radio).focus();
    return true;
  }

  function focusNext(radio) {
    const input = NEEDS_TEXT.includes(radio.value) && field(radio);
    if (input && !input.value) {
      input.focus();
      return true;
    }
    const needs = radio.closest(".verdict").querySelector(".then");
    const tick = [...needs.querySelectorAll("input[type=checkbox]:required, .tick input[type=checkbox]")].find((it) => !it.checked);
    (tick ?? needs.querySelector("button[name=act]"))?.focus();
    return true;
  }

  // --- keys ----------------------------------------------------------------------------------------------------------

  function press(element) {
    if (!element) return false;
    element.click();
    return true;
  }

  function say(message) {
    const place = document.getElementById("says");
    if (place) place.textContent = message;
    return true;
  }

  function search() {
    const field = document.querySelector("main input[type=search]");
    if (field) {
      field.focus();
      field.select();
    } else {
      const inbox = document.querySelector(".brand");
      if (inbox) window.location.assign(`${inbox.getAttribute("href")}?view=open#q`);
    }
    return true;
  }

  function skip() {
    if (rows().length) return move(1);
    return press(first("[data-next]")) || say(reviewQueueText("no-more-requests"));
  }

  const claimOf = (row) => row?.querySelector("[data-act=claim]");
  const claim = () => press(rows().length ? claimOf(current()) : first("#held form[action$='/claim'] button"));

  const ACTS = {
    j: () => move(1) || press(first("[data-next]")),
    k: () => move(-1) || press(first("[data-previous]")),
    c: claim,
    x: () => press(current()?.querySelector(".pick")),
    X: () => Boolean(current()?.querySelector(".pick")?.dispatchEvent(new Event("reviewqueue:pick-range", { bubbles: true }))),
    s: skip,
    a: () => choose("approve", "answer"),
    e: () => choose("edit"),
    r: () => choose("reject", "decline"),
    m: () => choose("respond"),
    u: () => press(first("form[action$='/undo'] button")) || say(reviewQueueText("nothing-to-undo")),
    "/": search,
    "?": () => press(first("[popovertarget=keys]")),
  };

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || off() || typing(event.target)) return;
    if (covered() && event.key !== "?") return;
    if (event.repeat && !"jk".includes(event.key)) return;
    if (Object.hasOwn(ACTS, event.key) && ACTS[event.key]()) event.preventDefault();
  });

  if (window.location.hash === "#q") document.getElementById("q")?.focus();
})();
