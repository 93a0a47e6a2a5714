"""The questions that people ask about a quorum, each answered once."""
