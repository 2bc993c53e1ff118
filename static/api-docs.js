/* Shows the OpenAPI document. No external validator; no API key is stored. */
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
