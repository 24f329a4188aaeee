// Package browser opens the pages that the command writes in a real browser, and looks at them: what they say, that they ask
// nothing of any other place, and that they can be read in the dark, on a phone and by keyboard.
//
// Pictures of them go to the directory that SCREENSHOTS names, or else to the artefacts of the test, which
// go test -artifacts keeps.
package browser
