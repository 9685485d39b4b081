// The JavaScript library: repeats, waiting, pages, amounts, errors and webhooks, against a server that misbehaves.

import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { after, before, beforeEach, test } from "node:test";

import * as library from "../../clients/javascript/index.js";

const ORDER = { type: "collection", phone_number: "+256770000000", amount: 5000, reference: "order-1" };
let replies = [];
let requests = [];
let server;
let client;

before(async () => {
  server = createServer(async (request, reply) => {
    let body = "";
    for await (const part of request) body += part;
    requests.push({ url: request.url, headers: request.headers, body });
    const [status, content, headers] = replies.length > 1 ? replies.shift() : replies[0];
    reply.writeHead(status, { "Content-Type": "application/json", ...headers });
    reply.end(typeof content === "string" ? content : JSON.stringify(content));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  client = new library.UssdClient(`http://127.0.0.1:${server.address().port}/`, "key", "secret");
});

after(() => {
  server.closeAllConnections();
  server.close();
});

beforeEach(() => {
  replies = [];
  requests = [];
});

const succeeds = (data) => replies.push([200, { success: true, data, message: "Done" }]);
const refuses = (status, error, headers) => replies.push([status, { success: false, error, message: "No." }, headers]);
const payment = (status, amount = 5000) => ({ transaction_id: "T1", status, amount });

test("a limited call is repeated after the seconds that the service names", async () => {
  refuses(429, "RATE_LIMIT_EXCEEDED", { "Retry-After": "0" });
  succeeds({ available: 5.5 });
  assert.equal((await client.getBalance()).available, "5.5");
  assert.equal(requests.length, 2);
});

test("a limit that lasts longer than the patience is an error at once", async () => {
  refuses(429, "RATE_LIMIT_EXCEEDED", { "Retry-After": "3600", "X-Request-Id": "R1" });
  await assert.rejects(client.getBalance(), (error) => {
    assert.ok(error instanceof library.RateLimitError);
    assert.deepEqual([error.retryAfter, error.requestId, error.code], [3600, "R1", "RATE_LIMIT_EXCEEDED"]);
    return true;
  });
});

test("a payment is repeated with its reference when the service is away", async () => {
  refuses(503, "SERVICE_UNAVAILABLE", { "Retry-After": "0" });
  succeeds(payment("succeeded"));
  assert.equal((await client.createTransaction(ORDER)).status, "succeeded");
  assert.deepEqual(requests.map((each) => JSON.parse(each.body).reference), ["order-1", "order-1"]);
});

test("a call whose repeat is not recognised is sent once", async () => {
  refuses(503, "SERVICE_UNAVAILABLE", { "Retry-After": "0" });
  await assert.rejects(client.rotateWebhook("W1"), library.UnavailableError);
  await assert.rejects(client.deleteWebhook("W1"), library.UnavailableError);
  assert.equal(requests.length, 2);
});

test("a reply that breaks says that the outcome is unknown", async () => {
  replies.push([200, "{"]);
  await assert.rejects(client.testWebhook("W1"), library.UnreachableError);
  replies = [[502, "<h1>502</h1>"]];
  await assert.rejects(client.testWebhook("W1"), { name: "UnavailableError", code: "UNKNOWN" });
});

test("a redirect is refused and the secret goes nowhere else", async () => {
  replies.push([302, {}, { Location: "/elsewhere" }]);
  await assert.rejects(client.getBalance(), library.ApiError);
  assert.deepEqual(requests.map((each) => each.url), ["/api/balance"]);
});

test("amounts are text, and an amount with decimals is never sent as a number", async () => {
  succeeds({ ...payment("succeeded", 5000.1), metadata: { amount: 7 } });
  const paid = await client.createTransaction({ ...ORDER, amount: "5000.10" });
  assert.deepEqual([paid.amount, paid.metadata.amount], ["5000.1", 7]);
  await client.createTransaction({ ...ORDER, amount: 5000n });
  assert.deepEqual(requests.map((each) => JSON.parse(each.body).amount), ["5000.10", "5000"]);
  await assert.rejects(client.createTransaction({ ...ORDER, amount: 5000.1 }), TypeError);
  assert.equal(library.toCents("5000.5") + library.toCents(7), 500750n);
  assert.deepEqual([500750n, -5n, 0n, 100n].map(library.fromCents), ["5007.5", "-0.05", "0", "1"]);
  for (const each of ["", "1.234", "1e3", "0x1", 1e21]) assert.throws(() => library.toCents(each), RangeError);
});

test("paying waits until the payment is final", async () => {
  succeeds(payment("created"));
  succeeds(payment("pending"));
  succeeds(payment("succeeded"));
  assert.equal((await client.pay(ORDER)).status, "succeeded");
  assert.deepEqual(requests.map((each) => each.url), [
    "/api/transactions?wait=25", "/api/transactions/T1", "/api/transactions/T1?wait=25",
  ]);
  replies = [];
  succeeds(payment("ambiguous"));
  await assert.rejects(client.waitUntilFinal("T1", { seconds: 0 }), (error) => error.transaction.status === "ambiguous");
});

test("iterating reads every page", async () => {
  succeeds({ items: [{ id: "1" }, { id: "2" }], next_cursor: "C" });
  succeeds({ items: [{ id: "3" }], next_cursor: null });
  const ids = [];
  for await (const each of client.iterateEvents({ type: "webhook.test" })) ids.push(each.id);
  assert.deepEqual(ids, ["1", "2", "3"]);
  assert.deepEqual(requests.map((each) => each.url), [
    "/api/events?type=webhook.test", "/api/events?type=webhook.test&cursor=C",
  ]);
});

test("an id cannot lead to another path", async () => {
  succeeds({});
  await client.getEvent("../x?y");
  assert.equal(requests[0].url, "/api/events/..%2Fx%3Fy");
  for (const each of ["", ".", ".."]) await assert.rejects(client.getEvent(each), RangeError);
});

test("a file is a stream", async () => {
  replies.push([200, "at,debit\r\n", { "Content-Type": "text/csv" }]);
  assert.equal(await new Response(await client.getStatementCsv()).text(), "at,debit\r\n");
  assert.equal(requests[0].headers.accept, "text/csv");
});

test("a genuine webhook is returned and any other is refused", () => {
  const secret = `whsec_${"c2VjcmV0".repeat(4)}`;
  const body = '{"type":"transaction.succeeded","data":{"amount":5000.5}}';
  const key = Buffer.from("secret".repeat(4));
  const signature = createHmac("sha256", key).update(`msg_1.1000000.${body}`).digest("base64");
  const headers = {
    "Webhook-Id": "msg_1", "Webhook-Timestamp": "1000000", "Webhook-Signature": `v1,bm9uZQ== v1,${signature}`,
  };
  const verify = (changed = {}, content = body, now = 1_000_000, by = secret) =>
    library.verifyWebhook(by, { ...headers, ...changed }, content, { now });
  assert.equal(verify().data.amount, "5000.5");
  assert.equal(library.verifyWebhook(secret, new Headers(headers), Buffer.from(body), { now: 1_000_300 }).type, "transaction.succeeded");
  for (const refused of [
    [{ "Webhook-Id": "msg_2" }], [{ "Webhook-Timestamp": "soon" }], [{ "Webhook-Signature": "v1,x" }],
    [{}, `${body} `], [{}, body, 1_000_301], [{}, body, 999_699], [{}, body, 1_000_000, `whsec_${"b3RoZXIh".repeat(4)}`],
  ]) {
    assert.throws(() => verify(...refused), library.WebhookError);
  }
  assert.throws(() => verify({}, body, 1_000_000, "whsec_"), RangeError);
});
