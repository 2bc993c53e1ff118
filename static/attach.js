// Takes a file that is pasted, or dropped anywhere on the field of an attachment, as if it was chosen, and attaches a chosen
// file at once. Without this file the reviewer chooses a file and presses Attach.
"use strict";

(() => {
  function take(field, files) {
    const input = field?.querySelector("input[type=file]");
    if (!input || files.length === 0) return false;
    const one = new DataTransfer();
    one.items.add(files[0]);
    input.files = one.files;
    input.dispatchEvent(new Event("change", { bubbles: true }));
    if (files.length > 1) {
      const message = reviewQueueText("one-file", { name: files[0].name });
      document.dispatchEvent(new CustomEvent("reviewqueue:warn", { detail: { message } }));
    }
    return true;
  }

  document.addEventListener("change", (event) => {
    if (!event.target.matches?.(".dnd input[type=file]") || event.target.files.length === 0) return;
    event.target.closest(".dnd").querySelector("[data-attach]").click();
  });

  const BUTTONS = ["button", "checkbox", "file", "radio", "reset", "submit"];
  const takesText = (it) => it.isContentEditable || it.matches?.("textarea") || (it.matches?.("input") && !BUTTONS.includes(it.type));

  // The clipboard can have a text and a picture of it, such as the cells of a spreadsheet: the text is pasted where the
  // reader writes, and the picture only into the field that has the focus.
  document.addEventListener("paste", (event) => {
    const { files = [], types = [] } = event.clipboardData ?? {};
    if (takesText(event.target)) return;
    const visible = [...document.querySelectorAll(".dnd")].filter((it) => it.checkVisibility());
    const single = visible.length === 1 && !types.includes("text/plain") ? visible[0] : null;
    if (take(event.target.closest?.(".dnd") ?? single, files)) event.preventDefault();
  });

  for (const type of ["dragover", "drop"]) {
    document.addEventListener(type, (event) => {
      const field = event.target.closest?.(".dnd");
      if (!field || !event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      if (type === "drop") take(field, event.dataTransfer.files);
    });
  }

  document.addEventListener("htmx:afterSettle", (event) => {
    const attached = event.detail.requestConfig?.elt.matches("[data-attach]") && document.querySelector("[data-attached]");
    if (attached) document.getElementById("says").textContent = reviewQueueText("attached", { name: attached.dataset.attached });
  });
})();
