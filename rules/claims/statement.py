"""A statement: a text, and what it claims. Both are made in one place, from the same facts."""

from collections.abc import Iterable

from rules.claims.claim import Claim


class Statement(str):
    """A sentence, a part of one, or a step of a remedy, with its claims. What edits the text loses them."""

    __slots__ = ("claims",)
    claims: tuple[Claim, ...]

    def __new__(cls, text: str, *claims: Claim) -> "Statement":
        """Returns the text with these claims."""
        made = super().__new__(cls, text)
        made.claims = claims
        return made

    def __reduce__(self) -> tuple[object, ...]:
        """Returns what makes a copy, also in another process."""
        return type(self), (str(self), *self.claims)


def statement(*parts: str) -> Statement:
    """Returns the texts as one, with the claims of each."""
    return Statement("".join(parts), *claims_of(parts))


def part_of(text: str, whole: str) -> Statement:
    """Returns a part of a text, with all that the whole claims."""
    return Statement(text, *claims_of((whole,)))


def joined(sentences: Iterable[str]) -> Statement:
    """Returns the sentences as one text, with a space between two of them."""
    parts = [*sentences]
    return Statement(" ".join(parts), *claims_of(parts))


def claims_of(texts: Iterable[str]) -> tuple[Claim, ...]:
    """Returns what the texts claim, each claim once."""
    found = (one for text in texts if isinstance(text, Statement) for one in text.claims)
    return tuple(dict.fromkeys(found))
