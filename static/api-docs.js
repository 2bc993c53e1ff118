/* Shows the API's document. Validates nothing elsewhere, keeps no key after the page is left. */
"use strict";

const place = document.getElementById("operations");
window.SwaggerUIBundle({
  domNode: place,
  url: place.dataset.document,
  validatorUrl: null,
  deepLinking: true,
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  persistAuthorization: false,
  tryItOutEnabled: false,
});
