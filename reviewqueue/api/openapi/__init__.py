"""The OpenAPI document: `operations` has the decorator that views describe their operations with, `document` builds it."""
