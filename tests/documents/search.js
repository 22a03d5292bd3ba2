// Answer questions as the site's own search does: node search.js FOLDER < questions.json
// Its scripts run here with stubs for what they touch of a browser.
const { readFileSync } = require("fs");
const vm = require("vm");

const SCRIPTS = [
  "_static/documentation_options.js",
  "_static/language_data.js",
  "_static/searchtools.js",
  "searchindex.js",
];
const page = vm.createContext({
  console,
  document: { getElementById: () => null, documentElement: { dataset: {} } },
  SPHINX_HIGHLIGHT_ENABLED: false,
  _: (text) => text,
  _ready: () => {},
});
page.window = page;
const folder = process.argv[2];
const code = SCRIPTS.map((name) => readFileSync(`${folder}/${name}`, "utf8"));
vm.runInContext(code.join("\n").replaceAll('"use strict";', ""), page);

page.questions = JSON.parse(readFileSync(0, "utf8"));
// The best result comes last. A result begins with the name of its page.
const answers = vm.runInContext(
  `questions.map((question) =>
     Search._performSearch(...Search._parseQuery(question))
       .reverse().map((result) => result[0]))`,
  page,
);
console.log(JSON.stringify(answers));
