"""What describes the API in public tools: a linter, generators of clients, and schemathesis."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node_tools import install, run
from tests.support.real_service.keys import fresh_keys
from tests.support.real_service.service import Service

# By day, tests/clients compares what is generated with the API document.
pytestmark = pytest.mark.nightly

_TOOLS = Path(sys.executable).parent
_HOOKS = Path(__file__).parents[1] / "support" / "real_service"
_PACKAGES = (
    "@redocly/cli@2.77.0", "openapi-typescript@7.13.0", "@hey-api/openapi-ts@0.95.0", "typescript@5.9.3",
    "@types/node@20.19.43", "esbuild@0.25.12",
)  # fmt: skip
_GENERATOR = "openapi-generator-cli==7.26.0"
# The document names no license.
_LINTER_RULES = "extends: [recommended]\nrules:\n  info-license: off\n"
_LIBRARY = Path(__file__).parents[2] / "clients/javascript"
_LIBRARY_CALLER = """
import { RateLimitError, UssdClient, toCents, verifyWebhook, type Transaction } from "ussd-client";

const client = new UssdClient("https://api.example.com", "key", "secret", { patienceSeconds: 1 });
const paid: Transaction = await client.pay(
  { type: "collection", phone_number: "+256770000000", amount: "5000.50", reference: "a" });
const cents: bigint = toCents(paid.amount);
for await (const each of client.iterateTransactions({ status: "failed" })) each.reference.length + each.fee.length;
const file: ReadableStream<Uint8Array> = await client.getStatementCsv({ from: "2026-11-20T00:00:00Z" });
// @ts-expect-error: fields are missing
await client.pay({ type: "collection" }).catch((error) => error instanceof RateLimitError && error.retryAfter);
verifyWebhook("whsec_", new Headers(), "{}").data;
"""
# As docs/API.md says it: files and YAML are bodies of bytes to the generator.
_GENERATOR_RULES = """
post_hooks: []
content_type_overrides:
  text/csv: application/octet-stream
  application/vnd.openxmlformats-officedocument.spreadsheetml.sheet: application/octet-stream
  application/yaml: application/octet-stream
"""
_CALLER = """
import json
import sys
from datetime import datetime
from the_client import AuthenticatedClient, Client, models
from the_client.api.clients import list_api_keys
from the_client.api.logins import log_in
from the_client.api.payouts import create_payout
from the_client.api.transactions import create_transaction, get_balance, get_transaction, list_transactions
from the_client.api.webhooks import create_webhook, list_events

base_url, email, password, apikey, apisecret = sys.argv[1:]


def same(document):
    # A client may write the same moment in another way.
    if isinstance(document, dict):
        return {name: same(value) for name, value in document.items()}
    if isinstance(document, list):
        return [same(value) for value in document]
    try:
        return datetime.fromisoformat(document)
    except (TypeError, ValueError):
        return document


def read(reply, kind):
    assert reply.status_code < 300, reply.content
    assert same(reply.parsed.to_dict()) == same(json.loads(reply.content)), reply.content
    items = getattr(reply.parsed.data, "items", reply.parsed.data)
    for each in items if isinstance(items, list) else [items]:
        assert type(each).__name__ == kind, (type(each), reply.content)
    return reply.parsed.data


person = Client(base_url=base_url)
body = models.LogInBody(email=email, password=password)
login = read(log_in.sync_detailed(client=person, body=body), "Login")
bearer = AuthenticatedClient(base_url=base_url, token=login.access_token)
print(apikey in {key.apikey for key in read(list_api_keys.sync_detailed(client=bearer), "ApiKey")})
program = Client(base_url=base_url, headers={"x-api-key": apikey, "x-api-secret": apisecret})
for number in range(3):
    order = models.CreateTransactionBody(
        type_=models.CreateTransactionBodyType.COLLECTION, phone_number="+256770000000", amount=5000,
        reference=f"generated-{number}", metadata=models.JsonObject.from_dict({"basket": number}),
    )
    made = read(create_transaction.sync_detailed(client=program, body=order, wait=20), "Transaction")
