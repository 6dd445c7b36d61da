// The HTTP API, from its own description: every operation with an example, to be tried here.

const METHODS = ["get", "put", "post", "patch", "delete"];
const NAMES = { hub: "demo", channel: "news", topic: "orders", rules: "default", namespace: "room", user: "ann", session: "s1", table: "traffic" };

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined) made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

class Examples {
  constructor(document) {
    this.schemas = document.components.schemas;
  }

  of(schema, depth = 0) {
    if (!schema || depth > 6) return {};
    if (schema.$ref) return this.of(this.schemas[schema.$ref.split("/").at(-1)], depth + 1);
    if ("example" in schema) return schema.example;
    if ("const" in schema) return schema.const;
    if (schema.default !== undefined && schema.default !== null) return schema.default;
    if (schema.enum) return schema.enum[0];
    const choices = schema.anyOf ?? schema.oneOf;
    if (choices) return this.of(choices.find((each) => each.type !== "null") ?? choices[0], depth + 1);
    if (schema.allOf) return Object.assign({}, ...schema.allOf.map((each) => this.of(each, depth + 1)));
    switch (schema.type) {
      case "object": return this.object(schema, depth);
      case "array": return schema.items && depth < 5 ? [this.of(schema.items, depth + 1)] : [];
      case "integer": return Math.max(schema.minimum ?? 0, Math.min(1, schema.maximum ?? 1));
      case "number": return schema.minimum ?? 0;
      case "boolean": return false;
      case "null": return null;
      case "string": return schema.format === "date-time" ? "2026-01-31T12:00:00Z" : "text";
      default: return {};
    }
  }

  object(schema, depth) {
    const required = schema.required ?? [];
    const names = Object.keys(schema.properties ?? {});
    const shown = required.length > 0 || depth > 0 ? names.filter((name) => required.includes(name)) : names;
    return Object.fromEntries((shown.length > 0 ? shown : names).map((name) => [name, this.of(schema.properties[name], depth + 1)]));
  }

  /** What belongs into a parameter or header. */
  ofParameter(parameter) {
    if (parameter.in === "path") return NAMES[parameter.name] ?? String(this.of(parameter.schema));
    return parameter.required ? String(this.of(parameter.schema)) : "";
  }
}

const text = (value) => JSON.stringify(value, null, 2);

function described(operation) {
  return [operation.summary, operation.description].filter(Boolean).join(". ");
}

class Operation {
  constructor(path, method, operation, examples) {
    this.path = path;
    this.method = method.toUpperCase();
    this.operation = operation;
    this.examples = examples;
    this.parameters = operation.parameters ?? [];
    this.words = `${this.method} ${path} ${operation.operationId} ${described(operation)}`.toLowerCase();
    const [type, media] = Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
    this.bodyType = type;
    this.bodySchema = media?.schema;
    this.shown = element("details", { ontoggle: () => this.open() },
      element("summary", {}, element("span", { class: "method" }, this.method), element("code", {}, path),
        element("span", { class: "quiet" }, operation.summary ?? "")));
  }

  open() {
    if (this.form || !this.shown.open) return;
    this.inputs = new Map();
    const fields = element("div", { class: "fields" });
    for (const parameter of this.parameters) {
      const id = `${this.operation.operationId}-${parameter.name}`;
      const input = element("input", { id, value: this.examples.ofParameter(parameter), placeholder: parameter.in });
      this.inputs.set(parameter, input);
      fields.append(element("label", { for: id }, `${parameter.name}${parameter.required ? " *" : ""}`), input);
      if (parameter.description) fields.append(element("small", {}, parameter.description));
    }
    this.form = element("form", { onsubmit: (event) => this.send(event) }, element("p", {}, described(this.operation)), fields);
    if (this.bodySchema) {
      const id = `${this.operation.operationId}-body`;
      this.body = element("textarea", { id, spellcheck: "false" });
      this.body.value = this.bodyType === "application/json" ? text(this.examples.of(this.bodySchema)) : "text";
      this.form.append(element("label", { for: id }, `Body (${this.bodyType})`), this.body);
    }
    this.answer = element("pre", {}, this.example());
    this.form.append(element("p", {}, element("button", {}, "Try it"), " ", element("button", { type: "button", onclick: () => this.curl() }, "As curl")), this.answer);
    this.shown.append(this.form);
  }

