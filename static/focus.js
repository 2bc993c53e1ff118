// Keeps the focus where the reader acted: after each swap of htmx, and on the page that follows an action.
// Without it the browser moves the focus to the beginning of the document, and the keyboard to the first link.
"use strict";

(() => {
  const ACTED = "acted"; // set when an action leaves the page, in this tab only
  const isLost = () => !document.activeElement || document.activeElement === document.body;

  function land(element) {
    if (!element) return;
    if (!element.matches("a[href], button, input, select, textarea, summary, [tabindex]")) element.tabIndex = -1;
    element.focus({ preventScroll: element.matches("h1") });
  }
  const heading = () => document.querySelector("main h1") ?? document.getElementById("main");

  // --- swaps of htmx -------------------------------------------------------------------------------------------------

  let had = null; // the focused control before the swap

  // Already at the request: a button that is disabled during it loses the focus when the browser paints.
  document.addEventListener("htmx:beforeRequest", remember);
  document.addEventListener("htmx:beforeSwap", remember);

  function remember(event) {
    const focused = document.activeElement; // can be null
    const target = event.detail.target;
    if (!focused || !target?.contains(focused)) return; // another swap, during which the first one can settle
    had = { name: focused.name, value: focused.value, href: focused.getAttribute("href"), region: target.id };
  }

  // htmx itself restores a control with the same id, and focuses one with `autofocus`.
  document.addEventListener("htmx:afterSettle", (event) => {
    const target = event.detail.target;
    if (!had || had.region !== target.id || !isLost()) return;
    const region = (target.isConnected ? target : document.getElementById(target.id)) ?? document.getElementById("main");
    const controls = [...region.querySelectorAll("a[href], button, input, select, textarea")].filter(isUsable);
    const isWhole = region.id === "main";
    land(controls.find(isSame) ?? (isWhole ? controls.find((it) => it.matches("[name=verdict]:checked")) : controls[0]) ?? heading());
    had = null;
  });

  const isUsable = (it) => it.checkVisibility() && !it.disabled && it.type !== "hidden" && !it.closest(".vh");
  const isSame = (it) => (had.href ? it.getAttribute("href") === had.href : Boolean(had.name) && it.name === had.name && it.value === had.value);

  // --- controls that disappear ---------------------------------------------------------------------------------------

  document.addEventListener("reviewqueue:focus-lost", () => land(heading()));
  document.addEventListener("reviewqueue:opened", () => land(document.getElementById("outcome") ?? heading()));

  // --- the page that follows an action -------------------------------------------------------------------------------

  const leaves = () => sessionStorage.setItem(ACTED, "yes");

  document.addEventListener("submit", (event) => {
    if (!event.defaultPrevented && event.target.getAttribute("method") === "post") leaves();
  });
  document.addEventListener("click", (event) => {
    if (!event.defaultPrevented && event.target.closest?.("a[data-next], .crumbs .push a")) leaves();
  });
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    if (event.defaultPrevented) return; // next.js opens it without leaving the page
    if (event.detail.requestConfig.verb === "post" && event.detail.xhr.getResponseHeader("HX-Redirect")) leaves();
  });

  if (sessionStorage.getItem(ACTED)) {
    sessionStorage.removeItem(ACTED);
    // What the address names, the result of the action, or the heading.
    const named = document.getElementById(window.location.hash.slice(1)); // `:target` matches later
    if (isLost()) land(named ?? document.querySelector("#notices .notice, main [role=alert], #outcome") ?? heading());
  }
})();