one = read(get_transaction.sync_detailed(made.transaction_id, client=program), "Transaction")
page = read(list_transactions.sync_detailed(client=program, limit=2), "Transaction")
rest = read(list_transactions.sync_detailed(client=program, limit=2, cursor=page.next_cursor), "Transaction")
read(get_balance.sync_detailed(client=program), "Balance")
address = models.CreateWebhookBody(url="http://127.0.0.1:9009/")
read(create_webhook.sync_detailed(client=program, body=address), "Webhook")
read(list_events.sync_detailed(client=program), "Event")
row = models.CreatePayoutBodyItemsItem(phone_number="+256770000000", amount=1000, reference="E-1")
read(
    create_payout.sync_detailed(client=program, body=models.CreatePayoutBody(reference="generated", items=[row])),
    "Payout",
)
print(one.status, len({each.transaction_id for each in (*page.items, *rest.items)}))
"""
_TYPED_CALLER = """
import type { paths } from "./types";
import { createClient } from "./hey/client";
import { createTransaction, listApiKeys, listTransactions, logIn } from "./hey/sdk.gen";

const [baseUrl, email, password, apikey, apisecret] = process.argv.slice(2) as [string, string, string, string, string];
const person = createClient({ baseUrl });
const login = await logIn({ client: person, body: { email, password }, throwOnError: true });
const bearer = createClient({ baseUrl, auth: login.data.data.access_token });
const keys = await listApiKeys({ client: bearer, throwOnError: true });
console.log(keys.data.data.some((key) => key.apikey === apikey));
const program = createClient({ baseUrl, headers: { "x-api-key": apikey, "x-api-secret": apisecret } });
const made = await createTransaction({
  client: program,
  body: { type: "collection", phone_number: "+256770000000", amount: 5000, reference: "typed" },
  query: { wait: 20 },
  throwOnError: true,
});
const page = await listTransactions({ client: program, query: { limit: 2 }, throwOnError: true });
const references: string[] = page.data.data.items.map((item) => item.reference);
console.log(made.data.data.status, references.includes("typed"));

type Page = paths["/api/transactions"]["get"]["responses"]["200"]["content"]["application/json"];
const raw: Page = JSON.parse(JSON.stringify(page.data));
const amounts: number[] = raw.data.items.map((item) => item.amount);
console.log(amounts[0], raw.data.next_cursor !== undefined);
"""
_GO_CALLER = """
package main

import (
	"caller/ussd"
	"context"
	"fmt"
	"os"
)

