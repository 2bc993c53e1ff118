"""The OpenAPI document: every operation, member and refusal of the API, in words. Nothing here answers a request.

`meanings` says what each member means; `requests` derives the schemas of bodies from the shapes that judge them; `members`
and `answers` have those of replies; `operations*` what can be called; `document` puts it together by drf-spectacular.
"""
