// Live updates of an open page: claims, decisions, changes and expiries by others show within two seconds.
// Polls by htmx (304 while unchanged), with a backoff after errors, and stops when the session has expired. A hidden tab
// polls only for notifications of the browser, and seldom. Input, selection, focus and scroll position are kept. Pages work without it; nothing here submits a decision.
"use strict";

(() => {
  const LONGEST_PAUSE = 60_000, HIDDEN_PAUSE = 15_000;
  const state = { tag: "", ended: false, failed: 0, notBefore: 0, says: 0 };
  const known = new Map();
  const asking = () => document.querySelector("[data-live]");
  const isLive = (element) => element instanceof Element && element.matches("[data-live]");
  const list = () => document.getElementById("list");

  // --- polling --------------------------------------------------------------------------------------------------------

  document.addEventListener("htmx:configRequest", (event) => {
    if (!isLive(event.target)) return;
    const tag = event.target.dataset.tag ?? state.tag;
    if (tag) event.detail.headers["If-None-Match"] = `"${tag}"`;
  });

  document.addEventListener("htmx:beforeRequest", (event) => {
    if (!isLive(event.target)) return;
    const isIdle = document.hidden && !("hiddenToo" in event.target.dataset);
    if (state.ended || isIdle || Date.now() < state.notBefore) event.preventDefault();
    else if (document.hidden) state.notBefore = Date.now() + HIDDEN_PAUSE;
  });

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    state.ended = false; // the reader can have signed in again in another tab
    state.notBefore = 0;
    look();
  });

  function look() {
    const element = asking();
    if (element) htmx.trigger(element, "look");
  }

  // Before htmx follows a redirect to sign-in: polls and draft saves are not actions of the reader, and leaving the page
  // would lose the input.
  const isUnasked = (element) => isLive(element) || element.matches?.(".saved");
  document.addEventListener("htmx:beforeOnLoad", (event) => {
    if (!isUnasked(event.target) || !event.detail.xhr.getResponseHeader("HX-Redirect")) return;
    event.preventDefault();
    end(reviewQueueText("not-updated-signed-out"), reviewQueueText("sign-in"));
  });

  document.addEventListener("htmx:afterRequest", (event) => {
    const element = event.target, xhr = event.detail.xhr;
    if (!isLive(element) || state.ended || !xhr) return;
    if (xhr.status === 304) return answered();
    if (xhr.status === 404 && element.id === "moved") return gone(element);
    if (xhr.status !== 200) return failed();
    answered();
    const tag = (xhr.getResponseHeader("ETag") ?? "").replace(/^W\//, "").replaceAll('"', "");
    const fresh = new DOMParser().parseFromString(xhr.responseText, "text/html");
    if (element.id === "moved") {
      element.dataset.tag = tag;
      showMoved(element, fresh.body);
    } else {
      state.tag = tag;
      showList(fresh);
    }
  });

  function answered() {
    if (state.failed) liveness(reviewQueueText("live"));
    state.failed = 0;
  }

  function failed() {
    state.failed += 1;
    state.notBefore = Date.now() + Math.min(LONGEST_PAUSE, 2_000 * 2 ** state.failed);
    if (state.failed === 2) say(reviewQueueText("not-updated"));
    if (state.failed >= 2) liveness(reviewQueueText("not-live"));
  }

  function end(message, link) {
    state.ended = true;
    liveness(reviewQueueText("not-live"));
    document.dispatchEvent(new CustomEvent("reviewqueue:warn", { detail: { message, link } }));
  }

  function liveness(message) {
    const place = document.getElementById("liveness");
    if (place) place.textContent = message;
  }

  // Screen readers read a live region when its text changes, so repeating a text must change it as well.
  function say(message) {
    const place = document.getElementById("says");
    if (place) place.textContent = state.says++ % 2 ? message : `${message}\u00a0`;
  }

  // --- a list --------------------------------------------------------------------------------------------------------

  const rowsOf = (root) => [...root.querySelectorAll(".wait")];
  const remember = () => {
    known.clear();
    for (const row of rowsOf(document)) known.set(row.id, row.outerHTML);
    for (const id of ["views", "list"]) known.set(id, document.getElementById(id)?.outerHTML);
  };
  if (list()) remember();

  function showList(fresh) {
    const now = fresh.getElementById("list");
    if (!now || !list()) return;
    if (now.dataset.who !== list().dataset.who) return end(reviewQueueText("another-user"));
    const html = new Map(rowsOf(fresh).map((row) => [row.id, row.outerHTML]));
    for (const id of ["views", "list"]) html.set(id, fresh.getElementById(id).outerHTML);
    const count = document.getElementById("inbox-count");
    if (count) count.textContent = fresh.getElementById("inbox-count").textContent;
    if (html.get("views") !== known.get("views")) keepingFocus(() => inPlace("views", fresh));
    if (html.get("list") !== known.get("list")) {
      const message = whatMoved(fresh);
      keepingFocus(() => keepingPlace(() => mergeRows(now, html)));
      if (message) say(message);
    }
    known.clear();
    for (const [id, text] of html) known.set(id, text);
    document.dispatchEvent(new CustomEvent("reviewqueue:listed"));
  }

  function inPlace(id, fresh) {
    document.getElementById(id).replaceChildren(...document.adoptNode(fresh.getElementById(id)).childNodes);
  }

  // An unchanged row stays the same element; a changed row is replaced and keeps its selection and mark.
  function mergeRows(fresh, html) {
    for (const row of rowsOf(fresh)) {
      const old = document.getElementById(row.id);
      if (!old) continue;
      if (html.get(row.id) === known.get(row.id)) {
        row.replaceWith(old);
        continue;
      }
      const pick = row.querySelector(".pick"), was = old.querySelector(".pick");
      if (pick && was) pick.checked = was.checked;
      if (old.classList.contains("at")) {
        row.classList.add("at");
        row.setAttribute("aria-current", "true");
      }
    }
    list().replaceChildren(...document.adoptNode(fresh).childNodes);
    htmx.process(list());
    countDown();
  }

  function whatMoved(fresh) {
    const before = new Map(rowsOf(list()).map((row) => [row.id, row]));
    const after = new Map(rowsOf(fresh).map((row) => [row.id, row]));
    const holder = (row) => row.querySelector(".who .person")?.textContent.trim() ?? "";
    const gone = [...before.keys()].filter((id) => !after.has(id)).length;
    const come = [...after.keys()].filter((id) => !before.has(id)).length;
    const held = [...after].filter(([id, row]) => before.has(id) && holder(row) !== holder(before.get(id))).length;
    const counts = { "rows-new": come, "rows-removed": gone, "rows-claimed": held };
    const changes = Object.entries(counts).filter(([, number]) => number).map(([name, number]) => reviewQueueText(name, { number }));
    return changes.length ? reviewQueueText("list-changed", { changes: changes.join(", ") }) : "";
  }

  // The focus stays on the same control of the same row, or moves to the row that takes its place.
  function keepingFocus(change) {
    const focused = document.activeElement;
    const row = focused?.closest(".wait");
    const at = row ? rowsOf(document).indexOf(row) : -1;
    const act = focused?.dataset?.act, isPick = focused?.matches?.(".pick");
    const href = focused?.closest("#views") ? focused.getAttribute("href") : null;
    change();
    if (document.activeElement === focused && focused.isConnected) return;
    if (focused?.id) document.getElementById(focused.id)?.focus({ preventScroll: true });
    if (href) document.querySelector(`#views a[href="${CSS.escape(href)}"]`)?.focus({ preventScroll: true });
    if (!row) return;
    const rows = rowsOf(document);
    const there = document.getElementById(row.id) ?? rows[Math.min(at, rows.length - 1)];
    if (!there) return document.getElementById("main").focus({ preventScroll: true });
    const same = act ? there.querySelector(`[data-act="${act}"]`) : isPick ? there.querySelector(".pick") : null;
    (same ?? there.querySelector(".ask > a")).focus({ preventScroll: true });
  }

  function keepingPlace(change) {
    const top = (row) => row.getBoundingClientRect().top;
    const seen = rowsOf(document).filter((row) => top(row) >= 0).map((row) => [row.id, top(row)]);
    const wasAtTop = window.scrollY === 0;
    change();
    if (wasAtTop) return;
    const [id, before] = seen.find(([id]) => document.getElementById(id)) ?? [];
    if (id) window.scrollBy({ top: top(document.getElementById(id)) - before, behavior: "instant" });
  }

  // --- what is selected ----------------------------------------------------------------------------------------------

  const picks = () => [...document.querySelectorAll("#list .pick")];
  let lastPick = ""; // the request whose checkbox was used last: where a range begins

  function countPicks() {
    const place = document.getElementById("how-many");
    if (!place) return;
    const chosen = picks().filter((pick) => pick.checked);
    place.replaceChildren(reviewQueueText("rows-selected", { number: chosen.length }), ...sumOf(chosen));
    const all = document.getElementById("select-all");
    if (!all) return;
    all.checked = chosen.length > 0 && chosen.length === picks().length;
    all.indeterminate = chosen.length > 0 && !all.checked;
  }

  // The exact sum of the selected amounts, if all have one in the same unit.
  function sumOf(chosen) {
    const amounts = chosen.map((pick) => pick.dataset.amount ?? ""), units = new Set(chosen.map((pick) => pick.dataset.unit));
    if (amounts.length < 2 || units.size !== 1 || !amounts.every((amount) => /^-?[0-9]+(\.[0-9]+)?$/.test(amount))) return [];
    const places = Math.max(...amounts.map((amount) => amount.split(".")[1]?.length ?? 0));
    const sum = amounts.reduce((before, amount) => {
      const [whole, fraction = ""] = amount.split(".");
      return before + BigInt(whole + fraction.padEnd(places, "0"));
    }, 0n);
    const digits = String(sum < 0n ? -sum : sum).padStart(places + 1, "0");
    const whole = digits.slice(0, digits.length - places), fraction = digits.slice(digits.length - places);
    const number = grouped(`${sum < 0n ? "-" : ""}${whole}`, places ? `.${fraction}` : "");
    const [before, after] = reviewQueueText("sum", { unit: [...units][0] }).split("{sum}");
    return [`, ${before}`, number, after];
  }

  // Digits grouped by margins, as the server renders them: copied text stays exact.
  function grouped(whole, rest) {
    const number = document.createElement("data");
    number.className = "num";
    number.value = whole + rest;
    const groups = whole.match(/-?\d{1,3}(?=(\d{3})*$)/g);
    groups.push(groups.pop() + rest);
    for (const group of groups) number.append(Object.assign(document.createElement("span"), { textContent: group }));
    return number;
  }

  // With Shift, every request from the one selected last up to this one gets the same state.
  function pickRange(pick) {
    const all = picks(), from = all.findIndex((one) => one.value === lastPick), to = all.indexOf(pick);
    if (from < 0) return;
    for (const one of all.slice(Math.min(from, to), Math.max(from, to) + 1)) one.checked = pick.checked;
  }

  document.addEventListener("click", (event) => {
    if (!event.target.matches?.("#list .pick")) return;
    if (event.shiftKey) pickRange(event.target);
    lastPick = event.target.value;
  });
  document.addEventListener("reviewqueue:pick-range", (event) => {
    event.target.checked = true;
    pickRange(event.target);
    lastPick = event.target.value;
    countPicks();
  });
  document.addEventListener("change", (event) => {
    if (event.target.id === "select-all") {
      for (const pick of picks()) pick.checked = event.target.checked;
      say(reviewQueueText("rows-selected", { number: picks().filter((pick) => pick.checked).length }));
    } else if (!event.target.matches(".pick")) return;
    countPicks();
  });
  document.addEventListener("reset", () => setTimeout(countPicks));
  document.addEventListener("reviewqueue:listed", countPicks);
  countPicks();

  // --- a row's own buttons -------------------------------------------------------------------------------------------

  document.addEventListener("htmx:afterRequest", (event) => {
    if (!event.target.matches?.("#list [data-act]") || !event.detail.xhr) return;
    const { status, responseText } = event.detail.xhr;
    if (status >= 400 && status < 500) {
      const alert = new DOMParser().parseFromString(responseText, "text/html").querySelector("[role=alert]");
      const message = alert?.textContent.trim() ?? reviewQueueText("row-gone");
      document.dispatchEvent(new CustomEvent("reviewqueue:warn", { detail: { message } }));
    } else if (status === 200) {
      say(reviewQueueText(event.target.dataset.act === "claim" ? "claimed" : "released"));
    }
    look();
  });

  // --- a request --------------------------------------------------------------------------------------------------------

  const buttons = () => document.querySelectorAll("main form button[name=act]:not(.vh):not([data-again]), #held button");

  function showMoved(place, fresh) {
    const before = place.textContent.trim(), hadFocus = place.contains(document.activeElement);
    place.replaceChildren(...document.adoptNode(fresh).childNodes);
    if (hadFocus) focusLost(place.querySelector("button, a[href]"));
    const form = document.querySelector("#decide, #answer");
    place.querySelector("[data-again]")?.addEventListener("click", (event) => {
      event.preventDefault();
      readAgain(form);
    });
    const isInert = Boolean(place.querySelector("[data-inert]"));
    const held = document.getElementById("held");
    if (held && isInert) hide(held); // it shows the state at render time
    else if (held) showAgain(held);
    for (const button of buttons()) {
      if (isInert) button.setAttribute("aria-disabled", "true");
      else button.removeAttribute("aria-disabled");
    }
    const message = place.textContent.trim();
    if (message !== before) say(message || reviewQueueText("decidable-again"));
  }

  // Hiding the focused control would move the focus to the beginning of the document.
  let isLeft = false; // the reader was on the control when it was hidden
  function hide(place) {
    const hadFocus = place.contains(document.activeElement);
    place.hidden = true;
    isLeft = isLeft || hadFocus;
    if (hadFocus) focusLost();
  }
  function showAgain(place) {
    if (!place.hidden && !isLeft) return;
    place.hidden = false;
    const now = document.activeElement;
    if (isLeft && (!now || now === document.body || now.matches("h1"))) place.querySelector("button, a[href]")?.focus();
    isLeft = false;
  }

  function focusLost(instead) {
    if (instead) instead.focus();
    else document.dispatchEvent(new CustomEvent("reviewqueue:focus-lost"));
  }

  // The server renders the current request with the reader's input, as the form does to edit again.
  function readAgain(form) {
    if (!form) return window.location.reload();
    const act = document.createElement("input");
    Object.assign(act, { type: "hidden", name: "act", value: "edit-again" });
    form.append(act);
    form.requestSubmit();
    setTimeout(() => act.remove());
  }

  function gone(place) {
    end(reviewQueueText("request-gone"));
    for (const button of buttons()) button.setAttribute("aria-disabled", "true");
    place.replaceChildren();
  }

  // Inert but still in place: a removed or disabled button would lose the focus.
  document.addEventListener("click", (event) => {
    if (!event.target.closest?.("[aria-disabled=true]")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }, true);

  // --- claims that run out -------------------------------------------------------------------------------------------

  const clock = document.querySelector("[data-now]")?.dataset.now;
  const ahead = clock ? Date.now() - Date.parse(clock) : 0;
  const formatDuration = (seconds) => {
    const minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
    const days = Math.floor(hours / 24); // the same text as times.in_words of the server
    if (days) return reviewQueueText(hours % 24 ? "days-hours" : "days", { days, hours: hours % 24 });
    if (hours) return reviewQueueText("hours-minutes", { hours, minutes: String(minutes % 60).padStart(2, "0") });
    return minutes ? reviewQueueText("minutes", { minutes }) : reviewQueueText("seconds", { seconds });
  };

  function countDown() {
    for (const place of document.querySelectorAll("[data-until]")) {
      const left = Math.floor((Date.parse(place.dataset.until) - Date.now() + ahead) / 1000);
      const message = formatDuration(Math.max(left, 0));
      if (place.textContent !== message) place.textContent = message;
      if (left === 0) look();
    }
    for (const place of document.querySelectorAll("[data-while]")) {
      const isOver = Date.parse(place.dataset.while) < Date.now() - ahead;
      if (isOver && !place.hidden) hide(place);
      else place.hidden = isOver;
    }
  }
  setInterval(countDown, 1000);

  // The next request was opened in this page.
  document.addEventListener("reviewqueue:opened", () => {
    Object.assign(state, { ended: false, failed: 0, notBefore: 0 });
    countDown();
    look();
  });
})();
