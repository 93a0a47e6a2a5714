"""Where an exception was raised, without its message: a message may quote a record, and a record may hold a secret."""

_OWN = ("rules", "connectors", "streaming")


def exception_site(error: BaseException) -> str:
    """Returns an exception's type, and the module and line of kraftwatch's own code that raised it or called into it.

    For example `TypeError in rules.analysis.electability, line 57`.
    """
    site = ""
    frame = error.__traceback__
    while frame is not None:
        module = str(frame.tb_frame.f_globals.get("__name__"))
        if not site or module.partition(".")[0] in _OWN:
            site = f" in {module}, line {frame.tb_lineno}"
        frame = frame.tb_next
    return f"{type(error).__name__}{site}"
