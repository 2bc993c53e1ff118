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
    return true;
  }

  document.addEventListener("change", (event) => {
    if (!event.target.matches?.(".dnd input[type=file]") || event.target.files.length === 0) return;
    event.target.closest(".dnd").querySelector("[data-attach]").click();
  });

  document.addEventListener("paste", (event) => {
    const files = event.clipboardData?.files ?? [];
    const field = event.target.closest?.(".dnd") ?? document.querySelector(".dnd");
    if (take(field, files)) event.preventDefault();
  });

  for (const type of ["dragover", "drop"]) {
    document.addEventListener(type, (event) => {
      const field = event.target.closest?.(".dnd");
      if (!field || !event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      if (type === "drop") take(field, event.dataTransfer.files);
    });
  }
})();
