// scripts/document writes this file from the OpenAPI document.

import { Transport } from "./transport.js";

/** The fields that are amounts. */
export const MONEY = new Set(["amount", "available", "balance", "closing_balance", "credit", "current", "daily_limit", "daily_remaining", "debit", "fee", "fees", "given_back_amount", "given_back_fees", "max_amount", "min_amount", "opening_balance", "refunded_amount", "reserved", "total_amount", "total_fee"]);
/** The fields that a client fills as it likes. */
export const OPAQUE = new Set(["draft", "metadata", "published"]);

/** Every operation of the data API. */
export class Operations extends Transport {
  createTransaction(body, query) {
    return this._call("POST", "/api/transactions", [], { body, query });
  }

  listTransactions(query) {
    return this._call("GET", "/api/transactions", [], { query });
  }

  iterateTransactions(query) {
    return this._pages((cursor) => this.listTransactions({ ...query, cursor }));
  }

  createRefund(transactionId, body, query) {
    return this._call("POST", "/api/transactions/{}/refunds", [transactionId], { body, query });
  }

  getTransaction(transactionId, query) {
    return this._call("GET", "/api/transactions/{}", [transactionId], { query });
  }

  listCollected(query) {
    return this._call("GET", "/data/collection", [], { query });
  }

  iterateCollected(query) {
    return this._pages((cursor) => this.listCollected({ ...query, cursor }));
  }

  getBalance(query) {
    return this._call("GET", "/api/balance", [], { query });
  }

  listPaymentCodes(query) {
    return this._call("GET", "/api/payment-codes", [], { query });
  }

  iteratePaymentCodes(query) {
    return this._pages((cursor) => this.listPaymentCodes({ ...query, cursor }));
  }

  putPaymentCode(code, body) {
    return this._call("PUT", "/api/payment-codes/{}", [code], { body });
  }

  getPaymentCode(code) {
    return this._call("GET", "/api/payment-codes/{}", [code]);
  }

  deletePaymentCode(code) {
    return this._call("DELETE", "/api/payment-codes/{}", [code]);
  }

  createPayout(body, { contentType, ...query } = {}) {
    return this._call("POST", "/api/payouts", [], { body, contentType, query });
  }

  listPayouts(query) {
    return this._call("GET", "/api/payouts", [], { query });
  }

  iteratePayouts(query) {
    return this._pages((cursor) => this.listPayouts({ ...query, cursor }));
  }

  retryPayout(payoutId, body) {
    return this._call("POST", "/api/payouts/{}/retry", [payoutId], { body });
  }

  getPayout(payoutId) {
    return this._call("GET", "/api/payouts/{}", [payoutId]);
  }

  listPayoutItems(payoutId, query) {
    return this._call("GET", "/api/payouts/{}/items", [payoutId], { query });
  }

  listPayoutItemsCsv(payoutId, query) {
    return this._stream("/api/payouts/{}/items", [payoutId], { query, accept: "text/csv" });
  }

  iteratePayoutItems(payoutId, query) {
    return this._pages((cursor) => this.listPayoutItems(payoutId, { ...query, cursor }));
  }

  approvePayout(payoutId, body) {
    return this._call("POST", "/api/payouts/{}/approve", [payoutId], { body });
  }

  cancelPayout(payoutId, body) {
    return this._call("POST", "/api/payouts/{}/cancel", [payoutId], { body });
  }

  getStatement(query) {
    return this._call("GET", "/api/statements", [], { query });
  }

  getStatementCsv(query) {
    return this._stream("/api/statements", [], { query, accept: "text/csv" });
  }

  iterateStatement(query) {
    return this._pages((cursor) => this.getStatement({ ...query, cursor }));
  }

  getDailyReport(query) {
    return this._call("GET", "/api/reports/daily", [], { query });
  }

  find(query) {
    return this._call("GET", "/api/search", [], { query });
  }

  getOwnKey() {
    return this._call("GET", "/api/key", []);
  }

  listProviders() {
    return this._call("GET", "/api/providers", []);
  }

  getSubscriber(query) {
    return this._call("GET", "/api/subscribers", [], { query });
  }

  getSubscriberHistory(phoneNumber, query) {
    return this._call("GET", "/api/subscribers/{}/history", [phoneNumber], { query });
  }

