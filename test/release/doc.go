// Package release makes a release of a clone, as scripts/release does it, and looks at what has come of it.
package release
