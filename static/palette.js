// The command palette: Ctrl-K or Cmd-K lists what this page offers, and opens or focuses the chosen one.
// It collects links, verdicts, folds and the buttons of claims, undo and snoozes. It presses no button that decides.
"use strict";

(() => {
  const dialog = document.getElementById("palette");
  if (!dialog) return;
  const input = dialog.querySelector("input"), list = dialog.querySelector("[role=listbox]");
  const status = dialog.querySelector("[role=status]"), search = dialog.dataset.search;
  const IS_MAC = /mac|iphone|ipad/i.test(navigator.userAgentData?.platform ?? navigator.platform);
  let commands = [];

  const clean = (text) => text.replace(/\s+/g, " ").trim();
  const textOf = (element) => {
    const copy = element.cloneNode(true);
    for (const key of copy.querySelectorAll("kbd, svg, small")) key.remove();
    return clean(element.getAttribute("aria-label") ?? copy.textContent);
  };
  const keyOf = (element) => clean(element.querySelector?.("kbd")?.textContent ?? "");

  // --- what the page offers -----------------------------------------------------------------------------------------

  // The menu is closed when the palette opens: of its links only those count as hidden that have no place in it.
  const isShown = (link) => (link.closest("#me") ? getComputedStyle(link).display !== "none" : link.checkVisibility());

  function links(name, selector) {
    const group = reviewQueueText(name);
    return [...document.querySelectorAll(selector)].filter(isShown).map((link) => ({
      group, label: textOf(link), key: keyOf(link), run: () => link.click(),
    }));
  }

  function verdicts() {
    return [...document.querySelectorAll("main .verdict > label")].map((label) => ({
      group: reviewQueueText("choose"), label: textOf(label), key: keyOf(label), run: () => { label.control.click(); label.control.focus(); },
    }));
  }

  function answer() {
    const form = document.getElementById("answer");
    if (!form) return [];
    const isFree = (it) => it.matches("input:not([type=hidden]), textarea, select") && !it.disabled && it.checkVisibility();
    const field = [...form.elements].find(isFree) ?? form.querySelector("button[name=act]:not(.vh)");
    return [{ group: reviewQueueText("choose"), label: reviewQueueText("answer"), key: "a", run: () => field.focus() }];
  }

  function buttons() {
    const selector = "main #held button, main form[action$='/undo'] button, main form[action$='/snooze'] button[value=end]";
    return [...document.querySelectorAll(selector)].filter((it) => it.checkVisibility()).map((button) => ({
      group: reviewQueueText("actions"), label: textOf(button), key: keyOf(button), run: () => button.click(),
    }));
  }

  function replies() {
    const shown = [...document.querySelectorAll("main button[data-insert]")].filter((it) => it.checkVisibility());
    const field = (it) => document.getElementById(it.dataset.insert);
    const button = shown.find((it) => field(it) === lastField) ?? shown[0];
    if (!button) return [];
    const select = document.getElementById(`reply-${button.dataset.insert}`);
    return [...select.options].map((option) => ({
      group: reviewQueueText("insert-reply"), label: clean(option.textContent), key: "", run: () => { select.value = option.value; button.click(); },
    }));
  }

  let lastField = null;
  document.addEventListener("focusin", (event) => { if (event.target.matches("main textarea")) lastField = event.target; });

  function folds() {
    return [...document.querySelectorAll("main details.more > summary")].map((summary) => ({
      group: reviewQueueText("actions"), label: textOf(summary), key: "", run: () => {
        summary.parentElement.open = true;
        (summary.parentElement.querySelector("textarea, select, input:not([type=hidden]), button") ?? summary).focus();
      },
    }));
  }

  function offered() {
    const found = [
      ...verdicts(), ...answer(), ...buttons(), ...folds(), ...replies(),
      ...links("requests", "main .crumbs a, main a[data-next]"), ...links("lists", "#views a, .saved-filters a"),
      ...links("pages", ".mainnav a"), ...links("account", "#me a"),
    ];
    const seen = new Set();
    return found.filter((it) => it.label && !seen.has(`${it.group} ${it.label}`) && seen.add(`${it.group} ${it.label}`));
  }

  // --- the list -----------------------------------------------------------------------------------------------------

  function show() {
    const terms = input.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    const fits = (it) => terms.every((term) => `${it.group} ${it.label}`.toLocaleLowerCase().includes(term));
    const shown = commands.filter(fits);
    const text = clean(input.value);
    if (text && search) {
      const address = `${search}&q=${encodeURIComponent(text.slice(0, 100))}`;
      shown.push({ group: reviewQueueText("search"), label: reviewQueueText("requests-with", { text }), key: "", run: () => window.location.assign(address) });
    }
    list.replaceChildren(...shown.map(option));
    select(0);
    status.textContent = reviewQueueText("commands", { number: shown.length });
  }

  function option(command, at) {
    const element = document.createElement("div");
    Object.assign(element, { id: `command-${at}`, role: "option", command });
    const group = document.createElement("span"), label = document.createElement("bdi");
    group.className = "faint small";
    group.textContent = command.group;
    label.textContent = command.label;
    element.append(label, group);
    if (command.key) element.append(Object.assign(document.createElement("kbd"), { textContent: command.key }));
    return element;
  }

  const options = () => [...list.children];
  const chosen = () => list.querySelector("[aria-selected=true]");

  function select(at) {
    const all = options();
    for (const [place, element] of all.entries()) element.setAttribute("aria-selected", String(place === at));
    if (all[at]) {
      input.setAttribute("aria-activedescendant", all[at].id);
      all[at].scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  }

  function move(by) {
    const all = options();
    if (all.length) select((all.indexOf(chosen()) + by + all.length) % all.length);
  }

  function run(element) {
    if (!element) return;
    dialog.close(); // gives the focus back, before the command moves it
    element.command.run();
  }

  // --- keys and presses ---------------------------------------------------------------------------------------------

  function open() {
    document.querySelector(":popover-open")?.hidePopover();
    commands = offered();
    input.value = "";
    dialog.showModal();
    show();
  }

  document.addEventListener("keydown", (event) => {
    // On a Mac, Ctrl-K deletes to the end of the line.
    const isHeld = IS_MAC ? event.metaKey && !event.ctrlKey : event.ctrlKey || event.metaKey;
    const isPalette = isHeld && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k";
    if (!isPalette || (document.querySelector("dialog[open]") && !dialog.open)) return;
    event.preventDefault();
    if (dialog.open) dialog.close();
    else open();
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-palette]")) open();
  });
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    if (event.isComposing) return;
    const act = { ArrowDown: () => move(1), ArrowUp: () => move(-1), Enter: () => run(chosen()) }[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  list.addEventListener("click", (event) => run(event.target.closest("[role=option]")));
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // the backdrop
  });
})();
