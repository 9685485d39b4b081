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

fetch(page.dataset.url)
  .then((response) => response.json())
  .then((api) => {
    const content = { ...api, paths: writtenOut(api.paths, api.components.schemas) };
    Scalar.createApiReference(page, { content, ...JSON.parse(page.dataset.configuration) });
  });
