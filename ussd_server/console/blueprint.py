"""The console's blueprint: every check that a page's request passes before its view runs, and its error pages."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from flask import (
    Blueprint,
    Response,
    g,
    render_template,
    request,
    send_from_directory,
    session,
    url_for,
)

from ussd_server.api.bounded_request import require_readable_query
from ussd_server.api.endpoints import with_options
from ussd_server.api.requests import check_length, current_request, services
from ussd_server.console import charts, formats, links, navigation, tables
from ussd_server.console.forms import FAULTS, refused
from ussd_server.console.session import (
    ask_for_factor,
    ask_to_sign_in,
    csrf_token,
    has_csrf_token,
    is_idle,
    is_upload_of_stranger,
)
from ussd_server.context import Caller, CallerKind, RequestContext, SignedInPerson
from ussd_server.languages import ENGLISH, current_language, languages, marked, use_language
from ussd_server.status import Code, ServiceError

FOLDER = Path(__file__).parent
POLICY = (
    "default-src 'self'; base-uri 'none'; object-src 'none'; form-action 'self'; frame-ancestors 'none'; "
    "img-src 'self' data:"
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
_MAY_NOT = marked("Your role does not allow this.")
_NOBODY = Caller(CallerKind.NOBODY)
_ADVICE = {
    400: ("This could not be read", "Go back, change what you entered and send it again."),
    403: ("Not allowed", "If you need this, ask an owner or admin of your team."),
    404: ("Not found", "It may have been deleted, or its address was copied incompletely."),
    413: ("Too large", "Send a smaller file."),
    429: ("Too many requests", "Wait a moment and load the page again."),
    500: ("Something went wrong", "The fault is ours and is logged. Support finds it by the request id."),
    503: (
        "The service is not available",
        "A part of the service is away. Nothing was lost; load the page again soon.",
    ),
}
TOO_OLD = ServiceError(Code.INVALID_REQUEST, "This form was too old. Please fill it in again.")
LANGUAGE_COOKIE = "language"
FRESH_CODE = "fresh_code"
"""The field of a form with a fresh code."""
NO_PAGE = marked("There is no page at this address.")
Who = Literal["client", "operator", "person", "public"]
"""For whom a page is."""
_View = TypeVar("_View", bound=Callable[..., Any])


class StaleFormError(ServiceError):
    """A form came without a token of this session."""


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """What a page declares beside its method and its path, as the arguments of `ConsolePages.page`.

    `who` may see it: a client's people, operators, any of both who signed in, or the public. Others get 404. `needs` is
    the permission of a client's person (`PAGE_PERMISSIONS`); without it every role may. The service checks it again.
    `name` is the endpoint, else that of the view, which may have further paths. `shows` is the kind of object whose
    page this is: `links.link_to` leads to it. `fresh_code` asks a person with a second factor for a code, unless they
    gave one within ten minutes, and then goes on with the same form. A person who has to add a second factor sees
    nothing but pages `before_factor`. With `streams_body` a large file goes to a temporary file instead of memory.
    `form_on` is the view that shows the form which this page takes. Where the form is refused with 400 or one of
    `refusals`, that view shows it again, with the refusal as `error`; also a public form that came without a token of
    this session, such as one whose cookie is gone.
    """

    needs: str | None = None
    who: Who = "client"
    name: str | None = None
    shows: str | None = None
    fresh_code: bool = False
    before_factor: bool = False
    max_body_bytes: int = 64 * 1024
    streams_body: bool = False
    form_on: str | None = None
    refusals: tuple[Code, ...] = ()


class ConsolePages(Blueprint):
    """The blueprint of all pages. A page states its path, its permission and, for uploads, its largest body."""

    views: ClassVar[dict[str, tuple[Callable[..., Any], list[str]]]] = {}
    """The view of each page, by its endpoint, and the variables of its path."""

    @with_options(PageOptions)
    def page(self, method: str, path: str, options: PageOptions) -> Callable[[_View], _View]:
        """Register a view for `method` and `/console` + `path`; the arguments after these are those of `PageOptions`.

        The view receives the request context and the variables of the path. It returns what a Flask view returns.
        """

        def register(view: _View) -> _View:
            def serve(**variables: str) -> Any:
                return _serve(view, options, variables)

            serve.who, serve.needs = options.who, options.needs  # type: ignore[attr-defined]
            serve.max_body_bytes = options.max_body_bytes  # type: ignore[attr-defined]
            serve.streams_body = options.streams_body  # type: ignore[attr-defined]
            endpoint = options.name or view.__name__
            self.views[endpoint] = view, re.findall(r"<(?:[^<>]+:)?(\w+)>", path)
            self.add_url_rule(path or "", endpoint, serve, methods=[method])
            if options.shows:
                links.add_page(options.shows, options.who, endpoint, path, options.needs)
            return view

        return register

    @with_options(PageOptions)
    def operators_page(self, method: str, path: str, options: PageOptions) -> Callable[[_View], _View]:
        """Register a client's page for operators, too, who act for the client that the path names, or an object of it.

        The view receives the client as `client`; the endpoint is that of `links.operators_view`, as is `form_on`.
        """

        def register(view: _View) -> _View:
            name = links.operators_view(options.name or view.__name__)
            for_operators: dict[str, Any] = {"who": "operator", "name": name}
            if options.form_on:
                for_operators["form_on"] = links.operators_view(options.form_on)
            self.page(method, path, **vars(options) | for_operators)(_on_behalf(view))
            return view

        return register


def _serve(view: Callable[..., Any], options: PageOptions, variables: dict[str, str]) -> Any:
    """Check the request for a page, and return what its view returns, or the page that asks for what is missing."""
    who = options.who
    if who == "operator" and not services().operator_logins.is_admitted(request.remote_addr or ""):
        raise ServiceError(Code.NOT_FOUND, NO_PAGE)
    require_readable_query(request)
    if options.streams_body:
        check_length(request, options.max_body_bytes)
    try:
        person = _admit(is_public=who == "public")
    except StaleFormError:
        if who != "public" or options.form_on is None:
            raise
        return _show_again(options.form_on, variables, TOO_OLD, _context_of(None))
    if who != "public":
        if person is None:
            return ask_to_sign_in(who)
        if who != "person" and (who == "operator") is not person.is_operator:
            raise ServiceError(Code.NOT_FOUND, NO_PAGE)
        if person.needs_factor and not options.before_factor:
            return ask_for_factor()
    context = _context_of(person)
    if options.needs:
        context.require(options.needs, _MAY_NOT)
    if options.fresh_code and person is not None and person.needs_fresh_code:
        refusal = _ask_for_fresh_code(context)
        if refusal is not None:
            return refusal
    try:
        return view(context, **variables)
    except ServiceError as error:
        if options.form_on is None or error.code not in (*FAULTS, *options.refusals):
            raise
        return _show_again(options.form_on, variables, error, context)


def _show_again(form_on: str, variables: Mapping[str, str], error: ServiceError, context: RequestContext) -> Response:
    """The page with a form that was refused."""
    g.refusal = error
    view, names = console.views[form_on]
    return refused(view(context, **{name: variables[name] for name in names}), error)


def _on_behalf(view: Callable[..., Any]) -> Callable[..., Any]:
    """The view of a client's page for operators: the path names the client, or an object of the client."""

    def serve(context: RequestContext, **variables: str) -> Any:
        client_id = variables.pop("client_id", None)
        if client_id is None:
            ((variable, object_id),) = variables.items()
            client_id = services().search.owner_of(variable.removesuffix("_id"), object_id, context)
        client = services().clients.find(client_id, context)
        return view(links.acting_for(client, context), client=client, **variables)

    return serve


