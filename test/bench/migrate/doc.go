// Package migrate holds the programs that the pages in docs/migrate show, before and after, and runs them: they admit the
// same requests of a simple case, a switch refills nobody, and what the others let through at worst is measured.
package migrate
