// Copies the path of a value. Without this file it can be selected and copied by hand.
"use strict";

document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const says = document.getElementById("says");
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    says.textContent = "Path copied";
    button.textContent = "Copied";
  } catch {
    const range = document.createRange();
    range.selectNodeContents(document.getElementById(button.getAttribute("aria-describedby")));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    says.textContent = "The path is selected; copy it with the keyboard";
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy path"; }, 2000);
});
