// scripts/document writes this file from the OpenAPI document.

/** Shillings as decimal text, such as "5000.5". */
export type Amount = string;

export interface Approval {
  /** As created_by, of who gave it. */
  by: string;
  /** When it was given. */
  at: string;
  /** What the approver wrote. */
  note: string | null;
}
export interface ApprovePayoutBody {
  /** The round that is approved. Default: 1; a later one must be named. */
  round?: number;
  /** The fees of the round's rows, in shillings. They hold until the payout is sent: others make it a draft again. */
  total_fee?: Amount | number | bigint;
  /** A note, kept with the payout and in the audit trail, and mailed. */
  note?: string | null;
}
export interface Attempt {
  /** 1 for the first attempt. */
  number: number;
  /** Its transaction. */
  transaction_id: string;
  /** The status of the transaction. */
  status: TransactionStatus;
  /** Why it failed; null for others. */
  failure: Failure | null;
  /** When it was made. */
  at: string;
}
export interface Balance {
  /** `main`, or the phone number of a subscriber for whom the client keeps an account here. */
  account: string;
  /** `UGX`. */
  currency: string;
  /** All money in the account. */
  current: Amount;
  /** What can be spent: `current` minus `reserved`. */
  available: Amount;
  /** Money held by transactions under way. */
  reserved: Amount;
  /** When the balance was read. */
  as_of: string;
}
export interface BeginSessionBody {
  /** The subscriber: `+256` and nine digits. */
  phone_number: string;
  /** What the phone dials, such as `*165#`. */
  service_code: string;
  /** The mobile network code, such as `64110` for MTN. */
  network?: string;
  /** Entries that follow the code, joined by `*`. */
  text?: string;
}
export interface BindCodeBody {
  /** The menu, by the `id` in its document. */
  menu_id: string;
}
export interface Bounds {
  /** Whether this server is set up for it. */
  enabled: boolean;
  /** The smallest amount, in shillings. */
  min_amount: Amount;
  /** The largest amount, in shillings. */
  max_amount: Amount;
}
export interface CancelPayoutBody {
  /** A note, kept with the payout and in the audit trail, and mailed. */
  note?: string | null;
}
export interface ChangeDetail {
  /** How often the payment had been sent by then, counted from 1. */
  attempt?: number;
  /** What was sent to the provider: `payment` or `status_query`. */
  sent?: string;
  /** False when the request certainly never left this machine. */
  left_machine?: boolean;
  /** The provider's own code; of a refused call the HTTP status and its first words. */
  provider_code?: string;
  /** Our code: a failure code, or the outcome of the call in capitals. */
  code?: string;
  /** How long it took, in milliseconds. */
  took_ms?: number;
  /** A reason that an operator gave. */
  note?: string;
}
export interface CheckReport {
  /** The menu, by the `id` in its document. */
  menu_id: string;
  /** Whether the menu can be published. */
  passes: boolean;
  /** Errors; they block publishing. */
  errors: Array<Finding>;
  /** Warnings; they do not block publishing. */
  warnings: Array<Finding>;
}
export interface Code {
  /** What the phone dials, such as `*165#`. */
  service_code: string;
  /** The menu, by the `id` in its document. */
  menu_id: string | null;
  /** When it was created. */
  created_at: string;
}
export interface CodeItems {
  /** The entries of this page. */
  items: Array<Code>;
}
export interface CreateMessageBody {
  /** `+256` and nine digits. */
  phone_number: string;
  /** The text, at most five parts long. */
  text: string;
  /** The client's own name for the message. The same message again is sent once. */
  reference: string;
}
export interface CreatePayoutBody {
  /** The client's own name for the payout. The same content again is the same payout. */
  reference: string;
  /** A description by the client. */
  description?: string | null;
  /** Nothing is sent before this time, at most a year ahead. Default: once it is approved. */
  send_at?: string | null;
  /** The rows: 1 to 5,000. A row that cannot be sent is reported, not refused. */
  items: Array<{ [name: string]: any }>;
}
export interface CreateRefundBody {
  /** Amount to refund in shillings. Default: what has not been refunded yet. */
  amount?: Amount | number | bigint | null;
  /** The client's own reference, unique for ever. Repeating a request with it is safe. */
  reference: string;
  /** Why; it becomes the refund's `description`, and stands in the audit trail. */
  reason?: string | null;
}
export interface CreateTransactionBody {
  /** The subscriber. For a transfer: the subscriber whose account is debited. */
  phone_number: string;
  /** Transfers only: the subscriber whose account is credited. */
  to_phone_number?: string | null;
  /** Shillings: a number, or a string of digits, with at most two decimals. */
  amount: Amount | number | bigint;
  /** The type. */
  type: CreateTransactionBodyType;
  /** `UGX`. */
  currency?: "UGX";
  /** The client's own reference, unique for ever. Repeating a request with it is safe. */
  reference: string;
  /** The name of the provider. Default: chosen by the phone number. */
  provider?: Provider | null;
  /** `main`, or the phone number of a subscriber for whom the client keeps an account here. */
  account?: string;
  /** A description by the client. */
  description?: string | null;
  /** A JSON object by the client; stored and returned. */
  metadata?: JsonObject | null;
  /** Where this transaction's events are sent, beside the client's webhooks. */
  callback_url?: string | null;
}
export type CreateTransactionBodyType = "collection" | "disbursement" | "transfer";
export interface CreateWebhookBody {
  /** The URL that is called. */
  url: string;
  /** The event types to send; null means all. */
  types?: Array<string> | null;
}
export interface DailyReport {
  /** The day in Kampala. */
  date: string;
  /** The groups, by type, provider and status. */
  rows: Array<ReportRow>;
  /** The share that did not fail, 0 to 1; null on a day without payments. */
  success_rate: number | null;
}
export interface DeletedApiKey {
  /** The identifier, a UUID. */
  id: string;
  /** The value for the header `x-api-key`. */
  apikey: string;
  /** When it was deleted. */
  deleted_at: string;
}
export interface DeletionResult {
  /** What was deleted. */
  deleted_id: string;
  /** When it was deleted. */
  deleted_at: string;
}
export interface Delivery {
  /** The identifier, a UUID. */
  id: string;
  /** The webhook; null for the callback of a single transaction. */
  webhook_id: string | null;
  /** The URL that is called. */
  url: string;
  /** The status. */
  status: DeliveryStatus;
  /** How often it was tried. */
  attempts: number;
  /** The HTTP status of the receiver's last response. */
  answer_status: number | null;
  /** The first KiB of the receiver's last response. */
  answer: string | null;
  /** Why the last attempt failed, when there was no response. */
  trouble: string | null;
  /** How long it took, in milliseconds. */
  took_ms: number | null;
  /** When it was last tried. */
  attempted_at: string | null;
  /** When the next attempt is due; null when there is none. */
  next_attempt_at: string | null;
  /** When it was created. */
  created_at: string;
  /** When it became final; null before. */
  completed_at: string | null;
}
export type DeliveryStatus = "waiting" | "delivered" | "dead" | "cancelled";
export type Effect = "credit" | "debit";
export interface EnterTextBody {
  /** What was typed. */
  text: string;
  /** The number of this entry. The last number again returns the last reply and changes nothing. */
  turn?: number | null;
}
export interface Event {
  /** The identifier, a UUID. */
  id: string;
  /** The type. */
  type: string;
  /** The object that the event reports. */
  object_id: string;
  /** The number of the event among those of its object, from 1. */
  sequence: number;
  /** When it was created. */
  created_at: string;
  /** The content of the event; its webhooks receive the same. */
  data: Transaction | Payout | Session | PinLocked | DeletedApiKey | ExpiringApiKey | RefusedAddress | WebhookDisabled | WebhookRecovered | WebhookTest;
  /** The deliveries of the event, one for each URL. */
  deliveries?: Array<Delivery>;
}
export interface EventPage {
  /** The entries of this page. */
  items: Array<Event>;
  /** The `cursor` of the next page; null on the last. */
  next_cursor: string | null;
}
export interface ExpiringApiKey {
  /** The identifier, a UUID. */
  id: string;
  /** The value for the header `x-api-key`. */
  apikey: string;
  /** What people call it. */
  name: string | null;
  /** When it expires; calls with it are refused from then on. */
  expires_at: string;
  /** Which notice this is: 7 or 1 days before, or less if the expiry was changed. */
  days_left: number;
}
export interface Failure {
  /** The error code; the same for every provider. */
  code: string;
  /** A sentence for people. */
  message: string;
  /** Who caused it: `payer`, `payee`, `client`, `provider` or `service`. */
  fault: Fault;
  /** Whether a retry helps: `no`, `new_attempt`, `after_user_action` or `wait`. */
  retry: Retry;
}
export type Fault = "payer" | "payee" | "client" | "provider" | "service";
export interface Finding {
  /** The rule that reported the finding. */
  rule: string;
  /** A sentence for people. */
  message: string;
  /** The node of the menu document. */
  node: string | null;
  /** The language of the screen, such as `en` or `lg`. */
  language: string | null;
  /** The mobile network code, such as `64110` for MTN. */
  network: string | null;
  /** How much too long the screen is. */
  excess: number | null;
  /** What `excess` counts: septets or characters. */
  unit: string | null;
  /** The screen as the phone shows it. */
  screen: string | null;
  /** The line in the body, counted from 1; null where it is not known. */
  line: number | null;
  /** The column in that line, counted from 1; null where it is not known. */
  column: number | null;
  /** The right name that a misspelt one is nearest to. */
  suggestion: string | null;
}
export interface Graph {
  /** The menu, by the `id` in its document. */
  menu_id: string;
  /** A published version, counted from 1. */
  version: number | null;
  /** The nodes, in the order in which a phone reaches them. */
  nodes: Array<GraphNode>;
  /** The edges between the nodes. */
  edges: Array<GraphEdge>;
  /** The diagram, as SVG. */
  svg: string;
}
export interface GraphEdge {
  /** The node where the edge begins. */
  from: string;
  /** The node where the edge ends. */
  to: string;
  /** What the phone shows for this edge. */
  label: string;
}
export interface GraphNode {
  /** The node's name in the document. */
  id: string;
  /** The type. */
  type: string;
  /** What the phone shows there. */
  text: string;
  /** How many steps from the start; null for a node that cannot be reached. */
  rank: number | null;
}
export interface History {
  /** What happened, newest first. */
  items: Array<HistoryEntry>;
  /** The `cursor` of the next page; null on the last. */
  next_cursor: string | null;
}
export interface HistoryEntry {
  /** What it was. */
  kind: HistoryEntryKind;
  /** The transaction, session or message. */
  id: string;
  /** When it began. */
  at: string;
  /** What it was, in a few words. */
  title: string;
  /** One sentence about it, which can be told to the subscriber. */
  sentence: string;
  /** Shillings; null for a session and a message. */
  amount: Amount | null;
  /** The status of the transaction, session or message. */
  status: string;
  /** True for a payment that another of the same type and amount is within ten minutes of. */
  possible_double: boolean;
}
export type HistoryEntryKind = "payment" | "refund" | "session" | "message";
export type JsonObject = { [name: string]: any };
export interface LedgerEntry {
  /** The account: `main`, a phone number, or one of ours, such as `provider:mtn`. */
  account: string;
  /** Shillings: positive for what the account received, negative for what it gave. */
  amount: Amount;
  /** `amount`, `fee`, or `shortfall` for what was lacking; with `_reserved` or `_released` where money was only set aside or freed. */
  purpose: Purpose;
}
export interface MadeBy {
  /** `key`, `person`, `menu`, `payer` or `operator`. */
  kind: MadeByKind;
  /** The id of the API key, the person or the menu; null for payers and operators. */
  id: string | null;
  /** The name of the key, a person's e-mail address, the menu's title, the payer's provider or the operator's name; null where it has none. */
  name: string | null;
  /** The menu in which a key made the payment, by a conversation that it led; null otherwise. */
  via_menu: ViaMenu | null;
}
export type MadeByKind = "key" | "person" | "menu" | "payer" | "operator";
export interface MenuSummary {
  /** The menu, by the `id` in its document. */
  menu_id: string;
  /** The menu's title. */
  title: string;
  /** The version in force; null before the first publication. */
  published_version: number | null;
  /** When the draft was last saved. */
  draft_saved_at: string;
  /** The service codes that this menu answers. */
  codes: Array<string>;
  /** The document as it was last saved. */
  draft?: JsonObject;
  /** The published document; null before the first publication. */
  published?: JsonObject | null;
}
export interface MenuSummaryItems {
  /** The entries of this page. */
  items: Array<MenuSummary>;
}
export type NameMatch = "same" | "similar" | "different" | "unknown";
export type Origin = "client" | "ussd" | "payer";
export interface OwnKey {
  /** The identifier of the key, a UUID. */
  key_id: string;
  /** What people call it. */
  name: string | null;
  /** What it may do; null means everything but `payouts:approve`. */
  scopes: string | null;
  /** When it expires; null means never. */
  expires_at: string | null;
  /** Its limits of calls, by `minute` and `hour`. */
  limits: { [name: string]: OwnWindow };
  /** What it may pay in a Kampala day, in shillings; null means any sum. */
  daily_limit: Amount | null;
  /** What it may still pay today; null means any sum. */
  daily_remaining: Amount | null;
}
export interface OwnWindow {
  /** The calls that fit into the window. */
  limit: number;
  /** The calls that would still be accepted now. */
  remaining: number;
  /** The seconds until more calls fit. */
  reset: number;
}
export interface PaymentCode {
  /** The code: the client's prefix, then 1 to 14 letters and digits, in upper case. */
  code: string;
  /** What is paid with it. */
  description: string;
  /** The account that is credited: `main`, or a subscriber's phone number. */
  account: string;
  /** The only amount that is taken, in shillings; null: any within the bounds. */
  amount: Amount | null;
  /** The least amount in shillings; null: none. */
  min_amount: Amount | null;
  /** The largest amount in shillings; null: none. */
  max_amount: Amount | null;
  /** From when payments with it are held; null: never. */
  expires_at: string | null;
  /** Whether only one payment is taken. */
  single_use: boolean;
  /** When the first payment with it was booked; null: not yet. */
  used_at: string | null;
  /** When it was created. */
  created_at: string;
  /** When it last changed. */
  updated_at: string;
}
export interface PaymentCodePage {
  /** The entries of this page. */
  items: Array<PaymentCode>;
  /** The `cursor` of the next page; null on the last. */
  next_cursor: string | null;
}
export interface Payout {
  /** The payout. */
  payout_id: string;
  /** The client's own reference, unique for ever. Repeating a request with it is safe. */
  reference: string;
  /** A description by the client. */
  description: string | null;
  /** `draft`, `approved` (nothing sent yet), `running`, `completed` or `cancelled`. */
  status: PayoutStatus;
  /** How many rows it has. */
  item_count: number;
  /** How many rows of the draft can be sent. */
  ready_count: number;
  /** How many rows of the draft cannot be sent. */
  invalid_count: number;
  /** How many rows succeeded. */
  succeeded_count: number;
  /** How many rows failed. */
  failed_count: number;
  /** How many rows wait to be sent. */
  queued_count: number;
  /** What the ready rows add up to, in shillings. */
  total_amount: Amount;
  /** The fees of the ready rows, in shillings. */
  total_fee: Amount;
  /** The id of the API key or person that made it; of operators, one made of their names. */
  created_by: string;
  /** As created_by, of who approved it last; null before. */
  approved_by: string | null;
  /** When it was created. */
  created_at: string;
  /** When it was approved; null before. */
  approved_at: string | null;
  /** When every row was final; null before. */
  completed_at: string | null;
  /** Nothing is sent before this time; null: sent once it is approved. */
  send_at: string | null;
  /** When its money was reserved; null before. */
  reserved_at: string | null;
  /** When it was due and its money was missing; null otherwise. It is cancelled a day later, unless money comes. */
  needs_money_at: string | null;
  /** Its approvals, oldest first. It is a `draft` until there are as many as it needs. */
  approvals: Array<Approval>;
  /** When an approval was withdrawn last; null for none. */
  withdrawn_at: string | null;
  /** Why an approval was withdrawn, or the draft of a revoked key cancelled. */
  withdrawal_reason: string | null;
  /** What the canceller wrote. */
  cancel_note: string | null;
  /** The last round. Status, approvals and times are its own; counts are of all rows. */
  round: Round;
  /** Counts and sums of the rows by their state; a state without rows is left out. */
  states?: { [name: string]: StateSum };
}
export interface PayoutItem {
  /** The row's number in the file, or its place in the list, from 1. */
  line: number;
  /** The payee. In an invalid row, what was written. */
  phone_number: string | null;
  /** Shillings; null where the row has no valid amount. */
  amount: Amount | null;
  /** The fee that the client pays, in shillings. */
  fee: Amount | null;
  /** The client's own reference, unique for ever. Repeating a request with it is safe. */
  reference: string | null;
  /** A description by the client. */
  description: string | null;
  /** The payee's name, as the client wrote it. */
  name: string | null;
  /** How the name compares with the registered one: `same`, `similar`, `different` or `unknown`. */
  name_match: NameMatch | null;
  /** The state of the row. */
  state: PayoutItemState;
  /** What is wrong with the row, in sentences. */
  problems: Array<string>;
  /** The disbursement of its last attempt; null before the row was sent. */
  transaction_id: string | null;
  /** Why the row failed; null unless its state is `failed`. */
  failure: Failure | null;
  /** The name that the provider has for the number; null until it was asked. */
  registered_name: string | null;
  /** What stands where the amount should, in an invalid row; null otherwise. */
  amount_text: string | null;
  /** What an approver should look at, in words; null for nothing. It refuses nothing. */
  warning: string | null;
  /** Further columns of the file, at most ten, by their headings; null for none. */
  metadata: { [name: string]: string } | null;
  /** The last round that it is in. */
  round: number;
  /** Every attempt to pay it, in their order. */
  attempts: Array<Attempt>;
  /** From when a failed row may be retried: its provider may take the failure back until then. Null while nobody knows, and where it may be retried already or never. */
  retry_at: string | null;
}
export interface PayoutItemPage {
  /** The entries of this page. */
  items: Array<PayoutItem>;
  /** The `cursor` of the next page; null on the last. */
  next_cursor: string | null;
}
export type PayoutItemState = "ready" | "invalid" | "queued" | "sent" | "succeeded" | "failed" | "cancelled";
export interface PayoutPage {
  /** The entries of this page. */
  items: Array<Payout>;
  /** The `cursor` of the next page; null on the last. */
  next_cursor: string | null;
}
export type PayoutStatus = "draft" | "approved" | "running" | "completed" | "cancelled";
export interface PinLocked {
  /** The subscriber. */
  phone_number: string;
  /** When the lock ends; a reset of the PIN ends it before. */
  locked_until: string;
}
export interface PinReset {
  /** The subscriber. */
  phone_number: string;
  /** False when there was no PIN. */
  had_pin: boolean;
}
export type Provider = "airtel" | "mtn" | "sandbox";
export interface ProviderList {
  /** The providers of this server. */
  items: Array<ProviderState>;
}
export interface ProviderState {
  /** The name of the provider. */
  provider: Provider;
  /** The full name of the provider. */
  name: string;
  /** `available`, `degraded`, `unavailable` or `switched_off`. */
  status: ProviderStateStatus;
  /** What it takes from subscribers. */
  collections: Bounds;
  /** What it sends to subscribers. */
  disbursements: Bounds;
  /** The share of answered calls at which the provider did not fail, 0 to 1; null without calls. */
  success_rate: number | null;
  /** The median duration of our calls; null without calls. */
  median_seconds: number | null;
  /** When the status began; null where it is not known. */
  since: string | null;
  /** A sentence for people. */
  message: string;
}
export type ProviderStateStatus = "available" | "degraded" | "unavailable" | "switched_off";
export type Purpose = "amount" | "fee" | "shortfall" | "amount_reserved" | "fee_reserved" | "amount_released" | "fee_released";
export interface PutPaymentCodeBody {
  /** What is paid with it; payers read it. */
  description: string;
  /** The account that is credited: `main` (default), or a subscriber's phone number. */
  account?: string;
  /** The only amount that is taken, in shillings. Default: any within the bounds. */
  amount?: Amount | number | bigint | null;
  /** The least amount in shillings. Default: none. */
  min_amount?: Amount | number | bigint | null;
  /** The largest amount in shillings. Default: none. */
  max_amount?: Amount | number | bigint | null;
  /** From when payments with it are held. Default: never. */
  expires_at?: string | null;
  /** Whether only one payment is taken. Default: false. */
  single_use?: boolean;
}
export interface RedeliverEventsBody {
  /** The first moment of the period, inclusive. */
  from: string;
  /** The end of the period, exclusive. */
  to: string;
  /** The type. */
  type?: string | null;
  /** `failed`: only events that one of your active webhooks of their type has not accepted. */
  only?: "failed";
}
export interface Redelivery {
  /** How many events are sent again. */
  events: number;
}
export interface RefusedAddress {
  /** The identifier, a UUID. */
  id: string;
  /** The value for the header `x-api-key`. */
  apikey: string;
  /** What people call it. */
  name: string | null;
  /** The day in Kampala; there is one event for each key and day. */
  day: string;
  /** The address of the last such call before the event. */
  address: string;
  /** When that call was refused. */
  refused_at: string;
}
export interface ReplayBody {
  /** The sessions to replay, 1 to 500. */
  session_ids?: Array<string>;
  /** Replay the newest 500 sessions that began at this time or later. */
  from?: string;
  /** The end of the period, exclusive. Default: now. */
  to?: string;
}
export interface ReplayItem {
  /** The USSD session. */
  session_id: string;
  /** `same`, `other_screen`, `dead_end` or `not_found`. */
  result: ReplayItemResult;
  /** The turn of the difference; 0 is the first screen. */
  turn: number | null;
  /** The screen that was shown then. */
  was: string | null;
  /** The screen that the draft shows. */
  is: string | null;
}
export interface ReplayItemItems {
  /** The entries of this page. */
  items: Array<ReplayItem>;
}
export type ReplayItemResult = "same" | "other_screen" | "dead_end" | "not_found";
export interface ReportRow {
  /** The type. */
  type: string;
  /** The provider; null where none moves the money. */
  provider: Provider | null;
  /** The status. */
  status: string;
  /** How many payments. */
  count: number;
  /** The sum of their amounts; of corrections, what they added less what they took. */
  amount: Amount;
  /** The fees that were charged for them; nothing for failed ones. */
  fees: Amount;
  /** The median time from creation to the final status. */
  median_seconds: number;
  /** How many payments of earlier days count no more since this day. */
  given_back_count: number;
  /** The sum of their amounts, which was taken back. */
  given_back_amount: Amount;
  /** The sum of their fees, which was given back. */
  given_back_fees: Amount;
}
export type Retry = "no" | "new_attempt" | "after_user_action" | "wait";
export interface RetryPayoutBody {
  /** The rows by their references. Default: every row that may be paid again. */
  rows?: Array<string> | null;
  /** Nothing is sent before this time, at most a year ahead. Default: once it is approved. */
  send_at?: string | null;
}
export interface RollBackBody {
  /** A published version, counted from 1. */
  version: number;
  /** Why, for the audit trail. */
  reason?: string;
}
export interface RotateSecretBody {
  /** How long the old secret stays valid beside the new one, in seconds. Default: one day. */
  grace_period_seconds?: number;
}
export interface RotatedSecret {
  /** The secret that signs the calls; shown this once. */
  secret: string;
  /** When the previous secret expires. */
  previous_secret_expires_at: string | null;
}
export interface Round {
  /** 1 for the first round; each retry begins the next. */
  number: number;
  /** How many rows it has. */
  item_count: number;
  /** What its rows add up to, in shillings. */
  total_amount: Amount;
  /** Their fees, in shillings. */
  total_fee: Amount;
}
export interface SearchHit {
  /** What was found. */
  kind: SearchHitKind;
  /** The identifier, a UUID; of a menu its name. */
  id: string;
  /** What it is, in a few words. */
  title: string;
  /** One sentence about it. */
  sentence: string;
  /** When it was created. */
  created_at: string;
}
export type SearchHitKind = "transaction" | "session" | "event" | "key" | "payout" | "menu" | "webhook" | "person";
export interface SearchReply {
  /** What was found, transactions first, of each kind the newest first; at most 50. */
  items: Array<SearchHit>;
}
export interface Session {
  /** The USSD session. */
  session_id: string;
  /** The subscriber: `+256` and nine digits. */
  phone_number: string;
  /** What the phone dials, such as `*165#`. */
  service_code: string;
  /** The mobile network code, such as `64110` for MTN. */
  network: string | null;
  /** The status. */
  status: SessionStatus;
  /** Why the session ended; null while it is active. */
  end_reason: string | null;
  /** `continue` while the session waits for an entry, `end` when it is over. */
  action: SessionAction;
  /** The screen. */
  message: string;
  /** The menu, by the `id` in its document. */
  menu_id: string;
  /** The published version that this session uses until its end. */
  menu_version: number;
  /** The node of the menu document. */
  node: string;
  /** The language of the screen, such as `en` or `lg`. */
  language: string;
  /** How many entries were answered. */
  turn: number;
  /** The payment that this session created. */
  transaction_id: string | null;
  /** When it was created. */
  created_at: string;
  /** When the last entry arrived. */
  last_seen_at: string;
  /** When the session ends unless another entry arrives. */
  expires_at: string;
  /** When the session ended; null while it is active. */
  ended_at: string | null;
  /** All turns, in order. */
  transcript?: Array<Turn>;
}
export type SessionAction = "continue" | "end";
export interface SessionPage {
  /** The entries of this page. */
  items: Array<Session>;
  /** The `cursor` of the next page; null on the last. */
  next_cursor: string | null;
}
export type SessionStatus = "active" | "completed" | "timed_out" | "ended_by_user" | "ended_by_client" | "invalidated" | "failed";
export interface Sms {
  /** The identifier, a UUID. */
  message_id: string;
  /** The client's own name for it; `ussd/` or `receipt/` begins those of menus and receipts. */
  reference: string;
  /** `+256` and nine digits. */
  phone_number: string;
  /** The text. */
  text: string;
  /** In how many parts it is sent; each is paid for. */
  parts: number;
  /** `queued`: waits to be sent; `sent`: the sender has it; `delivered` and `failed`: its delivery report; `unknown`: the sender's answer was lost, and the message is not sent again. */
  status: SmsStatus;
  /** Why it failed; null otherwise. */
  failure: SmsProblem | null;
  /** The payment whose receipt it is; null for others. */
  transaction_id: string | null;
  /** When it was created. */
  created_at: string;
  /** When its status became final; null before. */
  completed_at: string | null;
}
export interface SmsPage {
  /** The entries of this page. */
  items: Array<Sms>;
  /** The `cursor` of the next page; null on the last. */
  next_cursor: string | null;
}
export interface SmsProblem {
  /** The reason, one of a closed set. */
  code: SmsProblemCode;
  /** The reason in words. */
  message: string;
}
export type SmsProblemCode = "NUMBER_NOT_REACHABLE" | "NUMBER_BLOCKED" | "NOT_DELIVERED" | "SENDER_REFUSED" | "SENDER_AWAY";
export type SmsStatus = "queued" | "sent" | "delivered" | "failed" | "unknown";
export type Source = "submit" | "callback" | "poll" | "operator";
export interface StateSum {
  /** How many rows. */
  count: number;
  /** What they add up to, in shillings. */
  amount: Amount;
  /** Their fees, in shillings. */
  fee: Amount;
}
export interface Statement {
  /** The balance before the period, on every page. */
  opening_balance: Amount;
  /** The balance at the end of the whole period, on every page. */
  closing_balance: Amount;
  /** The entries of this page. */
  items: Array<StatementLine>;
  /** The `cursor` of the next page; null on the last. */
  next_cursor: string | null;
}
export interface StatementLine {
  /** When it was committed. */
  at: string;
  /** The type of the transaction; `fee` for its fee, `shortfall` for what was lacking, on lines of their own. */
  kind: string;
  /** The transaction. */
  transaction_id: string;
  /** The client's own reference, unique for ever. Repeating a request with it is safe. */
  reference: string;
  /** A description by the client. */
  description: string | null;
  /** What went out; null on a line that came in. */
  debit: Amount | null;
  /** What came in; null on a line that went out. */
  credit: Amount | null;
  /** All money in the account after this line. */
  balance: Amount;
}
export interface Subscriber {
  /** The subscriber: `+256` and nine digits. */
  phone_number: string;
  /** The provider to which the number belongs by its prefix. */
  provider: Provider | null;
  /** The name of the subscriber; null where the provider cannot tell. */
  name: string | null;
  /** Whether the provider has a subscriber under the number; null where it cannot tell. */
  is_registered: boolean | null;
}
export interface Transaction {
  /** The transaction. */
  transaction_id: string;
  /** The client's own reference, unique for ever. Repeating a request with it is safe. */
  reference: string;
  /** The type. */
  type: TransactionType;
  /** The subscriber: `+256` and nine digits. */
  phone_number: string | null;
  /** Transfers only: the subscriber whose account is credited. */
  to_phone_number: string | null;
  /** Shillings. */
  amount: Amount;
  /** The fee that the client pays, in shillings. */
  fee: Amount;
  /** `UGX`. */
  currency: string;
  /** `main`, or the phone number of a subscriber for whom the client keeps an account here. */
  account: string;
  /** The provider; null where none moves the money. */
  provider: Provider | null;
  /** Our reference at the provider. */
  provider_reference: string | null;
  /** The provider's own identifier, once it is known. */
  provider_transaction_id: string | null;
  /** The status. */
  status: TransactionStatus;
  /** Why it failed; null unless the status is `failed`. */
  failure: Failure | null;
  /** True when the success arrived after the status was already `failed`. */
  late: boolean;
  /** The USSD session. */
  session_id: string | null;
  /** A description by the client. */
  description: string | null;
  /** A JSON object by the client; stored and returned. */
  metadata: JsonObject | null;
  /** When it was created. */
  created_at: string;
  /** When it last changed. */
  updated_at: string;
  /** When it became final; null before. */
  completed_at: string | null;
  /** When the provider is queried next; null when no query is planned. */
  next_check_at: string | null;
  /** The collection that this refund, or correction, gives back; null for none. */
  refund_of: string | null;
  /** What refunds of it have taken or hold, in shillings. */
  refunded_amount: Amount;
  /** The payout that it belongs to; null for none. */
  payout_id: string | null;
  /** Who began it: `client`, `ussd` for a menu, or `payer` for money that came with a payment code. */
  origin: Origin;
  /** The other transaction that tells of the same money; null for none. The one that succeeded counts. */
  same_money_as: string | null;
  /** What a correction does: `credit` or `debit`; null for everything else. */
  effect: Effect | null;
  /** The transaction that this correction corrects; null for none. */
  corrects: string | null;
  /** Why the operators made this correction; null for everything else. */
  reason: string | null;
  /** Who made it; of a row of a payout, who made the payout. */
  made_by: MadeBy;
  /** The `X-Request-Id` of the call that made it; of a payout's row, approved it. */
  request_id: string | null;
  /** One sentence: where the money is now, and what happens next. */
  explanation?: string;
  /** The status history, oldest first. */
  events?: Array<TransactionChange>;
}
export interface TransactionChange {
  /** The status. */
  status: TransactionStatus;
  /** Where the change came from: `submit`, `callback`, `poll` or `operator`. */
  source: Source;
  /** Further details of the change. */
  detail: ChangeDetail;
  /** The entries in the ledger that this change made. */
  ledger: Array<LedgerEntry>;
  /** When it was created. */
  created_at: string;
}
export interface TransactionPage {
  /** The entries of this page. */
  items: Array<Transaction>;
  /** The `cursor` of the next page; null on the last. */
  next_cursor: string | null;
}
export type TransactionStatus = "created" | "submitted" | "pending" | "ambiguous" | "succeeded" | "failed" | "reversed";
export type TransactionType = "collection" | "disbursement" | "transfer" | "refund" | "deposit" | "settlement" | "correction";
export interface Turn {
  /** The number of the entry, counted from 1. */
  turn: number;
  /** What was entered; a secret is shown as stars. */
  entry: string;
  /** The screen as the phone shows it. */
  screen: string;
  /** The node of the menu document. */
  node: string;
  /** The length of the screen on the wire. */
  septets: number;
  /** How long it took, in milliseconds. */
  took_ms: number;
  /** When the reply was sent. */
  at: string;
}
export interface Version {
  /** The menu, by the `id` in its document. */
  menu_id: string;
  /** A published version, counted from 1. */
  version: number;
  /** When this version was published. */
  published_at: string;
  /** Whether new sessions get this version. */
  in_force: boolean;
}
export interface VersionItems {
  /** The entries of this page. */
  items: Array<Version>;
}
export interface ViaMenu {
  /** The id of the menu. */
  id: string | null;
  /** Its title; null where it has none. */
  title: string | null;
}
export interface Webhook {
  /** The identifier, a UUID. */
  id: string;
  /** The URL that is called. */
  url: string;
  /** The event types to send; null means all. */
  types: Array<string> | null;
  /** Whether events are sent to it. */
  is_active: boolean;
  /** Since when deliveries fail; null while they succeed. */
  failing_since: string | null;
  /** When the webhook was switched off. */
  disabled_at: string | null;
  /** Why the webhook was switched off. */
  disabled_reason: string | null;
  /** When it was created. */
  created_at: string;
  /** When it last changed. */
  updated_at: string;
  /** The secret that signs the calls; shown this once. */
  secret?: string;
}
export interface WebhookDisabled {
  /** The `id` of the webhook. */
  webhook_id: string;
  /** The URL that is called. */
  url: string;
  /** Why the webhook was switched off. */
  reason: string;
  /** When the webhook was switched off. */
  disabled_at: string;
}
export interface WebhookPage {
  /** The entries of this page. */
  items: Array<Webhook>;
  /** The `cursor` of the next page; null on the last. */
  next_cursor: string | null;
}
export interface WebhookRecovered {
  /** The `id` of the webhook. */
  webhook_id: string;
  /** The URL that is called. */
  url: string;
  /** When the first event came that it missed: the `from` of a redelivery with `only` `failed`. */
  missed_since: string;
}
export interface WebhookTest {
  /** The `id` of the webhook under test. */
  webhook_id: string;
}
export type MenuDocument = { [name: string]: any };
/** Every operation of the data API; those with pages have an iterator too. */
export class Operations {
  /**
   * Take money from a subscriber, send money to one, or move it between two accounts kept here.
   *
   * Permission: `transactions:write` or `transactions:send`.
   */
  createTransaction(body: CreateTransactionBody, query?: { wait?: number }): Promise<Transaction>;
  /**
   * The client's transactions, newest first.
   *
   * Permission: `transactions:read`.
   */
  listTransactions(query?: { status?: TransactionStatus; type?: TransactionType; phone_number?: string; amount?: Amount | number | bigint; reference?: string; provider_transaction_id?: string; payout_id?: string; key_id?: string; from?: string; to?: string; limit?: number; cursor?: string }): Promise<TransactionPage>;
  /** Iterate over all pages of `listTransactions`. */
  iterateTransactions(query?: { status?: TransactionStatus; type?: TransactionType; phone_number?: string; amount?: Amount | number | bigint; reference?: string; provider_transaction_id?: string; payout_id?: string; key_id?: string; from?: string; to?: string; limit?: number }): AsyncGenerator<Transaction, void>;
  /**
   * Give a succeeded collection back to its payer, wholly or in part.
   *
   * Permission: `transactions:send`.
   */
  createRefund(transactionId: string, body: CreateRefundBody, query?: { wait?: number }): Promise<Transaction>;
  /**
   * One transaction with its status history; `wait` holds the reply until its status changes.
   *
   * Permission: `transactions:read`.
   */
  getTransaction(transactionId: string, query?: { wait?: number }): Promise<Transaction>;
  /**
   * The client's collected payments, newest first.
   *
   * Permission: `collection:read`.
   */
  listCollected(query?: { status?: TransactionStatus; type?: TransactionType; phone_number?: string; amount?: Amount | number | bigint; reference?: string; provider_transaction_id?: string; payout_id?: string; key_id?: string; from?: string; to?: string; limit?: number; cursor?: string }): Promise<TransactionPage>;
  /** Iterate over all pages of `listCollected`. */
  iterateCollected(query?: { status?: TransactionStatus; type?: TransactionType; phone_number?: string; amount?: Amount | number | bigint; reference?: string; provider_transaction_id?: string; payout_id?: string; key_id?: string; from?: string; to?: string; limit?: number }): AsyncGenerator<Transaction, void>;
  /**
   * The balance of the main account, or of the account kept for a subscriber.
   *
   * Permission: `balance:read`.
   */
  getBalance(query?: { phone_number?: string }): Promise<Balance>;
  /**
   * The codes with which payers pay the client by themselves, newest first.
   *
   * Permission: `collection:read`.
   */
  listPaymentCodes(query?: { limit?: number; cursor?: string }): Promise<PaymentCodePage>;
  /** Iterate over all pages of `listPaymentCodes`. */
  iteratePaymentCodes(query?: { limit?: number }): AsyncGenerator<PaymentCode, void>;
  /**
   * Create a payment code, or replace what it says. It begins with the prefix that the operator gave the client.
   *
   * Permission: `collection:write`.
   */
  putPaymentCode(code: string, body: PutPaymentCodeBody): Promise<PaymentCode>;
  /**
   * One payment code.
   *
   * Permission: `collection:read`.
   */
  getPaymentCode(code: string): Promise<PaymentCode>;
  /**
   * Remove a payment code; what comes with it from now on is held for the operators.
   *
   * Permission: `collection:write`.
   */
  deletePaymentCode(code: string): Promise<DeletionResult>;
  /**
   * Judge every row of a payout, in JSON or in a file; nothing is sent before it is approved.
   *
   * Permission: `payouts:write`.
   */
  createPayout(body: CreatePayoutBody | string | Uint8Array, query?: { reference?: string; description?: string; send_at?: string; contentType?: string }): Promise<Payout>;
  /**
   * The client's payouts, newest first.
   *
   * Permission: `payouts:read`.
   */
  listPayouts(query?: { status?: PayoutStatus; reference?: string; from?: string; to?: string; limit?: number; cursor?: string }): Promise<PayoutPage>;
  /** Iterate over all pages of `listPayouts`. */
  iteratePayouts(query?: { status?: PayoutStatus; reference?: string; from?: string; to?: string; limit?: number }): AsyncGenerator<Payout, void>;
  /**
   * Open the next round of a payout: a draft of rows that failed, or were cancelled unsent.
   *
   * Permission: `payouts:write`.
   */
  retryPayout(payoutId: string, body?: RetryPayoutBody): Promise<Payout>;
  /**
   * One payout, with counts and sums of its rows by state.
   *
   * Permission: `payouts:read`.
   */
  getPayout(payoutId: string): Promise<Payout>;
  /**
   * The rows of a payout in the order of their lines; with `Accept: text/csv` all of them.
   *
   * Permission: `payouts:read`.
   */
  listPayoutItems(payoutId: string, query?: { state?: PayoutItemState; limit?: number; cursor?: string }): Promise<PayoutItemPage>;
  /** The same as `text/csv`, all of it. */
  listPayoutItemsCsv(payoutId: string, query?: { state?: PayoutItemState }): Promise<ReadableStream<Uint8Array>>;
  /** Iterate over all pages of `listPayoutItems`. */
  iteratePayoutItems(payoutId: string, query?: { state?: PayoutItemState; limit?: number }): AsyncGenerator<PayoutItem, void>;
  /**
   * Reserve the sum and the fees of all ready rows and send them; by another key or person than the maker.
   *
   * Permission: `payouts:approve`.
   */
  approvePayout(payoutId: string, body?: ApprovePayoutBody): Promise<Payout>;
  /**
   * Cancel what was not sent and release its reservation.
   *
   * Permission: `payouts:write`.
   */
  cancelPayout(payoutId: string, body?: CancelPayoutBody): Promise<Payout>;
  /**
   * What moved in an account within a period, oldest first, with the balances before and after it.
   *
   * Permission: `statements:read`.
   */
  getStatement(query?: { account?: string; from?: string; to?: string; limit?: number; cursor?: string }): Promise<Statement>;
  /** The same as `text/csv`, all of it. */
  getStatementCsv(query?: { account?: string; from?: string; to?: string }): Promise<ReadableStream<Uint8Array>>;
  /** Iterate over all pages of `getStatement`. */
  iterateStatement(query?: { account?: string; from?: string; to?: string; limit?: number }): AsyncGenerator<StatementLine, void>;
  /**
   * What became final on a day in Kampala: counts, sums, fees and times by type, provider and status.
   *
   * Permission: `statements:read`.
   */
  getDailyReport(query?: { date?: string }): Promise<DailyReport>;
  /** The client's objects that a whole value names: an id, a reference, a provider's receipt or a phone number. */
  find(query: { q: string }): Promise<SearchReply>;
  /** Show a key what it may do, and what is left of its limits. */
  getOwnKey(): Promise<OwnKey>;
  /**
   * The providers of this server and whether they take payments, from our own calls of the last 15 minutes.
   *
   * Permission: `transactions:read`.
   */
  listProviders(): Promise<ProviderList>;
  /**
   * Return the name to which its provider has registered a phone number; kept for a day.
   *
   * Permission: `transactions:read`.
   */
  getSubscriber(query: { phone_number: string }): Promise<Subscriber>;
  /**
   * Payments, refunds and sessions of a phone number on one time line, newest first.
   *
   * Permission: `transactions:read`.
   */
  getSubscriberHistory(phoneNumber: string, query?: { limit?: number; cursor?: string }): Promise<History>;
  /** Iterate over all pages of `getSubscriberHistory`. */
  iterateSubscriberHistory(phoneNumber: string, query?: { limit?: number }): AsyncGenerator<HistoryEntry, void>;
  /**
   * Remove the PIN that a subscriber has in your menus, with its lock. The subscriber may choose another.
   *
   * Permission: `transactions:send`.
   */
  resetPin(phoneNumber: string): Promise<PinReset>;
  /**
   * All webhooks of the client, oldest first.
   *
   * Permission: `webhooks:read`.
   */
  listWebhooks(): Promise<WebhookPage>;
  /**
   * Add an address to be called; the answer alone shows the secret that signs the calls.
   *
   * Permission: `webhooks:write`.
   */
  createWebhook(body: CreateWebhookBody): Promise<Webhook>;
  /**
   * One webhook, and since when it fails.
   *
   * Permission: `webhooks:read`.
   */
  getWebhook(webhookId: string): Promise<Webhook>;
  /**
   * Remove a webhook; what still waited for it is not sent any more.
   *
   * Permission: `webhooks:write`.
   */
  deleteWebhook(webhookId: string): Promise<DeletionResult>;
  /**
   * Give a webhook another secret; for a while its calls carry the signatures of both.
   *
   * Permission: `webhooks:write`.
   */
  rotateWebhook(webhookId: string, body?: RotateSecretBody): Promise<RotatedSecret>;
  /**
   * Give another secret, or the first one, for calls to the `callback_url` of single transactions.
   *
   * Permission: `webhooks:write`.
   */
  rotateCallbacks(body?: RotateSecretBody): Promise<RotatedSecret>;
  /**
   * Switch a webhook on again that was switched off because nothing was taken there.
   *
   * Permission: `webhooks:write`.
   */
  enableWebhook(webhookId: string): Promise<Webhook>;
  /**
   * Send a test event to one webhook; `GET /api/events/{id}` shows what became of it.
   *
   * Permission: `webhooks:write`.
   */
  testWebhook(webhookId: string): Promise<Event>;
  /**
   * The client's events, newest first.
   *
   * Permission: `webhooks:read`.
   */
  listEvents(query?: { type?: string; from?: string; to?: string; limit?: number; cursor?: string }): Promise<EventPage>;
  /** Iterate over all pages of `listEvents`. */
  iterateEvents(query?: { type?: string; from?: string; to?: string; limit?: number }): AsyncGenerator<Event, void>;
  /**
   * One event with its deliveries: their status, the time taken and the first KiB of the answer.
   *
   * Permission: `webhooks:read`.
   */
  getEvent(eventId: string): Promise<Event>;
  /**
   * Send one event again to every webhook that takes its type.
   *
   * Permission: `webhooks:write`.
   */
  redeliverEvent(eventId: string): Promise<Redelivery>;
  /**
   * Send the events of a period again, in their order; at most 1000 at a time.
   *
   * Permission: `webhooks:write`.
   */
  redeliverEvents(body: RedeliverEventsBody): Promise<Redelivery>;
  /**
   * Send a text to a phone, once for each reference.
   *
   * Permission: `messages:write`.
   */
  createMessage(body: CreateMessageBody): Promise<Sms>;
  /**
   * The client's messages, newest first.
   *
   * Permission: `messages:read`.
   */
  listMessages(query?: { status?: SmsStatus; phone_number?: string; from?: string; to?: string; limit?: number; cursor?: string }): Promise<SmsPage>;
  /** Iterate over all pages of `listMessages`. */
  iterateMessages(query?: { status?: SmsStatus; phone_number?: string; from?: string; to?: string; limit?: number }): AsyncGenerator<Sms, void>;
  /**
   * One message, and whether it was delivered.
   *
   * Permission: `messages:read`.
   */
  getMessage(messageId: string): Promise<Sms>;
  /**
   * Dial a service code; returns the first screen.
   *
   * Permission: `ussd:write`.
   */
  beginSession(body: BeginSessionBody): Promise<Session>;
  /**
   * Return the client's sessions, newest first.
   *
   * Permission: `ussd:read`.
   */
  listSessions(query?: { status?: SessionStatus; phone_number?: string; service_code?: string; from?: string; to?: string; limit?: number; cursor?: string }): Promise<SessionPage>;
  /** Iterate over all pages of `listSessions`. */
  iterateSessions(query?: { status?: SessionStatus; phone_number?: string; service_code?: string; from?: string; to?: string; limit?: number }): AsyncGenerator<Session, void>;
  /**
   * Answer a screen; the number of the last answered turn repeats its answer.
   *
   * Permission: `ussd:write`.
   */
  enterText(sessionId: string, body: EnterTextBody): Promise<Session>;
  /**
   * Return a session with its transcript.
   *
   * Permission: `ussd:read`.
   */
  getSession(sessionId: string): Promise<Session>;
  /**
   * End an active session.
   *
   * Permission: `ussd:write`.
   */
  endSession(sessionId: string): Promise<Session>;
  /**
   * Return the client's menus, by name.
   *
   * Permission: `menus:read`.
   */
  listMenus(): Promise<MenuSummaryItems>;
  /**
   * Save the draft of a menu; returns the report of its check.
   *
   * Permission: `menus:write`.
   */
  saveDraft(menuId: string, body?: { [name: string]: any } | string | Uint8Array, query?: { contentType?: string }): Promise<CheckReport>;
  /**
   * Return a menu with its draft and its published document.
   *
   * Permission: `menus:read`.
   */
  getMenu(menuId: string): Promise<MenuSummary>;
  /**
   * Check a menu's draft, or the document in the body, which is not saved.
   *
   * Permission: `menus:read`.
   */
  checkMenu(menuId: string, body?: { [name: string]: any } | string | Uint8Array, query?: { contentType?: string }): Promise<CheckReport>;
  /**
   * Publish the draft as a new version.
   *
   * Permission: `menus:write`.
   */
  publishMenu(menuId: string): Promise<Version>;
  /**
   * Return every published version of a menu, newest first.
   *
   * Permission: `menus:read`.
   */
  listVersions(menuId: string): Promise<VersionItems>;
  /**
   * Publish an earlier version again.
   *
   * Permission: `menus:write`.
   */
  rollBackMenu(menuId: string, body: RollBackBody): Promise<Version>;
  /**
   * Return the nodes and edges of a menu, and its diagram; only the diagram with `Accept: image/svg+xml`.
   *
   * Permission: `menus:read`.
   */
  getGraph(menuId: string, query?: { version?: number }): Promise<Graph>;
  /** The same as `image/svg+xml`, all of it. */
  getGraphSvg(menuId: string, query?: { version?: number }): Promise<ReadableStream<Uint8Array>>;
  /**
   * Replay past conversations through the draft, without paying or calling anything. Needs `ussd:read` as well.
   *
   * Permission: `menus:read`.
   */
  replayMenu(menuId: string, body?: ReplayBody): Promise<ReplayItemItems>;
  /**
   * Return the client's service codes and their menus.
   *
   * Permission: `menus:read`.
   */
  listCodes(): Promise<CodeItems>;
  /**
   * Bind a code to a menu. The path may leave out the closing hash of the code.
   *
   * Permission: `menus:write`.
   */
  bindCode(serviceCode: string, body: BindCodeBody): Promise<Code>;
}
