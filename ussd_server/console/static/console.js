// What pages do beyond HTML: copy buttons, and live parts that refresh every two seconds in a visible tab.
"use strict";

const EVERY_MS = 2000;
const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

// The texts of this script, in the language of the page.
const texts = document.documentElement.dataset;

// Each live part with the text that the server sent last, so that an unchanged part is left alone.
const lastSeen = new Map();
let answeredAt = new Date();

function showCopyButtons(root) {
  for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  const text = button.textContent;
  button.textContent = texts.copied;
  setTimeout(() => { button.textContent = text; }, 1500);
});

document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select, [contenteditable]");
  const search = document.querySelector("#search");
  if (event.key === "/" && search && !isTyping) {
    event.preventDefault();
    search.focus();
  }
});

// What opens over the page closes by a click beside it, and by Escape, which leads back to its button.
const closePanels = (keeps) => {
  for (const panel of document.querySelectorAll(":is(.drop, .heading .confirm)[open]")) if (!keeps(panel)) panel.open = false;
};
document.addEventListener("click", (event) => closePanels((panel) => panel.contains(event.target)));
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  const left = document.activeElement.closest(":is(.drop, .heading .confirm)[open]");
  closePanels((panel) => left && panel !== left && panel.contains(left));
  left?.querySelector("summary").focus();
});

document.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.elt.hasAttribute("data-poll")) {
    event.detail.headers["X-Console-Poll"] = lastSeen.get(event.detail.elt.id) || "new";
  }
});

// A server that does not answer, or a proxy that answers for it, leaves old figures on the page.
document.addEventListener("htmx:sendError", (event) => noteAnswer(event, false));
document.addEventListener("htmx:beforeOnLoad", (event) => {
  const { xhr } = event.detail;
  if (xhr.status === 401) tell(texts.signedOut);
  else noteAnswer(event, xhr.status < 500);
  // A page that is loaded anew loses what was typed into its forms, the selection and the focus.
  if (!xhr.getResponseHeader("HX-Refresh")) return;
  if (isHalfFilled() || isSelected(document.body)) event.preventDefault();
  else if (xhr.status !== 401) sessionStorage.setItem("focused", nameOf(document.activeElement));
});

function noteAnswer(event, isAnswered) {
  if (!event.detail.elt.hasAttribute("data-poll")) return;
  if (isAnswered) answeredAt = new Date();
  const time = answeredAt.toLocaleTimeString("en-GB", { timeZone: "Africa/Kampala", hour: "2-digit", minute: "2-digit" });
  tell(isAnswered ? "" : texts.notConnected.replace("{time}", time));
}

function tell(text) {
  const notice = document.querySelector("#connection");
  if (!notice || notice.textContent === text) return;
  notice.textContent = text;
  notice.hidden = !text;
}

function isHalfFilled() {
  const isChanged = (field) =>
    field.type === "checkbox" || field.type === "radio" ? field.checked !== field.defaultChecked
      : field.tagName === "SELECT" ? [...field.options].some((option) => option.selected !== option.defaultSelected)
        : field.defaultValue !== undefined && field.value !== field.defaultValue;
  return [...document.querySelectorAll('form[method="post"]')].some((form) => [...form.elements].some(isChanged));
}

// A part that is refreshed leaves open what its reader opened, and the focus where it was. A part in which text is
// selected is refreshed later.
let opened = [];
let focused = null;
document.addEventListener("htmx:beforeSwap", (event) => {
  const { target: part, xhr } = event.detail;
  const isPolled = part.hasAttribute("data-poll");
  if (isPolled && isSelected(part)) {
    event.detail.shouldSwap = false;
    return;
  }
  // Noted before the swap, after which the part is no longer in the document.
  if (isPolled) lastSeen.set(part.id, xhr.getResponseHeader("X-Console-Version"));
  opened = [...part.querySelectorAll("details[id][open]")].map((each) => each.id);
  const place = [...part.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement);
  focused = isPolled && place >= 0 ? { place, name: nameOf(document.activeElement) } : null;
});

document.addEventListener("htmx:load", (event) => {
  showCopyButtons(event.detail.elt);
  showAttention(event.detail.elt);
  for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
  if (!focused) return;
  const choices = [...event.detail.elt.querySelectorAll(FOCUSABLE)];
  const again = choices.find((each) => nameOf(each) === focused.name) || choices[focused.place];
  again?.focus({ preventScroll: true });
  focused = null;
});

// The browser's title says how much needs its reader.
function showAttention(part) {
  const count = part.dataset?.attention;
  if (count === undefined) return;
  const title = document.title.replace(/^\(\d+\) /, "");
  document.title = count === "0" ? title : `(${count}) ${title}`;
}

function isSelected(part) {
  const selection = document.getSelection();
  return !selection.isCollapsed && selection.rangeCount > 0 && selection.getRangeAt(0).intersectsNode(part);
}

function nameOf(element) {
  if (element === document.body) return "";
  return element.id || element.getAttribute("href") || element.dataset.copy || element.textContent;
}

// What is wrong with a form goes beside the field that it names, and into sight.
function showProblem() {
  const notice = document.querySelector('main .notice[role="alert"]');
  if (!notice) return;
  const name = notice.dataset.field;
  const field = name && (notice.closest("form") || document).querySelector(`form[method="post"] label [name="${CSS.escape(name)}"]:not([type="radio"], [type="checkbox"])`);
  if (!field) return void notice.scrollIntoView({ block: "nearest" });
  notice.querySelector("span")?.remove();
  const problem = Object.assign(document.createElement("span"), { id: "field-error", className: "field-error", textContent: notice.textContent });
  problem.setAttribute("role", "alert");
  field.closest("label").append(problem);
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", problem.id);
  field.focus();
  notice.remove();
}

document.addEventListener("DOMContentLoaded", () => {
  showCopyButtons(document);
  showProblem();
  const name = sessionStorage.getItem("focused");
  sessionStorage.removeItem("focused");
  if (name) [...document.querySelectorAll(FOCUSABLE)].find((each) => nameOf(each) === name)?.focus({ preventScroll: true });
});

setInterval(() => {
  if (document.visibilityState !== "visible") return;
  for (const part of document.querySelectorAll("[data-poll]")) htmx.trigger(part, "poll");
}, EVERY_MS);
