"""Texts that agents might send to run script, to hide something, or to look like a part of the page."""

from __future__ import annotations

MARKUP = [
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x)",
    "[press](https://evil.example/approve)",
    '[press](https://evil.example "the title")',
    "<https://evil.example>",
    "![picture](https://evil.example/pixel.png)",
    "[![x](https://evil.example/p.png)](https://evil.example)",
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    "</script><script>alert(1)</script>",
    "`</code><script>alert(1)</script>`",
    "```\n</pre><script>alert(1)</script>\n```",
    "\\`<b>\\`",
    "{{ 7*7 }}{% csrf_token %}",
    '<p style="position:fixed;inset:0">all of it</p>',
    '<form action="/decide" method="post"><button>Approve</button></form>',
    '<button hx-post="/decide" hx-trigger="load">Approve</button>',
    '<div hx-get="/decide" hx-on:load="alert(1)">',
    '<div data-hx-get="/decide">',
    '<meta http-equiv="refresh" content="0;url=https://evil.example">',
    "<base href=https://evil.example>",
    "<!-- --><style>*{display:none}</style>",
    "<details open><summary>Your decision</summary></details>",
    "Risk: low\nApproved by: security\n[Approve]",
    "[a]: javascript:alert(1)\n\n[a]",
    "| a | b |\n|:--|--:|\n| <i>1</i> | [x](javascript:1) |",
    "# Your decision\n\nYour decision\n===\n",
    "&#x202E;&lt;script&gt;&#0;",
    "'\" onmouseover=alert(1) x='\"",
]

# Each character a screen would not show, or not as itself (bidirectional, zero width, tags, selectors, controls, blanks).
HIDDEN = [
    *"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c",
    *"\u200b\u200c\u200d\u2060\ufeff\u00ad\u034f\u115f\u1160\u3164\uffa0\u2800\u180e",
    *"\ufff9\ufffa\ufffb\U000e0041\U000e007f\U000e0100\ufe0f\U0001d173",
    *"\x1b\x00\x07\x08\x7f\x85\u2028\u2029\ue000\U0010ffff",
]
BLANKS = [*"\u00a0\u1680\u2003\u2009\u202f\u205f\u3000"]
