"""Names that Kubernetes takes: labels of RFC 1123, of which no two names get the same."""

import re
from hashlib import sha256

MOST_CHARACTERS = 40
"""Of a name: controllers add their own endings, and 63 is the most of a label."""
DIGEST_CHARACTERS = 6


def label(*parts: str) -> str:
    """A name as an RFC 1123 label that begins with a letter; one that had to be changed ends in its own digest.

    >>> label("prfaas-paper", "pd-p"), label("pd-p tp=8,ep=1"), label("2-sites")
    ('prfaas-paper-pd-p', 'pd-p-tp-8-ep-1-cc1c55', 'x2-sites-1b899c')
    """
    name = "-".join(parts)
    fit = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not fit[:1].isalpha():
        fit = f"x{fit}"
    if fit == name and len(name) <= MOST_CHARACTERS:
        return name
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()[:DIGEST_CHARACTERS]
    return f"{fit[: MOST_CHARACTERS - DIGEST_CHARACTERS - 1].rstrip('-')}-{digest}"