console = ConsolePages("console", __name__, url_prefix="/console", template_folder="templates")


def _ask_for_fresh_code(context: RequestContext) -> Response | None:
    """Take the code that the form carries. None when it is right; else the page that asks for it and keeps the form."""
    code, error = request.form.get(FRESH_CODE, ""), None
    if code:
        try:
            services().second_factors.prove(code, context)
            return None
        except ServiceError as refusal:
            error = refusal
    fields = [item for item in request.form.items(multi=True) if item[0] not in (FRESH_CODE, "csrf_token")]
    shown = render_template(
        "console/security/fresh_code.html", fields=fields, error=error, code_name=FRESH_CODE, path=request.path
    )
    return refused(shown, error) if error else Response(shown, status=Code.INVALID_CREDENTIALS.http_status)


def error_page(error: ServiceError) -> Response:
    """The page that shows `error`, in the layout of the person who signed in, if there is one."""
    title, advice = _ADVICE.get(error.code.http_status, (marked("This did not work"), ""))
    page = render_template(
        "console/error.html",
        layout="console/layout.html" if g.get("person") else "console/bare.html",
        title=title,
        advice=advice,
        message=error.message,
        status=error.code.http_status,
        request_id=current_request().request_id,
    )
    return Response(page, status=error.code.http_status)


@console.get("/static/<version>/<path:name>")
def static_file(version: str, name: str) -> Response:  # noqa: ARG001 - part of the address
    """A style sheet or a script. Its address changes with its content."""
    response = send_from_directory(FOLDER / "static", name)
    response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return response


