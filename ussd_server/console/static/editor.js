// The menu editor: CodeMirror in place of the text field, which keeps the text for the form, the check and the server.
// What the check finds is marked at its line.
const {
  classHighlighter, defaultKeymap, EditorView, highlightActiveLine, history, historyKeymap, indentWithTab, keymap, lineNumbers,
  lintGutter, lintKeymap, setDiagnostics, syntaxHighlighting, yaml,
} = CodeMirror;

const field = document.querySelector("#text");

const editor = new EditorView({
  doc: field.value,
  extensions: [
    EditorView.cspNonce.of(field.nonce),
    lineNumbers(),
    lintGutter(),
    history(),
    highlightActiveLine(),
    EditorView.lineWrapping,
    yaml(),
    syntaxHighlighting(classHighlighter),
    keymap.of([indentWithTab, ...defaultKeymap, ...historyKeymap, ...lintKeymap]),
    EditorView.contentAttributes.of({
      tabindex: "0", "aria-label": field.labels[0].textContent, "aria-describedby": "text-keys",
    }),
    EditorView.updateListener.of((update) => {
      if (update.docChanged) keepText();
    }),
  ],
});

function keepText() {
  field.value = editor.state.doc.toString();
  field.dispatchEvent(new Event("input", { bubbles: true }));
}

function markFindings() {
  const { doc } = editor.state;
  const findings = [...document.querySelectorAll("#report [data-line]")].filter((each) => each.dataset.line <= doc.lines);
  const diagnostics = findings.map(({ dataset, textContent }) => {
    const { from, to, text } = doc.line(Number(dataset.line));
    return { from: from + text.search(/\S|$/), to, severity: dataset.severity, message: dataset.message || textContent };
  });
  editor.dispatch(setDiagnostics(editor.state, diagnostics));
}

function showLine(address) {
  const number = Number(/#line-(\d+)$/.exec(address)?.[1]);
  if (!number || number > editor.state.doc.lines) return false;
  const { from, to } = editor.state.doc.line(number);
  editor.dispatch({ selection: { anchor: from, head: to }, effects: EditorView.scrollIntoView(from, { y: "center" }) });
  editor.focus();
  return true;
}

document.addEventListener("click", (event) => {
  const link = event.target.closest('a[href*="#line-"]');
  if (link && showLine(link.href)) event.preventDefault();
});

document.addEventListener("htmx:load", (event) => {
  if (event.detail.elt.id === "report") markFindings();
});

field.hidden = true;
field.after(editor.dom);
document.querySelector("#text-keys").hidden = false;
markFindings();
showLine(location.hash);
