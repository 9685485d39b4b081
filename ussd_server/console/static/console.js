// What pages do beyond HTML: copy buttons, and live parts that refresh every two seconds in a visible tab.
"use strict";

const EVERY_MS = 2000;

// Each live part with the text that the server sent last, so that an unchanged part is left alone.
const lastSeen = new Map();

function showCopyButtons(root) {
  for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async (event) => {
  const button = event.target.closest("button[data-copy]");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  const text = button.textContent;
  button.textContent = "Copied";
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

document.addEventListener("htmx:configRequest", (event) => {
  if (event.detail.elt.hasAttribute("data-poll")) {
    event.detail.headers["X-Console-Poll"] = lastSeen.get(event.detail.elt.id) || "new";
  }
});

document.addEventListener("htmx:afterRequest", (event) => {
  const version = event.detail.xhr && event.detail.xhr.getResponseHeader("X-Console-Version");
  if (version) lastSeen.set(event.detail.elt.id, version);
});

// A part that is refreshed leaves open what its reader opened.
let opened = [];
document.addEventListener("htmx:beforeSwap", (event) => {
  opened = [...event.detail.target.querySelectorAll("details[id][open]")].map((part) => part.id);
});

document.addEventListener("htmx:load", (event) => {
  showCopyButtons(event.detail.elt);
  for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
});
document.addEventListener("DOMContentLoaded", () => showCopyButtons(document));

setInterval(() => {
  if (document.visibilityState !== "visible") return;
  for (const part of document.querySelectorAll("[data-poll]")) htmx.trigger(part, "poll");
}, EVERY_MS);
