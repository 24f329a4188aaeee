// Package browser opens the pages that the command writes in a real browser, and looks at them: what they say, that they ask
// nothing of any other place, and that they can be read in the dark, on a phone and by keyboard.
package browser
