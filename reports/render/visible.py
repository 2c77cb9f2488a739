r"""Characters that a reader cannot see, or that turn the words beside them, made visible.

Recorded words may hold them; a name that ends in ``exe`` must not read as one that ends in ``png``.
They stand as JSON writes them, ``\u202e``, so that in JSON the value stays what it was.
Not here: which words a sentence may quote (``reports.wording``).
"""

import json
import re

# Controls but tab and line ends; soft hyphen; marks, overrides and isolates of direction; zero
# widths and joiners; line and paragraph separators; invisible operators; annotations; tags.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    r"""The text with each such character as its escape.

    >>> print(visible("gnp.\u202eexe"))
    gnp.\u202eexe
    """
    return _UNSEEN.sub(lambda found: json.dumps(found[0])[1:-1], text)
