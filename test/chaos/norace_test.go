//go:build !race

package chaos

// buildFlags are those of this test binary: the command is watched by the race detector where the tests are.
var buildFlags []string

// grown is how much more memory a process may hold after a fault, in bytes.
const grown = 64 << 20
