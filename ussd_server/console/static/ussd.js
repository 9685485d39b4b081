// The keys of the phone type into its entry field, and diagrams show their lit node.
"use strict";

document.addEventListener("click", (event) => {
  const key = event.target.closest("button[data-key]");
  const entry = document.querySelector("#entry");
  if (!key || !entry) return;
  event.preventDefault();
  entry.value = (entry.value + key.dataset.key).slice(0, entry.maxLength);
});

function scrollDiagrams() {
  for (const box of document.querySelectorAll(".diagram-box")) {
    const lit = box.querySelector(".lit");
    box.scrollLeft = (box.scrollWidth - box.clientWidth) / 2;
    if (!lit) continue;
    const node = lit.getBoundingClientRect();
    const frame = box.getBoundingClientRect();
    box.scrollLeft += node.left + node.width / 2 - frame.left - frame.width / 2;
    box.scrollTop += node.top + node.height / 2 - frame.top - frame.height / 2;
  }
}

document.addEventListener("htmx:load", scrollDiagrams);
document.addEventListener("DOMContentLoaded", scrollDiagrams);
