// Package examples holds whole programs to copy from, a directory each. Its test runs the commands of their READMEs.
package examples
