// Inserts the chosen saved reply at the cursor. Without this file the form is sent, and comes back with the reply at the end
// of its field.
"use strict";

document.addEventListener("click", (event) => {
  const button = event.target.closest?.("button[data-insert]");
  const texts = document.getElementById("reply-texts");
  if (!button || !texts) return;
  const field = document.getElementById(button.dataset.insert);
  const chosen = document.getElementById(`reply-${button.dataset.insert}`).value;
  const reply = JSON.parse(texts.textContent)[chosen];
  if (!field || reply === undefined) return;
  event.preventDefault();
  event.stopPropagation();
  const before = field.value.slice(0, field.selectionStart);
  const text = before && !/\s$/.test(before) ? ` ${reply}` : reply;
  field.setRangeText(text, field.selectionStart, field.selectionEnd, "end");
  field.dispatchEvent(new Event("input", { bubbles: true }));
  field.focus();
}, true);