@console.before_request
def _use_language_of_browser() -> None:
    """Use the language that this browser chose or asks for, until the login is read, which may name another one."""
    use_language(request.cookies.get(LANGUAGE_COOKIE) or request.accept_languages.best_match(languages()))


@console.teardown_request
def _use_english_again(_: BaseException | None) -> None:
    """Reset the language: the thread may serve an API request next."""
    use_language(ENGLISH)


@console.after_request
def _add_headers(response: Response) -> Response:
    response.headers.update(_HEADERS)
    if "style_nonce" in g:
        response.headers["Content-Security-Policy"] = f"{POLICY}; style-src 'self' 'nonce-{g.style_nonce}'"
    seen = request.headers.get("X-Console-Poll")
    if seen is not None and response.status_code == 200 and not response.direct_passthrough:
        version = sha256(response.get_data()).hexdigest()[:16]
        if version == seen:
            response = Response(status=204)
        response.headers["X-Console-Version"] = version
    return response


@console.context_processor
def _for_templates() -> dict[str, Any]:
    person: SignedInPerson | None = g.get("person")
    return {
        "person": person,
        "error": g.get("refusal"),
        "said": [],
        "may": _context_of(person).may,
        "navigation": navigation.groups_for(person) if person else [],
        "csrf_token": csrf_token,
        "style_nonce": style_nonce,
        "asset": asset,
        "chart": charts,
        "link_to": links.link_to,
        "who": links.who,
        "to": links.to,
        "to_own": links.to_own,
        "own_view": links.own_view,
        "title_of": navigation.title_of,
        "public_address": links.public_address,
        "public_root": f"{services().settings.public_url}/" if services().settings.public_url else request.url_root,
        "link_to_table": tables.link_to_table,
        "page_language": current_language(),
        "page_languages": languages(),
        "is_redis_away": services().limiter.is_away(),
        "is_mail_on": services().mails.is_on,
        "is_sandbox": services().settings.is_sandbox,
        "sandbox_outcomes": formats.sandbox_outcomes,
    }


for _name, _filter in formats.FILTERS.items():
    console.add_app_template_filter(_filter, _name)


def style_nonce() -> str:
    """The nonce with which a script of this page may write styles; the page's policy allows it from then on."""
    if "style_nonce" not in g:
        g.style_nonce = secrets.token_urlsafe(16)
    return str(g.style_nonce)


def asset(name: str) -> str:
    """The address of a file in `static/`."""
    return url_for("console.static_file", version=formats.version_of(FOLDER / "static" / name), name=name)


def _admit(*, is_public: bool) -> SignedInPerson | None:
    """Check a request as far as all pages do; return the person who signed in, if there is one."""
    person = _signed_in_person()
    is_form = request.method != "GET" and request.method != "HEAD"
    if is_form and (is_upload_of_stranger(request) or not has_csrf_token(request)):
        if person is None and not is_public:
            # Also a form whose cookie is missing. A form of another site is refused here.
            session.clear()
            return None
        raise StaleFormError(
            Code.INSUFFICIENT_SCOPE, "This form is too old or was not made for you. Open its page again."
        )
    _refuse_nul_characters()
    if person is not None:
        _count_request(person.caller)
        current_request().client_id = person.caller.client_id
        g.person = person
        use_language(person.language or current_language())
    return person


def _refuse_nul_characters() -> None:
    """Raise INVALID_REQUEST for a query or a form with a NUL character, which PostgreSQL keeps in no text."""
    given = [*request.args.items(multi=True), *request.form.items(multi=True)]
    given += [(name, file.filename or "") for name, file in request.files.items(multi=True)]
    if any("\0" in name or "\0" in value for name, value in given):
        raise ServiceError(Code.INVALID_REQUEST, "The request contains a NUL character")


def _signed_in_person() -> SignedInPerson | None:
    login_id, operator_login_id = session.get("login"), session.get("operator_login")
    if not (login_id or operator_login_id) or is_idle(services().settings.console_idle_seconds):
        return None
    try:
        if login_id:
            return services().auth.authenticate_login(login_id)
        return services().operator_logins.authenticate(str(operator_login_id), _context_of(None))
    except ServiceError:
        return None


def _count_request(caller: Caller) -> None:
    decision = services().limiter.hit("access-token", caller.login_id or "")
    if not decision.accepted:
        raise ServiceError(
            Code.RATE_LIMIT_EXCEEDED,
            "Too many requests from this login. Please wait a moment.",
            retry_after_seconds=decision.retry_after_seconds,
        )


def _context_of(person: SignedInPerson | None) -> RequestContext:
    caller = person.caller if person else _NOBODY
    return RequestContext(caller, current_request().request_id, request.remote_addr or "")
