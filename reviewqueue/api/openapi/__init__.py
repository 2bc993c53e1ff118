"""The OpenAPI document: `document` builds it from the operations of the views, with `examples`."""
