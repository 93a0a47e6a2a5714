"""What one section of the hostile campaign found."""

from dataclasses import dataclass, field


@dataclass(kw_only=True)
class SectionResult:
    """A section, such as floods: how much was tried and what is wrong."""

    name: str
    tried: int = 0
    figure: str = ""
    """The worst that was measured, in words."""
    problems: list[str] = field(default_factory=list)
