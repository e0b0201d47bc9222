"""Names of labels that others may choose, to hurt or by accident."""

HOSTILE = (
    "<script>document.title = 'hurt'; fetch('https://example.org/x')</script>",
    "<img src='https://example.org/y.png' onerror='document.title=\"hurt\"'>",
    "</title></desc></svg></style><h1>out</h1>",
    "{{ 7 * 7 }}{% for x in y %}",
    "$\\frac{",
    "$x$",
    "a" * 10_000,
    "שלום עולם",
    "\u202eright to left\u202c",
    "👩‍🔬🧬",
    "z\u0301\u0302\u0303\u0304\u0305\u0306" * 50,
    "two\nlines\tand\x00zero\x1b[31m",
    "\ud800 half of a pair",
    "' onmouseover='alert(1)",
    "  ",
    "]]> & &amp; <!-- ",
)
