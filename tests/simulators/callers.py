"""Clients of the stand-ins that speak the wire formats by hand, and a listener for their callbacks."""

import base64
import json
import os
import queue
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import httpx2
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC
from cryptography.hazmat.primitives.padding import PKCS7
from cryptography.hazmat.primitives.serialization import load_der_public_key

TIMEOUT_SECONDS = 10.0


class Controls:
    """A client of the controls that every stand-in has."""

    def __init__(self, base_url: str) -> None:
        self.http = httpx2.Client(base_url=base_url, timeout=TIMEOUT_SECONDS, trust_env=False, verify=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()

    def switch(self, **switches: Any) -> None:
        """Set switches; the stand-in must accept them."""
        response = self.http.put("/_control/switches", json=switches)
        assert response.status_code == 200, response.text

    def advance(self, seconds: float) -> None:
        """Move the clock."""
        assert self.http.post("/_control/clock", json={"advance_seconds": seconds}).status_code == 200

    def book(self, reference: str = "") -> dict[str, Any]:
        """Returns the book, whole or for one reference."""
        parameters = {"reference": reference} if reference else {}
        return dict(self.http.get("/_control/book", params=parameters).json())

    def counted(self, endpoint: str, reference: str) -> int:
        """Returns how many requests the book counted."""
        counts = {row["endpoint"]: row["count"] for row in self.book(reference)["requests"]}
        return int(counts.get(endpoint, 0))


class MtnCaller(Controls):
    """A client of MTN with an API user and tokens."""

    def __init__(self, base_url: str, currency: str = "EUR", environment: str = "sandbox") -> None:
        super().__init__(base_url)
        self.currency = currency
        self.environment = environment
        self.user = str(uuid.uuid4())
        self.key = ""
        self.tokens: dict[str, str] = {}

    def provision(self, host: str = "127.0.0.1") -> "MtnCaller":
        """Create an API user and its key."""
        key = {"Ocp-Apim-Subscription-Key": "collection-key"}
        made = self.http.post(
            "/v1_0/apiuser", headers={"X-Reference-Id": self.user, **key}, json={"providerCallbackHost": host}
        )
        assert (made.status_code, made.content) == (201, b"")
        self.key = self.http.post(f"/v1_0/apiuser/{self.user}/apikey", headers=key).json()["apiKey"]
        return self

    def request_token(self, product: str, **changes: Any) -> httpx2.Response:
        """Request a token."""
        options: dict[str, Any] = {"auth": (self.user, self.key), **changes}
        headers = {"Ocp-Apim-Subscription-Key": f"{product}-key", **options.pop("headers", {})}
        return self.http.post(f"/{product}/token/", headers=headers, **options)

    def headers(self, product: str, reference: str = "") -> dict[str, str]:
        """Returns the headers of a call; keeps the token of the first one."""
        if product not in self.tokens:
            self.tokens[product] = self.request_token(product).json()["access_token"]
        headers = {
            "Authorization": f"Bearer {self.tokens[product]}",
            "X-Target-Environment": self.environment,
            "Ocp-Apim-Subscription-Key": f"{product}-key",
        }
        return headers | ({"X-Reference-Id": reference} if reference else {})

    def body(self, kind: str = "requesttopay", party: str = "256772123456", **changes: Any) -> dict[str, Any]:
        """Returns a valid body of a payment."""
        body: dict[str, Any] = {
            "amount": "1500",
            "currency": self.currency,
            "externalId": "txn-1",
            "payerMessage": "order 12",
            "payeeNote": "order 12",
        }
        if kind == "refund":
            body["referenceIdToRefund"] = party
        else:
            field = "payer" if kind == "requesttopay" else "payee"
            body[field] = {"partyIdType": "MSISDN", "partyId": party}
        return body | changes

    def submit(
        self,
        kind: str = "requesttopay",
        reference: str = "",
        party: str = "256772123456",
        url: str = "",
        **changes: Any,
    ) -> httpx2.Response:
        """Request a payment."""
        product = "collection" if kind == "requesttopay" else "disbursement"
        headers = self.headers(product, reference or str(uuid.uuid4())) | ({"X-Callback-Url": url} if url else {})
        return self.http.post(f"/{product}/v1_0/{kind}", headers=headers, json=self.body(kind, party, **changes))

    def pay(self, kind: str = "requesttopay", **options: Any) -> str:
        """Request a payment that must be accepted; returns its reference."""
        reference = str(uuid.uuid4())
        response = self.submit(kind, reference, **options)
        assert (response.status_code, response.content) == (202, b""), response.text
        return reference

    def status(self, reference: str, kind: str = "requesttopay") -> httpx2.Response:
        """Request the status of a payment."""
        product = "collection" if kind == "requesttopay" else "disbursement"
        return self.http.get(f"/{product}/v1_0/{kind}/{reference}", headers=self.headers(product))

    def outcome(self, reference: str, kind: str = "requesttopay") -> tuple[str, str]:
        """Returns a payment's status and reason."""
        body = self.status(reference, kind).json()
        return body["status"], body.get("reason", "")

    def account(self, path: str, product: str = "collection") -> httpx2.Response:
        """Request the data of an account."""
        return self.http.get(f"/{product}/v1_0/{path}", headers=self.headers(product))


class AirtelCaller(Controls):
    """A client of Airtel with a token and the provider's RSA key."""

    def __init__(self, base_url: str) -> None:
        super().__init__(base_url)
        self.token = ""
        self._public_key: RSAPublicKey | None = None

    def request_token(self, secret: str = "airtel-secret") -> httpx2.Response:
        """Request a token."""
        body = {"client_id": "airtel-client", "client_secret": secret, "grant_type": "client_credentials"}
        return self.http.post("/auth/oauth2/token", json=body)

    def headers(self, **changes: str) -> dict[str, str]:
        """Returns the headers of a call; keeps the token of the first one."""
        if not self.token:
            self.token = self.request_token().json()["access_token"]
        usual = {"Authorization": f"Bearer {self.token}", "X-Country": "UG", "X-Currency": "UGX", "Accept": "*/*"}
        return usual | {name.replace("_", "-"): value for name, value in changes.items()}

    def push_body(self, name: str, msisdn: str = "700123123", **changes: Any) -> dict[str, Any]:
        """Returns a valid body of a payment push."""
        transaction = {"amount": 500, "country": "UG", "currency": "UGX", "id": name}
        subscriber = {"country": "UG", "currency": "UGX", "msisdn": msisdn}
        return {"reference": "order 12", "subscriber": subscriber, "transaction": transaction | changes}

    def push(self, name: str, msisdn: str = "700123123", **changes: Any) -> httpx2.Response:
        """Request a payment without a signature."""
        return self.post("/merchant/v1/payments/", self.push_body(name, msisdn, **changes))

    def disburse(self, name: str, msisdn: str = "700160185", pin: str | None = None, **changes: Any) -> httpx2.Response:
        """Pay a subscriber."""
        body = {
            "payee": {"msisdn": msisdn},
            "reference": "wages",
            "pin": self.encrypt(b"1234") if pin is None else pin,
            "transaction": {"amount": 500, "id": name} | changes,
        }
        return self.post("/standard/v1/disbursements/", body)

    def post(self, path: str, body: Any, **headers: str) -> httpx2.Response:
        """Send a body without a signature."""
        return self.http.post(path, headers=self.headers(**headers), json=body)

    def post_signed(self, path: str, body: Any, sent: bytes | None = None) -> httpx2.Response:
        """Sign a body, and send it or other bytes in its place."""
        payload = json.dumps(body).encode()
        key, vector = os.urandom(32), os.urandom(16)
        padder = PKCS7(128).padder()
        encryptor = Cipher(AES(key), CBC(vector)).encryptor()
        encrypted = encryptor.update(padder.update(payload) + padder.finalize()) + encryptor.finalize()
        headers = self.headers(
            x_signature=base64.b64encode(encrypted).decode(),
            x_key=self.encrypt(base64.b64encode(key) + b":" + base64.b64encode(vector)),
            Content_Type="application/json",
        )
        return self.http.post(path, headers=headers, content=payload if sent is None else sent)

    def encrypt(self, secret: bytes) -> str:
        """Encrypt with the provider's RSA key."""
        if self._public_key is None:
            published = self.http.get("/v1/rsa/encryption-keys", headers=self.headers()).json()["data"]["key"]
            key = load_der_public_key(base64.b64decode(published))
            assert isinstance(key, RSAPublicKey)
            self._public_key = key
        return base64.b64encode(self._public_key.encrypt(secret, PKCS1v15())).decode()

    def enquire(self, name: str, path: str = "/standard/v1/payments") -> httpx2.Response:
        """Request the status of a payment."""
        return self.http.get(f"{path}/{name}", headers=self.headers())

    def outcome(self, name: str) -> tuple[str, str]:
        """Returns a payment's status letter and its result code."""
        body = self.enquire(name).json()
        return body["data"]["transaction"]["status"], body["status"]["response_code"]


class Listener:
    """A server of the client, which keeps every callback in the order of arrival."""

    def __init__(self) -> None:
        self.received: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def _take(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                received.put((self.command, json.loads(body)))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_PUT = do_POST = _take  # noqa: N815 (the library's names)

            def log_message(self, *arguments: Any) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}/hook"

    def __enter__(self) -> "Listener":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def next(self) -> tuple[str, dict[str, Any]]:
        """Returns the method and body of the next callback."""
        return self.received.get(timeout=TIMEOUT_SECONDS)
