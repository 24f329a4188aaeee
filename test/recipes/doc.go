// Package recipes holds the programs of docs/recipes.md, each an example that runs, and the test that keeps
// them and the page equal. Nobody imports it.
package recipes