func main() {
	settings := ussd.NewConfiguration()
	settings.Servers = ussd.ServerConfigurations{{URL: os.Args[1]}}
	keys := map[string]ussd.APIKey{"apiKey": {Key: os.Args[2]}, "apiSecret": {Key: os.Args[3]}}
	program := context.WithValue(context.Background(), ussd.ContextAPIKeys, keys)
	client := ussd.NewAPIClient(settings)
	number := float32(5000)
	amount := ussd.CreateTransactionBodyAmount{Float32: &number}
	kind := ussd.CREATETRANSACTIONBODYTYPE_COLLECTION
	order := ussd.NewCreateTransactionBody("+256770000000", amount, kind, "go-1")
	made, _, err := client.TransactionsAPI.CreateTransaction(program).CreateTransactionBody(*order).Wait(20).Execute()
	if err != nil {
		panic(err)
	}
	address := ussd.NewCreateWebhookBody("http://127.0.0.1:9009/go")
	webhook, _, err := client.WebhooksAPI.CreateWebhook(program).CreateWebhookBody(*address).Execute()
	if err != nil {
		panic(err)
	}
	fmt.Println(made.Data.Status, made.Data.Amount, webhook.Data.Id != "")
}
"""
_COMPILER_SETTINGS = {
    "compilerOptions": {
        "strict": True,
        "target": "es2022",
        "module": "preserve",
        "moduleResolution": "bundler",
        "outDir": "out",
        "skipLibCheck": True,
        "types": ["node"],
        "lib": ["es2022", "dom", "dom.iterable"],
    },
    "files": ["caller.ts", "answers.ts", "library.ts"],
}


# For each call. More are for a search by hand.
_EXAMPLES = os.environ.get("USSD_TEST_EXAMPLES", "2")
_NEEDED_IN_QUERIES = {"q": "typed", "phone_number": "%2B256770000000"}


def answers_as_literals(service: Service, document: Path) -> str:
    """The reply of every list and report, written as a value of the type that each generator gives it.

    The compiler refuses a literal with a field that the type lacks, and one that lacks a field of the type: so a client
    that writes such a value back writes all of it.
    """
    known = service.demonstration
    login = {name: known[name] for name in ("email", "password")}
    token = service.call("POST", "/api/clients/login", login)[1]["data"]["access_token"]
    row = {"phone_number": "+256770000000", "amount": 1000, "reference": "E-1"}
    for path, body in {
        "/api/transactions?wait=20": {**row, "type": "collection"},
        "/api/payouts": {"reference": "typed", "items": [{**row, "name": "Sarah"}]},
        "/api/webhooks": {"url": "http://127.0.0.1:9009/typed"},
        "/api/ussd/sessions": {"phone_number": "+256770000011", "service_code": known["service_code"]},
    }.items():
        assert service.call("POST", path, body, service.key)[0] == 201, path
    lines = ['import type { paths } from "./types";', 'import type * as hey from "./hey/types.gen";']
    for path, methods in json.loads(document.read_text())["paths"].items():
        if "get" not in methods or "{" in path or not path.startswith("/api/"):
            continue
        parameters = [*methods.get("parameters", ()), *methods["get"].get("parameters", ())]
        needed = [each["name"] for each in parameters if each.get("in") == "query" and each.get("required")]
        query = "&".join(f"{name}={_NEEDED_IN_QUERIES[name]}" for name in needed)
        headers = {"Authorization": f"Bearer {token}"} if path.startswith("/api/clients/") else service.key
        status, answer = service.call("GET", f"{path}?{query}".rstrip("?"), headers=headers)
        assert status == 200, (path, answer)
        name = "".join(word.title() for word in methods["get"]["operationId"].split("_"))
        one = f'paths["{path}"]["get"]["responses"]["200"]["content"]["application/json"]'
        for number, kind in enumerate((one, f"hey.{name}Response"), start=1):
            lines.append(f"export const {name}{number}: {kind} = {json.dumps(answer, ensure_ascii=False)};")
    assert len(lines) > 30
    return "\n".join(lines)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    running = Service(folder / "data", USSD_ALLOW_PRIVATE_ADDRESSES="1", USSD_WORKERS="1", USSD_SMS_ADAPTER="sandbox")
    yield running
    running.stop()


@pytest.fixture(scope="module")
def document(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the running service says of itself."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_text(json.dumps(service.call("GET", "/openapi.json")[1]))
    return path


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the tools of Node.js are installed."""
    folder = tmp_path_factory.mktemp("tools")
    install(folder, *_PACKAGES, _LIBRARY)
    return folder


@pytest.mark.needs_node
def test_a_linter_finds_nothing_to_say(document: Path, tools: Path, tmp_path: Path) -> None:
    (tmp_path / "redocly.yaml").write_text(_LINTER_RULES)
    shown = run(
        tools / "node_modules/.bin/redocly",
        "lint",
        document,
        "--format=json",
        "--config",
        "redocly.yaml",
        folder=tmp_path,
        REDOCLY_TELEMETRY="off",
    )
    found = json.JSONDecoder().raw_decode(shown[shown.index("{") :])[0]
    assert [(one["ruleId"], one["location"][0]["pointer"]) for one in found["problems"]] == []


def test_a_generated_client_reads_answers_and_writes_them_back_without_loss(
    service: Service, document: Path, tmp_path: Path
) -> None:
    (tmp_path / "rules.yaml").write_text(_GENERATOR_RULES)
    shown = run(
        _TOOLS / "openapi-python-client",
        "generate",
        "--path",
        document,
        "--output-path",
        "the_client",
        "--meta",
        "none",
        "--config",
        "rules.yaml",
        folder=tmp_path,
    )
    assert re.findall(r"^WARNING .*\n\n(.*)$", shown, re.MULTILINE) == []
    known = service.demonstration
    said = run(
        sys.executable,
        "-c",
        _CALLER,
        known["base_url"],
        known["email"],
        known["password"],
        known["apikey"],
        known["apisecret"],
        folder=tmp_path,
    )
    assert said.split() == ["True", "succeeded", "4"]


