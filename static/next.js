// Opens the next request without loading a page. It is fetched while the reader reads the present one, and shown only if
// the server says, with the decision, that it has not changed since. Without this file each link and decision loads a page.
"use strict";

(() => {
  const FRESH = 60_000; // a page that was fetched longer ago is fetched again
  const REFETCHED = 15_000; // ... when a verdict is chosen
  const state = { address: null, page: null, at: 0, waiting: null };
  let shown = window.location.pathname;
  let isOpening = false; // one page at a time: a preloaded page can be shown once

  // --- fetching ------------------------------------------------------------------------------------------------------

  async function load(address) {
    const response = await fetch(address, { credentials: "same-origin" });
    if (!response.ok) return null;
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    return page.querySelector("main h1") && page.getElementById("says") ? { address: new URL(response.url), page } : null;
  }

  function preload() {
    const offer = document.querySelector("main [data-preload]");
    if (!offer || document.hidden || navigator.connection?.saveData) return;
    const from = offer.dataset.preload || offer.href;
    state.at = Date.now();
    state.waiting = load(from).catch(() => null).then((found) => {
      state.address = found?.address ?? null;
      state.page = found?.page ?? null;
    });
  }

  const later = () => setTimeout(preload, 400);
  if (document.readyState === "complete") later();
  else window.addEventListener("load", later);
  document.addEventListener("change", (event) => {
    if (event.target.name === "verdict" && Date.now() - state.at > REFETCHED) preload();
  });

  const isSame = (address) =>
    state.address?.pathname === address.pathname && (state.address.searchParams.get("list") ?? "") === (address.searchParams.get("list") ?? "");

  async function take(address, tag) {
    if (state.waiting && Date.now() - state.at < FRESH) {
      await state.waiting;
      const there = state.page?.getElementById("moved")?.dataset.tag;
      if (isSame(address) && (!tag || tag === there)) return state.page;
    }
    const found = await load(address.href).catch(() => null);
    return found?.address.pathname === address.pathname ? found.page : null;
  }

  // --- showing -------------------------------------------------------------------------------------------------------

  async function open(address, options) {
    if (isOpening) return;
    isOpening = true;
    try {
      await show(address, options);
    } finally {
      isOpening = false;
    }
  }

  // `news`: the response to the decision, with what was decided and the new count of the inbox.
  async function show(address, { tag = "", news = null } = {}) {
    const page = await take(address, tag);
    if (!page) {
      sessionStorage.setItem("acted", "yes"); // focus.js
      return window.location.assign(address);
    }
    Object.assign(state, { address: null, page: null, waiting: null });
    if (!window.history.state?.htmx) window.history.replaceState({ htmx: true }, "");
    window.history.pushState({ htmx: true }, "", address);
    shown = address.pathname;
    document.title = page.title;
    for (const id of ["notices", "live", "main"]) {
      document.getElementById(id)?.replaceChildren(...(page.getElementById(id)?.childNodes ?? []));
    }
    const main = document.getElementById("main");
    const done = news?.getElementById("just-done");
    if (done && !main.querySelector("#just-done")) main.querySelector("header.head")?.after(done);
    const count = (news ?? page).getElementById("inbox-count"), place = document.getElementById("inbox-count");
    if (count && place) place.textContent = count.textContent;
    htmx.process(main);
    window.scrollTo({ top: 0, behavior: "instant" });
    document.dispatchEvent(new CustomEvent("reviewqueue:opened"));
    later();
  }

  // --- what opens it -------------------------------------------------------------------------------------------------

  document.addEventListener("htmx:beforeOnLoad", (event) => {
    const xhr = event.detail.xhr, to = xhr.getResponseHeader("HX-Redirect");
    if (!to || isOpening || !event.target.matches?.("main form") || event.detail.requestConfig.verb !== "post") return;
    const address = new URL(to, window.location.href);
    if (address.origin !== window.location.origin || !/\/(interrupts|decisions)\/[a-z0-9_]+$/.test(address.pathname)) return;
    event.preventDefault();
    const news = new DOMParser().parseFromString(xhr.responseText, "text/html");
    open(address, { tag: xhr.getResponseHeader("Request-State") ?? "", news: news.getElementById("inbox-count") ? news : null });
  });

  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[data-next][href*='/interrupts/']");
    if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    open(new URL(link.href));
  });

  // Back and forward load the page of the address.
  window.addEventListener("popstate", () => {
    if (window.location.pathname !== shown) window.location.reload();
  });
})();
