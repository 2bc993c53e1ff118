// Passkeys: a form with data-passkey asks the browser for a passkey and is submitted with its answer, for which the server
// has sent options. A passkey that is refused or cancelled is reported on the page.
"use strict";

(() => {
  if (window.reviewQueuePasskeys) return; // htmx loads it again with a part of a page
  window.reviewQueuePasskeys = true;
  const optionsOfPage = () => JSON.parse(document.getElementById("js_data").textContent);

  // The server decides what a passkey is for; the form can ask that it also signs in alone.
  function creationOptions(form) {
    const options = optionsOfPage().creation_options;
    const isAlone = form.elements.passwordless.checked;
    const selection = options.publicKey.authenticatorSelection;
    selection.residentKey = isAlone ? "required" : "discouraged";
    selection.requireResidentKey = isAlone;
    if (isAlone) selection.userVerification = "required";
    return options;
  }

  async function optionsOfSignIn(form) {
    const response = await fetch(form.action, { headers: { Accept: "application/json" } });
    if (!response.ok) throw new Error("no options");
    return (await response.json()).request_options;
  }

  async function answer(form) {
    if (form.dataset.passkey === "add") return webauthnJSON.create(creationOptions(form));
    if (form.dataset.passkey === "sign-in") return webauthnJSON.get(await optionsOfSignIn(form));
    return webauthnJSON.get(optionsOfPage().request_options);
  }

  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.matches("form[data-passkey]")) return;
    event.preventDefault();
    try {
      form.elements.credential.value = JSON.stringify(await answer(form));
      form.submit();
    } catch (fault) {
      const message = reviewQueueText(fault.name === "InvalidStateError" ? "passkey-known" : "passkey-unused");
      document.dispatchEvent(new CustomEvent("reviewqueue:warn", { detail: { message } }));
    }
  });
})();
