// A passkey that the browser refuses, or that the reader cancels, is reported as a notice on the page.
"use strict";

(() => {
  document.addEventListener("allauth.error", (event) => {
    event.preventDefault();
    const name = event.detail.exception?.name;
    const message =
      name === "InvalidStateError"
        ? "This device already has a passkey of your account."
        : "The passkey was not used. You can try again, or choose another way.";
    document.dispatchEvent(new CustomEvent("reviewqueue:warn", { detail: { message } }));
  });
})();
