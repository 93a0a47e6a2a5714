"""Checks the bytes of a response against its schema before an object is built from them.

kafka-python builds an object for each element that an array announces, and reads beyond the end of a response without
an error. This check walks over the bytes once, with the same schema: every array's count is within the limits of the
API and fits in the rest, every string is UTF-8 and within its length, and the response ends with its last field.
Checking costs about a tenth of building the objects.
"""

import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Final, TypeAlias

from kafka.protocol.metadata import ApiVersionsRequest

from connectors.errors import ObservationError, UndecodableError
from connectors.kafka.response_limits import LIMITS
from connectors.metadata.field_readers import uvarint
from rules.model.monitoring import Reason

_HOST_BYTES: Final = 255
"""RFC 1035, section 2.3.4: a domain name has at most 255 bytes."""
_STRING_BYTES: Final = 0x7FFF
"""Kafka's generated readers refuse longer strings."""
_TAGGED_FIELDS: Final = 10_000
"""In one response. Kafka writes at most four in a response; a newer one may write some in each element."""
_TAGGED_COPIES_BYTES: Final = 256 * 1024 * 1024
"""kafka-python copies the rest of the response at each element with tagged fields."""
_UNSUPPORTED_VERSION: Final = 35
_CUT_OFF: Final = "the response ends in the middle of a field"

_Step: TypeAlias = "Callable[[_Walk, int], int]"
"""Checks the bytes at a position, and returns the position after them."""


class _Invalid(Exception):
    """The response is not what Kafka sends; the message names the field."""


