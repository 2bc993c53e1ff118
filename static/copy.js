// Copies the path of a value. Without this file it can be selected and copied by hand.
"use strict";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  button.dataset.label ??= button.textContent;
  const says = document.getElementById("says");
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    says.textContent = reviewQueueText("path-copied");
    button.textContent = reviewQueueText("copied");
  } catch {
    const range = document.createRange();
    range.selectNodeContents(document.getElementById(button.getAttribute("aria-describedby")));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    says.textContent = reviewQueueText("path-selected");
    button.textContent = reviewQueueText("selected");
  }
  setTimeout(() => { button.textContent = button.dataset.label; }, 2000);
});
