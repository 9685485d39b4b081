// The phone takes every key in the order in which it was pressed, and diagrams show their lit node.
"use strict";

const ZOOM_STEP = 1.25;
const SMALLEST_ZOOM = 0.2;
const LARGEST_ZOOM = 3;

// While a step is answered, what is typed belongs to the next screen: finished entries wait here, in their order.
let isWaiting = false;
let sent = "";
const waiting = [];
let zoom = null;

const phone = () => document.querySelector("#phone form.phone-page");
const entry = () => document.querySelector("#entry");
// The messages below the phone refresh by themselves, and have nothing to do with its steps.
const isStep = (event) => event.detail.target?.id === "phone";

document.addEventListener("click", (event) => {
  const key = event.target.closest("button[data-key]");
  if (key && entry()) {
    event.preventDefault();
    entry().value = (entry().value + key.dataset.key).slice(0, entry().maxLength);
  }
  const zooms = event.target.closest("button[data-zoom]");
  if (zooms) {
    changeZoom(zooms.dataset.zoom);
    showDiagrams();
  }
});

// Before htmx sees it: a second request would answer a screen that is not shown any more.
document.addEventListener("submit", (event) => {
  if (event.target !== phone() || !isWaiting) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const button = event.submitter;
  waiting.push({ name: button?.name || "do", value: button?.value || "send", text: entry()?.value ?? "" });
  if (entry()) entry().value = "";
}, true);

document.addEventListener("htmx:beforeSend", (event) => {
  if (!isStep(event)) return;
  isWaiting = true;
  sent = entry()?.value ?? "";
  if (entry()) entry().value = "";
});

document.addEventListener("htmx:beforeSwap", (event) => {
  if (isStep(event)) sent = entry()?.value ?? "";
});

document.addEventListener("htmx:afterSwap", (event) => {
  if (!isStep(event)) return;
  if (entry() && sent) entry().value = sent;
  (entry() || document.querySelector("#key-send"))?.focus();
});

document.addEventListener("htmx:load", (event) => {
  showDiagrams();
  if (event.target.id !== "phone" || !isWaiting || !phone()) return;
  isWaiting = false;
  const next = waiting.shift();
  const button = next && [...phone().elements].find((each) => each.name === next.name && each.value === next.value);
  if (!button) {
    waiting.length = 0;
    return;
  }
  const typedAhead = entry()?.value ?? "";
  if (entry()) entry().value = next.text;
  phone().requestSubmit(button);
  if (entry()) entry().value = typedAhead;
});

for (const trouble of ["htmx:sendError", "htmx:responseError", "htmx:timeout"]) {
  document.addEventListener(trouble, (event) => {
    if (!isStep(event)) return;
    isWaiting = false;
    waiting.length = 0;
    if (entry() && !entry().value) entry().value = sent;
    document.querySelector("#phone-trouble").hidden = false;
  });
}

function changeZoom(how) {
  const box = document.querySelector(".map .diagram-box");
  const drawn = box?.querySelector("svg.diagram");
  if (!drawn) return;
  const now = drawn.getBoundingClientRect().width / drawn.viewBox.baseVal.width;
  const fits = Math.min(box.clientWidth / drawn.viewBox.baseVal.width, box.clientHeight / drawn.viewBox.baseVal.height);
  const wanted = { fit: fits, in: now * ZOOM_STEP, out: now / ZOOM_STEP }[how];
  zoom = Math.min(LARGEST_ZOOM, Math.max(SMALLEST_ZOOM, wanted));
}

function showDiagrams() {
  for (const box of document.querySelectorAll(".diagram-box")) {
    const drawn = box.querySelector("svg.diagram");
    const buttons = box.closest(".map")?.querySelector(".zoom");
    if (buttons) buttons.hidden = !drawn;
    if (drawn && buttons && zoom !== null) {
      drawn.classList.add("zoomed");
      drawn.setAttribute("width", drawn.viewBox.baseVal.width * zoom);
      drawn.setAttribute("height", drawn.viewBox.baseVal.height * zoom);
    }
    const lit = box.querySelector(".lit");
    if (!lit) {
      box.scrollLeft = (box.scrollWidth - box.clientWidth) / 2;
      continue;
    }
    const node = lit.getBoundingClientRect();
    const frame = box.getBoundingClientRect();
    box.scrollLeft += node.left + node.width / 2 - frame.left - frame.width / 2;
    box.scrollTop += node.top + node.height / 2 - frame.top - frame.height / 2;
  }
}

document.addEventListener("DOMContentLoaded", showDiagrams);
