// A client of the USSD and mobile-money API for Node.js, without dependencies.

export { UssdClient } from "./client.js";
export * from "./errors.js";
export { fromCents, toCents } from "./money.js";
export { verifyWebhook } from "./webhooks.js";