  iterateSubscriberHistory(phoneNumber, query) {
    return this._pages((cursor) => this.getSubscriberHistory(phoneNumber, { ...query, cursor }));
  }

  resetPin(phoneNumber) {
    return this._call("DELETE", "/api/subscribers/{}/pin", [phoneNumber]);
  }

  listWebhooks() {
    return this._call("GET", "/api/webhooks", []);
  }

  createWebhook(body) {
    return this._call("POST", "/api/webhooks", [], { body });
  }

  getWebhook(webhookId) {
    return this._call("GET", "/api/webhooks/{}", [webhookId]);
  }

  deleteWebhook(webhookId) {
    return this._call("DELETE", "/api/webhooks/{}", [webhookId]);
  }

  rotateWebhook(webhookId, body) {
    return this._call("POST", "/api/webhooks/{}/rotate", [webhookId], { body });
  }

  rotateCallbacks(body) {
    return this._call("POST", "/api/webhooks/callbacks/rotate", [], { body });
  }

  enableWebhook(webhookId) {
    return this._call("POST", "/api/webhooks/{}/enable", [webhookId]);
  }

  testWebhook(webhookId) {
    return this._call("POST", "/api/webhooks/{}/test", [webhookId]);
  }

  listEvents(query) {
    return this._call("GET", "/api/events", [], { query });
  }

  iterateEvents(query) {
    return this._pages((cursor) => this.listEvents({ ...query, cursor }));
  }

  getEvent(eventId) {
    return this._call("GET", "/api/events/{}", [eventId]);
  }

  redeliverEvent(eventId) {
    return this._call("POST", "/api/events/{}/redeliver", [eventId]);
  }

  redeliverEvents(body) {
    return this._call("POST", "/api/events/redeliver", [], { body });
  }

  createMessage(body) {
    return this._call("POST", "/api/messages", [], { body });
  }

  listMessages(query) {
    return this._call("GET", "/api/messages", [], { query });
  }

  iterateMessages(query) {
    return this._pages((cursor) => this.listMessages({ ...query, cursor }));
  }

  getMessage(messageId) {
    return this._call("GET", "/api/messages/{}", [messageId]);
  }

  beginSession(body) {
    return this._call("POST", "/api/ussd/sessions", [], { body });
  }

  listSessions(query) {
    return this._call("GET", "/api/ussd/sessions", [], { query });
  }

  iterateSessions(query) {
    return this._pages((cursor) => this.listSessions({ ...query, cursor }));
  }

  enterText(sessionId, body) {
    return this._call("POST", "/api/ussd/sessions/{}/input", [sessionId], { body });
  }

  getSession(sessionId) {
    return this._call("GET", "/api/ussd/sessions/{}", [sessionId]);
  }

  endSession(sessionId) {
    return this._call("DELETE", "/api/ussd/sessions/{}", [sessionId]);
  }

  listMenus() {
    return this._call("GET", "/api/ussd/menus", []);
  }

  saveDraft(menuId, body, { contentType } = {}) {
    return this._call("PUT", "/api/ussd/menus/{}", [menuId], { body, contentType });
  }

  getMenu(menuId) {
    return this._call("GET", "/api/ussd/menus/{}", [menuId]);
  }

  checkMenu(menuId, body, { contentType } = {}) {
    return this._call("POST", "/api/ussd/menus/{}/check", [menuId], { body, contentType });
  }

  publishMenu(menuId) {
    return this._call("POST", "/api/ussd/menus/{}/publish", [menuId]);
  }

  listVersions(menuId) {
    return this._call("GET", "/api/ussd/menus/{}/versions", [menuId]);
  }

  rollBackMenu(menuId, body) {
    return this._call("POST", "/api/ussd/menus/{}/rollback", [menuId], { body });
  }

  getGraph(menuId, query) {
    return this._call("GET", "/api/ussd/menus/{}/graph", [menuId], { query });
  }

  getGraphSvg(menuId, query) {
    return this._stream("/api/ussd/menus/{}/graph", [menuId], { query, accept: "image/svg+xml" });
  }

  replayMenu(menuId, body) {
    return this._call("POST", "/api/ussd/menus/{}/replay", [menuId], { body });
  }

  listCodes() {
    return this._call("GET", "/api/ussd/codes", []);
  }

  bindCode(serviceCode, body) {
    return this._call("PUT", "/api/ussd/codes/{}", [serviceCode], { body });
  }

}