  /** What a good answer looks like. */
  example() {
    const [status, response] = Object.entries(this.operation.responses ?? {}).find(([code]) => code.startsWith("2")) ?? [];
    const media = Object.values(response?.content ?? {})[0];
    return `Example: ${status ?? ""} ${response?.description ?? ""}\n${media ? text(this.examples.of(media.schema)) : "(no body)"}`;
  }

  request() {
    let address = this.path;
    const query = new URLSearchParams();
    const headers = {};
    for (const [parameter, input] of this.inputs) {
      if (parameter.in === "path") address = address.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (input.value !== "" && parameter.in === "query") query.append(parameter.name, input.value);
      else if (input.value !== "" && parameter.in === "header") headers[parameter.name] = input.value;
    }
    const token = document.querySelector("#token").value.trim();
    if (token) headers.Authorization = `Bearer ${token}`;
    if (this.body) headers["Content-Type"] = this.bodyType;
    return { address: query.size > 0 ? `${address}?${query}` : address, headers, body: this.body?.value };
  }

  async send(event) {
    event.preventDefault();
    const { address, headers, body } = this.request();
    this.answer.textContent = "…";
    try {
      const response = await fetch(address, { method: this.method, headers, body, credentials: "omit" });
      const said = await response.text();
      let shown = said;
      try { shown = text(JSON.parse(said)); } catch { /* not JSON */ }
      const tag = response.headers.get("ETag");
      this.answer.textContent = `${response.status} ${response.statusText}${tag ? `   ETag: ${tag}` : ""}\n${shown}`;
      this.answer.className = response.ok ? "" : "bad";
    } catch (error) {
      this.answer.textContent = `the hub cannot be reached: ${error.message}`;
      this.answer.className = "bad";
    }
  }

  curl() {
    const { address, headers, body } = this.request();
    const quoted = (value) => `'${String(value).replaceAll("'", "'\\''")}'`;
    const parts = [`curl -X ${this.method}`];
    for (const [name, value] of Object.entries(headers)) parts.push(`-H ${quoted(`${name}: ${name === "Authorization" ? "Bearer $TOKEN" : value}`)}`);
    if (body !== undefined) parts.push(`-d ${quoted(body)}`);
    this.answer.className = "";
    this.answer.textContent = [...parts, quoted(location.origin + address)].join(" \\\n  ");
  }
}

async function show() {
  const place = document.querySelector("#operations");
  const description = await (await fetch("/openapi.json")).json();
  const examples = new Examples(description);
  const groups = new Map();
  for (const [path, item] of Object.entries(description.paths)) {
    for (const method of METHODS.filter((each) => each in item)) {
      const made = new Operation(path, method, item[method], examples);
      const tag = item[method].tags?.[0] ?? "Other";
      groups.set(tag, [...(groups.get(tag) ?? []), made]);
    }
  }
  const draw = (wanted) => {
    place.replaceChildren();
    for (const [tag, operations] of groups) {
      const found = operations.filter((each) => wanted.every((word) => each.words.includes(word)));
      if (found.length > 0) place.append(element("h2", {}, tag), ...found.map((each) => each.shown));
    }
    if (!place.firstChild) place.append(element("p", { class: "quiet" }, "Nothing matches."));
  };
  const search = document.querySelector("#search");
  search.addEventListener("input", () => draw(search.value.toLowerCase().split(/\s+/).filter(Boolean)));
  draw([]);
}

show().catch((error) => {
  document.querySelector("#operations").textContent = `The description cannot be read: ${error.message}`;
});
