"use strict";
// Shows the OpenAPI document with Scalar. Scalar shows the shared part of a reply instead of its own data, so each reply
// is written out first.

const page = document.getElementById("reference");

function writtenOut(part, schemas) {
  if (Array.isArray(part)) return part.map((each) => writtenOut(each, schemas));
  if (part === null || typeof part !== "object") return part;
  const whole = Object.fromEntries(Object.entries(part).map(([name, value]) => [name, writtenOut(value, schemas)]));
  if (!whole.allOf || !whole.properties) return whole;
  const { allOf, ...own } = whole;
  const shared = schemas[allOf[0].$ref.split("/").pop()];
  return { ...shared, ...own, properties: { ...shared.properties, ...own.properties }, required: shared.required };
}

// Scalar leaves some of its widgets without what screen readers and keyboards need.
const lacking = {
  ".code-input-lite__editor": (field) => ({ role: "textbox", "aria-label": field.dataset.placeholder || "Value" }),
  "button.scalar-code-copy": () => ({ "aria-label": "Copy" }),
  "ul.endpoints": () => ({ tabindex: "0" }),
};

function complete() {
  for (const [widgets, attributes] of Object.entries(lacking)) {
    for (const widget of document.querySelectorAll(`${widgets}:not([data-complete])`)) {
      Object.entries(attributes(widget)).forEach(([name, value]) => widget.setAttribute(name, value));
      widget.dataset.complete = "";
    }
  }
}

new MutationObserver(complete).observe(document.body, { childList: true, subtree: true });

fetch(page.dataset.url)
  .then((response) => response.json())
  .then((api) => {
    const content = { ...api, paths: writtenOut(api.paths, api.components.schemas) };
    page.replaceChildren();
    Scalar.createApiReference(page, { content, ...JSON.parse(page.dataset.configuration) });
  });