class _Walk:
    """One response, and what was counted in it so far."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.elements: Counter[str] = Counter()
        self.tagged_fields = 0
        self.tagged_copies = 0


def check_response(data: memoryview, *, api_key: int, name: str, response_class: Any, version: int) -> int:
    """Checks a response without its length prefix, and returns the position of its body: the end of its header.

    Raises:
        ObservationError: INVALID_RESPONSE, naming the API, the field, and the announced and the accepted number.
    """
    try:
        flexible = response_class.flexible_version_q(version)
        walk = _Walk(data)
        # The header of an ApiVersions response has no tagged fields in any version (KIP-511).
        body = (
            _tagged_section({}, "header", after=4)(walk, 0) if flexible and api_key != ApiVersionsRequest.API_KEY else 4
        )
        if api_key == ApiVersionsRequest.API_KEY and struct.unpack_from(">h", data, body)[0] == _UNSUPPORTED_VERSION:
            version = 0
        end = _checker(response_class[None], version, api_key)(walk, body)
    except (IndexError, struct.error):
        raise refused(name, _CUT_OFF) from None
    except UndecodableError:
        raise refused(name, "a length of more than five bytes") from None
    except _Invalid as problem:
        raise refused(name, str(problem)) from None
    if end > len(data):
        raise refused(name, _CUT_OFF)
    if end < len(data):
        raise refused(name, f"the response is {len(data) - end} bytes longer than its fields")
    return body


def refused(name: str, why: str) -> ObservationError:
    """Returns the error for a response of this API that Kafka does not send."""
    return ObservationError(Reason.INVALID_RESPONSE, f"{name}: {why}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Encoding:
    """How the fields of a struct are encoded (KIP-482)."""

    version: int
    compact: bool
    tagged: bool | None
    """Whether structs end with tagged fields; None in the value of a tagged field: kafka-python reads none there."""
    limits: Mapping[str, int]


@cache
def _checker(response_class: Any, version: int, api_key: int) -> _Step:
    flexible = response_class.flexible_version_q(version)
    encoding = _Encoding(version=version, compact=flexible, tagged=flexible, limits=LIMITS[api_key].elements)
    return _struct(response_class._struct, "", encoding)


def _field(field: Any, path: str, encoding: _Encoding) -> _Step:
    if (size := _fixed_size(field)) is not None:
        return lambda _, position: position + size
    if field.is_array():
        return _array(field, path, encoding)
    if field.is_struct():
        assert not field.nullable_for_version_q(encoding.version), path
        return _struct(field, f"{path}.", encoding)
    if field.type_str == "string":
        return _string(field, path, encoding)
    assert field.type_str in ("bytes", "records"), field.type_str
    return _bytes(field, path, encoding)


def _struct(field: Any, prefix: str, encoding: _Encoding) -> _Step:
    steps: list[_Step] = []
    size = 0
    for one in field.untagged_fields(encoding.version):
        if (fixed := _fixed_size(one)) is not None:
            size += fixed
            continue
        if size:
            steps.append(partial(_skip, size))
            size = 0
        steps.append(_field(one, f"{prefix}{one.name}", encoding))
    if encoding.tagged is not False:
        inner = replace(encoding, compact=True, tagged=None)
        fields = field.fields.values() if encoding.tagged else ()
        known = {
            one.tag: _field(one, f"{prefix}{one.name}", inner) for one in fields if one.tagged_field_q(encoding.version)
        }
        where = prefix.rstrip(".") or "the response"
        steps.append(_tagged_section(known, where, after=size, limit=_TAGGED_FIELDS if encoding.tagged else 0))
    elif size:
        steps.append(partial(_skip, size))
    if len(steps) == 1:
        return steps[0]

    def check(walk: _Walk, position: int) -> int:
        for step in steps:
            position = step(walk, position)
        return position

    return check


def _skip(size: int, _: _Walk, position: int) -> int:
    return position + size


def _fixed_size(field: Any) -> int | None:
    """Returns the size of a number, boolean or UUID in bytes; None for everything else."""
    size = None if field.is_array() or field.is_struct() else field._type.size
    return size if isinstance(size, int) else None


def _array(field: Any, path: str, encoding: _Encoding) -> _Step:
    limit = encoding.limits[path]
    read_length = _length_reader(field, path, encoding, "i")
    element = _field(field.array_of, path, encoding)
    least = _least_size(field.array_of, encoding)

    def check(walk: _Walk, position: int) -> int:
        count, position = read_length(walk.data, position)
        walk.elements[path] += count
        if walk.elements[path] > limit:
            raise _Invalid(f"{path}: {walk.elements[path]} elements, at most {limit} are accepted")
        left = len(walk.data) - position
        if count * least > left:
            raise _Invalid(f"{path}: {count} elements in {left} bytes, at least {least} bytes each are needed")
        for _ in range(count):
            position = element(walk, position)
        return position

    return check


def _least_size(field: Any, encoding: _Encoding) -> int:
    """Returns how many bytes an element has at least."""
    if (fixed := _fixed_size(field)) is not None:
        return fixed
    if field.is_struct():
        fields = field.untagged_fields(encoding.version)
        return sum(_least_size(one, encoding) for one in fields) + (encoding.tagged is not False)
    if encoding.compact:
        return 1
    return 2 if field.type_str == "string" else 4


def _string(field: Any, path: str, encoding: _Encoding) -> _Step:
    limit = _HOST_BYTES if field.name == "host" else _STRING_BYTES
    read_length = _length_reader(field, path, encoding, "h")

    def check(walk: _Walk, position: int) -> int:
        length, position = read_length(walk.data, position)
        if length > limit:
            raise _Invalid(f"{path}: a string of {length} bytes, at most {limit} are accepted")
        try:
            str(walk.data[position : position + length], "utf-8")
        except UnicodeDecodeError:
            raise _Invalid(f"{path}: not UTF-8") from None
        return position + length

    return check


def _bytes(field: Any, path: str, encoding: _Encoding) -> _Step:
    read_length = _length_reader(field, path, encoding, "i")

    def check(walk: _Walk, position: int) -> int:
        length, position = read_length(walk.data, position)
        left = len(walk.data) - position
        if length > left:
            raise _Invalid(f"{path}: {length} bytes, of which {left} are present")
        return position + length

    return check


def _length_reader(
    field: Any, path: str, encoding: _Encoding, code: str
) -> Callable[[memoryview, int], tuple[int, int]]:
    """Returns a reader of the length of an array, string or byte string: 0 for null, where null is allowed."""
    fixed = struct.Struct(f">{code}")
    nullable = field.nullable_for_version_q(encoding.version)
    compact = encoding.compact

    def read(data: memoryview, position: int) -> tuple[int, int]:
        if compact:
            length, position = uvarint(data, position)
            length -= 1
        else:
            length = fixed.unpack_from(data, position)[0]
            position += fixed.size
        if length >= 0:
            return length, position
        if length < -1 or not nullable:
            raise _Invalid(f"{path}: {'null' if length == -1 else f'the length is {length}'}")
        return 0, position

    return read


def _tagged_section(known: Mapping[int, _Step], path: str, *, after: int = 0, limit: int = _TAGGED_FIELDS) -> _Step:
    """Returns a step that skips `after` bytes of numbers and then checks a section of tagged fields."""

    def check(walk: _Walk, position: int) -> int:
        position += after
        data = walk.data
        if data[position] == 0:
            return position + 1
        count, at = uvarint(data, position)
        walk.tagged_fields += count
        walk.tagged_copies += len(data) - position
        if walk.tagged_fields > limit or walk.tagged_copies > _TAGGED_COPIES_BYTES:
            raise _Invalid(f"{path}: {walk.tagged_fields} tagged fields, at most {limit} are accepted")
        for _ in range(count):
            tag, at = uvarint(data, at)
            size, at = uvarint(data, at)
            end = at + size
            if end > len(data) or (tag in known and known[tag](walk, at) != end):
                raise _Invalid(f"{path}: the tagged field {tag} has not {size} bytes")
            at = end
        return at

    return check