def test_a_client_that_is_generated_for_go_compiles_and_reads_replies(
    service: Service, document: Path, tmp_path: Path
) -> None:
    run(sys.executable, "-m", "pip", "install", "--quiet", "--target", "tools", _GENERATOR, folder=tmp_path)
    program = tmp_path / "tools/openapi_generator_cli/openapi-generator.jar"
    naming = "--additional-properties=enumClassPrefix=true,packageName=ussd,withGoMod=false"
    run(
        "java", "-jar", program, "generate", "--generator-name=go", "--input-spec", document,
        "--output=ussd", "--global-property=models,supportingFiles,apis,modelTests=false,apiTests=false", naming,
        folder=tmp_path,
    )  # fmt: skip
    (tmp_path / "go.mod").write_text("module caller\n\ngo 1.19\n")
    (tmp_path / "main.go").write_text(_GO_CALLER)
    known = service.demonstration
    said = run(
        "go", "run", ".", known["base_url"], known["apikey"], known["apisecret"], folder=tmp_path,
        GOFLAGS="-mod=mod", GOPROXY="off", GOCACHE=str(tmp_path / "cache"),
    )  # fmt: skip
    assert said.split() == ["succeeded", "5000", "true"]


@pytest.mark.needs_node
def test_generated_types_fit_every_field_that_is_answered_and_a_typed_client_reads_it(
    service: Service, document: Path, tools: Path
) -> None:
    programs = tools / "node_modules/.bin"
    run(programs / "openapi-typescript", document, "-o", "types.ts", folder=tools)
    run(programs / "openapi-ts", "-i", document, "-o", "hey", folder=tools)
    (tools / "caller.ts").write_text(_TYPED_CALLER)
    (tools / "answers.ts").write_text(answers_as_literals(service, document))
    (tools / "library.ts").write_text(_LIBRARY_CALLER)
    (tools / "tsconfig.json").write_text(json.dumps(_COMPILER_SETTINGS))
    run(programs / "tsc", "--noEmit", folder=tools)
    run(
        programs / "esbuild",
        "caller.ts",
        "--bundle",
        "--platform=node",
        "--format=esm",
        "--outfile=caller.mjs",
        folder=tools,
    )
    known = service.demonstration
    said = run(
        "node",
        "caller.mjs",
        known["base_url"],
        known["email"],
        known["password"],
        known["apikey"],
        known["apisecret"],
        folder=tools,
    )
    assert said.split() == ["true", "succeeded", "true", "5000", "true"]


def test_schemathesis_finds_no_lie(service: Service, tmp_path: Path) -> None:
    """Left out: what a schema cannot say (two different accounts, a code that a client has), and `Allow`,
    where a path with an id matches any word."""
    known = service.demonstration
    login = {name: known[name] for name in ("email", "password")}
    token = service.call("POST", "/api/clients/login", login)[1]["data"]["access_token"]
    signatures = {"keys": fresh_keys(service, 40), "token": {"Authorization": f"Bearer {token}"}}
    run(
        _TOOLS / "schemathesis",
        "run",
        f"{known['base_url']}/openapi.json",
        "--no-color",
        "--warnings=off",
        # One worker: two threads that parse Python at once raise a SystemError now and then (Python 3.11).
        "--phases=examples,fuzzing,coverage",
        f"--max-examples={_EXAMPLES}",
        "--workers=1",
        "--seed=1",
        "--generation-database=none",
        "--exclude-checks=positive_data_acceptance,allow_header_conformance",
        # After signing out, all further calls would be refused.
        "--exclude-path=/api/clients/logout",
        folder=tmp_path,
        PYTHONPATH=str(_HOOKS),
        SCHEMATHESIS_HOOKS="tireless_caller",
        TIRELESS_SIGNATURES=json.dumps(signatures),
    )
