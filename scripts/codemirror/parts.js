// What the menu editor uses of CodeMirror. `scripts/vendor` builds one file of it, with the global name CodeMirror.
export { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
export { yaml } from "@codemirror/lang-yaml";
export { syntaxHighlighting } from "@codemirror/language";
export { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
export { EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
export { classHighlighter } from "@lezer/highlight";
