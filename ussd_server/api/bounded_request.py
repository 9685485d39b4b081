"""The request class of the application: it reads queries and forms in bounded work, where werkzeug has no bounds."""

from __future__ import annotations

from io import BytesIO
from typing import IO, Any, TypeVar

from flask import Request, current_app, session
from werkzeug.datastructures import Accept, ImmutableMultiDict, LanguageAccept, MIMEAccept, MultiDict
from werkzeug.formparser import FormDataParser
from werkzeug.http import parse_accept_header
from werkzeug.utils import cached_property

from ussd_server.parsing.form_text import FormError, check_parts, form_fields
from ussd_server.status import Code, ServiceError

_MOST_QUERY_FIELDS = 100
_MOST_QUERY_ESCAPES = 1500
_LARGE_BYTES = 64 * 1024
_LONGEST_PREFERENCES = 500

_Accept = TypeVar("_Accept", bound=Accept)


class _FormParser(FormDataParser):
    """Reads forms without files; INVALID_REQUEST for one beyond the bounds."""

    may_be_long = False
    """Whether the form may be long and have an escape for each byte, such as that of a menu."""

    def _parse_urlencoded(
        self, stream: IO[bytes], mimetype: str, content_length: int | None, options: dict[str, str]
    ) -> Any:
        del mimetype, content_length, options
        text = stream.read()
        bounds = {"most_escapes": len(text) // 3} if self.may_be_long else {}
        try:
            return stream, self.cls(form_fields(text, **bounds)), self.cls()
        except FormError as error:
            raise _unreadable_form(error) from None


class BoundedRequest(Request):
    """A request whose query and form are read in bounded work."""

    form_data_parser_class = _FormParser
    query_problem = ""
    """The error in a query that could not be read when `args` was read; empty for any other."""

    @cached_property
    def args(self) -> MultiDict[str, str]:
        """The query; empty for one that is not read, so that error pages find one too."""
        try:
            return ImmutableMultiDict(form_fields(self.query_string, _MOST_QUERY_FIELDS, _MOST_QUERY_ESCAPES))
        except FormError as error:
            self.query_problem = str(error)
            return ImmutableMultiDict()

    @cached_property
    def accept_mimetypes(self) -> MIMEAccept:
        return _shortened(MIMEAccept, self.headers.get("Accept"))

    @cached_property
    def accept_languages(self) -> LanguageAccept:
        return _shortened(LanguageAccept, self.headers.get("Accept-Language"))

    def make_form_data_parser(self) -> FormDataParser:
        """Return the parser of this form. A person who did not sign in sends a short one."""
        parser = super().make_form_data_parser()
        assert isinstance(parser, _FormParser)
        view = current_app.view_functions.get(self.endpoint or "")
        parser.may_be_long = bool(session) and getattr(view, "max_body_bytes", 0) > _LARGE_BYTES
        return parser

    def _load_form_data(self) -> None:
        body = self.environ["wsgi.input"]
        # A large upload is streamed instead, to operators only.
        if self.mimetype == "multipart/form-data" and "form" not in self.__dict__ and isinstance(body, BytesIO):
            try:
                check_parts(body.getvalue(), self.mimetype_params.get("boundary", "").encode())
            except FormError as error:
                raise _unreadable_form(error) from None
        super()._load_form_data()


def _shortened(kind: type[_Accept], header: str | None) -> _Accept:
    """Return a header that names preferences; of a long one only its beginning, because each entry costs 3 us."""
    return parse_accept_header(header and header[:_LONGEST_PREFERENCES], kind)


def require_readable_query(request: Request) -> None:
    """Raise INVALID_REQUEST for a query that is not read."""
    if request.query_string and request.args is not None and (problem := getattr(request, "query_problem", "")):
        raise ServiceError(Code.INVALID_REQUEST, f"The query could not be read: {problem}")


def _unreadable_form(error: FormError) -> ServiceError:
    return ServiceError(Code.INVALID_REQUEST, f"The form could not be read: {error}")
