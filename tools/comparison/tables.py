"""The tables of a page: its text is written by hand."""

import re


def table_of(head, rows):
    return "".join("| " + " | ".join(row) + " |\n" for row in (head, *rows)).replace(
        "\n", "\n" + "|---" * len(head) + "|\n", 1
    )


def replace(page, tables):
    """Put tables in the places of those that a page has, in their order."""
    text, places = page.read_text(), r"(?m)(?:^\|.*\n)+"
    have = len(re.findall(places, text))
    assert have == len(tables), f"{page} has {have} tables, not {len(tables)}"
    page.write_text(re.sub(places, lambda _, new=iter(tables): next(new), text))
